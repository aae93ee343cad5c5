"""Foreign text as a message may show it: short, escaped, and with the names that were perhaps meant."""

from collections.abc import Iterable

_LONGEST_QUOTE = 60
_LONGEST_NAME = 60
_MOST_BYTES = 20
_MOST_NAMES = 64


def quote(value: object) -> str:
    """Quote at most 60 characters (or bytes) of ``value``, escaped so that a terminal or a log is safe from it."""
    if isinstance(value, str | bytes):
        shown = repr(value[:_LONGEST_QUOTE])
        return shown if len(value) <= _LONGEST_QUOTE else f"{shown}..."
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value) if isinstance(value, float) else quote_integer(value)


def quote_bytes(data: bytes) -> str:
    """Write at most 20 bytes in hexadecimal, as manuals of binary protocols do; "nothing" for none."""
    shown = data[:_MOST_BYTES].hex(" ") or "nothing"
    return shown if len(data) <= _MOST_BYTES else f"{shown}... ({len(data)} bytes)"


def quote_integer(value: object) -> str:
    """Write an integer out, or say how long it is: Python refuses to write one of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 4 * _LONGEST_QUOTE:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)[:_LONGEST_QUOTE]


def quote_names(names: Iterable[str]) -> str:
    """Quote the first few of ``names``; more than a person reads is only counted."""
    listed = list(names)
    shown = ", ".join(quote(name) for name in listed[:8])
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"  # noqa: PLR2004 (as many as fit a line)


def nearest(wanted: str, names: Iterable[str]) -> str:
    """Say which of ``names`` are spelled most like ``wanted``, or nothing; hostile lists cost a bounded time."""
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    candidates: dict[str, str] = {}
    for name in names:
        if len(candidates) == _MOST_NAMES:
            break
        if isinstance(name, str) and len(name) <= _LONGEST_NAME:
            candidates.setdefault(name.casefold(), name)
    close = get_close_matches(wanted.casefold()[:_LONGEST_NAME], list(candidates), n=3, cutoff=0.5)
    return "" if not close else "nearest: " + ", ".join(quote(candidates[name]) for name in close)
