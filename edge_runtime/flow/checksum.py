"""The check at a frame's end, a CRC or a sum: checked and taken off; it never lets a frame pass whose check does not hold."""

from collections.abc import Callable

from edge_runtime.flow.quoting import quote_bytes
from edge_runtime.spec.crc import Crc
from edge_runtime.spec.reading import Damaged, Rejection

Check = Callable[[bytes], bytes | Damaged]
"""A frame with its CRC -> the frame without it, or why it is refused."""


def make_check(crc: Crc | None) -> Check:
    """Give the check of a CRC over the whole frame before it; without ``crc``, one that lets every frame pass."""
    if crc is None:
        return bytes
    size, compute = crc.size_bytes, crc.function()
    order = crc.byte_order or "big"

    def check(frame: bytes) -> bytes | Damaged:
        body = frame[:-size]
        if body and compute(body) == int.from_bytes(frame[-size:], order):
            return body
        return Damaged(bad_checksum(crc, compute(body), frame[-size:], len(body)), frame)

    return check


def bad_checksum(crc: Crc, computed: int, sent: bytes, over_bytes: int) -> Rejection:
    """Say that ``sent``, the CRC as it stood on the wire, is not the one of the bytes before it."""
    wanted = computed.to_bytes(crc.size_bytes, crc.byte_order or "big")
    return Rejection(
        "bad_checksum", "frame", f"a CRC of {quote_bytes(sent)}", f"{quote_bytes(wanted)} over its {over_bytes} bytes",
        "if every frame says so, check framing.crc; else look at the cable and the baud rate",
    )  # fmt: skip
