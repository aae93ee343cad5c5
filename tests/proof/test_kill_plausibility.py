"""What a contract watches, and what a line captures, under kill -9 at random moments: the same flags, and whole lines."""

import json
from functools import partial

import pytest

from tests.proof.kills import DURABLE, SMALL, Trial
from tests.proof.station import device_file
from tests.proof.test_kill import holed
from tests.rig.bundles import FROST, write_with_manifest

WATCHED = {
    "step": {"limits": {"air_temperature": 3.0 / 3600}},
    "shifted": {"samples": 6, "h": 4.0, "means": {"air_temperature": {"mean": 5.0, "std": 3.0}}},
    "drifted": {
        "samples": 50,
        "bins": {"relative_humidity": {"edges": [40.0, 60.0, 80.0], "shares": [0.25, 0.25, 0.25, 0.25]}},
    },
    "constant": {"after": 2},
}
FLAGS = {"step", "shifted", "drifted", "constant"}


def _watch(raw):
    raw["must_understand"] = ["plausibility"]
    raw["plausibility"] = WATCHED


def _trial(tmp_path, journal):
    bundle = write_with_manifest(FROST, tmp_path / "bundle", _watch)
    device = partial(device_file, bundle=bundle, extra="capture = { every = 5, a_minute = 10000 }")
    trial = Trial(tmp_path, holed(), journal=journal, device=device)
    seen = [FLAGS & set(json.loads(one)["flags"]) for one in trial.expected]
    assert set.union(*seen) >= {"step", "shifted", "drifted"}, "else this would prove nothing"
    assert not all(seen)
    return trial


def _captured(trial):
    kept, torn = set(), 0
    folders = [path for path in trial.folder.iterdir() if path.name.startswith("killed")]
    for folder in folders:
        path = folder / "state" / "frost.capture.jsonl"
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                one = json.loads(line)
            except ValueError:
                torn += 1
                continue
            kept |= {one["answer"]["id"]} if "answer" in one else set()
    return kept, torn


def _kill(tmp_path, journal, kills):
    trial = _trial(tmp_path, journal)
    trial.kill(kills, seed=900)
    kept, torn = _captured(trial)
    assert torn == 0
    # What was kept in the last second before a kill is gone, so that any of them may be absent.
    assert kept <= {json.loads(one)["id"] for one in trial.expected}


def test_flags_and_captures_survive_kills(tmp_path):
    _kill(tmp_path, SMALL, 3)


@pytest.mark.long
@pytest.mark.parametrize("journal", [SMALL, DURABLE], ids=["compacting", "durable"])
def test_flags_and_captures_survive_many_kills(tmp_path, journal):
    _kill(tmp_path, journal, 60)
