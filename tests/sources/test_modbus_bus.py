"""A Modbus source at real ends: a pty with two slaves, a TCP socket, and the server of pymodbus, which shares no code with us."""

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.recording import RecordingReader
from edge_runtime.run.record import RecordingFile, record
from edge_runtime.sources import make_source
from edge_runtime.sources.port import Chunk, Source
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.reading import Reading
from tests.rig.modbus_slave import Slave, rtu_answer, tcp_answer
from tests.rig.pty_device import PtyDevice
from tests.rig.tcp_device import TcpDevice
from tests.rig.wait import until

FLOAT = struct.unpack(">HH", struct.pack(">f", 21.5))
BUS = {
    1: Slave(inputs=dict(enumerate(FLOAT, 100)) | {102: 7}, holding={7: 65_511}),
    2: Slave(coils={3: 1}, discretes={0: 0}),
}
REGISTERS = [
    {"name": "t", "table": "input", "address": 100, "type": "float32", "word_order": "big"},
    {"name": "n", "table": "input", "address": 102, "type": "uint16"},
    {"name": "level", "table": "holding", "address": 7, "type": "int16", "scale": 0.1},
    {"name": "valve", "slave": 2, "table": "coil", "address": 3, "type": "bool"},
    {"name": "alarm", "slave": 2, "table": "discrete", "address": 0, "type": "bool"},
]
VALUES = (21.5, 7.0, -2.5, 1.0, 0.0)


def line_of(port: str, mode: str, **modbus: Any) -> LineConfig:
    return LineConfig.model_validate({
        "name": "plant", "bundle": "b", "sink": [{"kind": "stdout"}],
        "source": {"kind": "serial", "port": port, "reopen_max_s": 0.05, "modbus": {"mode": mode, "every_s": 0.1} | modbus},
        "decode": {"format": "modbus", "registers": REGISTERS},
        "channels": {one["name"]: {"field": one["name"], "unit": "1"} for one in REGISTERS},
    })  # fmt: skip


def readings(line: LineConfig, data: bytes) -> list[Any]:
    bound = {name: ChannelBinding(field=name, unit="1") for name in line.channels}
    decoder = make_decoder(line.decode, bound)
    return [decoder.decode(frame) for frame in make_framing(line.framing, "latin-1").feed(data)]  # type: ignore[arg-type]


def until_samples(source: Source, wake: threading.Event, count: int) -> list[Chunk]:
    chunks: list[Chunk] = []

    def taken() -> bool:
        chunks.extend(source.take())
        return sum(not chunk.dropped for chunk in chunks) >= count

    until(taken, wake, f"{count} samples ({source.status()})")
    return chunks


@contextmanager
def reading(line: LineConfig) -> Iterator[tuple[Source, threading.Event]]:
    wake = threading.Event()
    source = make_source(line.source, wall_ns=time.time_ns, mono_ns=time.monotonic_ns)
    source.start(wake)
    try:
        yield source, wake
    finally:
        source.stop()


@contextmanager
def answering(
    read: Callable[[], bytes], write: Callable[[bytes], None], answer: Callable[[bytes], bytes]
) -> Iterator[None]:
    stopping = threading.Event()

    def serve() -> None:
        with suppress(OSError, TimeoutError, RuntimeError):
            while not stopping.is_set():
                asked = read()
                if not asked:
                    return
                write(answer(asked))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    stopping.set()


def test_two_slaves_on_a_serial_bus(tmp_path: Path) -> None:
    with PtyDevice(tmp_path / "bus") as device:
        line = line_of(str(device.link), "rtu")
        with (
            answering(device.read, device.write, lambda asked: rtu_answer(BUS, asked)),
            reading(line) as (source, wake),
        ):
            chunks = until_samples(source, wake, 3)
    assert [one.values for one in readings(line, b"".join(chunk.data for chunk in chunks))] == [VALUES] * 3
    assert not any(chunk.fresh or chunk.dropped for chunk in chunks)


