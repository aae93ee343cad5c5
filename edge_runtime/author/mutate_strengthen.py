"""Adds goldens until the mutants they miss are noticed: greedily, from the author's data first; it lowers no bar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.mutate import MutationScore, Scoring
from edge_runtime.author.mutate_equal import drawn, in_units
from edge_runtime.author.mutate_judge import Judge, goldens_of, picked
from edge_runtime.author.mutate_line import Cases, Floats, cases_of
from edge_runtime.author.mutate_subject import Mutant, Subject, open_subject
from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import encode as encode_goldens
from edge_runtime.errors import BundleError
from edge_runtime.spec.manifest import parse

# What is looked through for each mutant that survives: more finds little more, and costs time.
MAX_FROM_DATA = 2000
MAX_DRAWN = 2000
MAX_ADDED = 64
_ROUNDS = 3
_MAX_NUMBERS = 8_000_000
_DRAW = 1_000_000  # a number no proof of equivalence uses: goldens are not chosen on the inputs they are judged by


@dataclass(frozen=True, slots=True)
class Strengthened:
    """The bundle's files with the added goldens in them (their SHA256SUMS, if any, is not made anew) and the score.

    ``from_data`` and ``from_drawn`` count what was added.
    """

    files: Mapping[str, bytes]
    score: MutationScore
    from_data: int
    from_drawn: int


def strengthen(
    files: Mapping[str, bytes],
    candidates: Floats,
    *,
    variant: str | None = None,
    float_model: bytes | None = None,
    budget_s: float = 120.0,
    max_added: int = MAX_ADDED,
) -> Strengthened:
    """Add goldens to one variant (the first, without a name) until its bar is met, or cases or time are used up.

    ``candidates`` is the author's data in contract units, float64 ``(cases, samples, numbers)``; cases the contract
    would refuse are passed over. What is wrong with the score at the end is in ``score.failures()``.

    Raises:
        BundleError: the bundle is not whole, or onnxruntime refuses its model.

    """
    subject = open_subject(files, variant, float_model)
    scoring = Scoring(subject, budget_s)
    goldens, counts = _in_order(subject), [0, 0]
    most = max(1, _MAX_NUMBERS // max(1, goldens.raw[0].size))
    pools = [
        _from_data(subject, candidates, min(MAX_FROM_DATA, most)),
        drawn(subject, min(MAX_DRAWN, most), _DRAW, ("tolerated", "trained")),
    ]
    scored = scoring.score(goldens)
    for _ in range(_ROUNDS):
        before = len(goldens)
        for at, pool in enumerate(pools):
            if not scored.survivors or scoring.is_over or not len(pool.raw):
                continue
            added = _chosen(subject, pool, scored.survivors, scoring, max_added - sum(counts))
            if added is not None:
                counts[at] += len(added)
                goldens = _joined(goldens, added)
                scored = scoring.score(goldens)
        if len(goldens) == before:
            break
    # What the answer cannot tell within a wide tolerance, such as a flag's level, some stage still has to notice.
    for at, pool in enumerate(pools):
        unseen = [one for one in scored.survivors if str(one) in scored.score.unseen]
        if unseen and not scoring.is_over and len(pool.raw):
            added = _chosen(subject, pool, unseen, scoring, max_added - sum(counts), at_all=True)
            if added is not None:
                counts[at] += len(added)
                goldens = _joined(goldens, added)
                scored = scoring.score(goldens)
    made = dict(files) | {subject.variant.goldens: encode_goldens(goldens)}
    return Strengthened(made, scored.score, *counts)


@dataclass(frozen=True, slots=True)
class AllStrengthened:
    """The bundle's files with every variant's added goldens, and each variant's score by its name."""

    files: Mapping[str, bytes]
    scores: Mapping[str, MutationScore]

    def failures(self) -> tuple[str, ...]:
        """A line for each part of the bar that a variant does not meet."""
        return tuple(f"{name}, {line}" for name, score in self.scores.items() for line in score.failures())


def strengthen_variants(
    files: Mapping[str, bytes],
    candidates: Floats,
    *,
    float_models: Mapping[str, bytes] | None = None,
    budget_s: float = 120.0,
) -> AllStrengthened:
    """`strengthen` for each variant of a bundle, ``budget_s`` each; ``float_models`` by variant, where they are known.

    A bundle whose `failures` are empty has the same bytes each time: time that runs out is a failure.
    """
    made, scores = dict(files), {}
    for variant in parse(files["manifest.json"]).variants:
        float_model = (float_models or {}).get(variant.name)
        one = strengthen(made, candidates, variant=variant.name, float_model=float_model, budget_s=budget_s)
        made, scores[variant.name] = dict(one.files), one.score
    return AllStrengthened(made, scores)


