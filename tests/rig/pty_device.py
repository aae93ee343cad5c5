"""A serial device without hardware: a pty pair behind a symlink, which can be unplugged and plugged in again."""

import contextlib
import os
import select
import tty
from collections.abc import Iterable
from pathlib import Path
from typing import Self

PATIENCE_S = 20.0


class PtyDevice:
    """The device's end of a pty; the runtime opens ``link``. Plugged in from the start."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self._device_fd: int | None = None
        self._held_fd: int | None = None
        self.replug()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unplug()

    def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises TimeoutError when nobody reads for long, RuntimeError when unplugged."""
        sent = 0
        while sent < len(data):
            fd = self._fd()
            _, ready, _ = select.select([], [fd], [], PATIENCE_S)
            if not ready:
                msg = f"nobody reads from {self.link}"
                raise TimeoutError(msg)
            with contextlib.suppress(BlockingIOError):
                sent += os.write(fd, data[sent : sent + 1024])

    def offer(self, data: bytes) -> bool:
        """Send ``data`` if all of it has room now; else, and while unplugged, it is lost, as on a wire. Whether it went."""
        if self._device_fd is None:
            return False
        try:
            return os.write(self._device_fd, data) == len(data)
        except BlockingIOError:
            return False

    def play(self, data: bytes, splits: Iterable[int]) -> None:
        """Send ``data`` in as many writes as ``splits`` (ascending offsets) cut it into."""
        start = 0
        for end in [*splits, len(data)]:
            self.write(data[start:end])
            start = end

    def read(self, size: int = 4096) -> bytes:
        """What the runtime sent, up to ``size`` bytes; waits for at least one. Raises TimeoutError."""
        fd = self._fd()
        ready, _, _ = select.select([fd], [], [], PATIENCE_S)
        if not ready:
            msg = f"nothing was sent to {self.link}"
            raise TimeoutError(msg)
        return os.read(fd, size)

    def unplug(self) -> None:
        """Pull the cable: the runtime's end hangs up and the link is gone. Idempotent."""
        self.link.unlink(missing_ok=True)
        for fd in (self._device_fd, self._held_fd):
            if fd is not None:
                os.close(fd)
        self._device_fd = self._held_fd = None

    def replug(self) -> None:
        """Plug in again: another pts behind the same link."""
        self.unplug()
        self._device_fd, self._held_fd = os.openpty()
        # The held end keeps raw mode and buffered bytes between two opens by the runtime.
        tty.setraw(self._held_fd)
        os.set_blocking(self._device_fd, False)
        self.link.symlink_to(os.ttyname(self._held_fd))

    def _fd(self) -> int:
        if self._device_fd is None:
            msg = f"{self.link} is unplugged"
            raise RuntimeError(msg)
        return self._device_fd