def test_a_round_over_tcp_again_after_the_server_went() -> None:
    with TcpDevice() as device:
        line = line_of(device.url, "tcp")
        with reading(line) as (source, wake):
            for _ in range(2):
                device.accept()
                with answering(device.read, device.write, lambda asked: tcp_answer(BUS, asked)):
                    chunks = until_samples(source, wake, 2)
                    assert readings(line, b"".join(chunk.data for chunk in chunks))[-1].values == VALUES
                    device.reset()


def test_what_was_recorded_replays_the_same(tmp_path: Path) -> None:
    with TcpDevice() as device:
        line = line_of(device.url, "tcp", timeout_s=0.1)
        asked_before = []

        def answer(asked: bytes) -> bytes:
            asked_before.append(asked)
            # The first round's last question brings a refusal: a sample that did not come leaves nothing in a recording.
            return tcp_answer({} if len(asked_before) == 4 else BUS, asked) or asked[:5] + bytes(
                (3, asked[6], asked[7] | 128, 4)
            )

        wake, stopping = threading.Event(), threading.Event()
        source = make_source(line.source, wall_ns=time.time_ns, mono_ns=time.monotonic_ns)
        taken = 0

        def say(_: str) -> None:
            nonlocal taken
            taken += 1

        def mono_ns() -> int:
            if (tmp_path / "rec").stat().st_size > 400:
                stopping.set()
            return time.monotonic_ns()

        def serve() -> None:
            device.accept()
            with suppress(OSError, RuntimeError):
                while asked := device.read():
                    device.write(answer(asked))

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        with RecordingFile(tmp_path / "rec") as file:
            done = record(source, file, wake=wake, stopping=stopping, mono_ns=mono_ns, limit_ns=None, say=say)
    records = RecordingReader().feed((tmp_path / "rec").read_bytes())
    assert len(records) == done.chunks > 2
    assert all(data for _, data in records)
    assert [one.values for one in readings(line, b"".join(data for _, data in records))] == [VALUES] * done.chunks


@contextmanager
def pymodbus_server(framer: str) -> Iterator[str]:
    """A server of pymodbus on a free port of the loopback interface, in a loop of its own; gives the port's URL."""
    from pymodbus import FramerType
    from pymodbus.server import ModbusTcpServer
    from pymodbus.simulator import DataType, SimData, SimDevice

    def bits(address: int, *values: bool) -> list[SimData]:
        return [SimData(address, values=list(values), datatype=DataType.BITS)]

    def registers(address: int, *values: int) -> list[SimData]:
        return [SimData(address, values=list(values), datatype=DataType.REGISTERS)]

    first = SimDevice(1, simdata=(bits(0, False), bits(0, False), registers(7, 65_511), registers(100, *FLOAT, 7)))
    second = SimDevice(2, simdata=(bits(3, True), bits(0, False), registers(0, 0), registers(0, 0)))
    started, made = threading.Event(), []

    async def serve() -> None:
        server = ModbusTcpServer([first, second], framer=FramerType(framer), address=("127.0.0.1", 0))
        await server.listen()
        made.extend([asyncio.get_running_loop(), server, server.transport.sockets[0].getsockname()[1]])
        started.set()
        await server.serving

    def run() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(20)
    loop, server, port = made
    try:
        yield f"socket://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.shutdown(), loop).result(20)
        thread.join(20)


@pytest.mark.parametrize(("mode", "framer"), [("tcp", "socket"), ("rtu", "rtu")])
def test_another_program_answers_as_we_read(mode: str, framer: str) -> None:
    with pymodbus_server(framer) as url:
        line = line_of(url, mode)
        with reading(line) as (source, wake):
            chunks = until_samples(source, wake, 2)
    for one in readings(line, b"".join(chunk.data for chunk in chunks)):
        assert isinstance(one, Reading)
        assert one.values == VALUES
