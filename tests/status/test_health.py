import json
import os
import stat
from dataclasses import replace

import pytest

from edge_runtime.errors import TemporaryError
from edge_runtime.flow.ledger import Ledger
from edge_runtime.spec.machine_state import MachineState
from edge_runtime.status import health as health_module
from edge_runtime.status.health import (
    BundleIdentity,
    Health,
    JournalHealth,
    LedgerHealth,
    LineHealth,
    read_status,
    timestamp,
    write_status,
)


def a_ledger() -> Ledger:
    ledger = Ledger()
    ledger.received, ledger.accepted, ledger.due, ledger.published = 10, 7, 5, 4
    ledger.rejected["not_finite"] = 2
    return ledger


def a_health() -> Health:
    line = LineHealth(
        name="frost",
        ledger=LedgerHealth.of(a_ledger(), pending_samples=1, pending_answers=1),
        source="It reads /dev/ttyUSB0.",
        sinks={"stdout": "It is taking answers."},
        reopened=3,
        bundle=BundleIdentity("frost", "1.0.0", "ab" * 32),
        provider="CPUExecutionProvider",
        last_answer="2025-01-28T23:00:00Z",
        journal=JournalHealth(1234, ("The last 3 bytes were cut off.",)),
        dead_letters="2 refused samples written, 0 told in sum.",
    )
    return Health(
        time="2025-01-28T23:00:01Z", pid=os.getpid(), run_id="r1", state="OPERATIONAL", reason="All checks passed.",
        live=True, ready=True, fresh=False, profile="generic_x86", lines=(line,),
    )  # fmt: skip


def test_reads_back_what_was_written(tmp_path):
    write_status(tmp_path, a_health())
    assert read_status(tmp_path) == a_health()
    raw = json.loads((tmp_path / "status.json").read_text())
    assert (raw["live"], raw["ready"], raw["fresh"], raw["state"]) == (True, True, False, "OPERATIONAL")
    assert raw["lines"][0]["ledger"]["counts"]["samples"]["rejected"] == {"not_finite": 2}
    assert raw["lines"][0]["bundle"] == {"id": "frost", "version": "1.0.0", "digest": "ab" * 32}
    assert [each.name for each in tmp_path.iterdir()] == ["status.json"]


def test_how_the_machine_stands_comes_back_as_it_was(tmp_path):
    state = MachineState(
        ("under voltage",), True, {"cpu": 61.25}, {"policy0": 1500.0}, {"VDD_IN": 4.8}, {"gpu": {"mhz": 3.0}}
    )
    health = replace(a_health(), machine=state)
    write_status(tmp_path, health)
    assert read_status(tmp_path) == health
    assert json.loads(health.as_message({}))["machine"]["temperatures"] == {"cpu": 61.25}


def test_a_ledger_says_whether_it_adds_up():
    assert LedgerHealth.of(a_ledger(), pending_samples=1, pending_answers=1).adds_up
    assert not LedgerHealth.of(a_ledger(), pending_samples=0, pending_answers=1).adds_up
    assert not LedgerHealth.of(a_ledger(), pending_samples=1, pending_answers=0).adds_up


def test_everybody_may_read_it_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        write_status(tmp_path, a_health())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "status.json").stat().st_mode) == 0o644


def test_a_reader_never_sees_half_of_it(tmp_path, monkeypatch):
    write_status(tmp_path, a_health())
    whole = (tmp_path / "status.json").read_bytes()

    def fail(_health: Health) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(health_module.Health, "as_json", fail)
    with pytest.raises(TemporaryError, match="found No space left on device; expected a folder that takes the status"):
        write_status(tmp_path, a_health())
    assert (tmp_path / "status.json").read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == ["status.json"]


def test_no_status_is_said_in_one_line(tmp_path):
    with pytest.raises(TemporaryError) as refused:
        read_status(tmp_path)
    assert str(refused.value).startswith(
        f"{tmp_path}/status.json: found No such file or directory; expected the status"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"time": "x"}'])
def test_a_status_of_another_shape_is_said_in_one_line(tmp_path, content):
    (tmp_path / "status.json").write_bytes(content)
    with pytest.raises(TemporaryError, match="expected the status as this release writes it") as refused:
        read_status(tmp_path)
    assert "\n" not in str(refused.value)


def test_timestamps_are_whole_seconds():
    assert timestamp(1_738_105_200_999_999_999) == "2025-01-28T23:00:00Z"
