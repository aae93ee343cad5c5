"""What a build is held against: the framework's record, other batch sizes, the test split; it changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import Asked, Part
from edge_runtime.author.contract import Contract
from edge_runtime.author.goldens import Infer, answer_rows, first_input
from edge_runtime.author.record import Metrics
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.variant import Tolerance

# Float32 against the framework: ordinary rounding stays below 1e-6 of a standardized tensor, a wrong constant does not.
LIMIT = 1e-4
_ROWS_A_RUN = 256


def reference_proof(manifest: Manifest, asked: Asked, infer: Infer) -> tuple[float, float]:
    """The largest differences from what the author recorded: of the input tensor, and of the float model's output.

    Raises:
        ConfigurationError: the recorded arrays have other shapes than the contract leads to.

    """
    name, output = manifest.inputs[0].tensor, manifest.outputs[0].tensor
    tensor = first_input(manifest)(asked.raw)
    if asked.tensor.shape != tensor.shape:
        raise ConfigurationError(
            subject="reference, tensor", found=f"shape {asked.tensor.shape}",
            expected=f"{tensor.shape}, as the contract leads to",
            todo="correct input.axes, or write the tensor that the framework was given",
        )  # fmt: skip
    # The output is judged on the framework's own tensor, so that each half is judged by itself.
    answered = infer({name: np.ascontiguousarray(asked.tensor, tensor.dtype)})[output]
    if asked.output.size != answered.size:
        raise ConfigurationError(
            subject="reference, output", found=f"shape {asked.output.shape}", expected=f"{answered.shape}",
            todo=f"write what the framework answered at {output}",
        )  # fmt: skip
    return _largest(tensor, asked.tensor), _largest(answered, asked.output.reshape(answered.shape))


def reference_failures(contract: Contract, path: Path, tensor_off: float, output_off: float) -> Iterator[str]:
    """A line for each half that is not what the framework recorded."""
    named = contract.reference
    if not tensor_off <= LIMIT:
        yield (
            f"{path}, preprocess: found a tensor {tensor_off:.3g} off {named.tensor} of {named.file}; "
            f"expected at most {LIMIT:g}; correct the steps, their constants, the channels' order or the units"
        )
    if not output_off <= LIMIT:
        yield (
            f"{contract.model}: found an output {output_off:.3g} off {named.output} of {named.file}; "
            f"expected at most {LIMIT:g}; export the checkpoint that answered, in evaluation mode"
        )


def between_batch_sizes(manifest: Manifest, tensor: NDArray[Any], infer: Infer, output: NDArray[Any]) -> float:
    """The largest difference between a golden's output and what it is in a batch of each size that will be used."""
    name, out = manifest.inputs[0].tensor, manifest.outputs[0].tensor
    largest = 0.0
    for size in manifest.batch_sizes:
        for start in range(0, len(tensor), size):
            rows = np.arange(start, start + size) % len(tensor)
            largest = max(largest, _largest(infer({name: tensor[rows]})[out], output[rows]))
    return largest


def tolerance_failures(manifest: Manifest, apart: float) -> Iterator[str]:
    """A line where answers depend on their batch by more than the tolerance that the bundle states."""
    variant = manifest.variants[0]
    scale = variant.output_scale.get(manifest.outputs[0].tensor)
    for provider, tolerance in variant.tolerances.items():
        allowed = _allowed(tolerance, scale.step if scale else 0.0)
        if not apart <= allowed:
            yield (
                f"{variant.model}: found outputs that differ by {apart:.3g} between batch sizes; expected at most "
                f"{allowed:.3g} ({tolerance.kind}, {provider}); "
                "state a wider tolerance with its evidence, or fewer batch sizes"
            )


def measure(manifest: Manifest, test: Part, float_infer: Infer, infer: Infer) -> Metrics:
    """Mean absolute errors on the test split, and how far the bundle's answers are from the float model's."""
    output = manifest.outputs[0]
    tensor = first_input(manifest)(test.raw)
    exact, ours = (_answers(manifest, tensor, run) for run in (float_infer, infer))
    apart = np.abs(ours - exact)
    target = test.target
    return Metrics(
        unit=output.unit,
        cases=len(tensor),
        mae_float32=None if target is None else float(np.abs(exact - target).mean()),
        mae_bundle=None if target is None else float(np.abs(ours - target).mean()),
        mean_difference=float(apart.mean()),
        max_difference=float(apart.max()),
    )


def clip_warnings(manifest: Manifest) -> tuple[str, ...]:
    """A line for each channel whose tolerated band is wider than what the int8 input can hold."""
    variant, model_input = manifest.variants[0], manifest.inputs[0]
    clip = variant.input_clip.get(model_input.tensor)
    if clip is None:
        return ()
    length = manifest.window.length if manifest.window else 1
    preprocess = first_input(manifest)
    channels = model_input.channels
    found = []
    for end in ("min", "max"):
        at = np.array([getattr(channel.tolerated, end) for channel in channels])
        tensor = preprocess(np.broadcast_to(at, (1, length, len(channels))).astype(np.float64))[0]
        axis = model_input.axes.index("channel") - 1
        by_channel = np.moveaxis(tensor, axis, 0).reshape(len(channels), -1)[:, 0]
        found += [
            f"channel {channel.name}: tolerated {end} {limit:g} {channel.unit} is {value:.3g} in the tensor, the int8 "
            f"input holds {clip.min:.3g} to {clip.max:.3g}; beyond it answers are flagged 'clipped'"
            for channel, limit, value in zip(channels, at, by_channel, strict=True)
            if not clip.min <= value <= clip.max
        ]
    return tuple(found)


def _answers(manifest: Manifest, tensor: NDArray[Any], infer: Infer) -> NDArray[np.float64]:
    name = manifest.inputs[0].tensor
    parts = [
        answer_rows(manifest, infer({name: tensor[start : start + _ROWS_A_RUN]}))[0][manifest.outputs[0].name]
        for start in range(0, len(tensor), _ROWS_A_RUN)
    ]
    return np.concatenate(parts)


def _allowed(tolerance: Tolerance, step: float) -> float:
    """The largest difference a tolerance allows where the value itself adds nothing."""
    return {"exact": 0.0, "steps": (tolerance.steps or 0) * step, "float": tolerance.atol or 0.0}[tolerance.kind]


def _largest(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max())
