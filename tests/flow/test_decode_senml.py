"""SenML packs to readings: base fields, units, times absolute and relative, several times in one pack."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import SenmlDecode
from edge_runtime.spec.reading import Pack, Reading, Rejection
from tests.rig import tiny

NS = 1_000_000_000
T0 = 1_700_000_000
LABELS = {
    "bver": -1, "bn": -2, "bt": -3, "bu": -4, "bv": -5, "bs": -6,
    "n": 0, "u": 1, "v": 2, "vs": 3, "vb": 4, "s": 5, "t": 6, "ut": 7, "vd": 8,
}  # fmt: skip


def bound(field: str, **keys: Any) -> ChannelBinding:
    return ChannelBinding(field=field, **({"vocabulary": "senml", "unit_field": "u"} | keys))


def decoder(*fields: str, kind: Any = "senml+json", stream: Any = None, **keys: Any) -> Decoder:
    channels = {field: bound(field, **keys) for field in fields}
    return make_decoder(SenmlDecode(format=kind, stream=stream), channels)


def refused(result: object, reason: str) -> Rejection:
    assert isinstance(result, Rejection), result
    assert result.reason == reason
    return result


def cbor(value: Any) -> bytes:
    """A pack in CBOR, numbers as doubles or integers, keys as RFC 8428's labels."""
    if isinstance(value, list):
        return bytes([0x80 + len(value)]) + b"".join(map(cbor, value))
    if isinstance(value, dict):
        return bytes([0xA0 + len(value)]) + b"".join(cbor(LABELS.get(k, k)) + cbor(v) for k, v in value.items())
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return bytes([0x3B if value < 0 else 0x1B]) + struct.pack(">Q", -1 - value if value < 0 else value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    data = value.encode()
    return b"\x79" + struct.pack(">H", len(data)) + data


def test_one_record_is_a_reading_at_its_arrival_with_its_own_unit() -> None:
    assert decoder("urn:x:t").decode(b'[{"n":"urn:x:t","u":"Cel","v":23.1}]') == Reading((23.1,), units=("Cel",))


def test_base_fields_hold_from_their_record_on_until_another() -> None:
    pack = [
        {"bn": "urn:a:", "bt": T0, "bu": "A", "n": "i", "v": 1.2},
        {"n": "v", "u": "V", "v": 120.1},
        {"bn": "urn:b:", "bu": "Cel", "bv": 20.0, "n": "t", "v": 1.5},
        {"n": "u", "v": -0.5},
    ]
    fields = ("urn:a:i", "urn:a:v", "urn:b:t", "urn:b:u")
    expected = Reading((1.2, 120.1, 21.5, 19.5), T0 * NS, units=("A", "V", "Cel", "Cel"))
    assert decoder(*fields).decode(to_json(pack)) == expected
    assert decoder(*fields, kind="senml+cbor").decode(cbor(pack)) == expected


def test_nothing_of_a_base_outlives_its_pack() -> None:
    one = decoder("a:t", "t")
    assert isinstance(one.decode(b'[{"bn":"a:","bu":"K","bv":5,"bt":1700000000,"n":"t","v":1}]'), Reading)
    assert one.decode(b'[{"n":"t","v":1}]') == Reading((None, 1.0), units=(None, None))


def test_a_pack_of_several_times_is_several_readings_oldest_first() -> None:
    pack = [
        {"bn": "d:", "bt": T0 + 0.1, "bu": "Cel", "n": "t", "v": 1},
        {"n": "t", "t": -5, "v": 2},
        {"n": "h", "v": 50},
    ]
    for kind, frame in (("senml+json", to_json(pack)), ("senml+cbor", cbor(pack))):
        found = decoder("d:t", "d:h", kind=kind).decode(frame)
        assert found == Pack((
            (Reading((2.0, None), (T0 - 5) * NS + 100_000_000, units=("Cel", None)), None),
            (Reading((1.0, 50.0), T0 * NS + 100_000_000, units=("Cel", "Cel")), None),
        ))  # fmt: skip


def test_times_below_two_to_the_28_are_relative_to_the_arrival() -> None:
    found = decoder("t").decode(b'[{"n":"t","t":-10.5,"v":1},{"n":"t","v":3},{"n":"t","t":-5,"v":2}]')
    assert isinstance(found, Pack)
    times = [(reading.time_ns, reading.values[0]) for reading in found.at(T0 * NS)]
    assert times == [(T0 * NS - 10_500_000_000, 1.0), ((T0 - 5) * NS, 2.0), (None, 3.0)]
    just_absolute = decoder("t").decode(b'[{"n":"t","t":268435456,"v":1}]')
    assert isinstance(just_absolute, Reading)
    assert just_absolute.time_ns == 268_435_456 * NS
    assert isinstance(decoder("t").decode(b'[{"n":"t","t":268435455.999,"v":1}]'), Pack)


def test_each_base_name_may_be_a_stream() -> None:
    pack = b'[{"bn":"urn:a/","n":"t","v":1},{"bn":"urn:b/","n":"t","v":2},{"n":"h","v":3}]'
    found = decoder("t", "h", stream="bn").decode(pack)
    assert isinstance(found, Pack)
    assert [(one.stream, one.values) for one in found.at(0)] == [("urn:a/", (1.0, None)), ("urn:b/", (2.0, 3.0))]


@pytest.mark.parametrize(
    ("record", "value"),
    [
        ('"v":1', 1.0), ('"s":5', None), ('"bv":2,"v":1', 3.0), ('"v":1e999', float("inf")), ('"v":' + "9" * 400, float("inf")),
    ],
)  # fmt: skip
def test_values(record: str, value: float | None) -> None:
    assert decoder("t").decode(f'[{{"n":"t",{record}}}]'.encode()) == Reading((value,), units=(None,))


def test_words_and_sentinels() -> None:
    assert decoder("t", read="text").decode(b'[{"n":"t","vs":" red "}]') == Reading(("red",), units=(None,))
    assert decoder("t", missing_values=[-40]).decode(b'[{"n":"t","v":-40}]') == Reading((None,), units=(None,))
    found = refused(decoder("t", read="text").decode(b'[{"n":"t","v":1}]'), "not_a_number")
    assert found.expected == "a word in vs"


@pytest.mark.parametrize("fields", ['"v":"1"', '"vs":"1"', '"vb":true', '"v":true', '"vd":"AA"', '"bv":"x","v":1'])
def test_only_numbers_are_numbers(fields: str) -> None:
    assert refused(decoder("t").decode(f'[{{"n":"t",{fields}}}]'.encode()), "not_a_number").expected == "a number in v"


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        ("{}", "an object, no array"), ("[1]", "record 1: 1, no object"), ("nothing", "'expected "),
        ('[{"n":1,"v":1}]', "n that is no text"), ('[{"bn":null,"v":1}]', "bn that is no text"),
        ('[{"v":1}]', "neither n nor bn"), ('[{"n":"t","t":"x","v":1}]', "a time that is no number, 'x'"),
        ('[{"n":"t","t":true,"v":1}]', "no number, true"), ('[{"n":"t","t":NaN,"v":1}]', "no number, nan"),
        ('[{"n":"t","t":1e300,"v":1}]', "a time of"), ('[{"n":"t","t":-1e12,"v":1}]', "a time of"),
        ('[{"n":"t","t":' + "9" * 4000 + ',"v":1}]', "a time of an integer"), ('[{"bver":11,"n":"t","v":1}]', "bver 11"),
        ('[{"bver":true,"n":"t","v":1}]', "bver true"), ('[{"n":"t","x_":1,"v":1}]', "field 'x_', which must"),
        ('[{"n":"t","v":1},{"n":"t","v":2}]', "'t' twice at one time"),
    ],
)  # fmt: skip
def test_what_is_no_pack_is_refused(frame: str, found: str) -> None:
    assert found in refused(decoder("t").decode(frame.encode()), "bad_senml").found


