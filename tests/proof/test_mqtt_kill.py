"""kill -9 under load between topics: no sample lost, no answer lost, a double has the id and the bytes of the first."""

import json

import pytest

from tests.proof.mqtt_kills import Outcome, killed
from tests.proof.mqtt_lines import HEAD, KINDS, broker_text, line_text
from tests.proof.station import answers, call

RATE_HZ = 500
IN_FLIGHT = 20
"""Answers that mosquitto lets be on their way."""
UNKEPT = 16
"""Confirmed answers of a line that a restart may send again: see docs/mqtt.md."""


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


CHECKS = {
    "windowed": check_remembering,
    "stateful": check_remembering,
    "stateless": check_stateless,
    "timeless": check_timeless,
}
TOGETHER = {**{name: [name] for name in KINDS}, "several": list(KINDS)}


def proof(tmp_path, names, kills, protocol):
    """Lines of these kinds in one process, killed; prints the figures, for who runs it with -s."""

    def device(folder, port):
        broker = broker_text(port, protocol, ahead=KINDS[names[0]].ahead if len(names) == 1 else 64)
        (folder / "device.toml").write_text(HEAD + broker + "".join(map(line_text, names)))

    payloads = {name: KINDS[name].payload for name in names}
    warm_up = sum(KINDS[name].warm_up for name in names)
    outcomes = killed(tmp_path / "killed", device, payloads, kills=kills, rate_hz=RATE_HZ, warm_up=warm_up)
    for name, outcome in outcomes.items():
        print(
            f"{name}: {kills} kills, {len(outcome.sent)} samples, {len(outcome.answers)} answers, {outcome.doubles}"
            f" doubles, {outcome.book['counts']['samples']['duplicate']} samples sent again"
        )
    for name, outcome in outcomes.items():
        CHECKS[name](tmp_path, name, outcome)
    assert sum(outcome.doubles for outcome in outcomes.values()) <= kills * (IN_FLIGHT + UNKEPT * len(names))


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("kinds", TOGETHER)
def test_nothing_is_lost_by_kills(kinds, protocol, tmp_path):
    proof(tmp_path, TOGETHER[kinds], 7, protocol)


@pytest.mark.long
@pytest.mark.parametrize("kills", [100, 1000])
@pytest.mark.parametrize("kinds", TOGETHER)
def test_nothing_is_lost_by_many_kills(kinds, kills, tmp_path):
    proof(tmp_path, TOGETHER[kinds], kills, "5")
