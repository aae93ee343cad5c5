"""Arrays, categories and opaque numbers against their contract; the grid of a spectrum and the binding of each form."""

import datetime as dt
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.contract import Contract
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.reading import Gridded, Reading, Rejection
from edge_runtime.spec.result import BEYOND_TOLERATED, CONVERTED, EXTRAPOLATING, RESAMPLED
from tests.rig import kinds

GRID = [1000.0, 1100.0, 1200.0]


def spectrum(**changes):
    return kinds.number("s", shape=[3], grid=GRID, grid_unit="nm", **changes)


def contract(raw, **binding):
    channel = kinds.channel(raw)
    plain = {"read": "list"} if channel.shape else {"read": "text"} if channel.form == "category" else {}
    if channel.form == "number":
        plain["unit"] = channel.unit
    return Contract([channel], {channel.name: ChannelBinding(field="f", **(plain | binding))})


def judged(one, value, units=None):
    return one.judge(Reading((value,), units=units))


def reason(one, value):
    found = judged(one, value)
    assert isinstance(found, Rejection), found
    assert "\n" not in str(found)
    assert len(str(found)) < 400
    return found.reason


@pytest.mark.parametrize("value", [[1, 2.5, 3], (1, 2.5, 3), np.array([1, 2.5, 3], np.float32)])
def test_an_array_of_numbers_is_taken_from_a_list_a_tuple_or_numpy(value):
    found = judged(contract(spectrum()), value)
    assert found.values.tolist() == [1.0, 2.5, 3.0]
    assert found.values.dtype == np.float64
    assert found.flags == 0


def test_every_number_is_converted():
    found = judged(contract(spectrum(), unit="[degF]"), [32.0, 50.0, 68.0])
    assert found.values == pytest.approx([0.0, 10.0, 20.0], abs=1e-12)
    assert found.flags == CONVERTED


@pytest.mark.parametrize(
    ("worst", "flags"),
    [(50.0, 0), (-50.0, 0), (50.1, EXTRAPOLATING), (60.0, EXTRAPOLATING), (60.1, EXTRAPOLATING | BEYOND_TOLERATED),
     (-60.1, EXTRAPOLATING | BEYOND_TOLERATED), (100.0, EXTRAPOLATING | BEYOND_TOLERATED)],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_worst_number_decides_the_flags(worst, flags, place):
    values = [1.0, 2.0, 3.0]
    values[place] = worst
    assert judged(contract(spectrum()), values).flags == flags


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "missing"), ([1, 2], "wrong_shape"), ([1, 2, 3, 4], "wrong_shape"), ([[1, 2, 3]], "wrong_shape"),
        (5.0, "wrong_shape"), ([], "wrong_shape"), ([1, 2, 100.1], "beyond_physical"), ([-100.1, 2, 3], "beyond_physical"),
        ([1, 2, float("nan")], "not_finite"), ([float("inf"), 2, 3], "not_finite"), ("abc", "not_a_number"),
        (["1", "2", "3"], "not_a_number"), ([True, False, True], "not_a_number"), ([1, None, 3], "not_a_number"),
        ([[1], [2, 3], []], "not_a_number"), ({"a": 1}, "not_a_number"), ([1j, 2, 3], "not_a_number"),
        ([10**400, 2, 3], "not_a_number"), ("x" * 100_000, "not_a_number"), (object(), "not_a_number"),
    ],
)  # fmt: skip
def test_what_is_no_array_of_the_contract_is_refused(value, expected):
    assert reason(contract(spectrum()), value) == expected


def test_a_number_whose_conversion_overflows_is_refused_without_a_warning():
    assert reason(contract(spectrum(), unit="[degF]"), [1.7e308, -1.7e308, 0.0]) == "beyond_physical"
    assert reason(contract(kinds.number("s", shape=[2], unit="nm", physical=BIG), unit="m"), [1e308, 0]) == "not_finite"


BIG = {"min": -1e308, "max": 1e308}


