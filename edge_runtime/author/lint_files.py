"""Tells a model file of another framework by its first bytes or its zip's names; it unpickles and runs nothing."""

import io
import json
import struct
import zipfile
import zlib
from typing import NamedTuple

_TORCH = "in PyTorch rebuild the module, load the weights, call eval() and torch.onnx.export(..., dynamo=True)"


class _Kind(NamedTuple):
    """One kind of file: what it is and what to do with it."""

    name: str
    todo: str

    def __str__(self) -> str:
        return f"{self.name}; {self.todo}"


TORCHSCRIPT = _Kind("a TorchScript archive", f"TorchScript cannot be served here: {_TORCH}")
TORCH_EXPORT = _Kind("a torch.export archive (.pt2)", "torch.export.load it, then torch.onnx.export(program)")
TORCH_SAVED = _Kind("a PyTorch checkpoint (torch.save)", _TORCH)
LITERT = _Kind(
    "a LiteRT (TensorFlow Lite) model", "convert it with tf2onnx (--tflite), or export the original; check the scales"
)
EXECUTORCH = _Kind("an ExecuTorch program (.pte)", f"it is compiled for one backend and leads nowhere else: {_TORCH}")
SAVED_MODEL = _Kind("a TensorFlow SavedModel", "convert its folder with tf2onnx (python -m tf2onnx.convert)")
KERAS = _Kind("a Keras model", "load it in Keras 3 and model.export('model.onnx', format='onnx')")
HDF5 = _Kind("an HDF5 file, as Keras writes weights and models", KERAS.todo)
SAFETENSORS = _Kind("safetensors: weights without a graph", f"they say nothing of how to compute: {_TORCH}")
JOBLIB = _Kind(
    "a joblib pickle",
    "it runs code when opened, so it was not; in the Python that made it, convert with skl2onnx (scikit-learn) "
    "or onnxmltools (boosted trees)",
)
PICKLE = _Kind("a pickle", JOBLIB.todo)
ORT_FORMAT = _Kind(
    "ONNX Runtime's own .ort format", "it fits one version and CPU kind: give the .onnx it was made from"
)
NPZ = _Kind("a NumPy archive: arrays, no model", "give the exported .onnx")
LFS = _Kind("a Git LFS pointer, not the file itself", "fetch the file: git lfs pull")

_FLATBUFFERS = {b"TFL3": LITERT, b"ORTM": ORT_FORMAT, b"ET12": EXECUTORCH}
# zlib's levels, then gzip: how joblib compresses.
_COMPRESSED = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b")
_HEAD = 4096
_MAX_HEADER_BYTES = 100 * 1024 * 1024  # safetensors' own limit


def recognise(data: bytes) -> str | None:
    """What a file is and what to do instead, where it is a model of another kind; None for ONNX and the unknown.

    Sources: the flatbuffer identifiers of each schema (TFL3, ORTM, ET12), the members that torch.jit.save, torch.save
    and torch.export.save write, safetensors' header, the pickle protocol's first opcode.
    """
    tests = (_flatbuffer, _zip, _saved_model, _safetensors, _pickle, _magic)
    return next((str(kind) for test in tests if (kind := test(data)) is not None), None)


def _flatbuffer(data: bytes) -> _Kind | None:
    identifier = data[4:8]
    # A later ExecuTorch schema is ET13 and so on.
    newer = EXECUTORCH if identifier[:2] == b"ET" and identifier[2:].isdigit() else None
    return _FLATBUFFERS.get(identifier, newer)


def _zip(data: bytes) -> _Kind | None:
    if data[:4] != b"PK\x03\x04":
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    names = {name.rsplit("/", 1)[-1] for name in members}
    code = any("/code/" in f"/{name}" for name in members)
    # In this order: a .pt2 may hold a data.pkl, and so does TorchScript.
    told = (
        (TORCH_EXPORT, names & {"archive_format", "serialized_exported_program.json"}),
        (TORCHSCRIPT, code and "constants.pkl" in names),
        (TORCH_SAVED, "data.pkl" in names),
        (SAVED_MODEL, "saved_model.pb" in names),
        (KERAS, {"config.json", "model.weights.h5"} <= names),
        (NPZ, names and all(name.endswith(".npy") for name in names)),
    )
    return next((kind for kind, holds in told if holds), None)


def _saved_model(data: bytes) -> _Kind | None:
    """``saved_model_schema_version = 1``, then a meta graph whose first field is a message.

    An ONNX file of IR version 1 begins alike, but its second field is its producer's name, a text.
    """
    if data[:3] != b"\x08\x01\x12":
        return None
    at = 3
    while at < len(data) and data[at] & 0x80:
        at += 1
    return SAVED_MODEL if data[at + 1 : at + 2] == b"\x0a" else None


def _safetensors(data: bytes) -> _Kind | None:
    if len(data) < 10 or data[8:9] != b"{":  # noqa: PLR2004 - eight bytes of length, then at least "{}"
        return None
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(_MAX_HEADER_BYTES, len(data) - 8):
        return None
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        return None
    return SAFETENSORS if isinstance(header, dict) else None


def _pickle(data: bytes) -> _Kind | None:
    head = data[:_HEAD]
    if head[:2] in _COMPRESSED:
        head = _inflated(data)
    # Protocol 2 to 5: opcode PROTO, then its number. Protocols 0 and 1 have no mark and are not told.
    if head[:1] != b"\x80" or head[1:2] not in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return None
    if data[2:14] == b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19":  # torch.save before 1.6: its magic number, pickled first
        return TORCH_SAVED
    compressed = head[:2] != data[:2]
    return JOBLIB if compressed or b"joblib" in data[: 16 * _HEAD] or b"sklearn" in head else PICKLE


def _inflated(data: bytes) -> bytes:
    """The first bytes of a compressed stream, never more."""
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data[: 16 * _HEAD], _HEAD)
    except zlib.error:
        return b""


def _magic(data: bytes) -> _Kind | None:
    if data[:8] == b"\x89HDF\r\n\x1a\n":
        return HDF5
    return LFS if data.startswith(b"version https://git-lfs.github.com/spec/") else None
