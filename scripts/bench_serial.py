"""What a serial line costs at 1 kHz with 100 bytes a frame, and while its device is unplugged; it judges goals, not code.

The device is a pty, so nothing is lost and no baud rate holds it back: a process of its own plays it. Shares are user and
system time of the process that reads or serves, nobody else's. Exit 70 if an answer was missing, else 0.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

# As the program itself sets them, before numpy and onnxruntime are imported.
os.environ |= {"ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

from pydantic import TypeAdapter

from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.gathering import gather_ns
from edge_runtime.sources.serial_line import SerialLine
from edge_runtime.spec.crc import CATALOGUE, crc_function
from edge_runtime.spec.framing import Framing
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.source import SerialSource

ROOT = Path(__file__).parents[1]
_WRONG = 70
_HZ, _FRAME_BYTES = 1000, 100
_WAIT_S = 30.0
# What the bundle's contract allows an answer, in ms.
_BUDGET_MS = 50.0
_BUNDLE = ROOT / "bundles/dewpoint"
_FILE = '{ kind = "jsonl", path = "answers.jsonl" }'
_FRAMING: TypeAdapter[Any] = TypeAdapter(Framing)
_CRC16 = crc_function(CATALOGUE["crc-16/modbus"][0])
_CRC_TOML = '{ name = "crc-16/modbus", byte_order = "little" }'
# Plays "frames" to a descriptor at a pace, until its end or for ever; a late write is made up for, as a UART would.
_PLAYER = """
import os, sys, time
fd, hz, seconds = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
size = int(sys.argv[4])
data = sys.stdin.buffer.read()
frames = [data[at:at + size] for at in range(0, len(data), size)]
sent = []
begun = time.monotonic()
for n in range(int(hz * seconds)):
    wait = begun + n / hz - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    sent.append(time.monotonic_ns())
    os.write(fd, frames[n % len(frames)])
print(*sent, flush=True)
"""


class Sender(NamedTuple):
    """One way to send the same three numbers in 100 bytes: its framing and decoder in TOML, and its frames."""

    name: str
    framing: str
    decode: str
    frames: list[bytes]


class Unplugged(NamedTuple):
    """While the device was away: processor share, lines logged in the worst 10 s; then seconds to the first answer."""

    share: float
    worst_lines: int
    resumed_s: float


class Latency(NamedTuple):
    """From the write of a frame to its answer in a reader's hands, in ms."""

    median: float
    p99: float


class NoAnswer(Exception):
    """An answer that was owed did not come: no figure of this run is worth anything."""


class Device:
    """The device's end of a pty behind a link; it can be unplugged and plugged in again."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.fd, self._held = -1, -1
        self.plug_in()

    def plug_in(self) -> None:
        """Another pts behind the same link; the held end keeps raw mode."""
        self.fd, self._held = os.openpty()
        tty.setraw(self._held)
        self.link.symlink_to(os.ttyname(self._held))

    def unplug(self) -> None:
        """The runtime's end hangs up and the link is gone."""
        self.link.unlink()
        os.close(self.fd)
        os.close(self._held)


