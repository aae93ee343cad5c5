"""From contract units to the model's input tensors, with stored constants only; nothing is ever fitted to what comes in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.steps import plan
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel, Input
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.steps import Lookup

Windows = NDArray[np.float64]
Preprocess = Callable[[Windows], dict[str, NDArray[Any]]]

_PLANNED = {2: ("time", "channel"), 3: ("time", "row", "column"), 4: ("time", "row", "column", "colour")}


def make_preprocess(manifest: Manifest) -> Preprocess:
    """Resolve the manifest's steps once into one function on batches.

    It takes float64 ``(batch, time, numbers)`` in contract units, oldest sample first, a sample's row being the
    channels of all inputs side by side, and gives by name a new contiguous tensor for each input. All arithmetic is
    float64; the cast comes last, and rounds to the nearest where the tensor holds whole numbers.

    Raises:
        ValueError: in one sentence: a step does not fit, the result is not of the shape that the input states, or an
            end of a physical band is no number that the tensor can hold.

    """
    parts = list(_parts(manifest))
    _check_ends(manifest, parts)
    if len(parts) == 1:
        tensor, _, make, cast, *_ = parts[0]
        return lambda windows: {tensor: cast(make(windows))}
    return lambda windows: {one.tensor: one.cast(one.make(windows[:, :, one.columns])) for one in parts}


def may_be_not_finite(manifest: Manifest) -> bool:
    """Whether finite values in contract units may give a tensor that is not: a logarithm, a word of no table."""
    steps = [step.step for model_input in manifest.inputs for step in model_input.steps]
    return manifest.preprocess_onnx is not None or not _ALWAYS_FINITE.issuperset(steps)


def trained_stay_within(manifest: Manifest, bands: Mapping[str, Band]) -> bool:
    """Whether no window of samples inside the trained bands leaves ``bands``, given by input tensor in its own units.

    False also where it is not known: the ends of a band speak for all between only if each number is a plain one of the
    sample itself, and goes through rising or falling steps by itself.
    """
    steps = [step.step for model_input in manifest.inputs for step in model_input.steps]
    plain = all(one.form == "number" and not one.shape and one.when_missing == "refuse" for one in manifest.channels)
    if not plain or manifest.preprocess_onnx is not None or not _MONOTONIC.issuperset(steps):
        return False
    make = make_preprocess(manifest)
    trained = [channel.bands[0] for channel in manifest.channels]
    for row in ([band.min for band in trained], [band.max for band in trained]):
        tensors = make(np.tile(row, (1, manifest.length, 1)))
        for name, band in bands.items():
            if not (band.min <= tensors[name].min() and tensors[name].max() <= band.max):
                return False
    return True


class _Part(NamedTuple):
    """One input: its columns of a row, the float64 values of its tensor in the tensor's axes, and the cast."""

    tensor: str
    columns: slice
    make: Callable[[Windows], Windows]
    cast: Callable[[Windows], NDArray[Any]]
    limits: tuple[float, float]
    is_whole: bool


def _parts(manifest: Manifest) -> Iterator[_Part]:
    newest_first = manifest.window is not None and manifest.window.order == "newest_first"
    is_muted = may_be_not_finite(manifest)
    first = 0
    for model_input in manifest.inputs:
        columns = slice(first, first + model_input.width)
        first += model_input.width
        make = _one_input(model_input, manifest.length, newest_first=newest_first, is_muted=is_muted)
        dtype = np.dtype(model_input.dtype)
        yield _Part(model_input.tensor, columns, make, _cast(dtype), _LIMITS[dtype.name], dtype.kind in "iu")


def _cast(dtype: np.dtype[Any]) -> Callable[[Windows], NDArray[Any]]:
    if dtype.kind in "iu":
        # Beyond its ends a number is held there, as a quantizer does.
        low, high = _LIMITS[dtype.name]
        return lambda values: np.clip(np.rint(values), low, high).astype(dtype, order="C")
    return lambda values: values.astype(dtype, order="C")


