"""A file as a source: a recording at its own pace or as fast as taken, or plain bytes; it has no thread."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.recording import MAGIC, RecordingError, RecordingReader
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake

LONGEST_GAP_NS = 3_600_000_000_000
"""A paced replay waits an hour at most: a longer gap in a recording is usually its clock being set, not silence."""


class ReplayFile:
    """Bytes of a file from any position. See `sources.port.Source` for the methods.

    A position counts the bytes given, so in a plain file it is the offset in the file, and in a recording the offset
    in what was recorded: any of them may be resumed at, in the middle of a record too.
    """

    can_wait = True
    redelivers = False
    resumable = True
    live = False
    reopened = 0

    def __init__(
        self,
        path: Path,
        speed: float | Literal["max"],
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
    ) -> None:
        self.name = f"replay of {path}"
        self._path = path
        self._speed = speed
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns
        self._file: BinaryIO | None = None
        self._recording: RecordingReader | None = None
        self._records: deque[tuple[int, bytes]] = deque()
        self._fresh = False
        self._position = 0
        self._due_ns = 0
        self._paced_from_ns: int | None = None
        self._damage: RecordingError | None = None
        self._status = "not started"

    @property
    def ended(self) -> bool:
        """Nothing comes any more and everything was taken."""
        return self._file is None and not self._records and self._damage is None and self._status != "not started"

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""
        due_ns = self.due_ns()
        return not self.ended if due_ns is None else due_ns <= self._mono_ns()

    def start(self, wake: Wake, position: int = 0) -> None:
        """Open at ``position``. Raises ConfigurationError if the file is not there, too short, or damaged before it."""
        try:
            self._file = self._path.open("rb")
            head = self._file.read(len(MAGIC))
            self._file.seek(0)
        except OSError as error:
            raise self._wrong(f"{error.strerror}", "a file to replay", "correct the path") from error
        self._status = "playing"
        self._due_ns = self._mono_ns()
        if head == MAGIC:
            self._recording = RecordingReader()
        self._skip(position)
        self._fill()
        wake.set()

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """As promised; raises ConfigurationError where a recording is damaged."""
        chunks: list[Chunk] = []
        room = max_bytes
        now_ns = self._mono_ns()
        while room > 0 and self._records and self._is_due(now_ns):
            time_ns, data = self._records.popleft()
            size = min(room, MAX_CHUNK_BYTES)
            piece = data[:size]
            if len(data) > size:
                self._records.appendleft((time_ns, data[size:]))
            self._position += len(piece)
            chunks.append(Chunk(piece, time_ns, now_ns, self._position, 0, self._fresh))
            self._fresh = False
            room -= len(piece)
            self._fill()
        if not chunks:
            self._raise_damage()
        return chunks

    def acknowledge(self, position: int) -> None:
        """Nobody keeps it for us."""

    def due_ns(self) -> int | None:
        """When the next chunk is due, if that is known."""
        if self._recording is None or self._speed == "max" or not self._records:
            return None
        return self._due_of(self._records[0][0], self._speed)

    def status(self) -> str:
        """One plain sentence."""
        return self._status

    def stop(self) -> None:
        """Close; idempotent."""
        self._close("stopped")
        self._records.clear()

    def _is_due(self, now_ns: int) -> bool:
        if self._recording is None or self._speed == "max":
            return True
        time_ns = self._records[0][0]
        due_ns = self._due_of(time_ns, self._speed)
        if due_ns > now_ns:
            return False
        self._due_ns, self._paced_from_ns = due_ns, time_ns
        return True

    def _due_of(self, time_ns: int, speed: float) -> int:
        """Allow for a recording's clock that jumps: backwards counts as no gap, forwards as LONGEST_GAP_NS at most."""
        if self._paced_from_ns is None:
            return self._due_ns
        gap_ns = min(max(time_ns - self._paced_from_ns, 0), LONGEST_GAP_NS)
        return self._due_ns + int(gap_ns / speed)

    def _fill(self) -> None:
        """Have a record with bytes at the front, or the file closed at its end."""
        while True:
            while self._records and not self._records[0][1]:
                self._records.popleft()
                self._fresh = True
            if self._records or self._file is None:
                return
            data = self._file.read(MAX_CHUNK_BYTES)
            if not data:
                self._finish()
                return
            if self._recording is None:
                self._records.append((self._wall_ns(), data))
            else:
                self._decode(self._recording, data)

    def _decode(self, recording: RecordingReader, data: bytes) -> None:
        try:
            self._records.extend(recording.feed(data))
        except RecordingError as error:
            self._close("ended: the recording is damaged")
            self._damage = error

    def _raise_damage(self) -> None:
        error, self._damage = self._damage, None
        if error is not None:
            raise self._wrong(str(error), "a recording made by `record`", "record it again or cut it there") from error

    def _skip(self, position: int) -> None:
        if self._recording is None and self._file is not None:
            size = self._file.seek(0, 2)
            self._file.seek(min(position, size))
            self._position = min(position, size)
        while self._position < position:
            self._fill()
            if not self._records:
                self._raise_damage()
                found = f"{self._position} bytes, fewer than the {position} already taken from it"
                self._close("ended: shorter than before")
                raise self._wrong(found, "the file that was replayed before", "replay that one, or clear the state")
            time_ns, data = self._records.popleft()
            gone = min(len(data), position - self._position)
            self._position += gone
            self._fresh = False
            if gone < len(data):
                self._records.appendleft((time_ns, data[gone:]))

    def _finish(self) -> None:
        if self._recording is not None:
            self._decode(self._recording, b"")
        if self._damage is not None:
            return
        cut = 0 if self._recording is None else self._recording.pending_bytes
        self._close(f"ended; {cut} bytes of an unfinished last record left out" if cut else "ended")

    def _close(self, status: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._status = status

    def _wrong(self, found: str, expected: str, todo: str) -> ConfigurationError:
        return ConfigurationError(subject=f"replay file {self._path}", found=found, expected=expected, todo=todo)
