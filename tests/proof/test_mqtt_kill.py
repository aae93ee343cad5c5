"""kill -9 under load between topics: no sample lost, no answer lost, a double has the id and the bytes of the first."""

import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.proof.kinds_streams import GRU, GRU_UNITS
from tests.proof.mqtt_kills import Outcome, killed
from tests.proof.station import COLUMNS, DEWPOINT, FROST, US_UNITS, answers, call, lines

RATE_HZ = 500
WINDOW = 24
PIPES = ("north", "south", "east")
BEGIN = dt.datetime(1990, 1, 1, tzinfo=dt.UTC)
ROWS = [dict(zip(lines()[0], row, strict=True)) for row in lines()[1:]]
TIME = ', time = { field = "time", format = "unix_s" }'
DEWPOINT_UNITS = {name: US_UNITS[name] for name in ("air_temperature", "relative_humidity", "station_pressure")}

HEAD = """schema = "edge-runtime/device/1"
state_dir = "state"
"""
BROKER = 'broker = {{ host = "127.0.0.1", port = {port}, device = "killed", receive_maximum = {ahead}, protocol = "{protocol}" }}\n'
LINE = """[[line]]
name = "{name}"
bundle = "{bundle}"
source = {source}
decode = {{ format = "json"{decode} }}
sink = [{sink}]
[line.channels]
{channels}
"""


def station(at, *, with_time=True):
    """The recorded station again and again, an hour a sample."""
    row = ROWS[at % len(ROWS)]
    values = {name: float(row[column]) for name, column in COLUMNS.items()}
    time = {"time": int((BEGIN + dt.timedelta(hours=at)).timestamp())} if with_time else {}
    return json.dumps(time | values).encode()


def pipe(at):
    """Three pipes in turns, each read every 10 s."""
    turn, which = divmod(at, len(PIPES))
    time = int(BEGIN.timestamp()) + 10 * turn + which
    values = {"flow": 3 + math.sin(at / 7), "pressure": 52 + 8 * math.cos(at / 11)}
    return json.dumps({"time": time, "pipe": PIPES[which]} | values).encode()


def undisturbed(tmp_path, name, outcome: Outcome):
    """The answers of the same line to the same samples from a file, by id."""
    folder = tmp_path / f"undisturbed {name}"
    folder.mkdir()
    (folder / "samples.jsonl").write_bytes(b"".join(one + b"\n" for one in outcome.sent))
    text = line_text(name, source='{ kind = "replay", path = "samples.jsonl" }', sink='{ kind = "stdout" }')
    (folder / "device.toml").write_text(HEAD + text)
    done = call(folder, "run", "--exit-on-refusal", "--config", "device.toml")
    assert done.returncode == 0, done.stderr
    return {one["id"]: one for one in answers(done.stdout)}


def meaning(answer, *, with_seq=True):
    """What of an answer may not depend on when it was given."""
    gone = {"run", "age_s"} | (set() if with_seq else {"seq"})
    flags = [flag for flag in answer["flags"] if flag not in {"restarted", "clock_unsynced"}]  # replay has no clock
    return {key: value for key, value in answer.items() if key not in gone} | {"flags": flags}


def check_remembering(tmp_path, name, outcome: Outcome):
    """A window or a state: every record is on the disk before anything of it leaves, so all is exact."""
    expected = undisturbed(tmp_path, name, outcome)
    assert set(outcome.answers) == set(expected)
    for identity, bodies in outcome.answers.items():
        assert len(set(bodies)) == 1
        assert meaning(json.loads(bodies[0])) == meaning(expected[identity])
    counts = outcome.book["counts"]
    assert outcome.book["adds_up"]
    samples = counts["samples"]
    assert samples["accepted"] == len(outcome.sent)
    assert (samples["rejected"], samples["dropped"]) == ({}, {})
    assert samples["duplicate"] <= outcome.kills * 64
    due = len(outcome.sent) - KINDS[name].warm_up
    assert counts["answers"] == {"due": due, "published": due, "refused": {}, "suppressed": {}, "dropped": {}}


