"""What leaves the line: answers and their flags, and how one is written as JSON; values are final here."""

from typing import NamedTuple

# Bits a sample or a window carries; the names are what an answer prints, in this order.
CONVERTED = 1
EXTRAPOLATING = 2
BEYOND_TOLERATED = 4
CLIPPED = 8
STUCK = 16
RATE_OFF = 32
RESTARTED = 64
ASSUMED_UNIT = 128
HELD = 256
FILLED = 512
MISSING = 1024
RESAMPLED = 2048
CLOCK_UNSYNCED = 4096
STEP = 8192
SHIFTED = 16384
DRIFTED = 32768
CONSTANT = 65536
THROTTLED = 131072
FALLBACK_BUNDLE = 262144
FLAG_NAMES = {
    CONVERTED: "converted",
    EXTRAPOLATING: "extrapolating",
    BEYOND_TOLERATED: "beyond_tolerated",
    CLIPPED: "clipped",
    STUCK: "stuck",
    RATE_OFF: "rate_off",
    RESTARTED: "restarted",
    ASSUMED_UNIT: "assumed_unit",
    HELD: "held",
    FILLED: "filled",
    MISSING: "missing",
    RESAMPLED: "resampled",
    CLOCK_UNSYNCED: "clock_unsynced",
    STEP: "step",
    SHIFTED: "shifted",
    DRIFTED: "drifted",
    CONSTANT: "constant",
    THROTTLED: "throttled",
    FALLBACK_BUNDLE: "fallback_bundle",
}


def flag_names(bits: int) -> list[str]:
    """The names of the set bits, in the order of ``FLAG_NAMES``."""
    return [name for bit, name in FLAG_NAMES.items() if bits & bit]


class OutputValue(NamedTuple):
    """One output of one answer: its value in ``unit`` (UCUM), a label's score, and its named flags.

    ``value`` is a number, a label's text, or a tuple of numbers for a vector.
    """

    name: str
    value: float | str | tuple[float, ...]
    unit: str
    flags: tuple[tuple[str, bool], ...] = ()
    score: float | None = None


class Answer(NamedTuple):
    """One published answer.

    ``time_ns`` is the event time of the newest sample in it (Unix ns), ``id`` the same for the same input and bundle,
    ``seq`` the running number within the stream, ``flags`` bits of ``FLAG_NAMES``, ``stuck`` the channels meant by it,
    ``mono_ns`` the monotonic time at which that sample arrived and ``age_ns`` what has passed since then (both None in
    event time: replay, demo, score).
    """

    stream: str
    seq: int
    time_ns: int
    id: str
    outputs: tuple[OutputValue, ...]
    flags: int = 0
    stuck: tuple[str, ...] = ()
    mono_ns: int | None = None
    age_ns: int | None = None
    carry: tuple[tuple[str, str | float | int | bool | None], ...] = ()
