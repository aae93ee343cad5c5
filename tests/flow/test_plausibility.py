"""The four flags of `[plausibility]`: their formulas by another hand, splits, restarts, and that they change no number."""

import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from edge_runtime.errors import BundleError
from edge_runtime.flow.line import Line
from edge_runtime.flow.plausibility import Watch, WatchRule, stability_index
from edge_runtime.spec.manifest import Manifest, encode, parse
from edge_runtime.spec.result import CONSTANT, DRIFTED, FLAG_NAMES, SHIFTED, STEP, Answer, OutputValue
from tests.proof.lines import model
from tests.proof.station import FROST
from tests.rig import tiny

NS = 1_000_000_000
FLAGS = STEP | SHIFTED | DRIFTED | CONSTANT
STEPS = {"step": {"limits": {"a": 0.5}}}
SHIFT = {"shifted": {"samples": 3, "k": 0.5, "h": 2.0, "means": {"a": {"mean": 1.0, "std": 2.0}}}}
DRIFT = {"drifted": {"samples": 50, "limit": 0.25, "bins": {"a": {"edges": [0.0, 1.0], "shares": [0.3, 0.4, 0.3]}}}}
CONSTANTS = {"constant": {"after": 3}}


def manifest(**asked: Any) -> Manifest:
    return tiny.manifest(must_understand=["plausibility"], plausibility=asked)


def watch(**asked: Any) -> Watch:
    return Watch(WatchRule(manifest(**asked)))


def taken(one: Watch, values: Sequence[float], *, times: Sequence[float] = (), gaps: Sequence[int] = ()) -> list[int]:
    """What each sample of `a` was flagged with, 10 s apart; `gaps` are the places that follow one."""
    at = times or [10.0 * place for place in range(len(values))]
    return [
        one.take(round(at[place] * NS), (value, 0.0), is_broken=place in {0, *gaps}) | one.bits
        for place, value in enumerate(values)
    ]


def test_a_change_faster_than_training_is_a_step() -> None:
    assert taken(watch(**STEPS), [0.0, 5.0, 10.1, 5.1, 0.0]) == [0, 0, STEP, 0, STEP]


def test_a_step_is_judged_by_the_time_it_took_and_no_less_than_a_period() -> None:
    """Over a gap of 20 s ten degrees are no step; half a second after a sample the noise of a sensor is none either."""
    assert taken(watch(**STEPS), [0.0, 10.0, 14.9, 20.1], times=[0.0, 20.0, 20.5, 20.6]) == [0, 0, 0, STEP]


def test_a_missing_number_is_no_step_and_no_block() -> None:
    assert taken(watch(**STEPS), [0.0, math.nan, 50.0]) == [0, 0, 0]
    one = watch(**SHIFT)
    taken(one, [1.0, math.nan, 1.0, 100.0])
    assert one.levels() == {"a": {"cusum": 4.0}}


@given(st.lists(st.floats(-20, 20), max_size=60), st.sets(st.integers(1, 59)))
def test_the_sums_are_those_of_page(values: list[float], gaps: set[int]) -> None:
    found = taken(watch(**SHIFT), values, gaps=sorted(gaps))
    up = down = 0.0
    block: list[float] = []
    for place, value in enumerate(values):
        block = [value] if place in gaps else [*block, value]
        if len(block) == 3:
            z = ((block[0] + block[1] + block[2]) / 3 - 1.0) / 2.0
            up, down = min(4.0, max(0.0, up + z - 0.5)), min(4.0, max(0.0, down - z - 0.5))
            block = []
        assert found[place] == (SHIFTED if max(up, down) > 2.0 else 0)


def test_a_shift_that_goes_is_forgotten_in_as_many_blocks_as_the_limit_asks() -> None:
    one = watch(**SHIFT)
    assert taken(one, [50.0] * 300)[-1] == SHIFTED
    assert one.levels() == {"a": {"cusum": 4.0}}
    assert taken(one, [1.0] * 15)[-1] == 0


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0]), min_size=50, max_size=170))
def test_the_index_is_that_of_the_newest_whole_block(values: list[float]) -> None:
    one = watch(**DRIFT)
    found = taken(one, values)
    for place in range(len(values)):
        whole = (place + 1) // 50 * 50
        block = np.array(values[max(0, whole - 50) : whole])
        counts = [int((block <= 0).sum()), int(((block > 0) & (block <= 1)).sum()), int((block > 1).sum())]
        p, q = (np.array(counts) + 0.5) / 51.5, np.array([0.3, 0.4, 0.3])
        index = float(((p - q) * np.log(p / q)).sum())
        assert found[place] == (DRIFTED if whole and index > 0.25 else 0)
    assert one.levels() == {"a": {"psi": pytest.approx(index, abs=5e-4)}}


