"""How packets of sync bytes, a length and a CRC are laid out; it never trusts a length."""

from edge_runtime.flow.checksum import bad_checksum
from edge_runtime.spec.framing import PacketFraming
from edge_runtime.spec.reading import Rejection

_LENGTH_BYTES = {"uint8": 1, "uint16": 2, "uint32": 4}


class PacketLayout:
    """See `framing_search.Layout`; a frame is what stands between sync and CRC, without the length field."""

    subject = "packet"
    no_sync_todo = "a rare one is a disturbed line; else check framing.sync, framing.length and the baud rate"

    def __init__(self, spec: PacketFraming) -> None:
        self.sync = bytes.fromhex(spec.sync)
        self._crc = spec.crc
        self._crc_bytes, self._compute = spec.crc.size_bytes, spec.crc.function()
        self._payload_bytes = spec.payload_bytes or 0
        length = spec.length
        self._length_at = len(self.sync) + (length.after_bytes if length else 0)
        self.head_bytes = self._length_at + (_LENGTH_BYTES[length.type] if length else 0)
        expressible = (1 << 8 * _LENGTH_BYTES[length.type]) - 1 if length else 0
        self._max_bytes = min(spec.max_bytes, expressible)
        self._order = (length.byte_order if length else None) or "big"
        beside = {"payload": 0, "payload_and_crc": self._crc_bytes, "packet": self.head_bytes + self._crc_bytes}
        self._counted_beside = beside[length.counts] if length else 0
        covered = {"payload": self.head_bytes, "after_sync": len(self.sync), "packet": 0}
        self._covered_from = covered[spec.crc_covers]
        self.longest_bytes = self.head_bytes + (self._payload_bytes or self._max_bytes) + self._crc_bytes

    def end(self, data: bytes, start: int) -> int | Rejection:
        """Where it ends; a length beyond the limit is refused before its bytes are waited for."""
        payload_at = start + self.head_bytes
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

    def read(self, data: bytes, start: int, end: int) -> bytes | Rejection:
        """The frame, if its CRC holds."""
        body_end = end - self._crc_bytes
        computed = self._compute(data[start + self._covered_from : body_end])
        if computed != int.from_bytes(data[body_end:end], self._crc.byte_order or "big"):
            covered = body_end - start - self._covered_from
            return bad_checksum(self._crc, computed, data[body_end:end], covered)
        return data[start + len(self.sync) : start + self._length_at] + data[start + self.head_bytes : body_end]
