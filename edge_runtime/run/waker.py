"""What the loop sleeps on: a flag that any thread or a signal handler may set, and the sockets of the links."""

import selectors
import socket
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

    The bell is a byte through a socket pair, which every system can select on; it is sent only to somebody asleep, so
    on a busy loop ``set`` costs two attributes. A byte too many wakes once for nothing.
    """

    def __init__(self) -> None:
        self._set = self._asleep = False
        self._bell, self._ear = socket.socketpair()
        self._bell.settimeout(0)
        self._ear.settimeout(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ear, selectors.EVENT_READ)
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
                self._bell.send(b"x")

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
        if any(key.fileobj is self._ear for key, _ in ready):
            with suppress(BlockingIOError):
                self._ear.recv(4096)

    def close(self) -> None:
        """Let the sockets go; ``set`` stays harmless. Idempotent."""
        self._selector.close()
        self._bell.close()
        self._ear.close()

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
