"""Plays a fuzzed stream through a line in a process of its own and holds each line to what it must come to."""

import json
import random
import sys
from collections import Counter
from itertools import islice

from edge_runtime.flow.line import MAX_STREAMS, Line
from tests.proof.fuzz import ANSWER, DUPLICATE, NOTHING, SOME_REASON, Fuzzed, dewpoint_lines, frost_lines
from tests.proof.lines import dewpoint, frost

WINDOW = {"frost": 24, "dewpoint": 1}


def main(kind: str, seed: int, count: int) -> None:
    line = frost() if kind == "frost" else dewpoint()
    lines = frost_lines(seed, count) if kind == "frost" else dewpoint_lines(seed, count, 3 * MAX_STREAMS, MAX_STREAMS)
    chance = random.Random(seed + 1)
    wanted, valid, seen = Counter(), 0, 0
    while group := list(islice(lines, chance.randint(1, 40))):
        answers, refused = _feed(line, chance, group)
        seen += len(group)
        # The last line of all has no end, and is answered by ``finish``.
        outcomes = [one.outcome for one in group if one.outcome != ANSWER or one.data.endswith((b"\n", b"\r"))]
        wanted.update(outcomes)
        due = [valid + at + 1 for at in range(outcomes.count(ANSWER)) if valid + at + 1 >= WINDOW[kind]]
        valid += outcomes.count(ANSWER)
        assert len(answers) == len(due), (outcomes, answers)
        _compare([one for one in outcomes if one not in (ANSWER, NOTHING, DUPLICATE)], refused)
    if kind == "frost":
        line.finish(0)
        line.run()
        assert len(line.take_answers()) == 1
        line.published(1)
        wanted[ANSWER] += 1
    book = line.ledger
    assert book.adds_up(pending_samples=0, pending_answers=0)
    assert book.received == wanted.total() - wanted[NOTHING]
    assert book.accepted == wanted[ANSWER]
    assert book.duplicate == wanted[DUPLICATE]
    sys.stdout.write(json.dumps({"lines": seen, "outcomes": wanted, "published": book.published}))


def _feed(line: Line, chance: random.Random, group: list[Fuzzed]) -> tuple[list, list[str]]:
    """Feed some lines in random pieces; both ledgers must add up after each."""
    data = memoryview(b"".join(one.data for one in group))
    sizes, weights = (1, 7, 100, 5000, 65_536), (1, 3, 30, 30, 30)
    longest = chance.choices(sizes, weights)[0] if len(data) < 100_000 else 65_536
    answers, refused, at = [], [], 0
    while at < len(data):
        size = chance.randint(1, longest)
        line.feed(bytes(data[at : at + size]), 0)
        assert line.ledger.adds_up(pending_samples=0, pending_answers=line.pending)
        line.run()
        fresh = line.take_answers()
        assert line.ledger.adds_up(pending_samples=0, pending_answers=len(fresh))
        line.published(len(fresh))
        answers += fresh
        line.take_changes()
        refused += [one.rejection.reason for one in line.take_refused()]
        at += size
    return answers, refused


def _compare(wanted: list[str], reasons: list[str]) -> None:
    assert len(reasons) == len(wanted), (wanted, reasons)
    for want, reason in zip(wanted, reasons, strict=True):
        assert reason == want or (want == SOME_REASON and reason), (wanted, reasons)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
