"""A device at work in a plant where things break: the program, its broker behind a link, a load, a serial port."""

import itertools
import json
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Self

from tests.proof.mqtt_kills import Load
from tests.proof.mqtt_lines import HEAD, KINDS, broker_text, line_text, pipe
from tests.proof.station import answers, environment, ledgers, program
from tests.proof.witness import Witness
from tests.rig.broker import Broker
from tests.rig.mqtt_client import Client
from tests.rig.mqtt_proxy import MqttProxy
from tests.rig.pty_device import PtyDevice

PATIENCE_S = 60.0
SAVING = "autosave_interval 1\n"
"""A broker that is killed then finds its sessions again as they were up to a second before, which it had confirmed otherwise."""
ON_THEIR_WAY = 64 + 16
"""Answers that may go out again after a loss, of each line: docs/mqtt.md."""
SERIAL_HZ = 20
SERIAL_JOURNAL = "journal = { max_bytes = 65536 }\n[line.channels]"


class Field:
    """Serves lines of ``kinds`` (see `mqtt_lines`), and with ``serial`` one more, from a pty into a file.

    To be used in a ``with`` block. ``check`` is to be called in it, once.
    """

    def __init__(
        self,
        folder: Path,
        kinds: list[str],
        *,
        protocol: str,
        rate_hz: float,
        keepalive_s: int = 5,
        queue: int = 0,
        serial: bool = False,
    ) -> None:
        self.keepalive_s = keepalive_s
        self.kills = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._kinds = folder, kinds
        self.witness = Witness(kinds)
        self.port: _Port | None = None
        with ExitStack() as doors:
            self._errors = doors.enter_context((folder / "errors").open("ab"))
            self.broker = doors.enter_context(Broker(folder / "mosquitto", f"max_queued_messages {queue}\n{SAVING}"))
            publisher = doors.enter_context(Client(self.broker.port, name="publisher"))
            self.proxy = doors.enter_context(MqttProxy(self.broker.port, self.witness.tell))
            if serial:
                self.port = _Port(folder / "port")
                doors.callback(self.port.close)
            (folder / "device.toml").write_text(self._device(protocol))
            self.start()
            doors.callback(self._end)
            self.back_s(0, time.monotonic())
            self._load = Load(publisher, {name: KINDS[name].payload for name in kinds}, rate_hz)
            doors.callback(self._load.stop, 0)
            self._doors = doors.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._doors.close()

    def start(self) -> None:
        """Start the program."""
        command = program("run", "--exit-on-refusal", "--config", "device.toml")
        self._process = subprocess.Popen(command, cwd=self._folder, env=environment(self._folder), stderr=self._errors)

    def kill(self) -> None:
        """Kill the program with -9."""
        self.kills += 1
        self._end()

    def fill_disk(self) -> None:
        """Let the program write to no file: its disk has no room."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free_disk(self) -> None:
        """Let it write again."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def back_s(self, before: int, since: float) -> float:
        """Wait for one more welcome than the ``before`` ones, and say how much later than ``since`` it was."""
        self._until(lambda: len(self.witness.welcomes) > before, "a welcome of the broker")
        return max(0.0, self.witness.welcomes[before] - since)

    def flows(self) -> None:
        """Wait until every line has answered a sample that was sent later than now."""
        marks = {name: self._newest(name) for name in self._kinds}
        self._until(
            lambda: all(self.witness.lines[name].newest > mark for name, mark in marks.items()), "an answer of every line"
        )  # fmt: skip

    def sends(self, count: int) -> None:
        """Wait until so many more samples have been published."""
        due = sum(map(self.sent, self._kinds)) + count
        self._until(lambda: sum(map(self.sent, self._kinds)) >= due, f"{count} more samples")

    def sent(self, name: str) -> int:
        """How many samples of a line have been published."""
        return len(self._load.sent[name])

    @property
    def descriptors(self) -> int:
        """How many files and sockets the program has open."""
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    @property
    def rss_bytes(self) -> int:
        """What the program holds of memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def check(self, losses: int) -> str:
        """End the load, drain, stop the program in order, and hold every ledger to what was seen; gives the figures.

        ``losses`` is how often a connection or a process may have been lost.
        """
        self.flows()
        self._load.stop(PATIENCE_S)
        lasts = [(self.witness.lines[name], self._newest(name)) for name in self._kinds]
        self._until(lambda: all(seen.newest >= last and last in seen.taken for seen, last in lasts), "the last answers")
        if self.port is not None:
            self.port.stop()
            self._until(lambda: self._position_of_port() == self.port.written[-1], "the last answer of the port")
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(PATIENCE_S) == 0, (self._folder / "errors").read_text()
        assert "Traceback" not in (self._folder / "errors").read_text()
        books = ledgers(self._folder)
        told = [self._check_line(name, books[name], losses) for name in self._kinds]
        if self.port is not None:
            told.append(self._check_port(books["serial"]))
        return "\n".join(told)

    def _device(self, protocol: str) -> str:
        text = [HEAD, broker_text(self.proxy.port, protocol, extra=f"keepalive_s = {self.keepalive_s}")]
        text += map(line_text, self._kinds)
        if self.port is not None:
            pty = f'{{ kind = "serial", port = "{self._folder / "port"}", baud = 115200 }}'
            line = line_text("stateful", source=pty, sink='{ kind = "jsonl", path = "answers.jsonl" }')
            text.append(line.replace('"stateful"', '"serial"').replace("[line.channels]", SERIAL_JOURNAL))
        return "".join(text)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _check_line(self, name: str, book: dict, losses: int) -> str:
        seen, sent = self.witness.lines[name], self.sent(name)
        samples, given = book["counts"]["samples"], book["counts"]["answers"]
        told = (
            f"{name}: {sent} sent, {len(seen.given)} came, {len(seen.taken)} acknowledged, {len(seen.heard)} answers,"
            f" {seen.doubles} doubles, {samples['duplicate']} came again, rejected {samples['rejected']},"
            f" refused {given['refused']}"
        )
        assert book["adds_up"], told
        assert (samples["dropped"], given["dropped"], given["suppressed"]) == ({}, {}, {}), told
        # An old sample that a broker brings again after it forgot the newest acknowledgements.
        assert set(samples["rejected"]) <= {"time_back"}, told
        warm_up = KINDS[name].warm_up
        refused = sum(given["refused"].values())
        assert set(given["refused"]) <= ({"gap"} if warm_up else set()), told
        assert len(seen.unanswered) <= samples["rejected"].get("time_back", 0) + refused + warm_up, told
        assert seen.doubles <= losses * ON_THEIR_WAY, told
        if name != "stateless" or not self.kills:  # its counts may be a second old after a kill
            assert given["published"] == given["due"] - refused == len(seen.heard), told
            assert samples["accepted"] == given["due"] + warm_up, told
            assert (
                len(seen.taken) - samples["rejected"].get("time_back", 0) <= samples["accepted"] <= len(seen.given)
            ), told
            assert not seen.altered, told
        return told

    def _check_port(self, book: dict) -> str:
        samples, given = book["counts"]["samples"], book["counts"]["answers"]
        found = [_second(one) for one in answers((self._folder / "answers.jsonl").read_bytes())]
        told = f"serial: {len(self.port.written)} written, {len(found)} answers, rejected {samples['rejected']}"
        assert book["adds_up"], told
        assert len(set(found)) == len(found), told
        assert set(found) <= set(self.port.written), told
        assert found[-1] == self.port.written[-1], told
        assert given["published"] == given["due"] == samples["accepted"] == len(found), told
        assert (given["dropped"], given["refused"]) == ({}, {}), told
        # The first line after each opening may have lost its beginning.
        assert set(samples["dropped"]) <= {"joined_midway"}, told
        return told

    def _newest(self, name: str) -> int:
        sent = self._load.sent[name]
        return json.loads(sent[-1])["time"] if sent else 0

    def _position_of_port(self) -> int:
        path = self._folder / "answers.jsonl"
        found = path.read_bytes().splitlines() if path.exists() else []
        return _second(json.loads(found[-1])) if found else 0

    def _until(self, happened: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self._process.poll() is None, (self._folder / "errors").read_text()
            if time.monotonic() > deadline:
                status = next(self._folder.glob("runtime/**/status.json")).read_text()
                msg = f"gave up waiting for {what}: {status}"
                raise TimeoutError(msg)
            time.sleep(0.02)


class _Port:
    """A device behind a pty that says a reading every 1 / SERIAL_HZ s, whether somebody listens or not."""

    def __init__(self, link: Path) -> None:
        self.device = PtyDevice(link)
        self.written: list[int] = []
        """The times of the readings that went out whole."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say no more."""
        self._stopping.set()
        self._thread.join()

    def close(self) -> None:
        self.stop()
        self.device.unplug()

    def unplug(self) -> None:
        with self._lock:
            self.device.unplug()

    def replug(self) -> None:
        with self._lock:
            self.device.replug()

    def _run(self) -> None:
        for at in itertools.count():
            if self._stopping.wait(1 / SERIAL_HZ):
                return
            data = pipe(at)
            with self._lock:
                if self.device.offer(data + b"\n"):
                    self.written.append(json.loads(data)["time"])


def _second(answer: dict) -> int:
    return int(datetime.fromisoformat(answer["time"]).timestamp())
