"""A list of steps made into one function on batches, everything resolved beforehand; nothing is fitted to what comes in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edge_runtime.flow.steps_picture import fit_colours, fit_resize
from edge_runtime.flow.steps_series import (
    fit_difference,
    fit_filter,
    fit_lag,
    fit_resample,
    fit_savitzky_golay,
    fit_snv,
    fit_spectrum,
)
from edge_runtime.flow.steps_sums import Apply, Fit, Floats, Shape
from edge_runtime.spec.steps import Clip, Log, Lookup, MinMax, OneHot, SavitzkyGolay, Scale, Standardize, Step

# 128 MB of float64: one input no model at the edge takes, and a list of lags or columns soon exceeds.
MAX_VALUES = 1 << 24
_FEWEST_DIMENSIONS, _MOST_DIMENSIONS = 2, 4
_LINE, _GREY = 2, 3  # dimensions of (time, channels) and of (time, rows, columns)
_SMALL = 1 << 12
_OVER_TIME = frozenset({"lag", "difference", "filter", "spectrum"})
_LOGARITHMS: Mapping[str, Callable[[Floats], Floats]] = {"e": np.log, "2": np.log2, "10": np.log10}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a list of steps does to one batch, and the shape it gives.

    ``apply`` takes float64 ``(batch, *taken)`` and gives float64 ``(batch, *shape)``, each row as if it had come alone,
    bit for bit. It never writes to its input; what it gives may be a view of it. It raises ValueError for another shape.
    ``bare`` is the same for values known not to overflow: it leaves numpy's warnings as they are, and takes 1 us less.
    """

    apply: Apply
    bare: Apply
    shape: Shape
    taken: Shape


def plan(steps: Sequence[Step], shape: Shape) -> Plan:
    """Resolve ``steps`` for inputs of ``shape``, which is ``(time, *sample)`` without the batch.

    A sample is ``(channels,)``, ``(points,)`` of a spectrum, ``(rows, columns)`` or ``(rows, columns, colours)``.

    Raises:
        ValueError: in one sentence: which step does not fit, the shape it was given and the one it expects.

    """
    if not _FEWEST_DIMENSIONS <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 1 or prod(shape) > MAX_VALUES:
        raise ValueError(
            f"steps: found shape {_shown(shape)}, expected (time, channels), (time, points), (time, rows, columns) or "
            f"(time, rows, columns, colours), none of it 0 and at most {MAX_VALUES} values"
        )
    applied: list[Apply] = []
    given, has_time = shape, True
    for number, step in enumerate(steps, 1):
        match _fit(step, given, has_time=has_time):
            case str(expected):
                raise ValueError(f"step {number}, {step.step}: found shape {_shown(given)}, expected {expected}")
            case (apply, wanted):
                applied.append(apply)
                given = wanted
        has_time = has_time and step.step != "spectrum"
    bare = _chained(tuple(applied), shape)
    return Plan(_muted(bare), bare, given, shape)


def _fit(step: Step, shape: Shape, *, has_time: bool) -> Fit:
    is_over_time = step.step in _OVER_TIME or (isinstance(step, SavitzkyGolay) and step.along == "time")
    if is_over_time and not has_time:
        return "(time, ...), but a spectrum made frequency of the time"
    fit = _FITS[step.step](step, shape)
    if isinstance(fit, tuple) and prod(fit[1]) > MAX_VALUES:
        return f"one that gives at most {MAX_VALUES} values, not {_shown(fit[1])}"
    return fit


def _chained(applied: tuple[Apply, ...], shape: Shape) -> Apply:
    def apply(values: Floats) -> Floats:
        if values.shape[1:] != shape:
            raise ValueError(f"steps: found shape {_shown(values.shape)}, expected {_shown(('batch', *shape))}")
        for one in applied:
            values = one(values)
        return values

    return apply


def _muted(bare: Apply) -> Apply:
    def apply(values: Floats) -> Floats:
        # A value that overflows becomes infinite and is refused downstream; it needs no warning on the way.
        with np.errstate(over="ignore", invalid="ignore"):
            return bare(values)

    return apply


def _fit_standardize(step: Standardize, shape: Shape) -> Fit:
    mean, std = np.array(step.mean), np.array(step.std)
    if misfit := _misfit(mean, shape):
        return misfit
    mean, std = _repeated(mean, shape), _repeated(std, shape)
    return (lambda values: _scaled(values, mean, std)), shape


