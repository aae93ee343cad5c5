"""One stream through one line, served once whole and again under kill -9; it knows no model and no module of the program."""

import itertools
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.proof.station import answers, call, device_file, environment, ledger, program

MAGIC = b"edge-runtime-recording/1\n"
PATIENCE_S = 60
JSONL = '{ kind = "jsonl", path = "answers.jsonl" }'
STDOUT = '{ kind = "stdout" }'
DURABLE = 'enabled = "on", sync_s = 0'
SMALL = 'enabled = "on", max_bytes = 65536'


def recording(data: bytes, seed: int, pace_ns: int, longest: int) -> bytes:
    """``data`` in pieces of random length, ``pace_ns`` apart, as `record` would have written it."""
    chance = random.Random(seed)
    records, time_ns = [MAGIC], 1_738_022_400_000_000_000
    while data:
        size = chance.randint(1, longest)
        piece, data = data[:size], data[size:]
        records.append(b"%d %d\n%b\n" % (time_ns, len(piece), piece))
        time_ns += pace_ns
    return b"".join(records)


def killed_run(folder: Path, moments: Iterator[float], kills: int) -> tuple[int, list[bytes]]:
    """Run the device file in ``folder``, killing each process after a moment, until one ends by itself.

    Gives how many were killed while they ran, and what each wrote to standard output.
    """
    landed, outputs = 0, []
    command = program("run", "--exit-on-refusal", "--config", "device.toml")
    for turn in itertools.count():
        with (folder / f"out.{turn}").open("wb") as out, (folder / "errors").open("ab") as errors:
            process = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=out, stderr=errors)
            try:
                code = process.wait(timeout=next(moments) if landed < kills else PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
                landed += 1
        outputs.append((folder / f"out.{turn}").read_bytes())
        assert code in (0, -signal.SIGKILL), (folder / "errors").read_text()
        if code == 0:
            return landed, outputs
    raise AssertionError


def comparable(rows: list[dict]) -> list[str]:
    """What must not depend on restarts: everything but the process's own id and the flag that says it restarted."""
    return [
        json.dumps({**one, "run": None, "flags": [flag for flag in one["flags"] if flag != "restarted"]})
        for one in rows
    ]


def moments(seed: int, boot_s: float, stream_s: float) -> Iterator[float]:
    """Mostly while serving, now and then while booting."""
    chance = random.Random(seed)
    while True:
        yield chance.uniform(0.05, boot_s) if chance.random() < 0.15 else boot_s + chance.uniform(0, 0.4) * stream_s


class Trial:
    """One stream, served once without kills, to be served again with them; ``device`` writes the line's device file."""

    def __init__(
        self,
        folder: Path,
        data: bytes,
        *,
        journal: str,
        sinks=(JSONL,),
        seed=1,
        pace_ms=4.0,
        longest=120,
        device: Callable[..., Path] = device_file,
    ):
        self.folder, self.journal, self.sinks, self.device = folder, journal, sinks, device
        self.stream = recording(data, seed, round(pace_ms * 1e6), longest)
        self.stream_s = self.stream.count(b"\n") / 3 * pace_ms / 1000
        plain = self.make("plain", speed='"max"')
        begun = time.monotonic()
        done = call(plain, "run", "--exit-on-refusal", "--config", "device.toml")
        self.boot_s = time.monotonic() - begun
        assert done.returncode == 0, done.stderr
        self.expected = comparable(answers((plain / "answers.jsonl").read_bytes() if JSONL in sinks else done.stdout))
        self.book = ledger(plain)

    def make(self, name: str, speed: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        (folder / "stream.rec").write_bytes(self.stream)
        source = f'{{ kind = "replay", path = "stream.rec", speed = {speed} }}'
        self.device(folder, source=source, sinks=self.sinks, journal=self.journal)
        return folder

    def kill(self, kills: int, seed: int) -> int:
        """Serve until ``kills`` were landed, in as many streams as that takes; give how many streams."""
        for turn in itertools.count(1):
            folder = self.make(f"killed {turn}", speed="1")
            landed, outputs = killed_run(folder, moments(seed + turn, self.boot_s, self.stream_s), kills)
            self.check(folder, outputs)
            kills -= landed
            if kills <= 0:
                return turn
        raise AssertionError

    def check(self, folder: Path, outputs: list[bytes]) -> None:
        if JSONL in self.sinks:
            assert comparable(answers((folder / "answers.jsonl").read_bytes())) == self.expected
        if STDOUT in self.sinks:
            whole_lines = [line for output in outputs for line in output.split(b"\n")[:-1]]
            given = comparable([json.loads(line) for line in whole_lines])
            assert sorted(set(given), key=given.index) == self.expected
        assert ledger(folder) == self.book
        assert "Traceback" not in (folder / "errors").read_text()
