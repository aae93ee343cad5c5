"""Reads single values from the kernel's files under a root, few and small, within a time; what is odd is not known.

A sensor may be absent, empty, forbidden, asleep (EAGAIN), broken (EINVAL, EIO) or say nonsense: each gives None.
"""

import os
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

BUDGET_NS: Final = 20_000_000
"""After so long nothing more is read: a sensor behind a slow bus may take milliseconds, and there may be many."""
MAX_ENTRIES: Final = 4096
MAX_DEVICES: Final = 64
_MAX_BYTES: Final = 4096  # what sysfs gives at most
_MAX_TEXT: Final = 80
_MAX_BITS: Final = 32
_MAX_DIGITS: Final = 20
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class KernelFiles:
    """The files under ``root``, read until ``budget_ns`` of the monotonic clock ``mono_ns`` are used up."""

    def __init__(
        self, root: Path, mono_ns: Callable[[], int] = time.monotonic_ns, *, budget_ns: int = BUDGET_NS
    ) -> None:
        self._root = str(root)
        self._mono_ns = mono_ns
        self._end_ns = mono_ns() + budget_ns
        self.is_cut = False
        """Whether something was left unread because the time was up."""

    def names(self, folder: str, is_wanted: Callable[[str], bool]) -> list[str]:
        """What is wanted of a folder, ``MAX_DEVICES`` at most, in the order of the numbers behind one name."""
        if self._is_late():
            return []
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                found = [one.name for one in islice(entries, MAX_ENTRIES) if is_wanted(one.name)]
        except (OSError, ValueError):
            return []
        return sorted(found, key=lambda name: (len(name), name))[:MAX_DEVICES]

    def text(self, path: str) -> str | None:
        """The first line of a file, without what cannot be printed; None where there is nothing."""
        if self._is_late():
            return None
        try:
            # Not blocking: something else under that name, a pipe, must hold nobody up.
            file = os.open(f"{self._root}/{path}", _FLAGS)
            try:
                data = os.read(file, _MAX_BYTES)
            finally:
                os.close(file)
        except (OSError, ValueError):
            return None
        line = data.decode("utf-8", "replace").strip("\0 \t\r\n").partition("\n")[0][:_MAX_TEXT]
        return (line if line.isprintable() else "".join(filter(str.isprintable, line))).strip() or None

    def number(self, path: str, low: int, high: int) -> int | None:
        """A whole number from ``low`` to ``high``; None where it is none, or beyond what can be true."""
        text = self.text(path)
        digits = (text or "").removeprefix("-")
        if text is None or not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
            return None
        value = int(text)
        return value if low <= value <= high else None

    def bits(self, path: str) -> int | None:
        """A number of up to 32 bits, written in base 16."""
        digits = (self.text(path) or "").removeprefix("0x")
        is_one = 0 < len(digits) <= _MAX_BITS // 4 and not digits.strip("0123456789abcdefABCDEF")
        return int(digits, 16) if is_one else None

    def _is_late(self) -> bool:
        self.is_cut = self.is_cut or self._mono_ns() > self._end_ns
        return self.is_cut


def numbered(prefix: str, suffix: str = "") -> Callable[[str], bool]:
    """Whether a name is ``prefix``, a number and ``suffix``."""
    begins, ends = len(prefix), -len(suffix) if suffix else None
    return lambda name: name.startswith(prefix) and name.endswith(suffix) and name[begins:ends].isdecimal()
