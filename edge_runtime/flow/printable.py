"""How much of some bytes reads as text, the mark of a wrong baud rate; it decides nothing."""

_TEXT = bytes([*range(0x20, 0x7F), *b"\t\r\n"])


def printable_share(data: bytes) -> float:
    """Give the share, 0 to 1, of bytes that are printable ASCII, tab or line end; 1 for no bytes at all."""
    if not data:
        return 1.0
    return 1.0 - len(data.translate(None, _TEXT)) / len(data)
