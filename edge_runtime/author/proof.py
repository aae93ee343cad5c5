"""What a build is held against: the framework's record, other batch sizes, a split; it changes nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import Asked, Part
from edge_runtime.author.contract import ArrayNames, Contract
from edge_runtime.author.lint_finding import Finding
from edge_runtime.author.lint_integer import CLIPPED
from edge_runtime.author.passes import answer_rows, outputs_for, through
from edge_runtime.author.record import Metrics
from edge_runtime.author.record_stage import WANTED, Stage, stage_of
from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.run.comparison import channels_beyond
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.variant import Tolerance

Tensors = Mapping[str, NDArray[Any]]

# Float32 against the framework: ordinary rounding stays below 1e-6 of a standardized tensor, a wrong constant does not.
LIMIT = 1e-4
# Float16 has 11 bits: near 4, an answer of a few layers is off by some steps of 2e-3.
_FLOAT16_LIMIT = 1e-2


class Apart(NamedTuple):
    """How far one input's tensor is from the framework's, and in which channels by most: text, empty where none is told."""

    off: float
    channels: str


class Measured(NamedTuple):
    """By output its errors on one split, and what the bundle said to each of its cases."""

    metrics: dict[str, Metrics]
    said: Tensors


class OutputProof(NamedTuple):
    """By output tensor how far it is from the record, and of those too far the stage that the record is of, if any fits."""

    off: dict[str, float]
    stages: dict[str, Stage]


def tensor_proof(model: Model, asked: Asked) -> dict[str, Apart]:
    """By input the largest difference between the contract's tensor and the one the author recorded.

    Raises:
        ConfigurationError: the recorded arrays have other names or shapes than the contract leads to.

    """
    tensors = through(model, asked.raw).tensors
    inputs = {one.tensor: one for one in model.manifest.inputs}
    _require_names("tensor", asked.tensors, list(inputs))
    off = {}
    for name, one in inputs.items():
        ours, theirs = tensors[name], asked.tensors[name]
        if theirs.shape != ours.shape:
            raise ConfigurationError(
                subject="reference, tensor", found=f"shape {theirs.shape}",
                expected=f"{ours.shape}, as the contract leads to",
                todo="correct input.axes, or write the tensor that the framework was given",
            )  # fmt: skip
        off[name] = Apart(_largest(ours, theirs), channels_beyond(ours, theirs, 0.0, tensor_limit(one.dtype), one))
    return off


def tensor_limit(dtype: str) -> float:
    """How far an input's tensor may be from the framework's."""
    return _FLOAT16_LIMIT if dtype == "float16" else LIMIT


def output_proof(model: Model, asked: Asked) -> OutputProof:
    """The largest difference between the source model's answers and the framework's.

    It is judged on the framework's own tensors, so that each half is judged by itself; with a state, on the raw cases,
    since what came before the last tensor is not recorded.

    Raises:
        ConfigurationError: as `tensor_proof`.

    """
    manifest = model.manifest
    names = list(dict.fromkeys(output.tensor for output in manifest.outputs))
    _require_names("output", asked.outputs, names)
    if manifest.state:
        answered: Tensors = through(model, asked.raw).outputs
    else:
        kinds = {one.tensor: one.dtype for one in manifest.inputs}
        given = {name: np.ascontiguousarray(values, kinds[name]) for name, values in asked.tensors.items()}
        answered = outputs_for(model, given, 1 if manifest.batch_sizes == (1,) else len(asked.raw))
    proof = OutputProof({}, {})
    for name in names:
        ours, theirs = answered[name], asked.outputs[name]
        if theirs.size != ours.size:
            stage = stage_of(model, name, ours, theirs)
            raise ConfigurationError(
                subject="reference, output", found=stage.found if stage else f"shape {theirs.shape}",
                expected=WANTED if stage else f"{ours.shape}",
                todo=stage.todo if stage else f"write what the framework answered at {name}",
            )  # fmt: skip
        proof.off[name] = _largest(ours, theirs.reshape(ours.shape))
        is_met = proof.off[name] <= output_limit(model, name)
        stage = None if is_met else stage_of(model, name, ours, theirs)
        if stage is not None:
            proof.stages[name] = stage
    return proof


def tensor_failures(contract: Contract, manifest: Manifest, path: Path, apart: Mapping[str, Apart]) -> Iterator[str]:
    """A line for each input that is not what the framework was given."""
    named = contract.reference
    for one in manifest.inputs:
        found, limit = apart[one.tensor], tensor_limit(one.dtype)
        if not found.off <= limit:
            is_bare = not one.steps and contract.preprocess_onnx is None
            todo = (
                "the contract has no preprocess steps: add what your training code did to the raw values"
                if is_bare
                else "correct the steps, their constants, the channels' order or the units"
            )
            yield (
                f"{path}, preprocess: found a tensor {found.off:.3g} off {_array(named.tensor, one.tensor)} of "
                f"{named.file}{found.channels}; expected at most {limit:g}; {todo}"
            )


def output_failures(contract: Contract, file: str, model: Model, proof: OutputProof) -> Iterator[str]:
    """A line for each output of one source model that is not what the framework answered."""
    named = contract.reference
    for tensor, apart in proof.off.items():
        limit, stage = output_limit(model, tensor), proof.stages.get(tensor)
        if stage is not None:
            yield (
                f"{named.file}, {_array(named.output, tensor)}: found {stage.found}; [reference] wants {WANTED}; "
                f"{stage.todo}"
            )
        elif not apart <= limit:
            yield (
                f"{file}: found an output {apart:.3g} off {_array(named.output, tensor)} of {named.file}; "
                f"expected at most {limit:g}; export the checkpoint that answered, in evaluation mode"
            )


def between_batch_sizes(model: Model, tensors: Tensors, outputs: Tensors) -> dict[str, float]:
    """By output the largest difference between a golden's output and what it is in a batch of each size to be used."""
    largest = dict.fromkeys(outputs, 0.0)
    for size in model.manifest.batch_sizes:
        found = outputs_for(model, tensors, size)
        for name, values in outputs.items():
            largest[name] = max(largest[name], _largest(found[name], values))
    return largest


