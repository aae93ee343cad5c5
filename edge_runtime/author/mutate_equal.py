"""Whether a mutant no golden notices differs at all, on many random inputs; a difference found is never called none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.mutate_judge import Judge, goldens_of, picked
from edge_runtime.author.mutate_kinds import PROOF_CASES
from edge_runtime.author.mutate_line import Cases, Floats, Published, Seen, Way, fed, publish, walk
from edge_runtime.author.mutate_subject import Subject
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.units import conversion, resolve, siblings

Kinship = Literal["differs", "beyond", "equivalent"]

_SEED = 20_260_713
# The first chunk finds nearly every difference; the later ones are as large as 64 MB allow.
_FIRST = 200
_MAX_NUMBERS = 8_000_000
_SIBLINGS = 3
_MISSING = 0.1
_SMALL = 0.03
_BANDS = ("physical", "tolerated", "trained")
# A recurrent state shows what it forgets only some samples after the window is full.
_MORE_SAMPLES = 4


class Kin:
    """The right answers to the random inputs, worked out as far as they were wanted."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._sizes = _chunks(subject)
        self._is_small = PROOF_CASES * _a_case(subject) <= _MAX_NUMBERS
        self._kept: dict[int, tuple[Cases, Seen]] = {}
        self._right: list[Published] = []
        self._judges: dict[int, Judge] = {}

    def kinship(self, way: Way) -> Kinship:
        """Compare until something a golden stores differs, or all inputs are through."""
        shown: Kinship = "equivalent"
        for number, size in enumerate(self._sizes):
            cases, seen = self._asked(number, size)
            if not (self._differs_in_answers_alone(way) or self._feeds_the_same(way, cases, seen)):
                seen = walk(way, cases)
            elif way.model.manifest.outputs is self._subject.manifest.outputs:
                continue
            stored, published = _same(self._right[number], publish(way, seen))
            if not stored or _units(way) != _units(self._subject.way):
                return "differs"
            if not published:
                shown = "beyond"
        return shown

    def is_tolerated(self, way: Way) -> bool:
        """Whether no answer to any of the inputs differs by more than the bundle's own tolerance allows."""
        return not any(self._judge(number, size).differing(way).any() for number, size in enumerate(self._sizes))

    def _judge(self, number: int, size: int) -> Judge:
        if number in self._judges:
            return self._judges[number]
        right = self._subject.way
        made, answered = goldens_of(right, self._asked(number, size)[0])
        judge = Judge(self._subject, picked(made, np.flatnonzero(answered)))
        if self._is_small:
            self._judges[number] = judge
        return judge

    def _asked(self, number: int, size: int) -> tuple[Cases, Seen]:
        """One chunk of inputs and what the right way makes of it; kept where all chunks together are small."""
        if number in self._kept:
            return self._kept[number]
        right, cases = self._subject.way, drawn(self._subject, size, number)
        seen = walk(right, cases)
        if number == len(self._right):
            self._right.append(publish(right, seen))
        if self._is_small:
            self._kept[number] = cases, seen
        return cases, seen

    def _differs_in_answers_alone(self, way: Way) -> bool:
        """Whether all up to the model's outputs is the right way's own, so that it need not run again."""
        right = self._subject.way
        manifest = way.model.manifest.model_copy(update={"outputs": self._subject.manifest.outputs})
        return replace(way, model=way.model._replace(manifest=manifest)) == right

    def _feeds_the_same(self, way: Way, cases: Cases, right: Seen) -> bool:
        """Whether the model is the right one and is fed the very same bits, so that it need not run again."""
        if way.model.infer is not self._subject.way.model.infer or self._subject.manifest.state:
            return False
        found = fed(way, cases)
        return all(_same_bits(values, found[name]) for name, values in right.tensors.items())


def drawn(subject: Subject, count: int, number: int, bands: Sequence[str] = _BANDS) -> Cases:
    """Random cases within bands of the contract, the same for the same ``number``; each channel in its case's unit."""
    random = np.random.default_rng([_SEED, number])
    manifest = subject.manifest
    samples = manifest.length + (_MORE_SAMPLES if manifest.state else 0)
    samples = max(samples, subject.goldens.raw.shape[1])
    parts = [_numbers(random, channel, subject, (count, samples), bands) for channel in manifest.channels]
    raw = np.concatenate(parts, axis=2)
    return in_units(subject, raw, random.integers(0, 1 << 30, (count, len(manifest.channels))))


