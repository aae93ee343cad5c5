"""Bytes in any split -> frames, with a bound on memory; what a frame means is none of its business."""

from typing import Protocol

from edge_runtime.flow.framing_block import BlockLayout
from edge_runtime.flow.framing_lines import LineFramer
from edge_runtime.flow.framing_nmea import nmea_reader
from edge_runtime.flow.framing_packet import PacketLayout
from edge_runtime.flow.framing_parts import PartFramer
from edge_runtime.flow.framing_search import SearchFramer
from edge_runtime.flow.framing_stuffed import cobs_reader, slip_reader
from edge_runtime.spec.framing import BlockFraming, CobsFraming, Framing, LinesFraming, NmeaFraming, SlipFraming
from edge_runtime.spec.payload import Encoding
from edge_runtime.spec.reading import Damaged, Rejection


class Framer(Protocol):
    """Cuts one byte stream; any split of the same bytes gives the same frames, and no damaged one goes untold."""

    def feed(self, chunk: bytes) -> list[bytes | Damaged]:
        """Take the next bytes; give the frames they complete, in order. It never raises."""

    @property
    def pending_bytes(self) -> int:
        """Bytes held that belong to no finished frame, in bytes."""

    @property
    def discarding(self) -> bool:
        """Whether what comes next up to a frame's beginning will be skipped without a word."""

    @property
    def passed_over(self) -> bool:
        """Whether anything was skipped without a word since ``restore``, up to the first frame."""

    def restore(self, *, discarding: bool) -> None:
        """Forget what is held; ``discarding`` is for a stream joined in the middle of a frame."""

    def flush(self) -> list[bytes | Damaged]:
        """End the stream: give what is left of it, and begin anew."""


class MessageFramer:
    """One chunk is one frame: a message arrives whole. Line ends at the end of a text are none of it; an empty one is no frame."""

    pending_bytes = 0
    discarding = passed_over = False

    def __init__(self, max_bytes: int, *, is_text: bool) -> None:
        self._max_bytes = max_bytes
        self._is_text = is_text
        found, todo = f"more than {max_bytes} bytes", "look at what the sender sends, or raise framing.max_bytes"
        self._too_long = Damaged(Rejection("too_long", "message", found, "a shorter message", todo), b"")

    def feed(self, chunk: bytes) -> list[bytes | Damaged]:
        """Give the frame of one message."""
        if len(chunk) > self._max_bytes:
            return [self._too_long]
        frame = chunk.rstrip(b"\r\n") if self._is_text else chunk
        return [frame] if frame else []

    def restore(self, *, discarding: bool) -> None:
        """Nothing is held."""

    def flush(self) -> list[bytes | Damaged]:
        """Nothing is held."""
        return []


def make_framing(framing: Framing, encoding: Encoding) -> Framer:  # noqa: PLR0911 (one exit per kind)
    """Give what cuts as ``framing`` says; ``encoding`` matters to lines alone."""
    if isinstance(framing, NmeaFraming):
        return PartFramer(LineFramer(framing.max_bytes, "any"), nmea_reader(framing.checksum))
    if isinstance(framing, CobsFraming):
        return PartFramer(LineFramer(framing.max_bytes, "zero"), cobs_reader(framing.crc))
    if isinstance(framing, SlipFraming):
        return PartFramer(LineFramer(framing.max_bytes, "slip_end"), slip_reader(framing.crc))
    if isinstance(framing, LinesFraming):
        if encoding == "utf-16-le":
            return LineFramer(framing.max_bytes, framing.line_end, 2, "little")
        if encoding == "utf-16-be":
            return LineFramer(framing.max_bytes, framing.line_end, 2, "big")
        return LineFramer(framing.max_bytes, framing.line_end)
    return SearchFramer(BlockLayout(framing) if isinstance(framing, BlockFraming) else PacketLayout(framing))
