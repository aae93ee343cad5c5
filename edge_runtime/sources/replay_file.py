"""A file as a source: a recording at its own pace or as fast as taken, or plain bytes; it has no thread."""

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.recording import MAGIC, MESSAGES_MAGIC, Record, RecordingError, RecordingReader
from edge_runtime.sources.mqtt_topic import replayed
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.spec.source import MqttSource

LONGEST_GAP_NS = 3_600_000_000_000
"""A paced replay waits an hour at most: a longer gap in a recording is usually its clock being set, not silence."""


def has_messages(path: Path) -> bool:
    """Whether ``path`` is a recording of messages, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MESSAGES_MAGIC)) == MESSAGES_MAGIC


def refuse_absent(path: Path) -> None:
    """Raise ConfigurationError where ``path`` cannot be replayed, as the start would, but open nothing: it may be a pipe."""
    found = (
        "No such file or directory" if not path.exists()
        else "Is a directory" if path.is_dir()
        else "" if os.access(path, os.R_OK) else "Permission denied"
    )  # fmt: skip
    if found:
        raise _wrong(path, found, "a file to replay", "correct the path")


class ReplayFile:
    """Bytes of a file from any position. See `sources.port.Source` for the methods.

    The messages of a recording of those are given one a chunk, as a source of ``topics`` would have given them. ``whole``
    has a plain file given as one chunk.

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
        topics: MqttSource | None = None,
        whole: bool = False,
    ) -> None:
        self.name = f"replay of {path}"
        self._topics = topics
        self._whole = whole
        self._path = path
        self._speed = speed
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns
        self._file: BinaryIO | None = None
        self._recording: RecordingReader | None = None
        self._records: deque[Record] = deque()
        self._fresh = self._anew = False
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
        if head.startswith(MESSAGES_MAGIC) and self._topics is None:
            self._close("ended: a recording of messages")
            todo = "play it with `edge-runtime replay` through a line whose source is mqtt"
            raise self._wrong("a recording of messages", "bytes, or a recording of bytes", todo)
        self._status = "playing"
        self._due_ns = self._mono_ns()
        if head.startswith((MAGIC, MESSAGES_MAGIC)):
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
            record = self._records.popleft()
            size = len(record.data) if record.topic or self._whole else min(room, MAX_CHUNK_BYTES)
            if len(record.data) > size:
                self._records.appendleft(record._replace(data=record.data[size:]))
                record = record._replace(data=record.data[:size])
            self._position += len(record.data)
            chunks.append(self._chunk(record, now_ns))
            self._fresh = self._anew = False
            room -= len(record.data)
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
        return self._due_of(self._records[0].time_ns, self._speed)

    def status(self) -> str:
        """One plain sentence."""
        return self._status

    def stop(self) -> None:
        """Close; idempotent."""
        self._close("stopped")
        self._records.clear()

    def _chunk(self, record: Record, now_ns: int) -> Chunk:
        place = (record.time_ns, now_ns, self._position)
        if self._topics is not None and record.topic:
            return replayed(self._topics, record.data, record.topic, place, retained=record.retained)
        return Chunk(record.data, *place, 0, self._fresh, anew=self._anew)

    def _is_due(self, now_ns: int) -> bool:
        if self._recording is None or self._speed == "max":
            return True
        time_ns = self._records[0].time_ns
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
        """Have a record with bytes or a topic at the front, or the file closed at its end."""
        while True:
            while self._records and not (self._records[0].data or self._records[0].topic):
                self._anew = self._records.popleft().anew
                self._fresh = not self._anew
            if self._records or self._file is None:
                return
            data = self._file.read(-1 if self._whole else MAX_CHUNK_BYTES)
            if not data:
                self._finish()
                return
            if self._recording is None:
                self._records.append(Record(self._wall_ns(), data))
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
            record = self._records.popleft()
            gone = min(len(record.data), position - self._position)
            self._position += gone
            self._fresh = self._anew = False
            if gone < len(record.data):
                self._records.appendleft(record._replace(data=record.data[gone:]))

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
        return _wrong(self._path, found, expected, todo)


def _wrong(path: Path, found: str, expected: str, todo: str) -> ConfigurationError:
    return ConfigurationError(subject=f"replay file {path}", found=found, expected=expected, todo=todo)
