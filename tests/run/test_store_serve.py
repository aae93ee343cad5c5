"""A device whose bundle comes from the store, as a process: taking over, trials that fail, starts that die, refusals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.store import Store
from edge_runtime.bundle.verify import verify
from tests.rig.bundles import DEWPOINT, write_with_manifest
from tests.rig.need import need
from tests.rig.program import PATIENCE_S, environment, run_program, start_program
from tests.rig.pty_device import PtyDevice
from tests.rig.wait import until

NOW = "2026-12-01T08:00:00Z"
_DEVICE = """\
schema = "edge-runtime/device/1"
state_dir = "state"
probe_s = 1

[store]
on_refusal = "{on_refusal}"
trial = {{ {trial} }}

[[line]]
name = "dewpoint"
bundle = "store:dewpoint"
source = {{ kind = "folder", path = "in", settle_s = 0, poll_s = 0.1 }}
decode = {{ format = "json", time = {{ field = "time", format = "unix_s" }} }}
sink = [{{ kind = "jsonl", path = "answers.jsonl" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""
# What `edge-runtime run` is where a bundle kills its process once it has answered so many samples, self-test or not.
_DEADLY = """\
import os, sys
from edge_runtime.cli import main
from edge_runtime.run.lane import Lane
turn = Lane.turn
def deadly(lane):
    if lane._ready.model.digest == {digest!r} and lane.line.ledger.accepted >= {after}:
        os.kill(os.getpid(), 9)
    return turn(lane)
Lane.turn = deadly
sys.exit(main(["run", "--exit-on-refusal", "--config", "device.toml"]))
"""


class Site:
    """A device in ``home``."""

    def __init__(self, home: Path, trial: str = "seconds = 86400", on_refusal: str = "stop") -> None:
        self.home = home
        (home / "in").mkdir()
        (home / "device.toml").write_text(_DEVICE.format(trial=trial, on_refusal=on_refusal))
        self.store = Store(home / "state" / "store")
        self._fed = 0
        self.running: list[subprocess.Popen[bytes]] = []

    def take_in(self, version: int) -> str:
        """A twin of the dewpoint bundle of this version, all of one security_version, in the store."""
        path = self.home / f"twin{version}"
        write_with_manifest(DEWPOINT, path, lambda raw: raw.update(version=f"{version}.0.0"))
        bundle = verify(read_files(path), "a test")
        with self.store.command(), self.store.arriving(bundle.signed_files) as arrived:
            self.store.take_in(arrived, bundle.digest, NOW, {})
        return bundle.digest

    def activate(self, digest: str) -> None:
        self.store.activate("dewpoint", digest, NOW)

    def confirmed(self, version: int) -> str:
        digest = self.take_in(version)
        self.activate(digest)
        self.store.confirm("dewpoint", digest, NOW, {})
        return digest

    def feed(self, count: int, *, good: bool = True) -> None:
        made = []
        for number in range(self._fed, self._fed + count):
            sample = {"time": 1_738_022_400 + number, "t": 10 + number % 9, "rh": 50, "p": 1000 if good else None}
            made.append(json.dumps(sample) + "\n")
        (self.home / "in" / ".new").write_text("".join(made))
        (self.home / "in" / ".new").rename(self.home / "in" / f"{self._fed:06d}.json")
        self._fed += count

    def run(self, program: str | None = None) -> subprocess.Popen[bytes]:
        if program is None:
            started = start_program("run", "--exit-on-refusal", home=self.home, cwd=self.home)
        else:
            started = subprocess.Popen(
                [sys.executable, "-c", program],
                cwd=self.home,
                env=environment(self.home),
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        self.running.append(started)
        return started

    def stop(self, started: subprocess.Popen[bytes]) -> str:
        started.send_signal(signal.SIGTERM)
        told = started.communicate(timeout=PATIENCE_S)[1].decode()
        assert started.returncode == 0, told
        assert "Traceback" not in told
        return told

    def answers(self) -> list[dict[str, Any]]:
        path = self.home / "answers.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def events(self, event: str) -> list[dict[str, Any]]:
        path = self.store.folder / "log.jsonl"
        rows = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
        return [row for row in rows if row["event"] == event]

    @property
    def slot(self) -> Any:
        return self.store.state().bundles["dewpoint"]

    def serves(self, digest: str) -> bool:
        runs = self.events("serving")
        return bool(runs) and runs[-1]["bundles"]["dewpoint"] == digest

    def until(self, happened: Any, what: str) -> None:
        until(happened, threading.Event(), what)

    def made_by(self) -> list[str]:
        """By which bundle each answer was made, in order, each time that it changed."""
        runs = {row["run"]: row["bundles"]["dewpoint"] for row in self.events("serving")}
        found = [runs[row["run"]] for row in self.answers()]
        return [one for at, one in enumerate(found) if not at or one != found[at - 1]]

    def require_each_once(self) -> None:
        assert [row["seq"] for row in self.answers()] == list(range(self._fed))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    _end(made)


def _end(site: Site) -> None:
    for started in site.running:
        if started.poll() is None:
            started.kill()
        started.communicate()


def test_a_running_service_takes_over_and_goes_back_by_hand_and_nothing_is_lost(site: Site) -> None:
    first, second = site.confirmed(1), site.take_in(2)
    started = site.run()
    site.feed(20)
    site.until(lambda: len(site.answers()) == 20, "the first answers")
    site.activate(second)
    site.feed(20)
    site.until(lambda: site.serves(second), "the switch")
    assert site.slot.trial.starts == 1, "a boot in service counts as a start does"
    site.feed(20)
    site.until(lambda: len(site.answers()) == 60, "more answers")
    status = run_program("status", home=site.home, cwd=site.home)
    assert f"store:dewpoint: {second[:12]} is on trial" in status.stdout.splitlines()[0]
    assert f"({second[:12]})" in status.stdout
    site.store.put_back("dewpoint", NOW)
    site.until(lambda: site.serves(first), "the way back")
    site.feed(20)
    site.until(lambda: len(site.answers()) == 80, "the last answers")
    told = site.stop(started)
    assert f"store:dewpoint: {second[:12]} serves from now on, as run " in told
    assert site.made_by() == [first, second, first]
    site.require_each_once()


def test_a_bundle_that_passes_every_test_and_kills_its_process_is_rolled_back_with_nobody_there(tmp_path: Path) -> None:
    site = Site(tmp_path, trial="seconds = 86400, starts = 2")
    try:
        first, second = site.confirmed(1), site.take_in(2)
        site.activate(second)
        program = _DEADLY.format(digest=second, after=5)
        codes = []
        while not codes or codes[-1] == -signal.SIGKILL:  # as a supervisor does
            site.feed(10)
            started = site.run(program)
            if len(codes) == 2:
                site.until(lambda: len(site.answers()) == 30, "answers of the confirmed bundle")
                site.stop(started)
            codes.append(started.wait(PATIENCE_S))
        assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
        assert (site.slot.active, site.slot.trial) == (first, None)
        assert site.slot.rolled_back.digest == second
        assert "it was started 2 times" in site.slot.rolled_back.reason
        site.require_each_once()
        confirm = run_program("bundle", "confirm", home=site.home, cwd=site.home)
        assert confirm.returncode == 1
        assert "its last activation was rolled back" in confirm.stderr
    finally:
        _end(site)


def test_a_trial_that_refuses_too_much_ends_in_service(tmp_path: Path) -> None:
    site = Site(tmp_path, trial="seconds = 86400, refused_percent = 50")
    try:
        first, second = site.confirmed(1), site.take_in(2)
        site.activate(second)
        started = site.run()
        site.feed(5)
        site.feed(30, good=False)
        site.until(lambda: site.serves(first), "the way back")
        told = site.stop(started)
        assert f"{second[:12]} is rolled back to {first[:12]}: trial: found 30 refused samples of 35" in told
        assert site.slot.active == first
    finally:
        _end(site)


def test_a_trial_is_passed_and_a_confirm_makes_it_last(tmp_path: Path) -> None:
    site = Site(tmp_path, trial="seconds = 1, answers = 3")
    try:
        site.confirmed(1)
        second = site.take_in(2)
        started = site.run()
        site.activate(second)
        site.until(lambda: site.serves(second), "the switch")
        site.feed(2)
        site.until(lambda: len(site.answers()) == 2, "two answers")
        assert site.events("trial_passed") == []
        site.feed(1)
        site.until(lambda: site.slot.trial.stage == "passed", "the end of the trial")
        assert site.slot.trial.starts == 0
        confirm = run_program("bundle", "confirm", home=site.home, cwd=site.home)
        assert confirm.returncode == 0, confirm.stderr
        assert (site.slot.confirmed, site.slot.trial) == (second, None)
        site.feed(10)
        site.until(lambda: len(site.answers()) == 13, "answers")
        site.stop(started)
        site.require_each_once()
    finally:
        _end(site)


def test_a_bundle_that_is_refused_beside_the_one_that_serves_never_answers(site: Site) -> None:
    first, second = site.confirmed(1), site.take_in(2)
    started = site.run()
    site.feed(10)
    site.until(lambda: len(site.answers()) == 10, "the first answers")
    (site.store.path(second) / "golden.npz").write_bytes(b"x")
    site.activate(second)
    site.until(lambda: site.slot.active == first, "the way back")
    site.feed(10)
    site.until(lambda: len(site.answers()) == 20, "more answers")
    told = site.stop(started)
    assert f"{second[:12]} does not serve: files: bundle " in told
    assert "golden.npz with other content" in site.slot.rolled_back.reason
    assert site.made_by() == [first]
    assert len({row["run"] for row in site.answers()}) == 1
    site.require_each_once()


def test_a_bundle_on_trial_that_is_refused_at_a_start_is_rolled_back(site: Site) -> None:
    first, second = site.confirmed(1), site.take_in(2)
    site.activate(second)
    (site.store.path(second) / "golden.npz").write_bytes(b"x")
    started = site.run()
    site.feed(10)
    site.until(lambda: len(site.answers()) == 10, "answers")
    site.stop(started)
    assert site.made_by() == [first]
    assert site.slot.active == first


@pytest.mark.parametrize("on_refusal", ["stop", "last_passing"])
def test_a_confirmed_bundle_that_is_refused_leads_to_what_the_device_file_says(tmp_path: Path, on_refusal: str) -> None:
    site = Site(tmp_path, on_refusal=on_refusal)
    try:
        first, second = site.confirmed(1), site.confirmed(2)
        assert site.slot.previous == first
        (site.store.path(second) / "golden.npz").write_bytes(b"x")
        site.feed(10)
        started = site.run()
        if on_refusal == "stop":
            assert started.wait(PATIENCE_S) == 65
            assert site.answers() == []
            return
        site.until(lambda: len(site.answers()) == 10, "answers")
        status = run_program("status", home=site.home, cwd=site.home).stdout.splitlines()[0]
        assert (
            f"store:dewpoint: {first[:12]} serves, confirmed before, because {second[:12]} was refused: files:"
            in status
        )
        assert all("fallback_bundle" in row["flags"] for row in site.answers())
        assert site.made_by() == [first]
        third = site.take_in(3)
        site.activate(third)
        site.until(lambda: site.serves(third), "the switch")
        site.feed(10)
        site.until(lambda: len(site.answers()) == 20, "answers of the third")
        site.stop(started)
        assert not any("fallback_bundle" in row["flags"] for row in site.answers()[10:])
        assert (site.slot.active, site.slot.confirmed) == (third, second), "the pointer was left alone"
    finally:
        _end(site)


def test_a_store_that_cannot_be_read_any_more_does_not_stop_what_serves(site: Site) -> None:
    site.confirmed(1)
    started = site.run()
    site.feed(10)
    site.until(lambda: len(site.answers()) == 10, "answers")
    kept = (site.store.folder / "store.json").read_bytes()
    (site.store.folder / "store.json").write_bytes(b"{")
    shutil.rmtree(site.store.folder / "bundles")
    site.feed(10)
    site.until(lambda: len(site.answers()) == 20, "more answers")
    (site.store.folder / "store.json").write_bytes(kept)
    site.stop(started)
    site.require_each_once()


def test_a_disk_that_takes_no_count_leads_to_the_confirmed_bundle(site: Site) -> None:
    first, second = site.confirmed(1), site.take_in(2)
    site.activate(second)
    program = """
import os, sys
from pathlib import Path
from edge_runtime.bundle import durable
from edge_runtime.cli import main
def full(path, data):
    raise OSError(28, "No space left on device")
durable.write_synced = full
sys.exit(main(["run", "--exit-on-refusal", "--config", "device.toml"]))
"""
    started = site.run(program)
    site.feed(10)
    site.until(lambda: len(site.answers()) == 10, "answers")
    told = site.stop(started)
    assert "the disk refusing: No space left on device" in told
    assert site.slot.active == second
    assert "PASSED: dewpoint 1.0.0" in told, f"the confirmed one, {first[:12]}"


# `edge-runtime run` whose calls of one bundle's model fail from the third on, as a driver's that has lost its device.
_FAILING = """\
import sys
from edge_runtime.cli import main
from edge_runtime.errors import DeviceError
from edge_runtime.run.lane import Lane
from edge_runtime.run.live import Live
infer = Live._infer
def failing(live, feeds):
    if live._ready.model.digest == {digest!r} and live.calls >= 2:
        raise live._lost("CUDA error", live._ready.report)
    return infer(live, feeds)
Live._infer = failing
sys.exit(main(["run", "--exit-on-refusal", "--config", "device.toml"]))
"""


def test_a_bundle_whose_session_is_given_up_on_trial_leads_to_the_confirmed_one_in_the_same_process(site: Site) -> None:
    first, second = site.confirmed(1), site.take_in(2)
    site.activate(second)
    started = site.run(_FAILING.format(digest=second))
    for count in (1, 2):
        site.feed(1)
        site.until(lambda count=count: len(site.answers()) == count, "an answer")
    site.feed(8)
    site.until(lambda: len(site.answers()) == 10, "all answers")
    told = site.stop(started)
    assert f"{second[:12]} is rolled back to {first[:12]}: the model that serves: found CUDA error" in told
    assert site.made_by() == [second, first]
    assert site.slot.active == first
    site.require_each_once()


def test_where_hosts_were_told_other_outputs_all_lines_begin_anew_in_the_same_process(site: Site) -> None:
    first, second = site.confirmed(1), site.take_in(2)
    program = """
import sys
from edge_runtime.cli import main
from edge_runtime.run.lane import Lane
Lane.may_switch = lambda *_: False
sys.exit(main(["run", "--exit-on-refusal", "--config", "device.toml"]))
"""
    started = site.run(program)
    site.feed(10)
    site.until(lambda: len(site.answers()) == 10, "the first answers")
    site.activate(second)
    site.until(lambda: site.serves(second), "the new start")
    site.feed(10)
    site.until(lambda: len(site.answers()) == 20, "more answers")
    told = site.stop(started)
    assert "so that all lines begin anew" in told
    assert site.made_by() == [first, second]
    assert site.slot.trial.starts == 0, "it was begun in order and has ended in order"
    site.require_each_once()


@pytest.mark.skipif(os.name == "nt", reason="a pseudo-terminal is no thing of Windows")
def test_a_port_is_not_closed_for_a_switch_and_no_byte_of_it_is_lost(tmp_path: Path) -> None:
    """What a UART says while nobody reads is gone: so somebody always does."""
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    site = Site(tmp_path)
    try:
        path = tmp_path / "device.toml"
        source = 'kind = "folder", path = "in", settle_s = 0, poll_s = 0.1'
        path.write_text(path.read_text().replace(source, f'kind = "serial", port = "{tmp_path / "tty"}"'))
        first, second = site.confirmed(1), site.take_in(2)
        with PtyDevice(tmp_path / "tty") as device:
            started = site.run()
            site.until(lambda: _status_says(site, "open since"), "an open port")
            device.write(b"\n")
            sent = 0

            def say(count: int) -> None:
                nonlocal sent
                for number in range(sent, sent + count):
                    row = json.dumps({"time": 1_738_022_400 + number, "t": 20, "rh": 50, "p": 1000}).encode() + b"\n"
                    device.write(row[:9])  # a frame is cut by whatever happens in between
                    device.write(row[9:])
                sent += count

            def says_until(digest: str) -> None:
                site.until(lambda: say(1) or site.serves(digest), "the switch")

            say(20)
            site.activate(second)
            says_until(second)
            say(20)
            site.store.put_back("dewpoint", NOW)
            says_until(first)
            say(20)
            site.until(lambda: len(site.answers()) == sent, "all answers")
            assert _status_says(site, '"reopened": 0')
            site.stop(started)
        assert [row["seq"] for row in site.answers()] == list(range(sent))
        assert site.made_by() == [first, second, first]
    finally:
        _end(site)


def _status_says(site: Site, text: str) -> bool:
    return any(text in path.read_text() for path in (site.home / "run").rglob("status.json"))
