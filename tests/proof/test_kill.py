"""kill -9 at random moments, and power cuts: afterwards the answers are the same set as without, each exactly once."""

import json
import random
import subprocess
import time
from datetime import datetime, timedelta

import pytest

from tests.proof.kills import DURABLE, JSONL, PATIENCE_S, SMALL, STDOUT, Trial, comparable
from tests.proof.station import answers, as_csv, environment, ledger, lines, program


def whole() -> bytes:
    return as_csv(lines())


def holed() -> bytes:
    """The station with samples left out, refused, doubled and out of order, so that windows break and heal."""
    header, *rows = lines()
    made = [header]
    for at, row in enumerate(rows):
        if at in {40, 41, 120}:
            continue
        if at == 70:
            made.append([row[0], "nan", *row[2:]])
        if at == 71:
            made.append(row[:3])
        if at in {80, 81}:
            made.append([row[0], "400", *row[2:]])
        made.append(row)
        if at == 90:
            made += [row, [rows[60][0], "50", *rows[60][2:]]]
        if at == 110:
            made.append(header)
    return as_csv(made)


def long_stream(times: int) -> bytes:
    """The station again and again, its hours going on, so that the journal must be written anew."""
    header, *rows = lines()
    begin = datetime.fromisoformat(rows[0][0])
    made = [
        [(begin + timedelta(hours=turn * len(rows) + at)).strftime("%Y-%m-%dT%H:%M:%SZ"), *row[1:]]
        for turn in range(times)
        for at, row in enumerate(rows)
    ]
    return as_csv([header, *made])


def _kill_station(tmp_path, kills):
    trial = Trial(tmp_path, whole(), journal=DURABLE)
    assert len(trial.expected) == len(set(trial.expected)) == 169
    assert trial.book["adds_up"]
    assert trial.book["counts"]["answers"] == {
        "due": 169,
        "published": 169,
        "refused": {},
        "suppressed": {},
        "dropped": {},
    }
    trial.kill(kills, seed=100)


def _kill_holed(tmp_path, kills):
    trial = Trial(tmp_path, holed(), journal='enabled = "on"')
    assert trial.book["adds_up"]
    assert trial.book["counts"]["samples"]["rejected"] == {
        "beyond_physical": 2, "not_finite": 1, "time_back": 1, "wrong_columns": 1,
    }  # fmt: skip
    assert trial.book["counts"]["samples"]["duplicate"] == 1
    assert trial.book["counts"]["answers"]["refused"]["gap"] > 20
    trial.kill(kills, seed=200)


def _kill_compacting(tmp_path, kills):
    trial = Trial(tmp_path, long_stream(12), journal=SMALL, pace_ms=1.5)
    assert len(trial.expected) == 12 * 192 - 23
    trial.kill(kills, seed=300)


def _kill_two_sinks(tmp_path, kills):
    trial = Trial(tmp_path, whole(), journal='enabled = "on"', sinks=(STDOUT, JSONL))
    trial.kill(kills, seed=400)


def _kill_in_one_chunk(tmp_path, kills):
    """All bytes in few chunks, so that a kill lands between the commit and the sending of many answers."""
    trial = Trial(tmp_path, whole(), journal=DURABLE, pace_ms=60, longest=3000)
    trial.kill(kills, seed=500)


KILLS = {
    "station": _kill_station,
    "holed": _kill_holed,
    "compacting": _kill_compacting,
    "two sinks": _kill_two_sinks,
    "large chunks": _kill_in_one_chunk,
}


@pytest.mark.parametrize("name", KILLS)
def test_the_answers_are_the_same_set_after_kills(name, tmp_path):
    KILLS[name](tmp_path, 4 if name == "station" else 1)


@pytest.mark.long
@pytest.mark.parametrize("name", KILLS)
def test_the_answers_are_the_same_set_after_many_kills(name, tmp_path):
    KILLS[name](tmp_path, 200 if name == "station" else 60)


def _cut_at(journal: bytes, chance: random.Random, count: int) -> list[int]:
    boundaries = [at + 1 for at, byte in enumerate(journal) if byte == ord("\n")]
    return sorted({0, *boundaries, *(chance.randrange(len(journal)) for _ in range(count))})


def _power_cuts(tmp_path, places, every):
    """Serve half of the stream, then cut the journal as a power cut may, and serve the whole stream from there."""
    trial = Trial(tmp_path, holed(), journal='enabled = "on"', longest=300)
    folder = trial.make("half", speed='"max"')
    stream = (folder / "stream.rec").read_bytes()
    half = stream[: len(stream) // 2]
    (folder / "stream.rec").write_bytes(half)
    command = program("run", "--exit-on-refusal", "--config", "device.toml")
    quiet = {"cwd": folder, "env": environment(folder), "capture_output": True}
    # Paced, and killed before its end, so that the log holds records instead of the snapshot a clean end leaves.
    paced = (folder / "device.toml").read_text()
    (folder / "device.toml").write_text(paced.replace('speed = "max"', "speed = 1"))
    process = subprocess.Popen(command, cwd=folder, env=environment(folder), stderr=subprocess.PIPE)
    log = folder / "state" / "frost.journal"
    out = folder / "answers.jsonl"
    deadline = time.monotonic() + PATIENCE_S
    # A busy machine puts several samples into one record.
    while time.monotonic() < deadline and not (log.exists() and out.exists() and log.read_bytes().count(b"\n") > 20):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    journal, given = log.read_bytes(), out.read_bytes()
    assert journal.count(b"\n") > 20
    (folder / "device.toml").write_text(paced)
    (folder / "stream.rec").write_bytes(stream)
    for place in _cut_at(journal, random.Random(7), places)[::every]:
        log.write_bytes(journal[:place])
        # What had gone out by then stays; a reader of the file meets it again under the same ids at most.
        out.write_bytes(given)
        subprocess.run(command, check=True, **quiet)
        rows = comparable(answers(out.read_bytes()))
        assert sorted(set(rows), key=lambda row: json.loads(row)["seq"]) == trial.expected, place
        assert ledger(folder) == trial.book, place


def test_a_journal_cut_anywhere_gives_the_same_set(tmp_path):
    _power_cuts(tmp_path, 10, every=20)


@pytest.mark.long
def test_a_journal_cut_at_every_record_gives_the_same_set(tmp_path):
    _power_cuts(tmp_path, 60, every=1)
