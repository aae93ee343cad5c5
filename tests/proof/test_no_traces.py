"""A run leaves nothing behind and opens nothing that was not asked for; it loads what it needs and no more."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tests.proof.station import STATION, device_file, environment, program, run

NEVER = ("onnx", "torch", "asyncio", "paho", "serial", "pint", "pytest", "onnxruntime.quantization")


def test_a_run_leaves_no_file_but_its_state_and_its_answers(tmp_path):
    assert run(tmp_path, sinks=['{ kind = "jsonl", path = "answers.jsonl" }'], journal='enabled = "on"').returncode == 0
    assert list((tmp_path / "home").rglob("*")) == []
    left = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert left <= {"device.toml", "answers.jsonl", "state", "runtime"}
    states = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert states == ["boot.json", "frost.journal", "frost.journal.lock"]


def test_a_run_writes_nothing_into_the_temporary_folder(tmp_path):
    config = device_file(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    subprocess.run(
        program("run", "--config", config), cwd=tmp_path, env={**environment(tmp_path), "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    assert list(scratch.rglob("*")) == []


def test_a_serving_process_has_no_socket_at_all(tmp_path):
    config = device_file(tmp_path, source='{ kind = "stdin" }', journal='enabled = "on"')
    with subprocess.Popen(
        program("run", "--config", config), cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        process.stdin.write(STATION.read_bytes())
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"{")
        opened = [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
        threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(timeout=30) == 0
    assert opened
    assert not [name for name in opened if name.startswith("socket:")]
    assert threads <= 3  # the loop, the reader, and one that onnxruntime may keep
    assert rest.count(b"\n") == 168


def test_a_run_imports_neither_the_authors_tools_nor_a_network(tmp_path):
    config = device_file(tmp_path)
    words = program("run", "--exit-on-refusal", "--config", config)
    done = subprocess.run(
        [words[0], "-X", "importtime", *words[1:]],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        check=True,
    )
    modules = set(re.findall(r"\| +\d+ \| +(\S+)$", done.stderr.decode(), re.MULTILINE))
    assert {"edge_runtime.run.lane", "onnxruntime", "numpy"} <= modules
    loaded = sorted(name for name in modules if any(name == each or name.startswith(f"{each}.") for each in NEVER))
    assert loaded == []
    assert "edge_runtime.author" not in modules


def test_an_idle_process_does_next_to_nothing(tmp_path):
    """It waits; it does not poll. Its own processor time over a second is that of one tick."""
    config = device_file(tmp_path, source='{ kind = "stdin" }')
    with subprocess.Popen(
        program("run", "--config", config), cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        process.stdin.write(STATION.read_bytes())
        process.stdin.flush()
        for _ in range(169):
            process.stdout.readline()
        before = _processor_ticks(process.pid)
        time.sleep(2)
        spent = _processor_ticks(process.pid) - before
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    assert spent / os.sysconf("SC_CLK_TCK") < 0.1


def _processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
