"""Captured messages as a source, with their topics, at their own pace or as fast as taken; it knows no broker."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Literal

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.captured_payloads import Payload, captured
from edge_runtime.sources.mqtt_topic import RETAINED
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.spec.reading import Damaged
from edge_runtime.spec.source import MqttSource
from edge_runtime.spec.topic import level_of, matches

MAX_LINE_BYTES: Final = 1 << 22
"""A message of broker.max_packet_bytes with every byte escaped is shorter, unless that was raised."""
BAD_CAPTURE: Final = "bad_capture"
OTHER_TOPIC: Final = "other_topic"


class MessageFile:
    """A file of ``mosquitto_sub -F '%j'``, a message a line, as ``spec`` would have taken it; see `sources.port.Source`.

    A position is the place behind a line. What the source would not have had is dropped and counted: a message that
    the broker had kept, one of another topic, a line that is no message.
    """

    can_wait = resumable = True
    redelivers = live = False
    reopened = 0

    def __init__(
        self,
        path: Path,
        speed: float | Literal["max"],
        spec: MqttSource,
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
    ) -> None:
        self.name = f"capture {path}"
        self._path, self._speed, self._spec = path, speed, spec
        self._wall_ns, self._mono_ns = wall_ns, mono_ns
        self._file: BinaryIO | None = None
        self._next: Payload | None = None
        self._behind = 0
        self._last_ns: int | None = None
        self._due_ns = 0
        self._status = "not started"

    @property
    def ended(self) -> bool:
        """Nothing comes any more and everything was taken."""
        return self._next is None and self._status != "not started"

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""
        return self._next is not None and (self._speed == "max" or self._due_ns <= self._mono_ns())

    def start(self, wake: Wake, position: int = 0) -> None:
        """Open behind the line at ``position``. Raises ConfigurationError if the file cannot be read."""
        try:
            self._file = self._path.open("rb")
            self._file.seek(position)
        except OSError as error:
            raise ConfigurationError(
                subject=f"capture {self._path}", found=f"{error.strerror}", expected="a file to replay",
                todo="correct the path",
            ) from error  # fmt: skip
        self._status, self._due_ns, self._behind = "playing", self._mono_ns(), position
        self._read(self._file)
        wake.set()

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """As promised."""
        chunks: list[Chunk] = []
        while max_bytes > 0 and self.waiting and self._next is not None and self._file is not None:
            chunks.append(self._chunk(self._next))
            max_bytes -= len(chunks[-1].data) + 1
            self._read(self._file)
        return chunks

    def acknowledge(self, position: int) -> None:
        """Nobody keeps it for us."""

    def due_ns(self) -> int | None:
        """When the next message is due, if that is known."""
        return None if self._speed == "max" or self._next is None else self._due_ns

    def status(self) -> str:
        """One plain sentence."""
        return self._status

    def stop(self) -> None:
        """Close; idempotent."""
        self._close("stopped")
        self._next = None

    def _read(self, file: BinaryIO) -> None:
        """Have the next message, or none at the end of the file; say when it is due."""
        while line := file.readline(MAX_LINE_BYTES):
            self._behind += len(line)
            if line.strip():
                break
        else:
            self._next = None
            self._close("ended")
            return
        self._next = captured(line)
        time_ns = self._next.arrival_ns
        if self._speed != "max" and time_ns is not None:
            gap_ns = 0 if self._last_ns is None else max(time_ns - self._last_ns, 0)
            self._due_ns += int(gap_ns / self._speed)
            self._last_ns = time_ns

    def _chunk(self, payload: Payload) -> Chunk:
        time_ns = self._wall_ns() if payload.arrival_ns is None else payload.arrival_ns
        place = (time_ns, self._mono_ns(), self._behind)
        if isinstance(payload.frame, Damaged):
            return Chunk(b"", *place, lost_before=1, dropped=BAD_CAPTURE)
        if not any(matches(one, payload.topic) for one in self._spec.topics):
            return Chunk(b"", *place, lost_before=1, dropped=OTHER_TOPIC)
        if payload.is_retained and self._spec.retained == "refuse":
            return Chunk(b"", *place, lost_before=1, dropped=RETAINED)
        level = self._spec.stream_level
        stream = "" if level is None else level_of(payload.topic, level)
        return Chunk(payload.frame, *place, stream=stream, topic=payload.topic)

    def _close(self, status: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._status = status
