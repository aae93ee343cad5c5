"""contract.toml, a model and data to the files of a bundle, each stage proven on the way; it writes nothing."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import Asked, Part, read_npz, take_part, take_reference
from edge_runtime.author.contract import Contract, load_contract
from edge_runtime.author.goldens import answer_rows, choose_cases, first_input, make_goldens
from edge_runtime.author.graph import MAX_MODEL_BYTES, Graph, clean_graph
from edge_runtime.author.promise import GOLDENS_NAME, describe_recipe, make_channels, make_manifest, make_variant
from edge_runtime.author.proof import (
    LIMIT,
    between_batch_sizes,
    clip_warnings,
    measure,
    reference_failures,
    reference_proof,
    tolerance_failures,
)
from edge_runtime.author.quantize import RECIPE, evenly_spaced, quantize, read_grid
from edge_runtime.author.record import Built, CalibrationRecord, Proof, Record, differences, tool_versions
from edge_runtime.author.trial import boot_failures
from edge_runtime.bundle.golden import encode as encode_goldens
from edge_runtime.bundle.write import sums
from edge_runtime.engine.session import Session, open_session
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import Manifest, encode, parse
from edge_runtime.spec.variant import Quantization

_MAX_DATA_BYTES = 2 * 1024 * 1024 * 1024

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build: the bundle's files by name, its record, and what failed (then nothing may be written)."""

    files: Mapping[str, bytes]
    record: Record
    failures: tuple[str, ...]


class _Source(NamedTuple):
    """Everything the contract names, read."""

    contract: Contract
    path: Path
    digests: dict[str, str]
    graph: Graph
    train: Part
    test: Part | None
    asked: Asked


class _Made(NamedTuple):
    """The model that will ship, the manifest around it, and what it was quantized from."""

    graph: Graph
    manifest: Manifest
    calibration: CalibrationRecord | None


def build(path: Path, recorded: Record | None, tell: Tell) -> Build:
    """Build from the contract at ``path``; with ``recorded`` by its settings, and to its bytes.

    ``tell`` is called with a word on each stage. Gates that fail are in ``failures``.

    Raises:
        ConfigurationError: the contract or the data.
        BundleError: the model.
        DeviceError: no onnxruntime.

    """
    tell("reading contract, model and data")
    source = _read(path)
    float_manifest = _manifest(source, source.graph, None)
    preprocess = first_input(float_manifest)
    float_session = open_session(source.graph.data)
    tell("asking the model what its framework was asked")
    tensor_off, output_off = reference_proof(float_manifest, source.asked, float_session)
    failures = list(reference_failures(source.contract, path, tensor_off, output_off))
    made = _Made(source.graph, float_manifest, None)
    if source.contract.precision == "int8":
        tell("quantizing")
        earlier = recorded.calibration if recorded else None
        made = _quantized(source, preprocess, earlier.ranges if earlier else None)
    tell("making goldens")
    session = open_session(made.graph.data)
    files, apart = _goldens(source, made, session)
    failures += tolerance_failures(made.manifest, apart)
    tell("measuring on the test split")
    proof = Proof(
        cases=len(source.asked.raw), tensor=tensor_off, float_output=output_off, limit=LIMIT, between_batch_sizes=apart
    )
    record = Record(
        schema="edge-runtime/build/1",
        bundle=_built(source.contract, files),
        tools=tool_versions(),
        inputs=source.digests,
        calibration=made.calibration,
        proof=proof,
        metrics=measure(made.manifest, source.test, float_session, session) if source.test else None,
        warnings=clip_warnings(made.manifest),
    )
    tell("booting the bundle as a device will")
    failures += boot_failures(files)
    if recorded is not None:
        failures += differences(recorded, record)
    return Build(files, record, tuple(failures))


