"""Objects to readings: numbers only, by key or by pointer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import JsonDecode, StatusField, TimeField
from edge_runtime.spec.reading import Reading, Rejection


def decoder(*fields: str, **keys: Any) -> Decoder:
    return make_decoder(JsonDecode(format="json", **keys), {field: ChannelBinding(field=field) for field in fields})


def refused(result: object, reason: str) -> Rejection:
    assert isinstance(result, Rejection), result
    assert result.reason == reason
    return result


OTHER = "bind another field, or have the sender write null where it has no value"
MISSING = Rejection("missing", "channel c", "no value", "a number in Cel", "check the sensor and its cable")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("temprature", "nearest: 'temperature'"),
        ("Temperature", "nearest: 'temperature'"),
        ("hum", "nearest: '/air/hum'"),
        ("/air/humm", "nearest: '/air/hum'"),
        ("/list/5", "nearest: "),
        ("/temperature/x", "nearest: "),
        ("zzz", "it has 'temperature', 'none', 'air', 'list', '/~1odd~1~0', '/~1odd', '/air/hum', '/list/0'"),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_field_that_is_not_there_is_told_with_the_nearest(field: str, words: str, mark: bytes) -> None:
    frame = mark + b'{"temperature":1,"none":null,"air":{"hum":2},"list":[3],"/odd/~":4,"/odd":5}'
    json = make_decoder(JsonDecode(format="json"), {"c": ChannelBinding(field=field)})
    told = json.explain_missing(frame, MISSING)
    assert (told.reason, told.subject, told.expected) == MISSING[:2] + MISSING[3:4]
    assert told.found == f"no field {field!r} in the object"
    assert told.todo.startswith(f"correct channels.c.field in device.toml ({words}")
    assert told.todo.endswith("); where it was right before, look at the sensor and its cable")


def test_an_empty_object_has_no_names_to_tell() -> None:
    json = make_decoder(JsonDecode(format="json"), {"c": ChannelBinding(field="t")})
    assert "(it has none)" in json.explain_missing(b"{}", MISSING).todo


@pytest.mark.parametrize("field", ["none", "/none", "/list/1", "/deep/a/b"])
def test_a_field_that_is_there_and_null_is_the_sensor_s(field: str) -> None:
    frame = (
        b'{"none":null,"list":[1,null],"deep":{"a":{"b":null}},' + b",".join(b'"k%d":1' % at for at in range(99)) + b"}"
    )
    json = make_decoder(JsonDecode(format="json"), {"c": ChannelBinding(field=field)})
    assert json.explain_missing(frame, MISSING) == MISSING


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=80),
        lambda one: st.lists(one) | st.dictionaries(st.text(max_size=80), one),
    )
)
def test_whatever_an_object_holds_the_names_told_are_few(value: object) -> None:
    json = make_decoder(JsonDecode(format="json"), {"c": ChannelBinding(field="/a/b")})
    told = json.explain_missing(to_json({"x": value, **{f"{at}": [value] for at in range(100)}}), MISSING)
    assert len(str(told)) < 900
    assert str(told).isprintable()


def test_top_level_keys() -> None:
    assert decoder("t", "rh", "p").decode(b'{"rh":45,"t":12.3,"p":null}') == Reading((12.3, 45.0, None))
    assert decoder("t").decode(b"{}") == Reading((None,))


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/a/0/b", 1.0),
        ("/a/1", 2.0),
        ("/a/2", None),
        ("/a/-", None),
        ("/a/01", None),
        ("/a/b", None),
        ("/x~1y", 3.0),
        ("/m~0n", 4.0),
        ("/m~01", 5.0),
        ("/o/", 6.0),
        ("/o/0", 7.0),
        ("/x~1y/z", None),
        ("/a/99999999999999999999", None),
    ],
)
def test_pointers_follow_rfc_6901(pointer: str, value: float | None) -> None:
    data = b'{"a":[{"b":1},2],"x/y":3,"m~n":4,"m~1":5,"o":{"":6,"0":7}}'
    assert decoder(pointer).decode(data) == Reading((value,))


def test_a_malformed_pointer_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigurationError, match="'~' at position 3"):
        decoder("/ab~2/c")


@pytest.mark.parametrize(
    ("raw", "found", "todo"),
    [
        ('"12,5"', "'12,5'", OTHER),
        ('"nan"', "'nan'", OTHER),
        ('"cold"', "'cold'", OTHER),
        ("true", "true", OTHER),
        ("[1]", "an array", 'name one of its elements by a pointer, e.g. field = "/reading/0"'),
        ('{"v":1}', "an object", 'name what is inside it by a pointer, e.g. field = "/reading/value"'),
    ],
)
def test_only_numbers_are_numbers(raw: str, found: str, todo: str) -> None:
    rejection = refused(decoder("t").decode(f'{{"t":{raw}}}'.encode()), "not_a_number")
    assert str(rejection) == f"field 't': found {found}; expected a JSON number; {todo}"


def channel(**keys: Any) -> Decoder:
    return make_decoder(JsonDecode(format="json"), {"t": ChannelBinding(field="t", **keys)})


@pytest.mark.parametrize(
    ("raw", "value"),
    [("12.5", 12.5), (" -3 ", -3.0), ("+1e3", 1000.0), (".5", 0.5), ("7.", 7.0), ("0", 0.0), ("1e999", float("inf"))],
)
def test_numeric_text_is_read_where_it_is_asked_for(raw: str, value: float) -> None:
    assert channel(read="numeric_text").decode(to_json({"t": raw})) == Reading((value,))


@pytest.mark.parametrize(
    "raw", ["", "N", "0012N4", "nan", "inf", "1_000", "12,5", "\u0661", "0x1f", "1 2", "9" * 65, "-"]
)
def test_numeric_text_takes_nothing_else(raw: str) -> None:
    found = refused(channel(read="numeric_text").decode(to_json({"t": raw})), "not_a_number")
    assert found.expected == "a number written as text"


def test_null_and_nothing_are_missing_in_a_numeric_text_too() -> None:
    assert channel(read="numeric_text").decode(b'{"t":null}') == channel().decode(b"{}") == Reading((None,))


def test_a_number_that_became_a_text_or_no_longer_is_one_is_told_as_that() -> None:
    """jomjol/AI-on-the-edge-device#1800: a firmware's update."""
    found = refused(channel().decode(b'{"t":"12.5"}'), "type_changed")
    assert str(found).startswith("field 't': found '12.5', a number written as text; expected a JSON number; let")
    found = refused(channel(read="numeric_text").decode(b'{"t":12.5}'), "type_changed")
    assert str(found).startswith("field 't': found the number 12.5; expected a number written as text; if the sender")
    refused(channel(missing_values=[1]).decode(b'{"t":"12.5"}'), "type_changed")
    refused(channel(read="numeric_text").decode(b'{"t":true}'), "not_a_number")


