"""The steps on pictures, against OpenCV, which computes its weights in float32: equal within 1e-6 of the range."""

import cv2
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from edge_runtime.flow.steps_sums import area, bilinear, summed
from tests.rig.steps import run

CHANCE = np.random.default_rng(13)
RANGE = 255.0
SIDES = st.integers(1, 40)


def by_opencv(picture, height, width, method):
    flag = {"area": cv2.INTER_AREA, "bilinear": cv2.INTER_LINEAR}[method]
    return cv2.resize(picture, (width, height), interpolation=flag).reshape(height, width, *picture.shape[2:])


def compare(rows, columns, height, width, colours, method):
    values = CHANCE.uniform(0, RANGE, (2, 2, rows, columns, *colours))
    result = run(values, {"step": "resize", "height": height, "width": width, "method": method})
    for row in range(2):
        for time in range(2):
            expected = by_opencv(values[row, time], height, width, method)
            assert np.abs(result[row, time] - expected).max() <= 1e-6 * RANGE * 2


@settings(max_examples=150, deadline=None)
@given(rows=SIDES, columns=SIDES, height=SIDES, width=SIDES, colours=st.sampled_from([(), (3,), (1,)]))
def test_bilinear_equals_opencv(rows, columns, height, width, colours):
    compare(rows, columns, height, width, colours, "bilinear")


@settings(max_examples=150, deadline=None)
@given(sizes=st.tuples(SIDES, SIDES, SIDES, SIDES), up=st.booleans(), colours=st.sampled_from([(), (3,), (1,)]))
def test_area_equals_opencv(sizes, up, colours):
    rows, columns = sorted(sizes[:2], reverse=not up), sorted(sizes[2:], reverse=not up)
    assume(not up or not (opencv_slips(*rows) or opencv_slips(*columns)))
    compare(rows[0], columns[0], rows[1], columns[1], colours, "area")


def opencv_slips(size, wanted):
    """Whether OpenCV, enlarging by area, finds a pixel's first neighbour one too low: its product is rounded, then cut."""
    scale = 1 / (wanted / size)
    return any(int(new * scale) != new * size // wanted for new in range(wanted))


@settings(max_examples=100, deadline=None)
@given(size=SIDES, wanted=SIDES)
@example(size=14, wanted=18)
def test_area_is_the_mean_of_a_picture_cut_finely_enough_also_where_opencv_slips(size, wanted):
    values = CHANCE.uniform(0, RANGE, (1, 1, size, 3))
    result = run(values, {"step": "resize", "height": wanted, "width": 3, "method": "area"})
    fine = np.repeat(values[0, 0], wanted, axis=0).reshape(wanted, size, 3)
    assert np.allclose(result[0, 0], fine.mean(axis=1), rtol=1e-12, atol=0)


def test_opencv_still_slips_from_14_to_18():
    values = CHANCE.uniform(0, RANGE, (14, 1))
    assert opencv_slips(14, 18)
    assert by_opencv(values, 18, 1, "area")[9, 0] == values[6, 0]
    assert run(values[np.newaxis, np.newaxis], {"step": "resize", "height": 18, "width": 1, "method": "area"})[
        0, 0, 9, 0
    ] == pytest.approx(values[7, 0])


@pytest.mark.parametrize("method", ["area", "bilinear"])
@pytest.mark.parametrize(
    ("old", "new"),
    [((480, 640), (96, 96)), ((97, 101), (32, 32)), ((28, 28), (32, 32)), ((8, 8), (17, 31)), ((64, 64), (32, 16))],
)
def test_usual_sizes(method, old, new):
    compare(*old, *new, (3,), method)


@pytest.mark.parametrize("method", ["area", "bilinear"])
@pytest.mark.parametrize(("old", "new"), [((97, 101), (32, 32)), ((64, 64), (32, 16)), ((28, 28), (32, 37))])
def test_bytes_are_within_one_of_opencv_which_rounds_them(method, old, new):
    picture = CHANCE.integers(0, 256, (*old, 3)).astype(np.uint8)
    values = picture.astype(np.float64)[np.newaxis, np.newaxis]
    result = run(values, {"step": "resize", "height": new[0], "width": new[1], "method": method})
    assert np.abs(result[0, 0] - by_opencv(picture, *new, method)).max() <= 1


def test_the_same_size_changes_nothing():
    values = CHANCE.uniform(size=(2, 1, 7, 5, 3))
    for method in ("area", "bilinear"):
        assert np.array_equal(run(values, {"step": "resize", "height": 7, "width": 5, "method": method}), values)


def test_area_of_whole_blocks_is_their_mean():
    values = np.arange(16.0).reshape(1, 1, 4, 4)
    assert run(values, {"step": "resize", "height": 2, "width": 2, "method": "area"}).tolist() == [
        [[[2.5, 4.5], [10.5, 12.5]]]
    ]


@settings(max_examples=100, deadline=None)
@given(size=st.integers(1, 200), wanted=st.integers(1, 200))
def test_weights_sum_to_one_and_reach_no_further_than_the_picture(size, wanted):
    for taps in (area(size, wanted), bilinear(size, wanted)):
        assert np.abs(taps.weight.sum(axis=1) - 1).max() < 1e-14
        assert taps.weight.min() >= 0
        assert 0 <= taps.places.min() <= taps.places.max() < size
        assert len(taps.places) == wanted


def test_bgr_turns_the_colours_round():
    values = CHANCE.uniform(0, 1, (2, 1, 5, 4, 3))
    expected = cv2.cvtColor(values[0, 0].astype(np.float32), cv2.COLOR_RGB2BGR)
    result = run(values, {"step": "colours", "to": "bgr"})
    assert np.array_equal(result[0, 0].astype(np.float32), expected)


def test_gray_weighs_the_colours():
    values = CHANCE.uniform(0, 1, (2, 1, 5, 4, 3))
    result = run(values, {"step": "colours", "to": "gray", "weights": [0.299, 0.587, 0.114]})
    assert result.shape == (2, 1, 5, 4)
    expected = cv2.cvtColor(values[1, 0].astype(np.float32), cv2.COLOR_RGB2GRAY)
    assert np.abs(result[1, 0] - expected).max() < 1e-6


@given(count=st.integers(1, 70))
def test_a_folded_sum_is_the_sum(count):
    values = CHANCE.integers(-1000, 1000, (3, count)).astype(np.float64)
    assert np.array_equal(summed(values), values.sum(axis=-1, keepdims=True))