def in_units(subject: Subject, rows: Floats, turns: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Cases:
    """Rows in contract units as cases, each channel by its turn in the contract's unit or one of its siblings.

    A value at the very edge of the physical band may come back from its unit a rounding outside: that case stays in the
    contract's unit.
    """
    raw = rows.copy()
    texts: list[list[str]] = [[] for _ in range(len(rows))]
    first = 0
    for at, channel in enumerate(subject.manifest.channels):
        part = raw[:, :, first : first + channel.width]
        first += channel.width
        if channel.form != "number":
            for row in texts:
                row.append("1")
            continue
        want = resolve(channel.unit)
        choices = (want, *siblings(want)[:_SIBLINGS])
        _, _, physical = channel.bands
        for case, row in enumerate(texts):
            have = choices[int(turns[case, at]) % len(choices)]
            to, fro = conversion(want, have, channel.kind), conversion(have, want, channel.kind)
            there = to.a * part[case] + to.b
            back = fro.a * there + fro.b
            fits = physical.min <= np.nanmin(back, initial=np.inf) and np.nanmax(back, initial=-np.inf) <= physical.max
            row.append(have.code if fits else want.code)
            if fits:
                part[case] = there
    return Cases(raw, tuple(tuple(row) for row in texts))


def _numbers(
    random: np.random.Generator, channel: Channel, subject: Subject, size: tuple[int, int], bands: Sequence[str]
) -> Floats:
    count, samples = size
    shape = (count, samples, channel.width)
    if channel.form == "category":
        return random.integers(0, len(channel.categories), shape).astype(np.float64)
    if channel.form == "opaque":
        return _opaque(random, channel, subject, shape)
    by_name = {"trained": channel.bands[0], "tolerated": channel.bands[1], "physical": channel.bands[2]}
    chosen = [by_name[bands[case % len(bands)]] for case in range(count)]
    low = np.array([band.min for band in chosen])[:, None, None]
    high = np.array([band.max for band in chosen])[:, None, None]
    level = random.uniform(0.0, 1.0, (count, 1, 1))
    courses = [random.uniform(0.0, 1.0, shape), level + _SMALL * random.standard_normal(shape), level + np.zeros(shape)]
    course = np.choose((np.arange(count) // len(bands) % len(courses))[:, None, None], courses)
    share = np.clip(course, 0.0, 1.0)
    numbers: Floats = np.clip(low + share * (high - low), low, high)
    if channel.when_missing != "refuse":
        missing = random.uniform(0.0, 1.0, shape) < _MISSING
        # A held number needs one before it.
        missing[:, 0] &= channel.when_missing != "hold"
        numbers[missing] = np.nan
    return numbers


def _opaque(random: np.random.Generator, channel: Channel, subject: Subject, shape: tuple[int, ...]) -> Floats:
    """Over all of an 8-bit type; of a wider one, what the goldens span, for it states no band."""
    if channel.dtype in ("int8", "uint8"):
        held = np.iinfo(channel.dtype)
        return random.integers(held.min, held.max, shape, endpoint=True).astype(np.float64)
    names = list(subject.goldens.channels)
    widths = {one.name: one.width for one in subject.manifest.channels}
    first = sum(widths[name] for name in names[: names.index(channel.name)])
    stored = subject.goldens.raw[:, :, first : first + channel.width]
    numbers = random.uniform(float(stored.min()), float(stored.max()), shape)
    return np.rint(numbers) if channel.dtype == "int64" else numbers


def _chunks(subject: Subject) -> list[int]:
    most = max(_FIRST, min(PROOF_CASES, _MAX_NUMBERS // _a_case(subject)))
    sizes, left = [_FIRST], PROOF_CASES - _FIRST
    while left:
        sizes.append(min(left, most))
        left -= sizes[-1]
    return sizes


def _a_case(subject: Subject) -> int:
    """How many numbers one random case has, at least."""
    samples = max(subject.manifest.length, len(subject.goldens.raw[0]))
    return subject.manifest.width * samples


def _same(right: Published, found: Published) -> tuple[bool, bool]:
    """Whether what a golden stores is equal, and whether all that is published is."""
    stored = (
        np.array_equal(right.answered, found.answered)
        and all(_equal(one, other) for one, other in zip(right.values, found.values, strict=True))
        and np.array_equal(right.flags, found.flags)
    )
    rest = np.array_equal(right.running, found.running) and np.array_equal(right.scores, found.scores, equal_nan=True)
    return stored, rest


def _same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _equal(one: Floats, other: Floats) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _units(way: Way) -> tuple[str, ...]:
    return tuple(output.unit for output in way.model.manifest.outputs)
