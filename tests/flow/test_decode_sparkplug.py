"""Sparkplug B to readings; every payload is written by Google's protobuf, none by the code under test."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow import sparkplug_nodes
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decode_sparkplug import SparkplugDecoder
from edge_runtime.flow.sparkplug import MOST_METRICS, command_topic, framed, read_payload, rebirth_command
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import SparkplugDecode
from edge_runtime.spec.reading import Pack, Reading, Rejection
from tests.rig import sparkplug_pb as pb
from tests.rig.sparkplug_pb import metric, payload

T0 = 1_700_000_000_000
MS = 1_000_000
NODE = "plant/press"
SOURCE = f"{NODE}/oven"


def decoder(*names: str, channel: dict[str, Any] | None = None, **keys: Any) -> SparkplugDecoder:
    bound = {"unit": "Cel"} | (channel or {})
    channels = {name: ChannelBinding(field=name, **bound) for name in names or ("t", "h")}
    made = make_decoder(SparkplugDecode(format="sparkplug", **keys), channels)
    assert isinstance(made, SparkplugDecoder)
    return made


class Sender:
    """One edge node with a device: its topics, and its count of messages."""

    def __init__(self, to: SparkplugDecoder, node: str = NODE, device: str = "oven") -> None:
        self.to, self.group, self.node, self.device = to, *node.split("/"), device
        self.seq = 0

    def say(self, kind: str, *metrics: dict[str, Any], at: int | None = T0, seq: int | None = None) -> Any:
        if kind == "NBIRTH":
            self.seq = 0
        number = self.seq if seq is None else seq
        data = payload(metrics, seq=None if kind == "NDEATH" else number, at=at)
        if kind != "NDEATH":
            self.seq = (number + 1) % 256
        return self.to.decode(self.frame(kind, data))

    def frame(self, kind: str, data: bytes) -> bytes:
        end = f"/{self.device}" if kind.startswith("D") else ""
        return framed(f"spBv1.0/{self.group}/{kind}/{self.node}{end}", data)

    def born(self, *metrics: dict[str, Any], bd_seq: int = 0) -> Any:
        told = metrics or (metric(20.0, name="t", alias=1, at=T0), metric(50.0, name="h", alias=2, at=T0),
                           metric(7, pb.INT32, name="other", alias=3, at=T0))  # fmt: skip
        assert self.say("NBIRTH", metric(bd_seq, pb.UINT64, name="bdSeq")) is None
        return self.say("DBIRTH", *told)


def sent(
    value: Any = 21.0, alias: int = 1, at: int = T0 + 1000, datatype: int = pb.DOUBLE, **more: Any
) -> dict[str, Any]:
    """A metric of data: by alias and without a type, as the specification wants it."""
    return metric(value, datatype, alias=alias, at=at, tell_type=False, **more)


def refused(result: object, reason: str, *words: str) -> Rejection:
    assert isinstance(result, Rejection), result
    assert result.reason == reason, result
    for one in words:
        assert one in str(result)
    return result


def test_a_birth_names_what_data_numbers() -> None:
    node = Sender(decoder())
    assert node.born() is None
    got = node.say("DDATA", sent(21.0), sent(48.0, 2))
    assert got == Reading((21.0, 48.0), (T0 + 1000) * MS, SOURCE)
    assert node.say("DDATA", sent(8, 3, datatype=pb.INT32)) is None


def test_data_by_name_needs_no_alias() -> None:
    node = Sender(decoder("t"))
    node.born(metric(20.0, name="t", at=T0))
    got = node.say("DDATA", metric(21.5, name="t", at=T0 + 5, tell_type=False))
    assert got == Reading((21.5,), (T0 + 5) * MS, SOURCE)


def test_the_node_itself_may_have_the_metrics() -> None:
    node = Sender(decoder("t", of="node"))
    assert node.say("NBIRTH", metric(1.0, name="t", alias=1)) is None
    assert node.say("DBIRTH", metric(1.0, name="t", alias=1)) is None
    assert node.say("DDATA", sent(3.0)) is None
    assert node.say("NDATA", sent(2.0)) == Reading((2.0,), (T0 + 1000) * MS, NODE)


def test_of_several_devices_those_named_count() -> None:
    to = decoder("t", of=["oven"])
    oven, door = Sender(to), Sender(to, device="door")
    oven.born(metric(20.0, name="t", alias=1))
    assert to.decode(door.frame("DBIRTH", payload([metric(1.0, name="angle", alias=9)], seq=2, at=T0))) is None
    assert to.decode(door.frame("DDATA", payload([sent(1.0, 9)], seq=3, at=T0))) is None
    assert oven.say("DDATA", sent(22.0), seq=4) == Reading((22.0,), (T0 + 1000) * MS, SOURCE)


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        (pb.INT8, (-128, -1, 0, 127)), (pb.INT16, (-32768, -1, 32767)), (pb.INT32, (-(2**31), -1, 2**31 - 1)),
        (pb.INT64, (-(2**63), -1, 2**63 - 1)), (pb.UINT8, (0, 255)), (pb.UINT16, (0, 65535)), (pb.UINT32, (0, 2**32 - 1)),
        (pb.UINT64, (0, 2**64 - 1)), (pb.FLOAT, (0.5, -2.25)), (pb.DOUBLE, (0.1, -1e300)),
    ],
)  # fmt: skip
def test_every_kind_of_number_is_the_number_it_was(datatype: int, values: tuple[float, ...]) -> None:
    node = Sender(decoder("t"))
    node.born(metric(0, datatype, name="t", alias=1))
    for value in values:
        got = node.say("DDATA", sent(value, datatype=datatype))
        assert isinstance(got, Reading), got
        assert got.values == (float(value),)
        assert type(got.values[0]) is float


def test_a_signed_integer_may_be_as_wide_as_it_is() -> None:
    node = Sender(decoder("t"))
    node.born(metric(0, pb.INT8, name="t", alias=1))
    got = node.say("DDATA", {"alias": 1, "timestamp": T0, "int_value": 0xFD})
    assert isinstance(got, Reading)
    assert got.values == (-3.0,)
    refused(node.say("DDATA", {"alias": 1, "timestamp": T0, "int_value": 0xFFFF}), "not_a_number", "beyond 8 bits")


def test_text_and_truth_are_words() -> None:
    node = Sender(decoder("t", "h", channel={"read": "text", "unit": None}))
    node.born(metric("red", pb.STRING, name="t", alias=1), metric(value=False, datatype=pb.BOOLEAN, name="h", alias=2))
    got = node.say("DDATA", sent(" blue ", datatype=pb.STRING), sent(value=True, alias=2, datatype=pb.BOOLEAN))
    assert isinstance(got, Reading)
    assert got.values == ("blue", "true")


@pytest.mark.parametrize(
    ("given", "born", "words"),
    [
        (sent(value=True, datatype=pb.BOOLEAN), pb.BOOLEAN, "true"),
        (sent("20", datatype=pb.STRING), pb.STRING, "'20'"),
        (sent(1, datatype=pb.DATETIME), pb.DATETIME, "type DateTime"),
        (sent(1.0, datatype=pb.FLOAT), pb.DOUBLE, "type Double in field 12"),
        (metric(1.0, pb.FLOAT, alias=1), pb.DOUBLE, "a value of type Float, born as Double"),
        ({"alias": 1}, pb.DOUBLE, "in field none"),
        ({"alias": 1, "bytes_value": b"1"}, 22, "number 22"),
    ],
)
def test_what_is_no_number_of_its_type_is_refused(given: dict[str, Any], born: int, words: str) -> None:
    node = Sender(decoder("t"))
    birth = {"name": "t", "alias": 1, "datatype": born, "is_null": True}
    node.born(birth)
    refused(node.say("DDATA", given), "not_a_number", words)


def test_null_is_missing_and_so_is_a_number_that_stands_for_it() -> None:
    node = Sender(decoder("t", channel={"missing_values": (-999.0,)}))
    node.born(metric(0.0, name="t", alias=1))
    for value in (None, -999.0):
        got = node.say("DDATA", sent(value))
        assert isinstance(got, Reading)
        assert got.values == (None,)


def test_metrics_of_several_times_are_several_samples_in_their_order() -> None:
    node = Sender(decoder())
    node.born()
    got = node.say(
        "DDATA", sent(2.0, at=T0 + 9), sent(1.0, at=T0 + 8), sent(50.0, 2, at=T0 + 8), sent(51.0, 2, at=T0 + 9)
    )
    assert isinstance(got, Pack)
    assert [one.values for one, _ in got.readings] == [(1.0, 50.0), (2.0, 51.0)]
    assert [one.time_ns for one, _ in got.readings] == [(T0 + 8) * MS, (T0 + 9) * MS]
    refused(node.say("DDATA", sent(), sent()), "bad_sparkplug", "metric 't' twice at one time")


def test_a_payload_may_be_one_sample_of_its_own_time() -> None:
    node = Sender(decoder(timestamps="payload"))
    node.born()
    got = node.say("DDATA", sent(2.0, at=T0 + 1), sent(50.0, 2, at=T0 + 3), at=T0 + 4)
    assert got == Reading((2.0, 50.0), (T0 + 4) * MS, SOURCE)


def test_without_a_time_the_payload_s_or_the_arrival_s_counts() -> None:
    node = Sender(decoder("t"))
    node.born(metric(0.0, name="t", alias=1))
    without = {"alias": 1, "double_value": 1.0}
    assert node.say("DDATA", without, at=T0).time_ns == T0 * MS
    assert node.say("DDATA", without, at=None).time_ns is None
    assert node.say("DDATA", without, at=0).time_ns is None
    refused(node.say("DDATA", without, at=1 << 63), "bad_sparkplug", "a time of")


# Births, their order, and what is asked for.


def test_data_before_any_birth_is_refused_and_the_births_are_asked_for() -> None:
    node = Sender(decoder())
    refused(node.say("DDATA", sent()), "no_birth", "a DDATA before any NBIRTH", "asked to send its births again")
    assert node.to.take_asks() == {NODE}
    assert node.to.take_asks() == set()
    refused(node.say("DBIRTH", metric(1.0, name="t", alias=1)), "no_birth", "a DBIRTH before any NBIRTH")
    node.to.take_asks()
    assert node.born() is None
    assert isinstance(node.say("DDATA", sent(), sent(1.0, 2)), Reading)
    assert node.to.take_asks() == set()


def test_a_node_that_has_said_nothing_we_want_is_asked_and_not_counted() -> None:
    node = Sender(decoder())
    assert node.say("NDATA", sent()) is None
    assert node.to.take_asks() == {NODE}


def test_data_of_a_device_before_its_birth() -> None:
    node = Sender(decoder())
    node.say("NBIRTH")
    refused(node.say("DDATA", sent()), "no_birth", "a DDATA before any DBIRTH of its device")
    assert node.to.take_asks() == {NODE}


def test_an_alias_that_no_birth_told_of() -> None:
    node = Sender(decoder(rebirth="never"))
    node.born()
    refused(node.say("DDATA", sent(1.0, 77)), "no_birth", "alias 77, which no birth told of", 'decode.rebirth = "ask"')
    refused(node.say("DDATA", sent()), "no_birth")
    node.born()
    refused(node.say("DDATA", {"double_value": 1.0}), "no_birth", "alias None")


def test_aliases_are_those_of_the_last_birth() -> None:
    node = Sender(decoder("t"))
    node.born(metric(0.0, name="t", alias=1), metric(0.0, name="x", alias=2))
    node.born(metric(0.0, name="x", alias=1), metric(0.0, name="t", alias=2))
    assert node.say("DDATA", sent(5.0, 1)) is None
    assert node.say("DDATA", sent(6.0, 2)).values == (6.0,)


def test_a_birth_of_the_node_ends_those_of_its_devices() -> None:
    node = Sender(decoder())
    node.born()
    node.say("NBIRTH")
    refused(node.say("DDATA", sent()), "no_birth", "before any DBIRTH")


def test_the_count_goes_on_from_255_to_0() -> None:
    node = Sender(decoder("t"))
    node.born(metric(0.0, name="t", alias=1))
    for number in range(600):
        assert isinstance(node.say("DDATA", sent(float(number), at=T0 + number)), Reading)
    assert node.seq == (2 + 600) % 256


@pytest.mark.parametrize("first", [0, 7, 255])
def test_a_birth_may_begin_to_count_anywhere(first: int) -> None:
    """eclipse-sparkplug/sparkplug#178, eclipse/tahu#373: the specification says 0, and 0 to 255."""
    node = Sender(decoder("t"))
    node.say("NBIRTH", seq=first)
    assert node.say("DBIRTH", metric(0.0, name="t", alias=1)) is None
    assert isinstance(node.say("DDATA", sent()), Reading)


