"""What came of a line, in words: both ledgers, and the first refusal of each reason; it counts nothing itself."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from edge_runtime.flow.ledger import Ledger
from edge_runtime.run.lane import Lane
from edge_runtime.spec.reading import Rejection

NOTHING_TAKEN: Final = 65
"""The exit code of a finite input of which not one sample was accepted: EX_DATAERR of sysexits.h."""


class FirstRefusal(NamedTuple):
    """The first sample or window that was refused for its reason; ``text`` is the line's own sentence."""

    reason: str
    text: str


def summary(lane: Lane, state: Path, told: Collection[tuple[str, str]] = ()) -> Iterator[str]:
    """What came of a lane that has stopped, a line each: ledgers, duplicates, the first refusal of each reason.

    ``state`` is the folder by which a second run knows the samples of the first again, where the lane keeps any;
    ``told`` has line and reason of those first refusals that were told when they came.
    """
    here, whole = lane.of_this_start, lane.line.ledger
    sums = ledger_text(whole, pending_answers=lane.health().ledger.pending_answers)
    if (here.received, here.due) == (whole.received, whole.due):
        yield sums
    else:
        yield f"{sums}; of this start and those before it"
        refused = f", {here.rejected.total()} rejected" if here.rejected else ""
        yield f"this start: {here.received} samples received, {here.accepted} accepted{refused}; {here.due} answers due"
    if here.duplicate:
        known = f" (state in {state})" if lane.keeps_state else ""
        yield f"{here.duplicate} duplicates of samples already answered{known}"
    for reason, refusal in lane.first_refusals.items():
        if (lane.name, reason) not in told:
            yield first_text(reason, refusal)


def first_text(reason: str, refusal: Rejection) -> str:
    """The first refusal of its reason, in one line."""
    return f"first {reason}: {refusal}"


def nothing_taken(lane: Lane) -> str:
    """Say that of what came since this start some was refused and none taken, and why first; empty where that is not so."""
    here = lane.of_this_start
    first = next(iter(lane.first_refusals.values()), None)
    if first is None or not here.rejected or here.accepted or here.duplicate or here.updates:
        return ""
    return f"not one of {here.received} samples was accepted; the first: {first}"


def ledger_text(ledger: Ledger, *, pending_answers: int) -> str:
    """Both sums, zeros left out: ``samples: 10 received = 8 accepted + 2 rejected (2 missing); answers: ...``."""
    samples, answers = ledger.as_dict()["samples"], ledger.as_dict()["answers"]
    answers = {**answers, "pending": pending_answers}
    return f"samples: {_sum(samples, 'received')}; answers: {_sum(answers, 'due')}"


def first_refusals(dead_letters: Path) -> Iterator[FirstRefusal]:
    """The first refusal of each reason, in order, out of the dead letters of a line that has stopped."""
    if not dead_letters.exists():
        return
    seen = set()
    with dead_letters.open(encoding="utf-8") as lines:
        for line in lines:
            letter = json.loads(line)
            if letter["reason"] not in seen:
                seen.add(letter["reason"])
                yield FirstRefusal(letter["reason"], str(Rejection(*(letter[name] for name in Rejection._fields))))


def _sum(terms: Mapping[str, int | Mapping[str, int]], total: str) -> str:
    parts = []
    for name, term in terms.items():
        count = term if isinstance(term, int) else sum(term.values())
        if name != total and count:
            reasons = "" if isinstance(term, int) else f" ({', '.join(f'{n} {why}' for why, n in term.items())})"
            parts.append(f"{count} {name}{reasons}")
    return f"{terms[total]} {total} = {' + '.join(parts) or '0'}"
