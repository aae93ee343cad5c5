"""A line of Sparkplug B at work, on a link that is a stand-in: what it asks, what it counts, when it is fresh."""

import json

import pytest

from edge_runtime.run.boot import boot
from edge_runtime.run.lane import Lane
from edge_runtime.run.rebirths import AGAIN_NS, MOST_NODES, Rebirths
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_config import LineConfig
from tests.rig import sparkplug_pb as pb
from tests.rig.bundles import DEWPOINT
from tests.rig.clock import HandClock
from tests.rig.fake_link import FakeLink
from tests.rig.sparkplug_pb import metric, payload

CHANNELS = {
    "air_temperature": {"field": "Air/Temperature", "unit": "Cel"},
    "relative_humidity": {"field": "Air/Humidity", "unit": "%"},
    "station_pressure": {"field": "Air/Pressure", "unit": "hPa"},
}
VALUES = {"Air/Temperature": 21.5, "Air/Humidity": 48.0, "Air/Pressure": 1009.5}
ASK = "spBv1.0/plant/NCMD/press"


@pytest.fixture(scope="module")
def ready():
    made = boot(DEWPOINT, make_setting()).ready
    assert made is not None
    return made


class Rig:
    """A lane between Sparkplug and a topic, its link, its clock, and an edge node with one device."""

    def __init__(self, folder, ready, *, decode=None, hold=False, **link):
        last = {"when_absent": "last", "max_age_s": 600} if hold else {}
        config = LineConfig.model_validate({
            "name": "line", "bundle": str(DEWPOINT),
            "source": {"kind": "mqtt", "topics": ("spBv1.0/plant/#",)},
            "decode": {"format": "sparkplug"} | (decode or {}),
            "channels": {name: one | last for name, one in CHANNELS.items()},
            "sink": ({"kind": "mqtt", "topic": "out"},),
        })  # fmt: skip
        self.link, self.clock, self.seq = FakeLink(**link), HandClock(), 0
        self.lane = Lane(
            config, ready, folder=folder, state=folder, run_id="r", wall_ns=self.clock.wall_ns,
            mono_ns=self.clock.mono_ns, link=self.link, clock_synchronised=lambda: True,
        )  # fmt: skip
        self.lane.start(type("Bell", (), {"set": lambda _: None})())

    def say(self, kind, *metrics, node="press"):
        end = f"/{node}/roof" if kind.startswith("D") else f"/{node}"
        self.seq = 0 if kind == "NBIRTH" else self.seq
        data = payload(metrics, seq=None if kind == "NDEATH" else self.seq, at=self.now_ms)
        self.seq = (self.seq + (kind != "NDEATH")) % 256
        self.link.bring(f"spBv1.0/plant/{kind}{end}", data, time_ns=self.clock.wall_ns(), mono_ns=self.clock.mono_ns())
        self.lane.turn()

    @property
    def now_ms(self):
        return self.clock.wall_ns() // 1_000_000

    def birth(self, **more):
        self.say("NBIRTH", metric(0, pb.UINT64, name="bdSeq"))
        told = [metric(value, name=name, alias=alias, at=self.now_ms, **more)
                for alias, (name, value) in enumerate(VALUES.items())]  # fmt: skip
        self.say("DBIRTH", *told)

    def data(self):
        told = list(VALUES.values())
        self.say("DDATA", *(metric(value, alias=alias, at=self.now_ms, tell_type=False)
                            for alias, value in enumerate(told)))  # fmt: skip

    @property
    def asked(self):
        return [topic for topic, _, _ in self.link.published if "NCMD" in topic]

    @property
    def answers(self):
        return [json.loads(data) for topic, data, _ in self.link.published if topic == "out"]

    @property
    def samples(self):
        return self.lane.line.ledger.as_dict()["samples"]


def test_data_a_late_joiner_cannot_read_is_asked_about_and_then_answered(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.data()
    assert rig.asked == [ASK]
    [(_, command, sent)] = rig.link.published
    assert sent.done  # QoS 0
    assert pb.parsed(command).metrics[0].name == "Node Control/Rebirth"
    assert pb.parsed(command).timestamp == rig.now_ms
    rig.birth()
    rig.clock.advance(1)
    rig.data()
    [answer] = rig.answers
    assert answer["stream"] == "plant/press/roof"
    assert rig.samples["rejected"] == {"no_birth": 1}
    assert (rig.samples["received"], rig.samples["accepted"]) == (2, 1)
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()
    refused = [json.loads(one) for one in (tmp_path / "line.refused.jsonl").read_text().splitlines()]
    assert [one["reason"] for one in refused] == ["no_birth"]


def test_a_node_is_asked_again_after_a_time(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    for _ in range(5):
        rig.data()
    assert rig.asked == [ASK]
    rig.clock.advance(AGAIN_NS / 1e9 - 0.001)
    rig.data()
    assert rig.asked == [ASK]
    rig.clock.advance(0.001)
    rig.data()
    assert rig.asked == [ASK, ASK]
    rig.lane.stop()


def test_nodes_that_are_made_up_are_not_all_asked(tmp_path, ready):
    rig = Rig(tmp_path, ready, room=1000)
    for number in range(MOST_NODES + 20):
        rig.say("NDATA", node=f"n{number}")
    assert len(rig.asked) == MOST_NODES
    assert rig.samples["received"] == 0
    rig.lane.stop()


def test_a_line_that_may_not_ask_does_not(tmp_path, ready):
    rig = Rig(tmp_path, ready, decode={"rebirth": "never"})
    rig.data()
    assert rig.asked == []
    assert rig.samples["rejected"] == {"no_birth": 1}
    rig.lane.stop()


def test_what_could_not_be_sent_is_asked_by_the_next_data(tmp_path, ready):
    rig = Rig(tmp_path, ready, max_bytes=5)
    rig.data()
    assert rig.asked == []
    rig.link._max_bytes = 1 << 20
    rig.link.is_up = False
    rig.data()
    assert rig.asked == []
    rig.link.is_up = True
    rig.data()
    assert rig.asked == [ASK]
    rig.lane.stop()


def test_a_death_ends_freshness_and_a_birth_does_not_bring_it_back_by_itself(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.birth()
    assert not rig.lane.is_fresh
    rig.data()
    assert rig.lane.is_fresh
    rig.say("NDEATH", metric(0, pb.UINT64, name="bdSeq"))
    assert not rig.lane.is_fresh
    rig.clock.advance(1)
    rig.birth()
    assert not rig.lane.is_fresh
    rig.data()
    assert rig.lane.is_fresh
    assert len(rig.answers) == 2
    rig.lane.stop()


def test_the_birth_of_a_sender_of_changes_is_a_sample(tmp_path, ready):
    rig = Rig(tmp_path, ready, hold=True)
    rig.birth()
    rig.clock.advance(1)
    rig.say("DDATA", metric(25.0, alias=0, at=rig.now_ms, tell_type=False))
    assert len(rig.answers) == 2
    assert [round(one["dew_point"]["value"], 1) for one in rig.answers] == [9.6, 12.9]
    rig.lane.stop()


def test_only_sparkplug_has_births():
    clock = HandClock()
    with pytest.raises(TypeError, match="only Sparkplug"):
        Rebirths(object(), None, wall_ns=clock.wall_ns, mono_ns=clock.mono_ns)