def check_stateless(tmp_path, name, outcome: Outcome):
    """One reading, one answer: the disk is written once a second, so counts and sequence may be as old as that."""
    expected = undisturbed(tmp_path, name, outcome)
    assert set(outcome.answers) == set(expected)
    for identity, bodies in outcome.answers.items():
        for body in bodies:
            assert meaning(json.loads(body), with_seq=False) == meaning(expected[identity], with_seq=False)
    samples, given = outcome.book["counts"]["samples"], outcome.book["counts"]["answers"]
    assert outcome.book["adds_up"]
    assert (samples["rejected"], samples["dropped"], given["refused"], given["dropped"]) == ({}, {}, {}, {})
    assert given["due"] == given["published"] == samples["accepted"] <= len(outcome.sent)


def check_timeless(_tmp_path, _name, outcome: Outcome):
    """Samples without a time of their own get that of their arrival, once."""
    for bodies in outcome.answers.values():
        assert len(set(bodies)) == 1
    found = sorted((json.loads(bodies[0]) for bodies in outcome.answers.values()), key=lambda one: one["seq"])
    assert [one["seq"] for one in found] == list(range(len(outcome.sent)))
    counts = outcome.book["counts"]
    assert outcome.book["adds_up"]
    assert counts["samples"]["rejected"] == {}
    assert counts["samples"]["accepted"] == counts["answers"]["published"] == len(outcome.sent)


class Kind(NamedTuple):
    """A line: its bundle and binding, what it is sent, and what must have come of it; ``ahead`` is receive_maximum."""

    bundle: Path
    units: Mapping[str, str | None]
    decode: str
    payload: Callable[[int], bytes]
    check: Callable[[Path, str, Outcome], None]
    warm_up: int = 0
    ahead: int = 64
    """More than mosquitto lets be on their way, 20 answers; in a windowed line less than the window."""


KINDS = {
    "windowed": Kind(FROST, US_UNITS, TIME, station, check_remembering, WINDOW - 1, ahead=10),
    "stateful": Kind(GRU, GRU_UNITS, f'{TIME}, stream = "pipe"', pipe, check_remembering),
    "stateless": Kind(DEWPOINT, DEWPOINT_UNITS, TIME, station, check_stateless),
    "timeless": Kind(DEWPOINT, DEWPOINT_UNITS, "", partial(station, with_time=False), check_timeless),
}


def line_text(name, *, source=None, sink=None):
    kind = KINDS[name]
    return LINE.format(
        name=name,
        bundle=kind.bundle,
        source=source or f'{{ kind = "mqtt", topics = ["in/{name}"] }}',
        decode=kind.decode,
        sink=sink or f'{{ kind = "mqtt", topic = "out/{name}" }}',
        channels="\n".join(f'{channel} = {{ field = "{channel}", unit = "{unit}" }}' for channel, unit in kind.units.items()),
    )  # fmt: skip


def proof(tmp_path, names, kills, protocol):
    """Lines of these kinds in one process, killed; prints the figures, for who runs it with -s."""

    def device(folder, port):
        broker = BROKER.format(port=port, ahead=min(KINDS[name].ahead for name in names), protocol=protocol)
        (folder / "device.toml").write_text(HEAD + broker + "".join(map(line_text, names)))

    payloads = {name: KINDS[name].payload for name in names}
    warm_up = sum(KINDS[name].warm_up for name in names)
    outcomes = killed(tmp_path / "killed", device, payloads, kills=kills, rate_hz=RATE_HZ, warm_up=warm_up)
    for name, outcome in outcomes.items():
        print(  # noqa: T201 -- the figures
            f"{name}: {kills} kills, {len(outcome.sent)} samples, {len(outcome.answers)} answers, {outcome.doubles}"
            f" doubles, {outcome.book['counts']['samples']['duplicate']} samples sent again"
        )
    for name, outcome in outcomes.items():
        KINDS[name].check(tmp_path, name, outcome)
    assert sum(outcome.doubles for outcome in outcomes.values()) <= kills * 64


TOGETHER = {**{name: [name] for name in KINDS}, "several": list(KINDS)}


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("kinds", TOGETHER)
def test_nothing_is_lost_by_kills(kinds, protocol, tmp_path):
    proof(tmp_path, TOGETHER[kinds], 7, protocol)


@pytest.mark.long
@pytest.mark.parametrize("kills", [100, 1000])
@pytest.mark.parametrize("kinds", TOGETHER)
def test_nothing_is_lost_by_many_kills(kinds, kills, tmp_path):
    proof(tmp_path, TOGETHER[kinds], kills, "5")
