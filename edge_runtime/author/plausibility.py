"""What the training data make of a contract's ``[plausibility]``: the limits of the manifest; it judges no other data."""

from collections.abc import Iterator, Sequence
from math import fsum, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import series
from edge_runtime.author.plausibility_asked import AskedDrift, AskedPlausibility, AskedShift, AskedStep
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.inputs import Channel, Window
from edge_runtime.spec.plausibility import Bins, Drift, Level, Plausibility, Shift, StepRate

# Where there is no window to take it from.
_BLOCK = 32
# Fewer blocks of training say nothing about how far their means spread.
_MIN_BLOCKS = 8

Numbers = NDArray[np.float64]
_Part = TypeVar("_Part")


def make_plausibility(
    asked: AskedPlausibility, channels: Sequence[Channel], window: Window | None, train: Numbers, subject: str
) -> Plausibility:
    """What the manifest says; ``train`` is float64 ``(cases, samples, row)`` in contract units, ``subject`` the contract.

    A channel that never changes in training is left out of what would divide by that.

    Raises:
        ConfigurationError: a channel that is no single number, ``step`` without a pace, too little training data.

    """
    places = _places(asked, channels, subject)
    parts = list(series(train))
    return Plausibility(
        step=_step(asked.step, places, window, parts, subject) if asked.step else None,
        shifted=_shifted(asked.shifted, places, window, parts, subject) if asked.shifted else None,
        drifted=_drifted(asked.drifted, places, parts, subject) if asked.drifted else None,
        constant=asked.constant,
    )


def _places(asked: AskedPlausibility, channels: Sequence[Channel], subject: str) -> dict[str, int]:
    able, column = {}, 0
    for channel in channels:
        if channel.form == "number" and not channel.shape:
            able[channel.name] = column
        column += channel.width
    unfit = [name for name in asked.channels if name not in able]
    needs_some = asked.step or asked.shifted or asked.drifted
    if unfit or (needs_some and not able):
        raise ConfigurationError(
            subject=f"{subject}, plausibility.channels", found=repr(unfit[0]) if unfit else "no single number",
            expected=" or ".join(able) or "a contract with a channel of a single number",
            todo="correct it, or ask for `constant` alone",
        )  # fmt: skip
    return {name: able[name] for name in asked.channels or able}


def _step(
    asked: AskedStep, places: dict[str, int], window: Window | None, parts: Sequence[Numbers], subject: str
) -> StepRate:
    period_s = window.period_s if window else None
    if period_s is None:
        raise ConfigurationError(
            subject=f"{subject}, plausibility.step", found="no window.period_s", todo="state it, or leave `step` out",
            expected="the pace of the training data, since a rate is a change in a time",
        )  # fmt: skip
    limits: dict[str, float] = {}
    for name, column in places.items():
        steps = np.concatenate([np.abs(np.diff(part[:, column])) for part in parts])
        largest = float(np.nanmax(steps)) if np.isfinite(steps).any() else 0.0
        limits |= {name: asked.factor * largest / period_s} if largest else {}
    return StepRate(limits=_some(limits, "step", "two samples in a row that differ", subject))


def _shifted(
    asked: AskedShift, places: dict[str, int], window: Window | None, parts: Sequence[Numbers], subject: str
) -> Shift:
    length = window.length if window else 1
    block = asked.samples or (length if length > 1 else _BLOCK)
    means: dict[str, Level] = {}
    for name, column in places.items():
        found = [mean for part in parts for mean in _block_means(part[:, column], block)]
        if len(found) < _MIN_BLOCKS:
            raise ConfigurationError(
                subject=f"{subject}, plausibility.shifted", found=f"{len(found)} blocks of {block} samples of {name}",
                expected=f"{_MIN_BLOCKS} in the training data at least",
                todo="set fewer `samples`, or give training data of samples in a row",
            )  # fmt: skip
        # Sums without rounding, so that no order of summation, and so no CPU, makes another bundle.
        mean = fsum(found) / len(found)
        std = sqrt(fsum((one - mean) ** 2 for one in found) / (len(found) - 1))
        means |= {name: Level(mean=mean, std=std)} if std else {}
    return Shift(samples=block, k=asked.k, h=asked.h, means=_some(means, "shifted", "means that differ", subject))


def _block_means(values: Numbers, block: int) -> Iterator[float]:
    for first in range(0, len(values) - block + 1, block):
        part = values[first : first + block]
        if np.isfinite(part).all():
            yield fsum(part.tolist()) / block


def _drifted(asked: AskedDrift, places: dict[str, int], parts: Sequence[Numbers], subject: str) -> Drift:
    bins: dict[str, Bins] = {}
    for name, column in places.items():
        values = np.concatenate([part[:, column] for part in parts])
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        # Values that were there, so that no bin is empty; of a pile of equal ones a single edge.
        cuts = np.quantile(values, np.arange(1, asked.bins) / asked.bins, method="inverted_cdf")
        edges = [edge for edge in np.unique(cuts).tolist() if edge < values.max()]
        if edges:
            counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)
            bins[name] = Bins(edges=tuple(edges), shares=tuple((counts / len(values)).tolist()))
    return Drift(
        samples=asked.samples, limit=asked.limit, bins=_some(bins, "drifted", "values that differ", subject)
    )  # fmt: skip


def _some(found: dict[str, _Part], part: str, expected: str, subject: str) -> dict[str, _Part]:
    if not found:
        raise ConfigurationError(
            subject=f"{subject}, plausibility.{part}", found="training data in which no channel does",
            expected=expected, todo=f"give such data, or leave `{part}` out",
        )  # fmt: skip
    return found
