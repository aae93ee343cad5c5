"""`edge_runtime.open` with words, arrays and spectra: what is of a wrong kind is a refused sample, never a TypeError."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError, SampleRefused
from edge_runtime.flow.model import Model
from edge_runtime.run.api import OpenModel, Sample
from edge_runtime.spec.reading import Gridded
from edge_runtime.spec.result import CONVERTED, RESAMPLED, flag_names
from tests.rig import kinds

UNITS = {"a": "Cel", "s": "Cel"}
GOOD = {"a": 1.0, "colour": "green", "s": [1.0, 2.0, 3.0], "raw": np.uint8([[1, 2], [3, 4]])}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def model(units=UNITS):
    """Four inputs, one of each form; the answer is the sum of all of them."""
    one = kinds.manifest([
        kinds.taking(kinds.number()),
        kinds.taking(kinds.category(), tensor="c"),
        kinds.taking(
            kinds.number("s", shape=[3], grid=[1.0, 2.0, 3.0], grid_unit="nm", other_grid="resample"),
            tensor="s", shape=["batch", 3], axes=["batch", "point"],
        ),
        kinds.taking(kinds.opaque(shape=[2, 2]), tensor="r", shape=["batch", 2, 2], axes=["batch", "row", "column"]),
    ])  # fmt: skip

    def run(feeds):
        return {"y": sum(x.reshape(len(x), -1).sum(axis=1, keepdims=True) for x in feeds.values())}

    report = SimpleNamespace(bundle={"path": "bundles/none"})
    return OpenModel(SimpleNamespace(model=Model(one, one.variants[0], "d" * 64, run), report=report), units, "ucum")


def value(found):
    (answer,) = found
    return answer.outputs[0].value


def test_each_kind_of_value_is_taken():
    one = model()
    assert value(one.feed(GOOD)) == 1.0 + 1 + 6.0 + 10
    for s in ((1, 2, 3), np.float16([1, 2, 3]), Gridded([1, 2, 3], [1, 2, 3]), Gridded(np.array([1, 2, 3]), (1, 2, 3))):
        assert value(one.feed(GOOD | {"s": s})) == 18.0
    for raw in ([1, 2, 3, 4], [[1, 2], [3, 4]], np.arange(1, 5)):
        assert value(one.feed(GOOD | {"raw": raw})) == 18.0
    for a in (1, np.float32(1), np.int8(1)):
        assert value(one.feed(GOOD | {"a": a})) == 18.0


def test_an_array_or_a_spectrum_may_bring_its_unit():
    (found,) = model({"a": "Cel"}).feed(GOOD | {"s": ([33.8, 35.6, 37.4], "[degF]")})
    assert found.outputs[0].value == pytest.approx(18.0, abs=1e-5)
    assert found.flags == CONVERTED
    (found,) = model({"a": "Cel"}).feed(GOOD | {"s": (Gridded([1.0, 3.0], [1.0, 3.0]), "Cel")})
    assert found.outputs[0].value == 18.0
    assert flag_names(found.flags) == flag_names(RESAMPLED)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"a": "warm"}, "not_a_number"), ({"a": [1.0]}, "not_a_number"), ({"a": np.array([1.0])}, "not_a_number"),
        ({"a": True}, "not_a_number"), ({"a": Gridded([1], [1])}, "not_a_number"), ({"a": 10**400}, "not_finite"),
        ({"a": 1j}, "not_a_number"), ({"a": (1.0, 2.0)}, "not_a_number"), ({"a": ("x", "Cel")}, "not_a_number"),
        ({"colour": 1}, "unknown_category"), ({"colour": "violet"}, "unknown_category"), ({"colour": ["red"]}, "unknown_category"),
        ({"colour": None}, "missing"), ({"s": None}, "missing"), ({"s": 5.0}, "wrong_shape"), ({"s": "abc"}, "not_a_number"),
        ({"s": [1, 2]}, "wrong_shape"), ({"s": ["1", "2", "3"]}, "not_a_number"), ({"s": [1, None, 3]}, "not_a_number"),
        ({"s": (Gridded([1, 2], [1, 2]), "Cel")}, "other_grid"), ({"s": Gridded("a", "b")}, "not_a_number"),
        ({"s": {"x": 1}}, "not_a_number"), ({"s": ([1, 2, 3], "Pa")}, "wrong_dimension"), ({"raw": [0, 0, 0, 256]}, "beyond_dtype"),
        ({"raw": b"abcd"}, "not_a_number"), ({"raw": Gridded([1, 2, 3, 4], [1, 2, 3, 4])}, "not_a_number"),
        ({5: 1}, "unknown_channel"),
    ],
)  # fmt: skip
def test_a_wrong_kind_is_a_refused_sample(change, reason):
    one = model()
    with pytest.raises(SampleRefused) as refused:
        one.feed(GOOD | change)
    assert refused.value.reason == reason
    assert "\n" not in str(refused.value)
    assert one.ledger.rejected == {reason: 1}
    assert value(one.feed(GOOD)) == 18.0


@pytest.mark.parametrize(
    ("values", "keys", "reason"),
    [
        (5, {}, "bad_sample"), (None, {}, "bad_sample"), ([1, 2], {}, "bad_sample"), (GOOD, {"stream": 5}, "bad_sample"),
        (GOOD, {"stream": "\ud800"}, "bad_sample"), (GOOD, {"stream": "x" * 101}, "bad_stream"), (GOOD, {"time": 5}, "bad_time"),
        (GOOD, {"time": datetime(2026, 1, 1)}, "bad_time"),  # noqa: DTZ001
        (GOOD, {"time": datetime(2300, 1, 1, tzinfo=UTC)}, "bad_time"),
        (GOOD, {"time": datetime(1600, 1, 1, tzinfo=UTC)}, "bad_time"),
    ],
)  # fmt: skip
def test_a_sample_of_a_wrong_kind_is_refused(values, keys, reason):
    with pytest.raises(SampleRefused) as refused:
        model().feed(values, **keys)
    assert refused.value.reason == reason


def test_feed_many_refuses_a_wrong_sample_with_its_row():
    samples = [
        Sample(GOOD, NOW),
        5,
        Sample(GOOD | {"s": "x"}, NOW + timedelta(seconds=1)),
        Sample(GOOD, NOW + timedelta(seconds=2)),
    ]
    found = model().feed_many(samples)
    assert [(row, one.reason) for row, one in found.refused] == [(1, "bad_sample"), (2, "not_a_number")]
    assert [row for row, _ in found.answers] == [0, 3]


def test_a_unit_for_what_has_none_is_refused_at_open():
    for name in ("colour", "raw"):
        with pytest.raises(ConfigurationError, match=f"channel {name}, unit"):
            model({**UNITS, name: "Cel"})


def test_the_conversions_name_each_form():
    assert [one.split(",")[0] for one in model().conversions] == [
        "a: Cel -> Cel (x * 1.0 + 0.0)", "colour: a word of 3 -> its place", "s: Cel -> Cel (x * 1.0 + 0.0)",
        "raw: uint8 as it comes",
    ]  # fmt: skip


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.builds(Gridded, inner, inner)
    | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)  # fmt: skip
SHARED = model()


@settings(deadline=None, max_examples=300)
@given(change=st.dictionaries(st.sampled_from(list(GOOD)), ANYTHING, max_size=4))
def test_no_value_of_any_kind_raises_anything_else(change):
    try:
        SHARED.feed(GOOD | change)
    except SampleRefused as refused:
        assert "\n" not in str(refused)  # noqa: PT017 - most of them are refused, a few are not