def _chosen(
    subject: Subject, pool: Cases, survivors: Sequence[Mutant], scoring: Scoring, most: int, *, at_all: bool = False
) -> Goldens | None:
    """The cases that together kill the most survivors, each time the one that kills most of those left.

    With ``at_all`` a difference within the tolerance counts too.
    """
    candidates, answered = goldens_of(subject.way, pool)
    candidates = picked(candidates, np.flatnonzero(answered))
    if not len(candidates):
        return None
    judge = Judge(subject, candidates)
    kills = []
    for mutant in survivors:
        if scoring.is_over:
            break
        kills.append(judge.differing_at_all(mutant.way()) if at_all else judge.differing(mutant.way()))
    chosen = _greedy(np.array(kills, dtype=bool).reshape(len(kills), len(candidates)), most)
    return picked(candidates, chosen) if chosen else None


def _greedy(kills: NDArray[np.bool_], most: int) -> list[int]:
    """Columns of ``(mutants, cases)``; of two as good, the earlier."""
    chosen: list[int] = []
    left = kills.any(axis=1)
    while left.any() and len(chosen) < most:
        gains = kills[left].sum(axis=0)
        best = int(gains.argmax())
        chosen.append(best)
        left &= ~kills[:, best]
    return chosen


def _from_data(subject: Subject, candidates: Floats, most: int) -> Cases:
    """The author's cases that the contract takes, evenly spread, their units taking turns."""
    manifest = subject.manifest
    shape = (subject.goldens.raw.shape[1], manifest.width)
    if candidates.ndim != 3 or candidates.shape[1:] != shape:  # noqa: PLR2004 - cases, samples, numbers
        raise BundleError(
            subject="candidates for goldens", found=f"shape {candidates.shape}", expected=f"(cases, {shape[0]}, {shape[1]})",
            todo="give cases as long as the goldens' own, each sample's numbers in the manifest's order",
        )  # fmt: skip
    low, high = np.full(manifest.width, -np.inf), np.full(manifest.width, np.inf)
    may_miss = np.zeros(manifest.width, bool)
    first = 0
    for channel in manifest.channels:
        part = slice(first, first + channel.width)
        first += channel.width
        if channel.physical is not None:
            low[part], high[part] = channel.physical.min, channel.physical.max
        may_miss[part] = channel.when_missing in ("fill", "pass")
    missing = np.isnan(candidates)
    fits = np.where(missing, may_miss, (low <= candidates) & (candidates <= high)).all(axis=(1, 2))
    rows = np.flatnonzero(fits)
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).round().astype(np.intp)]
    # Each channel steps through its units at its own pace, so that any two of them meet in every combination.
    turns = np.arange(len(rows))[:, None] // 4 ** np.arange(len(manifest.channels))[None, :].clip(max=8)
    return in_units(subject, np.array(candidates[rows], np.float64), turns.astype(np.int64))


def _in_order(subject: Subject) -> Goldens:
    """The stored goldens with their channels in the manifest's order, as the added ones have them."""
    cases = cases_of(subject.goldens, subject.manifest)
    names = tuple(channel.name for channel in subject.manifest.channels)
    return replace(subject.goldens, channels=names, raw=cases.raw, units=cases.units)


def _joined(goldens: Goldens, added: Goldens) -> Goldens:
    """The stored cases and the added ones after them; of those the source framework was not asked."""
    return replace(
        goldens,
        raw=np.concatenate([goldens.raw, added.raw]),
        units=(*goldens.units, *added.units),
        tensors=_grown(goldens.tensors, added.tensors),
        outputs=_grown(goldens.outputs, added.outputs),
        references={name: _unasked(values, len(added)) for name, values in goldens.references.items()},
        answers=_grown(goldens.answers, added.answers),
        flags=_grown(goldens.flags, added.flags),
    )


def _grown(stored: Mapping[str, NDArray[Any]], added: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([values, added[name]]) for name, values in stored.items()}


def _unasked(values: NDArray[Any], count: int) -> NDArray[Any]:
    shape = (count, *values.shape[1:])
    if values.dtype.kind == "U":
        return np.concatenate([values, np.full(shape, "")])
    wide = values if values.dtype.kind == "f" else values.astype(np.float64)
    return np.concatenate([wide, np.full(shape, np.nan, wide.dtype)])
