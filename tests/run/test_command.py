"""`run` over a supervised program, in real processes: its starts and ends, a kill, a recording and its replay."""

import json
import signal
import threading
from pathlib import Path

from edge_runtime.flow.recording import Record, RecordingReader
from tests.rig.bundles import DEWPOINT, ROOT
from tests.rig.need import need
from tests.rig.program import run_program, start_program
from tests.rig.wait import until

DEVICE = """schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "dew"
bundle = "{bundle}"
source = {{ kind = "command", command = ["./vendor-cli", "--stream"], restart_max_s = 0.2 }}
decode = {{ format = "csv", columns = "header", time = {{ field = "time", format = "unix_s" }} }}
sink = [{{ kind = "jsonl", path = "answers.jsonl" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""
# Each start tells two rows more than the last, behind the same ones, in other columns, and dies in the middle of a line.
CLI = """#!/bin/sh
echo "listening with $*" >&2
count=$(cat count 2>/dev/null || echo 0)
count=$((count + 2))
echo $count > count
echo "$$" > pid
if [ $((count % 4)) -eq 0 ]; then echo "time,t,rh,p"; else echo "p,rh,t,time"; fi
row=0
while [ $row -lt $count ]; do
  time=$((1700000000 + row))
  if [ $((count % 4)) -eq 0 ]; then echo "$time,20,50,1000"; else echo "1000,50,20,$time"; fi
  row=$((row + 1))
done
printf 1700000
if [ $count -lt 8 ]; then exit 3; fi
exec sleep 60
"""


def device(folder: Path) -> None:
    (folder / "device.toml").write_text(DEVICE.format(bundle=DEWPOINT))
    (folder / "vendor-cli").write_text(CLI)
    (folder / "vendor-cli").chmod(0o755)


def answers(folder: Path) -> list[dict[str, object]]:
    path = folder / "answers.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_each_start_has_its_header_and_no_row_is_answered_twice(tmp_path):
    device(tmp_path)
    with start_program("run", "--config", "device.toml", home=tmp_path, cwd=tmp_path) as program:
        until(lambda: len(answers(tmp_path)) == 8, threading.Event(), "eight answers")
        pid = (tmp_path / "pid").read_text().strip()
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=30)
    assert program.returncode == 0, errors
    assert len({json.dumps(one["dew_point"]) for one in answers(tmp_path)}) == 1
    assert not is_alive(pid)
    text = errors.decode()
    assert "edge-runtime: program vendor-cli: listening with --stream" in text
    (status,) = tmp_path.glob("run/**/status.json")
    line = json.loads(status.read_text())["lines"][0]
    assert line["ledger"]["counts"]["samples"] == {
        "received": 23, "accepted": 8, "duplicate": 12, "rejected": {}, "dropped": {"cut_short": 3},
    }  # fmt: skip
    assert line["reopened"] == 3
    assert line["source"].startswith("stopped; it ended 3 times, last with exit code 3 at ")


def test_it_dies_with_a_killed_run(tmp_path):
    need(Path("/usr/bin/setpriv").exists(), "setpriv")
    device(tmp_path)
    with start_program("run", "--config", "device.toml", home=tmp_path, cwd=tmp_path) as program:
        until(lambda: len(answers(tmp_path)) == 8, threading.Event(), "eight answers")
        pid = (tmp_path / "pid").read_text().strip()
        assert is_alive(pid)
        program.send_signal(signal.SIGKILL)
        program.communicate(timeout=30)
    until(lambda: not is_alive(pid), threading.Event(), "its death")


def test_a_recording_knows_where_it_was_started_and_replays_the_same(tmp_path):
    device(tmp_path)
    with start_program("record", "--config", "device.toml", "--out", "a.rec", home=tmp_path, cwd=tmp_path) as program:
        recording = tmp_path / "a.rec"
        until(lambda: _starts(recording) == 4, threading.Event(), "four starts")
        until(lambda: recording.read_bytes().count(b"1700000007") == 1, threading.Event(), "the last row")
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
    assert program.returncode == 0, errors
    ran = run_program("replay", "a.rec", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 8
    # What the last start had half written when it was stopped may be in the recording: it ends there, and is refused.
    assert "23 received = 8 accepted + 12 duplicate" in ran.stderr or "24 received" in ran.stderr
    assert "3 cut_short" in ran.stderr


def _starts(recording: Path) -> int:
    records: list[Record] = RecordingReader().feed(recording.read_bytes()) if recording.exists() else []
    return sum(one.anew for one in records)


def test_a_program_that_is_none_is_one_line(tmp_path):
    device(tmp_path)
    (tmp_path / "vendor-cli").unlink()
    ran = run_program("run", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 78
    assert "source command './vendor-cli': found no program of that name that this user may start" in ran.stderr


def test_the_section_of_the_documentation(tmp_path):
    page = (ROOT / "docs/device_toml.md").read_text().partition("### A program of the vendor's\n")[2]
    text = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "device.toml").write_text(text.replace("bundles/dewpoint", str(DEWPOINT)))
    rows = "time,t,rh,p\\n2026-11-30T12:00:00Z,20,50,1000\\n"
    (tmp_path / "vendor-cli").write_text(f'#!/bin/sh\n[ "$1" = --stream ] && printf "{rows}" && exec sleep 60\n')
    (tmp_path / "vendor-cli").chmod(0o755)
    with start_program("run", "--config", "device.toml", home=tmp_path, cwd=tmp_path) as program:
        until(lambda: bool(answers(tmp_path)), threading.Event(), "an answer")
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=30)
    assert answers(tmp_path)[0]["time"] == "2026-11-30T12:00:00Z"