def test_a_lost_message_ends_what_a_node_goes_by() -> None:
    node = Sender(decoder())
    node.born()
    refused(
        node.say("DDATA", sent(), seq=9),
        "seq_gap",
        "found seq 9; expected seq 2, the one after 1",
        "a message was lost",
    )
    assert node.to.take_asks() == {NODE}
    refused(node.say("DDATA", sent()), "no_birth")
    node.born()
    assert isinstance(node.say("DDATA", sent(), sent(1.0, 2)), Reading)


def test_a_lost_message_is_noticed_by_what_is_not_ours_too() -> None:
    node = Sender(decoder())
    node.born()
    refused(node.say("NDATA", seq=7), "seq_gap", f"Sparkplug {NODE}")


def test_a_message_that_comes_twice_is_the_same_sample_twice() -> None:
    node = Sender(decoder())
    node.born()
    first = node.say("DDATA", sent(), sent(1.0, 2), seq=2)
    assert node.say("DDATA", sent(), sent(1.0, 2), seq=2) == first
    refused(node.say("DDATA", sent(9.0), sent(1.0, 2), seq=2), "seq_gap")


def test_a_message_without_its_count_is_refused() -> None:
    node = Sender(decoder())
    node.born()
    data = payload([sent()], at=T0)
    refused(node.to.decode(node.frame("DDATA", data)), "bad_sparkplug", "a DDATA without seq")
    refused(node.to.decode(node.frame("DDATA", payload(seq=256))), "bad_sparkplug", "seq 256, beyond 255")


