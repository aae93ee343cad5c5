"""What a program of a source says on standard error, as lines of our own log; a flood is counted and not told."""

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from edge_runtime.errors import escaped

LOG_LINES: Final = 10
LOG_NS: Final = 10_000_000_000
"""So many lines in so many nanoseconds are told, the others counted."""
_LOG_LINE_BYTES: Final = 400


class ChildLog:
    """The lines of the program ``name``, each handed to ``log`` with that name before it."""

    def __init__(self, name: str, log: Callable[[str], None], mono_ns: Callable[[], int]) -> None:
        self._name, self._log, self._mono_ns = name, log, mono_ns
        self._times: deque[int] = deque()
        self._left_out = 0
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Tell of every line that ``data`` completes; a long one is cut."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LOG_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._tell(line)

    def flush(self) -> None:
        """Tell of a last line without an end, and of what was left out."""
        if self._rest:
            self._tell(self._rest)
        self._rest = b""
        if self._left_out:
            self._log(f"{self._name}: {self._left_out} more lines of it left out")
        self._left_out = 0

    def _tell(self, line: bytes) -> None:
        now_ns = self._mono_ns()
        while self._times and now_ns - self._times[0] >= LOG_NS:
            self._times.popleft()
        if len(self._times) >= LOG_LINES:
            self._left_out += 1
            return
        if self._left_out:
            self._log(f"{self._name}: {self._left_out} lines of it left out")
            self._left_out = 0
        self._times.append(now_ns)
        text = line[:_LOG_LINE_BYTES].decode("utf-8", "backslashreplace").rstrip()
        self._log(f"{self._name}: {escaped(text)}")


def write_log(text: str) -> None:
    """Write one line on standard error, which a service manager keeps; where nobody reads it, it is lost."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"edge-runtime: {text}\n")
        sys.stderr.flush()