def main() -> int:
    """Measure, print the figures and the goals."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--json", action="store_true", help="print JSON instead of text")
    words.add_argument("--seconds", type=float, default=10.0, help="of each stream (default: %(default)s)")
    words.add_argument(
        "--unplugged", type=float, default=60.0, help="seconds without the device (default: %(default)s)"
    )
    arguments = words.parse_args()
    senders = _senders()
    try:
        reading = {one.name: _measure_reading(one, arguments.seconds) for one in senders}
        whole = {one.name: _measure_whole(one, arguments.seconds) for one in senders}
        latencies = {one.name: _measure_latency(one, arguments.seconds) for one in senders}
        unplugged = _measure_unplugged(senders[0], arguments.unplugged)
    except NoAnswer as wrong:
        print(f"bench: {wrong}", file=sys.stderr)
        return _WRONG
    goals = [
        *((f"reader and framing, {name}, % of a core", 100 * share, 10.0) for name, share in reading.items()),
        *(
            (f"whole line with journal and file, {name}, % of a core", 100 * share, 25.0)
            for name, share in whole.items()
        ),
        *((f"from byte to answer, {name}, median ms", one.median, _BUDGET_MS) for name, one in latencies.items()),
        *((f"from byte to answer, {name}, p99 ms", one.p99, _BUDGET_MS) for name, one in latencies.items()),
        (f"unplugged {arguments.unplugged:g} s, % of a core", 100 * unplugged.share, 2.0),
        ("unplugged, log lines in the worst 10 s", float(unplugged.worst_lines), 1.0),
        ("plugged in again, seconds to the first answer", unplugged.resumed_s, 1.5),
    ]
    if arguments.json:
        print(json.dumps([{"name": name, "found": found, "limit": limit} for name, found, limit in goals], indent=2))
    else:
        print(
            f"serial line at {_HZ} Hz, {_FRAME_BYTES} bytes a frame, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        for name, found, limit in goals:
            print(f"{'met   ' if found <= limit else 'MISSED'} {name}: {found:.1f}, goal {limit:g}")
    return 0


def _senders() -> list[Sender]:
    samples = [(20 + n % 10 * 0.5, 40.0 + n % 20, 1000.0 + n % 7) for n in range(100)]
    rows = [json.dumps({"t": t, "rh": rh, "p": p}) for t, rh, p in samples]
    lines = [f'{row[:-1]}, "pad": "{"x" * (_FRAME_BYTES - len(row) - 12)}"}}\n'.encode() for row in rows]
    packets, stuffed = [], []
    for numbers in samples:
        body = struct.pack("<3f", *numbers).ljust(_FRAME_BYTES - 5, b"\x07")
        packets.append(b"\xaa\x55" + bytes([len(body)]) + body + _CRC16(body).to_bytes(2, "little"))
        body = struct.pack("<3f", *numbers).ljust(_FRAME_BYTES - 5, b"\x07")
        stuffed.append(b"\0" + _cobs(body + _CRC16(body).to_bytes(2, "little")) + b"\0")
    fields = ", ".join(f'{{ name = "{name}", type = "float32" }}' for name in ("t", "rh", "p"))
    pad = _FRAME_BYTES - 5 - 12
    decode = f'{{ format = "struct", byte_order = "little", fields = [{fields}, {{ type = "uint8", count = {pad} }}] }}'
    return [
        Sender("JSON lines", '{ kind = "lines" }', '{ format = "json" }', lines),
        Sender("packets with CRC-16", f'{{ kind = "packet", sync = "aa 55", length = {{ type = "uint8" }}, crc = {_CRC_TOML},'
               ' crc_covers = "payload" }', decode, packets),
        Sender("COBS with CRC-16", f'{{ kind = "cobs", crc = {_CRC_TOML} }}', decode, stuffed),
    ]  # fmt: skip


def _cobs(data: bytes) -> bytes:
    """Stuff fewer than 254 bytes."""
    return b"".join(bytes([len(block) + 1]) + block for block in data.split(b"\0"))


@contextmanager
def _player(
    device: Device, sender: Sender, seconds: float, stdout: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    sizes = set(map(len, sender.frames))
    if sizes != {_FRAME_BYTES}:
        raise NoAnswer(f"{sender.name}: frames of {sizes} bytes")
    command = [sys.executable, "-c", _PLAYER, str(device.fd), str(_HZ), str(seconds), str(_FRAME_BYTES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, pass_fds=(device.fd,)) as player:
        if player.stdin is None:
            raise TypeError("a child without a pipe")
        player.stdin.write(b"".join(sender.frames))
        player.stdin.close()
        try:
            yield player
        finally:
            player.kill()


def _measure_reading(sender: Sender, seconds: float) -> float:
    """The share of a core that the port's thread, its queue and the framing take in this process."""
    import tomllib  # noqa: PLC0415 -- of the bench, not of what it measures

    spec = _FRAMING.validate_python(tomllib.loads(f"framing = {sender.framing}")["framing"])
    with tempfile.TemporaryDirectory() as folder:
        device = Device(Path(folder) / "tty")
        source = SerialLine(
            SerialSource(port=str(device.link)),
            wall_ns=time.time_ns,
            mono_ns=time.monotonic_ns,
            gather_ns=gather_ns(_manifest(), timed_by_arrival=True),  # as for the whole line
        )
        framer, wake, frames = make_framing(spec, "utf-8"), threading.Event(), 0
        source.start(wake)
        time.sleep(0.5)
        before, begun = time.process_time(), time.monotonic()
        with _player(device, sender, seconds) as player:
            late = float("inf")
            while frames < int(_HZ * seconds) and time.monotonic() < late:
                if player.poll() is not None:
                    late = min(late, time.monotonic() + 1.0)
                wake.wait(0.1)
                wake.clear()
                for chunk in source.take():
                    frames += len(framer.feed(chunk.data))
            share = (time.process_time() - before) / (time.monotonic() - begun)
        source.stop()
        device.unplug()
    if frames != int(_HZ * seconds):
        raise NoAnswer(f"{sender.name}: {frames} frames of {int(_HZ * seconds)}")
    return share


def _measure_whole(sender: Sender, seconds: float) -> float:
    """The share of a core that `edge-runtime run` takes with this line; every frame but the first is answered.

    It is what the process takes until the last answer, over what the stream took: where the machine is so busy that
    answers come late, they still count.
    """
    with tempfile.TemporaryDirectory() as name, _running(Path(name), sender) as (child, device, _):
        answers, owed = Path(name) / "answers.jsonl", int(_HZ * seconds)
        before, begun = _processor_s(child.pid), time.monotonic()
        with _player(device, sender, seconds) as player:
            player.wait()
        took, found = time.monotonic() - begun, 0
        # The first line after an open may be half of one, so it is skipped; COBS is joined at its first zero byte.
        while found < owed - 1:
            if time.monotonic() > begun + took + _WAIT_S:
                raise NoAnswer(f"{sender.name}: {found} answers of {owed}")
            time.sleep(0.1)
            found = answers.read_bytes().count(b"\n") if answers.exists() else 0
        return (_processor_s(child.pid) - before) / took