def test_a_birth_that_lacks_a_bound_metric_says_which_it_has() -> None:
    node = Sender(decoder("temperature"))
    found = node.born(metric(0.0, name="Temperature", alias=1), metric(0.0, name="humidity", alias=2))
    refused(found, "missing_field", f"birth of {SOURCE}", "no metric 'temperature'", "nearest: 'Temperature'")
    assert node.say("DDATA", sent()) is None
    assert node.to.take_asks() == set()
    refused(node.say("DDATA", metric(1.0, name="temperature")), "missing_field", "its birth names it")
    assert "it has 'x'" in str(node.born(metric(0.0, name="x")))


@pytest.mark.parametrize(
    "metrics",
    [
        (metric(1.0, alias=1),),
        (metric(1.0, name="t", alias=1), metric(1.0, name="h", alias=1)),
        (metric(1.0, name="t", alias=1), metric(1.0, name="t", alias=2)),
        (metric(1.0, name="t", alias=1), metric(1.0, name="\x1b" * 9000, alias=1)),
    ],
)
def test_a_birth_that_contradicts_itself_is_refused(metrics: tuple[dict[str, Any], ...]) -> None:
    found = refused(Sender(decoder()).born(*metrics), "bad_sparkplug", "in a birth")
    assert len(str(found)) < 400
    assert str(found).isprintable()


