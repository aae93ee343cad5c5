"""A folder of files that another program writes, as a source: whole files only, each once; it looks, and waits for no event."""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final

from edge_runtime.flow.number_file import FileRefused
from edge_runtime.flow.quoting import quote
from edge_runtime.sources.file_list import FileEntry, FileList
from edge_runtime.sources.named_file import read_named, refuse_system
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.spec.source import FolderSource

DONE: Final = "done"
REFUSED: Final = "refused"
BAD_FILE: Final = "bad_file"
FILE_GONE: Final = "file_gone"
MAX_FILES: Final = 50_000
"""Beyond it a folder is not read: what is not taken away must be some day."""
_IDLE_SHARE: Final = 50
"""A look that takes long makes the next one later: looking takes a fiftieth of the time at most."""
_NEVER: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
"""What no waiting mends: a link in a file's place."""


class WatchedFolder:
    """Files of ``folder``. Follows `spec.source.FolderSource`; see `sources.port.Source` for the methods.

    A position counts the bytes of all files since the first one, and ``files`` has the order in which they came: so each
    may be resumed at. Where no position is known but ``files`` is, what is settled there is not read again.
    """

    can_wait = True
    redelivers = True
    resumable = True
    live = True
    ended = False
    reopened = 0

    def __init__(
        self,
        spec: FolderSource,
        folder: Path,
        files: FileList,
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
    ) -> None:
        self.name = f"folder {folder}"
        self._spec = spec
        self._folder = folder
        self._files = files
        self._wall_ns, self._mono_ns = wall_ns, mono_ns
        self._again: deque[FileEntry] = deque()
        self._ready: deque[tuple[str, tuple[int, int]]] = deque()
        self._seen: dict[str, tuple[tuple[int, int], int]] = {}
        self._data: memoryview | None = None
        self._entry: FileEntry | None = None
        self._position = 0
        self._look_ns = 0
        self._read = 0
        self._waits = self._last_refused = self._stuck = ""
        self._stopped = False

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once, as far as is known without a look."""
        return not self._stopped and (self._data is not None or bool(self._again or self._ready))

    def start(self, wake: Wake, position: int = 0) -> None:  # noqa: ARG002 (it is asked when it is due)
        """Begin at ``position``. Raises ConfigurationError on a system that cannot open safely, DeviceError for ``files``."""
        refuse_system(self.name, "let a program pipe the files in: kind = command")
        files = self._files
        files.load()
        self._position = position or files.settled
        files.begin(self._position)
        for entry in [one for one in files.known.values() if one.end <= self._position]:
            self._put_away(entry)  # a kill may have come before that
        self._again = deque(files.open)
        self._look_ns = self._mono_ns()

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """The next bytes of one file, or of the next few."""
        chunks: list[Chunk] = []
        room = max_bytes
        while room > 0 and not self._stopped:
            if self._data is None:
                dropped = self._next()
                if dropped is not None:
                    chunks.append(dropped)
                    continue
                if self._data is None:
                    break
            chunks.append(self._piece(room))
            room -= len(chunks[-1].data)
        return chunks

    def acknowledge(self, position: int) -> None:
        """Do with the files up to ``position`` what is to become of them."""
        for entry in self._files.settle(position):
            self._put_away(entry)

    def due_ns(self) -> int | None:
        """When to look again."""
        return self._mono_ns() if self.waiting else self._look_ns

    def status(self) -> str:
        """One plain sentence."""
        told = [self._waits, self._last_refused, self._stuck]
        return "; ".join([f"{self._read} file{'s' * (self._read != 1)} read", *filter(None, told)])

    def stop(self) -> None:
        """Give nothing more: what is left is there at the next start. Idempotent."""
        self._stopped = True

    def _next(self) -> Chunk | None:
        """Open the next file, or give what stands for one that is none."""
        if self._again:
            return self._open_again(self._again.popleft())
        if not self._ready and self._mono_ns() >= self._look_ns:
            self._look()
        while self._ready:
            name, state = self._ready.popleft()
            try:
                opened = self._open_new(name, state)
            except OSError as error:  # the list: nothing is given that does not stand there
                self._ready.clear()
                self._waits = f"waits: its list of files cannot be written ({error.strerror})"
                return None
            if opened is not None:
                return None if opened.refused == "" else self._dropped(opened, BAD_FILE)
        return None

    def _open_new(self, name: str, state: tuple[int, int]) -> FileEntry | None:
        """Read one that is complete and note it; None where it has to wait. Raises OSError for the list alone."""
        refused, data = "", b""
        try:
            data = read_named(self._folder, name, max_bytes=self._spec.max_file_bytes)
        except FileRefused as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno not in _NEVER:
                self._waits = f"waits for {_shown(name)}: {error.found}"
                return None
            refused = f"{error.found}; expected {error.expected}"
        if _state(self._folder / name) != state or not (refused or len(data) == state[0]):
            self._ready.clear()  # it has gone on growing, and holds back those behind it
            self._seen.pop(name, None)
            return None
        entry = FileEntry(name, *state, self._files.end + (1 if refused else len(data)), refused)
        self._files.add(entry)
        self._seen.pop(name, None)
        if not refused:
            self._begin(entry, data)
        return entry

    def _open_again(self, entry: FileEntry) -> Chunk | None:
        """Go on with one that was given before, from where that was journaled."""
        if entry.refused:
            return self._dropped(entry, BAD_FILE)
        data = b""
        with suppress(FileRefused):
            data = read_named(self._folder, entry.name, max_bytes=self._spec.max_file_bytes)
        if len(data) != entry.size or _state(self._folder / entry.name) != entry.state:
            return self._dropped(entry, FILE_GONE)
        self._begin(entry, data)
        return None

    def _begin(self, entry: FileEntry, data: bytes) -> None:
        self._entry, self._data = entry, memoryview(data)
        self._position = max(self._position, entry.start)

    def _dropped(self, entry: FileEntry, reason: str) -> Chunk:
        self._position = entry.end
        told = entry.refused or "it was changed or taken away before it was read to its end"
        self._last_refused = f"last refused: {_shown(entry.name)}: {told}"
        return Chunk(b"", self._wall_ns(), self._mono_ns(), entry.end, lost_before=1, dropped=reason)

    def _piece(self, room: int) -> Chunk:
        entry, data = self._entry, self._data
        if entry is None or data is None:
            raise RuntimeError("no file is open")
        at = self._position - entry.start
        size = len(data) if self._spec.whole else min(room, MAX_CHUNK_BYTES, len(data) - at)
        piece = bytes(data[at : at + size])
        self._position += len(piece)
        is_last = self._position == entry.end
        if is_last:
            self._entry = self._data = None
            self._read += 1
        return Chunk(piece, self._wall_ns(), self._mono_ns(), self._position, anew=at == 0, ends=is_last)

    def _look(self) -> None:
        """Find the files that are complete and not read yet, in order."""
        begun_ns = self._mono_ns()
        self._waits = ""
        try:
            found = self._found()
        except OSError as error:
            self._waits = f"waits: {error.strerror or type(error).__name__}"
        else:
            if len(found) > MAX_FILES:
                self._waits = f"waits: more than {MAX_FILES} files in it; take the old ones away, or set after"
            else:
                self._choose(found, begun_ns)
        now_ns = self._mono_ns()
        self._look_ns = now_ns + max(round(self._spec.poll_s * 1e9), _IDLE_SHARE * (now_ns - begun_ns))

    def _found(self) -> dict[str, tuple[int, int]]:
        """The states of the files whose names fit, but for MAX_FILES no more than one. Raises OSError."""
        found = {}
        with os.scandir(self._folder) as entries:
            fitting = (
                one for one in entries if not one.name.startswith(".") and fnmatchcase(one.name, self._spec.pattern)
            )
            for one in islice(fitting, MAX_FILES + 1):
                with suppress(FileNotFoundError):  # gone since
                    if not one.is_dir(follow_symlinks=False):
                        status = one.stat(follow_symlinks=False)
                        found[one.name] = (status.st_size, status.st_mtime_ns)
        return found

    def _choose(self, found: dict[str, tuple[int, int]], now_ns: int) -> None:
        known = self._files.known
        fresh = [(name, state) for name, state in found.items() if name not in known or known[name].state != state]
        fresh.sort(key=(lambda one: one[0]) if self._spec.order == "name" else _by_time)
        self._seen = {name: self._seen[name] for name, _ in fresh if name in self._seen}
        settle_ns = round(self._spec.settle_s * 1e9)
        held = ""
        for name, state in fresh:
            before, since_ns = self._seen.get(name, (None, now_ns))
            if before != state:
                since_ns = now_ns
            self._seen[name] = (state, since_ns)
            if held or not state[0]:  # one that is empty holds nobody back: it may stay so
                continue
            if now_ns - since_ns < settle_ns:
                held = name
            else:
                self._ready.append((name, state))
        self._waits = f"waits for {_shown(held)} to be complete" if held else ""
        self._files.forget(set(found))

    def _put_away(self, entry: FileEntry) -> None:
        """Do with a file that is settled what is to become of it, if it is still that file."""
        place = self._folder / entry.name
        if self._spec.after == "keep" or _state(place) != entry.state:
            return
        try:
            if self._spec.after == "delete" and not entry.refused:
                place.unlink()
            else:
                self._move(entry, place)
        except OSError as error:
            self._stuck = f"{_shown(entry.name)} cannot be taken away ({error.strerror}) and is not read again"

    def _move(self, entry: FileEntry, place: Path) -> None:
        folder = self._folder / (REFUSED if entry.refused else DONE)
        folder.mkdir(exist_ok=True)
        target = folder / entry.name
        if os.path.lexists(target):
            target = folder / f"{entry.name}.{entry.mtime_ns}"
        place.rename(target)
        if entry.refused:
            target.with_name(f"{target.name}.reason.txt").write_text(f"{entry.refused}\n", encoding="utf-8")


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of change of what stands there, without following a link; None where nothing does."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return (found.st_size, found.st_mtime_ns) if not stat.S_ISDIR(found.st_mode) else None


def _shown(name: str) -> str:
    return quote(os.fsencode(name).decode("utf-8", "backslashreplace"))


def _by_time(one: tuple[str, tuple[int, int]]) -> tuple[int, str]:
    return one[1][1], one[0]
