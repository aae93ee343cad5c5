"""Bundles activated and rolled back under a device that serves, both killed with -9 at random: it always serves, and all.

Two lines read files of a folder, one without memory and one with a window of 24 and hysteresis. Each bundle has a twin
that answers the same under another digest. Afterwards every sample has its answer once, under a run that the log knows.
"""

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.proof.station import COLUMNS, DEWPOINT, FROST, US_UNITS, call, environment, ledgers, lines
from tests.rig.bundles import write_with_manifest

PATIENCE_S = 120.0
WARM_UP = 23
_DEVICE = """\
schema = "edge-runtime/device/1"
state_dir = "state"
store = {{ trial = {{ seconds = 86400, starts = 3 }} }}

[[line]]
name = "dewpoint"
bundle = "store:dewpoint"
source = {{ kind = "folder", path = "dewpoint", settle_s = 0, poll_s = 0.1, after = "delete" }}
decode = {{ format = "json", time = {{ field = "time", format = "unix_s" }} }}
sink = [{{ kind = "jsonl", path = "dewpoint.jsonl" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}

[[line]]
name = "frost"
bundle = "store:frost"
source = {{ kind = "folder", path = "frost", settle_s = 0, poll_s = 0.1, after = "delete" }}
decode = {{ format = "csv", columns = [{columns}], time = {{ field = "time", format = "iso8601" }} }}
sink = [{{ kind = "jsonl", path = "frost.jsonl" }}]
[line.channels]
{channels}
"""