# Deaths.


def test_a_death_ends_it() -> None:
    node = Sender(decoder())
    node.born()
    assert not node.to.is_dark
    assert node.say("NDEATH", metric(0, pb.UINT64, name="bdSeq")) is None
    assert node.to.is_dark
    refused(node.say("DDATA", sent()), "no_birth")
    node.born()
    assert not node.to.is_dark


def test_the_death_of_an_earlier_connection_is_nobody_s() -> None:
    node = Sender(decoder())
    node.born(bd_seq=4)
    assert node.say("NDEATH", metric(3, pb.UINT64, name="bdSeq")) is None
    assert isinstance(node.say("DDATA", sent(), sent(1.0, 2)), Reading)
    node.say("NDEATH", metric(4, pb.UINT64, name="bdSeq"))
    refused(node.say("DDATA", sent()), "no_birth")
    assert node.say("NDEATH", metric(4, pb.UINT64, name="bdSeq")) is None


def test_a_device_may_die_alone() -> None:
    to = decoder()
    node, other = Sender(to), Sender(to, node="plant/mill")
    node.born()
    other.born()
    assert node.say("DDEATH") is None
    assert not to.is_dark
    refused(node.say("DDATA", sent()), "no_birth", "before any DBIRTH")
    assert other.say("DDEATH") is None
    assert to.is_dark


