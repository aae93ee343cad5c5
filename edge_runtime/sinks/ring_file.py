"""Lines on disk within a bound, the oldest going first, and never in the way; it knows nothing of what they say."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from edge_runtime.sinks.append import append_whole, open_for_append

_MODE = 0o640


class RingFile:
    """Whole lines in ``path`` and, older, ``path`` + ``.1``, together at most ``max_bytes``; each file begins with ``head``.

    A disk that takes nothing is counted in ``lost`` with the reason in ``why``, never raised. What a killed process left
    torn is ended before the next line.
    """

    def __init__(self, path: Path, *, max_bytes: int, head: bytes = b"") -> None:
        self.written = self.lost = 0
        self.why = ""
        self.half_bytes = max_bytes // 2
        self._path = path
        self._head = head
        self._file = -1
        self._is_begun = False

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, each with its end, in as few writes as the bound allows; a bound of 0 keeps none."""
        if not self.half_bytes:
            return
        for batch in _batches(lines, self.half_bytes - len(self._head)):
            try:
                self._write(b"".join(batch))
            except OSError as error:
                self.lost += len(batch)
                self.why = error.strerror or type(error).__name__
                self.close()
            else:
                self.written += len(batch)

    def close(self) -> None:
        """Let the file go. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, data: bytes) -> None:
        if self._file < 0:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open_for_append(self._path, _MODE)
        size = os.fstat(self._file).st_size
        # An empty one has no head, whoever began it: the disk may have been full just after the older half was put aside.
        begins = b"" if self._is_begun and size else self._mended(size)
        if size and size + len(begins) + len(data) > self.half_bytes:
            self.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = open_for_append(self._path, _MODE)
            begins, size = self._head, 0
        append_whole(self._file, begins + data, size)
        self._is_begun = True

    def _mended(self, size: int) -> bytes:
        """What goes before the first line of this process, or of an empty file: the end of a torn one, and the head."""
        if not size:
            return self._head
        os.lseek(self._file, size - 1, os.SEEK_SET)
        return (b"" if os.read(self._file, 1) == b"\n" else b"\n") + self._head


def _batches(lines: Sequence[bytes], limit_bytes: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and size + len(line) > limit_bytes:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
