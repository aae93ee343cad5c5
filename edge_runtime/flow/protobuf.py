"""The wire format of Protocol Buffers, one message deep at a time; it knows no message and follows no nesting by itself."""

from collections.abc import Iterator
from struct import pack
from typing import Final

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT: Final = 10
_LARGEST: Final = (1 << 64) - 1
_LARGEST_NUMBER: Final = (1 << 29) - 1


def read_fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Each field of one message in order, as (number, wire type, value).

    A varint comes as the unsigned integer it is, everything else as its bytes: four, eight, or as many as it says. Time
    and memory are bounded by the length of ``data``.

    Raises:
        ValueError: cut short, a number or a varint out of range, or one of the wire types that nobody writes any more.

    """
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= _LARGEST_NUMBER:
            raise ValueError(f"field number {number} before byte {at}")
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in _WIDTHS:
            size = _WIDTHS[wire]
        else:
            raise ValueError(f"wire type {wire} before byte {at}")
        if size > end - at:
            raise ValueError(f"{end} bytes, of which byte {at} asks for {size} more")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 -- the bit that says that more follows
            if value > _LARGEST:
                break
            return value, at + index + 1
    raise ValueError(f"a number that is cut short or beyond 64 bits at byte {at}")


def varint_field(number: int, value: int) -> bytes:
    """Write an unsigned integer of 64 bits at most, or a truth value."""
    return _written(number << 3 | VARINT) + _written(value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """Write text, bytes, or a message within the message."""
    data = value.encode() if isinstance(value, str) else value
    return _written(number << 3 | BYTES) + _written(len(data)) + data


def double_field(number: int, value: float) -> bytes:
    """Write a number of eight bytes."""
    return _written(number << 3 | FIXED64) + pack("<d", value)


def _written(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:  # noqa: PLR2004 -- seven bits a byte
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