# Quality, history, units.


def test_a_value_its_sender_does_not_vouch_for_is_refused() -> None:
    node = Sender(decoder())
    node.born()
    refused(node.say("DDATA", sent(quality=0), sent(1.0, 2)), "bad_quality", "quality 0, bad", "192, good")
    refused(node.say("DDATA", sent(), sent(1.0, 2, quality=500)), "bad_quality", "metric 'h'", "quality 500, stale")
    assert isinstance(node.say("DDATA", sent(quality=192), sent(1.0, 2)), Reading)
    # Nothing said is good, whatever was said before: the specification asks for it only where it is not good.
    assert isinstance(node.say("DDATA", sent(), sent(1.0, 2)), Reading)


def test_or_it_is_taken_and_the_answer_says_so() -> None:
    node = Sender(decoder(quality="carry"))
    node.born()
    assert node.say("DDATA", sent(quality=0), sent(1.0, 2)).carry == (("quality", 0),)
    assert node.say("DDATA", sent(), sent(1.0, 2)).carry == (("quality", 192),)


def test_what_is_sent_late_is_refused_or_said_to_be() -> None:
    node = Sender(decoder())
    node.born()
    refused(node.say("DDATA", sent(historical=True), sent(1.0, 2, historical=True)), "historical", "sent late")
    late = Sender(decoder(historical="carry"))
    late.born()
    got = late.say("DDATA", sent(1.0, historical=True), sent(2.0, 2, historical=True), sent(3.0), sent(4.0, 2))
    assert isinstance(got, Pack)
    assert [(one.values, one.carry) for one, _ in got.readings] == [
        ((1.0, 2.0), (("historical", True),)), ((3.0, 4.0), (("historical", False),)),
    ]  # fmt: skip


@pytest.mark.parametrize(("said", "bound"), [("Cel", "Cel"), ("°C", "Cel"), ("K", "K"), ("%RH", "%"), (None, "Cel")])
def test_a_unit_that_the_sender_names_must_be_the_one_that_is_bound(said: str | None, bound: str) -> None:
    node = Sender(decoder("t", channel={"unit": bound}))
    assert node.born(metric(1.0, name="t", alias=1, unit=said)) is None
    assert node.say("DDATA", sent(2.0)) == Reading((2.0,), (T0 + 1000) * MS, SOURCE)


