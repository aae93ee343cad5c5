"""When a lane says that a message is durable, and what a restart and a redelivery make of it; the link is a stand-in."""

import errno
import json

import pytest

from edge_runtime.run.boot import boot
from edge_runtime.run.lane import SPILL_NS, Lane
from edge_runtime.run.setting import make_setting
from edge_runtime.sinks.journal import Journal, JournalFull
from edge_runtime.spec.device_config import LineConfig
from tests.rig.bundles import DEWPOINT, FROST
from tests.rig.clock import HandClock
from tests.rig.fake_link import FakeLink

FIELDS = {
    "air_temperature": "Cel", "relative_humidity": "%", "station_pressure": "hPa", "wind_speed": "m/s",
    "solar_irradiance": "W/m2",
}  # fmt: skip
TIME = {"field": "time", "format": "unix_s"}


@pytest.fixture(scope="module")
def ready():
    made = {}
    for bundle in (DEWPOINT, FROST):
        made[bundle] = boot(bundle, make_setting()).ready
        assert made[bundle] is not None
    return made


class Rig:
    """A lane between a topic and a topic, its link and its clock."""

    def __init__(self, folder, ready, bundle, *, time=TIME, source=None, clock=None, **link):
        names = list(FIELDS)[: 3 if bundle == DEWPOINT else 5]
        config = LineConfig.model_validate({
            "name": "line", "bundle": str(bundle),
            "source": {"kind": "mqtt", "topics": ("in/#",)} | (source or {}),
            "decode": {"format": "json"} | ({"time": time} if time else {}),
            "channels": {name: {"field": name, "unit": FIELDS[name]} for name in names},
            "sink": ({"kind": "mqtt", "topic": "out"},),
        })  # fmt: skip
        self.link, self.clock = FakeLink(**link), clock or HandClock()
        self.lane = Lane(
            config, ready[bundle], folder=folder, state=folder, run_id="r", wall_ns=self.clock.wall_ns,
            mono_ns=self.clock.mono_ns, link=self.link, clock_synchronised=lambda: True,
        )  # fmt: skip
        self.lane.start(type("Bell", (), {"set": lambda _: None})())

    def bring(self, second, **more):
        values = {"air_temperature": 20, "relative_humidity": 50, "station_pressure": 1000, "wind_speed": 2,
                  "solar_irradiance": 0}  # fmt: skip
        more |= {"time_ns": self.clock.wall_ns(), "mono_ns": self.clock.mono_ns()}
        return self.link.bring("in/a", json.dumps({"time": 1_700_000_000 + second} | values).encode(), **more)

    @property
    def samples(self):
        return self.lane.line.ledger.as_dict()["samples"]

    def adds_up(self):
        ledger = self.lane.health().ledger
        return ledger.adds_up

    def die(self):
        """End as a kill does: nothing is written any more, and the locks go."""
        self.lane._journal._close_files()


