"""Weighted sums in one fixed order of float64 additions, equal on every machine; never a dot product, whose order is its own."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shape = tuple[int, ...]
Apply = Callable[[Floats], Floats]
# What a step does, with the shape it gives; or, where it cannot take the shape it was offered, the one it expects.
Fit = tuple[Apply, Shape] | str


class Taps(NamedTuple):
    """A sparse matrix ``(out, in)`` by rows: each takes what stands at ``places`` and weighs it; both are ``(out, taps)``."""

    places: NDArray[np.intp]
    weight: Floats


def weighted(values: Floats, axis: int, taps: Taps) -> Floats:
    """The matrix times ``values`` along ``axis``, tap by tap."""
    along = [1] * values.ndim
    along[axis] = -1
    total = _tap(values, axis, taps, 0, along)
    for tap in range(1, taps.places.shape[1]):
        total += _tap(values, axis, taps, tap, along)
    return total


def summed(values: Floats) -> Floats:
    """The sum over the last axis, which is kept with length 1: the upper half is added to the lower until one is left."""
    total = values
    while (count := total.shape[-1]) > 1:
        half = (count + 1) // 2
        folded = total[..., :half].copy()
        folded[..., : count - half] += total[..., half:]
        total = folded
    return total


def from_rows(rows: Sequence[Sequence[tuple[int, float]]]) -> Taps:
    """Taps of rows of ``(index, weight)``; a shorter row repeats its last index with weight 0."""
    longest = max(len(row) for row in rows)
    filled = [[*row, *[(row[-1][0], 0.0)] * (longest - len(row))] for row in rows]
    return Taps(
        np.array([[index for index, _ in row] for row in filled], dtype=np.intp),
        np.array([[weight for _, weight in row] for row in filled], dtype=np.float64),
    )


def area(size: int, wanted: int) -> Taps:
    """Means over pixel areas, ``size`` pixels to ``wanted``.

    Pixel ``i`` of the new ones covers ``i * size .. (i + 1) * size`` where an old one is ``wanted`` wide: overlaps are
    whole numbers, and each weight is rounded once.
    """
    rows = []
    for new in range(wanted):
        first, last = new * size, (new + 1) * size
        olds = range(first // wanted, (last - 1) // wanted + 1)
        rows.append([(old, (min(last, (old + 1) * wanted) - max(first, old * wanted)) / size) for old in olds])
    return from_rows(rows)


def bilinear(size: int, wanted: int) -> Taps:
    """Linear between pixel centres, ``size`` pixels to ``wanted``; beyond the outermost centre, that pixel.

    The centre of new pixel ``i`` lies at ``((2 i + 1) size / wanted - 1) / 2``: OpenCV's INTER_LINEAR, and PyTorch's
    ``interpolate(mode="bilinear", align_corners=False, antialias=False)``.
    """
    rows = []
    for new in range(wanted):
        whole, part = divmod((2 * new + 1) * size - wanted, 2 * wanted)
        low, high = max(whole, 0), min(whole + 1, size - 1)
        share = part / (2 * wanted)
        rows.append([(low, 1.0 - share), (high, share)])
    return from_rows(rows)


def linear(source: Sequence[float], target: Sequence[float]) -> Taps:
    """Linear interpolation at ``target`` of values at ``source``; both strictly rising or falling, target within."""
    rising = source[0] < source[-1]
    x = np.array(source if rising else source[::-1])
    gaps = [high - low for low, high in pairwise(x.tolist())]
    low = np.clip(np.searchsorted(x, target, side="right") - 1, 0, len(gaps) - 1)
    rows = []
    for index, wanted in zip(low.tolist(), target, strict=True):
        share = (wanted - float(x[index])) / gaps[index]
        ends = (index, index + 1) if rising else (len(gaps) - index, len(gaps) - index - 1)
        rows.append([(ends[0], 1.0 - share), (ends[1], share)])
    return from_rows(rows)


def _tap(values: Floats, axis: int, taps: Taps, tap: int, along: list[int]) -> Floats:
    taken = values.take(taps.places[:, tap], axis=axis)
    taken *= taps.weight[:, tap].reshape(along)
    return taken