def test_the_index_of_the_trained_spread_is_small_and_of_an_empty_bin_finite() -> None:
    assert stability_index([300, 400, 300], [0.3, 0.4, 0.3]) < 1e-5
    assert 0.25 < stability_index([0, 0, 1000], [0.3, 0.4, 0.3]) < 20


def test_one_answer_to_different_inputs_is_constant() -> None:
    one, window = watch(**CONSTANTS), np.zeros((2, 2))
    same = (OutputValue("mean", 1.0, "Cel", (("cold", True),)),)
    assert one.answered(window, same) == 0
    for _ in range(10):  # the same input may have the same answer
        assert one.answered(window, same) == 0
    assert one.answered(window + 1, same) == 0
    assert one.answered(window + 2, same) == CONSTANT
    assert one.answered(window + 2, same) == CONSTANT
    assert one.answered(window + 3, (same[0]._replace(value=math.nextafter(1.0, 2.0)),)) == 0
    assert one.answered(window, same) == 0


def test_answers_that_are_no_longer_believed_are_forgotten_and_samples_are_not() -> None:
    line = tiny.line(manifest(step={"limits": {"a": 0.4}}, constant={"after": 2}), decode=tiny.JSON)
    given = []
    for turn, a in enumerate([1, 3, 1, 3, 1, 9]):  # the mean stays, the window does not
        if turn == 4:
            line.distrust()
        line.feed(json.dumps({"who": "x", "t": 1000 + 10 * turn, "a": a, "b": 1}).encode() + b"\n", 0)
        line.run()
        given += [one.flags & FLAGS for one in line.take_answers()]
    assert given == [0, CONSTANT, CONSTANT, 0, STEP]


def test_a_score_that_moves_is_no_constant_answer() -> None:
    one = watch(**CONSTANTS)
    for turn in range(10):
        label = OutputValue("kind", "round", "1", (), 0.5 + turn / 100)
        assert one.answered(np.full((2, 2), float(turn)), (label,)) == 0


# A whole line: how it is cut, and where it is killed, changes nothing.

ASKED = {
    "step": {"limits": {"a": 0.4}},
    "shifted": {"samples": 4, "k": 0.5, "h": 3.0, "means": {"a": {"mean": 0.0, "std": 2.0}, "b": {"mean": 5.0, "std": 1.0}}},
    "drifted": DRIFT["drifted"], "constant": {"after": 2},
}  # fmt: skip


def _rows() -> list[bytes]:
    chance = random.Random(7)
    rows, t = [], 1000
    for place in range(220):
        t += 30 if chance.random() < 0.05 else 10
        a = 7.0 if 100 <= place < 110 else round(chance.gauss(3.0 if place > 150 else 0.0, 2.0), 1)
        rows.append(b"%d,%.1f,%.1f\n" % (t, a, 5.0 + chance.random()))
    return rows


ROWS = _rows()


def _line(**asked: Any) -> Line:
    return tiny.line(manifest(**asked) if asked else None)


def _played(line: Line, chunks: Sequence[bytes]) -> Iterator[Answer]:
    for chunk in chunks:
        line.feed(chunk, 0)
        line.run()
        yield from line.take_answers()


@pytest.fixture(scope="module")
def one_by_one() -> list[Answer]:
    found = list(_played(_line(**ASKED), ROWS))
    seen = 0
    for one in found:
        seen |= one.flags
    assert seen & FLAGS == FLAGS, "else the tests below would prove nothing"
    assert not all(one.flags & FLAGS for one in found)
    return found


def test_a_flag_changes_no_number(one_by_one: list[Answer]) -> None:
    bare = list(_played(_line(), ROWS))
    assert [one._replace(flags=one.flags & ~FLAGS) for one in one_by_one] == bare


