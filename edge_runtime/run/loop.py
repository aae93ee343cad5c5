"""The one loop that turns the lanes of a process; it waits for bytes and due times, and polls nothing."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from edge_runtime.run.lane import Lane

TICK_NS: Final = 1_000_000_000


class Loop:
    """The lanes of one process and the one loop that turns them until ``stop`` is set or every source has ended.

    ``every_tick`` runs once a second, from the loop itself: what it tells a watchdog is that the loop turns.
    """

    def __init__(self, lanes: Sequence[Lane], every_tick: Callable[[], None], mono_ns: Callable[[], int]) -> None:
        self._lanes = tuple(lanes)
        self._every_tick = every_tick
        self._mono_ns = mono_ns
        self._wake = threading.Event()
        self._stopping = False

    def stop(self) -> None:
        """Leave the loop after the turn under way; may be called from a signal handler."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        """Serve; on the way out, whatever the reason, answer and send what was taken and close every door."""
        with ExitStack() as doors:
            for lane in self._lanes:
                doors.callback(lane.stop)
            for lane in self._lanes:
                lane.start(self._wake)
            self._turn_until_done()

    def _turn_until_done(self) -> None:
        tick_ns = self._mono_ns()
        while not self._stopping:
            self._wake.clear()
            busy = [lane.turn() for lane in self._lanes]
            if all(lane.done for lane in self._lanes):
                return
            now = self._mono_ns()
            if now >= tick_ns:
                for lane in self._lanes:
                    lane.tick()
                self._every_tick()
                tick_ns = now + TICK_NS
            if not any(busy):
                due = [time for lane in self._lanes if (time := lane.due_ns()) is not None]
                self._wake.wait(max(0, min([tick_ns, *due]) - now) / 1e9)
