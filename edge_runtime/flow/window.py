"""One stream's memory: its last samples, their pace, what is stuck and its flags; a plain value that survives a restart."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.reading import Rejection
from edge_runtime.spec.result import FLAG_NAMES, RATE_OFF

NS = 1_000_000_000
# A step from half a period up to one and a half counts as the next sample; outside that, one is missing or too many came.
STEP_MIN, STEP_MAX = 0.5, 1.5
# How far back a repeated sample is recognised as a duplicate where the window itself is shorter.
REMEMBERED = 64


class WindowRule:
    """What a stream needs of the manifest, resolved once."""

    __slots__ = (
        "hop",
        "length",
        "limits",
        "names",
        "period_ns",
        "rate_max_ns",
        "rate_min_ns",
        "step_max_ns",
        "step_min_ns",
    )

    def __init__(self, manifest: Manifest) -> None:
        window = manifest.window
        channels = manifest.inputs[0].channels
        self.length = window.length if window else 1
        self.hop = window.hop if window else 1
        self.names = tuple(channel.name for channel in channels)
        self.limits = tuple((index, c.stuck_after) for index, c in enumerate(channels) if c.stuck_after is not None)
        self.period_ns = round(window.period_s * NS) if window and window.period_s else None
        period, tolerance = self.period_ns or 0, window.rate_tolerance if window else 0.0
        self.step_min_ns, self.step_max_ns = round(period * STEP_MIN), round(period * STEP_MAX)
        self.rate_min_ns, self.rate_max_ns = round(period * (1 - tolerance)), round(period * (1 + tolerance))


class Stream:
    """The state of one stream.

    ``switches`` is the hysteresis state, ``seq`` the number of the next answer; ``samples`` counts what was accepted,
    ``unbroken`` how many of the newest follow each other at the contract's pace.
    """

    __slots__ = ("_at", "_flagged", "_last", "_ring", "_rule", "_runs", "_times", "break_words", "last_ns", "restarted", "samples",
                 "seq", "switches", "unbroken")  # fmt: skip

    def __init__(self, rule: WindowRule, switches: tuple[bool, ...]) -> None:
        self._rule = rule
        rows = 2 * max(rule.length, REMEMBERED)
        self._ring: NDArray[np.float64] = np.empty((rows, len(rule.names)))
        self._times: NDArray[np.int64] = np.empty(rows, dtype=np.int64)
        self._at = 0
        self._last = (math.nan,) * len(rule.names)  # which no value equals
        self._runs = [0] * len(rule.names)
        self._flagged: dict[int, int] = {}
        self.samples = self.unbroken = self.seq = 0
        self.last_ns = -(1 << 62)
        self.break_words = ""
        self.switches = switches
        self.restarted = False

    def push(self, time_ns: int, values: tuple[float, ...], flags: int) -> Rejection | bool:
        """Take one judged sample: True where it was accepted, False for a duplicate, or why time forbids it."""
        if time_ns <= self.last_ns:
            return self._old(time_ns, values)
        rule = self._rule
        if rule.period_ns is not None and self.samples:
            flags |= self._pace(time_ns - self.last_ns)
        at = self._at
        ring = self._ring
        if at == len(ring):
            keep = at // 2
            ring[:keep] = ring[at - keep :]
            self._times[:keep] = self._times[at - keep :]
            at = keep
        ring[at] = values
        self._times[at] = time_ns
        if rule.limits:
            last = self._last
            self._runs = [run + 1 if a == b else 1 for run, a, b in zip(self._runs, last, values, strict=True)]
        self._last = values
        self._at = at + 1
        self.last_ns = time_ns
        self.samples += 1
        self.unbroken += 1
        while flags:
            bit = flags & -flags
            self._flagged[bit] = self.samples
            flags ^= bit
        return True

    @property
    def is_due(self) -> bool:
        """Whether the newest sample completes a window."""
        over = self.samples - self._rule.length
        return over >= 0 and over % self._rule.hop == 0

    @property
    def is_unbroken(self) -> bool:
        """Whether the newest window has no gap and no wrong pace in it."""
        return self.unbroken >= self._rule.length

    def window(self) -> NDArray[np.float64]:
        """The newest ``length`` samples, float64 ``(time, channels)``, oldest first: a view, to be copied at once."""
        return self._ring[self._at - self._rule.length : self._at]

    def flags(self) -> int:
        """The flag bits of every sample in the newest window, together."""
        since = self.samples - self._rule.length
        bits = 0
        for bit, seen in self._flagged.items():
            if seen > since:
                bits |= bit
        return bits

    def stuck(self) -> tuple[str, ...]:
        """The channels that have held one value for longer than training ever saw."""
        rule, runs = self._rule, self._runs
        return tuple([rule.names[index] for index, limit in rule.limits if runs[index] >= limit])

    def saved(self) -> dict[str, Any]:
        """The whole state as JSON can hold it, floats exactly."""
        keep = min(self.samples, max(self._rule.length, REMEMBERED))
        first = self._at - keep
        return {
            "times": self._times[first : self._at].tolist(),
            "values": self._ring[first : self._at].tolist(),
            "runs": self._runs,
            "flagged": {FLAG_NAMES[bit]: seen for bit, seen in self._flagged.items()},
            "samples": self.samples,
            "unbroken": self.unbroken,
            "break": self.break_words,
            "switches": list(self.switches),
            "seq": self.seq,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what ``saved`` gave."""
        times: Sequence[int] = saved["times"]
        self._at = len(times)
        self._ring[: self._at] = np.reshape(saved["values"], (self._at, len(self._rule.names)))
        self._times[: self._at] = times
        if times:
            self._last = tuple(saved["values"][-1])
        self._runs = list(saved["runs"])
        bits = {name: bit for bit, name in FLAG_NAMES.items()}
        self._flagged = {bits[name]: seen for name, seen in saved["flagged"].items()}
        self.samples, self.unbroken, self.seq = saved["samples"], saved["unbroken"], saved["seq"]
        self.break_words = saved["break"]
        self.switches = tuple(saved["switches"])
        self.last_ns = times[-1] if times else -(1 << 62)

    def _pace(self, step_ns: int) -> int:
        rule = self._rule
        if rule.rate_min_ns <= step_ns <= rule.rate_max_ns:
            return 0
        if rule.step_min_ns <= step_ns < rule.step_max_ns:
            return RATE_OFF
        self.unbroken = 0
        self.break_words = f"{step_ns / NS:.6g} s from one sample to the next"
        return 0

    def _old(self, time_ns: int, values: tuple[float, ...]) -> Rejection | bool:
        first = self._at - min(self.samples, max(self._rule.length, REMEMBERED))
        known = np.flatnonzero(self._times[first : self._at] == time_ns)
        if known.size and tuple(self._ring[first + int(known[0])].tolist()) == values:
            return False
        behind = (self.last_ns - time_ns) / NS
        return Rejection(
            "time_back",
            "time of the sample",
            f"{behind:.6g} s before the newest one" if behind else "the newest one's time with other values",
            "a later time than the sample before",
            "check the logger's clock; the stream goes on with the next later sample",
        )