def tolerance_failures(model: Model, apart: Mapping[str, float]) -> Iterator[str]:
    """A line where answers depend on their batch by more than the tolerance that the bundle states."""
    variant = model.variant
    for provider, tolerance in variant.tolerances.items():
        for name, off in apart.items():
            scale = variant.output_scale.get(name)
            allowed = _allowed(tolerance, scale.step if scale else 1.0)
            if not off <= allowed:
                yield (
                    f"{variant.model}: found outputs that differ by {off:.3g} between batch sizes; expected at most "
                    f"{allowed:.3g} ({tolerance.kind}, {provider}); "
                    "state a wider tolerance with its evidence, or fewer batch sizes"
                )


def measure(source: Model, model: Model, part: Part) -> Measured:
    """By output, errors on a split, how far the bundle's answers are from the source model's, and the answers."""
    exact, ours = (answer_rows(one.manifest, through(one, part.raw).outputs)[0] for one in (source, model))
    metrics = {
        output.name: _metrics(output, exact[output.name], ours[output.name], part.targets.get(output.name))
        for output in model.manifest.outputs
    }
    return Measured(metrics, ours)


def clipped(model: Model) -> tuple[Finding, ...]:
    """A finding for each channel, or input of another layout, whose tolerated band is wider than the int8 input holds."""
    found: list[Finding] = []
    manifest = model.manifest
    preprocess = model.preprocess()
    for model_input in manifest.inputs:
        clip = model.variant.input_clip.get(model_input.tensor)
        if clip is None:
            continue
        channels = model_input.channels
        held = f"the int8 input holds {clip.min:.3g} to {clip.max:.3g}"
        for end in ("min", "max"):
            row = [number for one in manifest.channels for number in [_end(one.tolerated, end)] * one.width]
            window = np.broadcast_to(np.array(row, float), (1, manifest.length, len(row)))
            tensor = preprocess(window)[model_input.tensor][0]
            axis = model_input.axes.index("channel") - 1 if "channel" in model_input.axes else -1
            if axis < 0 or tensor.shape[axis] != len(channels):
                low, high = float(tensor.min()), float(tensor.max())
                if not clip.min <= low <= high <= clip.max:
                    told = f"at the tolerated {end} {low:.3g} to {high:.3g} in the tensor"
                    found.append(CLIPPED.found_at(f"input {model_input.tensor}", f"{told}, {held}"))
                continue
            by_channel = np.moveaxis(tensor, axis, 0).reshape(len(channels), -1)[:, 0]
            found += [
                CLIPPED.found_at(
                    f"channel {channel.name}",
                    f"its tolerated {end} {getattr(channel.tolerated, end):g} {channel.unit} is {value:.3g} in the tensor, {held}",
                )
                for channel, value in zip(channels, by_channel, strict=True)
                if channel.tolerated is not None and not clip.min <= value <= clip.max
            ]
    return tuple(found)