def _read(path: Path) -> _Source:
    contract = load_contract(path)
    folder = path.parent
    names = {"model": contract.model, "data": contract.data.file, "reference": contract.reference.file}
    found = {key: _bytes(folder / name, path, key) for key, name in names.items()}
    digests = {"contract": _sha256(path.read_bytes()), **{key: _sha256(data) for key, data in found.items()}}
    stated = contract.provenance.model_sha256
    if stated not in (None, digests["model"]):
        raise ConfigurationError(
            subject=f"{path}, provenance.model_sha256", found=f"{stated}, but {contract.model} has {digests['model']}",
            expected="the model's own", todo="give the model that was recorded, or record this one",
        )  # fmt: skip
    data, subject = read_npz(found["data"], folder / contract.data.file), str(folder / contract.data.file)
    asked = folder / contract.reference.file
    return _Source(
        contract=contract,
        path=path,
        digests=digests,
        graph=clean_graph(
            found["model"], subject=str(folder / contract.model), one_by_one=contract.batch_sizes == (1,)
        ),
        train=take_part(data, contract.data.train, contract, subject),
        test=take_part(data, contract.data.test, contract, subject) if contract.data.test else None,
        asked=take_reference(read_npz(found["reference"], asked), contract, str(asked)),
    )


def _bytes(path: Path, contract: Path, key: str) -> bytes:
    limit = MAX_MODEL_BYTES if key == "model" else _MAX_DATA_BYTES
    try:
        size = path.stat().st_size
        if size <= limit:
            return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            subject=f"{contract}, {key}", found=f"{path}: {error.strerror or error}",
            expected="a file that can be read", todo="give its path, from the contract's folder on",
        ) from error  # fmt: skip
    raise ConfigurationError(
        subject=f"{contract}, {key}",
        found=f"{path} of {size} bytes",
        expected=f"at most {limit}",
        todo="give a smaller file",
    )


def _manifest(source: _Source, graph: Graph, quantization: Quantization | None) -> Manifest:
    return make_manifest(
        source.contract,
        source.path,
        make_channels(source.contract, source.path, source.train.raw),
        source_sha256=source.digests["model"],
        graph=graph,
        variant=make_variant(source.contract, graph, read_grid(graph), quantization),
    )


def _quantized(source: _Source, preprocess: Callable[[NDArray[np.float64]], NDArray[Any]], ranges: str | None) -> _Made:
    rows = evenly_spaced(len(source.train.raw), source.contract.calibration.samples)
    tensors = preprocess(source.train.raw[rows])
    result = quantize(source.graph, tensors, subject=source.contract.model, ranges=ranges)
    described = describe_recipe(
        read_grid(result.graph), samples=len(rows), calibration_sha256=_sha256(tensors.tobytes())
    )
    calibration = CalibrationRecord(recipe=RECIPE, cases=len(rows), of=len(source.train.raw), ranges=result.ranges)
    return _Made(result.graph, _manifest(source, result.graph, described), calibration)


def _goldens(source: _Source, made: _Made, session: Session) -> tuple[dict[str, bytes], float]:
    """The bundle's files, and the largest difference between batch sizes."""
    contract, manifest = source.contract, made.manifest
    name = manifest.inputs[0].tensor
    reference = session({name: first_input(manifest)(source.asked.raw)})
    answers = answer_rows(manifest, reference)[0][manifest.outputs[0].name]
    cases = choose_cases(manifest, source.asked.raw, answers, contract.goldens.count)
    if len(cases.raw) < contract.goldens.count:
        raise ConfigurationError(
            subject=f"{source.path.parent / contract.reference.file}, {contract.reference.raw}",
            found=f"{len(source.asked.raw)} cases", todo="let the framework answer more cases",
            expected=f"{contract.goldens.count - cases.origin.count(-1)} for {contract.goldens.count} goldens",
        )  # fmt: skip
    goldens = make_goldens(manifest, cases, session, source.asked.output, contract.goldens.units)
    apart = between_batch_sizes(manifest, goldens.tensors[name], session, goldens.outputs[manifest.outputs[0].tensor])
    data = encode(manifest)
    parse(data)
    files = {
        "manifest.json": data,
        manifest.variants[0].model: made.graph.data,
        GOLDENS_NAME: encode_goldens(goldens),
    }
    return files, apart


def _built(contract: Contract, files: Mapping[str, bytes]) -> Built:
    return Built(
        id=contract.id,
        version=contract.version,
        digest=_sha256(sums(files)),
        files={name: _sha256(data) for name, data in sorted(files.items())},
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
