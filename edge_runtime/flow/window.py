"""One stream's memory: its last samples, their pace, what is stuck and its flags; a plain value that survives a restart."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.plausibility import Watch, WatchRule
from edge_runtime.spec.inputs import Channel, StateTensor
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.reading import Rejection
from edge_runtime.spec.result import FLAG_NAMES, RATE_OFF

NS = 1_000_000_000
# A step from half a period up to one and a half counts as the next sample; outside that, one is missing or too many came.
STEP_MIN, STEP_MAX = 0.5, 1.5
# How far back a repeated sample is recognised as a duplicate where the window itself is shorter.
REMEMBERED = 64
# Fewer of wide samples: a stream must not cost more than a few megabytes beyond its window.
MAX_REMEMBERED_NUMBERS = 1 << 16

_LONG_AGO_NS = 1 << 62

Row = tuple[float, ...] | NDArray[np.float64]


class WindowRule:
    """What a stream needs of the manifest, resolved once."""

    __slots__ = ("has_hold", "hop", "length", "limits", "period_ns", "rate_max_ns", "rate_min_ns", "remembered", "states",
                 "step_max_ns", "step_min_ns", "watch", "width")  # fmt: skip

    def __init__(self, manifest: Manifest) -> None:
        window = manifest.window
        self.length = manifest.length
        self.hop = window.hop if window else 1
        self.width = manifest.width
        self.remembered = max(self.length, min(REMEMBERED, MAX_REMEMBERED_NUMBERS // self.width), 1)
        self.limits = tuple(_limits(manifest.channels))
        self.has_hold = any(channel.when_missing == "hold" for channel in manifest.channels)
        self.states = tuple(State(one) for one in manifest.state)
        self.watch = WatchRule.of(manifest)
        self.period_ns = round(window.period_s * NS) if window and window.period_s else None
        period, tolerance = self.period_ns or 0, window.rate_tolerance if window else 0.0
        self.step_min_ns, self.step_max_ns = round(period * STEP_MIN), round(period * STEP_MAX)
        self.rate_min_ns, self.rate_max_ns = round(period * (1 - tolerance)), round(period * (1 + tolerance))

    @property
    def stream_numbers(self) -> int:
        """What one stream holds, in numbers of 8 bytes: its samples twice over with their times, runs, states."""
        places = (1 if self.limits else 0) + (1 if self.has_hold else 0)
        states = sum(state.fresh.size for state in self.states)
        watched = self.watch.numbers if self.watch else 0
        return 2 * self.remembered * (self.width + 1) + places * self.width + states + watched


class State:
    """One recurrent state: how it begins, whether a gap begins it anew, and where a batch puts its dimension."""

    __slots__ = ("batch_axis", "fresh", "input", "output", "resets")

    def __init__(self, state: StateTensor) -> None:
        self.input, self.output, self.batch_axis = state.input, state.output, state.batch_axis
        self.fresh: NDArray[Any] = np.full(state.shape, state.initial, dtype=state.dtype)
        self.resets = state.reset == "gap"


def _limits(channels: Sequence[Channel]) -> Iterator[tuple[int, int, str]]:
    """Where in a row each channel with a stuck rule stands, its limit and its name."""
    column = 0
    for channel in channels:
        if channel.stuck_after is not None:
            yield column, channel.stuck_after, channel.name
        column += channel.width


class Stream:
    """The state of one stream.

    ``switches`` is the hysteresis state, ``seq`` the number of the next answer; ``samples`` counts what was accepted,
    ``unbroken`` how many of the newest follow each other at the contract's pace. ``oddities`` counts what was odd about
    the times of its samples since it was made; no journal keeps it. ``watch`` is there where the contract asks for one.
    """

    __slots__ = (
        "_at",
        "_flagged",
        "_fresh_ns",
        "_last",
        "_ring",
        "_rule",
        "_runs",
        "_times",
        "break_words",
        "last_ns",
        "oddities",
        "restarted",
        "samples",
        "seq",
        "state",
        "switches",
        "unbroken",
        "watch",
    )  # fmt: skip

    def __init__(self, rule: WindowRule, switches: tuple[bool, ...]) -> None:
        self._rule = rule
        rows = 2 * rule.remembered
        self._ring: NDArray[np.float64] = np.empty((rows, rule.width))
        self._times: NDArray[np.int64] = np.empty(rows, dtype=np.int64)
        self._at = 0
        width = rule.width if rule.limits else 0
        self._last: Row = (math.nan,) * width  # which no value equals
        self._runs = [0] * width
        self._fresh_ns = [-_LONG_AGO_NS] * rule.width if rule.has_hold else []
        self.state = {one.input: one.fresh for one in rule.states}
        self._flagged: dict[int, int] = {}
        self.samples = self.unbroken = self.seq = 0
        self.last_ns = -_LONG_AGO_NS
        self.break_words = ""
        self.switches = switches
        self.restarted = False
        self.oddities: Counter[str] = Counter()
        self.watch = None if rule.watch is None else Watch(rule.watch)

    def push(self, time_ns: int, values: Row, flags: int, held: Sequence[int] = ()) -> Rejection | bool:
        """Take one judged sample: True where it was accepted, False for a duplicate, or why time forbids it.

        ``held`` are the places whose number is an older one, held.
        """
        if time_ns <= self.last_ns:
            return self._old(time_ns, values)
        rule = self._rule
        if rule.period_ns is not None and self.samples:
            flags |= self._pace(time_ns - self.last_ns)
        if self.watch is not None:
            flags |= self.watch.take(time_ns, values, is_broken=self.unbroken == 0)
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
        if rule.has_hold:
            self._fresh_ns = [before if column in held else time_ns for column, before in enumerate(self._fresh_ns)]
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
        """The flag bits of every sample in the newest window, together, and those of the stream as it is."""
        since = self.samples - self._rule.length
        bits = 0 if self.watch is None else self.watch.bits
        for bit, seen in self._flagged.items():
            if seen > since:
                bits |= bit
        return bits

    def stuck(self) -> tuple[str, ...]:
        """The channels that have held one value for longer than training ever saw."""
        runs = self._runs
        return tuple([name for column, limit, name in self._rule.limits if runs[column] >= limit])

    def held(self, column: int, time_ns: int, hold_ns: int) -> float | None:
        """The last number at this place of the row, if it is no older than ``hold_ns``."""
        if not self.samples or time_ns - self._fresh_ns[column] > hold_ns:
            return None
        return self._ring.item(self._at - 1, column)

    def saved(self) -> dict[str, Any]:
        """The whole state as JSON can hold it, floats exactly."""
        first = self._at - min(self.samples, self._rule.remembered)
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
            "fresh_ns": self._fresh_ns,
            "state": self.saved_state(),
        } | ({} if self.watch is None else {"watch": self.watch.saved()})

    def begin_anew(self, switches: tuple[bool, ...]) -> None:
        """Forget what came of a model's answers; the next one is flagged as after a restart."""
        self.state = {one.input: one.fresh for one in self._rule.states}
        self.switches, self.restarted = switches, True
        if self.watch is not None:
            self.watch.forget_answers()

    def saved_state(self) -> dict[str, list[Any]]:
        """The recurrent state alone, as JSON can hold it: float32 goes through float64 and back without loss."""
        return {name: values.ravel().tolist() for name, values in self.state.items()}

    def restore_state(self, saved: Mapping[str, Sequence[Any]]) -> None:
        """Take over what ``saved_state`` gave."""
        for one in self._rule.states:
            self.state[one.input] = np.array(saved[one.input], dtype=one.fresh.dtype).reshape(one.fresh.shape)

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what ``saved`` gave."""
        times: Sequence[int] = saved["times"]
        self._at = len(times)
        # JSON has no NaN: what was missing comes back as null, which numpy reads as NaN.
        self._ring[: self._at] = np.reshape(np.array(saved["values"], dtype=np.float64), (self._at, self._rule.width))
        self._times[: self._at] = times
        if times and self._rule.limits:
            self._last = tuple(self._ring[self._at - 1].tolist())
        self._runs = list(saved["runs"])
        bits = {name: bit for bit, name in FLAG_NAMES.items()}
        self._flagged = {bits[name]: seen for name, seen in saved["flagged"].items()}
        self.samples, self.unbroken, self.seq = saved["samples"], saved["unbroken"], saved["seq"]
        self.break_words = saved["break"]
        self.switches = tuple(saved["switches"])
        self._fresh_ns = list(saved["fresh_ns"])
        self.restore_state(saved["state"])
        if self.watch is not None:
            self.watch.restore(saved["watch"])
        self.last_ns = times[-1] if times else -_LONG_AGO_NS

    def _pace(self, step_ns: int) -> int:
        rule = self._rule
        if rule.rate_min_ns <= step_ns <= rule.rate_max_ns:
            return 0
        if rule.step_min_ns <= step_ns < rule.step_max_ns:
            self.oddities["rate_off"] += 1
            return RATE_OFF
        self.unbroken = 0
        self.oddities["gap" if step_ns >= rule.step_max_ns else "too_soon"] += 1
        self.state |= {one.input: one.fresh for one in rule.states if one.resets}
        self.break_words = f"{step_ns / NS:.6g} s from one sample to the next"
        return 0

    def _old(self, time_ns: int, values: Row) -> Rejection | bool:
        first = self._at - min(self.samples, self._rule.remembered)
        known = np.flatnonzero(self._times[first : self._at] == time_ns)
        if known.size and np.array_equal(self._ring[first + int(known[0])], values, equal_nan=True):
            return False
        behind = (self.last_ns - time_ns) / NS
        return Rejection(
            "time_back",
            "time of the sample",
            f"{behind:.6g} s before the newest one" if behind else "the newest one's time with other values",
            "a later time than the sample before",
            "check the logger's clock; the stream goes on with the next later sample",
        )
