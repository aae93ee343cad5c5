"""`run` over a watched folder, in real processes: headers, kills, a new bundle; and what refuses a folder."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.rig.bundles import DEWPOINT, FROST, ROOT
from tests.rig.program import run_program, start_program

PATIENCE_S = 60
DEVICE = """schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "dew"
bundle = "{bundle}"
source = {{ kind = "folder", path = "in", settle_s = 0, poll_s = 0.1{source} }}
decode = {{ format = "csv", columns = "header", time = {{ field = "time", format = "unix_s" }} }}
sink = [{{ kind = "jsonl", path = "answers.jsonl" }}]
{more}
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""
FROST_CHANNELS = 'wind_speed = { field = "w", unit = "m/s" }\nsolar_irradiance = { field = "s", unit = "W/m2" }\n'


def device(folder: Path, *, bundle: Path = DEWPOINT, source: str = "", more: str = "", channels: str = "") -> None:
    (folder / "in").mkdir(exist_ok=True)
    text = DEVICE.format(bundle=bundle, source=source, more=more)
    (folder / "device.toml").write_text(text + channels)


def export(folder: Path, number: int, rows: int, *, columns: str = "time,t,rh,p,w,s", step_s: int = 1) -> None:
    """A file of ``rows`` rows that follow those of the one before, renamed into its place; without a last line end."""
    values = {"t": 20, "rh": 50, "p": 1000, "w": 2, "s": 0}
    names = columns.split(",")
    lines = [columns]
    for row in range(rows):
        value = values | {"time": 1_700_000_000 + (number * rows + row) * step_s}
        lines.append(",".join(str(value[name]) for name in names))
    fresh = folder / "in" / f".{number:05}.new"
    fresh.write_text("\n".join(lines))
    fresh.rename(folder / "in" / f"{number:05}.csv")


