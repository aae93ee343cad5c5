"""How strong a bundle's goldens are: which mistakes of a closed list they notice; docs/mutants.md says what counts."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_runtime.author.mutate_equal import Kin
from edge_runtime.author.mutate_judge import STAGES, Judge
from edge_runtime.author.mutate_kinds import KINDS, REST, mutants
from edge_runtime.author.mutate_subject import Mutant, Subject, open_subject
from edge_runtime.bundle.golden import Goldens

_NAMED = 12


_REMEDY = (
    "give [data] cases that lie nearer to where the answer changes, or an output that shows more than a label does: "
    'a second [[output]] of the same tensor with form = "vector"; docs/mutants.md'
)


@dataclass(frozen=True, slots=True)
class KindScore:
    """One class: how many mutants it has (equivalent ones left out), how many each stage killed first, how many the answer.

    ``tolerated`` are those not killed by the answer that differ by no more than the bundle's tolerance.
    """

    kind: str
    must: bool
    total: int
    by_stage: Mapping[str, int]
    by_answer: int
    tolerated: int = 0

    @property
    def killed(self) -> int:
        """How many some stage noticed."""
        return sum(self.by_stage.values())


@dataclass(frozen=True, slots=True)
class MutationScore:
    """What a golden set is worth.

    ``survivors`` are mutants that the answers alone do not notice, ``unseen`` those of them that no stage notices,
    ``tolerated`` those that some stage notices, but the answer cannot within the bundle's own tolerance (counted, but not
    held against the bar), ``equivalent`` and ``beyond`` what was left out, ``unjudged`` what there was no time
    for; each by its name.
    """

    cases: int
    kinds: tuple[KindScore, ...]
    survivors: tuple[str, ...]
    unseen: tuple[str, ...]
    tolerated: tuple[str, ...]
    equivalent: tuple[str, ...]
    beyond: tuple[str, ...]
    unjudged: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many mutants count."""
        return sum(kind.total for kind in self.kinds)

    @property
    def by_answer(self) -> float:
        """The share, 0 to 1, that the answers alone notice."""
        return sum(kind.by_answer for kind in self.kinds) / self.total if self.total else 1.0

    @property
    def by_stages(self) -> float:
        """The share, 0 to 1, that some stage notices."""
        return sum(kind.killed for kind in self.kinds) / self.total if self.total else 1.0

    def failures(self) -> tuple[str, ...]:
        """A line for each part of the bar that is not met; none where the goldens are strong enough."""
        found = []
        strict = {kind.name for kind in KINDS if kind.must}
        lost = [name for name in self.survivors if name.partition(":")[0] in strict]
        if lost:
            found.append(f"goldens: {len(lost)} mutants that must be noticed are not: {_listed(lost)}; {_REMEDY}")
        rest = [kind for kind in self.kinds if not kind.must]
        total, killed = sum(kind.total - kind.tolerated for kind in rest), sum(kind.by_answer for kind in rest)
        if total and killed < REST * total:
            others = [name for name in self.survivors if name not in lost]
            found.append(
                f"goldens: {killed} of {total} other mutants noticed, expected {REST:.0%}; not noticed: {_listed(others)}; "
                f"{_REMEDY}"
            )
        if self.unjudged:
            found.append(f"goldens: no time for {len(self.unjudged)} mutants: {_listed(self.unjudged)}")
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """The score as JSON can hold it."""
        return {
            "cases": self.cases,
            "total": self.total,
            "by_answer": round(self.by_answer, 6),
            "by_stages": round(self.by_stages, 6),
            "kinds": {
                kind.kind: {
                    "total": kind.total, "by_answer": kind.by_answer, "by_stage": dict(kind.by_stage),
                    "tolerated": kind.tolerated, "must": kind.must,
                }
                for kind in self.kinds
            },
            "survivors": list(self.survivors),
            "unseen": list(self.unseen),
            "tolerated": list(self.tolerated),
            "equivalent": list(self.equivalent),
            "beyond": list(self.beyond),
            "unjudged": list(self.unjudged),
            "failures": list(self.failures()),
        }  # fmt: skip


