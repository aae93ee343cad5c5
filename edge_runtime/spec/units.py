"""A closed table of units and their affine conversions; it parses no expressions and guesses no unit.

Canonical spelling is UCUM's. The same text means different units in different vocabularies (`%` is a ratio in SenML
and a percent in UCUM), so a spelling counts only within the vocabulary its source declared. docs/units.md lists all.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from edge_runtime.spec.unit_table import AMBIGUOUS, EVERYDAY, RARE, SPELLINGS, UNITS

if TYPE_CHECKING:
    from fractions import Fraction

Vocabulary = Literal["ucum", "senml", "home-assistant", "plain"]
VOCABULARIES: tuple[Vocabulary, ...] = get_args(Vocabulary)
Kind = Literal["point", "difference"]


class Unit(NamedTuple):
    """One unit of the table: ``base = value * scale + offset`` in the base unit of its dimension."""

    code: str
    dimension: str
    scale: float
    offset: float


class Affine(NamedTuple):
    """The conversion ``y = a*x + b``, to be applied in float64."""

    a: float
    b: float


class UnitUnknown(ValueError):
    """``text`` names no unit in ``vocabulary``; ``hint`` says what to write instead."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.text = text
        self.vocabulary = vocabulary
        super().__init__(text, vocabulary)

    @property
    def hint(self) -> str:
        """Made on demand, since a stream may send one bad unit a thousand times and be told once."""
        return _hint(self.text, self.vocabulary)

    def __str__(self) -> str:
        return f"{_shown(self.text)} is not a unit in vocabulary {self.vocabulary}; {self.hint}"


class UnitMismatch(ValueError):
    """No conversion leads from ``have`` to ``want``: they measure different things."""

    def __init__(self, have: Unit, want: Unit) -> None:
        self.have = have
        self.want = want
        super().__init__(have, want)

    def __str__(self) -> str:
        return (
            f"{self.have.code} measures {_measured(self.have)} "
            f"and cannot become {self.want.code}, which measures {_measured(self.want)}"
        )


def spelled(code: str, vocabulary: Vocabulary) -> str:
    """How ``vocabulary`` writes the unit with this UCUM code; empty where it has none."""
    return next((spelling for spelling, meant in spellings(vocabulary).items() if meant == code), "")


def resolve(text: str, vocabulary: Vocabulary = "ucum") -> Unit:
    """Return the unit that ``text`` names in ``vocabulary``: exact spelling, exact case, no blanks trimmed.

    Raises UnitUnknown for everything else.
    """
    code = spellings(vocabulary).get(text)
    if code is None:
        raise UnitUnknown(text, vocabulary)
    return _unit(code)


def conversion(have: Unit, want: Unit, kind: Kind = "point") -> Affine:
    """Return the map from values in ``have`` to values in ``want``, both from `resolve`.

    A "difference" (a rise of 10 K) is a length on the scale, not a place on it, and so takes no offset. Both factors
    are computed as exact rationals and rounded once. Raises UnitMismatch when the dimensions differ.
    """
    if have.dimension != want.dimension:
        raise UnitMismatch(have, want)
    return _affine(have.code, want.code, kind)


def siblings(unit: Unit) -> tuple[Unit, ...]:
    """Return the units one could take for ``unit``: same dimension, another size or zero; most common first."""
    size = (unit.scale, unit.offset)
    alike = (_unit(code) for code, (dimension, _) in _rows().items() if dimension == unit.dimension)
    return tuple(other for other in alike if (other.scale, other.offset) != size)


def fitting(unit: Unit, values: Sequence[float], low: float, high: float, kind: Kind = "point") -> tuple[str, ...]:
    """Return the codes of siblings that would explain ``values``, most common first; none for no values.

    A sibling explains them if every one, taken to be in it and converted to ``unit``, lies within ``low..high``.
    Units that hardly anybody sets an instrument to explain nothing. It is for a hint in a refusal, never for a conversion.
    """

    def explains(sibling: Unit) -> bool:
        a, b = conversion(sibling, unit, kind)
        return (a, b) != (1.0, 0.0) and all(low <= a * value + b <= high for value in values)

    return tuple(
        sibling.code for sibling in siblings(unit) if values and sibling.code not in RARE and explains(sibling)
    )


