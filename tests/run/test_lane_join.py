"""A lane whose samples are made of several messages: what is acknowledged, counted, and known again after a restart."""

import json

import pytest

from edge_runtime.run.boot import boot
from edge_runtime.run.lane import Lane
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_config import LineConfig
from tests.rig.bundles import DEWPOINT
from tests.rig.clock import HandClock
from tests.rig.fake_link import FakeLink

HELD = {"when_absent": "last", "max_age_s": 60}
CHANNELS = {
    "air_temperature": {"topic": "house/+/t", "field": "v", "unit": "Cel"},
    "relative_humidity": {"topic": "house/+/rh", "field": "v", "unit": "%"} | HELD,
    "station_pressure": {"topic": "house/+/p", "field": "v", "unit_field": "u"} | HELD,
}


@pytest.fixture(scope="module")
def ready():
    made = boot(DEWPOINT, make_setting()).ready
    assert made is not None
    return made


class Rig:
    """A lane on a link that is a stand-in; each message comes a second after the one before."""

    def __init__(self, folder, ready, clock=None, channels=CHANNELS, **line):
        config = LineConfig.model_validate({
            "name": "line", "bundle": str(DEWPOINT), "channels": channels, "decode": {"format": "json"},
            "source": {"kind": "mqtt", "topics": ("house/#",), "stream_level": 2},
            "sink": ({"kind": "mqtt", "topic": "out"},),
        } | line)  # fmt: skip
        self.link, self.clock = FakeLink(), clock or HandClock()
        self.lane = Lane(
            config, ready, folder=folder, state=folder, run_id="r", wall_ns=self.clock.wall_ns,
            mono_ns=self.clock.mono_ns, link=self.link, clock_synchronised=lambda: True,
        )  # fmt: skip
        self.lane.start(type("Bell", (), {"set": lambda _: None})())

    def bring(self, topic, after_s=1, **payload):
        self.clock.advance(after_s)
        times = {"time_ns": self.clock.wall_ns(), "mono_ns": self.clock.mono_ns()}
        number = self.link.bring(topic, json.dumps(payload).encode(), **times)
        self.lane.turn()
        return number

    def fill(self, stream="attic"):
        self.bring(f"house/{stream}/rh", v=50)
        self.bring(f"house/{stream}/p", v=1000, u="hPa")

    @property
    def samples(self):
        assert self.lane.health().ledger.adds_up
        return self.lane.line.ledger.as_dict()["samples"]

    @property
    def answers(self):
        return [json.loads(one[1]) for one in self.link.published]

    def die(self):
        self.lane._journal._close_files()


