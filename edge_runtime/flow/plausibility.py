"""Watches one stream for what training never showed: steps, shifts, drift, an answer that stands still; it refuses nothing."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import log
from typing import Any, NamedTuple

from numpy.typing import NDArray

from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.result import CONSTANT, DRIFTED, SHIFTED, STEP, OutputValue

_NS = 1_000_000_000
# A sum that has alarmed grows no further than this many times its limit, so that it comes back when the sensor does.
_CAP = 2.0
# Half a sample more in every bin, so that an empty one is no infinite distance.
_HALF = 0.5


class _Mean(NamedTuple):
    column: int
    name: str
    mean: float
    std: float


class _Bins(NamedTuple):
    column: int
    name: str
    edges: tuple[float, ...]
    shares: tuple[float, ...]


class WatchRule:
    """What a stream's watch needs of the manifest, resolved once; ``of`` gives None where nothing is watched."""

    __slots__ = ("after", "bins", "block", "h", "k", "limits", "means", "period_ns", "psi_limit", "psi_samples")

    def __init__(self, manifest: Manifest) -> None:
        asked = manifest.plausibility
        if asked is None:
            raise TypeError("nothing to watch")
        columns, column = {}, 0
        for channel in manifest.channels:
            columns[channel.name] = column
            column += channel.width
        step, shifted, drifted = asked.step, asked.shifted, asked.drifted
        window = manifest.window
        self.period_ns = round((window.period_s or 0.0) * _NS) if window else 0
        self.limits = tuple((columns[name], limit) for name, limit in step.limits.items()) if step else ()
        self.block, self.k, self.h = (shifted.samples, shifted.k, shifted.h) if shifted else (0, 0.0, 0.0)
        self.means = tuple(
            _Mean(columns[name], name, one.mean, one.std) for name, one in (shifted.means if shifted else {}).items()
        )
        self.psi_samples, self.psi_limit = (drifted.samples, drifted.limit) if drifted else (0, 0.0)
        self.bins = tuple(
            _Bins(columns[name], name, one.edges, one.shares) for name, one in (drifted.bins if drifted else {}).items()
        )
        self.after = asked.constant.after if asked.constant else 0

    @classmethod
    def of(cls, manifest: Manifest) -> "WatchRule | None":
        """The rule of a manifest that asks for one."""
        return None if manifest.plausibility is None else cls(manifest)

    @property
    def numbers(self) -> int:
        """What one stream's watch holds, in numbers of 8 bytes."""
        return len(self.limits) + 4 * len(self.means) + sum(len(one.shares) + 2 for one in self.bins) + 4


