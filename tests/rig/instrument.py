"""The other end of a port as a function of what is written to it; time passes only where a read finds nothing."""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from threading import Event

from edge_runtime.links.serial_port import LineErrors

from .clock import HandClock

READ_NS = 100_000_000


class _Going(Event):
    """Nobody stops it, and it waits for nothing."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 -- the event's
        """At once."""
        return False


class Instrument:
    """Stands where a `SerialPort` does. ``answer`` gives the pieces that a question brings: bytes, or seconds of silence."""

    name = "instrument"

    def __init__(self, answer: Callable[[bytes], list[bytes | float]], clock: HandClock | None = None) -> None:
        self.clock = clock or HandClock()
        self.asked: list[bytes] = []
        self.stopping: Event = _Going()
        self._answer = answer
        self._coming: deque[tuple[int, bytes]] = deque()

    def write(self, data: bytes) -> None:
        """Hear a question; its answer begins to come, behind what is still coming."""
        self.asked.append(data)
        at_ns = max(self.clock.mono_ns(), self._coming[-1][0] if self._coming else 0)
        for piece in self._answer(data):
            if isinstance(piece, bytes):
                self._coming.append((at_ns, piece))
            else:
                at_ns += round(piece * 1e9)

    def read(self) -> bytes:
        """The next piece, or nothing once 0.1 s has passed."""
        if self._coming and self._coming[0][0] <= self.clock.mono_ns() + READ_NS:
            at_ns, piece = self._coming.popleft()
            self.clock.advance(max(at_ns - self.clock.mono_ns(), 0) / 1e9)
            return piece
        self.clock.advance(READ_NS / 1e9)
        return b""

    def read_waiting(self) -> bytes:
        """What has come."""
        waiting = b""
        while self._coming and self._coming[0][0] <= self.clock.mono_ns():
            waiting += self._coming.popleft()[1]
        return waiting

    def line_errors(self) -> LineErrors | None:
        """None are counted."""
        return None

    def cancel(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to close."""


def pieces(data: bytes, cuts: list[int]) -> list[bytes | float]:
    """``data`` cut at ``cuts``, each piece a moment after the one before."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    parts: list[bytes | float] = []
    for begin, end in pairwise(places):
        parts += [data[begin:end], 0.001]
    return parts
