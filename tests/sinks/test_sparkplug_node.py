"""The edge node and its devices on a link that is a stand-in; what it says is read by Google's protobuf."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.flow.encode_sparkplug import Shape
from edge_runtime.sinks import make_sink
from edge_runtime.sinks.sparkplug_node import REBIRTH_NS, EdgeNode, SparkplugSink
from edge_runtime.spec.sink import SparkplugDevice
from tests.rig import sparkplug_pb as pb
from tests.rig.clock import HandClock
from tests.rig.fake_link import FakeLink

SHAPE: Shape = (("low", 10, "Cel"), ("id", 12, ""))
COMMAND = "spBv1.0/plant/NCMD/pump-7"


class Rig:
    """A node, its link and its clock; ``said`` is what was published, as (type, device, payload)."""

    def __init__(self, **link: Any) -> None:
        self.clock, self.link = HandClock(), FakeLink(room=1000, **link)
        self.node = EdgeNode("plant", "pump-7", "run-1", wall_ns=self.clock.wall_ns, mono_ns=self.clock.mono_ns)
        self.node.attach(self.link)
        self.sink = SparkplugSink("sparkplug", self.node, "dew", SHAPE)

    def connect(self) -> Any:
        will = self.node.will()
        self.link.greeting()
        return will

    def deliver(self, *lines: tuple[str, float, str], age_ms: int = 0) -> int:
        time_ms = self.clock.wall_ns() // 1_000_000 - age_ms
        return self.sink.deliver([
            (one, json.dumps([stream, time_ms, {"low": low, "id": one}]).encode() + b"\n") for stream, low, one in lines
        ])  # fmt: skip

    def command(self, payload: bytes) -> None:
        self.link.bring(COMMAND, payload)
        self.node.receive()

    @property
    def said(self) -> list[tuple[str, str, Any]]:
        found = []
        for topic, payload, sent in self.link.published:
            space, group, kind, edge, *device = topic.split("/")
            assert (space, group, edge) == ("spBv1.0", "plant", "pump-7")
            assert sent.done  # QoS 0
            found.append((kind, "".join(device), pb.parsed(payload)))
        return found

    @property
    def kinds(self) -> list[str]:
        return [f"{kind} {device}".strip() for kind, device, _ in self.said]


def seqs(rig: Rig) -> Iterator[int]:
    yield from (payload.seq for _, _, payload in rig.said)


def test_births_come_before_data_and_are_counted_with_it() -> None:
    rig = Rig()
    assert rig.deliver(("dew", 1.0, "a")) == 0
    assert "connected" in rig.sink.status()
    rig.connect()
    assert rig.deliver(("dew", 1.0, "a"), ("dew", 2.0, "b")) == 2
    assert rig.kinds == ["NBIRTH", "DBIRTH dew", "DDATA dew", "DDATA dew"]
    assert list(seqs(rig)) == [0, 1, 2, 3]
    assert rig.said[1][2].metrics[0].is_null
    assert [one.metrics[0].double_value for _, _, one in rig.said[2:]] == [1.0, 2.0]
    assert rig.sink.status() == "It is taking answers."
    assert rig.sink.in_flight == 0
    assert rig.sink.position() is None
    assert rig.sink.recover(None, ["a"]) == set()
    rig.sink.close()


def test_the_count_wraps_at_256() -> None:
    rig = Rig()
    rig.connect()
    assert rig.deliver(*(("dew", float(number), str(number)) for number in range(300))) == 300
    assert list(seqs(rig)) == [number % 256 for number in range(302)]


def test_each_stream_is_a_device_whose_name_a_topic_can_hold() -> None:
    rig = Rig()
    rig.connect()
    rig.deliver(("a/b", 1.0, "x"), ("dew", 1.0, "y"), ("a/b", 1.0, "z"))
    assert rig.kinds == ["NBIRTH", "DBIRTH dew:a-b", "DDATA dew:a-b", "DBIRTH dew", "DDATA dew", "DDATA dew:a-b"]


def test_a_connection_has_the_next_number_in_will_and_birth() -> None:
    rig = Rig()
    first = rig.connect()
    rig.deliver(("dew", 1.0, "a"))
    second = rig.connect()
    assert (first.topic, first.retain) == ("spBv1.0/plant/NDEATH/pump-7", False)
    wills = [pb.parsed(will.payload).metrics[0].long_value for will in (first, second)]
    births = [one.metrics[0].long_value for kind, _, one in rig.said if kind == "NBIRTH"]
    assert wills == births
    assert wills[1] == (wills[0] + 1) % 256
    assert rig.kinds[3:] == ["NBIRTH", "DBIRTH dew"]
    assert list(seqs(rig))[3:] == [0, 1]
    assert rig.said[-1][2].metrics[0].double_value == 1.0  # the last value is told with the birth


def test_births_come_again_on_command_but_not_too_often() -> None:
    rig = Rig()
    rig.connect()
    rig.deliver(("dew", 1.0, "a"))
    rig.clock.advance(REBIRTH_NS / 1e9)
    ask = pb.payload([pb.metric(value=True, datatype=pb.BOOLEAN, name="Node Control/Rebirth")])
    rig.command(ask)
    assert rig.kinds[3:] == ["NBIRTH", "DBIRTH dew"]
    bd_seqs = {one.metrics[0].long_value for kind, _, one in rig.said if kind == "NBIRTH"}
    assert len(bd_seqs) == 1
    rig.command(ask)
    rig.command(ask)
    assert len(rig.kinds) == 5
    due = rig.node.due_ns()
    assert due is not None
    rig.clock.advance(REBIRTH_NS / 1e9)
    assert due <= rig.clock.mono_ns()
    rig.node.receive()
    assert rig.kinds[5:] == ["NBIRTH", "DBIRTH dew"]
    rig.deliver(("dew", 2.0, "b"))
    assert rig.said[-1][2].seq == 2
    assert rig.link.acknowledged == [1, 2, 3]


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", pb.payload([pb.metric(value=False, datatype=pb.BOOLEAN, name="Node Control/Rebirth")]),
     pb.payload([pb.metric(value=True, datatype=pb.BOOLEAN, name="Node Control/Reboot")]),
     pb.payload([pb.metric("true", pb.STRING, name="Node Control/Rebirth")])],
)  # fmt: skip
def test_other_commands_are_nothing(payload: bytes) -> None:
    rig = Rig()
    rig.connect()
    rig.clock.advance(REBIRTH_NS / 1e9)
    rig.command(payload)
    assert rig.kinds == ["NBIRTH"]


def test_what_is_older_than_the_connection_is_historical() -> None:
    rig = Rig()
    rig.connect()
    rig.deliver(("dew", 1.0, "old"), age_ms=1)
    rig.deliver(("dew", 2.0, "new"))
    data = [one for kind, _, one in rig.said if kind == "DDATA"]
    assert [one.metrics[0].is_historical for one in data] == [True, False]
    rig.connect()
    assert rig.said[-1][2].metrics[0].double_value == 2.0
    rig.clock.advance(2)
    rig.deliver(("dew", 3.0, "c"))
    assert not rig.said[-1][2].metrics[0].is_historical
    rig.deliver(("dew", 4.0, "late"), age_ms=2_001)
    rig.connect()
    assert rig.said[-1][2].metrics[0].double_value == 3.0  # the past is not what it stands at


def test_what_does_not_leave_waits_and_the_count_has_no_hole() -> None:
    rig = Rig()
    rig.connect()
    rig.deliver(("dew", 1.0, "a"))
    rig.link.is_up = False
    assert rig.deliver(("dew", 2.0, "b"), ("other", 2.0, "c")) == 0
    assert rig.sink.status() == "not connected: it was pulled."
    rig.link.is_up = True
    assert rig.deliver(("dew", 2.0, "b"), ("other", 2.0, "c")) == 2
    assert list(seqs(rig)) == list(range(6))


def test_a_device_whose_birth_does_not_fit_is_born_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.connect()
    with monkeypatch.context() as full:
        full.setattr(rig.link, "publish", lambda *_, **__: None)
        assert rig.deliver(("dew", 1.0, "a")) == 0
    assert rig.deliver(("dew", 1.0, "a")) == 1
    assert rig.kinds == ["NBIRTH", "DBIRTH dew", "DDATA dew"]
    assert list(seqs(rig)) == [0, 1, 2]


def test_births_that_do_not_fit_come_with_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.connect()
    rig.deliver(("dew", 1.0, "a"))
    with monkeypatch.context() as full:
        full.setattr(rig.link, "publish", lambda *_, **__: None)
        rig.connect()
        assert not rig.node.is_born
        assert rig.deliver(("dew", 2.0, "b")) == 0
    rig.node.receive()
    assert rig.node.is_born
    assert rig.kinds[3:] == ["NBIRTH", "DBIRTH dew"]


def test_an_answer_the_broker_would_not_take_is_said() -> None:
    rig = Rig(max_bytes=200)
    rig.connect()
    long = "x" * 300
    assert rig.deliver(("dew", 1.0, "a"), ("dew", 2.0, long)) == 1
    assert rig.sink.status().startswith("It takes nothing: a message of")


def test_its_end_is_a_death_of_the_same_number() -> None:
    rig = Rig()
    will = rig.connect()
    farewells: list[bytes] = []
    rig.link.close = farewells.append  # type: ignore[method-assign]
    rig.node.close()
    assert pb.parsed(farewells[0]).metrics[0] == pb.parsed(will.payload).metrics[0]
    assert not rig.node.is_born


def test_before_it_is_attached_it_is_nothing() -> None:
    clock = HandClock()
    node = EdgeNode("g", "e", "r", wall_ns=clock.wall_ns, mono_ns=clock.mono_ns)
    node.start(lambda: None)
    node.receive()
    node.send()
    node.close()
    assert (node.socket, node.wants_write, node.due_ns(), node.trouble, node.status()) == (
        None,
        False,
        None,
        "",
        "not started",
    )


def test_a_device_needs_its_node(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="needs its edge node"):
        make_sink(SparkplugDevice(), tmp_path, mono_ns=lambda: 0)
    rig = Rig()
    made = make_sink(SparkplugDevice(name="scada"), tmp_path, mono_ns=lambda: 0, node=rig.node, line="dew")
    assert made.name == "scada"


def test_a_device_whose_birth_with_values_is_too_long_is_born_without_them_at_its_next_answer() -> None:
    rig = Rig()
    rig.connect()
    rig.deliver(("north", 1.0, "i" * 200))
    rig.link._max_bytes = 150
    rig.connect()
    assert rig.kinds == ["NBIRTH", "DBIRTH dew:north", "DDATA dew:north", "NBIRTH"]
    assert rig.deliver(("north", 2.0, "j")) == 1
    assert rig.kinds[4:] == ["DBIRTH dew:north", "DDATA dew:north"]


def test_a_birth_that_is_too_long_for_the_broker_is_told_and_tried_again() -> None:
    rig = Rig(max_bytes=60)
    rig.connect()
    assert rig.kinds == []
    assert "it cannot be born: " in rig.sink.status()
    assert "it cannot be born: " in rig.node.trouble
    assert rig.deliver(("north", 1.0, "1")) == 0
    rig.link._max_bytes = 1000
    rig.node.receive()
    assert rig.deliver(("north", 1.0, "1")) == 1
    assert rig.kinds == ["NBIRTH", "DBIRTH dew:north", "DDATA dew:north"]


@pytest.mark.parametrize("name", ["a\x85b", "a\x7fb", "a\ufffeb", "a\nb", "a/b", "a+b", "a#b", "a\U0001fffeb"])
def test_a_stream_is_a_device_that_no_broker_hangs_up_on(name: str) -> None:
    rig = Rig()
    rig.connect()
    rig.deliver((name, 1.0, "1"))
    assert rig.kinds == ["NBIRTH", "DBIRTH dew:a-b", "DDATA dew:a-b"]


@pytest.mark.parametrize("values", [{"low": "cold", "id": "a"}, {"low": 1.0, "high": 2.0}, {"low": True}, {"id": 7}])
def test_an_answer_of_a_bundle_with_other_outputs_is_passed_over_and_said(values: dict[str, Any]) -> None:
    rig = Rig()
    rig.connect()
    rig.node.receive()
    assert rig.sink.deliver([("a", json.dumps(["dew", 0, values]).encode() + b"\n")]) == 1
    assert rig.deliver(("dew", 1.5, "b")) == 1
    assert rig.kinds == ["NBIRTH", "DBIRTH dew", "DDATA dew"]
    assert rig.sink.status().endswith("1 answers of a bundle with other outputs were not told.")
