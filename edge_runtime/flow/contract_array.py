"""Arrays, categories and opaque numbers against their channel's contract; it knows no stream and fills nothing in."""

import reprlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.reading import Gridded, Rejection
from edge_runtime.spec.result import BEYOND_TOLERATED, EXTRAPOLATING, RESAMPLED

Floats = NDArray[np.float64]
# Two grids are the same where each place is equal to this share of the grid's span: what printing rounds away.
SAME_GRID = 1e-6
# Lowest and highest number of each dtype an opaque channel may have, and whether its numbers are whole. An int64 beyond
# 2**53 is no exact float64, so it could not be carried.
_LIMITS = {
    "int8": (-128.0, 127.0, True),
    "uint8": (0.0, 255.0, True),
    "int64": (-(2.0**53), 2.0**53, True),
    "float16": (-65504.0, 65504.0, False),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38, False),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308, False),
}


def converted(
    channel: Channel, value: Any, a: float, b: float, flags: int, grid_a: float = 1.0, grid_b: float = 0.0
) -> tuple[Floats | Rejection, int]:
    """An array of numbers in contract units, ``a * x + b``, flat, with its flag bits; the worst number decides.

    A ``Gridded`` value's places become ``grid_a * place + grid_b`` in the channel's grid unit before they are compared.
    """
    if isinstance(value, Gridded) and channel.grid:
        placed = _on_grid(channel, value, grid_a, grid_b)
        if isinstance(placed, Rejection):
            return placed, 0
        numbers, bits = placed
        flags |= bits
    else:
        taken = _flat(channel, value)
        if isinstance(taken, Rejection):
            return taken, 0
        numbers = taken
    with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused by name below
        numbers = a * numbers + b
    low, high = float(numbers.min()), float(numbers.max())
    if not np.isfinite([low, high]).all():
        return _rejection(channel, "not_finite", "NaN or infinity among its numbers", "finite numbers"), 0
    trained, tolerated, physical = channel.bands
    if not (physical.min <= low and high <= physical.max):
        found = f"{low:.6g} to {high:.6g} {channel.unit}"
        return _rejection(channel, "beyond_physical", found, f"{physical.min:g} to {physical.max:g} {channel.unit}"), 0
    if not (trained.min <= low and high <= trained.max):
        flags |= EXTRAPOLATING
        if not (tolerated.min <= low and high <= tolerated.max):
            flags |= BEYOND_TOLERATED
    return numbers, flags


def taken_as_is(channel: Channel, value: Any) -> Floats | Rejection:
    """Opaque numbers, flat; they must be what the channel's dtype can hold exactly."""
    numbers = _flat(channel, value)
    if isinstance(numbers, Rejection):
        return numbers
    dtype = np.dtype(channel.dtype)
    if not np.isfinite(numbers).all():
        return _rejection(channel, "not_finite", "NaN or infinity among its numbers", "finite numbers")
    low, high, whole = _LIMITS[dtype.name]
    is_whole = not whole or bool((numbers == np.rint(numbers)).all())
    if not is_whole or numbers.min() < low or numbers.max() > high:
        found = f"{numbers.min():.6g} to {numbers.max():.6g}" + ("" if is_whole else ", not all whole")
        return _rejection(channel, "beyond_dtype", found, f"numbers of {channel.dtype}")
    return numbers


def categorised(channel: Channel, value: Any) -> float | Rejection:
    """The place of a category's word."""
    if value is None:
        return _rejection(channel, "missing", "no value", "one of its categories")
    if isinstance(value, str) and value in channel.categories:
        return float(channel.categories.index(value))
    if isinstance(value, str) and channel.unknown is not None:
        return float(channel.unknown)
    known = ", ".join(channel.categories[:8]) + (" ..." if len(channel.categories) > 8 else "")  # noqa: PLR2004 - as many as one reads
    return _rejection(channel, "unknown_category", reprlib.repr(value), f"one of {known}")


def _flat(channel: Channel, value: Any) -> Floats | Rejection:
    if value is None:
        return _rejection(channel, "missing", "no value", f"{channel.width} numbers")
    if isinstance(value, Gridded):
        return _rejection(channel, "not_a_number", "values with a grid", f"{channel.width} numbers without one")
    numbers = _numbers(value)
    if numbers is None:
        return _rejection(channel, "not_a_number", reprlib.repr(value), f"{channel.width} numbers")
    if numbers.size != channel.width or (numbers.ndim > 1 and numbers.shape != channel.shape):
        return _rejection(channel, "wrong_shape", f"numbers of shape {numbers.shape}", f"shape {channel.shape}")
    return numbers.ravel()


def _numbers(value: Any) -> Floats | None:
    """Numbers of any array as float64; None where they are none: numpy would also read '5', True and None as such."""
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError, OverflowError):  # rows of unequal length, or what refuses to be an array
        return None
    return numbers.astype(np.float64) if numbers.dtype.kind in "iuf" else None


def _on_grid(channel: Channel, value: Gridded, a: float, b: float) -> tuple[Floats, int] | Rejection:
    """The numbers on the channel's own grid, resampled where that is allowed and nothing has to be invented."""
    numbers, places = _numbers(value.values), _numbers(value.grid)
    if numbers is None or places is None:
        return _rejection(channel, "not_a_number", "no numbers", "two arrays of numbers, values and grid")
    with np.errstate(over="ignore", invalid="ignore"):
        places = a * places + b
    if numbers.ndim != 1 or numbers.shape != places.shape or len(places) < 2:  # noqa: PLR2004 - a span needs two places
        return _rejection(channel, "wrong_shape", f"{numbers.shape} values at {places.shape} places", "one a place")
    wanted = np.array(channel.grid)
    span = wanted[-1] - wanted[0]
    if places.shape == wanted.shape and bool((np.abs(places - wanted) <= SAME_GRID * span).all()):
        return numbers, 0
    found = f"{len(places)} points from {places[0]:.6g} to {places[-1]:.6g}"
    expected = f"{len(wanted)} points from {wanted[0]:g} to {wanted[-1]:g} {channel.grid_unit}"
    rises = bool((places[1:] > places[:-1]).all())
    covers = places[0] <= wanted[0] + SAME_GRID * span and places[-1] >= wanted[-1] - SAME_GRID * span
    if channel.other_grid != "resample" or not (rises and covers and np.isfinite(places[[0, -1]]).all()):
        return _rejection(channel, "other_grid", found, expected)
    return np.interp(wanted, places, numbers), RESAMPLED


def _rejection(channel: Channel, reason: str, found: str, expected: str) -> Rejection:
    return Rejection(reason, f"channel {channel.name}", found, expected, "check the sensor and how it is bound")
