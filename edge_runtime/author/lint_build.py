"""The lint of one build: its models as exported, as they answer and as quantized, judged by its waivers; it opens no session."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import Asked
from edge_runtime.author.confusable import Quantity
from edge_runtime.author.contract import Contract, ContractChannel, Range
from edge_runtime.author.lint import RULES, lint
from edge_runtime.author.lint_behaviour import Evidence, Infer, behaviour
from edge_runtime.author.lint_facts import Facts, facts_of
from edge_runtime.author.lint_files import recognise
from edge_runtime.author.lint_finding import Finding, judge
from edge_runtime.author.lint_nodes import parse_model
from edge_runtime.engine.session import version
from edge_runtime.errors import BundleError
from edge_runtime.flow.model import Model

_ROW = "row"


class Judged(NamedTuple):
    """A line for each error that is not waived, and for each warning, waiver and waiver without a finding."""

    failures: tuple[str, ...]
    warnings: tuple[str, ...]


def require_onnx(data: bytes, subject: str) -> None:
    """Refuse a model file of another kind with what to do about it.

    Raises:
        BundleError: naming the kind.

    """
    told = recognise(data)
    if told is not None:
        kind, _, todo = told.partition("; ")
        raise BundleError(subject=subject, found=kind, expected="ONNX", todo=todo)


def as_exported(contract: Contract, models: Mapping[str, bytes], train_cases: int, folder: Path) -> tuple[Finding, ...]:
    """The findings of each model file as the author gave it, and of the contract's units; ``models`` is by file.

    Raises:
        BundleError: one is no ONNX model.

    """
    quantities = [_quantity(one) for one in contract.channels if one.form == "number" and one.unit != "1"]
    found: list[Finding] = []
    for variant in contract.variants:
        file = contract.model_of(variant)
        model = parse_model(models[file], subject=str(folder / file))
        found += lint(model, _facts(contract, train_cases, file, variant.precision), quantities=quantities)
    return tuple(dict.fromkeys(found))


def as_answering(contract: Contract, model: Model, asked: Asked, limits: Mapping[str, float]) -> tuple[Finding, ...]:
    """The findings of a model that is run, alone and among others, on the tensors that the framework was given.

    ``limits`` is by output how far two answers may be apart. A model with a state is left to the goldens, since what
    came before the recorded tensor is not known; so is an output of texts.
    """
    if contract.state:
        return ()
    kinds = {one.tensor: one.dtype for one in model.manifest.inputs}
    tensors = {name: np.ascontiguousarray(values, kinds[name]) for name, values in asked.tensors.items()}
    rows = np.arange(len(asked.raw), dtype=np.int64)[:, None]
    found: list[Finding] = []
    for name, answered in asked.outputs.items():
        if answered.dtype.kind not in "OU":
            evidence = Evidence(_by_row(model.infer, tensors), _ROW, rows, name, answered, limits[name])
            found += behaviour(evidence, contract.batch_sizes)
    return tuple(dict.fromkeys(found))


def as_quantized(contract: Contract, data: bytes, file: str, train_cases: int) -> tuple[Finding, ...]:
    """The findings of an int8 model as the quantizer left it."""
    return lint(parse_model(data, subject=file), _facts(contract, train_cases, file, "int8"))


def judged(contract: Contract, path: Path, found: Sequence[Finding]) -> Judged:
    """Sort findings by the contract's ``[waive]``.

    Raises:
        ConfigurationError: a waiver of an unknown id.

    """
    verdict = judge(dict.fromkeys(found), contract.waive, RULES, str(path))
    unused = (f"{path.name}, waive.{name}: nothing to waive was found; remove it" for name in verdict.unused)
    return Judged(
        tuple(map(str, verdict.errors)), (*map(str, verdict.warnings), *map(str, verdict.waived), *unused)
    )  # fmt: skip


def _facts(contract: Contract, train_cases: int, file: str, precision: str) -> Facts:
    major, minor = version().split(".")[:2]
    facts = facts_of(contract, train_cases=train_cases, runtime=(int(major), int(minor)))
    # A search converts a float32 model itself: the author's file need not hold the float16 that will ship.
    searched = contract.gates is not None and file == contract.model and precision == "float16"
    return replace(facts, model=file, precision="float32" if searched else precision)


def _by_row(infer: Infer, tensors: Mapping[str, NDArray[Any]]) -> Infer:
    """A model of any number of inputs as one of the number of the case, so that all of them move together."""

    def run(feed: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        at = feed[_ROW][:, 0]
        return infer({name: np.ascontiguousarray(values[at]) for name, values in tensors.items()})

    return run


def _quantity(channel: ContractChannel) -> Quantity:
    tolerated, physical = _stated(channel.tolerated), _stated(channel.physical)
    return Quantity(
        channel.name, channel.unit or "1", tolerated, channel.trained or tolerated, physical, channel.kind,
        channel.when_undeclared == "assume",
    )  # fmt: skip


def _stated(band: Range | None) -> Range:
    if band is None:
        raise TypeError("a number has its bands")
    return band
