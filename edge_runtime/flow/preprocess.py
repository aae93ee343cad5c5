"""From contract units to the model's input tensors, with stored constants only; nothing is ever fitted to what comes in."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.steps import plan
from edge_runtime.spec.inputs import Input
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.steps import Lookup

Windows = NDArray[np.float64]
Preprocess = Callable[[Windows], dict[str, NDArray[Any]]]

_MAX_INT64 = (1 << 63) - 1024

_PLANNED = {2: ("time", "channel"), 3: ("time", "row", "column"), 4: ("time", "row", "column", "colour")}


def make_preprocess(manifest: Manifest) -> Preprocess:
    """Resolve the manifest's steps once into one function on batches.

    It takes float64 ``(batch, time, numbers)`` in contract units, oldest sample first, a sample's row being the
    channels of all inputs side by side, and gives by name a new contiguous tensor for each input. All arithmetic is
    float64; the cast comes last.

    Raises:
        ValueError: in one sentence: a step does not fit, or the result is not of the shape that the input states.

    """
    newest_first = manifest.window is not None and manifest.window.order == "newest_first"
    parts = []
    first = 0
    for model_input in manifest.inputs:
        columns = slice(first, first + model_input.width)
        first += model_input.width
        parts.append((model_input.tensor, columns, _one_input(model_input, manifest.length, newest_first=newest_first)))
    if len(parts) == 1:
        tensor, _, make = parts[0]
        return lambda windows: {tensor: make(windows)}
    return lambda windows: {tensor: make(windows[:, :, columns]) for tensor, columns, make in parts}


def _one_input(model_input: Input, length: int, *, newest_first: bool) -> Callable[[Windows], NDArray[Any]]:
    sample = model_input.sample_shape
    planned = plan(model_input.steps, (length, *sample))
    apply = planned.apply
    axes = _axes(model_input, planned.shape)
    shape = dict(zip(axes, planned.shape, strict=True))
    _check_shape(model_input, shape)
    kept = [axis for axis in axes if axis in model_input.axes]
    squeezed = tuple(1 + at for at, axis in enumerate(axes) if axis not in model_input.axes)
    named = [axis for axis in model_input.axes if axis != "one"]
    order = tuple(["batch", *kept].index(axis) for axis in named)
    is_moved = order != tuple(range(len(order)))
    put_in = tuple(at for at, axis in enumerate(model_input.axes) if axis == "one")
    dtype = np.dtype(model_input.dtype)
    reshape = None if len(sample) == 1 else (length, *sample)
    limits = _limits(model_input)

    def make(windows: Windows) -> NDArray[Any]:
        values = windows if reshape is None else windows.reshape(len(windows), *reshape)
        values = apply(values)
        if newest_first:
            values = values[:, ::-1]
        if squeezed:
            values = values.squeeze(squeezed)
        if is_moved:
            values = values.transpose(order)
        if put_in:
            values = np.expand_dims(values, put_in)
        if limits is not None:
            values = np.clip(values, *limits)
        return values.astype(dtype, order="C")

    return make


def _limits(model_input: Input) -> tuple[float, float] | None:
    """What an integer tensor can hold, where the steps may give more: it is held at its ends, as a quantizer does.

    None where a cast cannot go wrong: into floats, and of opaque numbers that are of this very dtype.

    Raises:
        ValueError: a step may give NaN, or a missing number is passed on as NaN, which no integer can be.

    """
    dtype = np.dtype(model_input.dtype)
    if dtype.kind == "f":
        return None
    for number, step in enumerate(model_input.steps, 1):
        if step.step in {"log", "one_hot", "snv"} or (isinstance(step, Lookup) and step.otherwise is None):
            raise ValueError(
                f"input {model_input.tensor}: step {number}, {step.step}, may give NaN, and {dtype} has none"
            )
    passing = [channel.name for channel in model_input.channels if channel.when_missing == "pass"]
    if passing:
        raise ValueError(f"input {model_input.tensor}: channel {passing[0]} passes on NaN, and {dtype} has none")
    if not model_input.steps and all(channel.dtype == model_input.dtype for channel in model_input.channels):
        return None
    info = np.iinfo(dtype)
    # The highest int64 is no float64; the next one below it is.
    return float(info.min), float(min(info.max, _MAX_INT64))


def _axes(model_input: Input, shape: tuple[int, ...]) -> tuple[str, ...]:
    """What the planned dimensions are called: one array of points has 'point' where channels have 'channel'."""
    axes = _PLANNED[len(shape)]
    if len(shape) == 2 and model_input.channels[0].shape and "point" in model_input.axes:  # noqa: PLR2004 - (time, points)
        return ("time", "point")
    return axes


def _check_shape(model_input: Input, sizes: dict[str, int]) -> None:
    for axis, size in zip(model_input.axes[1:], model_input.shape[1:], strict=True):
        planned = 1 if axis == "one" else sizes.get(axis)
        if planned != size:
            raise ValueError(
                f"input {model_input.tensor}, axis {axis}: found {planned} after the steps, expected the stated {size}"
            )
    left_out = [axis for axis, size in sizes.items() if axis not in model_input.axes and size != 1]
    if left_out:
        raise ValueError(f"input {model_input.tensor}: its axes leave out {left_out[0]} of size {sizes[left_out[0]]}")
