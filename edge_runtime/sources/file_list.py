"""Which files of a folder were read, in which order, and how far that is settled; on disk, and it opens none of them.

A list is lines of JSON: ``[name, size, mtime_ns, end, refused]`` before a file is given, a position once everything up to
it is settled. It stands on the disk before the first byte of a file is given: so a position says for ever what came
before it, whatever becomes of this process.
"""

import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from edge_runtime.errors import DeviceError

KNOWN_FILES: Final = 5_000
"""Beyond it those that are no longer in the folder are forgotten, the oldest first; but not where the folder is empty: a
mount may be away, and come back."""
_SPARE_LINES: Final = 1_000
_MODE: Final = 0o640


class FileEntry(NamedTuple):
    """One state of one file; ``end`` is the position behind it. ``refused`` says why it is no input, and takes one place."""

    name: str
    size: int
    mtime_ns: int
    end: int
    refused: str = ""

    @property
    def start(self) -> int:
        """The position of its first byte."""
        return self.end - (1 if self.refused else self.size)

    @property
    def state(self) -> tuple[int, int]:
        """By what it is known again: another size or time of change is another file."""
        return self.size, self.mtime_ns


class FileList:
    """The list at ``path``. ``known`` has the newest entry of each name; ``open`` those not settled, in order."""

    def __init__(self, path: Path) -> None:
        self.known: dict[str, FileEntry] = {}
        self.open: deque[FileEntry] = deque()
        self.settled = 0
        self.end = 0
        self._path = path
        self._lines = 0

    def load(self) -> None:
        """Read it, and cut off what a crash has torn. Raises DeviceError."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed(error) from error
        good = 0
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n") or not self._take(line):
                break
            good += len(line)
            self._lines += 1
        if good < len(data):
            try:
                os.truncate(self._path, good)
            except OSError as error:
                raise self._failed(error) from error

    def add(self, entry: FileEntry) -> None:
        """Note a file before it is given. Raises OSError; it is then not noted."""
        if self._lines > 2 * len(self.known) + _SPARE_LINES:
            self._rewrite()
        self._append(_line_of(entry), durable=True)
        self._note(entry)

    def begin(self, position: int) -> None:
        """Have ``open`` what comes behind ``position``, whether or not it was settled once."""
        entries = {*self.known.values(), *self.open}
        self.settled = position
        self.open = deque(one for one in sorted(entries, key=_end) if one.end > position)
        self.end = max(self.end, position)

    def settle(self, position: int) -> list[FileEntry]:
        """Note that everything up to ``position`` is settled; gives the entries that became so, in order."""
        done = []
        while self.open and self.open[0].end <= position:
            done.append(self.open.popleft())
        if done:
            self.settled = done[-1].end
            with suppress(OSError):  # the line's journal has the position too
                self._append(b"%d\n" % self.settled, durable=False)
        return done

    def forget(self, present: set[str]) -> None:
        """Bound what is known: those that are settled and not ``present`` go, the oldest first."""
        if not present or len(self.known) <= KNOWN_FILES:
            return
        waiting = {entry.name for entry in self.open}
        for name in [one for one in self.known if one not in present and one not in waiting]:
            if len(self.known) <= KNOWN_FILES:
                return
            del self.known[name]

    def _take(self, line: bytes) -> bool:
        try:
            found: Any = from_json(line)
            if type(found) is int:
                self.settled = max(self.settled, found)
                while self.open and self.open[0].end <= self.settled:
                    self.open.popleft()
                return True
            name, size, mtime_ns, end, refused = found
            entry = FileEntry(os.fsdecode(name.encode("latin-1")), int(size), int(mtime_ns), int(end), str(refused))
        except (ValueError, TypeError, AttributeError):
            return False
        self._note(entry)
        return True

    def _note(self, entry: FileEntry) -> None:
        self.known.pop(entry.name, None)  # so that it is the newest
        self.known[entry.name] = entry
        self.end = max(self.end, entry.end)
        if entry.end > self.settled:
            self.open.append(entry)

    def _append(self, line: bytes, *, durable: bool) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            before = os.fstat(descriptor).st_size
            if not before:
                self._sync_folder()
            try:
                rest = line
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                if durable:
                    os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)
        self._lines += 1

    def _rewrite(self) -> None:
        """Put in its place what still counts, whole or not at all."""
        entries = sorted({*self.known.values(), *self.open}, key=_end)
        settled = b"%d\n" % self.settled
        fresh = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- pathlib takes no descriptor
            file.write(b"".join([*(_line_of(one) for one in entries), settled]))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._sync_folder()
        self._lines = len(entries) + 1

    def _sync_folder(self) -> None:
        """Have the name on the disk: a journal that knew a position and no list would have every file read again."""
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _failed(self, error: OSError) -> DeviceError:
        return DeviceError(
            subject=f"list of files {self._path}", found=error.strerror or str(error),
            expected="a file this user can read and write", todo="give the user the state folder",
        )  # fmt: skip


def _end(entry: FileEntry) -> int:
    return entry.end


def _line_of(entry: FileEntry) -> bytes:
    name = os.fsencode(entry.name).decode("latin-1")  # a name may be no UTF-8
    return to_json([name, *entry[1:]]) + b"\n"
