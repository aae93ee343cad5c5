"""What the loop sleeps on: a flag that any thread or a signal handler may set, and the sockets of the links."""

import os
import selectors
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, Self


class Watched(Protocol):
    """A link, as far as waiting for it goes."""

    @property
    def socket(self) -> socket.socket | None:
        """What to wait for; another object after each connection."""

    @property
    def wants_write(self) -> bool:
        """Whether to wait for room to write too."""


class Waker:
    """A flag with a bell: ``set`` ends a ``wait`` under way. To be used in a ``with`` block by the one who waits.

    The bell is a byte through a pipe; it is sent only to somebody asleep, so on a busy loop ``set`` costs two
    attributes. A byte too many wakes once for nothing. Windows selects on sockets alone: there it is a pair of those.
    """

    def __init__(self) -> None:
        self._set = self._asleep = False
        self._bell: _Pipe | _Pair = _Pair() if sys.platform == "win32" else _Pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell.ear, selectors.EVENT_READ)
        self._watched: dict[int, tuple[socket.socket, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set(self) -> None:
        """Wake whoever waits, now or next time; from any thread, and from a signal handler."""
        self._set = True
        if self._asleep:
            # A full pipe has bells enough in it; a closed one has nobody at its other end.
            with suppress(OSError):
                self._bell.ring()

    def clear(self) -> None:
        """Forget that it was set; what it was set for must be looked at after this, not before."""
        self._set = False

    def wait(self, seconds: float, links: Sequence[Watched] = ()) -> None:
        """Return once it is set, a link's socket is ready, or after ``seconds``."""
        for index, link in enumerate(links):
            self._watch(index, link)
        # Asleep first, the flag second; `set` goes the other way round, so one of the two sees the other.
        self._asleep = True
        try:
            ready = self._selector.select(0 if self._set else seconds)
        finally:
            self._asleep = False
        if any(key.fileobj == self._bell.ear for key, _ in ready):
            with suppress(BlockingIOError):
                self._bell.hear()

    def close(self) -> None:
        """Let the sockets go; ``set`` stays harmless. Idempotent."""
        self._selector.close()
        self._bell.close()

    def _watch(self, index: int, link: Watched) -> None:
        now: socket.socket | None = link.socket
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.wants_write else 0)
        before: tuple[Any, int] = self._watched.get(index, (None, 0))
        if before == (now, events):
            return
        if before[0] is not None and before[0] is not now:
            # The number of a closed socket may be another's by now: the selector must forget the object, not the number.
            self._selector.unregister(before[0])
        if now is None:
            self._watched.pop(index, None)
            return
        if before[0] is now:
            self._selector.modify(now, events)
        else:
            self._selector.register(now, events)
        self._watched[index] = (now, events)


class _Pipe:
    """A pipe that never blocks; -1 once closed, so that no late bell rings in a file that got its number."""

    def __init__(self) -> None:
        self.ear, self._end = os.pipe()
        os.set_blocking(self.ear, False)
        os.set_blocking(self._end, False)

    def ring(self) -> None:
        os.write(self._end, b"x")

    def hear(self) -> None:
        os.read(self.ear, 4096)

    def close(self) -> None:
        ends, self.ear, self._end = (self.ear, self._end), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)


class _Pair:
    """The same out of two sockets."""

    def __init__(self) -> None:
        self._end, self.ear = socket.socketpair()
        self._end.settimeout(0)
        self.ear.settimeout(0)

    def ring(self) -> None:
        self._end.send(b"x")

    def hear(self) -> None:
        self.ear.recv(4096)

    def close(self) -> None:
        self._end.close()
        self.ear.close()
