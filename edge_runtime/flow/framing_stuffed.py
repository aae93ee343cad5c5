"""Binary frames whose delimiter was stuffed out of them: COBS and SLIP, with a CRC or without."""

from edge_runtime.flow.checksum import make_check
from edge_runtime.flow.framing_parts import Reader
from edge_runtime.flow.quoting import quote_bytes
from edge_runtime.spec.crc import Crc
from edge_runtime.spec.reading import Damaged, Rejection

_WHOLE_BLOCK = 0xFF
_ESC = b"\xdb"
_ESCAPED = {0xDC: b"\xc0", 0xDD: b"\xdb"}


def cobs_reader(crc: Crc | None) -> Reader:
    """Give the reader of what stands between two zeros (Cheshire and Baker, IEEE/ACM ToN 7:2, 1999)."""
    check = make_check(crc)

    def read(part: bytes) -> list[bytes | Damaged]:
        frame = bytearray()
        place = 0
        while place < len(part):
            code = part[place]
            end = place + code
            if end > len(part):
                found = f"a block of {code - 1} bytes with {len(part) - place - 1} left in {quote_bytes(part)}"
                return [Damaged(_bad_frame(found, "whole COBS blocks"), part)]
            frame += part[place + 1 : end]
            place = end
            if code != _WHOLE_BLOCK and place < len(part):
                frame.append(0)
        return [check(bytes(frame))]

    return read


def stuff_cobs(data: bytes) -> bytes:
    """``data`` without zeros, as ``cobs_reader`` takes it, without the zeros on both sides."""
    stuffed = bytearray()
    for block in data.split(b"\0"):
        rest = block
        while len(rest) >= _WHOLE_BLOCK - 1:
            stuffed += bytes([_WHOLE_BLOCK]) + rest[: _WHOLE_BLOCK - 1]
            rest = rest[_WHOLE_BLOCK - 1 :]
        stuffed += bytes([len(rest) + 1]) + rest
    return bytes(stuffed)


def slip_reader(crc: Crc | None) -> Reader:
    """Give the reader of what stands between two ENDs (RFC 1055)."""
    check = make_check(crc)

    def read(part: bytes) -> list[bytes | Damaged]:
        first, *escaped = part.split(_ESC)
        frame = bytearray(first)
        for piece in escaped:
            byte = _ESCAPED.get(piece[0]) if piece else None
            if byte is None:
                found = f"ESC before {quote_bytes(piece[:1])} in {quote_bytes(part)}"
                return [Damaged(_bad_frame(found, "ESC only before 0xdc or 0xdd"), part)]
            frame += byte
            frame += piece[1:]
        return [check(bytes(frame))]

    return read


def _bad_frame(found: str, expected: str) -> Rejection:
    return Rejection("bad_frame", "frame", found, expected, "check the baud rate, the cable and framing.kind")
