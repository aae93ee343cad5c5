"""`replay` as a person starts it: a file through the line of a device file, in real processes."""

import json
import signal
from pathlib import Path

import pytest

from edge_runtime.flow.recording import MAGIC, encode_chunk
from tests.rig.program import PATIENCE_S, ROOT, run_program, start_program

STATION = ROOT / "examples/frost/station_us_units.csv"
WINDOWS = 169


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The shipped device file, in a folder of its own."""
    text = (ROOT / "examples/frost/device.toml").read_text()
    path = tmp_path / "site" / "device.toml"
    path.parent.mkdir()
    path.write_text(text.replace("../../bundles/frost", str(ROOT / "bundles/frost")))
    return path


def test_the_text_of_a_stream(config: Path, tmp_path: Path) -> None:
    ran = run_program("replay", str(STATION), "--config", str(config), home=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line)["seq"] for line in ran.stdout.splitlines()] == list(range(WINDOWS))
    assert ran.stderr.splitlines()[-1] == ("samples: 192 received = 192 accepted; answers: 169 due = 169 published")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["device.toml", "site"], "no state is kept"


def test_a_recording_gives_the_same_answers_into_a_file(config: Path, tmp_path: Path) -> None:
    recording, out = tmp_path / "frost.rec", tmp_path / "answers.jsonl"
    data = STATION.read_bytes()
    recording.write_bytes(MAGIC + b"".join(encode_chunk(at, data[at : at + 77]) for at in range(0, len(data), 77)))
    plain = run_program("replay", str(STATION), "--config", str(config), home=tmp_path)
    ran = run_program("replay", str(recording), "--config", str(config), "--out", str(out), home=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "")
    ids = [json.loads(line)["id"] for line in out.read_text().splitlines()]
    assert ids == [json.loads(line)["id"] for line in plain.stdout.splitlines()]
    assert len(ids) == WINDOWS
    again = run_program("replay", str(recording), "--config", str(config), "--out", str(out), home=tmp_path)
    assert again.returncode == 2
    assert again.stderr == (
        f"edge-runtime: --out {out}: found a file of that name; expected a new file; give another --out, or remove it\n"
    )


def test_what_was_refused_is_counted_and_the_first_of_each_reason_told(config: Path, tmp_path: Path) -> None:
    text = tmp_path / "stream.csv"
    header, *rows = STATION.read_text().splitlines()
    broken = "2025-01-28T00:30:00Z,451.0,71,29.5595,3.36,0"
    text.write_text("\n".join([header, rows[0], broken, "no row", *rows[1:]]) + "\n")
    ran = run_program("replay", str(text), "--config", str(config), home=tmp_path)
    assert len(ran.stdout.splitlines()) == WINDOWS
    *_, sums, first, second = ran.stderr.splitlines()
    assert sums.startswith("samples: 194 received = 192 accepted + 2 rejected (1 beyond_physical, 1 wrong_columns);")
    assert first.startswith("first beyond_physical: channel air_temperature: found 451 ([degF]), which is 232.778 Cel;")
    assert second.startswith("first wrong_columns: ")


def test_a_file_of_which_nothing_is_accepted_is_no_success(config: Path, tmp_path: Path) -> None:
    text, empty = tmp_path / "stream.csv", tmp_path / "empty.csv"
    header, *rows = STATION.read_text().splitlines()
    text.write_text("\n".join([header, *(row.replace(",", ";") for row in rows)]))
    ran = run_program("replay", str(text), "--config", str(config), home=tmp_path)
    assert (ran.returncode, ran.stdout) == (65, "")
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("edge-runtime: not one of 192 samples was accepted; the first: CSV row: found ")
    assert last.endswith("; leaving with exit code 65")
    empty.write_text(f"{header}\n")
    nothing = run_program("replay", str(empty), "--config", str(config), home=tmp_path)
    assert nothing.returncode == 0, "nothing came, so nothing was refused"


def test_a_journal_that_is_asked_for_lets_the_next_replay_go_on(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text() + '\n[line.journal]\nenabled = "on"\n')
    short = tmp_path / "stream.csv"
    lines = STATION.read_text().splitlines(keepends=True)
    short.write_text("".join(lines[:101]))
    first = run_program("replay", str(short), "--config", str(config), home=tmp_path)
    with short.open("a") as file:
        file.writelines(lines[101:])
    second = run_program("replay", str(short), "--config", str(config), home=tmp_path)
    seen = [json.loads(line) for line in (first.stdout + second.stdout).splitlines()]
    assert [answer["seq"] for answer in seen] == list(range(WINDOWS))
    assert "restarted" in seen[100 - 23]["flags"]
    assert {path.name for path in (config.parent / "state").iterdir()} == {"replay"}, (
        "the serving line's own is not touched"
    )


def test_a_refused_bundle_plays_nothing(config: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "frost"
    bundle.mkdir()
    for path in (ROOT / "bundles/frost").iterdir():
        (bundle / path.name).write_bytes(path.read_bytes() + b"x" * path.name.endswith(".onnx"))
    config.write_text(config.read_text().replace(str(ROOT / "bundles/frost"), str(bundle)))
    ran = run_program("replay", str(STATION), "--config", str(config), home=tmp_path)
    assert (ran.returncode, ran.stdout) == (65, "")
    assert ". files: bundle " in ran.stderr


def test_a_file_that_is_not_there(config: Path, tmp_path: Path) -> None:
    ran = run_program("replay", "station.csv", "--config", str(config), home=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == (
        "edge-runtime: file to replay station.csv: found no file of that name; expected a recording, or plain text;"
        " correct the path\n"
    )


def test_a_reader_that_leaves_early_costs_no_traceback(config: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    header, *rows = STATION.read_text().splitlines()
    days = [f"{header}\n"]
    days += [f"2{year:03}{row[4:]}\n" for year in range(100, 140) for row in rows]
    long.write_text("".join(days))
    started = start_program("replay", str(long), "--config", str(config), home=tmp_path)
    assert started.stdout
    assert started.stderr
    started.stdout.readline()
    started.stdout.close()
    told = started.stderr.read().decode()
    assert started.wait(PATIENCE_S) == 141
    started.stderr.close()
    assert "Traceback" not in told


def test_sigterm_in_the_middle_sums_up_what_was_done(config: Path, tmp_path: Path) -> None:
    recording = tmp_path / "slow.rec"
    lines = STATION.read_bytes().splitlines(keepends=True)
    # An hour of waiting stands between the first thirty samples and the rest.
    recording.write_bytes(
        MAGIC + encode_chunk(0, b"".join(lines[:31])) + encode_chunk(3_600 * 10**9, b"".join(lines[31:]))
    )
    words = ("replay", str(recording), "--config", str(config), "--speed", "1")
    started = start_program(*words, home=tmp_path)
    assert started.stdout
    answers = [started.stdout.readline() for _ in range(7)]
    started.send_signal(signal.SIGTERM)
    rest, told = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 143
    assert (len(answers), rest) == (7, b"")
    assert told.decode().splitlines()[-1] == "samples: 30 received = 30 accepted; answers: 7 due = 7 published"


def test_captured_messages_bring_their_topics(tmp_path: Path) -> None:
    """`bind` and `replay` of one capture come to the same samples."""
    held = {"when_absent": "last", "max_age_s": 60, "field": "v"}
    channels = {
        "air_temperature": {"field": "v", "unit": "Cel", "topic": "{device}/t"},
        "relative_humidity": held | {"unit": "%", "topic": "{device}/rh"},
        "station_pressure": held | {"unit": "hPa", "topic": "{device}/p"},
    }
    bound = "\n".join(
        f"[line.channels.{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in one.items())
        for name, one in channels.items()
    )
    (tmp_path / "device.toml").write_text(
        'schema = "edge-runtime/device/1"\nbroker = { host = "127.0.0.1", device = "attic" }\n[[line]]\nname = "d"\n'
        f'bundle = "{ROOT}/bundles/dewpoint"\nsource = {{ kind = "mqtt", topics = ["attic/+"] }}\n'
        f'decode = {{ format = "json" }}\nsink = [{{ kind = "stdout" }}]\n{bound}\n'
    )
    messages = [
        ("attic/rh", 50),
        ("attic/t", 20),
        ("attic/p", 1000),
        ("attic/t", 21),
        ("attic/t", 22),
        ("attic/co2", 1),
    ]
    (tmp_path / "captured.jsonl").write_text("".join(
        json.dumps({"tst": f"2026-11-30T20:36:{10 * second:02d}.000000Z+0000", "topic": topic, "qos": 1, "retain": 0,
                    "payload": json.dumps({"v": value})}) + "\n"
        for second, (topic, value) in enumerate(messages)
    ))  # fmt: skip
    arguments = (str(tmp_path / "captured.jsonl"), "--config", str(tmp_path / "device.toml"))
    ran = run_program("replay", *arguments, home=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line)["flags"] for line in ran.stdout.splitlines()] == [["held"], ["held"]]
    assert "6 received = 2 accepted + 2 updates + 2 rejected (1 missing, 1 other_topic)" in ran.stderr
    ran = run_program("bind", "--dry-run", *arguments, home=tmp_path)
    assert ran.stderr.splitlines()[-1] == (
        "6 payloads: 2 update, 1 refused (missing), 2 accepted, 1 refused (other_topic)"
    )