def test_another_unit_is_refused_for_as_long_as_it_holds() -> None:
    node = Sender(decoder("t"))
    found = node.born(metric(1.0, name="t", alias=1, unit="degF"))
    refused(found, "other_unit", "unit of metric 't'", "'degF'", 'unit_field = "engUnit"')
    refused(node.say("DDATA", sent()), "other_unit")
    assert isinstance(node.say("DDATA", sent(unit="Cel")), Reading)
    assert isinstance(node.say("DDATA", sent()), Reading)
    refused(node.say("DDATA", sent(unit="K")), "other_unit")
    refused(node.say("DDATA", sent()), "other_unit")


def test_the_unit_may_be_the_sender_s() -> None:
    node = Sender(decoder("t", "h", channel={"unit": None, "unit_field": "engUnit"}))
    node.born(metric(1.0, name="t", alias=1, unit="Cel"), metric(1.0, name="h", alias=2))
    assert node.say("DDATA", sent(), sent(1.0, 2)).units == ("Cel", None)
    assert node.say("DDATA", sent(unit="K"), sent(1.0, 2)).units == ("K", None)
    assert node.say("DDATA", sent(), sent(1.0, 2)).units == ("K", None)


def test_properties_that_do_not_pair_are_refused() -> None:
    node = Sender(decoder("t"))
    node.born(metric(1.0, name="t", alias=1))
    odd = sent() | {"properties": {"keys": ["engUnit"], "values": []}}
    refused(node.say("DDATA", odd), "bad_sparkplug")
    odd = sent() | {"properties": {"keys": ["engUnit"], "values": [{"type": 3, "int_value": 1}]}}
    refused(node.say("DDATA", odd), "bad_sparkplug", "a unit that is no text")
    fine = sent() | {"properties": {"keys": ["engUnit", "Quality"], "values": [{"is_null": True}, {"is_null": True}]}}
    assert isinstance(node.say("DDATA", fine), Reading)


# Changes only.

LAST = {"when_absent": "last", "max_age_s": 10.0}


def test_a_sender_of_changes_is_completed_by_its_last_values() -> None:
    node = Sender(decoder(channel=LAST))
    assert node.born() == Reading((20.0, 50.0), T0 * MS, SOURCE)
    assert node.say("DDATA", sent(21.0, at=T0 + 1000)) == Reading((21.0, 50.0), (T0 + 1000) * MS, SOURCE)
    assert node.say("DDATA", sent(51.0, 2, at=T0 + 2000)) == Reading((21.0, 51.0), (T0 + 2000) * MS, SOURCE)
    assert node.say("DDATA", sent(22.0, at=T0 + 12_000)).values == (22.0, 51.0)
    assert node.say("DDATA", sent(23.0, at=T0 + 12_001)).values == (23.0, None)


def test_without_it_the_channel_is_missing_and_the_words_say_what_to_do() -> None:
    to = decoder()
    node = Sender(to)
    node.born()
    frame = node.frame("DDATA", payload([sent(), sent(None, 2)][:1], seq=2, at=T0))
    got = to.decode(frame)
    assert isinstance(got, Reading)
    assert got.values == (21.0, None)
    missing = Rejection("missing", "channel h", "no value", "a number")
    assert 'write when_absent = "last"' in str(to.explain_missing(frame, missing))
    null = node.frame("DDATA", payload([sent(), sent(None, 2)], seq=3, at=T0))
    assert to.decode(null).values == (21.0, None)  # type: ignore[union-attr]
    assert "metric 'h' without a value" in str(to.explain_missing(null, missing))


