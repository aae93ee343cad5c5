import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.errors import BundleError
from edge_runtime.spec.manifest import (
    FEATURES,
    IMPLEMENTED,
    MAX_BATCH_VALUES,
    MAX_MANIFEST_BYTES,
    encode,
    parse,
)
from tests.rig import tiny


def raw():
    return json.loads(encode(tiny.manifest()))


def refused(changed):
    with pytest.raises(BundleError) as caught:
        parse(json.dumps(changed).encode())
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def test_a_manifest_survives_its_own_bytes():
    one = tiny.manifest()
    assert parse(encode(one)) == one
    assert encode(parse(encode(one))) == encode(one)


def test_another_schema_is_refused_before_anything_else():
    assert "edge-runtime/bundle/2" in refused({"schema": "edge-runtime/bundle/2", "nonsense": 1})
    assert "None" in refused({})


@pytest.mark.parametrize("feature", [*sorted(set(FEATURES) - IMPLEMENTED), "time_travel"])
def test_what_is_not_implemented_is_refused_by_its_name(feature):
    assert feature in refused(raw() | {"must_understand": [feature]})


def test_a_key_left_out_is_told_as_a_value_wanted():
    one = raw()
    del one["needs"]["memory_mb"]
    assert "manifest.json, needs.memory_mb: found nothing; expected a value for memory_mb" in refused(one)


def test_a_feature_in_use_must_be_named():
    one = raw()
    one["state"] = [{"input": "h", "output": "h2", "dtype": "float32", "shape": [1]}]
    assert "state" in refused(one)
    assert "must_understand" in refused(one)


def change(path, value):
    one = raw()
    at = one
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return one


CHANNEL = ("inputs", 0, "channels", 0)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("typo",), 1, "typo"),
        ((*CHANNEL, "trainde"), {"min": 0, "max": 1}, "trainde"),
        ((*CHANNEL, "trained"), None, "trained"),
        ((*CHANNEL, "trained"), {"min": 5.0, "max": 5.0}, "below"),
        ((*CHANNEL, "tolerated"), {"min": -500.0, "max": 5.0}, "within the physical band"),
        ((*CHANNEL, "trained"), {"min": -500.0, "max": 5.0}, "within the physical band"),
        ((*CHANNEL, "name"), "b", "share the name b"),
        ((*CHANNEL, "name"), "Air Temperature", "pattern"),
        ((*CHANNEL, "stuck_after"), 1, "greater"),
        (("inputs", 0, "axes"), ["batch", "channel"], "axis"),
        ((*CHANNEL, "form"), "opaque", "only a number has a unit"),
        ((*CHANNEL, "categories"), ["x"], "categories belong"),
        ((*CHANNEL, "when_missing"), "hold", "hold needs hold_s"),
        ((*CHANNEL, "when_missing"), "fill", "fill needs the constant"),
        ((*CHANNEL, "shape"), [4], "an array"),
        (("variants", 0, "model_inputs"), ["x", "z"], "nothing feeds its input 'z'"),
        (("variants", 0, "model_outputs"), ["z"], "has no tensor 'y'"),
        (("window", "length"), 0, "greater"),
        (("window", "period_s"), -1.0, "greater"),
        (("window", "order"), "sideways", "oldest_first"),
        (("inputs", 0, "steps", 0, "std"), [1.0, 0.0], "greater"),
        (("inputs", 0, "steps", 0, "mean"), [1.0], "1 mean, but 2 std"),
        (("inputs", 0, "steps", 0, "step"), "magic", "magic"),
        (("outputs", 0, "flags", 0, "off"), 1.0, "own side"),
        (("outputs", 0, "name"), "time", "a key every answer has"),
        (("outputs", 0, "flags", 0, "name"), "unit", "a key every answer has"),
        (("batch_sizes",), [2, 4], "begin with 1"),
        (("batch_sizes",), [1, 4, 2], "ascend"),
        (("variants", 0, "model"), "../model.onnx", "pattern"),
        (("variants", 0, "tolerances"), {}, "at least 1"),
        (("variants", 0, "tolerances", "CPUExecutionProvider"), {"kind": "steps", "evidence": "x"}, "steps"),
        (("variants", 0, "tolerances", "CPUExecutionProvider"), {"kind": "exact", "rtol": 1, "evidence": "x"}, "exact"),
        (("version",), "1.0", "pattern"),
        (("security_version",), -1, "greater"),
        (("needs", "memory_mb"), 0, "greater"),
    ],
)
def test_what_does_not_fit_together_is_refused_and_named(path, value, words):
    assert words in refused(change(path, value))


@pytest.mark.parametrize("data", [
    b"", b"[]", b"null", b"{", b"\xff", b'{"schema": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000, b'"x"',
    b" " * (MAX_MANIFEST_BYTES + 1),
])  # fmt: skip
def test_what_is_no_json_object_is_refused_in_one_line(data):
    with pytest.raises(BundleError, match=r"manifest\.json"):
        parse(data)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_of_a_manifest_may_be_not_finite(literal):
    data = encode(tiny.manifest()).replace(b"-100.0", literal.encode(), 1)
    with pytest.raises(BundleError):
        parse(data)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_damaged_manifest_gives_a_manifest_or_a_bundle_error_never_another(data):
    good = bytearray(encode(tiny.manifest()))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    told = ""
    try:
        parse(bytes(good))
    except BundleError as error:
        told = str(error)
    assert "\n" not in told


@pytest.mark.parametrize("odd", [[[]], [{}], [None], [1]])
def test_features_that_are_no_texts_are_not_understood(odd):
    assert "must_understand" in refused(raw() | {"must_understand": odd})


@pytest.mark.parametrize("bad", ["\x1b[2J", "a\nPASSED", "\x00", "\x9b2J", "\u202e", "\u2028"])
def test_a_text_that_could_write_over_a_terminal_is_refused(bad):
    for one in (raw() | {"description": bad}, raw() | {"annotations": {bad: "x"}}):
        text = refused(one)
        assert "control characters" in text
        assert text.isprintable()


def test_texts_of_other_languages_and_hard_blanks_pass():
    assert parse(json.dumps(raw() | {"description": "Taupunkt in 5\u00a0°C, 露点"}).encode())


@pytest.mark.parametrize(("length", "largest"), [(1_000_001, 1), (MAX_BATCH_VALUES // 2 // 64 + 1, 64)])
def test_a_window_is_bounded_by_what_it_takes_of_memory(length, largest):
    one = raw()
    one["window"] = {"length": length}
    one["inputs"][0]["shape"] = ["batch", 2, length]
    text = refused(one | {"batch_sizes": sorted({1, largest})})
    assert "at most" in text or "less than or equal" in text


def test_batch_sizes_and_faults_are_bounded():
    assert "batch_sizes" in refused(change(("batch_sizes",), [1, 1025]))
    assert "batch_sizes" in refused(change(("batch_sizes",), list(range(1, 66))))
    fault = {"name": "a", "case": 0, "fault": "missing", "expect": "missing"}
    assert "negative_goldens" in refused(raw() | {"negative_goldens": [fault] * 1001})


@pytest.mark.parametrize("fault", ["gap", "back"])
def test_a_fault_between_two_samples_needs_two(fault):
    one = raw()
    time = one["inputs"][0]["axes"].index("time")
    one["inputs"][0]["shape"][time] = one["window"]["length"] = 1
    golden = {"name": "a", "case": 0, "fault": fault, "expect": fault}
    assert "two samples" in refused(one | {"negative_goldens": [golden]})


def test_a_floor_stays_a_number_that_every_json_reader_has():
    assert "security_version" in refused(raw() | {"security_version": 2**53})