def score(
    files: Mapping[str, bytes],
    *,
    variant: str | None = None,
    float_model: bytes | None = None,
    budget_s: float = 120.0,
) -> MutationScore:
    """Score the goldens of one variant (the first, without a name) of a bundle given as its files.

    ``float_model`` is the model an int8 one was quantized from, where it is at hand. What is not judged after
    ``budget_s`` seconds is named in ``unjudged``, and fails the bar.

    Raises:
        BundleError: the bundle is not whole, or onnxruntime refuses its model.

    """
    subject = open_subject(files, variant, float_model)
    return Scoring(subject, budget_s).score(subject.goldens).score


@dataclass(frozen=True, slots=True)
class Scored:
    """A score with its survivors as mutants, to look for cases that kill them."""

    score: MutationScore
    survivors: tuple[Mutant, ...]


@dataclass(slots=True)
class _Tally:
    totals: Counter[str] = field(default_factory=Counter)
    stages: Counter[tuple[str, str]] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    survivors: list[Mutant] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    tolerated: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=lambda: {"equivalent": [], "beyond": [], "tolerated": []})
    unjudged: list[str] = field(default_factory=list)


class Scoring:
    """Scores golden sets of one subject; what was found equivalent once is not looked at again."""

    def __init__(self, subject: Subject, budget_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._subject = subject
        self._kin = Kin(subject)
        self._kinships: dict[str, str] = {}
        self._clock, self._end = clock, clock() + budget_s

    @property
    def is_over(self) -> bool:
        """Whether the time is used up."""
        return self._clock() >= self._end

    def score(self, goldens: Goldens) -> Scored:
        """Run every mutant against these goldens."""
        judge, tally = Judge(self._subject, goldens), _Tally()
        for mutant in mutants(self._subject):
            if self.is_over:
                tally.unjudged.append(str(mutant))
            else:
                self._count(mutant, judge, tally)
        kinds = tuple(
            KindScore(
                kind.name, kind.must, tally.totals[kind.name],
                {stage: tally.stages[kind.name, stage] for stage in STAGES if tally.stages[kind.name, stage]},
                tally.answers[kind.name], tally.tolerated[kind.name],
            )
            for kind in KINDS if tally.totals[kind.name]
        )  # fmt: skip
        made = MutationScore(
            len(goldens), kinds, tuple(map(str, tally.survivors)), tuple(tally.unseen),
            tuple(tally.named["tolerated"]), tuple(tally.named["equivalent"]), tuple(tally.named["beyond"]),
            tuple(tally.unjudged),
        )  # fmt: skip
        return Scored(made, tuple(tally.survivors))

    def _count(self, mutant: Mutant, judge: Judge, tally: _Tally) -> None:
        verdict = judge.verdict(mutant)
        shown = "differs" if verdict.by_answer else self._shown(mutant)
        if shown in ("equivalent", "beyond"):
            tally.named[shown].append(str(mutant))
            return
        tally.totals[mutant.kind] += 1
        if verdict.stage is None:
            tally.unseen.append(str(mutant))
        else:
            tally.stages[mutant.kind, verdict.stage] += 1
        if verdict.by_answer:
            tally.answers[mutant.kind] += 1
        elif shown == "tolerated" and verdict.stage is not None:
            tally.tolerated[mutant.kind] += 1
            tally.named[shown].append(str(mutant))
        else:
            tally.survivors.append(mutant)

    def _shown(self, mutant: Mutant) -> str:
        """What the random inputs show of a mutant that no answer told."""
        name = str(mutant)
        if name not in self._kinships:
            way = mutant.way()
            kinship: str = self._kin.kinship(way)
            if kinship == "differs" and self._kin.is_tolerated(way):
                kinship = "tolerated"
            self._kinships[name] = kinship
        return self._kinships[name]


def _listed(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return "; ".join(names[:_NAMED]) + more
