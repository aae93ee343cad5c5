import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from edge_runtime.flow.window import MAX_REMEMBERED_NUMBERS, NS, REMEMBERED, Stream, WindowRule
from edge_runtime.spec.reading import Rejection
from edge_runtime.spec.result import CONVERTED, EXTRAPOLATING, HELD, MISSING, RATE_OFF
from tests.rig import kinds


class Rule(WindowRule):
    """A rule without a manifest: the numbers a test needs."""

    __slots__ = ()

    def __init__(self, length=3, hop=1, period_s=10.0, limits=((0, 4),)):
        self.length, self.hop, self.width = length, hop, 2
        self.limits = tuple((column, limit, "ab"[column]) for column, limit in limits)
        self.remembered, self.has_hold, self.states = max(length, REMEMBERED), False, ()
        self.watch = None
        self.period_ns = round(period_s * NS) if period_s else None
        period = self.period_ns or 0
        self.step_min_ns, self.step_max_ns = period // 2, period * 3 // 2
        self.rate_min_ns, self.rate_max_ns = round(period * 0.95), round(period * 1.05)


def stream(**rule):
    return Stream(Rule(**rule), ())


def fill(one, times, values=None, flags=0):
    return [one.push(round(t * NS), (values[i] if values else (float(i), 0.0)), flags) for i, t in enumerate(times)]


def test_a_window_is_due_once_it_is_full_and_then_every_hop():
    one = stream(length=3, hop=2)
    due = []
    for i in range(9):
        one.push(i * 10 * NS, (float(i), 0.0), 0)
        due.append(one.is_due)
    assert due == [False, False, True, False, True, False, True, False, True]


def test_the_window_holds_the_newest_samples_oldest_first_over_many_turns_of_the_ring():
    one = stream(length=3)
    for i in range(10 * REMEMBERED):
        one.push(i * 10 * NS, (float(i), -float(i)), 0)
        if i >= 2:
            assert one.window().tolist() == [[float(j), -float(j)] for j in (i - 2, i - 1, i)]


@pytest.mark.parametrize(("step", "unbroken", "flag"), [
    (10.0, True, 0), (10.4, True, 0), (10.6, True, RATE_OFF), (9.4, True, RATE_OFF), (14.9, True, RATE_OFF),
    (15.0, False, 0), (20.0, False, 0), (4.9, False, 0), (1e6, False, 0),
])  # fmt: skip
def test_the_pace_is_flagged_or_breaks_the_window(step, unbroken, flag):
    one = stream(length=2)
    fill(one, [0, step])
    assert one.is_due
    assert one.is_unbroken is unbroken
    assert one.flags() == flag


def test_a_window_is_whole_again_after_length_samples_behind_a_gap():
    one = stream(length=3)
    fill(one, [0, 10, 20])
    states = []
    for t in (40, 50, 60, 70):
        one.push(t * NS, (1.0, 1.0), 0)
        states.append(one.is_unbroken)
    assert states == [False, False, True, True]
    assert "20 s" in one.break_words


def test_without_a_period_every_step_is_good():
    one = stream(length=2, period_s=None)
    fill(one, [0, 1000])
    assert one.is_unbroken


def test_a_repeated_sample_is_a_duplicate_and_another_value_at_its_time_is_refused():
    one = stream()
    fill(one, [0, 10, 20])
    assert one.push(10 * NS, (1.0, 0.0), 0) is False
    assert one.push(20 * NS, (2.0, 0.0), 0) is False
    refused = one.push(20 * NS, (2.5, 0.0), 0)
    assert isinstance(refused, Rejection)
    assert refused.reason == "time_back"
    assert one.push(15 * NS, (1.5, 0.0), 0).reason == "time_back"
    assert one.samples == 3
    assert one.push(30 * NS, (3.0, 0.0), 0) is True


def test_a_flag_lasts_as_long_as_its_sample_is_in_the_window():
    one = stream(length=3)
    one.push(0, (0.0, 0.0), EXTRAPOLATING | CONVERTED)
    seen = []
    for i in range(1, 5):
        one.push(i * 10 * NS, (float(i), 0.0), CONVERTED)
        seen.append(one.flags())
    assert seen == [EXTRAPOLATING | CONVERTED, EXTRAPOLATING | CONVERTED, CONVERTED, CONVERTED]


