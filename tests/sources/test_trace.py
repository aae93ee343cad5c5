"""A trace of serial ports: both directions with their times, bounded, for its owner alone, and never in the way."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_runtime.errors import DeviceError, UsageError
from edge_runtime.run.tracing import open_trace
from edge_runtime.sources.serial_line import SerialLine
from edge_runtime.sources.trace import SHOWN_BYTES, Trace
from edge_runtime.spec.source import ReplaySource, SerialSource
from tests.rig.clock import HandClock
from tests.rig.pty_device import PtyDevice
from tests.rig.tcp_device import TcpDevice
from tests.rig.wait import until

CLOCK = HandClock(wall_ns=1_796_071_018_102_334_000)


def traced(path: Path, **keys: int) -> Trace:
    return Trace(path, wall_ns=CLOCK.wall_ns, **keys)


def test_what_is_said_and_told_stands_there_with_its_time(tmp_path: Path) -> None:
    trace = traced(tmp_path / "t")
    trace.note("serial COM3", "opening")
    trace.chunk("serial COM3", ">", b"READ?\n")
    trace.chunk("serial COM3", "<", b"+1.5\r\n\x1b[2J" + bytes(range(250, 256)) + b"and on")
    assert (tmp_path / "t").read_text().splitlines() == [
        "2026-11-30T20:36:58.102334Z serial COM3 * opening",
        "2026-11-30T20:36:58.102334Z serial COM3 > 52 45 41 44 3f 0a                                READ?.",
        "2026-11-30T20:36:58.102334Z serial COM3 < 2b 31 2e 35 0d 0a 1b 5b 32 4a fa fb fc fd fe ff  +1.5...[2J......",
        "2026-11-30T20:36:58.102334Z serial COM3 < 61 6e 64 20 6f 6e                                and on",
    ]
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o600


def test_a_long_chunk_is_shown_in_part(tmp_path: Path) -> None:
    traced(tmp_path / "t").chunk("a", "<", bytes(SHOWN_BYTES + 5))
    lines = (tmp_path / "t").read_text().splitlines()
    assert len(lines) == SHOWN_BYTES // 16 + 1
    assert lines[-1].endswith("a < ... and 5 bytes more")


def test_it_keeps_to_its_size_over_restarts_and_the_newest_stays(tmp_path: Path) -> None:
    for _ in range(3):
        trace = traced(tmp_path / "t", max_bytes=4000)
        for at in range(100):
            trace.note("a", f"{at:03}")
        files = sorted(tmp_path.iterdir())
        assert [one.name for one in files] == ["t", "t.1"]
        assert sum(one.stat().st_size for one in files) <= 4000
        assert (tmp_path / "t").read_text().endswith("a * 099\n")
    assert not trace.trouble


def test_a_full_disk_ends_the_trace_and_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced(tmp_path / "t")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    trace.note("a", "b")
    trace.note("a", "c")
    assert trace.trouble == "the trace ended: No space left on device"
    line = SerialLine(SerialSource(port="COM3"), wall_ns=CLOCK.wall_ns, mono_ns=CLOCK.mono_ns, trace=trace)
    assert line.status() == "not started; the trace ended: No space left on device"


def test_standard_error_takes_it_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Trace(None, wall_ns=CLOCK.wall_ns).chunk("a", "<", b"x")
    assert capfdbinary.readouterr().err.startswith(b"2026-11-30T20:36:58.102334Z a < 78 ")


def test_where_it_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"--trace .*none/t: found No such file or directory; expected a place"):
        traced(tmp_path / "none" / "t")


def test_without_a_port_there_is_nothing_to_trace(tmp_path: Path) -> None:
    replay = SimpleNamespace(source=ReplaySource(path="a"))
    with pytest.raises(UsageError, match="--trace: found no line with a serial port"):
        open_trace("-", [replay])  # type: ignore[list-item] # as much of a line as it looks at
    assert open_trace(None, [replay]) is None  # type: ignore[list-item]
    port = SimpleNamespace(source=SerialSource(port="COM3"))
    assert open_trace(str(tmp_path / "t"), [replay, port]) is not None  # type: ignore[list-item]


@pytest.mark.parametrize("over_tcp", [False, True])
def test_a_port_is_traced_from_its_opening_on(tmp_path: Path, over_tcp: bool) -> None:
    with PtyDevice(tmp_path / "port") as pty, TcpDevice() as tcp:
        device = tcp if over_tcp else pty
        spec = SerialSource(
            port=tcp.url if over_tcp else str(pty.link), identify={"expect": "METER"},
            poll={"send": "READ?\n", "every_s": 10, "timeout_s": 1},
        )  # fmt: skip
        wake, clock = threading.Event(), HandClock()
        line = SerialLine(spec, wall_ns=clock.wall_ns, mono_ns=clock.mono_ns, trace=traced(tmp_path / "t"))
        line.start(wake)
        if over_tcp:
            tcp.accept()
        assert device.read() == b"*IDN?\n"
        device.write(b"METER\n")
        assert device.read() == b"READ?\n"
        device.write(b"7\n")
        until(lambda: line.waiting, wake, "an answer")
        line.stop()
    rows = [row.split(" ", 1)[1] for row in (tmp_path / "t").read_text().splitlines()]
    told = [row.removeprefix(f"serial {spec.port} ") for row in rows]
    assert told[0] == "* opening"
    shown = [(row[0], row.rsplit("  ", 1)[1]) for row in told if row[0] != "*"]
    assert shown == [(">", "*IDN?."), ("<", "METER."), (">", "READ?."), ("<", "7.")]
    assert told[3].startswith(f"* {spec.port} open since ")
    assert told[-1] == "* stopped"
