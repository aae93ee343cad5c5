"""Lists of steps as a whole, and the steps that take each value by itself."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from edge_runtime.flow.steps import _FITS, MAX_VALUES, plan
from edge_runtime.spec.steps import ARITHMETIC
from tests.rig.steps import lists, made, run

CHANCE = np.random.default_rng(7)
MAY_GIVE_NAN = {"log", "one_hot", "snv"}
SHORT = {"step": "difference", "order": 3}


def misfit(shape, *raw):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        plan(made(*raw), shape)
    return str(caught.value)


def same(one, other):
    """Equal to the last bit, but for the sign of NaN, which follows numpy's vector width and is refused as any NaN."""
    bits = [np.where(np.isnan(array), np.nan, array).tobytes() for array in (one, other)]
    return bits[0] == bits[1] and one.shape == other.shape


@settings(max_examples=400, deadline=None)
@given(drawn=lists(), seed=st.integers(0, 1000))
def test_any_list_that_plans_runs_and_any_other_is_refused_in_one_sentence(drawn, seed):
    shape, steps = drawn
    try:
        planned = plan(steps, shape)
    except ValueError as error:
        event("refused")
        said = str(error)
        assert said.startswith(f"step {len(steps)}, {steps[-1].step}: found shape (")
        assert ", expected " in said
        assert "\n" not in said
        return
    event(f"planned {len(steps)}")
    values = np.random.default_rng(seed).uniform(-100, 100, (5, *shape))
    values.setflags(write=False)
    result = planned.apply(values)
    assert result.shape == (5, *planned.shape)
    assert result.dtype == np.float64
    if not {step.step for step in steps} & MAY_GIVE_NAN:
        assert np.isfinite(result).all()
    for row in range(5):
        assert same(planned.apply(values[row : row + 1]), result[row : row + 1])
    assert same(planned.apply(values[1:4]), result[1:4])
    assert planned.apply(values[:0]).shape == (0, *planned.shape)


def test_every_step_can_be_planned():
    assert set(_FITS) >= ARITHMETIC | {"log", "spectrum"}
    assert len(_FITS) == 16


# Long enough that each vector width, tail and cache block of numpy takes part.
@pytest.mark.parametrize("batch", [2, 7, 64])
@pytest.mark.parametrize(
    ("shape", "raw"),
    [
        ((129, 3), {"step": "log", "base": "e", "offset": 200, "floor": 1}),
        ((129, 3), {"step": "log", "base": "2", "offset": 200, "floor": 1}),
        ((129, 3), {"step": "log", "base": "10", "offset": 200, "floor": 1}),
        ((100, 3), {"step": "spectrum", "hann": "periodic", "output": "magnitude"}),
        ((101, 1), {"step": "spectrum", "hann": "symmetric", "output": "power"}),
        ((251, 2), {"step": "spectrum", "hann": "periodic", "output": "db", "floor": 1e-6}),
        ((1024, 1), {"step": "spectrum", "hann": "periodic", "output": "magnitude"}),
        ((1, 1037), {"step": "snv", "ddof": 1}),
        ((3, 512), {"step": "savitzky_golay", "window": 11, "polyorder": 3, "along": "sample"}),
        ((131, 3), {"step": "savitzky_golay", "window": 5, "polyorder": 3, "derivative": 1, "along": "time"}),
        ((1, 47, 33, 3), {"step": "resize", "height": 12, "width": 17, "method": "area"}),
        ((1, 47, 33, 3), {"step": "resize", "height": 63, "width": 17, "method": "bilinear"}),
        ((1, 47, 33, 3), {"step": "colours", "to": "gray", "weights": [0.299, 0.587, 0.114]}),
    ],
    ids=lambda part: part["step"] if isinstance(part, dict) else None,
)
def test_a_row_is_the_same_bits_alone_and_in_any_batch_and_layout(batch, shape, raw):
    values = CHANCE.uniform(-100, 100, (batch, *shape))
    planned = plan(made(raw), shape)
    result = planned.apply(values)
    assert all(same(planned.apply(values[row : row + 1]), result[row : row + 1]) for row in range(batch))
    strided = np.repeat(values, 2, axis=-1)[..., ::2]
    assert not strided.flags.c_contiguous
    assert same(planned.apply(strided), result)
    assert same(planned.apply(np.asfortranarray(values)), result)


def test_one_bad_row_leaves_the_others_alone():
    raw = [
        {"step": "filter", "sections": [[0.2, 0.4, 0.2, 1, -0.4, 0.2]], "initial": "steady"},
        {"step": "savitzky_golay", "window": 5, "polyorder": 2, "along": "time"},
        {"step": "spectrum", "hann": "periodic", "output": "db", "floor": 1e-6},
    ]
    values = CHANCE.normal(size=(3, 32, 2))
    good = run(values, *raw)
    for bad in (np.nan, np.inf, 1e308):
        values[1, 5, 0] = bad
        assert same(run(values, *raw)[[0, 2]], good[[0, 2]])


