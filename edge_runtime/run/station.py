"""A simulated serial logger: a pseudo-terminal, or a TCP serial server where there is none; it reads no command."""

import os
import select
import socket
import threading
from contextlib import suppress
from typing import Protocol, Self

try:
    import tty
except ImportError:  # Windows has no terminals
    tty = None  # type: ignore[assignment]

WAIT_S = 0.1
"""How long one attempt to send waits, so that a station that is told to stop does."""
LINE_GAP_S = 0.002
"""Between two lines, so that the runtime meets a stream and not one block."""


class _Wire(Protocol):
    """The logger's end of a cable."""

    url: str

    def send(self, data: bytes) -> int: ...

    def close(self) -> None: ...


class Station:
    """A logger at the end of a cable; ``url`` is what the runtime opens. To be used in a ``with`` block.

    ``play`` runs in a thread of its own choosing; leaving the block ends it.
    """

    def __init__(self) -> None:
        self._wire = _make_wire()
        self.url = self._wire.url
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._wire.close()

    def stop(self) -> None:
        """Let ``play`` return soon; may be called from any thread."""
        self._stopping.set()

    def rest(self, seconds: float) -> bool:
        """Wait so long, or until stopped; whether it was."""
        return self._stopping.wait(seconds)

    def play(self, text: bytes) -> bool:
        """Send ``text`` line by line; False if it was stopped before the end.

        A line end goes before everything: whoever has just opened a serial port must assume that the first line has
        lost its beginning, and throws it away.
        """
        for line in [b"\r\n", *text.splitlines(keepends=True)]:
            rest = line
            while rest:
                if self._stopping.is_set():
                    return False
                rest = rest[self._wire.send(rest) :]
            self._stopping.wait(LINE_GAP_S)
        return True


class _PtyWire:
    def __init__(self) -> None:
        self._device, self._held = os.openpty()
        # The held end keeps raw mode, and the bytes that were sent before the runtime opened its own.
        tty.setraw(self._held)
        os.set_blocking(self._device, False)
        self.url = os.ttyname(self._held)

    def send(self, data: bytes) -> int:
        _, ready, _ = select.select([], [self._device], [], WAIT_S)
        if ready:
            with suppress(BlockingIOError):
                return os.write(self._device, data)
        return 0

    def close(self) -> None:
        os.close(self._device)
        os.close(self._held)


class _TcpWire:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S)
        self._peer: socket.socket | None = None
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"

    def send(self, data: bytes) -> int:
        try:
            if self._peer is None:
                self._peer, _ = self._listener.accept()
                self._peer.settimeout(WAIT_S)
            return self._peer.send(data)
        except TimeoutError:
            return 0

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
        self._listener.close()


def _make_wire() -> _Wire:
    # A container may have no /dev/ptmx or no devpts.
    if tty is not None and hasattr(os, "openpty"):
        with suppress(OSError):
            return _PtyWire()
    return _TcpWire()