def _fit_min_max(step: MinMax, shape: Shape) -> Fit:
    low = np.array(step.min)
    span = np.array(step.max) - low
    if misfit := _misfit(low, shape):
        return misfit
    low, span = _repeated(low, shape), _repeated(span, shape)
    return (lambda values: _scaled(values, low, span)), shape


def _fit_clip(step: Clip, shape: Shape) -> Fit:
    low, high = np.array(step.min), np.array(step.max)
    return _misfit(low, shape) or (lambda values: np.clip(values, low, high), shape)


def _fit_scale(step: Scale, shape: Shape) -> Fit:
    a, b = step.a, step.b

    def apply(values: Floats) -> Floats:
        scaled = values * a
        scaled += b
        return scaled

    return apply, shape


def _fit_log(step: Log, shape: Shape) -> Fit:
    logarithm = _LOGARITHMS[step.base]
    offset, floor = step.offset, step.floor

    def apply(values: Floats) -> Floats:
        # Contiguous: numpy's logarithm takes another path, with other last bits, over strided memory.
        argument = np.add(values, offset, order="C")
        argument[argument < floor] = np.nan
        return logarithm(argument)

    return apply, shape


def _fit_lookup(step: Lookup, shape: Shape) -> Fit:
    channel = step.channel
    if len(shape) != _LINE or channel >= shape[1]:
        return f"(time, channels) with {channel + 1} channels or more"
    order = np.argsort(np.array(step.keys))
    keys, meanings = np.array(step.keys)[order], np.array(step.values)[order]
    otherwise = np.nan if step.otherwise is None else step.otherwise

    def apply(values: Floats) -> Floats:
        column = values[..., channel]
        at = np.minimum(np.searchsorted(keys, column), len(keys) - 1)
        replaced = np.where(keys[at] == column, meanings[at], otherwise)
        replaced[~np.isfinite(column)] = np.nan
        looked_up = values.copy()
        looked_up[..., channel] = replaced
        return looked_up

    return apply, shape


def _fit_one_hot(step: OneHot, shape: Shape) -> Fit:
    channel = step.channel
    if len(shape) != _LINE or channel >= shape[1]:
        return f"(time, channels) with {channel + 1} channels or more"
    codes = np.arange(step.count, dtype=np.float64)

    def apply(values: Floats) -> Floats:
        hot = (values[..., channel, np.newaxis] == codes).astype(np.float64)
        hot[~hot.any(axis=-1)] = np.nan
        return np.concatenate([values[..., :channel], hot, values[..., channel + 1 :]], axis=-1)

    return apply, (shape[0], shape[1] - 1 + step.count)


def _misfit(constants: Floats, shape: Shape) -> str:
    """What is expected where the constants are not one each of the last axis; a grey picture has one in all."""
    if len(shape) == _GREY:
        return "" if len(constants) == 1 else f"one constant for a grey picture, not {len(constants)}"
    wanted = _shown(("time", *shape[1:-1], len(constants)))
    return "" if len(constants) == shape[-1] else f"{wanted}, as it has {len(constants)} constants"


def _repeated(constants: Floats, shape: Shape) -> Floats:
    """The constants in the shape of a batch of one, if that is small: numpy then has equal shapes and repeats nothing."""
    return np.broadcast_to(constants, (1, *shape)).copy() if prod(shape) <= _SMALL else constants


def _scaled(values: Floats, offset: Floats, scale: Floats) -> Floats:
    """``(values - offset) / scale``, with one array made instead of two."""
    scaled = values - offset
    scaled /= scale
    return scaled


def _shown(shape: Sequence[object]) -> str:
    return f"({', '.join(str(size) for size in shape)})"


_FITS: Mapping[str, Callable[[Any, Shape], Fit]] = {
    "standardize": _fit_standardize,
    "min_max": _fit_min_max,
    "clip": _fit_clip,
    "scale": _fit_scale,
    "log": _fit_log,
    "lookup": _fit_lookup,
    "one_hot": _fit_one_hot,
    "lag": fit_lag,
    "difference": fit_difference,
    "filter": fit_filter,
    "spectrum": fit_spectrum,
    "snv": fit_snv,
    "savitzky_golay": fit_savitzky_golay,
    "resample": fit_resample,
    "resize": fit_resize,
    "colours": fit_colours,
}
