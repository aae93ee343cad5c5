"""The constant and the factor that bring one column of numbers nearest to another; it judges neither."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]

_MIN_CASES = 20
# In squares, as of a gain against what is left: five standard errors.
_BEYOND_CHANCE = 25.0
_HALF = 0.5
# A simpler way is as good where it leaves no more than so many times what the best leaves.
_NEARLY = 1.25


class Line(NamedTuple):
    """``values * factor + shift``, and the mean absolute error that is left then, in the target's unit."""

    factor: float
    shift: float
    error: float

    def told(self, unit: str) -> str:
        """In words, ``unit`` with a blank before it or nothing."""
        words = [f"times {self.factor:.4g}"] if self.factor != 1 else []
        if self.shift or not words:
            words.append(f"{'plus' if self.shift >= 0 else 'minus'} {abs(self.shift):.4g}{unit}")
        return " ".join(words)


def mending_line(values: Column, target: Column) -> Line | None:
    """The simplest line that takes away more than half of the mean absolute error, far beyond chance; None without one.

    A constant alone comes first, then a factor alone, then both. Both columns are ``(cases,)``; fewer than 20 cases
    show nothing.
    """
    if len(values) < _MIN_CASES:
        return None
    lines = [_line(values, target, *way) for way in _ways(values, target)]
    best = min(line.error for line in lines)
    off = target - values
    for freedom, line in zip((1, 1, 2), lines, strict=True):
        left = target - (values * line.factor + line.shift)
        gained, square = float(np.square(off).sum() - np.square(left).sum()), float(np.square(left).sum())
        is_sure = gained * (len(values) - freedom) > _BEYOND_CHANCE * freedom * square
        if line.error <= _NEARLY * best and line.error < _HALF * np.abs(off).mean() and is_sure:
            return line
    return None


def nearest_line(values: Column, target: Column) -> Line:
    """The line by least squares, its shift by the median; the factor is 1 of values that never change."""
    return _line(values, target, _slope(values, target))


def _ways(values: Column, target: Column) -> list[tuple[float, float | None]]:
    power = float(np.square(values).sum())
    through_zero = float((values * target).sum()) / power if power else 1.0
    return [(1.0, None), (through_zero, 0.0), (_slope(values, target), None)]


def _slope(values: Column, target: Column) -> float:
    centred = values - values.mean()
    spread = float(np.square(centred).sum())
    return float((centred * (target - target.mean())).sum()) / spread if spread else 1.0


def _line(values: Column, target: Column, factor: float, shift: float | None = None) -> Line:
    moved = target - values * factor
    constant = float(np.median(moved)) if shift is None else shift
    return Line(factor, constant, float(np.abs(moved - constant).mean()))
