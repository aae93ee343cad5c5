"""A trace of what serial ports said and were told, for a person: bounded, and never a reason not to serve."""

import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from edge_runtime.errors import DeviceError

MAX_BYTES = 16 << 20
"""The file and the one before it together, FILE and FILE.1; the older half goes first."""
SHOWN_BYTES = 1024
"""Of one chunk: a curve of 100 kB would hide what stands around it."""
_ROW_BYTES = 16
# Whatever else a port says must not reach a terminal as it is: an escape sequence could move its cursor.
_PRINTABLE = range(0x20, 0x7F)


class Trace:
    """An open trace, written by the readers of all ports. Raises DeviceError where the file cannot be written.

    ``path`` is ``None`` for standard error, since answers may go to standard output. ``trouble`` says why it ended early.
    """

    def __init__(self, path: Path | None, *, wall_ns: Callable[[], int], max_bytes: int = MAX_BYTES) -> None:
        self.trouble = ""
        self._path = path
        self._wall_ns = wall_ns
        self._half_bytes = max_bytes // 2
        self._lock = threading.Lock()
        self._file = -1
        self._size = 0
        try:
            self._open()
        except OSError as error:
            raise DeviceError(
                subject=f"--trace {path}", found=f"{error.strerror}", expected="a place that can be written",
                todo="make room or name another file",
            ) from error  # fmt: skip

    def chunk(self, name: str, mark: str, data: bytes) -> None:
        """Write one chunk: ``mark`` is '<' for what a port said, '>' for what it was told."""
        rows = [_row(data[at : at + _ROW_BYTES]) for at in range(0, min(len(data), SHOWN_BYTES), _ROW_BYTES)]
        if len(data) > SHOWN_BYTES:
            rows.append(f"... and {len(data) - SHOWN_BYTES} bytes more")
        self._write(f"{name} {mark}", rows)

    def note(self, name: str, words: str) -> None:
        """Write what became of a port, marked '*'."""
        self._write(f"{name} *", [words])

    def _write(self, head: str, rows: list[str]) -> None:
        moment = datetime.fromtimestamp(self._wall_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        text = "".join(f"{moment} {head} {row}\n" for row in rows).encode("utf-8", "backslashreplace")
        with self._lock:
            if self.trouble:
                return
            try:
                self._put(text)
            except OSError as error:
                self.trouble = f"the trace ended: {error.strerror}"

    def _put(self, text: bytes) -> None:
        if self._path is None:
            sys.stderr.buffer.write(text)
            sys.stderr.buffer.flush()
            return
        if self._size + len(text) > self._half_bytes and self._size:
            os.close(self._file)
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._open()
        self._size += len(text)
        while text:
            text = text[os.write(self._file, text) :]

    def _open(self) -> None:
        if self._path is None:
            return
        # Only its owner reads it: it holds whatever the ports said.
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
        self._size = os.fstat(self._file).st_size


def _row(data: bytes) -> str:
    text = "".join(chr(byte) if byte in _PRINTABLE else "." for byte in data)
    return f"{data.hex(' '):<{3 * _ROW_BYTES - 1}}  {text}"
