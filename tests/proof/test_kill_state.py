"""A line whose model has a state, killed with -9 at random moments, answers as if nothing had happened."""

import json

import pytest

from tests.proof.kills import DURABLE, JSONL, SMALL, Trial, comparable
from tests.proof.kinds_streams import gru_device, json_lines, pipes
from tests.proof.station import answers, call, ledger

READINGS = 160
ANSWERS = 2 * READINGS - 2


def _trial(tmp_path, journal):
    trial = Trial(tmp_path, json_lines(pipes(READINGS)), journal=journal, pace_ms=2.0, longest=200, device=gru_device)
    assert len(trial.expected) == len({json.loads(one)["id"] for one in trial.expected}) == ANSWERS
    assert trial.book["adds_up"]
    samples = trial.book["counts"]["samples"]
    assert (samples["accepted"], samples["duplicate"]) == (ANSWERS, 1)
    assert samples["rejected"] == {"beyond_physical": 1}
    assert trial.book["counts"]["answers"] == {
        "due": ANSWERS,
        "published": ANSWERS,
        "refused": {},
        "suppressed": {},
        "dropped": {},
    }
    return trial


@pytest.mark.parametrize(("journal", "kills"), [(SMALL, 4), (DURABLE, 4)], ids=["compacting", "durable"])
def test_a_state_survives_kills(tmp_path, journal, kills):
    _trial(tmp_path, journal).kill(kills, seed=600)


@pytest.mark.long
@pytest.mark.parametrize(("journal", "kills"), [(SMALL, 100), (DURABLE, 100)], ids=["compacting", "durable"])
def test_a_state_survives_many_kills(tmp_path, journal, kills):
    _trial(tmp_path, journal).kill(kills, seed=700)


def _serve(folder, rows):
    """Serve ``rows`` to their end, after whatever the folder's journal holds; give all answers so far and the ledger."""
    folder.mkdir(exist_ok=True)
    (folder / "stream.jsonl").write_bytes(json_lines(rows))
    gru_device(folder, source='{ kind = "replay", path = "stream.jsonl" }', sinks=[JSONL], journal='enabled = "on"')
    done = call(folder, "run", "--exit-on-refusal", "--config", "device.toml")
    assert done.returncode == 0, done.stderr
    return answers((folder / "answers.jsonl").read_bytes()), ledger(folder)


def test_a_state_survives_ends_in_order(tmp_path):
    """An end in order leaves a snapshot and no changes after it, which a kill hardly ever does."""
    rows = pipes(40)
    whole, book = _serve(tmp_path / "whole", rows)
    for end in (25, 26, len(rows)):
        parts, parts_book = _serve(tmp_path / "parts", rows[:end])
    assert comparable(parts) == comparable(whole)
    assert parts_book == book
    assert sum("restarted" in one["flags"] for one in parts) >= 3


def test_a_line_that_lost_its_state_answers_otherwise(tmp_path):
    """Else the tests above would prove nothing about states: what a restart without the journal gives."""
    rows = pipes(40)
    whole, _ = _serve(tmp_path / "whole", rows)
    rest, _ = _serve(tmp_path / "rest", rows[40:])
    assert [one["time"] for one in whole[-len(rest) :]] == [one["time"] for one in rest]
    assert whole[-len(rest)]["loss"]["value"] != rest[0]["loss"]["value"]