def _measure_latency(sender: Sender, seconds: float) -> Latency:
    """What a frame waits for its answer on standard output; a run of its own, in which no processor time is taken."""
    with (
        tempfile.TemporaryDirectory() as name,
        _running(Path(name), sender, f'{_FILE}, {{ kind = "stdout" }}') as (child, device, _),
    ):
        got: list[int] = []
        reader = threading.Thread(target=_note_answers, args=(child, got), daemon=True)
        reader.start()
        with _player(device, sender, seconds, subprocess.PIPE) as player:
            sent = [int(word) for word in (player.stdout or io.BytesIO()).read().split()]
        until = time.monotonic() + _WAIT_S
        while len(got) < len(sent) - 1 and time.monotonic() < until:
            time.sleep(0.1)
        child.send_signal(signal.SIGTERM)
        reader.join()
        if not 0 <= len(sent) - len(got) <= 1:
            raise NoAnswer(f"{sender.name}: {len(got)} answers of {len(sent)}")
        waits = sorted((end - begin) / 1e6 for begin, end in zip(sent[len(sent) - len(got) :], got, strict=True))
        return Latency(waits[len(waits) // 2], waits[len(waits) * 99 // 100])


def _note_answers(child: subprocess.Popen[str], got: list[int]) -> None:
    if child.stdout is None:
        raise TypeError("a child without a pipe")
    while data := os.read(child.stdout.fileno(), 1 << 16):
        got.extend([time.monotonic_ns()] * data.count(b"\n"))


def _measure_unplugged(sender: Sender, seconds: float) -> Unplugged:
    """Pull the device, wait, plug it in and send on."""
    with tempfile.TemporaryDirectory() as name, _running(Path(name), sender) as (child, device, log):
        answers = Path(name) / "answers.jsonl"
        for frame in sender.frames[:10]:
            os.write(device.fd, frame)
        while not answers.exists() or not answers.stat().st_size:
            _check(child)
        device.unplug()
        before, begun = _processor_s(child.pid), time.monotonic()
        counts = [len(log)]
        while time.monotonic() < begun + seconds:
            time.sleep(1.0)
            counts.append(len(log))
        share = (_processor_s(child.pid) - before) / (time.monotonic() - begun)
        worst = max(late - early for early, late in zip(counts, counts[10:] or counts[-1:], strict=False))
        size = answers.stat().st_size
        device.plug_in()
        plugged = time.monotonic()
        at = 0
        while answers.stat().st_size == size:
            os.write(device.fd, sender.frames[at % len(sender.frames)])
            at += 1
            _check(child)
        return Unplugged(share, worst, time.monotonic() - plugged)


@contextmanager
def _running(
    folder: Path, sender: Sender, sinks: str = _FILE
) -> Iterator[tuple[subprocess.Popen[str], Device, list[float]]]:
    """`edge-runtime run` on a device, ready; the times of its log lines gather in the list."""
    device = Device(folder / "tty")
    (folder / "device.toml").write_text(_device_file(sender, sinks), encoding="utf-8")
    command = [sys.executable, "-m", "edge_runtime", "run", "--exit-on-refusal"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RUNTIME_DIRECTORY": str(folder / "run")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True) as child:
        log: list[float] = []
        threading.Thread(target=_gather, args=(child, log), daemon=True).start()
        try:
            until = time.monotonic() + _WAIT_S
            while not any(b"open since" in status.read_bytes() for status in folder.glob("run/*/status.json")):
                _check(child)
                if time.monotonic() > until:
                    raise NoAnswer("run did not open its port")
            yield child, device, log
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait()
            with contextlib.suppress(OSError):
                device.unplug()


def _gather(child: subprocess.Popen[str], log: list[float]) -> None:
    log.extend(time.monotonic() for _ in child.stderr or ())


def _check(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        raise NoAnswer(f"run ended with {child.returncode}")
    time.sleep(0.01)


def _processor_s(pid: int) -> float:
    """User and system time of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _manifest() -> Manifest:
    return Manifest.model_validate_json((_BUNDLE / "manifest.json").read_bytes())


def _device_file(sender: Sender, sinks: str) -> str:
    return f"""
schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "dewpoint"
bundle = "{_BUNDLE}"
source = {{ kind = "serial", port = "tty" }}
framing = {sender.framing}
decode = {sender.decode}
sink = [{sinks}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""


if __name__ == "__main__":
    sys.exit(main())