def test_sentinels_are_no_values() -> None:
    """Koenkk/zigbee2mqtt#25547: 0x8000 and 0xffff as if they were measured."""
    mixed = make_decoder(
        JsonDecode(format="json"),
        {
            "t": ChannelBinding(field="t", missing_values=[-32768, 65535, -327.68]),
            "u": ChannelBinding(field="u", read="numeric_text", missing_values=[127]),
            "v": ChannelBinding(field="v"),
        },
    )
    assert mixed.decode(b'{"t":-32768,"u":"127.0","v":-32768}') == Reading((None, None, -32768.0))
    assert mixed.decode(b'{"t":65535.0,"u":"126","v":65535}') == Reading((None, 126.0, 65535.0))
    assert mixed.decode(b'{"t":-327.68,"u":null,"v":1}') == Reading((None, None, 1.0))
    assert mixed.decode(b'{"t":65534,"u":"0","v":0}') == Reading((65534.0, 0.0, 0.0))
    refused(mixed.decode(b'{"t":1,"u":"1","v":"x"}'), "not_a_number")


def test_values_that_are_not_finite_are_for_the_contract() -> None:
    result = decoder("a", "b", "c", "d", "e").decode(
        b'{"a":NaN,"b":-Infinity,"c":1e999,"d":' + b"9" * 400 + b',"e":-' + b"9" * 400 + b"}"
    )
    assert isinstance(result, Reading)
    assert [str(value) for value in result.values] == ["nan", "-inf", "inf", "inf", "-inf"]


@pytest.mark.parametrize(
    "line", [b"[1]", b"12", b"null", b'"t"', b"{", b'{"t":1} x', b'{"t":01}', b"{'t':1}", b'{"t":' + b"9" * 9999 + b"}"]
)
def test_what_is_no_object_is_refused(line: bytes) -> None:
    rejection = refused(decoder("t").decode(line), "bad_json")
    assert len(str(rejection)) < 300
    assert "decode.format" in rejection.todo