def test_no_steps_change_nothing():
    values = CHANCE.normal(size=(2, 3, 4))
    assert same(run(values), values)


def test_an_array_of_another_shape_is_refused():
    planned = plan(made({"step": "scale", "a": 2}), (3, 2))
    with pytest.raises(ValueError, match=r"^steps: found shape \(4, 3, 1\), expected \(batch, 3, 2\)$"):
        planned.apply(np.zeros((4, 3, 1)))


@pytest.mark.parametrize("shape", [(3,), (), (1, 2, 3, 4, 5), (3, 0), (4096, 4097)])
def test_a_shape_that_is_none_is_refused(shape):
    assert "expected (time, channels), (time, points)" in misfit(shape)


def test_a_list_that_grows_beyond_all_bounds_is_refused():
    lag = {"step": "lag", "lags": list(range(500))}
    said = misfit((2000, 1), lag, lag)
    assert (
        said
        == f"step 2, lag: found shape (1501, 500), expected one that gives at most {MAX_VALUES} values, not (1002, 250000)"
    )


def test_the_bound_itself_is_allowed():
    wide = {"step": "one_hot", "channel": 0, "count": 4096}
    assert plan(made(wide), (4096, 1)).shape == (4096, 4096)
    assert "expected one that gives at most" in misfit((4097, 1), wide)
    plan((), (4096, 4096))


@pytest.mark.parametrize(
    ("shape", "raw", "says"),
    [
        ((5, 3), {"step": "standardize", "mean": [1], "std": [1]}, "found shape (5, 3), expected (time, 1), as it has 1 constants"),
        ((5, 3), {"step": "min_max", "min": [1], "max": [2]}, "found shape (5, 3), expected (time, 1), as it has 1 constants"),
        ((5, 3), {"step": "clip", "min": [1] * 4, "max": [2] * 4}, "expected (time, 4), as it has 4 constants"),
        ((1, 4, 4, 3), {"step": "clip", "min": [1], "max": [2]}, "expected (time, 4, 4, 1), as it has 1 constants"),
        ((1, 4, 4), {"step": "clip", "min": [1] * 4, "max": [2] * 4}, "expected one constant for a grey picture, not 4"),
        ((5, 3), {"step": "lookup", "channel": 3, "keys": [1], "values": [1]}, "expected (time, channels) with 4 channels or more"),
        ((5, 3, 3), {"step": "lookup", "channel": 0, "keys": [1], "values": [1]}, "with 1 channels or more"),
        ((5, 3), {"step": "one_hot", "channel": 3, "count": 2}, "expected (time, channels) with 4 channels or more"),
        ((5, 3, 3), {"step": "one_hot", "channel": 0, "count": 2}, "with 1 channels or more"),
        ((3, 2), SHORT, "found shape (3, 2), expected (time, ...) with 4 samples or more"),
        ((3, 2), {"step": "lag", "lags": [3, 0]}, "with 4 samples or more"),
        ((9, 2, 2), {"step": "lag", "lags": [0]}, "expected (time, channels) or (time, rows, columns, colours)"),
        ((2, 2), {"step": "spectrum", "hann": "periodic", "output": "power"}, "expected (time, ...) with 3 samples or more"),
        ((4, 1), {"step": "snv", "ddof": 0}, "expected (time, points) with 2 points or more"),
        ((4, 2, 2), {"step": "snv", "ddof": 0}, "expected (time, points) with 2 points or more"),
        ((4, 9), {"step": "savitzky_golay", "window": 5, "polyorder": 2, "along": "time"}, "expected 5 values or more along time"),
        ((9, 4), {"step": "savitzky_golay", "window": 5, "polyorder": 2, "along": "sample"}, "expected 5 values or more along"),
        ((9, 9, 9), {"step": "savitzky_golay", "window": 5, "polyorder": 2, "along": "sample"}, "expected (time, points)"),
        ((1, 4), {"step": "resample", "source": [1, 2, 3], "target": [1.5, 2]}, "found shape (1, 4), expected (time, 3)"),
        ((1, 4), {"step": "resize", "height": 2, "width": 2, "method": "area"}, "expected (time, rows, columns) or"),
        ((1, 4, 4), {"step": "resize", "height": 2, "width": 6, "method": "area"},
         "rows and columns both at least, or both at most, 2 x 6; or bilinear"),
        ((1, 4, 4), {"step": "colours", "to": "bgr"}, "found shape (1, 4, 4), expected (time, rows, columns, 3)"),
        ((1, 4, 4, 1), {"step": "colours", "to": "bgr"}, "expected (time, rows, columns, 3)"),
    ],
)  # fmt: skip
def test_a_step_that_does_not_fit_says_so(shape, raw, says):
    said = misfit(shape, {"step": "scale", "a": 1}, raw)
    assert said.startswith(f"step 2, {raw['step']}: found shape (")
    assert says in said