def _end(tolerated: Any, end: str) -> float:
    return float(getattr(tolerated, end)) if tolerated is not None else 0.0


def _metrics(output: Output, exact: NDArray[Any], ours: NDArray[Any], target: NDArray[Any] | None) -> Metrics:
    if output.form == "label":
        return Metrics(
            unit=output.unit,
            cases=len(ours),
            accuracy_float32=None if target is None else float((exact == target).mean()),
            accuracy_bundle=None if target is None else float((ours == target).mean()),
            labels_changed=int((exact != ours).sum()),
        )
    apart = np.abs(ours - exact)
    return Metrics(
        unit=output.unit,
        cases=len(ours),
        mae_float32=None if target is None else float(np.abs(exact - target).mean()),
        mae_bundle=None if target is None else float(np.abs(ours - target).mean()),
        mean_difference=float(apart.mean()),
        max_difference=float(apart.max()),
    )


def _require_names(what: str, given: Tensors, wanted: list[str]) -> None:
    if sorted(given) != sorted(wanted):
        raise ConfigurationError(
            subject=f"reference, {what}", found=", ".join(name or "one array" for name in given) or "none",
            expected=f"an array for each of {', '.join(wanted)}", todo=f"name them in a table by {what}",
        )  # fmt: skip


def _array(named: ArrayNames, tensor: str) -> str:
    return named if isinstance(named, str) else named.get(tensor, tensor)


def output_limit(model: Model, tensor: str) -> float:
    """Another number format than the framework's may move an answer; by how much, the author says for whole numbers."""
    tolerance = next(iter(model.variant.tolerances.values()))
    if tolerance.kind == "steps" and tensor not in model.variant.output_scale:
        return max(LIMIT, float(tolerance.steps or 0))
    return _FLOAT16_LIMIT if model.variant.precision == "float16" else LIMIT


def _allowed(tolerance: Tolerance, step: float) -> float:
    """The largest difference a tolerance allows where the value itself adds nothing."""
    return {"exact": 0.0, "steps": (tolerance.steps or 0) * step, "float": tolerance.atol or 0.0}[tolerance.kind]


def _largest(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference of two arrays; of texts 1 where one differs, and NaN equals NaN."""
    if ours.dtype.kind in "OU" or theirs.dtype.kind in "OU":
        return float((ours.astype(str) != theirs.astype(str)).any())
    left, right = ours.astype(np.float64), theirs.astype(np.float64)
    off = np.where(np.isnan(left) & np.isnan(right), 0.0, np.abs(left - right))
    # NaN in one of the two alone is as far as a number can be, and a record holds finite numbers.
    return float(np.nan_to_num(off, nan=np.finfo(np.float64).max).max(initial=0.0))