@pytest.mark.parametrize("seed", range(6))
def test_every_split_gives_identical_answers(seed: int, one_by_one: list[Answer]) -> None:
    chance, data, chunks = random.Random(seed), b"".join(ROWS), []
    while data:
        size = chance.randint(1, 10 * 4**seed)
        chunks.append(data[:size])
        data = data[size:]
    assert list(_played(_line(**ASKED), chunks)) == one_by_one


@settings(max_examples=40)
@given(st.integers(0, len(ROWS)), st.integers(0, len(ROWS)))
def test_a_restart_at_any_place_goes_on_as_if_nothing_was(first: int, second: int) -> None:
    """The snapshot and the changes after it are all that a killed process leaves."""
    whole = list(_played(_line(**ASKED), ROWS))
    snapshot_at, killed_at = sorted((first, second))
    before = _line(**ASKED)
    found = list(_played(before, ROWS[:snapshot_at]))
    saved, changes = from_json(to_json(before.saved(), inf_nan_mode="null")), []
    for row in ROWS[snapshot_at:killed_at]:
        found += _played(before, [row])
        changes.append(from_json(to_json(before.take_changes(), inf_nan_mode="null")))
    after = _line(**ASKED)
    after.restore(saved, changes)
    found += _played(after, ROWS[killed_at:])
    restarted = next(bit for bit, name in FLAG_NAMES.items() if name == "restarted")
    assert [one._replace(flags=one.flags & ~restarted) for one in found] == whole
    assert after.levels == _after_all().levels


def _after_all() -> Line:
    line = _line(**ASKED)
    list(_played(line, ROWS))
    return line


def test_streams_are_watched_each_for_itself() -> None:
    line = tiny.line(manifest(**STEPS), decode=tiny.JSON)
    for place, (who, a) in enumerate([("x", 0), ("y", 50), ("x", 1), ("y", 49)]):
        line.feed(json.dumps({"who": who, "t": 1000 + 10 * (place // 2), "a": a, "b": 1}).encode() + b"\n", 0)
    line.run()
    assert [one.flags & FLAGS for one in line.take_answers()] == [0, 0]
    assert line.levels == {"x": {}, "y": {}}


def test_a_line_that_does_not_ask_watches_nothing() -> None:
    line = _line()
    list(_played(line, ROWS[:3]))
    assert line.levels == {}
    assert "watch" not in line.saved()["streams"][""]
    assert all(len(kept) == 3 for kept in line.take_changes().get("streams", {}).values())


def test_a_shipped_bundle_keeps_its_bytes() -> None:
    data = (FROST / "manifest.json").read_bytes()
    assert model(FROST).manifest.plausibility is None
    assert encode(parse(data)) == data


def test_it_goes_through_the_manifest_and_an_older_release_refuses_it_by_name() -> None:
    made = manifest(**ASKED)
    assert parse(encode(made)) == made
    with pytest.raises(ValidationError, match="uses plausibility but must_understand does not name it"):
        tiny.manifest(plausibility=STEPS)


@pytest.mark.parametrize(("asked", "words"), [
    ({}, "plausibility with no part"),
    ({"step": {"limits": {}}}, "at least 1 item"),
    ({"step": {"limits": {"c": 1.0}}}, "'c' is no channel of a single number"),
    ({"step": {"limits": {"a": 0.0}}}, "greater than 0"),
    ({"drifted": {"samples": 50, "bins": {"a": {"edges": [1.0, 0.0], "shares": [0.3, 0.3, 0.4]}}}}, "edges of bins must rise"),
    ({"drifted": {"samples": 50, "bins": {"a": {"edges": [1.0], "shares": [0.3, 0.3]}}}}, "add up to 1"),
    ({"drifted": {"samples": 50, "bins": {"a": {"edges": [1.0], "shares": [1.0]}}}}, "one share each"),
    ({"constant": {"after": 1}}, "greater than or equal to 2"),
])  # fmt: skip
def test_what_cannot_be_watched_is_no_manifest(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        manifest(**asked)


def test_a_rate_needs_a_pace() -> None:
    bare = {"length": 2, "hop": 1}
    with pytest.raises(ValidationError, match="step needs a window with period_s"):
        tiny.manifest(must_understand=["plausibility"], plausibility=STEPS, window=bare)


def test_a_manifest_with_a_wrong_part_is_refused_in_one_line() -> None:
    data = encode(manifest(**STEPS)).replace(b'"a": 0.5', b'"a": -1')
    with pytest.raises(BundleError, match=r"plausibility\.step\.limits\.a"):
        parse(data)