def test_a_sample_of_three_topics(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.fill()
    assert rig.answers == []
    rig.bring("house/attic/t", v=20)
    rig.bring("house/attic/t", v=21)
    assert [one["flags"] for one in rig.answers] == [["held"], ["held"]]
    assert rig.samples == {
        "received": 4, "accepted": 2, "duplicate": 0, "updates": 2, "rejected": {}, "dropped": {},
    }  # fmt: skip
    rig.lane.stop()


def test_the_answer_is_that_of_one_message_with_all(tmp_path, ready):
    (tmp_path / "one").mkdir()
    rig = Rig(tmp_path, ready)
    rig.fill()
    rig.bring("house/attic/t", v=20)
    plain = {
        name: {"field": field, "unit": unit}
        for name, field, unit in zip(CHANNELS, ("t", "rh", "p"), ("Cel", "%", "hPa"), strict=True)
    }
    whole = Rig(tmp_path / "one", ready, channels=plain)
    whole.bring("house/attic/x", t=20, rh=50, p=1000)
    [one], [other] = rig.answers, whole.answers
    assert (one["flags"], other["flags"]) == (["held"], [])
    assert {key for key in one if one[key] != other[key]} == {"flags", "id", "time"}
    rig.lane.stop()
    whole.lane.stop()


def test_what_only_brings_is_acknowledged_by_the_journal(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.fill()
    assert rig.link.acknowledged == [1, 2]
    rig.bring("house/attic/t", v=20)
    assert rig.link.acknowledged == [1, 2, 3]
    assert rig.lane.in_flight == 1
    rig.lane.stop()


def test_without_a_journal_it_is_acknowledged_at_once_and_begins_with_nothing(tmp_path, ready):
    rig = Rig(tmp_path, ready, journal={"enabled": "off"})
    rig.fill()
    assert rig.link.acknowledged == [1, 2]
    rig.bring("house/attic/t", v=20)
    assert rig.link.acknowledged == [1, 2]  # its answer is on its way
    rig.lane.stop()
    again = Rig(tmp_path, ready, rig.clock, journal={"enabled": "off"})
    again.bring("house/attic/t", v=20)
    assert again.samples["rejected"] == {"missing": 1}
    again.lane.stop()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_restart_goes_on_with_what_is_held(tmp_path, ready, how):
    rig = Rig(tmp_path, ready)
    rig.fill()
    rig.fill("cellar")
    rig.bring("house/attic/t", v=20)
    rig.die() if how == "killed" else rig.lane.stop()
    again = Rig(tmp_path, ready, rig.clock)
    again.bring("house/attic/t", 50, v=21)
    again.bring("house/cellar/t", 1, v=21)
    assert again.samples["accepted"] == 3
    assert again.samples["updates"] == 4
    again.bring("house/attic/t", 10, v=22)
    assert again.samples["rejected"] == {"stale": 1}
    again.lane.stop()


def test_what_is_acknowledged_is_kept_also_where_the_payload_has_a_time(tmp_path, ready):
    """Such a line keeps nothing at once: its messages come again. But one that has been acknowledged does not."""
    timed = {"decode": {"format": "json", "time": {"field": "at", "format": "unix_s"}}}
    rig = Rig(tmp_path, ready, **timed)
    at = rig.clock.wall_ns() // 10**9
    rig.bring("house/attic/rh", v=50, at=at)
    rig.bring("house/attic/p", v=1000, u="hPa", at=at)
    assert rig.link.acknowledged == [1, 2]
    rig.die()
    again = Rig(tmp_path, ready, rig.clock, **timed)
    again.bring("house/attic/t", v=20, at=at + 1)
    assert again.samples["accepted"] == 1
    again.lane.stop()


def test_streams_are_apart(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.fill("cellar")
    rig.bring("house/attic/t", v=20)
    assert rig.samples["rejected"] == {"missing": 1}
    rig.lane.stop()


def test_a_value_that_no_sample_could_have_is_refused_with_its_message_and_not_held(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.fill()
    rig.bring("house/attic/rh", v=5000)
    rig.bring("house/attic/rh", v="wet")
    rig.bring("house/attic/p", v=1001, u="furlong")
    rig.bring("house/attic/p", v=1001)
    assert rig.samples["rejected"] == {"beyond_physical": 1, "not_a_number": 1, "undeclared_unit": 1, "unknown_unit": 1}
    rig.bring("house/attic/t", v=20)
    assert len(rig.answers) == 1
    rig.lane.stop()


def test_null_ends_the_hold(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.fill()
    rig.bring("house/attic/rh", v=None)
    rig.bring("house/attic/t", v=20)
    assert rig.samples["rejected"] == {"missing": 1}
    assert rig.samples["updates"] == 3
    rig.lane.stop()


def test_other_topics_and_messages_of_nothing_are_refused(tmp_path, ready):
    rig = Rig(tmp_path, ready)
    rig.bring("house/attic/co2", v=600)
    rig.bring("house/attic/rh", humidity=50)
    assert rig.samples["rejected"] == {"missing_field": 1, "other_topic": 1}
    assert "'house/attic/co2'" in str(rig.lane.first_refusals["other_topic"])
    rig.lane.stop()


def test_streams_that_only_bring_are_bounded(tmp_path, ready):
    rig = Rig(tmp_path, ready, journal={"enabled": "off"})
    rig.lane.line._join._max_streams = 2
    for number in range(4):
        rig.bring(f"house/{number}/rh", v=50)
    assert rig.samples["rejected"] == {"too_many_streams": 2}
    rig.lane.stop()
