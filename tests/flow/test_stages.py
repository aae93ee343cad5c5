"""Preprocessing, postprocessing, batching and the ledger: the small pure stages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.batching import split
from edge_runtime.flow.ledger import Ledger
from edge_runtime.flow.postprocess import Postprocess, switched
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.spec.outputs import Threshold
from tests.rig import tiny

VALUES = np.array([[[10.0, 50.0], [20.0, 60.0]]])


def tensor_of(**changes):
    return make_preprocess(tiny.manifest(**changes))(VALUES)["x"]


def test_steps_are_applied_and_the_axes_put_in_the_model_s_order():
    tensor = tensor_of()
    assert tensor.dtype == np.float32
    assert tensor.flags.c_contiguous
    assert tensor.tolist() == [[[1.0, 2.0], [5.0, 6.0]]]


def test_newest_first_turns_the_time_round():
    assert tensor_of(window={"length": 2, "period_s": 10.0, "order": "newest_first"}).tolist() == [
        [[2.0, 1.0], [6.0, 5.0]]
    ]


def test_steps_follow_their_order():
    steps = [
        {"step": "clip", "min": [0.0, 0.0], "max": [15.0, 55.0]},
        {"step": "min_max", "min": [0.0, 50.0], "max": [10.0, 60.0]},
    ]
    assert tensor_of(steps=steps).tolist() == [[[1.0, 1.5], [0.0, 0.5]]]
    assert tensor_of(steps=steps[::-1]).tolist() == [[[1.0, 2.0], [0.0, 1.0]]]


def test_the_input_is_never_written_to():
    before = VALUES.copy()
    tensor_of()
    assert np.array_equal(before, VALUES)


def test_the_arithmetic_is_float64_and_the_cast_comes_last():
    steps = [{"step": "standardize", "mean": [101_325.0, 0.0], "std": [50.0, 1.0]}]
    values = np.array([[[101_325.000_1, 0.0], [101_325.0, 0.0]]])
    assert make_preprocess(tiny.manifest(steps=steps))(values)["x"][0, 0, 0] == np.float32(
        (101_325.000_1 - 101_325.0) / 50.0
    )


@pytest.mark.parametrize(("side", "on", "off", "values", "states"), [
    ("below", 2.0, 2.5, [3, 2.0, 1.9, 2.0, 2.4, 2.5, 2.4, 1.0], [0, 0, 1, 1, 1, 0, 0, 1]),
    ("above", 5.0, 4.0, [4, 5.0, 5.1, 5.0, 4.1, 4.0, 4.5, 6.0], [0, 0, 1, 1, 1, 0, 0, 1]),
    ("below", 2.0, 2.0, [2.0, 1.9, 2.0], [0, 1, 0]),
])  # fmt: skip
def test_hysteresis_at_and_around_its_ends(side, on, off, values, states):
    flag = Threshold(name="f", side=side, on=on, off=off)
    state, seen = False, []
    for value in values:
        state = switched(flag, value, was_on=state)
        seen.append(int(state))
    assert seen == states


def test_an_answer_is_destandardized_in_float64():
    post = Postprocess(tiny.manifest())
    rows = post.make({"y": np.array([[0.1]], dtype=np.float32)})
    values, after = post.answer(rows, 0, post.fresh)
    assert values[0].value == float(np.float32(0.1)) * 10.0
    assert after == (True,)
    assert post.flag_names == ("mean.cold",)


@given(st.integers(0, 500), st.lists(st.integers(2, 64), unique=True, max_size=6))
def test_a_split_uses_listed_sizes_alone_and_adds_up(count, more):
    sizes = (1, *sorted(more))
    parts = split(count, sizes)
    assert sum(parts) == count
    assert set(parts) <= set(sizes)
    assert parts == sorted(parts, reverse=True)


def test_a_ledger_that_lost_one_does_not_add_up():
    ledger = Ledger()
    ledger.received, ledger.accepted, ledger.due = 5, 3, 2
    ledger.rejected["missing"] += 1
    assert not ledger.adds_up(pending_samples=0, pending_answers=2)
    assert ledger.adds_up(pending_samples=1, pending_answers=2)
    assert not ledger.adds_up(pending_samples=1, pending_answers=1)
    ledger.samples_dropped["queue_full"] += 1
    ledger.published, ledger.refused["gap"] = 1, 1
    assert ledger.adds_up(pending_samples=0, pending_answers=0)


def test_a_ledger_goes_through_its_saved_form():
    ledger = Ledger()
    ledger.received, ledger.duplicate, ledger.published = 4, 1, 2
    ledger.refused["gap"] += 3
    ledger.answers_dropped["outbox_full"] += 1
    ledger.suppressed["unchanged"] += 5
    other = Ledger()
    other.restore(ledger.as_dict())
    assert other.as_dict() == ledger.as_dict()
    other.rejected["missing"] += 1
    assert other.as_dict() != ledger.as_dict()


def test_a_ledger_of_a_release_that_suppressed_nothing_is_taken_over():
    saved = Ledger().as_dict()
    del saved["answers"]["suppressed"]
    other = Ledger()
    other.restore(saved)
    assert other.suppressed.total() == 0


def test_what_is_suppressed_is_a_term_of_the_sum():
    ledger = Ledger()
    ledger.due, ledger.published, ledger.suppressed["every"] = 3, 1, 2
    assert ledger.adds_up(pending_samples=0, pending_answers=0)
    assert not ledger.adds_up(pending_samples=0, pending_answers=1)


@pytest.mark.parametrize(
    ("physical", "step", "end"),
    [
        (
            {"min": -1e300, "max": 1e300},
            {"step": "clip", "min": [-1e300] * 2, "max": [1e300] * 2},
            "physical -1e\\+300",
        ),
        ({"min": -100.0, "max": 100.0}, {"step": "standardize", "mean": [0.0] * 2, "std": [1e-320] * 2}, "-inf"),
        ({"min": -100.0, "max": 100.0}, {"step": "min_max", "min": [0.0] * 2, "max": [1e-300] * 2}, "-1e\\+302"),
    ],
)
def test_what_passes_the_physical_band_is_a_number_in_the_tensor(physical, step, end):
    raw = tiny.manifest(steps=[step]).model_dump(mode="json", by_alias=True)
    raw["inputs"][0]["channels"][0]["physical"] = physical
    with pytest.raises(ValueError, match=end):
        make_preprocess(type(tiny.manifest()).model_validate(raw))
    raw["inputs"][0]["steps"] = [{"step": "clip", "min": [-50.0] * 2, "max": [50.0] * 2}]
    assert make_preprocess(type(tiny.manifest()).model_validate(raw))
