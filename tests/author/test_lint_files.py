"""Files of other frameworks, told by their first bytes; a pickle among them must not be opened."""

import gzip
import io
import json
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.author.lint_files import recognise
from tests.author.conftest import tiny_model

THIRD_PARTY = Path(__file__).parents[3] / "shared" / "third_party"


class Trap:
    """A pickle of this fails the test if anybody opens it."""

    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("raise AssertionError('unpickled')",))


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, pickle.dumps(Trap()))
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros(3))
    return stream.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0" * 4


SAVED_MODEL = b"\x08\x01\x12\x90\x03\x0a\x20" + b"\0" * 0x190
TRAP = pickle.dumps(Trap())
FILES = {
    "TorchScript": zipped("net/data.pkl", "net/code/__torch__/net.py", "net/constants.pkl", "net/version"),
    "torch.export archive": zipped("net/archive_format", "net/models/model.json", "net/data/weights/model.pt"),
    "(.pt2)": zipped("serialized_exported_program.json", "serialized_state_dict.pt", "version"),
    "PyTorch checkpoint": zipped("net/data.pkl", "net/data/0", "net/version"),
    "torch.save": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + TRAP,
    "LiteRT": b"\x1c\0\0\0TFL3" + b"\0" * 64,
    "ONNX Runtime's own": b"\x1c\0\0\0ORTM" + b"\0" * 64,
    "ExecuTorch": b"\x1c\0\0\0ET12eh00" + b"\0" * 64,
    "TensorFlow SavedModel": SAVED_MODEL,
    "tf2onnx": zipped("saved_model.pb", "variables/variables.index"),
    "Keras": zipped("metadata.json", "config.json", "model.weights.h5"),
    "HDF5": b"\x89HDF\r\n\x1a\n" + b"\0" * 64,
    "safetensors": safetensors(),
    "a joblib pickle": b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x0djoblib.numpy_pickle" + TRAP,
    "skl2onnx": zlib.compress(TRAP),
    "boosted trees": gzip.compress(TRAP),
    "a pickle": TRAP,
    "NumPy": npz(),
    "git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
}


@pytest.mark.parametrize("words", FILES)
def test_each_kind_is_told_and_answered_with_what_to_do(words: str) -> None:
    told = recognise(FILES[words])
    assert told is not None
    assert words in told
    what, _, todo = told.partition("; ")
    assert what
    assert todo
    assert "\n" not in told


@pytest.mark.parametrize(
    "data",
    [
        tiny_model().SerializeToString(),
        b"",
        b"PK\x03\x04 no zip after all",
        zipped("readme.txt"),
        b"\x08\x01\x12\x07pytorch" + b"\0" * 64,  # an ONNX file of IR version 1: a producer's name comes second
        struct.pack("<Q", 2**40) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        b"\x78\x9c no zlib",
        b"\x1c\0\0\0ETxx" + b"\0" * 64,
    ],
)
def test_onnx_and_the_unknown_are_left_alone(data: bytes) -> None:
    assert recognise(data) is None


@given(st.binary(max_size=200), st.sampled_from([b"", *(data[:16] for data in FILES.values())]))
def test_no_bytes_make_a_traceback(data: bytes, head: bytes) -> None:
    assert recognise(head + data) is None or isinstance(recognise(head + data), str)


def test_a_compressed_bomb_is_opened_no_further_than_its_head() -> None:
    assert recognise(zlib.compress(b"\0" * 50_000_000)) is None


@pytest.mark.skipif(not THIRD_PARTY.is_dir(), reason="the collection of other people's models is not here")
def test_models_in_the_wild() -> None:
    for path in THIRD_PARTY.rglob("*.tflite"):
        assert "LiteRT" in str(recognise(path.read_bytes())), path
    for path in THIRD_PARTY.rglob("*.onnx"):
        assert recognise(path.read_bytes()) is None, path