def test_deep_and_large_inputs_are_survived() -> None:
    refused(decoder("t").decode(b"[" * 1_000_000), "bad_json")
    refused(decoder("t").decode(b'{"a":' * 1_000_000), "bad_json")
    assert decoder("t").decode(b'{"x":"' + b"y" * 10_000_000 + b'","t":1}') == Reading((1.0,))


def test_encodings_and_byte_order_marks() -> None:
    assert decoder("t").decode(b'\xef\xbb\xbf{"t":1}') == Reading((1.0,))
    refused(decoder("t").decode(b'{"t":1,"u":"\xb0C"}'), "bad_encoding")
    assert decoder("t", encoding="latin-1", carry=("u",)).decode(b'{"t":1,"u":"\xb0C"}') == Reading(
        (1.0,), carry=(("u", "\u00b0C"),)
    )
    assert decoder("t", encoding="utf-16-le").decode('\ufeff{"t":1}'.encode("utf-16-le")) == Reading((1.0,))
    refused(decoder("t", encoding="ascii").decode(b"\xff"), "bad_encoding")


def test_blank_lines_are_no_samples() -> None:
    for line in (b"", b" \t ", b"\xef\xbb\xbf"):
        assert decoder("t").decode(line) is None


def test_status_stream_time_unit_and_carry() -> None:
    json = make_decoder(
        JsonDecode(
            format="json",
            stream="/device/id",
            time=TimeField(field="ts", format="unix_ms"),
            status=StatusField(field="ok", accept=("true", "0")),
            carry=("who", "n", "list", "nan", "big", "gone"),
        ),
        {"t": ChannelBinding(field="t", unit_field="u")},
    )
    frame = (
        b'{"device":{"id":7},"ts":1700000000123,"ok":true,"t":1,"u":" K ","who":"Ann","n":2,"list":[1,"a"],'
        b'"nan":NaN,"big":99999999999999999999}'
    )
    carry = (
        ("who", "Ann"),
        ("n", 2),
        ("list", '[1,"a"]'),
        ("nan", "NaN"),
        ("big", "99999999999999999999"),
        ("gone", None),
    )
    assert json.decode(frame) == Reading((1.0,), 1_700_000_000_123_000_000, "7", ("K",), carry)
    assert refused(json.decode(frame.replace(b"true", b"1")), "bad_status").found == "1"
    assert refused(json.decode(frame.replace(b'"ok"', b'"o"')), "bad_status").found == "nothing"
    assert refused(json.decode(frame.replace(b'"id":7', b'"id":{}')), "missing_field").found == "an object"
    assert refused(json.decode(frame.replace(b'"ts"', b'"tt"')), "bad_time").found == "no field 'ts' in the object"


def test_nothing_is_kept_between_frames() -> None:
    json = decoder("t")
    json.restore_columns(("a",))
    assert json.columns is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["t", "ts", "s", "u", "x"]), inner),
    max_leaves=10,
)


@given(st.one_of(st.binary(max_size=60), VALUES.map(lambda value: to_json(value, inf_nan_mode="constants"))))
def test_no_bytes_raise(frame: bytes) -> None:
    for time_format in ("unix_s", "unix_ns", "iso8601", "%Y-%m-%d"):
        time = TimeField(field="ts", format=time_format)
        json = decoder("t", "/x/0/t", time=time, stream="s", carry=("x",))
        assert isinstance(json.decode(frame), Reading | Rejection | None)
    assert isinstance(decoder("t", "/x/0", carry=("x", "u")).decode(frame), Reading | Rejection | None)


def test_a_time_field_that_is_not_there_is_told_with_what_is() -> None:
    json = decoder("t", time=TimeField(field="timestamp", format="iso8601"))
    absent = refused(json.decode(b'{"ts": "2026-03-01T00:00:00Z", "t": 1}'), "bad_time")
    assert absent.found == "no field 'timestamp' in the object"
    assert "correct decode.time.field in device.toml (" in absent.todo
    assert "'ts'" in absent.todo
    assert refused(json.decode(b'{"timestamp": null, "t": 1}'), "bad_time").found == "nothing"