class Watch:
    """The state of one stream's watch; what it says depends on the order of the samples alone.

    ``bits`` are the flags that hold now, of every answer until the next block says otherwise. docs/plausibility.md has
    the formulas.
    """

    __slots__ = ("_answer", "_before", "_before_ns", "_counts", "_input", "_psi", "_rule", "_run", "_seen", "_sums",
                 "_taken", "_up_down", "bits")  # fmt: skip

    def __init__(self, rule: WatchRule) -> None:
        self._rule = rule
        self.bits = 0
        self._before: tuple[float, ...] = ()
        self._before_ns = 0
        self._taken = [0] * len(rule.means)
        self._sums = [0.0] * len(rule.means)
        self._up_down = [(0.0, 0.0)] * len(rule.means)
        self._counts = [[0] * len(one.shares) for one in rule.bins]
        self._seen = [0] * len(rule.bins)
        self._psi: list[float | None] = [None] * len(rule.bins)
        self._run = 0
        self._input = self._answer = ""

    def take(self, time_ns: int, values: Sequence[float] | NDArray[Any], *, is_broken: bool) -> int:
        """Take one accepted sample in contract units: ``STEP``, or no flag. ``is_broken``: it follows a gap, or nothing."""
        rule = self._rule
        flags = self._step(time_ns, values) if rule.limits else 0
        if rule.means:
            self._shift(values, is_broken=is_broken)
        if rule.bins:
            self._drift(values)
        return flags

    def answered(self, window: NDArray[Any], outputs: Sequence[OutputValue]) -> int:
        """Take one answer and the window it was made of: ``CONSTANT``, or no flag."""
        after = self._rule.after
        if not after:
            return 0
        given = _digest(window.tobytes())
        answer = _digest(repr([(one.value, one.score) for one in outputs]).encode())
        if answer != self._answer:
            self._run = 1
        elif given != self._input:
            self._run += 1
        self._input, self._answer = given, answer
        return CONSTANT if self._run >= after else 0

    def levels(self) -> dict[str, dict[str, float]]:
        """By channel how near its limits it is: ``cusum`` in standard deviations, ``psi`` once a block was whole."""
        found: dict[str, dict[str, float]] = {}
        for mean, sums in zip(self._rule.means, self._up_down, strict=True):
            found.setdefault(mean.name, {})["cusum"] = round(max(sums), 3)
        for bins, psi in zip(self._rule.bins, self._psi, strict=True):
            if psi is not None:
                found.setdefault(bins.name, {})["psi"] = round(psi, 3)
        return found

    def saved(self) -> dict[str, Any]:
        """The whole state as JSON can hold it, floats exactly."""
        return {
            "before": list(self._before), "before_ns": self._before_ns, "taken": self._taken, "sums": self._sums,
            "up_down": [list(pair) for pair in self._up_down], "counts": self._counts, "seen": self._seen,
            "psi": self._psi, "bits": self.bits, "answers": self.saved_answers(),
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what ``saved`` gave."""
        # JSON has no NaN: what was missing comes back as null.
        self._before = tuple(float("nan") if value is None else value for value in saved["before"])
        self._before_ns, self.bits = saved["before_ns"], saved["bits"]
        self._taken, self._sums = list(saved["taken"]), list(saved["sums"])
        self._up_down = [(up, down) for up, down in saved["up_down"]]
        self._counts = [list(counts) for counts in saved["counts"]]
        self._seen, self._psi = list(saved["seen"]), list(saved["psi"])
        self.restore_answers(saved["answers"])

    def forget_answers(self) -> None:
        """Begin anew with the answers, and with nothing else."""
        self._run, self._input, self._answer = 0, "", ""

    def saved_answers(self) -> list[Any]:
        """What the answers so far left, as JSON can hold it; the samples alone do not tell it."""
        return [self._run, self._input, self._answer]

    def restore_answers(self, saved: Sequence[Any]) -> None:
        """Take over what ``saved_answers`` gave."""
        self._run, self._input, self._answer = saved

    def _step(self, time_ns: int, values: Sequence[float] | NDArray[Any]) -> int:
        rule = self._rule
        now = tuple([float(values[column]) for column, _ in rule.limits])
        flags = 0
        if self._before:
            # A sample that comes early counts as one period later: noise divided by next to nothing is no rate.
            seconds = max(time_ns - self._before_ns, rule.period_ns) / _NS
            for (_, limit), a, b in zip(rule.limits, self._before, now, strict=True):
                if abs(b - a) > limit * seconds:
                    flags = STEP
        self._before, self._before_ns = now, time_ns
        return flags

    def _shift(self, values: Sequence[float] | NDArray[Any], *, is_broken: bool) -> None:
        rule = self._rule
        if is_broken:
            self._taken, self._sums = [0] * len(rule.means), [0.0] * len(rule.means)
        is_judged = False
        for at, one in enumerate(rule.means):
            value = float(values[one.column])
            if value != value:  # noqa: PLR0124 - NaN, a missing number that is passed on
                continue
            self._sums[at] += value
            self._taken[at] += 1
            if self._taken[at] < rule.block:
                continue
            z = (self._sums[at] / rule.block - one.mean) / one.std
            up, down = self._up_down[at]
            most = _CAP * rule.h
            self._up_down[at] = (min(max(0.0, up + z - rule.k), most), min(max(0.0, down - z - rule.k), most))
            self._taken[at], self._sums[at] = 0, 0.0
            is_judged = True
        if is_judged:
            is_over = any(max(pair) > rule.h for pair in self._up_down)
            self.bits = self.bits | SHIFTED if is_over else self.bits & ~SHIFTED

    def _drift(self, values: Sequence[float] | NDArray[Any]) -> None:
        rule = self._rule
        is_judged = False
        for at, one in enumerate(rule.bins):
            value = float(values[one.column])
            if value != value:  # noqa: PLR0124 - NaN, a missing number that is passed on
                continue
            counts = self._counts[at]
            counts[bisect_left(one.edges, value)] += 1
            self._seen[at] += 1
            if self._seen[at] < rule.psi_samples:
                continue
            self._psi[at] = stability_index(counts, one.shares)
            self._counts[at], self._seen[at] = [0] * len(counts), 0
            is_judged = True
        if is_judged:
            is_over = any(psi is not None and psi > rule.psi_limit for psi in self._psi)
            self.bits = self.bits | DRIFTED if is_over else self.bits & ~DRIFTED


def stability_index(counts: Sequence[int], shares: Sequence[float]) -> float:
    """The population stability index of counts against trained shares: the sum of ``(p - q) * ln(p / q)`` over bins."""
    whole = sum(counts) + _HALF * len(counts)
    found = 0.0
    for count, q in zip(counts, shares, strict=True):
        p = (count + _HALF) / whole
        found += (p - q) * log(p / q)
    return found


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