@pytest.mark.parametrize("news", [sent(None, 2), sent(1.0, 2, quality=0), sent(1, 2, datatype=pb.INT32)])
def test_news_that_is_no_value_ends_the_last_one(news: dict[str, Any]) -> None:
    node = Sender(decoder(channel=LAST))
    node.born()
    node.say("DDATA", news)
    assert node.say("DDATA", sent(22.0)).values == (22.0, None)


def test_a_refused_sample_leaves_its_good_values_behind() -> None:
    node = Sender(decoder(channel=LAST))
    node.born()
    refused(node.say("DDATA", sent(30.0), sent(1.0, 2, quality=0)), "bad_quality")
    assert node.say("DDATA", sent(52.0, 2, at=T0 + 1001)).values == (30.0, 52.0)


def test_the_past_is_not_completed_and_does_not_become_the_last() -> None:
    node = Sender(decoder(channel=LAST, historical="carry"))
    node.born()
    got = node.say("DDATA", sent(5.0, at=T0 + 1, historical=True))
    assert got.values == (5.0, None)
    assert node.say("DDATA", sent(51.0, 2)).values == (20.0, 51.0)


def test_last_values_end_with_their_birth() -> None:
    node = Sender(decoder(channel=LAST))
    node.born()
    node.born(metric(None, name="t", alias=1, at=T0), metric(60.0, name="h", alias=2, at=T0))
    assert node.say("DDATA", sent(61.0, 2)).values == (None, 61.0)


def test_a_birth_that_lacks_a_metric_ends_its_last_value_too() -> None:
    node = Sender(decoder(channel=LAST))
    node.born()
    refused(node.born(metric(20.0, name="t", alias=1, at=T0)), "missing_field")
    assert node.say("DDATA", sent(21.0)).values == (21.0, None)


def test_a_value_of_no_time_has_no_age() -> None:
    node = Sender(decoder("t", channel=LAST))
    node.say("NBIRTH")
    found = node.say("DBIRTH", metric(1.0, name="t", alias=1), at=None)
    refused(found, "bad_sparkplug", "a metric without a time")


# What is nothing of ours, what is too much, and what is no Sparkplug.


@pytest.mark.parametrize(
    "topic", ["spBv1.0/STATE/scada", "spBv1.0/plant/NCMD/press", "spBv1.0/plant/DCMD/press/oven"]
)  # fmt: skip
def test_states_and_commands_are_no_samples(topic: str) -> None:
    to = decoder()
    assert to.decode(framed(topic, b'{"online": true}')) is None
    assert to.take_asks() == set()


@pytest.mark.parametrize(
    "topic",
    ["", "a/b", "spAv1.0/p/NDATA/n", "spBv1.0/p/XDATA/n", "spBv1.0/p/NDATA/n/d", "spBv1.0/p/DDATA/n", "spBv1.0/p/NDATA/",
     "spBv1.0/+/NDATA/n", "spBv1.0/p/NDATA/\x1b[2J", "spBv1.0/p/NDATA/" + "n" * 300],
)  # fmt: skip
def test_a_topic_of_another_kind_is_refused(topic: str) -> None:
    refused(
        decoder().decode(framed(topic, payload(seq=0))), "bad_sparkplug", "a topic of" if len(topic) > 99 else "topic"
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}", "Sparkplug message"),
        (b"\xff" * 30, "beyond 64 bits"),
        (b"\x10\x01", "field 2 of wire type 0"),
        (pb.Payload(uuid="SPBV1.0_COMPRESSED", body=b"x").SerializeToString(), "a compressed payload"),
        (b"\x12\x00" * (MOST_METRICS + 1), f"more than {MOST_METRICS} metrics"),
        (b"\x12\x03\x0a\x01\xff", "utf-8"),
    ],
)
def test_a_payload_of_another_kind_is_refused(data: bytes, words: str) -> None:
    node = Sender(decoder())
    refused(node.to.decode(node.frame("DDATA", data)), "bad_sparkplug", words)


