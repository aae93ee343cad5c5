"""Names of files that no text can hold, and texts that no file can be called by."""

import os
import signal
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.config import load_config, status_folders
from edge_runtime.run.stop_signals import StopSignals


def test_a_state_folder_of_bytes_that_are_no_text_has_a_status() -> None:
    odd, other = Path(os.fsdecode(b"/x/\xff")), Path(os.fsdecode(b"/x/\xfe"))
    assert status_folders(odd, {})[0] != status_folders(other, {})[0]


def test_a_nul_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    path.write_text('schema = "edge-runtime/device/1"\n[[line]]\nbundle = "a\\u0000b"\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"u0000"):
        load_config(path)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal hangs up there")
def test_a_terminal_that_goes_away_stops_in_order_unless_a_parent_said_not_to() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    try:
        with StopSignals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.exit_code == 128 + signal.SIGHUP
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with StopSignals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert not signals.number
    finally:
        signal.signal(signal.SIGHUP, before)
