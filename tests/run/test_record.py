import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_runtime.errors import DeviceError, UsageError
from edge_runtime.flow.recording import Record, RecordingReader
from edge_runtime.run.record import SYNC_NS, Recorded, RecordingFile, choose_line, record
from edge_runtime.run.waker import Waker
from edge_runtime.sources.port import Chunk
from edge_runtime.sources.replay_file import ReplayFile
from tests.rig.clock import HandClock
from tests.rig.pty_device import PtyDevice

CHUNKS = [
    Chunk(b"1,2\n3", 100, 0, 5, fresh=True),
    Chunk(b",4\n", 200, 1, 8),
    Chunk(b"x\n5,6\n", 300, 2, 30, lost_before=16),
]
RECORDS = [
    Record(100, b""), Record(100, b"1,2\n3"), Record(200, b",4\n"), Record(300, b""), Record(300, b"x\n5,6\n")
]  # fmt: skip


class Given:
    """A source that gives what it was handed, one chunk at a time, with an end or without."""

    name = "given"
    resumable = live = False
    reopened = 0

    def __init__(self, chunks, *, ends, clock):
        self.chunks = list(chunks)
        self.ends = ends
        self.clock = clock
        self.stopped = 0

    @property
    def waiting(self):
        return bool(self.chunks)

    @property
    def ended(self):
        return self.ends and not self.chunks

    def start(self, wake, position=0):
        self.wake = wake
        assert position == 0

    def take(self, max_bytes=65536):
        assert max_bytes
        self.clock.advance(0.4)
        self.wake.set()
        return [self.chunks.pop(0)] if self.chunks else []

    def acknowledge(self, position):
        self.acknowledged = position

    def due_ns(self):
        return None

    def status(self):
        return f"{len(self.chunks)} left"

    def stop(self):
        self.stopped += 1


@pytest.fixture
def clock():
    return HandClock()


def run(source, path, clock, *, stopping=None, limit_ns=None):
    said = []
    with RecordingFile(path) as file, Waker() as wake:
        done = record(
            source,
            file,
            wake=wake,
            stopping=stopping or threading.Event(),
            mono_ns=clock.mono_ns,
            limit_ns=limit_ns,
            say=said.append,
        )
    return done, said


def test_a_recording_holds_every_byte_time_and_beginning(tmp_path, clock):
    source = Given(CHUNKS, ends=True, clock=clock)
    done, said = run(source, tmp_path / "a.rec", clock)
    assert done == Recorded(3, 14, 16)
    assert RecordingReader().feed((tmp_path / "a.rec").read_bytes()) == RECORDS
    assert said == ["given: 2 left", "given: 1 left", "given: 0 left"]
    assert source.stopped == 1


def test_what_was_recorded_replays_the_same(tmp_path, clock):
    run(Given(CHUNKS, ends=True, clock=clock), tmp_path / "a.rec", clock)
    replay = ReplayFile(tmp_path / "a.rec", "max", wall_ns=clock.wall_ns, mono_ns=clock.mono_ns)
    replay.start(threading.Event())
    assert [(c.data, c.time_ns, c.fresh) for c in replay.take()] == [
        (c.data, c.time_ns, c.fresh or c.lost_before > 0) for c in CHUNKS
    ]
    run(ReplayFile(tmp_path / "a.rec", "max", wall_ns=clock.wall_ns, mono_ns=clock.mono_ns), tmp_path / "b.rec", clock)
    assert (tmp_path / "b.rec").read_bytes() == (tmp_path / "a.rec").read_bytes()


def test_it_ends_at_the_limit_and_keeps_what_waits(tmp_path, clock):
    done, _ = run(Given(CHUNKS, ends=False, clock=clock), tmp_path / "a.rec", clock, limit_ns=400_000_000)
    assert done.chunks == 3


def test_it_ends_when_told(tmp_path, clock):
    stopping = threading.Event()
    stopping.set()
    done, _ = run(Given(CHUNKS, ends=False, clock=clock), tmp_path / "a.rec", clock, stopping=stopping)
    assert done.chunks == 3


def test_it_is_on_disk_every_second(tmp_path, clock, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(clock.mono_ns()))
    run(Given(CHUNKS * 3, ends=True, clock=clock), tmp_path / "a.rec", clock)
    assert len(synced) == 5  # the first line, three while 3.6 s pass, the end
    assert max(b - a for a, b in itertools.pairwise(synced)) < 2 * SYNC_NS


def test_a_source_that_fails_is_stopped_and_the_file_stays_good(tmp_path, clock):
    source = Given(CHUNKS[:1], ends=False, clock=clock)
    source.due_ns = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        run(source, tmp_path / "a.rec", clock)
    assert source.stopped == 1
    assert RecordingReader().feed((tmp_path / "a.rec").read_bytes()) == RECORDS[:2]


def test_an_existing_file_is_refused(tmp_path):
    (tmp_path / "a.rec").write_bytes(b"precious")
    with pytest.raises(UsageError, match=r"found a file of that name; expected a new file; give another --out"):
        RecordingFile(tmp_path / "a.rec")
    assert (tmp_path / "a.rec").read_bytes() == b"precious"


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(DeviceError, match="No such file or directory"):
        RecordingFile(tmp_path / "nowhere" / "a.rec")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_plain_line(monkeypatch):
    monkeypatch.setattr(Path, "open", lambda _self, _mode, buffering: open("/dev/full", "wb", buffering))  # noqa: PTH123, SIM115
    with pytest.raises(DeviceError, match=r"No space left on device; .*make room"):
        RecordingFile(Path("a.rec"))


def test_the_line_is_chosen_by_name():
    def loaded(*names):
        lines = [SimpleNamespace(name=name) for name in names]
        return SimpleNamespace(config=SimpleNamespace(line=lines), path="device.toml")

    assert choose_line(loaded("a"), None).name == "a"
    assert choose_line(loaded("a", "b"), "b").name == "b"
    with pytest.raises(UsageError, match="found 2 lines and no --line; expected one of a, b"):
        choose_line(loaded("a", "b"), None)
    with pytest.raises(UsageError, match="found 'c'; expected one of a, b"):
        choose_line(loaded("a", "b"), "c")


CONFIG = """
schema = "edge-runtime/device/1"

[[line]]
name = "frost"
bundle = "frost"

[line.source]
kind = "serial"
port = "PORT"

[line.decode]
format = "csv"
columns = ["temperature", "humidity"]

[line.channels]
temperature = { field = "temperature", unit = "Cel" }

[[line.sink]]
kind = "stdout"
"""


def test_the_command_ends_cleanly_at_a_signal(tmp_path):
    with PtyDevice(tmp_path / "sensor") as device:
        (tmp_path / "device.toml").write_text(CONFIG.replace("PORT", str(device.link)))
        out = tmp_path / "a.rec"
        words = ["record", "--config", str(tmp_path / "device.toml"), "--out", str(out)]
        with subprocess.Popen(
            [sys.executable, "-m", "edge_runtime", *words], stderr=subprocess.PIPE, text=True
        ) as process:
            said = [process.stderr.readline()]
            while said[-1] and "open since" not in said[-1]:
                said.append(process.stderr.readline())
            assert "open since" in said[-1], said
            device.write(b"1,2\n3,4\n")
            recorded = threading.Event()
            for _ in range(1000):
                if out.stat().st_size > 60:
                    break
                recorded.wait(0.02)
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read()
            assert process.wait(20) == 0, said
        assert said.splitlines()[-1].startswith("recorded 8 bytes in ")
        assert b"".join(one.data for one in RecordingReader().feed(out.read_bytes())) == b"1,2\n3,4\n"
