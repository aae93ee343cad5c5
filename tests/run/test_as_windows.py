"""The program without what Windows' Python lacks: it loads, serves, keeps, stops, and refuses in a line what it cannot do."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import serial

from edge_runtime.links import serial_port
from edge_runtime.spec.source import SerialMatch, SerialSource
from tests.proof.station import STATION, answers, device_file, environment
from tests.rig.program import PATIENCE_S, ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT CHECKED: what is taken away is Linux's")
# Loaded on Linux alone, for a table of the profile that is refused elsewhere.
NOT_THERE = {"edge_runtime.engine.isolated"}
EVERY_MODULE = """
import importlib, pathlib, sys
import edge_runtime.author.build_command, edge_runtime.author.sign_command  # onnx and its like, as this system has them
found = [name for name in sys.modules if name.startswith("edge_runtime")]
for name in found:
    del sys.modules[name]
from tests.rig.as_windows import become
names = [".".join(one.with_suffix("").parts).removesuffix(".__init__") for one in pathlib.Path("edge_runtime").rglob("*.py")]
become()
failed = []
for name in sorted(names):
    if name != "edge_runtime.__main__":
        try:
            importlib.import_module(name)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
print(len(names), *failed, sep="\\n")
"""


def _words(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "tests.rig.as_windows", *map(str, words)]


def _environment(folder: Path) -> dict[str, str]:
    (folder / "scratch").mkdir(exist_ok=True)
    return environment(folder) | {"TMPDIR": str(folder / "scratch")}


def _call(folder: Path, *words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        _words(*words), cwd=folder, env=_environment(folder), input=stdin, capture_output=True, check=False,
        timeout=PATIENCE_S * 2,
    )  # fmt: skip
    assert b"internal error" not in done.stderr, done.stderr.decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def test_every_module_loads(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_MODULE],
        cwd=ROOT,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    count, *failed = done.stdout.splitlines()
    assert int(count) > 250
    assert {one.partition(":")[0] for one in failed} == NOT_THERE, failed


def test_the_demonstration_runs_over_tcp_and_leaves_nothing(tmp_path: Path) -> None:
    done = _call(tmp_path, "demo")
    assert done.returncode == 0, done.stderr.decode()
    assert b"done: 169 answers" in done.stderr
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_journal_that_is_written_anew_goes_on_over_restarts(tmp_path: Path) -> None:
    """The station in two starts, with a journal so small that it is replaced many times; there an open file cannot be."""
    config = device_file(
        tmp_path, source='{ kind = "stdin" }', sinks=('{ kind = "jsonl", path = "answers.jsonl" }',),
        journal='enabled = "on", max_bytes = 65536',
    )  # fmt: skip
    header, *rows = STATION.read_bytes().splitlines(keepends=True)
    for part in (rows[:100], rows[100:]):
        done = _call(tmp_path, "run", "--config", config, stdin=header + b"".join(part))
        assert done.returncode == 0, done.stderr.decode()
    assert len(answers((tmp_path / "answers.jsonl").read_bytes())) == 169
    status = _call(tmp_path, "status", "--config", config, "--json")
    assert json.loads(status.stdout)["stopped"]
    (line,) = json.loads(status.stdout)["lines"]
    assert line["ledger"]["adds_up"]
    assert line["ledger"]["counts"]["answers"]["published"] == 169


def test_what_asks_the_machine_says_what_it_does_not_know(tmp_path: Path) -> None:
    config = device_file(tmp_path, source='{ kind = "stdin" }')
    tested = _call(tmp_path, "selftest", "--config", config, "--json", "-")
    assert tested.returncode == 0
    (boot,) = json.loads(tested.stdout)["boots"]
    skipped = {one["id"] for one in boot["checks"] if one["status"] == "skip"}
    assert {"headroom", "memory_limit", "memory"} <= skipped
    looked = _call(tmp_path, "doctor", "--config", config, "--json")
    assert looked.returncode == 0, looked.stdout.decode()


def test_a_console_that_is_closed_stops_it_in_order(tmp_path: Path) -> None:
    """SIGBREAK, which SIGUSR1 stands for here."""
    config = device_file(tmp_path, source='{ kind = "stdin" }')
    with subprocess.Popen(
        _words("run", "--config", config), cwd=tmp_path, env=_environment(tmp_path), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        process.stdin.write(STATION.read_bytes())
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"{")
        process.send_signal(signal.SIGUSR1)
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
    assert rest.count(b"\n") == 168


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('{ kind = "command", command = ["./tool.exe"] }', "a system without process groups"),
        ('{ kind = "folder", path = "." }', "a system that cannot open a file from its folder on"),
    ],
)
def test_what_it_cannot_do_there_is_refused_in_a_line(source: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "tool.exe").touch(0o755)
    config = device_file(tmp_path, source=source)
    done = _call(tmp_path, "run", "--exit-on-refusal", "--config", config)
    assert done.returncode == 78
    assert words in done.stderr.decode()


def test_a_process_of_its_own_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "apart.toml").write_text(
        'name = "apart"\nschema = "edge-runtime/profile/1"\ndescription = "a test"\ninherits = "generic_x86"\n'
        "[isolation]\nmemory_mb = 256\ntimeout_s = 5\n"
    )
    done = _call(tmp_path, "selftest", "--profile", "apart.toml")
    assert done.returncode == 1
    (failed,) = [line for line in done.stderr.decode().splitlines() if line.startswith("  FAIL")]
    assert failed.endswith("found a system that cannot end it with this one (limit: Linux)")


def test_a_port_is_a_name_and_no_file(tmp_path: Path) -> None:
    """Nothing is looked for on the disk, and nobody is asked for a right that such a name does not have."""
    config = device_file(tmp_path, source='{ kind = "serial", port = "COM12" }')
    tested = _call(tmp_path, "selftest", "--config", config, "--json", "-")
    (boot,) = json.loads(tested.stdout)["boots"]
    (ports,) = [one for one in boot["checks"] if one["id"] == "ports"]
    assert (ports["status"], ports["measured"]) == ("pass", "frost: COM12")


def test_a_port_is_found_by_its_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pyserial tells of one there: its name, ids and serial number, no interface."""
    shown = [
        SimpleNamespace(device="COM3", vid=0x403, pid=0x6001, serial_number="A1", interface=None),
        SimpleNamespace(device="COM12", vid=0x403, pid=0x6001, serial_number="B2", interface=None),
    ]
    there = SimpleNamespace(name="nt", path=os.path, getpid=os.getpid)
    monkeypatch.setattr(serial_port, "os", there)
    monkeypatch.setattr(serial_port, "_comports", lambda: shown)
    match = SerialMatch(vid=0x403, pid=0x6001, serial_number="B2")
    assert serial_port.find_port(SerialSource(kind="serial", match=match)) == "COM12"
    assert [(one.device, one.permitted, one.holders) for one in serial_port.port_states()] == [
        ("COM3", True, ""), ("COM12", True, ""),
    ]  # fmt: skip


class _Windows:
    """Windows' answer to an open, as pyserial 3.5 hands it on: a text, without a number."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def open(self) -> None:
        raise serial.SerialException(f"could not open port 'COM12': {self._reason}")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "FileNotFoundError(2, 'The system cannot find the file specified.', None, 2)",
            "COM12: no such port; plug it in",
        ),
        ("PermissionError(13, 'Access is denied.', None, 5)", "COM12: in use by another program; stop it or"),
        ("OSError(22, 'The parameter is incorrect.', None, 87)", "COM12: cannot be opened (could not open port"),
    ],
)
def test_a_port_that_cannot_be_opened_is_told_plainly(reason: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_port.serial, "serial_for_url", lambda *_words, **_named: _Windows(reason))
    with pytest.raises(serial_port.LinkAbsent) as caught:
        serial_port.open_port(SerialSource(kind="serial", port="COM12"))
    assert str(caught.value).startswith(words)
