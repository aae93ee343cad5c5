"""A line's state on disk as an append-only log, one write a transaction; it does not know what a record means."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from zlib import crc32

from pydantic_core import from_json, to_json

from edge_runtime.errors import DeviceError, TemporaryError
from edge_runtime.sinks.append import append_whole, lock, open_for_append, sync_data, sync_folder

VERSION = 1
COMPACTION_GROWTH = 4
"""A log is written anew only when it is this many times its last snapshot: that adds a third to what records write."""
COMPACTION_RETRY_NS = 60_000_000_000
"""After a failed compaction, a minute's pause: a full disk must not cost a snapshot per sample."""
_GOES_ON = "free the disk; the line goes on from memory and tries again with the next sample"
_CRC_DIGITS = 8
_SHORTEST = _CRC_DIGITS + 3  # the blank and the shortest JSON object


class JournalFull(TemporaryError):
    """The disk did not take a record; the log is as it was before, and a later commit may work again."""


class Journal:
    """The log of one line, open and locked; made by ``open``.

    Each line of the file is the CRC-32 of its JSON text in 8 hexadecimal digits, a blank, the JSON text; the first is
    the header. ``recovered`` holds the records found at opening, oldest first (the first may be ``{"snapshot": ...}``);
    ``notes`` says in plain sentences what was cut off or put aside.
    """

    def __init__(self, path: Path, identity: str, sync_s: float, mono_ns: Callable[[], int], max_bytes: int) -> None:
        self.recovered: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._path = path
        self._header = _line({"journal": VERSION, "identity": identity})
        self._sync_ns = round(sync_s * 1e9)
        self._mono_ns = mono_ns
        self._max_bytes = max_bytes
        self._synced_ns: int | None = None
        self._due_ns: int | None = None
        self._size = self._snapshot_bytes = 0
        self._torn = False
        self._unsafe = False
        self._resting_until_ns: int | None = None
        self._log = self._lock = -1

    @classmethod
    def open(cls, path: Path, *, identity: str, sync_s: float, mono_ns: Callable[[], int], max_bytes: int) -> Self:
        """Lock ``path``, recover what it holds of ``identity``, and go on behind the last good record.

        ``sync_s``: seconds between two syncs to the disk at most (0: each commit is synced). ``max_bytes``: the size
        from which ``wants_compaction`` looks at the growth.

        Raises:
            TemporaryError: another process has it.
            DeviceError: the folder or the file cannot be read or written.

        """
        journal = cls(path, identity, sync_s, mono_ns, max_bytes)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            guard = path.with_name(path.name + ".lock")
            journal._lock = open_for_append(guard)
            lock(journal._lock, guard)
            journal._recover()
        except OSError as error:
            journal._close_files()
            raise DeviceError(
                subject=str(path), found=_why(error), expected="a journal this process can read and write",
                todo="give the service's user the state folder, or free the disk",
            ) from error  # fmt: skip
        except TemporaryError:
            journal._close_files()
            raise
        return journal

    @property
    def size_bytes(self) -> int:
        """Bytes of the log."""
        return self._size

    @property
    def wants_compaction(self) -> bool:
        """Whether a snapshot should replace the log now."""
        if self._resting_until_ns is not None and self._mono_ns() < self._resting_until_ns:
            return False
        grown = self._size > self._max_bytes and self._size > COMPACTION_GROWTH * self._snapshot_bytes
        return grown or self._unsafe

    def commit(self, record: dict[str, Any]) -> None:
        """Append one record: whole, or not at all. Synced now unless the last sync is less than ``sync_s`` ago.

        Raises:
            JournalFull: the disk did not take it.

        """
        line = _line(record)
        try:
            if self._torn:
                os.ftruncate(self._log, self._size)
                self._torn = False
            append_whole(self._log, line, self._size)
            self._sync_if_allowed()
        except OSError as error:
            self._cut_back()
            raise self._full(error) from error
        self._size += len(line)

    def sync(self) -> None:
        """Bring every commit so far to the disk, if one is owed; raises JournalFull."""
        if self._due_ns is None:
            return
        try:
            self._sync(self._mono_ns())
        except OSError as error:
            raise self._full(error) from error

    def due_ns(self) -> int | None:
        """When, on the monotonic clock, ``sync`` must be called; None if nothing is owed."""
        return self._due_ns

    def compact(self, snapshot: dict[str, Any]) -> None:
        """Put a log of the header and ``snapshot`` in the old one's place; the old one is valid until the rename.

        Raises:
            JournalFull: there was no room for it; the old log goes on.

        """
        line = _line({"snapshot": snapshot})
        try:
            self._replace(self._header + line)
        except OSError as error:
            self._resting_until_ns = self._mono_ns() + COMPACTION_RETRY_NS
            raise self._full(error) from error
        self._snapshot_bytes = len(line)
        self._resting_until_ns = None

    def overwrite(self, snapshot: dict[str, Any]) -> None:
        """Put ``snapshot`` where the log itself stands: for what must be found there no more, where ``compact`` has no room.

        The old records go first, which makes room. Whoever ends in between, or finds no room even then, leaves a log
        that is as new: the line then begins anew at a restart, until a later ``compact`` is through.

        Raises:
            JournalFull: the snapshot is not in it; in words, whether the old records still are.

        """
        try:
            os.ftruncate(self._log, len(self._header))
        except OSError as error:
            raise self._full(error, "free the disk: until then a restart goes on with what was to be gone") from error
        self._size, self._torn = len(self._header), False
        line = _line({"snapshot": snapshot})
        try:
            append_whole(self._log, line, self._size)
            os.fsync(self._log)
        except OSError as error:
            self._cut_back()
            raise self._full(error, "free the disk: until then a restart begins the line anew") from error
        self._size += len(line)
        self._snapshot_bytes = len(line)

    def close(self) -> None:
        """Sync what is owed and let the lock go. Idempotent; raises JournalFull if the sync failed."""
        try:
            if self._log >= 0:
                self.sync()
        finally:
            self._close_files()

    def _sync_if_allowed(self) -> None:
        now = self._mono_ns()
        if self._synced_ns is not None and now - self._synced_ns < self._sync_ns:
            self._due_ns = self._synced_ns + self._sync_ns
            return
        self._sync(now)

    def _sync(self, now_ns: int) -> None:
        try:
            sync_data(self._log)
        except OSError:
            # Linux forgets pages it could not write: only a log written anew is sure to be on the disk.
            self._unsafe = True
            raise
        finally:
            self._synced_ns, self._due_ns = now_ns, None

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._log, self._size)
        except OSError:
            self._torn = True  # the next commit must cut first, or it would stand behind half a record

    def _full(self, error: OSError, todo: str = _GOES_ON) -> JournalFull:
        return JournalFull(subject=str(self._path), found=_why(error), expected="room for the line's state", todo=todo)

    def _recover(self) -> None:
        self._temporary().unlink(missing_ok=True)
        if self._path.is_fifo():  # reading it would wait for ever, and no signal would end that
            raise OSError(errno.EINVAL, "a fifo, not a file", str(self._path))
        data = self._path.read_bytes() if self._path.exists() else b""
        found = _read(data)
        if found.records and found.records[0] == from_json(self._header[_CRC_DIGITS + 1 :]):
            self.recovered = found.records[1:]
            self._say_what_is_cut(data, found)
            self._log = open_for_append(self._path)
            self._size = found.end
            if found.end < len(data):
                os.ftruncate(self._log, found.end)
                os.fsync(self._log)
            if self.recovered and "snapshot" in self.recovered[0]:
                self._snapshot_bytes = len(_line(self.recovered[0]))
            return
        if found.records or data.count(b"\n"):
            self._put_aside(found)
        elif data:
            self.notes.append(f"{self._path.name} held {len(data)} bytes of an unfinished header; it is begun anew.")
        self._replace(self._header)

    def _say_what_is_cut(self, data: bytes, found: "_Found") -> None:
        lost = data[found.end :]
        if not lost:
            return
        whole_lines = lost.count(b"\n")
        if whole_lines == 0 or (whole_lines == 1 and lost.endswith(b"\n")):
            self.notes.append(
                f"The last {len(lost)} bytes of {self._path.name} were an unfinished record and are cut off; "
                f"the {len(self.recovered)} before it are whole."
            )
        else:
            self.notes.append(
                f"{self._path.name} is damaged at byte {found.end}: that record and everything after it, {len(lost)} "
                f"bytes, is dropped; the {len(self.recovered)} before it are whole."
            )

    def _put_aside(self, found: "_Found") -> None:
        header = found.records[0] if found.records else {}
        whose = (
            "is of another bundle or binding: one of them was changed since, so answers that wait in it do not go out"
            if "identity" in header
            else "has no readable header"
        )
        aside = self._path.with_name(self._path.name + ".other")
        self._path.replace(aside)
        self.notes.append(
            f"{self._path.name} {whose}. It is kept as {aside.name}, and a new one"
            " begun: windows, hysteresis, held values and counts begin anew."
        )

    def _replace(self, content: bytes) -> None:
        temporary = self._temporary()
        with suppress(FileNotFoundError):
            temporary.unlink()
        log = open_for_append(temporary)
        try:
            append_whole(log, content, 0)
            os.fsync(log)
            if os.name == "nt":
                os.close(log)
                log = -1
                log = self._move_while_closed(temporary)
            else:
                temporary.replace(self._path)
        except OSError:
            if log >= 0:
                os.close(log)
            with suppress(OSError):
                temporary.unlink()
            raise
        if self._log >= 0:
            os.close(self._log)
        self._log, self._size, self._torn, self._unsafe = log, len(content), False, False
        self._synced_ns, self._due_ns = self._mono_ns(), None
        sync_folder(self._path.parent)

    def _move_while_closed(self, temporary: Path) -> int:
        """Windows renames no open file, nor one over it: let the old log go, and where that was in vain go on with it."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        try:
            temporary.replace(self._path)
        except OSError:
            self._log = open_for_append(self._path)
            raise
        return open_for_append(self._path)

    def _temporary(self) -> Path:
        return self._path.with_name(self._path.name + ".new")

    def _close_files(self) -> None:
        for descriptor in (self._log, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._log = self._lock = -1


class _Found(NamedTuple):
    records: list[dict[str, Any]]
    end: int


def _read(data: bytes) -> _Found:
    """The records before the first bad byte, the header among them, and where the last of them ends."""
    records: list[dict[str, Any]] = []
    end = 0
    while (stop := data.find(b"\n", end)) >= 0:
        record = _record(data[end:stop])
        if record is None:
            break
        records.append(record)
        end = stop + 1
    return _Found(records, end)


def _record(line: bytes) -> dict[str, Any] | None:
    text = line[_CRC_DIGITS + 1 :]
    if len(line) < _SHORTEST or line[: _CRC_DIGITS + 1] != b"%08x " % crc32(text):
        return None
    try:
        record = from_json(text)
    except ValueError:
        return None
    return record if type(record) is dict else None


def _line(record: dict[str, Any]) -> bytes:
    text = to_json(record)
    return b"%08x %b\n" % (crc32(text), text)


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