class Device:
    """The device in ``folder``: its service, the commands given there and what it is fed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.fed: dict[str, int] = {"dewpoint": 0, "frost": 0}
        self.kills: Counter[str] = Counter()
        self.runs: dict[str, dict[str, str]] = {}
        channels = "\n".join(
            f'{name} = {{ field = "{one}", unit = "{US_UNITS[name]}" }}' for name, one in COLUMNS.items()
        )
        columns = ", ".join(f'"{one}"' for one in lines()[0])
        (folder / "device.toml").write_text(_DEVICE.format(columns=columns, channels=channels))
        self._rows = lines()[1:]
        self._errors = (folder / "errors").open("ab")
        self.digests = {name: self._staged(name, path) for name, path in (("dewpoint", DEWPOINT), ("frost", FROST))}
        for name in self.fed:
            (folder / name).mkdir()
            self.bundle("activate", self.digests[name][0])
        _skip_trial(folder)
        self.bundle("confirm")
        self._servers, self._commands = Forks(folder, self._errors), Forks(folder, self._errors)
        self._serve()

    def _staged(self, name: str, path: Path) -> list[str]:
        twin = write_with_manifest(path, self._folder / f"{name}.twin", lambda raw: raw.update(version="9.0.0"))
        return [self.bundle("stage", str(one)) for one in (path, twin)]

    def bundle(self, *words: str) -> str:
        done = call(self._folder, "bundle", *words, "--config", "device.toml")
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def feed(self, count: int) -> None:
        """Write so many samples to each line, as a program does that renames what is whole."""
        for name in self.fed:
            first = self.fed[name]
            made = [self.sample(name, first + at) for at in range(count)]
            self.fed[name] += count
            there = self._folder / name
            (there / ".new").write_text("".join(made))
            (there / ".new").rename(there / f"{first:09d}.txt")

    def sample(self, name: str, number: int) -> str:
        """The text of one."""
        at = datetime.fromisoformat("2025-01-28T00:00:00+00:00") + timedelta(hours=number)
        if name == "dewpoint":
            return json.dumps({"time": at.timestamp(), "t": 10 + number % 15, "rh": 40 + number % 50, "p": 1000}) + "\n"
        return ",".join([at.strftime("%Y-%m-%dT%H:%M:%SZ"), *self._rows[number % len(self._rows)][1:]]) + "\n"

    def _serve(self) -> None:
        self._servers.start("run --exit-on-refusal --config device.toml")

    def tour(self) -> None:
        """Let each bundle answer once more, with nobody killed."""
        for name in self.fed:
            for word in (f"activate {self.digests[name][1]}", f"rollback {name}"):
                while self.order(word, None):
                    time.sleep(0.1)
                self.follows(name)
                self._wait(lambda: not self.has_waiting)

    def order(self, word: str, kill_after_s: float | None) -> int:
        """Have one command done, or its process killed on the way; gives its exit code."""
        self._commands.start(f"bundle {word} --config device.toml")
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            with suppress(ProcessLookupError):  # it was done already
                self._commands.signal(signal.SIGKILL)
        code = self._commands.ended()
        self.kills["commands"] += code == -signal.SIGKILL
        # 75: the store is being changed by the service at this moment.
        assert code in (0, 75) or (code == -signal.SIGKILL and kill_after_s is not None), (word, code, self.told())
        return code

    def kill_service(self) -> None:
        """Kill it, find the store whole, and start it again as a supervisor does."""
        self._servers.signal(signal.SIGKILL)
        assert self._servers.ended() == -signal.SIGKILL, self.told()
        self.kills["service"] += 1
        self.require_whole()
        self._serve()

    def told(self) -> str:
        """The end of what all of them said."""
        return (self._folder / "errors").read_text()[-3000:]

    def follows(self, name: str) -> None:
        """Wait until the service serves what the pointer names; then feed it, so that this bundle answers."""
        self._wait(lambda: self._serving(name) == self._state()[name]["active"])
        self.feed(1)

    def _wait(self, happened: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not happened():
            assert not self._servers.has_ended, self.told()
            assert time.monotonic() < deadline_s, "stuck: " + self.told()
            time.sleep(0.05)

    def _serving(self, name: str) -> str | None:
        self.hear()
        newest = list(self.runs.values())[-1:]
        return newest[0].get(name) if newest else None

    def hear(self) -> None:
        """Learn from the log which run answered with which bundles, before it lets its oldest events go."""
        self.runs |= _runs(self._folder)

    def _state(self) -> dict:
        return json.loads((self._folder / "state/store/store.json").read_bytes())["bundles"]

    def require_whole(self) -> None:
        """The pointer says something, and what it names is there: a device that starts now has a bundle."""
        for name, slot in self._state().items():
            assert slot["confirmed"] == self.digests[name][0]
            for digest in {slot["active"], slot["confirmed"]}:
                assert (self._folder / "state/store/bundles" / digest / "SHA256SUMS").is_file()

    def answered(self, name: str) -> list[dict]:
        path = self._folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    @property
    def has_waiting(self) -> bool:
        """Whether a file was not taken yet."""
        return any(list((self._folder / name).glob("*.txt")) for name in self.fed)

    def settle(self) -> None:
        """Wait until every sample was taken, then stop in order."""
        self._wait(lambda: not self.has_waiting)
        self._servers.signal(signal.SIGTERM)
        assert self._servers.ended() == 0, self.told()

    def close(self) -> None:
        self._servers.close()
        self._commands.close()
        self._errors.close()


class Forks:
    """Processes of the program, one at a time."""

    def __init__(self, folder: Path, errors: BinaryIO) -> None:
        self._pid = 0
        self._parent = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("fork_program.py"))], cwd=folder, bufsize=0,
            env=environment(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip

    def start(self, words: str) -> None:
        assert self._parent.stdin
        self._parent.stdin.write(words.encode() + b"\n")
        self._pid = int(self._words("pid")[0])

    def signal(self, number: int) -> None:
        os.kill(self._pid, number)

    @property
    def has_ended(self) -> bool:
        return bool(select.select([self._parent.stdout], [], [], 0)[0])

    def ended(self) -> int:
        """Wait for its end, and give its exit code."""
        pid, code = self._words("ended")
        assert int(pid) == self._pid
        self._pid = 0
        return int(code)

    def _words(self, first: str) -> list[str]:
        assert self._parent.stdout
        word, *rest = self._parent.stdout.readline().decode().split()
        assert word == first
        return rest

    def close(self) -> None:
        if self._pid and not self.has_ended:
            self.signal(signal.SIGKILL)
        self._parent.communicate()


def _skip_trial(folder: Path) -> None:
    """As if the first bundles had passed theirs: they are what all the others fall back to."""
    path = folder / "state/store/store.json"
    path.write_text(path.read_text().replace('"running"', '"passed"'))
    (folder / "state").mkdir(exist_ok=True)


def _orders(device: Device, chance: random.Random) -> Iterator[str]:
    """The twin and back, now by its name and now by a roll-back; never what would have no effect twice running."""
    while True:
        for name in ("dewpoint", "frost"):
            yield f"activate {device.digests[name][1]}"
            yield f"rollback {name}" if chance.random() < 0.5 else f"activate {device.digests[name][0]}"


def _kill(folder: Path, orders: int, seed: int) -> Device:
    chance = random.Random(seed)
    device = Device(folder)
    try:
        for _, word in zip(range(orders), _orders(device, chance), strict=False):
            device.feed(chance.randint(1, 3))
            device.order(word, chance.uniform(0, 0.06) if chance.random() < 0.2 else None)
            device.require_whole()
            device.hear()
            if chance.random() < 0.2:
                device.follows(chance.choice(list(device.fed)))
            time.sleep(chance.choice((0, 0, 0.05, 0.3, 0.8)))
            if chance.random() < 0.12:
                device.kill_service()
        device.tour()
        device.settle()
        _check(device, folder)
    finally:
        device.close()
    return device


def _check(device: Device, folder: Path) -> None:
    verified = call(folder, "bundle", "log", "--verify", "--config", "device.toml")
    assert verified.returncode == 0, verified.stderr
    device.hear()
    runs = device.runs
    for name, warm_up in (("dewpoint", 0), ("frost", WARM_UP)):
        rows = device.answered(name)
        times = [row["time"] for row in rows]
        assert len(times) == len(set(times)) == device.fed[name] - warm_up, f"{name}: lost, or answered twice"
        assert all(row["run"] in runs for row in rows), "an answer whose bundle nobody can name"
        made_by = Counter(runs[row["run"]][name] for row in rows)
        assert set(made_by) == set(device.digests[name]), "both bundles have answered"
        assert {row["time"]: _value(row) for row in rows} == _undisturbed(device, folder, name)
    for line in ledgers(folder).values():
        assert line["adds_up"]
        assert not line["counts"]["answers"]["dropped"]
    assert "Traceback" not in (folder / "errors").read_text()


def _value(row: dict) -> float:
    return next(part["value"] for part in row.values() if isinstance(part, dict))


def _undisturbed(device: Device, folder: Path, name: str) -> dict[str, float]:
    """By time what the same samples give in one go: the twins are of one model, whose windows outlive every switch."""
    (folder / f"{name}.all").write_text("".join(device.sample(name, number) for number in range(device.fed[name])))
    text = (
        (folder / "device.toml").read_text().replace("store:dewpoint", str(DEWPOINT)).replace("store:frost", str(FROST))
    )
    (folder / "paths.toml").write_text(text.replace('state_dir = "state"', 'state_dir = "other"'))
    done = call(folder, "replay", f"{name}.all", "--config", "paths.toml", "--line", name, "--out", f"{name}.one")
    assert done.returncode == 0, done.stderr
    return {row["time"]: _value(row) for row in map(json.loads, (folder / f"{name}.one").read_bytes().splitlines())}


def _runs(folder: Path) -> dict[str, dict[str, str]]:
    """By run, which bundle answered under each id, as the log says, the newest last."""
    found = {}
    for name in ("log.1.jsonl", "log.jsonl"):
        path = folder / "state/store" / name
        for line in path.read_bytes().splitlines() if path.exists() else ():
            event = json.loads(line)
            if event["event"] == "serving":
                found[event["run"]] = event["bundles"]
    return found


def test_nothing_is_lost_and_nothing_stuck_by_kills_at_random(tmp_path: Path) -> None:
    device = _kill(tmp_path, 12, seed=1)
    print(device.kills)


@pytest.mark.long
def test_nothing_is_lost_and_nothing_stuck_by_kills_at_random_2000_times(tmp_path: Path) -> None:
    device = _kill(tmp_path, 2000, seed=2)
    print(device.kills)
    assert min(device.kills.values()) > 100
    shutil.rmtree(tmp_path)
