import json
import os
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_runtime.flow.ledger import Ledger
from edge_runtime.run.status import describe, main, why_gone
from edge_runtime.spec.machine_state import MachineState
from edge_runtime.status.health import BundleIdentity, Health, JournalHealth, LedgerHealth, LineHealth, write_status

DEVICE = """\
schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "frost"
bundle = "bundles/frost"
source = { kind = "stdin" }
decode = { format = "json" }
channels = { t = { field = "t", unit = "Cel" } }
sink = [{ kind = "stdout" }]
"""


@pytest.fixture
def args(tmp_path):
    (tmp_path / "device.toml").write_text(DEVICE)
    (tmp_path / "state").mkdir()
    return Namespace(config=str(tmp_path / "device.toml"), json=False)


def a_health(*, pid: int | None = None, age_s: float = 0.0, **line: object) -> Health:
    ledger = Ledger()
    ledger.received, ledger.accepted, ledger.due, ledger.published = 10, 8, 5, 4
    ledger.rejected.update({"not_finite": 1, "missing": 1})
    return Health(
        time=(datetime.now(UTC) - timedelta(seconds=age_s)).isoformat(), pid=pid or os.getpid(), run_id="r1",
        state="OPERATIONAL", reason="All checks passed.", live=True, ready=True, fresh=False, profile="generic_x86",
        lines=(
            LineHealth(
                **{
                    "name": "frost", "ledger": LedgerHealth.of(ledger, pending_samples=0, pending_answers=1),
                    "source": "It reads /dev/ttyUSB0", "sinks": {"stdout": "It is taking answers."},
                    **line,
                }
            ),
        ),
    )  # fmt: skip


def test_a_living_device_is_described(args, tmp_path, capsys):
    health = a_health(
        reopened=2, bundle=BundleIdentity("frost", "1.0.0", "ab" * 32), provider="CPUExecutionProvider",
        last_answer="2025-01-28T23:00:00Z", journal=JournalHealth(1234, ("The last 3 bytes were cut off.",)),
        dead_letters="2 refused samples written, 0 told in sum.",
    )  # fmt: skip
    write_status(tmp_path / "state", health)
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        "OPERATIONAL: All checks passed.\n"
        f"  live, ready, not fresh; run r1, process {os.getpid()}, {health.time}\n"
        "  profile generic_x86\n"
        "\n"
        "line frost\n"
        "  bundle       frost 1.0.0 (abababababab) on CPUExecutionProvider\n"
        "  source       It reads /dev/ttyUSB0. Opened again 2 times.\n"
        "  samples      10 received = 8 accepted + 0 duplicate + 2 rejected (1 missing, 1 not_finite) + 0 dropped"
        " + 0 pending\n"
        "  answers      5 due = 4 published + 0 refused + 0 suppressed + 0 dropped + 1 pending\n"
        "  last answer  2025-01-28T23:00:00Z\n"
        "  sink stdout: It is taking answers.\n"
        "  journal      1234 bytes\n"
        "               The last 3 bytes were cut off.\n"
        "  dead letters 2 refused samples written, 0 told in sum.\n"
    )


def test_how_the_machine_stands_where_it_tells(args, tmp_path, capsys):
    state = MachineState(
        ("under voltage",), True, {"cpu": 61.25}, {"policy0": 1500.0}, {}, {"gpu": {"load_percent": 3}}
    )
    write_status(tmp_path / "state", replace(a_health(), machine=state))
    assert main(args) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[3] == "  machine 61.2 C at most (cpu), 1500 MHz, gpu 3 % busy; under voltage"
    assert not any(line.startswith("  machine") for line in describe(a_health()))


def test_no_answer_yet_is_of_this_start():
    assert "  last answer  none since this start" in describe(a_health())


def test_json_is_the_file(args, tmp_path, capsys):
    write_status(tmp_path / "state", a_health())
    args.json = True
    assert main(args) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == json.loads((tmp_path / "state" / "status.json").read_text())


def test_a_process_that_has_gone_is_said_and_1(args, tmp_path, capsys):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    write_status(tmp_path / "state", a_health(pid=gone.pid))
    assert main(args) == 1
    assert f"edge-runtime: process {gone.pid} has gone; what stands above is its last word" in capsys.readouterr().err


def test_a_stop_in_order_is_no_error(args, tmp_path, capsys):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    health = replace(a_health(pid=gone.pid, age_s=3600), live=False, stopped=True)
    write_status(tmp_path / "state", health)
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"stopped in order at {health.time}; until then OPERATIONAL: All checks passed.\n")
    assert err == ""


def test_a_stop_in_order_whose_number_another_process_has_now_is_one_still():
    health = replace(a_health(), live=False, stopped=True)
    assert why_gone(health, age_s=3600, is_alive=True) is None


def test_a_process_that_hangs_is_said_and_1(args, tmp_path, capsys):
    write_status(tmp_path / "state", a_health(age_s=3600))
    assert main(args) == 1
    assert "lives but wrote this 3600 s ago" in capsys.readouterr().err
    assert why_gone(a_health(), age_s=59, is_alive=True) is None


def test_no_status_is_said_and_1(args, capsys):
    assert main(args) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "status.json: found No such file or directory; expected the status of a running edge-runtime" in err


def test_a_folder_of_another_user_is_said_and_1(args, tmp_path, capsys, monkeypatch):
    """As root no folder is closed, so the system's word is made up."""
    closed = tmp_path / "state"

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    for name, real in (("stat", Path.stat), ("read_bytes", Path.read_bytes)):
        monkeypatch.setattr(
            Path, name, lambda path, real=real, **more: (refuse if path.parent == closed else real)(path, **more)
        )
    assert main(args) == 1
    assert "status.json: found Permission denied" in (err := capsys.readouterr().err)
    assert err.endswith("; ask as the user that it runs as\n")


def test_ledgers_that_do_not_add_up_are_said():
    ledger = Ledger()
    ledger.received = 1
    health = a_health(ledger=LedgerHealth.of(ledger, pending_samples=0, pending_answers=0))
    assert "               these do not add up: report this as a bug" in list(describe(health))
    assert "  bundle       none is proven" in list(describe(health))


def test_what_is_watched_captured_and_odd_is_told(args, tmp_path, capsys):
    health = a_health(
        oddities={"": {"rate_off": 3, "gap": 1}}, capture="5 samples kept. They hold measurements: x",
        levels={"": {"a": {"cusum": 8.25, "psi": 0.31}}, "north": {"b": {"cusum": 0.0}}},
    )  # fmt: skip
    write_status(tmp_path / "state", health)
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "  times        1 gap, 3 rate_off\n" in out
    assert "  watched      a: cusum 8.25, psi 0.31\n  watched      stream north, b: cusum 0\n" in out
    assert "  capture      5 samples kept. They hold measurements: x\n" in out


def test_a_stream_that_a_payload_has_named_writes_no_line_of_its_own(args, tmp_path, capsys):
    write_status(
        tmp_path / "state", a_health(oddities={"\x1b[31m\n": {"gap": 1}}, levels={"\x85\r": {"t": {"a": 1.0}}})
    )
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "  times        stream \\x1b[31m\\n: 1 gap\n" in out
    assert out.replace("\n", "").isprintable()