class Running:
    """`run` in ``folder``; leaving the block stops it in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = start_program("run", "--config", "device.toml", home=folder, cwd=folder)
        self.errors = b""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL if kind else signal.SIGTERM)
        _, self.errors = self.process.communicate(timeout=PATIENCE_S)
        assert kind or self.process.returncode in {0, -signal.SIGKILL}, self.errors

    def until(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(answers(self.folder)) < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, f"{len(answers(self.folder))} answers"
            time.sleep(0.01)


def answers(folder: Path) -> list[dict[str, object]]:
    path = folder / "answers.jsonl"
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def samples(folder: Path) -> dict[str, object]:
    (path,) = folder.glob("run/**/status.json")
    ledger = json.loads(path.read_text())["lines"][0]["ledger"]
    assert ledger["adds_up"]
    return dict(ledger["counts"]["samples"])


def test_each_file_has_its_own_header_and_needs_no_last_line_end(tmp_path):
    device(tmp_path, source=', pattern = "*.csv"')
    export(tmp_path, 0, 3)
    export(tmp_path, 1, 3, columns="p,rh,time,t")
    (tmp_path / "in/00002.csv").write_text("1700000100,20,50,1000\n1700000101,20,50,1000\n")
    export(tmp_path, 3, 3)
    with Running(tmp_path) as running:
        running.until(9)
    values = [one["dew_point"] for one in answers(tmp_path)]
    assert all(one == values[0] for one in values)
    assert samples(tmp_path)["rejected"] == {"wrong_columns": 2}, "no header of another file is taken for its own"


@pytest.mark.parametrize(
    ("bundle", "channels", "window", "after", "kills"),
    [
        (DEWPOINT, "", 1, "keep", 2),
        (FROST, FROST_CHANNELS, 24, "move", 2),
        pytest.param(DEWPOINT, "", 1, "delete", 40, marks=pytest.mark.long),
        pytest.param(FROST, FROST_CHANNELS, 24, "delete", 40, marks=pytest.mark.long),
    ],
)
def test_no_kill_loses_or_doubles_a_row(tmp_path, bundle, channels, window, after, kills):
    rows, ahead, files = 25, 4, kills + 8
    device(tmp_path, bundle=bundle, source=f', after = "{after}"', channels=channels)
    chance = random.Random(5)
    total = files * rows - window + 1
    for number in range(ahead):
        export(tmp_path, number, rows, step_s=3600)
    for number in range(ahead, ahead + kills):
        export(tmp_path, number, rows, step_s=3600)
        with Running(tmp_path) as running:
            there = (number + 1) * rows - window + 1
            running.until(min(there, len(answers(tmp_path)) + chance.randrange(1, 2 * rows)))
            running.process.send_signal(signal.SIGKILL)
    for number in range(ahead + kills, files):
        export(tmp_path, number, rows, step_s=3600)
    with Running(tmp_path) as running:
        running.until(total)
    ids = [one["id"] for one in answers(tmp_path)]
    assert len(ids) == len(set(ids)) == total
    assert [one["seq"] for one in answers(tmp_path)] == list(range(total))
    assert samples(tmp_path) == {
        "received": files * rows, "accepted": files * rows, "duplicate": 0, "rejected": {}, "dropped": {},
    }  # fmt: skip
    left = {one.name for one in (tmp_path / "in").iterdir()}
    assert len(left) == {"keep": files, "move": 1, "delete": 0}[after]


def test_another_binding_reads_no_old_file_again(tmp_path):
    device(tmp_path)
    export(tmp_path, 0, 10)
    with Running(tmp_path) as running:
        running.until(10)
    device(tmp_path, source=', order = "time"')
    export(tmp_path, 1, 10)
    os.utime(tmp_path / "in/00001.csv")
    with Running(tmp_path) as running:
        running.until(20)
    assert len(answers(tmp_path)) == 20
    assert samples(tmp_path)["received"] == 10, "the journal was put aside, the list of files was not"


def test_without_a_journal_a_file_is_settled_once_its_answers_are_out(tmp_path):
    device(tmp_path, source=', after = "move"', more='journal = { enabled = "off" }')
    export(tmp_path, 0, 10)
    with Running(tmp_path) as running:
        running.until(10)
    assert (tmp_path / "in/done/00000.csv").exists()
    assert not list((tmp_path / "state").glob("*.journal"))


def test_a_json_document_is_one_frame_where_a_file_is(tmp_path):
    device(tmp_path, source=', whole = true, after = "move", max_file_bytes = 200')
    text = (tmp_path / "device.toml").read_text()
    text = text.replace('format = "csv", columns = "header"', 'format = "json"')
    (tmp_path / "device.toml").write_text(text)
    reading = {"time": 1_700_000_000, "t": 20, "rh": 50, "p": 1000}
    document = tmp_path / "in/a.json"
    document.write_text(json.dumps(reading, indent=2) + "\n")
    (tmp_path / "in/b.json").write_text("x" * 300)
    (tmp_path / "in/c.json").write_text(json.dumps(reading | {"time": 1_700_000_001}, indent=2))
    judged = run_program("bind", "--dry-run", "in/a.json", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert (judged.returncode, "payload 1: accepted" in judged.stderr) == (0, True), judged.stderr
    with Running(tmp_path) as running:
        running.until(2)
    assert samples(tmp_path)["dropped"] == {"bad_file": 1}
    assert (tmp_path / "in/refused/b.json.reason.txt").read_text() == "300 bytes; expected at most 200\n"
    (path,) = tmp_path.glob("run/**/status.json")
    assert json.loads(path.read_text())["lines"][0]["source"].startswith(
        "2 files read; last refused: 'b.json': 300 bytes"
    )
    ran = run_program("replay", "in/done/a.json", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 1), ran.stderr


def test_a_recording_of_it_is_refused(tmp_path):
    device(tmp_path)
    ran = run_program("record", "--config", "device.toml", "--out", "a.rec", home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 2
    assert "found a folder of files as its source" in ran.stderr
    assert not (tmp_path / "a.rec").exists()


def test_the_section_of_the_documentation(tmp_path):
    page = (ROOT / "docs/device_toml.md").read_text().partition("### A folder of files\n")[2]
    text = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "device.toml").write_text(text.replace("bundles/dewpoint", str(DEWPOINT)))
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports/a.csv").write_text("time,t,rh,p\n2026-11-30T12:00:00Z,20,50,1000")
    (tmp_path / "exports/a.txt").write_text("no export")
    ran = run_program("doctor", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert f"source of line dewpoint: {tmp_path}/exports, 1 names that fit '*.csv'" in ran.stdout
    with Running(tmp_path) as running:
        running.until(1)
    assert answers(tmp_path)[0]["time"] == "2026-11-30T12:00:00Z"
    assert {one.name for one in (tmp_path / "exports").iterdir()} == {"a.txt", "done"}
    assert (tmp_path / "state/dewpoint.files").exists()