def test_nodes_births_and_aliases_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparkplug_nodes, "MAX_NODES", 2)
    monkeypatch.setattr(sparkplug_nodes, "MAX_BIRTHS", 5)
    monkeypatch.setattr(sparkplug_nodes, "MAX_ALIASES", 5)
    to = decoder("t")
    one, two = (Sender(to, node=f"plant/{name}") for name in ("one", "two"))
    for node in (one, two):
        assert node.born(metric(1.0, name="t", alias=1)) is None
    refused(
        Sender(to, node="plant/three").say("NBIRTH"), "too_many_streams", "edge node 'plant/three', one more than 2"
    )
    one.device = "b"
    many = [metric(1.0, name="t", alias=1), *(metric(1.0, name=f"x{n}", alias=n) for n in range(2, 6))]
    refused(one.say("DBIRTH", *many), "too_many_streams", "with 7 aliases")
    assert one.say("DBIRTH", many[0]) is None
    one.device = "c"
    refused(one.say("DBIRTH", many[0]), "too_many_streams", "6 births")
    assert isinstance(two.say("DDATA", sent()), Reading)


@pytest.mark.parametrize(
    "channel", [{"read": "list"}, {"read": "numeric_text"}, {"read": "base64", "dtype": "int8"}]
)  # fmt: skip
def test_a_binding_that_no_metric_can_have_is_refused(channel: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'number' or 'text' in Sparkplug"):
        decoder("t", channel=channel)


KINDS = ("NBIRTH", "DBIRTH", "NDATA", "DDATA", "NDEATH", "DDEATH", "NCMD", "DCMD")


@given(st.binary(max_size=120), st.sampled_from(KINDS), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_refused_or_read(data: bytes, kind: str, is_born: bool) -> None:
    node = Sender(decoder(channel=LAST))
    if is_born:
        node.born()
    frame = node.frame(kind, data)
    got = node.to.decode(frame)
    assert got is None or isinstance(got, Reading | Pack | Rejection)
    got = node.to.decode(data)
    assert got is None or isinstance(got, Rejection)


def _metrics() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        metric,
        st.one_of(st.none(), st.floats()),
        name=st.sampled_from([None, "t", "h", "x"]),
        alias=st.sampled_from([None, 1, 2, 3, 4]),
        at=st.sampled_from([None, 0, T0, T0 + 1, 1 << 63]),
        quality=st.sampled_from([None, 0, 192]),
        unit=st.sampled_from([None, "Cel", "K", "bogus"]),
        historical=st.booleans(),
    )


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.lists(_metrics(), max_size=4), st.integers(0, 3)), max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_order_of_messages_is_lived_through(said: list[tuple[str, list[dict[str, Any]], int]]) -> None:
    """Nothing is answered that no birth stands behind: each reading's stream has been born and has not died."""
    node = Sender(decoder(channel=LAST, historical="carry", quality="carry"))
    alive = False
    for kind, metrics, seq in said:
        got = node.say(kind, *metrics, seq=seq)
        alive = (alive or kind == "DBIRTH") and kind not in {"NBIRTH", "DDEATH"}
        for one in _readings(got):
            assert alive
            assert one.stream == SOURCE


def _readings(got: object) -> Iterator[Reading]:
    if isinstance(got, Reading):
        yield got
    elif isinstance(got, Pack):
        yield from (one for one, _ in got.readings)


# What we send.


def test_the_command_is_what_google_reads() -> None:
    read = pb.parsed(rebirth_command(T0))
    assert read.timestamp == T0
    [asked] = read.metrics
    assert (asked.name, asked.datatype, asked.boolean_value) == ("Node Control/Rebirth", pb.BOOLEAN, True)
    assert asked.timestamp == T0
    assert command_topic(NODE) == "spBv1.0/plant/NCMD/press"
    assert read_payload(rebirth_command(T0)).metrics[0].name == "Node Control/Rebirth"