def test_one_reading_is_acknowledged_once_its_answer_is_confirmed(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    for second in range(3):
        rig.bring(second)
        rig.lane.turn()
    written = (tmp_path / "line.journal").stat().st_size
    assert (len(rig.link.published), rig.link.acknowledged) == (3, [])
    rig.link.confirm(2)
    rig.lane.turn()
    assert rig.link.acknowledged == [1, 2]
    assert rig.lane.in_flight == 1
    rig.link.confirm(1)
    rig.lane.turn()
    assert rig.link.acknowledged == [1, 2, 3]
    assert (rig.lane.line.ledger.published, rig.adds_up()) == (3, True)
    assert (tmp_path / "line.journal").stat().st_size == written
    rig.lane.stop()


def test_a_sink_that_does_not_answer_is_spilled_for(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT, room=2)
    rig.lane.turn()
    for second in range(5):
        rig.bring(second)
    rig.lane.turn()
    written = (tmp_path / "line.journal").stat().st_size
    rig.clock.advance(SPILL_NS / 1e9 - 0.1)
    rig.lane.turn()
    assert rig.link.acknowledged == []
    rig.clock.advance(0.1)
    rig.lane.turn()
    assert rig.link.acknowledged == [1, 2, 3, 4, 5]
    assert (tmp_path / "line.journal").stat().st_size > written
    rig.die()
    again = Rig(tmp_path, ready, DEWPOINT)
    again.lane.turn()
    assert [json.loads(one[1])["seq"] for one in again.link.published] == [0, 1, 2, 3, 4]
    assert [one[1] for one in again.link.published[:2]] == [one[1] for one in rig.link.published]
    again.lane.stop()


def test_a_windowed_line_is_acknowledged_by_its_journal_alone(tmp_path, ready):
    """A window of 24 and never more than 10 ahead: what is not answered yet must be acknowledged, or nothing comes on."""
    rig = Rig(tmp_path, ready, FROST)
    rig.link.receive_maximum = 10
    for hour in range(24):
        rig.bring(hour * 3600)
    for _ in range(3):
        rig.lane.turn()
    assert rig.link.acknowledged == list(range(1, 25))
    assert len(rig.link.published) == 1
    assert rig.lane.line.ledger.published == 0
    rig.die()
    again = Rig(tmp_path, ready, FROST)
    again.lane.turn()
    assert again.link.published[0][1] == rig.link.published[0][1]
    again.link.confirm(1)
    again.lane.turn()
    assert (again.lane.line.ledger.published, again.adds_up()) == (1, True)
    again.lane.stop()


def test_a_full_disk_holds_acknowledgements_back(tmp_path, ready, monkeypatch):
    rig = Rig(tmp_path, ready, FROST)
    full = JournalFull(subject="line.journal", found="No space left on device", expected="room", todo="free the disk")

    def refuse(*_):
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", refuse)
        patch.setattr(Journal, "compact", refuse)
        for hour in range(100):
            rig.bring(hour * 3600)
        for _ in range(3):
            rig.lane.turn()
            rig.lane.tick()
        assert rig.link.acknowledged == []
        assert rig.samples["received"] == 64
    rig.lane.tick()
    assert rig.link.acknowledged == list(range(1, 65))
    rig.lane.turn()
    assert rig.samples["received"] == 100
    rig.lane.stop()


@pytest.mark.parametrize("time", [TIME, None])
def test_what_comes_again_is_a_duplicate(tmp_path, ready, time):
    rig = Rig(tmp_path, ready, DEWPOINT, time=time)
    number = rig.bring(0)
    rig.lane.turn()
    rig.bring(0, packet_id=number, again=True)
    rig.lane.turn()
    rig.link.confirm(1)
    rig.lane.turn()
    assert (rig.samples["accepted"], rig.samples["duplicate"], len(rig.link.published)) == (1, 1, 1)
    assert (rig.link.acknowledged, rig.adds_up()) == ([number, number], True)
    rig.lane.stop()


def test_without_a_time_a_restart_still_knows_it(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT, time=None)
    number = rig.bring(0)
    rig.lane.turn()
    assert rig.link.acknowledged == [number]
    rig.die()
    again = Rig(tmp_path, ready, DEWPOINT, time=None)
    again.clock.advance(5)
    again.bring(0, packet_id=number, again=True)
    again.bring(0, packet_id=number + 1, again=True)
    again.lane.turn()
    assert (again.samples["accepted"], again.samples["duplicate"]) == (2, 1)
    assert again.link.published[0][1] == rig.link.published[0][1]
    again.lane.stop()


def test_the_same_number_and_content_may_be_another_message(tmp_path, ready):
    """A broker begins its numbers anew; only one that says so sends again."""
    rig = Rig(tmp_path, ready, DEWPOINT, time=None)
    for _ in range(2):
        rig.bring(0, packet_id=7)
        rig.lane.turn()
    assert (rig.samples["accepted"], rig.samples["duplicate"]) == (2, 0)
    rig.lane.stop()


def test_what_is_refused_is_acknowledged_and_counted(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    rig.link.bring("in/a", b"no json")
    rig.link.bring("in/a", b"")
    rig.link.bring("in/a", b"1", retained=True)
    rig.link.bring("in/a", b"x" * 5000)
    rig.lane.turn()
    assert rig.link.acknowledged == [1, 2, 3, 4]
    assert (rig.samples["received"], rig.samples["rejected"]) == (3, {"bad_json": 1, "too_long": 1})
    assert (rig.samples["dropped"], rig.adds_up()) == ({"retained": 1}, True)
    rig.lane.stop()


def test_a_level_of_the_topic_names_the_stream(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT, source={"stream_level": 2})
    rig.bring(0)
    rig.lane.turn()
    assert json.loads(rig.link.published[0][1])["stream"] == "a"
    rig.lane.stop()


def test_an_answer_too_large_waits_and_says_so(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT, max_bytes=10)
    rig.bring(0)
    rig.lane.turn()
    assert "the broker takes 10 at most" in rig.lane.trouble
    assert rig.adds_up()
    rig.lane.stop()


def test_a_refused_answer_is_sent_again_after_a_pause(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    rig.bring(0)
    rig.lane.turn()
    rig.link.published[0][2].refusal = "not authorized (0x87)"
    rig.lane.turn()
    assert "The broker refuses an answer: not authorized (0x87)" in rig.lane.trouble
    assert len(rig.link.published) == 1
    rig.clock.advance(5)
    rig.lane.turn()
    assert len(rig.link.published) == 2
    rig.lane.stop()


def test_answers_that_nobody_hears_are_told(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    rig.bring(0)
    rig.lane.turn()
    rig.link.published[0][2].unheard = True
    rig.link.confirm(1)
    rig.lane.turn()
    assert rig.lane.health().sinks == {"mqtt out": "It is taking answers; nobody subscribes to them."}
    rig.lane.stop()


def test_a_lane_that_stops_leaves_to_the_broker_what_it_did_not_take(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    for second in range(100):
        rig.bring(second)
    rig.lane.turn()
    rig.lane.stop_taking()
    rig.lane.turn()
    rig.lane.stop()
    assert rig.samples["received"] == 64
    assert len(rig.link.acknowledged) == 64


def test_a_line_of_qos_0_owes_no_acknowledgement(tmp_path, ready):
    """Another line of the same topic may have asked for QoS 1: that one's share of the message is its own affair."""
    rig = Rig(tmp_path, ready, DEWPOINT, source={"qos": 0})
    numbers = [rig.bring(second) for second in range(100)]
    rig.lane.turn()
    assert rig.link.acknowledged == numbers
    assert (rig.samples["received"], rig.adds_up()) == (100, True)
    rig.lane.stop()


@pytest.mark.parametrize("time", [None, TIME])
def test_confirmed_answers_are_noted_before_a_restart_would_send_many_again(tmp_path, ready, time):
    """The input has paused, and a long outbox drains: each confirmation changes no sample, and counts all the same.

    With a time of its own a sample leaves no trace, and its answer is in the journal only once it was spilled.
    """
    rig = Rig(tmp_path, ready, DEWPOINT, time=time)
    for turn in range(2):
        for second in range(60):
            rig.bring(60 * turn + second)
        rig.lane.turn()
        rig.clock.advance(SPILL_NS / 1e9)
        rig.lane.turn()
    for _ in range(5):
        rig.link.confirm(20)
        rig.lane.turn()
    assert len(rig.link.published) == 120
    rig.die()
    again = Rig(tmp_path, ready, DEWPOINT, time=time, room=1000)
    again.lane.turn()
    assert len(again.link.published) == 20
    again.link.confirm(20)
    again.lane.turn()
    again.die()
    third = Rig(tmp_path, ready, DEWPOINT, time=time)
    third.lane.turn()
    assert third.link.published == []
    third.lane.stop()


@pytest.mark.parametrize("time", [TIME, None])
def test_a_device_that_boots_in_1970_believes_its_clock_once_it_is_set(tmp_path, ready, time):
    """A time service sets the clock while the line serves: no sample of today is ahead of 1970 any more."""
    rig = Rig(tmp_path, ready, DEWPOINT, time=time, clock=HandClock(wall_ns=1_000_000_000))
    rig.clock.step_wall(1_700_000_000)
    rig.lane.tick()
    rig.clock.advance(1)
    rig.bring(1)
    rig.lane.turn()
    (answer,) = rig.link.published
    assert json.loads(answer[1])["time"].startswith("2023-11-14T22:13:")
    assert rig.samples["accepted"] == 1


def test_a_clock_that_is_set_back_leaves_times_of_arrival_in_order(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT, time=None)
    for _ in range(3):
        rig.bring(1)
        rig.lane.turn()
        rig.clock.step_wall(-3600)
        rig.lane.tick()
        rig.clock.advance(1)
    times = [json.loads(one[1])["time"] for one in rig.link.published]
    assert len(times) == 3
    assert times == sorted(times)
    assert rig.samples["rejected"] == {}


def test_a_clock_that_ran_ahead_is_believed_once_it_is_set_back(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT, time=TIME | {"when_bad": "arrival", "not_before": "2020-01-01T00:00:00Z"})
    rig.clock.step_wall(1_700_000_000 - rig.clock.wall_ns() / 1e9)
    rig.lane.tick()
    rig.bring(-1_700_000_000)
    rig.lane.turn()
    (answer,) = rig.link.published
    assert json.loads(answer[1])["time"].startswith("2023-11-14T22:13:")


def test_a_line_that_was_idle_spills_nothing_at_its_first_answer(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    rig.clock.advance(100)
    rig.bring(0)
    rig.lane.turn()
    assert rig.link.acknowledged == []
    rig.lane.stop()


@pytest.mark.parametrize("is_full", [False, True])
def test_what_is_due_is_done_in_the_turn_it_wakes(tmp_path, ready, monkeypatch, is_full):
    """Else the loop turns without a pause until the next second, and for as long as a disk is full."""
    rig = Rig(tmp_path, ready, FROST)
    for second in range(2):  # the second record is synced later
        rig.bring(second * 3600)
        rig.lane.turn()
    assert rig.lane.due_ns() is not None
    if is_full:
        monkeypatch.setattr(Journal, "commit", _full)
        monkeypatch.setattr(Journal, "compact", _full)
        rig.bring(7200)
        rig.lane.turn()
    for _ in range(3):
        rig.clock.advance(5)
        rig.lane.turn()
        due = rig.lane.due_ns()
        assert due is None or due > rig.clock.mono_ns()
        rig.lane.tick()
    assert bool(rig.lane.trouble) is is_full


def _full(*_):
    raise JournalFull(subject="x", found="no space", expected="room", todo="free it")


@pytest.mark.parametrize("bundle", [DEWPOINT, FROST])
@pytest.mark.parametrize("is_up", [True, False])
def test_what_a_failed_probe_withdraws_is_not_sent_again_by_link_or_journal(tmp_path, ready, bundle, is_up):
    """Sent and not confirmed: the broker may have it, and nobody gives it to it a second time."""
    rig = Rig(tmp_path, ready, bundle, room=64)
    for second in range(30):
        rig.bring(second * 3600)
    rig.lane.turn()
    good = len(rig.link.published)
    rig.link.confirm(good)
    rig.lane.turn()
    rig.lane.trust()
    for second in range(30, 34):
        rig.bring(second * 3600)
    rig.lane.turn()
    if bundle == DEWPOINT:
        rig.lane._keep()  # as once a second, or after answers that do not leave
    rig.link.is_up = is_up
    bad = rig.link.published[good:]
    assert rig.lane.distrust("why") == len(bad) > 0
    assert [one.withdrawn for *_, one in bad] == [True] * len(bad)
    dropped = rig.lane.health().ledger.counts["answers"]["dropped"]
    assert (dropped, rig.adds_up()) == ({"quarantined": len(bad)}, True)
    rig.die()
    again = Rig(tmp_path, ready, bundle)
    again.lane.turn()
    assert again.link.published == []
    assert again.adds_up()
    again.lane.stop()


@pytest.mark.parametrize("bundle", [DEWPOINT, FROST])
@pytest.mark.parametrize("room", ["in its own place", "nowhere"])
def test_what_is_withdrawn_on_a_full_disk_is_not_sent_after_a_restart(tmp_path, ready, bundle, room, monkeypatch):
    """The journal cannot be written anew beside itself, and has the answers from before they were found wrong."""
    rig = Rig(tmp_path, ready, bundle, room=64)
    for second in range(30):
        rig.bring(second * 3600)
    rig.lane.turn()
    good = len(rig.link.published)
    rig.link.confirm(good - 1)
    rig.lane.turn()
    rig.lane.trust()
    rig.lane._keep()
    for second in range(30, 34):
        rig.bring(second * 3600)
    rig.lane.turn()
    rig.lane._keep()
    with monkeypatch.context() as full:
        full.setattr(Journal, "compact", _full)
        if room == "nowhere":
            full.setattr("edge_runtime.sinks.journal.append_whole", _no_space)
        assert rig.lane.distrust("why") == len(rig.link.published) - good == 4
        rig.lane.tick()
    assert ("until then a restart begins the line anew" in rig.lane.trouble) is (room == "nowhere")
    rig.die()
    again = Rig(tmp_path, ready, bundle)
    again.lane.turn()
    sent_again = [one[1] for one in rig.link.published[good - 1 : good]]
    assert [one[1] for one in again.link.published] == (sent_again if room != "nowhere" else [])
    assert again.samples["received"] == (34 if room != "nowhere" else 0)
    assert again.adds_up()
    again.lane.stop()


def test_a_journal_that_was_full_when_answers_were_withdrawn_is_mended_by_the_clock(tmp_path, ready, monkeypatch):
    rig = Rig(tmp_path, ready, FROST)
    for second in range(30):
        rig.bring(second * 3600)
    rig.lane.turn()
    with monkeypatch.context() as full:
        full.setattr(Journal, "compact", _full)
        full.setattr("edge_runtime.sinks.journal.append_whole", _no_space)
        assert rig.lane.distrust("why") > 0
    rig.lane.tick()
    assert rig.lane.trouble == ""
    rig.die()
    again = Rig(tmp_path, ready, FROST)
    again.lane.turn()
    assert (again.samples["received"], again.link.published, again.adds_up()) == (30, [], True)
    again.lane.stop()


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_answer_behind_withdrawn_ones_is_not_taken_for_confirmed_by_theirs(tmp_path, ready):
    rig = Rig(tmp_path, ready, DEWPOINT)
    rig.bring(0)
    rig.lane.turn()
    rig.lane.trust()  # of what is on its way
    rig.bring(1)
    rig.lane.turn()
    assert rig.lane.distrust("why") == 1
    rig.lane.trust()
    rig.bring(2)
    rig.lane.turn()
    assert [json.loads(one[1])["seq"] for one in rig.link.published] == [0, 1, 2]
    rig.link.confirm(2)
    rig.lane.turn()
    assert (rig.lane.line.ledger.published, rig.lane.in_flight) == (1, 1)
    rig.link.confirm(1)
    rig.lane.turn()
    assert (rig.lane.line.ledger.published, rig.lane.in_flight, rig.adds_up()) == (2, 0, True)
    rig.lane.stop()
