"""Every step after the model against longdouble, labels of each kind, and values that are no answer."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from edge_runtime.flow.postprocess import Labelled, Postprocess, Unusable
from tests.rig import kinds

LABELS = {"labels": ["low", "mid", "high"]}
FLOATS = npst.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=st.floats(-80, 80, width=32))


def made(output, tensor):
    contract = kinds.manifest([kinds.taking(kinds.number())], [output])
    (rows,) = Postprocess(contract).make({"y": np.asarray(tensor)})
    return list(rows)


def close(found, wanted, ulps):
    """Within so many units in the last place of float64, or below what a float64 holds with all its digits."""
    wanted = np.asarray(wanted, dtype=np.longdouble)
    assert np.all(np.abs(np.asarray(found, dtype=np.longdouble) - wanted) <= ulps * 2.0**-52 * np.abs(wanted) + 1e-300)


def vector(*steps):
    return kinds.giving("vector", postprocess=list(steps))


@given(FLOATS)
def test_softmax_is_exact_and_adds_up_to_one(tensor):
    found = made(vector({"step": "softmax"}), tensor)
    powers = np.exp(tensor.astype(np.longdouble) - tensor.max(axis=1, keepdims=True))
    # exp(x - max): the difference of two float32 is exact enough in float64 to cost a few ulp of the exponent, up to 160.
    close(found, powers / powers.sum(axis=1, keepdims=True), 400)
    assert [math.fsum(row) for row in found] == pytest.approx([1.0] * len(found), abs=1e-15)


@pytest.mark.parametrize("scores", [[1e4, 0.0], [-1e4, -2e4], [3e38, -3e38], [1e308, -1e308]])
def test_softmax_of_far_scores_does_not_overflow(scores):
    assert made(vector({"step": "softmax"}), [scores]) == [(1.0, 0.0)]


@given(FLOATS)
def test_sigmoid_is_exact(tensor):
    close(made(vector({"step": "sigmoid"}), tensor), 1 / (1 + np.exp(-tensor.astype(np.longdouble))), 4)


def test_sigmoid_far_out_is_nought_or_one():
    assert made(kinds.giving(postprocess=[{"step": "sigmoid"}]), [[1e30], [0.0]]) == [1.0, 0.5]
    assert made(kinds.giving(postprocess=[{"step": "sigmoid"}]), [[-1e30]])[0] == pytest.approx(0.0, abs=1e-300)


@given(FLOATS, st.sampled_from(["e", "2", "10"]))
def test_exponential_is_exact(tensor, base):
    base_value = {"e": np.exp(np.longdouble(1)), "2": np.longdouble(2), "10": np.longdouble(10)}[base]
    # The oracle itself is off by |exponent| ulp of its base: longdouble has 2**11 times finer ones.
    close(made(vector({"step": "exponential", "base": base}), tensor), base_value ** tensor.astype(np.longdouble), 4)


@given(FLOATS, st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_destandardize_rounds_twice_at_most_and_the_same_alone_or_in_a_row(tensor, mean, std):
    step = {"step": "destandardize", "mean": mean, "std": std}
    found = made(vector(step), tensor)
    assert found == [tuple(float(x) * std + mean for x in row) for row in tensor]
    assert made(kinds.giving(postprocess=[step]), tensor) == [row[0] for row in found]


def test_steps_follow_their_order():
    steps = [{"step": "destandardize", "mean": 1.0, "std": 2.0}, {"step": "exponential", "base": "2"}]
    assert made(kinds.giving(postprocess=steps), [[1.0]]) == [8.0]
    assert made(kinds.giving(postprocess=steps[::-1]), [[1.0]]) == [5.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("step", [None, "softmax", "sigmoid", "exponential", "destandardize"])
@pytest.mark.parametrize("form", ["number", "vector", "label"])
def test_what_the_model_gave_as_infinite_is_never_an_answer(bad, step, form):
    """A sigmoid makes 1 of infinity: what looks like an answer would be a broken model's."""
    steps = [] if step is None else [{"step": step} | ({"mean": 0.0, "std": 1.0} if step == "destandardize" else {})]
    output = kinds.giving(form, postprocess=steps, **(LABELS if form == "label" else {}))
    good, refused = made(output, [[0.0, 0.0, 1.0], [bad, 0.0, 1.0]])
    assert not isinstance(good, Unusable)
    assert refused.reason == "not_finite_output"


def test_a_step_that_overflows_is_refused_without_a_warning():
    assert made(kinds.giving(postprocess=[{"step": "exponential"}]), [[1000.0]])[0].reason == "not_finite_output"
    big = {"step": "destandardize", "mean": 0.0, "std": 1e300}
    assert made(kinds.giving(postprocess=[big]), [[1e300]])[0].reason == "not_finite_output"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64])
def test_every_dtype_of_scores_gives_the_same_label(dtype):
    found = made(kinds.giving("label", **LABELS), np.array([[1, 5, 2], [9, 5, 2]], dtype=dtype))
    assert found == [Labelled("mid", 5.0), Labelled("low", 9.0)]


def test_of_equal_scores_the_first_counts():
    assert made(kinds.giving("label", **LABELS), [[2.0, 2.0, 1.0]]) == [Labelled("low", 2.0)]


def test_the_score_is_that_after_the_steps():
    (found,) = made(kinds.giving("label", postprocess=[{"step": "softmax"}], **LABELS), [[0.0, 0.0, math.log(2)]])
    assert found.text == "high"
    assert found.score == pytest.approx(0.5, rel=1e-15)


@pytest.mark.parametrize(
    ("form", "tensor", "says"),
    [
        ("label", [[1.0, 2.0]], "2 scores for 3 labels"),
        ("label", np.zeros((1, 0)), "0 scores for 3 labels"),
        ("label", [[3]], "label number 3 of 3"),
        ("label", [[-1]], "label number -1 of 3"),
        ("label", np.array([["huge"]], dtype=object), "label 'huge'"),
        ("label", np.array([["low", "mid"]], dtype=object), "2 object values, not one text"),
        ("number", np.array([["low"]], dtype=object), "1 object values, no number at place 0"),
        ("number", np.zeros((1, 0)), "0 float64 values, no number at place 0"),
        ("vector", np.array([["low"]], dtype=object), "1 object values, no number at place 0"),
    ],
)
def test_what_is_no_answer_says_why(form, tensor, says):
    (found,) = made(kinds.giving(form, **(LABELS if form == "label" else {})), tensor)
    assert isinstance(found, Unusable)
    assert found.found == says


def test_a_column_the_model_does_not_have_is_refused():
    (found,) = made(kinds.giving(column=3), [[1.0]])
    assert (found.reason, found.found) == ("no_number", "1 float64 values, no number at place 3")
