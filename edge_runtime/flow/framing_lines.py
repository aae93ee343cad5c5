"""Bytes in any split -> whole lines, with a bound on memory; it does not know what a line means."""

from typing import Literal

from edge_runtime.spec.reading import Damaged, Rejection

LineEnd = Literal["any", "lf", "cr", "zero", "slip_end"]
"""What ends a line: "\\n", "\\r", either; or for binary frames a zero byte (COBS), or SLIP's END."""

_DELIMITERS: dict[LineEnd, bytes] = {"any": b"\n", "lf": b"\n", "cr": b"\r", "zero": b"\0", "slip_end": b"\xc0"}
_TEXT_ENDS = {"any", "lf", "cr"}


def too_long(max_bytes: int, line_end: LineEnd) -> Damaged:
    """A line longer than the limit, told once, when its limit is passed; the rest of it is skipped."""
    if line_end in _TEXT_ENDS:
        subject, end, todo = "line", "line end", "check the baud rate and the line end, or raise framing.max_bytes"
    else:
        end = f"byte 0x{_DELIMITERS[line_end][0]:02x}"
        subject, todo = "frame", "check the baud rate and framing.kind, or raise framing.max_bytes"
    found = f"more than {max_bytes} bytes without a {end}"
    return Damaged(Rejection("too_long", subject, found, f"a shorter {subject}", todo), b"")


class LineFramer:
    """Cuts a byte stream into lines without their ends; any split of the same bytes gives the same frames.

    It never holds more than ``max_bytes`` and the chunk in hand. ``unit_bytes`` is 2 for UTF-16, in ``byte_order``; the
    units are counted from the first byte fed, so a link that loses one byte of UTF-16 needs a new framing.
    """

    def __init__(
        self,
        max_bytes: int,
        line_end: LineEnd,
        unit_bytes: Literal[1, 2] = 1,
        byte_order: Literal["little", "big"] = "little",
    ) -> None:
        """Begin a stream: nothing pending, nothing skipped."""
        self._max_bytes = max_bytes
        self._line_end = line_end
        self._delimiter = _DELIMITERS[line_end]
        self._too_long = too_long(max_bytes, line_end)
        self._unit_bytes = unit_bytes
        self._codec = "utf-16-le" if byte_order == "little" else "utf-16-be"
        self._pending = bytearray()
        self._half_unit = b""
        self._discarding = False
        self.passed_over = False

    def feed(self, chunk: bytes) -> list[bytes | Damaged]:
        """Take the next bytes; give the lines they complete, in order. Empty lines are no frames."""
        if self._unit_bytes == 1:
            parts = self._split_bytes(chunk)
        else:
            chunk = self._half_unit + chunk
            whole = len(chunk) & ~1
            self._half_unit = chunk[whole:]
            parts = self._split_utf16(chunk[:whole])
        tail = parts.pop()
        frames: list[bytes | Damaged]
        if self._pending or self._discarding or len(chunk) > self._max_bytes:
            frames = self._complete(parts) if parts else []
        else:
            frames = [part for part in parts if part]
        if tail and not self._discarding:
            self._pending += tail
            if len(self._pending) > self._max_bytes:
                frames.append(self._give_up())
                self._discarding = True
        elif tail:
            self.passed_over = True
        return frames

    @property
    def pending_bytes(self) -> int:
        """Bytes held that belong to no finished frame, in bytes; 0 while the rest of a long line is skipped."""
        return len(self._pending) + len(self._half_unit)

    @property
    def discarding(self) -> bool:
        """Whether everything up to the next line end will be skipped."""
        return self._discarding

    def restore(self, *, discarding: bool) -> None:
        """Forget what is held; with ``discarding``, also skip up to the next line end (a stream joined in a line)."""
        self._pending.clear()
        self._half_unit = b""
        self._discarding = discarding
        self.passed_over = False

    def flush(self) -> list[bytes | Damaged]:
        """End the stream: give the last line, if it had no end, and begin anew."""
        rest = b"" if self._discarding else bytes(self._pending) + self._half_unit
        self.restore(discarding=False)
        return [rest] if rest else []

    def _complete(self, parts: list[bytes]) -> list[bytes | Damaged]:
        """Frames of ``parts``, each of which a line end follows; what is pending belongs to the first."""
        if self._discarding:
            self._discarding = False
            self.passed_over = self.passed_over or bool(parts[0])
            del parts[0]
        elif self._pending:
            parts[0] = bytes(self._pending) + parts[0]
            self._pending.clear()
        if max(map(len, parts), default=0) <= self._max_bytes:
            return [part for part in parts if part]
        return [part if len(part) <= self._max_bytes else self._give_up() for part in parts if part]

    def _give_up(self) -> Damaged:
        self._pending.clear()
        return self._too_long

    def _split_bytes(self, data: bytes) -> list[bytes]:
        if self._line_end == "any" and b"\r" in data:
            # "\r\n" becomes an empty line, which is no frame: so a pair split over two chunks needs no memory of it.
            data = data.replace(b"\r", b"\n")
        return data.split(self._delimiter)

    def _split_utf16(self, data: bytes) -> list[bytes]:
        # surrogatepass takes every sequence of units and gives the same bytes back; judging them is decoding's part.
        text = data.decode(self._codec, "surrogatepass")
        if self._line_end == "any":
            text = text.replace("\r", "\n")
        parts = text.split("\r" if self._line_end == "cr" else "\n")
        return [part.encode(self._codec, "surrogatepass") for part in parts]