def _check_ends(manifest: Manifest, parts: Sequence[_Part]) -> None:
    """Whatever passes the physical bands must be a number in the tensor, or one sample could stop the service.

    A tensor of whole numbers holds at its ends what lies beyond. The arithmetic steps are monotonic in each channel, so
    the ends of its band, the others at rest, tell of all between.
    """
    if may_be_not_finite(manifest):
        return  # there every row is looked at before it is run
    rest = np.array([_at_rest(channel) for channel in manifest.channels for _ in range(channel.width)])
    column = 0
    for channel in manifest.channels:
        for end in () if channel.physical is None else (channel.physical.min, channel.physical.max):
            row = rest.copy()
            row[column : column + channel.width] = end
            windows = np.broadcast_to(row, (1, manifest.length, len(row)))
            for part in (one for one in parts if not one.is_whole):
                with np.errstate(all="ignore"):
                    values = part.make(windows[:, :, part.columns])
                low, high = part.limits
                bad = values[~((low <= values) & (values <= high))]
                if bad.size:
                    raise ValueError(
                        f"channel {channel.name}: physical {end:g} is {bad[0]:g} in the tensor {part.tensor}, "
                        f"which holds {low:g} to {high:g}"
                    )
        column += channel.width


def _at_rest(channel: Channel) -> float:
    return 0.0 if channel.tolerated is None else (channel.tolerated.min + channel.tolerated.max) / 2


_ALWAYS_FINITE = frozenset({"standardize", "min_max", "clip", "scale", "lag", "difference", "colours", "resize"})
_MONOTONIC = frozenset({"standardize", "min_max", "clip", "scale"})
_LIMITS = {
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38), "float16": (-65504.0, 65504.0),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308),
    "int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int64": (-(2.0**53), 2.0**53),
}  # fmt: skip


def _one_input(model_input: Input, length: int, *, newest_first: bool, is_muted: bool) -> Callable[[Windows], Windows]:
    sample = model_input.sample_shape
    planned = plan(model_input.steps, (length, *sample))
    apply = planned.apply if is_muted else planned.bare
    axes = _axes(model_input, planned.shape)
    shape = dict(zip(axes, planned.shape, strict=True))
    _check_shape(model_input, shape)
    kept = [axis for axis in axes if axis in model_input.axes]
    squeezed = tuple(1 + at for at, axis in enumerate(axes) if axis not in model_input.axes)
    named = [axis for axis in model_input.axes if axis != "one"]
    order = tuple(["batch", *kept].index(axis) for axis in named)
    is_moved = order != tuple(range(len(order)))
    put_in = tuple(at for at, axis in enumerate(model_input.axes) if axis == "one")
    reshape = None if len(sample) == 1 else (length, *sample)
    _check_whole(model_input)

    if reshape is None and not newest_first and not squeezed and not put_in:
        # What most contracts need, and every sample pays for.
        return (lambda windows: apply(windows).transpose(order)) if is_moved else apply

    def make(windows: Windows) -> Windows:
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
        return values

    return make


def _check_whole(model_input: Input) -> None:
    """Refuse steps that may give NaN to a tensor of whole numbers, which has none."""
    dtype = np.dtype(model_input.dtype)
    if dtype.kind == "f":
        return
    for number, step in enumerate(model_input.steps, 1):
        if step.step in {"log", "one_hot", "snv"} or (isinstance(step, Lookup) and step.otherwise is None):
            raise ValueError(
                f"input {model_input.tensor}: step {number}, {step.step}, may give NaN, and {dtype} has none"
            )
    passing = [channel.name for channel in model_input.channels if channel.when_missing == "pass"]
    if passing:
        raise ValueError(f"input {model_input.tensor}: channel {passing[0]} passes on NaN, and {dtype} has none")


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
