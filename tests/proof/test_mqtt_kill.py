"""kill -9 under load between two topics: no sample lost, no answer lost, a double has the id and the bytes of the first."""

import datetime as dt
import json

import pytest

from tests.proof.mqtt_kills import Outcome, killed
from tests.proof.station import COLUMNS, DEWPOINT, FROST, US_UNITS, answers, call, lines

RECEIVE_MAXIMUM = {FROST: 10, DEWPOINT: 64}
"""Less than a window for the one; for the other more than mosquitto lets be on their way, 20 answers."""
RATE_HZ = 500
WINDOW = 24
BEGIN = dt.datetime(1990, 1, 1, tzinfo=dt.UTC)
ROWS = [dict(zip(lines()[0], row, strict=True)) for row in lines()[1:]]

DEVICE = """schema = "edge-runtime/device/1"
state_dir = "state"
broker = {{ host = "127.0.0.1", port = {port}, device = "killed", receive_maximum = {receive_maximum}, protocol = "{protocol}" }}
[[line]]
name = "frost"
bundle = "{bundle}"
source = {source}
decode = {{ format = "json"{time} }}
sink = [{sink}]
[line.channels]
{channels}
"""
MQTT = '{ kind = "mqtt", topics = ["in/samples"] }'
TO_MQTT = '{ kind = "mqtt", topic = "out/answers" }'
TIME = ', time = { field = "time", format = "unix_s" }'
DEWPOINT_CHANNELS = ["air_temperature", "relative_humidity", "station_pressure"]


def device_text(bundle, *, time=TIME, port=1, source=MQTT, sink=TO_MQTT, protocol="auto"):
    names = COLUMNS if bundle == FROST else DEWPOINT_CHANNELS
    channels = "\n".join(f'{name} = {{ field = "{name}", unit = "{US_UNITS[name]}" }}' for name in names)
    return DEVICE.format(
        port=port,
        protocol=protocol,
        receive_maximum=RECEIVE_MAXIMUM[bundle],
        bundle=bundle,
        source=source,
        time=time,
        sink=sink,
        channels=channels,
    )


def sample(at, *, with_time=True):
    """The recorded station again and again, an hour a sample."""
    row = ROWS[at % len(ROWS)]
    values = {name: float(row[column]) for name, column in COLUMNS.items()}
    time = {"time": int((BEGIN + dt.timedelta(hours=at)).timestamp())} if with_time else {}
    return json.dumps(time | values).encode()


def kill(tmp_path, bundle, kills, protocol, *, time=TIME):
    def device(folder, port):
        (folder / "device.toml").write_text(device_text(bundle, time=time, port=port, protocol=protocol))

    return killed(
        tmp_path / "killed", device, lambda at: sample(at, with_time=bool(time)),
        kills=kills, rate_hz=RATE_HZ, warm_up=WINDOW - 1 if bundle == FROST else 0,
    )  # fmt: skip


def undisturbed(tmp_path, bundle, outcome: Outcome):
    """The answers of the same line to the same samples from a file, by id."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    (folder / "samples.jsonl").write_bytes(b"".join(one + b"\n" for one in outcome.sent))
    text = device_text(bundle, source='{ kind = "replay", path = "samples.jsonl" }', sink='{ kind = "stdout" }')
    (folder / "device.toml").write_text(text)
    done = call(folder, "run", "--exit-on-refusal", "--config", "device.toml")
    assert done.returncode == 0, done.stderr
    return {one["id"]: one for one in answers(done.stdout)}


def meaning(answer, *, with_seq=True):
    """What of an answer may not depend on when it was given."""
    gone = {"run", "age_s"} | (set() if with_seq else {"seq"})
    flags = [flag for flag in answer["flags"] if flag not in {"restarted", "clock_unsynced"}]  # replay has no clock
    return {key: value for key, value in answer.items() if key not in gone} | {"flags": flags}


def check_windowed(tmp_path, outcome: Outcome):
    expected = undisturbed(tmp_path, FROST, outcome)
    assert set(outcome.answers) == set(expected)
    for identity, bodies in outcome.answers.items():
        assert len(set(bodies)) == 1
        assert meaning(json.loads(bodies[0])) == meaning(expected[identity])
    counts = outcome.book["counts"]
    assert outcome.book["adds_up"]
    samples = counts["samples"]
    assert samples["accepted"] == len(outcome.sent)
    assert (samples["rejected"], samples["dropped"]) == ({}, {})
    assert samples["duplicate"] <= outcome.kills * RECEIVE_MAXIMUM[FROST]
    due = len(outcome.sent) - WINDOW + 1
    assert counts["answers"] == {"due": due, "published": due, "refused": {}, "suppressed": {}, "dropped": {}}


def check_stateless(tmp_path, outcome: Outcome):
    """One reading, one answer: the disk is written once a second, so counts and sequence may be as old as that."""
    expected = undisturbed(tmp_path, DEWPOINT, outcome)
    assert set(outcome.answers) == set(expected)
    for identity, bodies in outcome.answers.items():
        for body in bodies:
            assert meaning(json.loads(body), with_seq=False) == meaning(expected[identity], with_seq=False)
    samples, given = outcome.book["counts"]["samples"], outcome.book["counts"]["answers"]
    assert outcome.book["adds_up"]
    assert (samples["rejected"], samples["dropped"], given["refused"], given["dropped"]) == ({}, {}, {}, {})
    assert given["due"] == given["published"] == samples["accepted"] <= len(outcome.sent)


def check_timeless(outcome: Outcome):
    """Samples without a time of their own get that of their arrival, once."""
    for bodies in outcome.answers.values():
        assert len(set(bodies)) == 1
    found = sorted((json.loads(bodies[0]) for bodies in outcome.answers.values()), key=lambda one: one["seq"])
    assert [one["seq"] for one in found] == list(range(len(outcome.sent)))
    counts = outcome.book["counts"]
    assert outcome.book["adds_up"]
    assert counts["samples"]["accepted"] == counts["answers"]["published"] == len(outcome.sent)


def told(outcome: Outcome) -> None:
    samples = outcome.book["counts"]["samples"]
    print(  # noqa: T201 -- the figures, for who runs it with -s
        f"{outcome.kills} kills, {len(outcome.sent)} samples, {len(outcome.answers)} answers, {outcome.doubles} doubles,"
        f" {samples['duplicate']} samples sent again"
    )
    assert outcome.doubles <= outcome.kills * 64


def _windowed(tmp_path, kills, protocol):
    outcome = kill(tmp_path, FROST, kills, protocol)
    told(outcome)
    check_windowed(tmp_path, outcome)


def _stateless(tmp_path, kills, protocol):
    outcome = kill(tmp_path, DEWPOINT, kills, protocol)
    told(outcome)
    check_stateless(tmp_path, outcome)


def _timeless(tmp_path, kills, protocol):
    outcome = kill(tmp_path, DEWPOINT, kills, protocol, time="")
    told(outcome)
    check_timeless(outcome)


KINDS = {"windowed": _windowed, "stateless": _stateless, "timeless": _timeless}


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_by_kills(kind, protocol, tmp_path):
    KINDS[kind](tmp_path, 7, protocol)


@pytest.mark.long
@pytest.mark.parametrize("kills", [100, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_by_many_kills(kind, kills, tmp_path):
    KINDS[kind](tmp_path, kills, "5")
