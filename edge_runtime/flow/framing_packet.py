"""Packets of sync bytes, a length and a CRC: found again one byte after whatever was none; it never trusts a length."""

from edge_runtime.flow.checksum import bad_checksum
from edge_runtime.flow.quoting import quote_bytes
from edge_runtime.spec.framing import PacketFraming
from edge_runtime.spec.reading import Damaged, Rejection

_LENGTH_BYTES = {"uint8": 1, "uint16": 2, "uint32": 4}


class PacketFramer:
    """Cuts packets; a frame is what stands between sync and CRC, without the length field.

    It holds less than one longest packet and the chunk in hand, for a length beyond the limit is refused before its
    bytes are waited for. Each packet that fails is told, once, and the search goes on at its second byte, so it costs no
    packet but itself. Bytes that begin no packet are told too, once for as many as the longest packet has; so many may
    pass without a word behind a failed packet, whose rest they are, and where the stream was joined in the middle
    (``discarding``).
    """

    def __init__(self, spec: PacketFraming) -> None:
        """Begin a stream."""
        self._sync = bytes.fromhex(spec.sync)
        self._crc = spec.crc
        self._crc_bytes, self._compute = spec.crc.size_bytes, spec.crc.function()
        self._payload_bytes = spec.payload_bytes or 0
        length = spec.length
        self._length_at = len(self._sync) + (length.after_bytes if length else 0)
        self._payload_at = self._length_at + (_LENGTH_BYTES[length.type] if length else 0)
        expressible = (1 << 8 * _LENGTH_BYTES[length.type]) - 1 if length else 0
        self._max_bytes = min(spec.max_bytes, expressible)
        self._order = (length.byte_order if length else None) or "big"
        beside = {"payload": 0, "payload_and_crc": self._crc_bytes, "packet": self._payload_at + self._crc_bytes}
        self._counted_beside = beside[length.counts] if length else 0
        covered = {"payload": self._payload_at, "after_sync": len(self._sync), "packet": 0}
        self._covered_from = covered[spec.crc_covers]
        self._pending = bytearray()
        self._needed_bytes = 0
        self._longest_bytes = self._payload_at + (self._payload_bytes or self._max_bytes) + self._crc_bytes
        # How many bytes that begin no packet may come without a word, and how many belong to a packet that was told.
        self._quiet_bytes = 0
        self._told_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes | Damaged]:
        """Take the next bytes; give the frames they complete, in order."""
        self._pending += chunk
        # Looking sooner would only copy what is pending: many times over, where a long packet comes in small chunks.
        return self._cut(at_end=False) if len(self._pending) >= self._needed_bytes else []

    @property
    def pending_bytes(self) -> int:
        """Bytes held that may still become a packet, in bytes."""
        return len(self._pending)

    @property
    def discarding(self) -> bool:
        """Whether bytes that begin no packet would be skipped without a word."""
        return self._quiet_bytes > 0

    def restore(self, *, discarding: bool) -> None:
        """Forget what is held; with ``discarding``, also skip the rest of a packet without a word."""
        self._pending.clear()
        self._needed_bytes = 0
        self._quiet_bytes = self._longest_bytes if discarding else 0
        self._told_bytes = 0

    def flush(self) -> list[bytes | Damaged]:
        """End the stream: a packet that did not come whole is told, and whole ones inside it are still given."""
        frames = self._cut(at_end=True)
        self.restore(discarding=False)
        return frames

    def _cut(self, *, at_end: bool) -> list[bytes | Damaged]:
        frames: list[bytes | Damaged] = []
        data = bytes(self._pending)
        place = self._needed_bytes = 0
        while place < len(data):
            start = self._find_sync(data, place, at_end=at_end)
            if start > place:
                self._skip_noise(data, place, start, frames)
                place = start
                continue
            end = self._end_of_packet(data, start)
            if isinstance(end, int) and end > len(data):
                if not at_end:
                    self._needed_bytes = end - start
                    break
                end = Rejection("bad_frame", "packet", f"{len(data) - start} bytes at the end of the input",
                                f"{end - start} or more", "the recording or the connection ended in it")  # fmt: skip
            if isinstance(end, int):
                body_end = end - self._crc_bytes
                computed = self._compute(data[start + self._covered_from : body_end])
                if computed == int.from_bytes(data[body_end:end], self._crc.byte_order or "big"):
                    frames.append(self._frame(data, start, body_end))
                    self._quiet_bytes = self._told_bytes = 0
                    place = end
                    continue
                covered = body_end - start - self._covered_from
                self._fail(bad_checksum(self._crc, computed, data[body_end:end], covered), data[start:end], frames)
            else:
                self._fail(end, data[start : start + self._payload_at], frames)
            place += 1
        del self._pending[:place]
        return frames

    def _find_sync(self, data: bytes, place: int, *, at_end: bool) -> int:
        """The next place where sync bytes stand, or may stand once more bytes have come."""
        found = data.find(self._sync, place)
        if found >= 0:
            return found
        if not at_end:
            for size in range(min(len(self._sync) - 1, len(data) - place), 0, -1):
                if data.endswith(self._sync[:size]):
                    return len(data) - size
        return len(data)

    def _end_of_packet(self, data: bytes, start: int) -> int | Rejection:
        """Where the packet at ``start`` ends, or at the least where its length does if that has not come yet."""
        payload_at = start + self._payload_at
        if len(data) < payload_at:
            return payload_at
        size = self._payload_bytes
        if not size:
            length = int.from_bytes(data[start + self._length_at : payload_at], self._order)
            size = length - self._counted_beside
            if not 0 <= size <= self._max_bytes:
                least, most = self._counted_beside, self._counted_beside + self._max_bytes
                todo = "if every packet says so, check framing.length, or raise framing.max_bytes"
                return Rejection("bad_frame", "packet", f"a length of {length}", f"{least} to {most}", todo)
        return payload_at + size + self._crc_bytes

    def _frame(self, data: bytes, start: int, end: int) -> bytes:
        payload = data[start + self._payload_at : end]
        before = data[start + len(self._sync) : start + self._length_at]
        return before + payload

    def _fail(self, rejection: Rejection, raw: bytes, frames: list[bytes | Damaged]) -> None:
        """Tell of a packet that is none, unless it begins within one of which that was told; one byte is given up."""
        if not self._told_bytes:
            frames.append(Damaged(rejection, raw))
        self._told_bytes = max(self._told_bytes, len(raw)) - 1
        self._quiet_bytes = self._longest_bytes

    def _skip_noise(self, data: bytes, start: int, end: int, frames: list[bytes | Damaged]) -> None:
        self._told_bytes = max(0, self._told_bytes - (end - start))
        place = start
        while end - place > self._quiet_bytes:
            place += self._quiet_bytes
            # One byte alone: how many follow depends on how the input was split.
            raw = data[place : place + 1]
            todo = "a rare one is a disturbed line; else check framing.sync, framing.length and the baud rate"
            expected = f"the sync bytes {quote_bytes(self._sync)}"
            frames.append(
                Damaged(Rejection("bad_frame", "packet", f"the byte {quote_bytes(raw)}", expected, todo), raw)
            )
            place += 1
            self._quiet_bytes = self._longest_bytes
        self._quiet_bytes -= end - place
