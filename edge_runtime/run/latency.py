"""How long one call of a model takes at the pace of service; it judges nothing, and whose budget it is it does not know.

A call that comes after a pause finds its caches cold and the processor asleep: it takes 3 to 10 times as long as one in a
hot loop. So the calls of a round are spaced. What other programs do is not the model's doing: the time that the calling
thread and the session's own process waited for a processor, as the kernel counts it, is taken off, and what remains is
measured again before it counts against a model. docs/adr/0009-latency-at-boot.md has the figures.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from statistics import median
from typing import Final, NamedTuple

from edge_runtime.errors import EdgeRuntimeError

CALLS: Final = 7
GAP_S: Final = 0.005
# Pauses before each further round, 0.75 s together: a burst of other work passes, a slow model stays slow.
_PAUSES_S: Final = (0.0, 0.05, 0.1, 0.2, 0.4)
ROUNDS: Final = len(_PAUSES_S)
_TURNS: Final = 3
_CLEARLY: Final = 2 / 3


class Clock(NamedTuple):
    """Where time comes from: now in s, a pause of so many s, and the s that were waited for a processor so far."""

    now: Callable[[], float]
    sleep: Callable[[float], None]
    waited: Callable[[], float]


class Round(NamedTuple):
    """One round of paced calls, in ms: each call's own time, and the longest that one waited for a processor."""

    own_ms: tuple[float, ...]
    waited_ms: float
    number: int = 1

    @property
    def slowest_ms(self) -> float:
        """The slowest call's own time."""
        return max(self.own_ms)

    @property
    def median_ms(self) -> float:
        """The middle call's own time."""
        return float(median(self.own_ms))


@contextmanager
def kernel_clock(processes: Sequence[int] = ()) -> Iterator[Clock]:
    """The machine's own, of this thread and of the first thread of each of ``processes``, which answer its calls.

    This thread sleeps while one of them runs, so that their waits add up. Where the kernel does not count them, nothing
    is ever taken off; nor for a process that has ended.
    """
    with ExitStack() as opened:
        descriptors = []
        for whose in ("thread-self", *processes):
            with suppress(OSError):  # not Linux, a kernel without CONFIG_SCHED_INFO, or a process that is gone
                descriptors.append(os.open(f"/proc/{whose}/schedstat", os.O_RDONLY))
                opened.callback(os.close, descriptors[-1])
        yield Clock(time.perf_counter, time.sleep, lambda: sum(map(_waited, descriptors)))


def paced(call: Callable[[], object], limit_ms: float, pace_ms: float, clock: Clock) -> Round:
    """The first round with no call beyond ``limit_ms`` and a median within ``pace_ms``.

    Where none of ``ROUNDS`` is one, that whose slowest call was the quickest. A round ends with its first call beyond the
    limit: a slow model is not called more often than it must be.
    """
    seen = []
    for number, pause in enumerate(_PAUSES_S, 1):
        clock.sleep(pause)
        found = _round(call, limit_ms, clock)._replace(number=number)
        if found.slowest_ms <= limit_ms and found.median_ms <= pace_ms:
            return found
        seen.append(found)
    return min(seen, key=lambda one: one.slowest_ms)


def in_turn(calls: Sequence[Callable[[], object]], clock: Clock) -> list[float]:
    """Of each call the least median of a few rounds, in ms, taken in turn: a slow moment strikes them alike.

    Infinite for one that failed: it is none to choose.
    """
    turns = [[_median_ms(call, clock) for call in calls] for _ in range(_TURNS)]
    return [math.inf if math.inf in medians else min(medians) for medians in zip(*turns, strict=True)]


def _median_ms(call: Callable[[], object], clock: Clock) -> float:
    try:
        return _round(call, math.inf, clock).median_ms
    except EdgeRuntimeError:
        return math.inf


def fastest(times_ms: Sequence[float]) -> int:
    """The place of the one that serves: a later one only where it takes at most two thirds of one before it.

    So a choice made anew at each start does not go to and fro between two that are alike.
    """
    best = 0
    for place, took in enumerate(times_ms):
        if took <= _CLEARLY * times_ms[best]:
            best = place
    return best


def _round(call: Callable[[], object], limit_ms: float, clock: Clock) -> Round:
    own: list[float] = []
    longest = 0.0
    for _ in range(CALLS):
        clock.sleep(GAP_S)
        before = clock.waited()
        begun = clock.now()
        call()
        took = clock.now() - begun
        waited = min(took, max(0.0, clock.waited() - before))
        own.append((took - waited) * 1000)
        longest = max(longest, waited * 1000)
        if own[-1] > limit_ms:
            break
    return Round(tuple(own), longest)


def _waited(descriptor: int) -> float:
    """The second number of schedstat: nanoseconds on a run queue; 0 of a process that has ended."""
    try:
        return int(os.pread(descriptor, 80, 0).split()[1]) / 1e9
    except ProcessLookupError:
        return 0.0
