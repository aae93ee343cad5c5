"""From contract units to the model's input tensor, with stored constants only; nothing is ever fitted to what comes in."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.spec.manifest import Clip, Input, Manifest, MinMax, Standardize

Preprocess = Callable[[NDArray[np.float64]], NDArray[Any]]


def make_preprocess(manifest: Manifest) -> Preprocess:
    """Resolve the manifest's steps once into one function on batches.

    It takes float64 ``(batch, time, channels)`` in contract units, oldest sample first, and gives a new contiguous
    tensor in the input's own axes and dtype. All arithmetic is float64 addition, subtraction, multiplication and
    division, which IEEE 754 makes equal on every machine; the cast comes last.
    """
    model_input = manifest.inputs[0]
    length = manifest.window.length if manifest.window else 1
    steps = [_step(step, length) for step in manifest.preprocess]
    newest_first = manifest.window is not None and manifest.window.order == "newest_first"
    order = _order(model_input)
    is_moved = order != tuple(range(len(order)))
    has_time = "time" in model_input.axes
    dtype = np.dtype(model_input.dtype)

    def preprocess(values: NDArray[np.float64]) -> NDArray[Any]:
        for step in steps:
            values = step(values)
        if newest_first:
            values = values[:, ::-1]
        if not has_time:
            values = values[:, 0]
        if is_moved:
            values = values.transpose(order)
        return values.astype(dtype, order="C")

    return preprocess


def _order(model_input: Input) -> tuple[int, ...]:
    """Where each of the input's axes stands in ``(batch, time, channels)``, or in ``(batch, channels)``."""
    ours = ("batch", "time", "channel") if "time" in model_input.axes else ("batch", "channel")
    return tuple(ours.index(axis) for axis in model_input.axes)


def _step(step: Standardize | MinMax | Clip, length: int) -> Preprocess:
    # Constants of a whole window's shape: numpy then walks one long run instead of one short one a sample.
    def constant(values: Sequence[float]) -> NDArray[np.float64]:
        return np.tile(np.array(values), (length, 1))

    if isinstance(step, Standardize):
        mean, std = constant(step.mean), constant(step.std)
        return lambda values: _scaled(values, mean, std)
    low, high = constant(step.min), constant(step.max)
    if isinstance(step, MinMax):
        span = high - low
        return lambda values: _scaled(values, low, span)
    return lambda values: np.clip(values, low, high)


def _scaled(
    values: NDArray[np.float64], offset: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``(values - offset) / scale``, with one array made instead of two."""
    scaled = values - offset
    scaled /= scale
    return scaled