def table() -> tuple[Unit, ...]:
    """Return every unit, grouped by dimension, most common first within each."""
    return tuple(map(_unit, _rows()))


@cache
def spellings(vocabulary: Vocabulary) -> Mapping[str, str]:
    """Return what each spelling of ``vocabulary`` means, as a canonical code; preferred spellings come first."""
    entries = (entry.partition("=") for entry in SPELLINGS[vocabulary].split())
    known = {spelling.replace("␣", " "): code or spelling for spelling, _, code in entries}
    if vocabulary == "ucum":
        known = {code: code for code in _rows()} | known
    # Unicode has the micro sign twice, U+00B5 and U+03BC, and both are on the wire.
    twins = {s.replace("\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"): code for s, code in known.items()}
    return MappingProxyType(known | twins)


def _hint(text: str, vocabulary: Vocabulary) -> str:
    known = spellings(vocabulary)
    if text in AMBIGUOUS:
        meanings = [(spelled(code, vocabulary), words) for code, words in AMBIGUOUS[text]]
        choices = [f"{spelling} for {words}" for spelling, words in meanings if spelling]
        if choices:
            return f"it is read in more than one way: write {' or '.join(choices)}"
        # SenML has no Fahrenheit, for one.
        first_code, first_words = AMBIGUOUS[text][0]
        return f"this vocabulary cannot say {first_words}: declare vocabulary ucum and write {first_code}"
    for other in VOCABULARIES:
        if other != vocabulary and (meant := spellings(other).get(text)):
            spelling = spelled(meant, vocabulary)
            return f"write {spelling}" if spelling else f"it is one in vocabulary {other}: declare that"
    if everyday := EVERYDAY.get(text[:_SHOWN].strip().lower()):
        return f"write {spelled(everyday, vocabulary) or everyday}"
    # A unit field from the wire may be of any length; no real spelling is.
    near = _nearest(text[:_SHOWN], known)
    return f"nearest: {', '.join(near)}" if near else "docs/units.md lists those that are"


def _nearest(text: str, known: Mapping[str, str]) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    same_letters = [spelling for spelling in known if spelling.casefold() == text.casefold()]
    return list(dict.fromkeys([*same_letters, *get_close_matches(text, known)]))[:3]


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r} and {len(text) - _SHOWN} characters more"


def _measured(unit: Unit) -> str:
    return "a plain ratio" if unit.dimension == "1" else unit.dimension


@cache
def _rows() -> dict[str, tuple[str, str]]:
    """Each code with its dimension and its size as the table writes it; a size is worked out when it is asked for."""
    return {
        code: (dimension, size)
        for dimension, rows in UNITS.items()
        for code, _, size in (row.partition("=") for row in rows.split())
    }


@cache
def _unit(code: str) -> Unit:
    scale, offset = _exact(code)
    return Unit(code, _rows()[code][0], float(scale), float(offset))


@cache
def _exact(code: str) -> "tuple[Fraction, Fraction]":
    scale, _, offset = _rows()[code][1].partition("+")
    return _rational(scale), _rational(offset or "0")


@cache  # the table is closed, and so is the number of pairs
def _affine(have: str, want: str, kind: Kind) -> Affine:
    have_scale, have_offset = _exact(have)
    want_scale, want_offset = _exact(want)
    shift = (have_offset - want_offset) / want_scale if kind == "point" else 0
    return Affine(float(have_scale / want_scale), float(shift))


def _rational(product: str) -> "Fraction":
    from fractions import Fraction  # noqa: PLC0415 - 2 ms that `--help` need not spend

    value = Fraction(1)
    for factor in product.split("*"):
        numerator, *denominators = factor.split("/")
        value *= Fraction(numerator)
        for denominator in denominators:
            value /= Fraction(denominator)
    return value


_SHOWN = 40
"""Characters of an unknown unit that are repeated in its error: longer than any real one."""
