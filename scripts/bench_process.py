"""What a fresh process costs: its start, its boot and its memory, beside a bare script; it judges nothing."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench_line import FROST_UNITS, ROOT, STATION, WrongAnswer

_WAIT_S = 30.0
# A script's author may not know these; with them the bare script is as fast and as small as it can be.
_ENVIRONMENT = os.environ | {
    "ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip
_BARE = """
import onnxruntime, sys
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
sys.stdin.read()
"""
_PROGRAM = [sys.executable, "-m", "edge_runtime"]


class Starts(NamedTuple):
    """Milliseconds of a whole process, one number a round: an empty program, `--help`, a bare script, a self-test."""

    nothing: list[float]
    help: list[float]
    bare: list[float]
    selftest: list[float]

    @property
    def added_ms(self) -> float:
        """What the self-test takes beyond the bare script started next to it, in the middle."""
        return median(ours - bare for ours, bare in zip(self.selftest, self.bare, strict=True))


class Memory(NamedTuple):
    """Resident MB (10^6 bytes): of the bare script with its session, of `run` after boot, after the stream, at most."""

    bare: float
    booted: float
    served: float
    peak: float


def measure_starts(rounds: int) -> tuple[Starts, Starts]:
    """Start each in turn, so many times, after one start that nobody counts; elapsed and processor time."""
    commands = (
        [sys.executable, "-c", "pass"],
        [*_PROGRAM, "--help"],
        [sys.executable, "-c", _BARE, str(_frost_model())],
        [*_PROGRAM, "selftest", "--bundle", str(ROOT / "bundles/frost")],
    )
    elapsed, processor = Starts([], [], [], []), Starts([], [], [], [])
    with _compiled() as environment:
        for turn in range(rounds + 1):
            for command, wall, cpu in zip(commands, elapsed, processor, strict=True):
                took = _start(command, environment)
                if turn:
                    wall.append(took[0])
                    cpu.append(took[1])
    return elapsed, processor


def measure_memory() -> Memory:
    """Feed a real `edge-runtime run` the station stream through a pipe and read what the kernel says of it."""
    bare = [sys.executable, "-c", _BARE, str(_frost_model())]
    with _child(bare, ROOT) as child:
        time.sleep(1.0)  # it says nothing; its memory stands still long before
        bare_mb = _status_mb(child.pid, "VmRSS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "device.toml").write_text(_device_file(), encoding="utf-8")
        with _child([*_PROGRAM, "run", "--exit-on-refusal"], folder) as child:
            _wait_until_ready(child, folder)
            booted = _status_mb(child.pid, "VmRSS")
            rows = STATION.read_bytes()
            if child.stdin is None or child.stdout is None:
                raise TypeError("a child without pipes")
            child.stdin.write(rows)
            child.stdin.flush()
            owed = rows.count(b"\n") - 1 - 23
            answers = [child.stdout.readline() for _ in range(owed)]
            if not all(answers):
                raise WrongAnswer(f"run gave {sum(map(bool, answers))} answers of {owed}")
            return Memory(bare_mb, booted, _status_mb(child.pid, "VmRSS"), _status_mb(child.pid, "VmHWM"))


def _start(command: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (time.perf_counter() - begun) * 1e3, cpu_s * 1e3


@contextmanager
def _compiled() -> Iterator[Mapping[str, str]]:
    """An environment in which Python keeps what it compiled, as an installation does, without writing into the tree."""
    with tempfile.TemporaryDirectory() as folder:
        yield _ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}


@contextmanager
def _child(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command, cwd=folder, env=_ENVIRONMENT | {"PYTHONPATH": str(ROOT), "RUNTIME_DIRECTORY": str(folder)}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        try:
            yield child
        finally:
            child.terminate()


def _wait_until_ready(child: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + _WAIT_S
    while not any(b'"OPERATIONAL"' in status.read_bytes() for status in folder.glob("*/status.json")):
        if child.poll() is not None or time.monotonic() > until:
            raise WrongAnswer("run did not get ready")
        time.sleep(0.02)
    time.sleep(0.2)


def _status_mb(pid: int, field: str) -> float:
    words = next(
        line for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines() if line.startswith(field)
    )
    return int(words.split()[1]) * 1024 / 1e6


def _frost_model() -> Path:
    return next((ROOT / "bundles/frost").glob("model*.onnx"))


def _device_file() -> str:
    channels = "\n".join(
        f'{channel} = {{ field = "{field}", unit = "{unit}" }}' for channel, (field, unit) in FROST_UNITS.items()
    )
    return f"""
schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "frost"
bundle = "{ROOT / "bundles/frost"}"
source = {{ kind = "stdin" }}
decode = {{ format = "csv", columns = "header", time = {{ field = "time", format = "iso8601" }} }}
[line.channels]
{channels}
[[line.sink]]
kind = "stdout"
"""
