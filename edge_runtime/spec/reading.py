"""What one frame says once decoded, or why it says nothing; a reading still carries the sender's numbers and units."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

LATEST_NS: Final = (1 << 63) - 1
"""The last time that 64 bits of a journal or a window hold, in 2262; whoever takes times in, takes none after it."""


class Gridded(NamedTuple):
    """An array that came with the places of its points, both as they were sent; the binding says the places' unit."""

    values: Sequence[float]
    grid: Sequence[float]


class Absent:
    """The one value of its kind: a message does not have the field at all, which is not the same as having no value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()

Value = Any
"""One channel of a reading: a number, a category's word, an array of numbers (also a numpy one), or None for missing.

ABSENT occurs between a decoder and a join alone.
"""


class Reading(NamedTuple):
    """One sample as it was sent, not yet judged.

    ``values`` are in the order of the binding's channels and in the sender's units; ``None`` is missing, NaN is NaN.
    ``units`` holds, per channel, the unit text the payload itself declared, or is ``None`` where no payload does.
    ``time_ns`` is the payload's own time in Unix nanoseconds, or ``None`` where it has none (arrival time then counts).
    ``carry`` holds the fields that pass through to the answer untouched, as (name, text or number) pairs.
    """

    values: tuple[Value, ...]
    time_ns: int | None = None
    stream: str = ""
    units: tuple[str | None, ...] | None = None
    carry: tuple[tuple[str, str | float | int | bool | None], ...] = ()


class Pack(NamedTuple):
    """Several readings that one frame held, oldest first.

    Each comes with how far its time lies from its arrival, in ns, or with None where ``time_ns`` says all there is.
    """

    readings: tuple[tuple[Reading, int | None], ...]

    def at(self, arrival_ns: int) -> Iterator[Reading]:
        """The readings in order, with the times they have if the frame arrived at ``arrival_ns`` (Unix ns)."""
        for reading, after_ns in self.readings:
            yield reading if after_ns is None else reading._replace(time_ns=arrival_ns + after_ns)


class Rejection(NamedTuple):
    """Why a sample or a window was refused: ``reason`` is the ledger's word, the rest is for a person.

    Reasons of framing: too_long, bad_frame, bad_checksum. Reasons of decoding: bad_encoding, wrong_columns,
    wrong_size, bad_json, bad_senml, bad_sparkplug, no_match, missing_field, not_a_number, type_changed, bad_time,
    bad_status; of Sparkplug: no_birth, seq_gap, bad_quality, historical; what an instrument says of itself: unstable,
    overload, underload, not_ready, other_unit, unverified. Of a join of several messages: other_topic, stale. Reasons of
    the contract: missing, not_finite, undeclared_unit, unknown_unit, wrong_dimension, beyond_physical, time_back, time_ahead,
    wrong_shape, other_grid, unknown_category, beyond_dtype. Of the stream: bad_stream, too_many_streams. Of a
    window: gap. docs/troubleshooting.md says what to do about each.
    """

    reason: str
    subject: str
    found: str
    expected: str
    todo: str = ""

    def __str__(self) -> str:
        line = f"{self.subject}: found {self.found}; expected {self.expected}"
        if self.todo:
            line += f"; {self.todo}"
        return " ".join(line.split())


class Damaged(NamedTuple):
    """A frame that did not come whole: why, and its bytes as far as they were held."""

    rejection: Rejection
    raw: bytes
