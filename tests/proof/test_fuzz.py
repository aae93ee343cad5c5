"""100,000 hostile lines with valid ones between: each reject has its reason, each valid line its answer, memory stays."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from edge_runtime.flow.line import MAX_STREAMS
from tests.proof.fuzz import ANSWER, DUPLICATE, NOTHING, dewpoint_lines, frost_lines
from tests.proof.station import DEWPOINT, ROOT, answers, device_file, environment, ledger, program

MOST_GROWTH_BYTES = 2_000_000
COUNT = 100_000


def _child(tmp_path, kind, seed, count):
    done = subprocess.run(
        [sys.executable, "-m", "tests.proof.fuzz_child", kind, str(seed), str(count)], cwd=ROOT,
        env=environment(tmp_path), capture_output=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["frost", "dewpoint"])
def test_every_line_comes_to_what_it_must(kind, tmp_path):
    told = _child(tmp_path, kind, 1, COUNT // 10)
    assert told["lines"] >= COUNT // 10
    assert told["published"] > 1000
    assert len(told["outcomes"]) >= 12


@pytest.mark.long
@pytest.mark.parametrize("kind", ["frost", "dewpoint"])
@pytest.mark.parametrize("seed", range(2, 6))
def test_every_line_comes_to_what_it_must_under_other_seeds(kind, seed, tmp_path):
    assert _child(tmp_path, kind, seed, COUNT)["lines"] >= COUNT


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


DEWPOINT_FILE = f"""
schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "dewpoint"
bundle = "{DEWPOINT}"
source = {{ kind = "stdin" }}
decode = {{ format = "json", stream = "site", time = {{ field = "time", format = "iso8601" }} }}
sink = [{{ kind = "jsonl", path = "answers.jsonl" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""


@pytest.mark.parametrize(
    ("kind", "journal"),
    [
        ("frost", "on"), ("dewpoint", "off"),
        pytest.param("frost", "off", marks=pytest.mark.long), pytest.param("dewpoint", "on", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_the_whole_process_takes_100_000_lines_and_its_memory_stays(kind, journal, tmp_path):
    config = tmp_path / "device.toml"
    if kind == "frost":
        sink = '{ kind = "jsonl", path = "answers.jsonl" }'
        device_file(tmp_path, source='{ kind = "stdin" }', sinks=[sink], journal=f'enabled = "{journal}"')
    else:
        config.write_text(
            DEWPOINT_FILE.replace("[line.channels]", f'journal = {{ enabled = "{journal}" }}\n[line.channels]')
        )
    outcomes, resident = _stream_through(tmp_path, kind)
    valid = outcomes.count(ANSWER)
    book = ledger(tmp_path)
    assert book["adds_up"]
    samples = book["counts"]["samples"]
    assert samples["accepted"] == valid
    assert samples["received"] == len(outcomes) - outcomes.count(NOTHING)
    assert samples["duplicate"] == outcomes.count(DUPLICATE)
    given = answers((tmp_path / "answers.jsonl").read_bytes())
    assert len(given) == len({one["id"] for one in given}) == valid - (23 if kind == "frost" else 0)
    assert max(resident) - resident[0] < MOST_GROWTH_BYTES


def _stream_through(tmp_path, kind) -> tuple[list[str], list[int]]:
    """What each line must come to, and the resident bytes of the process from line 10,000 on."""
    stream = frost_lines(5, COUNT) if kind == "frost" else dewpoint_lines(5, COUNT, 20, MAX_STREAMS)
    outcomes, resident = [], []
    with (tmp_path / "errors").open("wb") as errors, subprocess.Popen(
        program("run", "--exit-on-refusal", "--config", "device.toml"), cwd=tmp_path, env=environment(tmp_path),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
    ) as process:  # fmt: skip
        while group := list(islice(stream, 500)):
            process.stdin.write(b"".join(one.data for one in group))
            outcomes += [one.outcome for one in group]
            if len(outcomes) >= 10_000:
                resident.append(_resident_bytes(process.pid))
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(timeout=120) == 0
    assert b"Traceback" not in (tmp_path / "errors").read_bytes()
    return outcomes, resident
