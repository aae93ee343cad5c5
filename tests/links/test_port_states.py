"""What stands in the way of opening a port, told without opening it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_runtime.links import serial_port
from edge_runtime.links.serial_port import port_states


def test_a_port_is_told_with_its_rights_and_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "ttyX"
    device.touch(0o600)
    port = SimpleNamespace(device=str(device), vid=0x403, pid=0x6001, serial_number="A1", interface=None)
    monkeypatch.setattr(serial_port, "_comports", lambda: [port])
    (state,) = port_states()
    assert state.device == str(device)
    assert state.description == f"{device} vid=0x0403 pid=0x6001 serial_number=A1"
    assert (state.permitted, state.holders) == (True, "")
    assert state.group
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not port_states()[0].permitted
