"""A line that reads slaves, from the socket to the answer: every round is in its ledger, and its recording answers the same."""

import json
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.lane import Lane
from edge_runtime.run.record import RecordingFile
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.source import ReplaySource
from tests.rig.bundles import DEWPOINT
from tests.rig.modbus_slave import Slave, tcp_answer
from tests.rig.tcp_device import TcpDevice
from tests.rig.wait import until

HIGH, LOW = struct.unpack(">HH", struct.pack(">f", 99.5))
ROUNDS = 6


@pytest.fixture(scope="module")
def ready() -> ReadyModel:
    model = boot(DEWPOINT, make_setting()).ready
    assert model is not None
    return model


def line_of(url: str, out: Path) -> LineConfig:
    return LineConfig.model_validate({
        "name": "plant", "bundle": str(DEWPOINT), "sink": [{"kind": "jsonl", "path": str(out)}],
        "source": {"kind": "serial", "port": url, "modbus": {"mode": "tcp", "every_s": 0.1, "timeout_s": 10}},
        "decode": {"format": "modbus", "registers": [
            {"name": "t", "table": "input", "address": 0, "type": "int16", "scale": 0.1},
            {"name": "rh", "table": "input", "address": 1, "type": "uint16", "scale": 0.1},
            {"name": "p", "slave": 7, "table": "holding", "address": 100, "type": "float32", "word_order": "little"},
        ]},
        "channels": {
            "air_temperature": {"field": "t", "unit": "Cel"}, "relative_humidity": {"field": "rh", "unit": "%"},
            "station_pressure": {"field": "p", "unit": "kPa"},
        },
    })  # fmt: skip


def lane_of(line: LineConfig, ready: ReadyModel, state: Path, *, event_time: bool = False) -> Lane:
    state.mkdir()
    return Lane(
        line, ready, folder=state, state=state, run_id="r", wall_ns=time.time_ns, mono_ns=time.monotonic_ns,
        event_time=event_time,
    )  # fmt: skip


def answers(path: Path) -> list[float]:
    return [json.loads(line)["dew_point"]["value"] for line in path.read_text().splitlines()]


def test_each_round_is_counted_and_its_recording_answers_the_same(tmp_path: Path, ready: ReadyModel) -> None:
    asked = 0

    def answer(question: bytes) -> bytes:
        """Warmer with each question; the third one slave 1 refuses."""
        nonlocal asked
        asked += 1
        inputs = {} if asked == 3 else {0: 200 + asked, 1: 482}
        return tcp_answer({1: Slave(inputs=inputs), 7: Slave(holding={100: LOW, 101: HIGH})}, question)

    with TcpDevice() as device:

        def serve() -> None:
            with suppress(OSError, RuntimeError):
                device.accept()
                while question := device.read():
                    device.write(answer(question))

        threading.Thread(target=serve, daemon=True).start()
        wake = threading.Event()
        lane = lane_of(line_of(device.url, tmp_path / "a.jsonl"), ready, tmp_path / "live")
        with RecordingFile(tmp_path / "rec") as recording:
            take = lane.source.take

            def recorded() -> list:
                chunks = take()
                for chunk in chunks:
                    if not chunk.dropped:
                        recording.write(chunk)
                return chunks

            lane.source.take = recorded  # type: ignore[method-assign] # what it gives is kept on its way
            lane.start(wake)
            until(lambda: bool(lane.turn()) and lane.line.ledger.received >= ROUNDS, wake, "rounds")
            lane.stop()
    ledger = lane.line.ledger
    assert ledger.samples_dropped == {"exception": 1}
    assert ledger.accepted == ledger.published == ledger.received - 1
    assert ledger.adds_up(pending_samples=0, pending_answers=0)
    assert "slave 1 refuses 2 of input from 0 on with exception 2: it has no such register" in lane.health().source
    replay = line_of("socket://nowhere", tmp_path / "b.jsonl").model_copy(
        update={"source": ReplaySource(path=str(tmp_path / "rec"))}
    )
    again = lane_of(replay, ready, tmp_path / "again", event_time=True)
    again.start(wake)
    while not again.done:
        again.turn()
    again.stop()
    assert len(answers(tmp_path / "b.jsonl")) == ledger.accepted
    assert answers(tmp_path / "b.jsonl") == answers(tmp_path / "a.jsonl")
    assert len(set(answers(tmp_path / "a.jsonl"))) > 3


def test_a_line_that_asks_nobody_imports_nothing_of_it() -> None:
    code = (
        "import sys, edge_runtime.run.lane, edge_runtime.sources.serial_line\n"
        "print([name for name in sys.modules if 'modbus' in name and 'spec' not in name or 'asking' in name"
        " or 'trace' in name.split('.')[-1:] or 'scpi' in name])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
