"""Everything a contract names, read and cleaned, with the digest of each file; it proves and builds nothing."""

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from edge_runtime.author.arrays import Asked, Part, read_npz, take_part, take_reference
from edge_runtime.author.contract import Contract, load_contract
from edge_runtime.author.graph import MAX_MODEL_BYTES, Graph, clean_graph
from edge_runtime.author.lint_build import as_exported, require_onnx
from edge_runtime.author.lint_finding import Finding
from edge_runtime.author.mistake import gathered, together
from edge_runtime.errors import BundleError, ConfigurationError

_MAX_DATA_BYTES = 2 * 1024 * 1024 * 1024


class Source(NamedTuple):
    """What an author handed over; ``models`` and ``untouched`` are the graphs and the bytes of each model file.

    ``findings`` are what lints see in the models as they came.
    """

    contract: Contract
    path: Path
    digests: dict[str, str]
    models: Mapping[str, Graph]
    untouched: Mapping[str, bytes]
    prepare: Graph | None
    train: Part
    test: Part | None
    asked: Asked
    validation: Part | None = None
    findings: tuple[Finding, ...] = ()


def read_source(path: Path) -> Source:
    """Read the contract at ``path`` and every file it names, from its folder on.

    Raises:
        ConfigurationError: the contract or the data.
        BundleError: a model.

    """
    contract = load_contract(path)
    folder = path.parent
    names = {"model": contract.model, "data": contract.data.file, "reference": contract.reference.file}
    names |= {f"variant.{one.name}.model": one.model for one in contract.variant if one.model is not None}
    own = contract.preprocess_onnx
    names |= {"preprocess_onnx": own.file} if own else {}
    found, unread = gathered({key: partial(_bytes, folder / name, path, key) for key, name in names.items()})
    if unread:
        raise together(unread)
    digests = {"contract": sha256(path.read_bytes()), **{key: sha256(data) for key, data in found.items()}}
    stated = contract.provenance.model_sha256
    if stated not in (None, digests["model"]):
        raise ConfigurationError(
            subject=f"{path}, provenance.model_sha256", found=f"{stated}, but {contract.model} has {digests['model']}",
            expected="the model's own", todo="give the model that was recorded, or record this one",
        )  # fmt: skip
    data, subject = read_npz(found["data"], folder / contract.data.file), str(folder / contract.data.file)
    asked = folder / contract.reference.file
    untouched = {names[key]: data for key, data in found.items() if key.endswith("model")}
    for key, bytes_ in found.items():
        if key.endswith("model") or key == "preprocess_onnx":
            require_onnx(bytes_, str(folder / names[key]))
    recorded = read_npz(found["reference"], asked)
    splits = {"train": contract.data.train, "test": contract.data.test, "validation": contract.data.validation}
    parts, wrong = gathered(
        {key: partial(take_part, data, split, contract, subject) for key, split in splits.items() if split}
    )
    references, unlike = gathered({"reference": partial(take_reference, recorded, contract, str(asked))})
    if wrong or unlike:
        raise together([*unlike, *wrong])
    train, reference = parts["train"], references["reference"]
    findings = as_exported(contract, untouched, len(train.raw), folder)
    models = {file: _clean(data, contract, folder / file) for file, data in untouched.items()}
    return Source(
        contract=contract,
        path=path,
        digests=digests,
        models=models,
        untouched=untouched,
        prepare=_prepare(found["preprocess_onnx"], contract, folder / own.file) if own else None,
        train=train,
        test=parts.get("test"),
        validation=parts.get("validation"),
        asked=_named(reference, models[contract.model]),
        findings=findings,
    )


def sha256(data: bytes) -> str:
    """The digest of some bytes, as hexadecimal text."""
    return hashlib.sha256(data).hexdigest()


def _clean(data: bytes, contract: Contract, path: Path) -> Graph:
    axes = {name: one.batch_axis for one in contract.state for name in (one.input, one.output)}
    return clean_graph(data, subject=str(path), one_by_one=contract.batch_sizes == (1,), batch_axes=axes)


def _prepare(data: bytes, contract: Contract, path: Path) -> Graph:
    graph = clean_graph(data, subject=str(path), one_by_one=contract.batch_sizes == (1,))
    if len(graph.inputs) != 1 or graph.inputs[0].dtype not in ("float32", "float64"):
        found = ", ".join(f"{port.name} {port.dtype}" for port in graph.inputs)
        raise BundleError(
            subject=f"{path}, inputs", found=found[:120], expected="one, float32 or float64: the window in contract units",
            todo="export the preprocessing with one input (batch, time, numbers), or (batch, numbers) without a window",
        )  # fmt: skip
    return graph


def _named(asked: Asked, graph: Graph) -> Asked:
    """A tensor that the contract did not have to name, since the model has one input, under the model's name."""
    tensors = {name or graph.inputs[0].name: values for name, values in asked.tensors.items()}
    return asked._replace(tensors=tensors)


def _bytes(path: Path, contract: Path, key: str) -> bytes:
    limit = _MAX_DATA_BYTES if key in ("data", "reference") else MAX_MODEL_BYTES
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
