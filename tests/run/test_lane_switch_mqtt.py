"""One bundle in the place of another on a line of a broker: what is in flight is confirmed, and held values go on."""

import json

import pytest

from edge_runtime.run.boot import boot
from edge_runtime.run.lane import Lane
from edge_runtime.run.live import Live
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_config import LineConfig
from tests.rig.bundles import DEWPOINT, write_with_manifest
from tests.rig.clock import HandClock
from tests.rig.fake_link import FakeLink

HELD = {"when_absent": "last", "max_age_s": 60}
CHANNELS = {
    "air_temperature": {"topic": "house/+/t", "field": "v", "unit": "Cel"},
    "relative_humidity": {"topic": "house/+/rh", "field": "v", "unit": "%"} | HELD,
    "station_pressure": {"topic": "house/+/p", "field": "v", "unit": "hPa"} | HELD,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    twin = write_with_manifest(DEWPOINT, folder / "twin", lambda raw: raw.update(version="9.0.0"))

    def other(raw):
        raw["inputs"][0]["channels"][0]["physical"]["max"] += 1

    paths = {"first": DEWPOINT, "twin": twin, "other": write_with_manifest(DEWPOINT, folder / "other", other)}
    return {name: boot(path, make_setting()).ready for name, path in paths.items()}


def live(ready):
    return Live(ready, lambda: pytest.fail("it was made anew"), lambda _: None)


class Rig:
    """A lane that joins three topics, on a link that is a stand-in; each message comes a second after the one before."""

    def __init__(self, folder, ready, clock=None):
        config = LineConfig.model_validate({
            "name": "line", "bundle": "store:dewpoint", "channels": CHANNELS, "decode": {"format": "json"},
            "source": {"kind": "mqtt", "topics": ("house/#",), "stream_level": 2},
            "sink": ({"kind": "mqtt", "topic": "out"},),
        })  # fmt: skip
        self.link, self.clock = FakeLink(), clock or HandClock()
        self.lane = Lane(
            config, live(ready), folder=folder, state=folder, run_id="r1", wall_ns=self.clock.wall_ns,
            mono_ns=self.clock.mono_ns, link=self.link, clock_synchronised=lambda: True,
        )  # fmt: skip
        self.lane.start(type("Bell", (), {"set": lambda _: None})())

    def bring(self, topic, value):
        self.clock.advance(1)
        times = {"time_ns": self.clock.wall_ns(), "mono_ns": self.clock.mono_ns()}
        self.link.bring(topic, json.dumps({"v": value}).encode(), **times)
        self.lane.turn()

    def switch(self, ready):
        new = live(ready)
        self.lane.switch(new, self.lane.fitted(new), "r2")

    @property
    def answers(self):
        return [json.loads(one[1]) for one in self.link.published]


def filled(folder, models):
    rig = Rig(folder, models["first"])
    rig.bring("house/attic/rh", 50)
    rig.bring("house/attic/p", 1000)
    rig.bring("house/attic/t", 20)
    assert len(rig.answers) == 1
    return rig


def test_held_values_go_on_under_the_same_contract(tmp_path, models):
    rig = filled(tmp_path, models)
    rig.switch(models["twin"])
    rig.bring("house/attic/t", 21)
    assert [(one["run"], one["seq"]) for one in rig.answers] == [("r1", 0), ("r2", 1)]
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()


def test_held_values_begin_anew_under_another_contract(tmp_path, models):
    rig = filled(tmp_path, models)
    rig.switch(models["other"])
    rig.bring("house/attic/t", 21)
    assert len(rig.answers) == 1
    assert rig.lane.line.ledger.rejected.total() == 1
    rig.bring("house/attic/rh", 50)
    rig.bring("house/attic/p", 1000)
    rig.bring("house/attic/t", 22)
    assert len(rig.answers) == 2
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()


def test_what_is_in_flight_is_confirmed_to_the_new_line_and_acknowledged(tmp_path, models):
    rig = filled(tmp_path, models)
    assert rig.lane.in_flight == 1
    rig.switch(models["twin"])
    rig.bring("house/attic/t", 21)
    assert rig.lane.in_flight == 2
    rig.link.confirm(2)
    rig.lane.turn()
    assert (rig.lane.in_flight, rig.lane.line.ledger.published) == (0, 2)
    assert rig.link.acknowledged[-1] == 4, "every message, those of the former bundle too"
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()


def test_a_kill_between_the_switch_and_the_confirmation_sends_the_same_answers_again(tmp_path, models):
    rig = filled(tmp_path, models)
    rig.switch(models["twin"])
    rig.bring("house/attic/t", 21)
    sent = [one[1] for one in rig.link.published]
    rig.lane._journal._close_files()
    again = Rig(tmp_path, models["twin"], rig.clock)
    again.lane.turn()
    assert [one[1] for one in again.link.published] == sent
    again.bring("house/attic/t", 22)
    assert again.answers[-1]["seq"] == 2
    assert again.lane.health().ledger.adds_up
    again.lane.stop()