def test_stuck_comes_at_its_limit_per_channel_and_goes_with_the_next_other_value():
    one = stream(limits=((0, 3), (1, 5)))
    seen = []
    for i, value in enumerate([1.0, 1.0, 1.0, 1.0, 2.0]):
        one.push(i * 10 * NS, (value, 7.0), 0)
        seen.append(one.stuck())
    assert seen == [(), (), ("a",), ("a",), ("b",)]


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.sampled_from([0, 5, 10, 10, 10, 10, 11, 20, -10]), min_size=1, max_size=200),
    cut=st.integers(0, 200),
    length=st.integers(1, 80),
)
def test_a_restored_stream_goes_on_as_if_nothing_had_been(steps, cut, length):
    """Through JSON, at any cut: everything a stream says afterwards is the same."""
    whole, before = stream(length=length), stream(length=length)
    t, events = 1000, []
    for i, step in enumerate(steps):
        t += step
        events.append((t * NS, (float(i % 3), float(i)), EXTRAPOLATING if i % 7 == 0 else 0))
    for event in events[:cut]:
        assert whole.push(*event) == before.push(*event)
    after = stream(length=length)
    after.restore(json.loads(json.dumps(before.saved())))
    for event in events[cut:]:
        assert whole.push(*event) == after.push(*event)
        assert (whole.is_due, whole.is_unbroken, whole.flags(), whole.stuck()) == (
            after.is_due, after.is_unbroken, after.flags(), after.stuck(),
        )  # fmt: skip
        if whole.is_due:
            assert np.array_equal(whole.window(), after.window())


def through_json(made, one):
    """A new stream from what the old one saved, as the journal writes it: NaN is null."""
    other = Stream(WindowRule(made), ())
    other.restore(from_json(to_json(one.saved(), inf_nan_mode="null")))
    return other


def holding():
    """`a` may be held, `b` is passed on as NaN, and a word may be held."""
    return kinds.manifest([
        kinds.taking(
            kinds.number(when_missing="hold", hold_s=15.0, stuck_after=3), kinds.number("b", when_missing="pass"),
            kinds.category(when_missing="hold", hold_s=60.0), length=2,
        )
    ], window={"length": 2})  # fmt: skip


def test_the_age_of_a_held_number_counts_from_the_real_one_also_after_a_restart():
    made = holding()
    one = Stream(WindowRule(made), ())
    one.push(0, (1.0, 2.0, 0.0), 0)
    one.push(10 * NS, (1.0, math.nan, 0.0), HELD | MISSING, held=(0, 2))
    for stream_ in (one, through_json(made, one)):
        assert stream_.held(0, 15 * NS, 15 * NS) == 1.0
        assert stream_.held(0, 15 * NS + 1, 15 * NS) is None
        assert stream_.held(2, 15 * NS + 1, 60 * NS) == 0.0
        stream_.push(20 * NS, (3.0, 4.0, 1.0), 0)
        assert stream_.held(0, 35 * NS, 15 * NS) == 3.0


def test_a_missing_number_goes_through_json_and_is_no_stuck_one():
    made = holding()
    one = Stream(WindowRule(made), ())
    for i in range(3):
        one.push(i * NS, (5.0, math.nan, 0.0), MISSING)
    other = through_json(made, one)
    assert one.stuck() == other.stuck() == ("a",)
    assert np.array_equal(one.window(), other.window(), equal_nan=True)
    assert one.flags() == other.flags() == MISSING
    assert one.push(NS, (5.0, math.nan, 0.0), MISSING) is other.push(NS, (5.0, math.nan, 0.0), MISSING) is False


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "uint8"])
def test_a_state_goes_through_json_bit_for_bit(dtype):
    state = {"input": "s", "output": "t", "dtype": dtype, "shape": [2, 3], "initial": 1.0}
    made = kinds.manifest([kinds.taking(kinds.number())], state=[state])
    one = Stream(WindowRule(made), ())
    assert one.state["s"].dtype == dtype
    assert one.state["s"].tolist() == [[1] * 3] * 2
    kind = np.dtype(dtype)
    values = [np.iinfo(kind).max, np.iinfo(kind).min] if kind.kind in "iu" else [1 / 3, np.finfo(kind).max]
    one.state["s"] = np.array([[*values, 0], [3, 5, 7]], dtype=dtype)
    other = through_json(made, one)
    assert other.state["s"].dtype == dtype
    assert other.state["s"].tobytes() == one.state["s"].tobytes()


@pytest.mark.parametrize(("reset", "after"), [("gap", 0.0), ("never", 9.0)])
def test_a_gap_begins_a_state_anew_or_not(reset, after):
    made = kinds.running_sum(reset)
    one = Stream(WindowRule(made), ())
    one.push(0, (1.0,), 0)
    one.state["s"] = np.float32([9.0])
    one.push(10 * NS, (1.0,), 0)
    assert one.state["s"].tolist() == [9.0]
    one.push(30 * NS, (1.0,), 0)
    assert one.state["s"].tolist() == [after]


def test_wide_rows_keep_a_bounded_memory_and_their_window():
    made = kinds.manifest([
        kinds.taking(kinds.opaque(shape=[2**15]), shape=["batch", 3, 2**15], axes=["batch", "time", "point"], dtype="uint8")
    ], window={"length": 3})  # fmt: skip
    rule = WindowRule(made)
    assert rule.remembered == 3
    assert rule.remembered * rule.width <= max(MAX_REMEMBERED_NUMBERS, 3 * rule.width)
    one = Stream(rule, ())
    for i in range(20):
        one.push(i, np.full(2**15, float(i)), 0)
    assert one.window()[:, 0].tolist() == [17.0, 18.0, 19.0]
    assert one.push(18, np.full(2**15, 18.0), 0) is False
    assert one.push(18, np.full(2**15, 17.0), 0).reason == "time_back"
