"""How much of a channel's range would pass unseen in another unit; arithmetic on the contract, it sees no data."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.spec.units import Kind, conversion, resolve, siblings

Range = tuple[float, float]

CONFUSABLE = Rule(
    "confusable-unit", "error",
    'a channel with when_undeclared = "assume" whose readings, in another unit, would still lie in its physical band',
    "nobody declares the unit and no range check can notice the wrong one: the answer is plausible and wrong",
    'set when_undeclared = "refuse", narrow the physical band, or waive it with the reason why the source is sure',
)  # fmt: skip

EVENTS = Rule(
    "events-per-minute", "warning",
    "a channel in `/min`, a rate of events",
    "a rate of events and a speed of rotation are two dimensions here: a source that declares rpm, circ/min or rad/s is "
    "refused, and a bare number of turns is taken for a number of events",
    "write `circ/min` for the turns of a shaft; where `/min` is right (beats, strokes, pulses), waive this and say what is "
    "counted",
)  # fmt: skip

RULES = (CONFUSABLE, EVENTS)


class Quantity(NamedTuple):
    """A channel as this module needs it; all ranges in its contract unit."""

    name: str
    unit: str
    tolerated: Range
    trained: Range
    physical: Range
    kind: Kind = "point"
    assumed: bool = False


class Confusable(NamedTuple):
    """The share (0 to 1) of a channel's ranges that passes when a source sends it in ``sibling`` and nobody says so."""

    channel: str
    unit: str
    sibling: str
    tolerated: float
    trained: float


def confusable(quantities: Iterable[Quantity]) -> tuple[Confusable, ...]:
    """Every channel against every sibling of its unit, most common siblings first; those of no effect are left out."""
    return tuple(row for quantity in quantities for row in _rows(quantity))


def unseen_share(unit: str, sibling: str, inner: Range, band: Range, kind: Kind = "point") -> float:
    """The share of ``inner`` whose number, written in ``sibling`` and read in ``unit``, lies within ``band``.

    Both ranges are in ``unit``; both conversions are affine, so the share is exact.
    """
    a, b = conversion(resolve(unit), resolve(sibling), kind)
    # a is positive for every pair of the table.
    low, high = ((end - b) / a for end in band)
    if inner[0] == inner[1]:
        return float(low <= inner[0] <= high)
    return max(0.0, min(inner[1], high) - max(inner[0], low)) / (inner[1] - inner[0])


def judge_units(quantities: Sequence[Quantity]) -> Iterator[Finding]:
    """A finding for each channel that would take another unit's readings without anybody declaring one, or counts events."""
    for quantity in quantities:
        if resolve(quantity.unit) == resolve("/min"):
            yield EVENTS.found_at(f"channel {quantity.name} in /min", "counts events a minute, not turns")
        rows = [row for row in _rows(quantity) if max(row.tolerated, row.trained) > 0]
        if quantity.assumed and rows:
            worst = sorted(rows, key=lambda row: -row.tolerated)[:3]
            named = ", ".join(f"{row.tolerated:.0%} in {row.sibling} ({row.trained:.0%} of trained)" for row in worst)
            yield CONFUSABLE.found_at(
                f"channel {quantity.name} in {quantity.unit}", f"of its tolerated range would pass unseen: {named}"
            )


def as_text(rows: Sequence[Confusable]) -> str:
    """The table as lines of text, for a person."""
    head = ("channel", "unit", "read in", "tolerated", "trained")
    cells = [head, *((r.channel, r.unit, r.sibling, f"{r.tolerated:.0%}", f"{r.trained:.0%}") for r in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in cells)


def _rows(quantity: Quantity) -> Iterator[Confusable]:
    name, unit, band, kind = quantity.name, quantity.unit, quantity.physical, quantity.kind
    for sibling in siblings(resolve(unit)):
        if conversion(resolve(unit), sibling, kind) == (1.0, 0.0):
            continue  # a difference in K is one in Cel
        tolerated, trained = (
            unseen_share(unit, sibling.code, inner, band, kind) for inner in (quantity.tolerated, quantity.trained)
        )
        yield Confusable(name, unit, sibling.code, tolerated, trained)