def test_versions_that_are_known() -> None:
    for version in (5, 10, 26):
        assert isinstance(decoder("t").decode(f'[{{"bver":{version},"n":"t","v":1}}]'.encode()), Reading)


def test_a_pack_without_any_bound_name_is_told_with_the_nearest() -> None:
    found = refused(decoder("urn:x:temp").decode(b'[{"bn":"urn:x:","n":"temperature","v":1}]'), "missing_field")
    assert "nearest: 'urn:x:temperature'; correct the fields in [line.channels]: whole names, or with" in str(found)
    assert decoder("t").decode(b"[]") is None
    assert decoder("t").decode(b' [{"bn":"x","bt":5}] ') is None
    assert decoder("t").decode(b" ") is None
    assert decoder("t", kind="senml+cbor").decode(b"") is None
    assert isinstance(decoder("t").decode(b'\xef\xbb\xbf[{"n":"t","v":1}]'), Reading)


def test_a_missing_channel_is_told_with_the_names_of_its_pack() -> None:
    one = decoder("urn:x:temp", "urn:x:h")
    missing = Rejection("missing", "channel urn:x:temp", "no value", "a number", "check the sensor")
    frame = b'[{"bn":"urn:x:","n":"temperature","v":1},{"n":"h","v":2}]'
    found = one.explain_missing(frame, missing)
    assert found.found == "no record 'urn:x:temp' in the pack"
    assert "nearest: 'urn:x:temperature'" in found.todo
    assert one.explain_missing(frame, missing._replace(subject="channel urn:x:h")).found == "no value"


