"""The line with models of every kind: states, several inputs and outputs, labels, own preprocessing, fixed batches."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from edge_runtime.flow.line import Line
from edge_runtime.flow.window import NS
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.reading import Reading
from edge_runtime.spec.result import FILLED, HELD, MISSING, RESTARTED
from tests.rig import kinds

# Of each event: the stream, the seconds since its last sample (20 is a gap, 0 a repetition), the number.
EVENTS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from([10, 10, 10, 10, 20, 0]), st.integers(-40, 40).map(float)),
    min_size=1, max_size=60,
)  # fmt: skip
RUNS = st.lists(st.booleans(), min_size=60, max_size=60)


def readings(events):
    times = dict.fromkeys("xyz", 1000)
    last = dict.fromkeys("xyz", 0.0)
    for who, step, value in events:
        times[who] += step
        last[who] = value if step else last[who]
        yield Reading((last[who],), times[who] * NS, who)


def summed(events, reset):
    """What the running sum of each stream is after each of its samples, in plain Python."""
    sums, out = {}, {}
    for who, step, value in events:
        if who in sums and not step:
            continue  # a repetition
        before = 0.0 if step == 20 and reset == "gap" else sums.get(who, 0.0)
        sums[who] = before + (value if step else 0.0)  # a repetition of nothing is 0, as readings() has it
        out.setdefault(who, []).append(sums[who])
    return out


def by_stream(found):
    out = {}
    for one in found:
        out.setdefault(one.stream, []).append(one.outputs[0].value)
    return out


def unflagged(found):
    """By stream, without the mark of a restart: in which order streams answer depends on the batches alone."""
    out = {}
    for one in found:
        out.setdefault(one.stream, []).append(one._replace(flags=one.flags & ~RESTARTED))
    return out


@settings(deadline=None, max_examples=60)
@given(events=EVENTS, reset=st.sampled_from(["gap", "never"]), axis=st.sampled_from([0, 1]),
       sizes=st.sampled_from([(1,), (1, 2), (1, 4), (1, 2, 8)]), runs=RUNS)  # fmt: skip
def test_a_state_follows_its_stream_in_every_batching(events, reset, axis, sizes, runs):
    made = kinds.running_sum(reset, batch_axis=axis)
    line = kinds.line(made, kinds.add_up(axis), sizes)
    for reading, run_now in zip(readings(events), runs, strict=False):
        line.offer(reading, 0)
        if run_now:
            line.run()
    line.run()
    assert by_stream(line.take_answers()) == summed(events, reset)


def test_no_batch_holds_two_samples_of_one_stream_and_streams_share_batches():
    batches = []

    def watched(feeds):
        batches.append(feeds["x"][:, 0, 0].tolist())
        return kinds.add_up()(feeds)

    line = kinds.line(kinds.running_sum(), watched)
    for i in range(3):
        for who in "xyz":
            line.offer(Reading((float(i),), i * 10 * NS, who), 0)
    line.run()
    assert batches == [[0, 0], [0], [1, 1], [1], [2, 2], [2]]


def test_a_gap_leaves_the_answer_before_it_its_state_and_begins_the_next_anew():
    """The sample before the gap is due and has not run yet when the gap is noticed."""
    line = kinds.line(kinds.running_sum(), kinds.add_up())
    for seconds, value in ((0, 1.0), (10, 2.0), (40, 5.0), (50, 6.0)):
        line.offer(Reading((value,), seconds * NS), 0)
    line.run()
    assert [one.outputs[0].value for one in line.take_answers()] == [1.0, 3.0, 5.0, 11.0]


@settings(deadline=None, max_examples=60)
@given(events=EVENTS, cuts=st.sets(st.integers(0, 60), max_size=5), whole_at=st.integers(0, 60),
       reset=st.sampled_from(["gap", "never"]), length=st.sampled_from([1, 2, 3]), hop=st.sampled_from([1, 2]))  # fmt: skip
def test_a_state_survives_a_restart_at_any_cut(events, cuts, whole_at, reset, length, hop):
    """Through the bytes a journal writes: snapshots and changes, taken over by a new line."""
    made = kinds.running_sum(reset, length=length, hop=hop)
    straight = kinds.line(made, kinds.add_up())
    line, saved, changes = kinds.line(made, kinds.add_up()), None, []
    found = []
    for at, reading in enumerate(readings(events)):
        straight.offer(reading, 0)
        line.offer(reading, 0)
        line.run()
        found += line.take_answers()
        changes.append(from_json(to_json(line.take_changes())))
        if at == whole_at:
            saved, changes = from_json(to_json(line.saved())), []
        if at in cuts:
            line = kinds.line(made, kinds.add_up())
            line.restore(saved, changes)
    straight.run()
    assert unflagged(found) == unflagged(straight.take_answers())
    assert line.saved()["streams"] == straight.saved()["streams"]


def policies() -> Manifest:
    return kinds.manifest(
        [
            kinds.taking(kinds.number(when_missing="hold", hold_s=15.0), kinds.number("b", when_missing="pass"), length=2),
            kinds.taking(kinds.number("s", shape=[2]), tensor="z", shape=["batch", 2, 2], axes=["batch", "time", "point"]),
        ],
        window={"length": 2},
    )  # fmt: skip


def first_or_less(feeds):
    """The mean of `a` over the window, 1000 more where a `b` is missing, and all of the array."""
    total = feeds["x"][:, :, 0].mean(axis=1) + 1000.0 * np.isnan(feeds["x"][:, :, 1]).any(axis=1)
    return {"y": (total + feeds["z"].sum(axis=(1, 2))).reshape(-1, 1)}


MISSING_EVENTS = st.lists(
    st.tuples(
        st.sampled_from([5, 10, 20]), st.none() | st.sampled_from([1.0, 2.0]), st.none() | st.sampled_from([3.0, 4.0]),
        st.sampled_from([[0.0, 1.0], [2.0, 3.0], None]),
    ),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(events=MISSING_EVENTS, cuts=st.sets(st.integers(0, 40), max_size=4), whole_at=st.integers(0, 40))
def test_what_is_missing_held_and_wide_survives_a_restart_at_any_cut(events, cuts, whole_at):
    """NaN goes through JSON as null; the age of a held number, and so its refusal, stays."""
    straight, line = kinds.line(policies(), first_or_less), kinds.line(policies(), first_or_less)
    saved, changes, found, time_s = None, [], [], 0
    for at, (step, a, b, array) in enumerate(events):
        time_s += step
        for one in (straight, line):
            one.offer(Reading((a, b, array), time_s * NS), 0)
        line.run()
        found += line.take_answers()
        changes.append(from_json(to_json(line.take_changes(), inf_nan_mode="null")))
        if at == whole_at:
            saved, changes = from_json(to_json(line.saved(), inf_nan_mode="null")), []
        if at in cuts:
            line = kinds.line(policies(), first_or_less)
            line.restore(saved, changes)
    straight.run()
    assert unflagged(found) == unflagged(straight.take_answers())
    assert line.ledger.as_dict() == straight.ledger.as_dict()


def test_the_flags_of_missing_numbers_last_as_long_as_they_are_in_the_window():
    line = kinds.line(policies(), first_or_less)
    for i, (a, b) in enumerate([(1.0, 1.0), (None, None), (2.0, 2.0), (2.0, 2.0)]):
        line.offer(Reading((a, b, [0, 0]), i * 10 * NS), 0)
    line.run()
    assert [one.flags for one in line.take_answers()] == [HELD | MISSING, HELD | MISSING, 0]


def test_a_duplicate_with_a_missing_number_is_a_duplicate():
    line = kinds.line(policies(), first_or_less)
    for _ in range(2):
        line.offer(Reading((1.0, None, [0, 0]), 10 * NS), 0)
    assert line.ledger.duplicate == 1


def test_two_inputs_each_get_their_own_channels():
    made = kinds.manifest([
        kinds.taking(kinds.number(), kinds.number("b")),
        kinds.taking(kinds.category(), tensor="z", dtype="int64"),
    ])  # fmt: skip

    def run(feeds):
        assert feeds["z"].dtype == np.int64
        return {"y": feeds["x"].sum(axis=1, keepdims=True) * 10 ** feeds["z"]}

    line = kinds.line(made, run)
    line.offer(Reading((1.0, 2.0, "blue")), 0)
    line.offer(Reading((1.0, 2.0, "red")), 1)
    line.run()
    assert [one.outputs[0].value for one in line.take_answers()] == [300.0, 3.0]


SCORES = np.array([[0.1, 2.0, -1.0]])
LABELS = {"labels": ["low", "mid", "high"]}


@pytest.mark.parametrize(
    ("output", "row", "value"),
    [
        (kinds.giving("label", **LABELS), [0.1, 2.0, -1.0], ("mid", 2.0)),
        (kinds.giving("label", **LABELS), np.array([2]), ("high", None)),
        (kinds.giving("label", **LABELS), np.array(2), ("high", None)),
        (kinds.giving("label", **LABELS), np.array(["low"], dtype=object), ("low", None)),
        (kinds.giving("vector"), [0.5, 2.0], ((0.5, 2.0), None)),
        (kinds.giving(column=2), [0.1, 2.0, -1.0], (-1.0, None)),
    ],
)  # fmt: skip
def test_answers_are_numbers_labels_or_vectors(output, row, value):
    line = kinds.line(kinds.manifest([kinds.taking(kinds.number())], [output]), kinds.constant(row))
    line.offer(Reading((1.0,)), 0)
    line.offer(Reading((2.0,)), 1)
    line.run()
    found = line.take_answers()
    assert [(one.outputs[0].value, one.outputs[0].score) for one in found] == [value, value]


def test_several_outputs_stand_in_one_answer_and_one_unusable_refuses_it():
    outputs = [kinds.giving(), kinds.giving("label", "kind", "k", **LABELS), kinds.giving("vector", "all")]
    made = kinds.manifest([kinds.taking(kinds.number())], outputs)
    line = kinds.line(made, lambda feeds: {"y": feeds["x"], "k": feeds["x"].astype(np.int64)})
    for time, value in enumerate([1.0, 2.0, 3.0, 0.0]):
        line.offer(Reading((value,)), time)
    line.run()
    found = line.take_answers()
    assert [[one.value for one in answer.outputs] for answer in found] == [
        [1.0, "mid", (1.0,)], [2.0, "high", (2.0,)], [0.0, "low", (0.0,)],
    ]  # fmt: skip
    assert [one.seq for one in found] == [0, 1, 2]
    assert line.ledger.refused == {"unknown_label": 1}


def test_an_output_that_is_refused_still_moves_the_state_on():
    def run(feeds):
        out = kinds.add_up()(feeds)
        out["y"][feeds["x"][:, -1] == 2.0] = np.nan
        return out

    line = kinds.line(kinds.running_sum(), run)
    for time, value in enumerate([1.0, 2.0, 3.0]):
        line.offer(Reading((value,), time * 10 * NS), 0)
    line.run()
    assert [one.outputs[0].value for one in line.take_answers()] == [1.0, 6.0]


def test_a_model_of_a_fixed_batch_gets_one_row_at_a_time():
    sizes = []

    def run(feeds):
        sizes.append(len(feeds["x"]))
        return {"y": feeds["x"]}

    line = kinds.line(kinds.manifest([kinds.taking(kinds.number())], sizes=[1]), run)
    for time in range(5):
        line.offer(Reading((float(time),)), time)
    line.run()
    assert sizes == [1] * 5
    assert [one.outputs[0].value for one in line.take_answers()] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("has_window", [False, True])
def test_the_author_s_own_preprocessing_takes_rows_in_contract_units(has_window):
    own = {"model": "preprocess.onnx", "input": "raw", "dtype": "float64"}
    window = {"window": {"length": 2}} if has_window else {}
    made = kinds.manifest(
        [kinds.taking(kinds.number(), length=2 if has_window else None)], preprocess_onnx=own, **window
    )
    seen = []

    def prepare(feeds):
        seen.append((feeds["raw"].dtype, feeds["raw"].shape))
        return {"x": (feeds["raw"] * 2.0).astype(np.float32)}

    def run(feeds):
        return {"y": feeds["x"].reshape(len(feeds["x"]), -1).sum(axis=1, keepdims=True)}

    line = kinds.line(made, run, prepare=prepare)
    for time in range(3):
        line.offer(Reading((float(time),)), time)
    line.run()
    assert [one.outputs[0].value for one in line.take_answers()] == ([2.0, 6.0] if has_window else [0.0, 2.0, 4.0])
    assert seen[0] == (np.dtype(np.float64), (2, 2, 1) if has_window else (2, 1))


def picture_line() -> Line:
    made = kinds.manifest(
        [
            kinds.taking(
                kinds.opaque(shape=[2, 3]),
                shape=["batch", 1, 2, 3],
                axes=["batch", "one", "row", "column"],
                dtype="uint8",
            )
        ]
    )
    return kinds.line(made, lambda feeds: {"y": feeds["x"].reshape(len(feeds["x"]), -1).astype(np.float32) @ WEIGHTS})


WEIGHTS = np.float32([[1], [10], [100], [1000], [10000], [100000]])


def test_a_picture_keeps_its_rows_and_columns():
    line = picture_line()
    line.offer(Reading(([[1, 2, 3], [4, 5, 6]],)), 0)
    line.offer(Reading((np.array([7, 1, 1, 1, 1, 1], dtype="<u2"),)), 1)
    line.run()
    assert [one.outputs[0].value for one in line.take_answers()] == [654321.0, 111117.0]


def test_what_a_line_says_of_wide_samples_is_json():
    line = picture_line()
    line.offer(Reading((np.arange(6, dtype=np.uint8),)), 0)
    line.run()
    assert json.loads(json.dumps(line.take_changes()))["samples"][0][2] == [0, 1, 2, 3, 4, 5]


def test_an_integer_tensor_holds_numbers_at_its_ends_and_is_refused_where_nan_could_come():
    raw = kinds.taking(kinds.number(), dtype="int8", steps=[{"step": "scale", "a": 100.0}])
    line = kinds.line(kinds.manifest([raw]), lambda feeds: {"y": feeds["x"].astype(np.float32)})
    for time, value in enumerate([-99.0, -1.0, 1.27, 99.0]):
        line.offer(Reading((value,)), time)
    line.run()
    assert [one.outputs[0].value for one in line.take_answers()] == [-128.0, -100.0, 127.0, 127.0]
    for wrong in (
        kinds.taking(kinds.number(when_missing="pass"), dtype="int64"),
        kinds.taking(kinds.number(), dtype="int8", steps=[{"step": "log", "base": "e", "floor": 1.0}]),
        kinds.taking(
            kinds.number(), dtype="int64", steps=[{"step": "lookup", "channel": 0, "keys": [1], "values": [2]}]
        ),
    ):
        with pytest.raises(ValueError, match=r"^input x: .*NaN, and int.* has none$"):
            kinds.line(kinds.manifest([wrong]), lambda feeds: feeds)


def test_a_filled_number_is_flagged_on_its_answer():
    line = kinds.line(
        kinds.manifest([kinds.taking(kinds.number(when_missing="fill", fill=4.0))]), lambda f: {"y": f["x"]}
    )
    line.offer(Reading((None,)), 0)
    line.run()
    (found,) = line.take_answers()
    assert (found.outputs[0].value, found.flags) == (4.0, FILLED)
    assert math.isclose(found.outputs[0].value, 4.0)
