"""The one loop that turns the lanes of a process; it waits for bytes and due times, and polls nothing."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.run.lane import Lane
from edge_runtime.run.waker import Waker

if TYPE_CHECKING:
    from edge_runtime.sinks.sparkplug_node import EdgeNode

TICK_NS: Final = 1_000_000_000
SETTLE_NS: Final = 1_500_000_000
"""How long a stop waits for sinks to confirm what is on its way to them; what they do not goes again at the next start."""


class Loop:
    """The lanes of one process and the one loop that turns them until ``stop`` is called or every source has ended.

    ``every_tick`` runs once a second, from the loop itself: what it tells a watchdog is that the loop turns. With a
    ``link`` or a ``node`` the loop turns those too, reading before the lanes and sending behind them, and without lanes it
    goes on until ``stop``.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        every_tick: Callable[[], None],
        mono_ns: Callable[[], int],
        link: MqttLink | None = None,
        node: "EdgeNode | None" = None,
    ) -> None:
        self._lanes = deque(lanes)
        self._every_tick = every_tick
        self._mono_ns = mono_ns
        self._links = tuple(one for one in (link, node) if one is not None)
        self._wake: Waker | None = None
        self._stopping = False

    def stop(self) -> None:
        """Leave the loop after the turn under way; may be called from a signal handler."""
        self._stopping = True
        if self._wake is not None:
            self._wake.set()

    def run(self) -> None:
        """Serve; on the way out, whatever the reason, answer and send what was taken and close every door."""
        with Waker() as wake, ExitStack() as doors:
            self._wake = wake
            for link in self._links:
                doors.callback(link.send)
                link.start(wake.set)
            for lane in self._lanes:
                doors.callback(lane.stop)
            for lane in self._lanes:
                lane.start(wake)
            self._turn_until_done(wake)
            if self._links:
                self._settle(wake)

    def _turn_until_done(self, wake: Waker) -> None:
        tick_ns = self._mono_ns()
        while not self._stopping:
            wake.clear()
            busy = self._turn()
            if self._lanes and all(lane.done for lane in self._lanes):
                return
            now = self._mono_ns()
            if now >= tick_ns:
                for lane in self._lanes:
                    lane.tick()
                self._every_tick()
                tick_ns = now + TICK_NS
            if not busy:
                self._wait(wake, tick_ns)

    def _settle(self, wake: Waker) -> None:
        """Take what the sources still hold, and hear what becomes of the answers on their way."""
        for lane in self._lanes:
            lane.stop_taking()
        deadline_ns = self._mono_ns() + SETTLE_NS
        while self._mono_ns() < deadline_ns:
            wake.clear()
            if not self._turn():
                if not any(lane.in_flight for lane in self._lanes):
                    return
                self._wait(wake, deadline_ns)

    def _turn(self) -> bool:
        """Read, turn every lane, send: whether a lane had anything to do."""
        for link in self._links:
            link.receive()
        if self._links:
            # Who comes first takes what room a slow broker leaves for answers: each line comes first in its turn.
            self._lanes.rotate(-1)
        busy = [lane.turn() for lane in self._lanes]
        for link in self._links:
            link.send()
        return any(busy)

    def _wait(self, wake: Waker, until_ns: int) -> None:
        due = [until_ns, *(time for lane in self._lanes if (time := lane.due_ns()) is not None)]
        due += [time for link in self._links if (time := link.due_ns()) is not None]
        wake.wait(max(0, min(due) - self._mono_ns()) / 1e9, self._links)