def test_a_picture_comes_nested_or_flat_and_never_in_another_order_of_its_sides():
    one = contract(kinds.opaque(shape=[2, 3]))
    nested = [[1, 2, 3], [4, 5, 6]]
    assert judged(one, nested).values.tolist() == judged(one, [1, 2, 3, 4, 5, 6]).values.tolist() == [1, 2, 3, 4, 5, 6]
    assert reason(one, [[1, 2], [3, 4], [5, 6]]) == "wrong_shape"


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("uint8", [0, 255], [-1, 256, 0.5]), ("int8", [-128, 127], [-129, 128, 1.5]),
        ("int64", [-(2.0**53), 2.0**53], [2.0**54, -(2.0**54), 0.1]), ("float16", [65504.0, -65504.0, 0.1], [65505.0, -65536.0]),
        ("float32", [3.4028234663852886e38, 1e-40], [3.5e38, -1e300]),
    ],
)  # fmt: skip
def test_opaque_numbers_are_what_their_dtype_holds_exactly(dtype, good, bad):
    single, pair = contract(kinds.opaque(dtype=dtype)), contract(kinds.opaque(dtype=dtype, shape=[2]))
    for value in good:
        assert judged(single, value).values == (value,)
        assert judged(pair, [value, 0]).values.tolist() == [value, 0]
    for value in bad:
        assert reason(single, value) == "beyond_dtype"
        assert reason(pair, [0, value]) == "beyond_dtype"
    assert reason(single, float("nan")) == "not_finite"
    assert reason(single, None) == "missing"
    assert reason(single, "5") == "not_a_number"
    assert reason(single, True) == "not_a_number"


def test_a_category_is_the_place_of_its_word_and_an_unknown_one_is_refused_or_takes_its_place():
    strict, open_one = contract(kinds.category()), contract(kinds.category(unknown=2))
    assert [judged(strict, word).values for word in ("red", "green", "blue")] == [(0.0,), (1.0,), (2.0,)]
    for word in ("Red", "red ", "", 0, None, ["red"], "x" * 10_000):
        assert reason(strict, word) == ("missing" if word is None else "unknown_category")
    assert judged(open_one, "violet").values == (2.0,)
    assert reason(open_one, 1) == "unknown_category"
    assert reason(open_one, None) == "missing"


def test_the_same_grid_passes_and_another_one_is_refused():
    one = contract(spectrum())
    assert judged(one, Gridded([1, 2, 3], GRID)).flags == 0
    assert judged(one, Gridded([1, 2, 3], [1000.0001, 1100.0, 1199.9999])).flags == 0
    assert reason(one, Gridded([1, 2, 3], [1000.001, 1100.0, 1200.0])) == "other_grid"
    assert reason(one, Gridded([1, 2, 3, 4], [1000, 1100, 1200, 1300])) == "other_grid"


def test_another_grid_is_resampled_linearly_where_the_contract_says_so():
    one = contract(spectrum(other_grid="resample"))
    found = judged(one, Gridded([0.0, 10.0, 30.0], [900, 1050, 1250]))
    assert found.values == pytest.approx([20 / 3, 15.0, 25.0])
    assert found.flags == RESAMPLED
    assert judged(one, Gridded([1, 2, 3], GRID)).flags == 0


@pytest.mark.parametrize(
    "grid",
    [
        [1001, 1100, 1200], [1000, 1100, 1199], [1200, 1100, 1000], [1000, 1000, 1200], [1000, float("nan"), 1200],
        [1000, 1100, float("inf")], [float("-inf"), 1100, 1200],
    ],
)  # fmt: skip
def test_nothing_is_extrapolated_turned_round_or_invented(grid):
    assert reason(contract(spectrum(other_grid="resample")), Gridded([1, 2, 3], grid)) == "other_grid"


@pytest.mark.parametrize(
    ("values", "grid", "expected"),
    [
        ([1, 2], GRID, "wrong_shape"), ([[1, 2, 3]], [GRID], "wrong_shape"), ([1], [1000], "wrong_shape"),
        ("abc", GRID, "not_a_number"), ([1, 2, 3], "abc", "not_a_number"), ([1, 2, 3], None, "not_a_number"),
        ([1, 2, float("nan")], GRID, "not_finite"), ([1, 2, 101], GRID, "beyond_physical"),
    ],
)  # fmt: skip
def test_a_broken_spectrum_is_refused(values, grid, expected):
    for other in ("refuse", "resample"):
        assert reason(contract(spectrum(other_grid=other)), Gridded(values, grid)) == expected


def test_a_grid_comes_in_the_unit_the_binding_says():
    one = contract(spectrum(), grid_field="x", grid_unit="um")
    assert judged(one, Gridded([1, 2, 3], [1.0, 1.1, 1.2])).flags == 0
    assert reason(one, Gridded([1, 2, 3], GRID)) == "other_grid"
    assert "grid um -> nm (x * 1000.0 + 0.0), another one refused" in one.conversions[0]


