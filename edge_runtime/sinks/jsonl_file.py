"""Answers appended to a file of lines, whole lines only; it holds nothing back and never rewrites a line."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from edge_runtime.errors import ConfigurationError, EdgeRuntimeError
from edge_runtime.sinks.append import append_whole, lock, open_for_append, sync_data

SYNC_NS = 5_000_000_000
"""What ``interval`` means: a batch is synced if the last sync is 5 s ago or more, and the rest when it closes."""
TAIL_BYTES = 4 << 20
"""What is read back at most where no position was recorded, or the file was changed by somebody else since."""
_CHUNK_BYTES = 1 << 16

Sync = Literal["interval", "each", "never"]


class JsonLinesSink:
    """One file, locked against a second writer.

    ``begin`` is what each line begins with: what does not is another program's, and is never cut off.
    ``id_key`` is the key under which an answer's id stands in a line, None if the lines do not carry it: then lines
    are counted instead, which is as good since lines are written in the order of the pending ids.
    A file that was renamed or removed under us (a log rotation) is begun anew at the next batch.
    """

    in_flight = 0

    def __init__(
        self, path: Path, name: str, *, sync: Sync, id_key: str | None, mono_ns: Callable[[], int], begin: bytes = b"{"
    ) -> None:
        self._path = path
        self._name = name
        self._sync = sync
        self._id_key = id_key
        self._begin = begin
        self._mono_ns = mono_ns
        self._synced_ns: int | None = None
        self._owed = False
        self._status = "It is taking answers."
        try:
            self._file = self._open()
        except OSError as error:
            raise ConfigurationError(
                subject=f"sink {name}", found=f"{path}: {error.strerror}", expected="a file this process can append to",
                todo="correct its path, or give the service's user the folder",
            ) from error  # fmt: skip

    @property
    def name(self) -> str:
        """Where it writes."""
        return self._name

    def deliver(self, answers: Sequence[tuple[str, bytes]]) -> int:
        """Append all of them in one write, or none; see the port."""
        if not answers:
            return 0
        try:
            end = self._end()
            append_whole(self._file, b"".join(line for _, line in answers), end)
            self._owed = True
            try:
                self._sync_if_due()
            except OSError:
                os.ftruncate(self._file, end)
                raise
        except OSError as error:
            self._status = f"{self._path} takes nothing: {error.strerror}."
            return 0
        except EdgeRuntimeError as error:  # the file was replaced by one that cannot be ours
            self._status = f"It takes nothing: {error}."
            return 0
        self._status = "It is taking answers."
        return len(answers)

    def withdraw(self, identities: Collection[str]) -> None:
        """Nothing is on its way here."""

    def position(self) -> int | None:
        """Bytes of the file; it ends with a whole line."""
        return os.fstat(self._file).st_size if self._file >= 0 else None

    def recover(self, position: int | None, pending: Sequence[str]) -> set[str]:
        """Which of ``pending`` stand in the file behind ``position``; see the port."""
        if not pending:
            return set()
        size = os.fstat(self._file).st_size
        known = position is not None and position <= size
        start = position if position is not None and known else max(0, size - TAIL_BYTES)
        lines = _read_from(self._file, start, size).split(b"\n")[:-1]
        if self._id_key is None:
            # Without a position nobody can say which lines are whose: what is pending then goes out again.
            return set(pending[: len(lines)]) if known else set()
        found = {_value(line, self._id_key) for line in lines}
        return {identity for identity in pending if identity in found}

    def status(self) -> str:
        """One plain sentence."""
        return self._status

    def close(self) -> None:
        """Sync what is owed and let the file go."""
        if self._file < 0:
            return
        if self._owed and self._sync != "never":
            with suppress(OSError):
                sync_data(self._file)
        os.close(self._file)
        self._file = -1

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = open_for_append(self._path)
        try:
            lock(file, self._path)
            self._cut_torn_line(file)
        except BaseException:
            os.close(file)
            raise
        return file

    def _end(self) -> int:
        """The file's size; opens it anew if its name has come to mean another file, or none."""
        ours = os.fstat(self._file)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            named = None
        if named is not None and (named.st_ino, named.st_dev) == (ours.st_ino, ours.st_dev):
            return ours.st_size
        fresh = self._open()
        os.close(self._file)
        self._file = fresh
        return os.fstat(fresh).st_size

    def _sync_if_due(self) -> None:
        if self._sync == "never":
            return
        now = self._mono_ns()
        if self._sync == "each" or self._synced_ns is None or now - self._synced_ns >= SYNC_NS:
            self._synced_ns = now
            sync_data(self._file)
            self._owed = False

    def _cut_torn_line(self, file: int) -> None:
        """Cut what stands behind the last newline: the half line of a process that died writing it."""
        end = start = os.fstat(file).st_size
        newline = -1
        while start > 0 and newline < 0:
            stop, start = start, max(0, start - _CHUNK_BYTES)
            newline = _read_from(file, start, stop).rfind(b"\n")
        start += newline + 1
        if start == end:
            return
        torn = _read_from(file, start, min(end, start + 20))
        if not torn.startswith(self._begin) and not self._begin.startswith(torn):
            raise ConfigurationError(
                subject=f"sink {self._name}", found=f"{self._path}, whose last line begins with {torn!r}",
                expected=f"a file of lines that begin with {self._begin.decode()!r}, or none yet", todo="correct the sink's path",
            )  # fmt: skip
        os.ftruncate(file, start)
        self._status = f"{end - start} bytes of an unfinished line were cut off."


def _read_from(file: int, start: int, end: int) -> bytes:
    os.lseek(file, start, os.SEEK_SET)
    parts = []
    while start < end and (part := os.read(file, end - start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _value(line: bytes, key: str) -> str:
    try:
        row = from_json(line)
    except ValueError:
        return ""
    return str(row.get(key, "")) if type(row) is dict else ""