@pytest.mark.parametrize(
    "raw",
    [
        SHORT,
        {"step": "lag", "lags": [0]},
        {"step": "spectrum", "hann": "periodic", "output": "power"},
        {"step": "filter", "sections": [[1, 0, 0, 1, 0, 0]], "initial": "zero"},
        {"step": "savitzky_golay", "window": 3, "polyorder": 1, "along": "time"},
    ],
    ids=lambda raw: raw["step"],
)
def test_after_a_spectrum_there_is_no_time(raw):
    spectrum = {"step": "spectrum", "hann": "periodic", "output": "power"}
    said = misfit((16, 1), spectrum, {"step": "scale", "a": 2}, raw)
    assert said == (
        f"step 3, {raw['step']}: found shape (9, 1), expected (time, ...), but a spectrum made frequency of the time"
    )


VALUES = CHANCE.uniform(-5, 5, (4, 6, 2))


def test_standardize():
    result = run(VALUES, {"step": "standardize", "mean": [1, 2], "std": [3, 4]})
    assert same(result, (VALUES - [1, 2]) / [3, 4])


def test_min_max():
    result = run(VALUES, {"step": "min_max", "min": [-3, 2], "max": [3, 4]})
    assert same(result, (VALUES - [-3, 2]) / [6, 2])


def test_clip():
    result = run(VALUES, {"step": "clip", "min": [-1, 0], "max": [1, 0]})
    assert same(result, np.stack([np.clip(VALUES[..., 0], -1, 1), np.zeros((4, 6))], axis=-1) + 0)


@pytest.mark.parametrize(("shape", "count"), [((2, 3, 4), 1), ((2, 3, 4, 3), 3), ((2, 3, 4, 1), 1), ((2, 9), 9)])
def test_constants_are_one_each_of_colours_or_points_and_one_for_a_grey_picture(shape, count):
    values = CHANCE.uniform(size=(2, *shape))
    mean, std = CHANCE.uniform(1, 2, (2, count))
    result = run(values, {"step": "standardize", "mean": mean.tolist(), "std": std.tolist()})
    assert same(result, (values - mean) / std)


def test_scale():
    assert same(run(VALUES, {"step": "scale", "a": 3, "b": 0.1}), VALUES * 3 + 0.1)
    assert same(run(VALUES, {"step": "scale", "a": 1 / 255}), VALUES * (1 / 255))


@pytest.mark.parametrize(("base", "oracle"), [("e", np.log), ("2", np.log2), ("10", np.log10)])
def test_log(base, oracle):
    values = np.array([[[0.0], [0.0999], [0.1], [1.0], [-3.0], [np.nan], [np.inf]]])
    result = run(values, {"step": "log", "base": base, "offset": 0.9, "floor": 1.0})[0, :, 0]
    with np.errstate(invalid="ignore"):
        assert np.allclose(result[[2, 3, 6]], oracle(values[0, [2, 3, 6], 0] + 0.9), rtol=1e-15, atol=0)
    assert np.isnan(result[[0, 1, 4, 5]]).all()


@pytest.mark.parametrize("otherwise", [None, -1.0])
def test_lookup(otherwise):
    column = np.array([3.0, 1.0, 2.5, 2.0, 4.0, 0.0, -0.0, np.nan, np.inf])
    values = np.stack([np.full(9, 9.0), column], axis=-1)[np.newaxis]
    raw = {"step": "lookup", "channel": 1, "keys": [3, 1, 0], "values": [30, 10, 0.5], "otherwise": otherwise}
    result = run(values, raw)
    other = np.nan if otherwise is None else otherwise
    assert np.array_equal(result[0, :, 1], [30, 10, other, other, other, 0.5, 0.5, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(result[..., 0], values[..., 0])


def test_one_hot():
    values = np.array([[[7.0, 2.0, 8.0], [7.5, 0.0, 8.5], [1.0, 3.0, 1.0], [1.0, 0.5, 1.0], [1.0, np.nan, 1.0]]])
    result = run(values, {"step": "one_hot", "channel": 1, "count": 3})
    nan = [np.nan] * 3
    expected = [[7, 0, 0, 1, 8], [7.5, 1, 0, 0, 8.5], [1, *nan, 1], [1, *nan, 1], [1, *nan, 1]]
    assert np.array_equal(result[0], expected, equal_nan=True)
    assert run(values, {"step": "one_hot", "channel": 0, "count": 8})[0, 0].tolist() == [0] * 7 + [1, 2, 8]