def test_a_grid_where_the_contract_has_none_is_refused():
    assert reason(contract(kinds.number("s", shape=[3])), Gridded([1, 2, 3], GRID)) == "not_a_number"
    assert reason(contract(kinds.opaque(shape=[3])), Gridded([1, 2, 3], GRID)) == "not_a_number"


@pytest.mark.parametrize(
    ("raw", "binding", "says"),
    [
        (kinds.number(), {"read": "text"}, "channel a, read: found 'text'; expected 'number' or 'numeric_text', as it is a number"),
        (kinds.number(), {"read": "list"}, "channel a, read: found 'list'"),
        (kinds.category(), {"read": "number"}, "channel colour, read: found 'number'; expected 'text', as it is a category"),
        (kinds.category(), {"unit": "Cel"}, "channel colour, unit: found one; expected none, as it is a category"),
        (kinds.opaque(), {"unit": "Cel"}, "channel raw, unit: found one; expected none, as it is uint8 numbers"),
        (kinds.opaque(), {"correction": {"a": 2.0, "date": dt.date(2026, 1, 1)}}, "channel raw, correction"),
        (kinds.opaque(shape=[2, 2]), {"read": "number"}, "expected 'list' or 'columns' or 'base64' or 'file', as it is uint8"),
        (kinds.opaque(shape=[2, 2]), {"read": "columns", "count": 5}, "channel raw, count: found 5; expected 4"),
        (kinds.number(shape=[3]), {"grid_field": "x", "grid_unit": "nm"}, "channel a, grid_field: found 'x'"),
        (spectrum(), {"grid_field": "x", "grid_unit": "Pa"}, "channel s, grid_unit: found 'Pa'; expected a unit"),
        (spectrum(), {"grid_field": "x", "grid_unit": "ell"}, "channel s, grid_unit: found 'ell'"),
        (spectrum(), {"unit": "Pa"}, "channel s, unit: found 'Pa'"),
    ],
)  # fmt: skip
def test_a_binding_that_does_not_suit_is_refused_at_boot(raw, binding, says):
    with pytest.raises(ConfigurationError) as refused:
        contract(raw, **binding)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("raw", "binding", "words"),
    [
        (kinds.category(), {}, "colour: a word of 3 -> its place"),
        (kinds.category(unknown=1), {}, "colour: a word of 3 -> its place, an unknown word -> 1 (green)"),
        (kinds.opaque(), {}, "raw: uint8 as it comes"),
        (
            kinds.opaque(shape=[2, 3]), {"read": "base64", "dtype": "uint8"},
            "raw: uint8 as it comes, 2 x 3 numbers from base64 of uint8",
        ),
        (kinds.number(shape=[3]), {"read": "columns", "count": 3}, "a: Cel -> Cel (x * 1.0 + 0.0), 3 numbers from 3 columns"),
        (kinds.number(when_missing="hold", hold_s=30.0), {}, "a: Cel -> Cel (x * 1.0 + 0.0), a missing one held for 30.0 s"),
        (kinds.number(when_missing="fill", fill=7.5), {}, "a: Cel -> Cel (x * 1.0 + 0.0), a missing one filled with 7.5"),
        (kinds.number(when_missing="pass"), {}, "a: Cel -> Cel (x * 1.0 + 0.0), a missing one passed on as NaN"),
        (kinds.number(), {"unit": None, "unit_field": "u"}, "a: unit read from the payload"),
        (kinds.number(), {"unit": None}, "a: undeclared: refused at the first sample"),
    ],
)  # fmt: skip
def test_the_words_say_what_happens_to_each_form(raw, binding, words):
    assert contract(raw, **binding).conversions == (words,)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.builds(Gridded, inner, inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(value=ANYTHING)
def test_no_value_of_any_kind_makes_a_traceback(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for raw in (
            kinds.category(), kinds.opaque(), kinds.opaque(shape=[2, 2]), kinds.opaque(dtype="float16", shape=[4]),
            spectrum(), spectrum(other_grid="resample"), kinds.number(when_missing="pass"),
        ):  # fmt: skip
            found = judged(contract(raw), value)
            if isinstance(found, Rejection):
                assert "\n" not in str(found)
            else:
                assert not np.isnan(np.asarray(found.values, dtype=float)).any() or value is None