def test_a_binding_that_no_pack_can_serve_is_refused() -> None:
    for keys in ({"read": "list"}, {"read": "numeric_text"}, {"vocabulary": "ucum"}, {"unit_field": "unit"}):
        with pytest.raises(ConfigurationError):
            decoder("t", **keys)


def test_the_unit_of_a_record_rules_and_a_declared_one_is_for_records_without() -> None:
    channels = {"a": bound("a"), "b": bound("b", unit_field=None, unit="%RH")}
    contract = Contract(tiny.manifest().channels, channels)
    one = make_decoder(SenmlDecode(format="senml+json"), channels)

    def judged(frame: bytes) -> Any:
        reading = one.decode(frame)
        assert isinstance(reading, Reading)
        return contract.judge(reading)

    assert judged(b'[{"n":"a","u":"K","v":283.15},{"n":"b","v":40}]').values == pytest.approx((10, 40))
    assert judged(b'[{"n":"a","u":"K","v":283.15},{"n":"b","u":"/","v":0.4}]').values == pytest.approx((10, 40))
    assert judged(b'[{"n":"a","v":10},{"n":"b","v":40}]').reason == "undeclared_unit"
    assert judged(b'[{"n":"b","v":40}]').reason == "missing"
    assert judged(b'[{"n":"a","u":"degC","v":10},{"n":"b","v":40}]').reason == "unknown_unit"
    assert judged(b'[{"n":"a","u":"V","v":10},{"n":"b","v":40}]').reason == "wrong_dimension"


def test_a_line_answers_every_time_of_a_pack_and_its_ledger_adds_up() -> None:
    channels = {"a": bound("t"), "b": bound("h")}
    line = tiny.line(decode=SenmlDecode(format="senml+json"), channels=channels)
    records = [
        {"n": name, "u": unit, "t": t, "v": 5} for t in (-20, -10, 0) for name, unit in (("t", "Cel"), ("h", "%RH"))
    ]
    line.feed_frame(to_json(records), T0 * NS)
    line.feed_frame(to_json(records[:3]), T0 * NS + 1)
    line.run()
    assert [answer.time_ns for answer in line.take_answers()] == [(T0 - 10) * NS, T0 * NS]
    assert (line.ledger.received, line.ledger.accepted) == (5, 3)
    assert line.ledger.adds_up(pending_samples=0, pending_answers=2)


RECORDS = st.lists(
    st.dictionaries(
        st.sampled_from([*LABELS, "x"]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=3)
        | st.sampled_from(["t", T0, 1e300]),
    ),
    max_size=4,
)


@given(RECORDS)
def test_no_pack_raises(records: list[dict[str, Any]]) -> None:
    for stream in (None, "bn"):
        found = decoder("t", "tt", stream=stream).decode(to_json(records, inf_nan_mode="constants"))
        assert isinstance(found, Reading | Rejection | Pack | None)


@given(st.binary(max_size=60))
def test_no_bytes_raise(frame: bytes) -> None:
    for kind in ("senml+json", "senml+cbor"):
        assert isinstance(decoder("t", kind=kind).decode(frame), Reading | Rejection | Pack | None)
