"""Bundles exchanged and tried while lines serve, with a store and a supply that are real and a service's tick by hand."""

import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.store import Store
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import DeviceError
from edge_runtime.run import serve
from edge_runtime.run import supply as supply_module
from edge_runtime.run.config import load_config
from edge_runtime.run.live import Live, Quarantined
from tests.rig.bundles import DEWPOINT, write_with_manifest

if TYPE_CHECKING:
    from edge_runtime.run.exchange import Exchange
    from edge_runtime.run.lane import Lane

NOW = "2026-12-01T08:00:00Z"
_LINE = """
[[line]]
name = "{name}"
bundle = "store:dewpoint"
source = {{ kind = "folder", path = "{name}" }}
decode = {{ format = "json", time = {{ field = "time", format = "unix_s" }} }}
sink = [{{ kind = "jsonl", path = "{name}.jsonl" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""


class Site:
    """A service with two lines on one slot, booted and not turned; ``tick`` is the exchange's part of its own."""

    def __init__(self, folder: Path, trial: str = "seconds = 86400") -> None:
        self.folder = folder
        (folder / "state").mkdir()
        text = f'schema = "edge-runtime/device/1"\nstate_dir = "state"\nstore = {{ trial = {{ {trial} }} }}\n'
        (folder / "device.toml").write_text(text + _LINE.format(name="a") + _LINE.format(name="b"))
        self.store = Store(folder / "state/store")
        self.lanes: tuple[Lane, ...] = ()
        self.fed = 0

    def take_in(self, version: int, change: Callable[[dict[str, Any]], object] = lambda _: None) -> str:
        path = self.folder / f"twin{version}"
        write_with_manifest(DEWPOINT, path, lambda raw: (raw.update(version=f"{version}.0.0"), change(raw)))
        bundle = verify(read_files(path), "a test")
        with self.store.command(), self.store.arriving(bundle.signed_files) as arrived:
            self.store.take_in(arrived, bundle.digest, NOW, {})
        return bundle.digest

    def confirmed(self, version: int) -> str:
        digest = self.take_in(version)
        self.store.activate("dewpoint", digest, NOW)
        self.store.confirm("dewpoint", digest, NOW, {})
        return digest

    def boot(self, inside: Callable[[], None] = lambda: None) -> None:
        """Boot and serve; ``inside`` is what the loop does, with all that serving holds still held."""
        self.service = serve.Service(load_config(self.folder / "device.toml"), self.folder / "state")
        reports, models = self.service._boot()
        assert {one.state for one in reports} == {"OPERATIONAL"}

        def turned(*_: Any) -> None:
            self.lanes = self.service._lanes
            assert self.service._exchange is not None
            self.exchange: Exchange = self.service._exchange
            for lane in self.lanes:
                lane._restored = True
            inside()

        self.service._turn = turned  # type: ignore[method-assign]
        self.service._serve(models)

    def tick(self) -> None:
        """One tick, and where a boot was begun in it the next one once that has ended."""
        self.service._follow(self.exchange)
        rising = self.exchange._supply._rising
        if rising is not None:
            rising.join()
            self.service._follow(self.exchange)

    def feed(self, count: int, text: str = '{{"time": {}, "t": 20, "rh": {}, "p": 1000}}\n') -> None:
        for lane in self.lanes:
            made = "".join(text.format(1_738_022_400 + self.fed + at, 40 + (self.fed + at) % 30) for at in range(count))
            lane.line.feed(made.encode(), 0)
            lane.line.run()
            lane._collect(0)
        self.fed += count

    def answers(self, name: str = "a") -> list[dict[str, Any]]:
        for lane in self.lanes:
            lane._send()
        path = self.folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    @property
    def live(self) -> Live:
        return self.exchange.lives["dewpoint"]

    @property
    def slot(self) -> Any:
        return self.store.state().bundles["dewpoint"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for lane in made.lanes:
        lane.stop()


def test_the_session_that_leaves_is_let_go(site: Site) -> None:
    """Whatever the process still does with it, its memory is what the next one needs."""
    site.confirmed(1)
    second = site.take_in(2)
    was_served = []

    def exchanged() -> None:
        left = weakref.ref(site.live)
        site.store.activate("dewpoint", second, NOW)
        site.tick()
        was_served.append((left(), site.live.model.digest))

    site.boot(exchanged)
    assert was_served == [(None, second)]


def test_both_lines_of_a_slot_change_over_together(site: Site) -> None:
    site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    site.feed(10)
    run_id = site.service._run_id
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    assert all(lane.serves(site.live) for lane in site.lanes)
    assert site.live.model.digest == second
    assert site.service._lives == (site.live,)
    site.feed(10)
    for name in ("a", "b"):
        rows = site.answers(name)
        assert [row["run"] for row in rows] == [run_id] * 10 + [site.service._run_id] * 10
        assert [row["seq"] for row in rows] == list(range(20))


def test_a_line_of_another_bundle_names_the_new_run_too(site: Site) -> None:
    """The status has one run for all lines: an answer of the old one would be looked up in vain."""
    text = (site.folder / "device.toml").read_text() + _LINE.format(name="c").replace("store:dewpoint", str(DEWPOINT))
    (site.folder / "device.toml").write_text(text)
    site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    site.feed(1)
    run_id = site.service._run_id
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    site.feed(1)
    assert site.service._run_id != run_id
    assert [row["run"] for row in site.answers("c")] == [run_id, site.service._run_id]
    assert len(site.service._lives) == 2


def test_without_a_change_nothing_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.confirmed(1)
    site.boot()
    site.tick()
    monkeypatch.setattr(Store, "state", lambda _: pytest.fail("the pointer was read"))
    for _ in range(5):
        site.tick()


def test_a_pointer_that_went_and_came_back_in_between_boots_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    live = site.live
    site.store.activate("dewpoint", second, NOW)
    site.store.put_back("dewpoint", NOW)
    monkeypatch.setattr(supply_module, "boot", lambda *_: pytest.fail("it was booted"))
    site.tick()
    assert site.live is live
    assert site.exchange._supply.now["dewpoint"].serial == site.slot.serial
    assert site.slot.active == first


@pytest.mark.parametrize("how", ["wrong", "broken"])
def test_a_golden_probe_that_fails_on_trial_puts_the_confirmed_bundle_in_its_place_at_once(
    site: Site, how: str
) -> None:
    first = site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    site.feed(5)
    before = site.live
    ready = before._ready
    infer = ready.model.infer

    def spoilt(feeds: Mapping[str, Any], /) -> Mapping[str, Any]:
        if how == "broken":
            raise DeviceError(subject="the model's run", found="CUDA error", expected="an answer", todo="test it")
        return {name: values + np.float32(1) for name, values in infer(feeds).items()}

    object.__setattr__(ready, "model", ready.model._replace(infer=spoilt))
    site.service._prove()
    assert site.live.model.digest == first
    assert (site.slot.active, site.slot.trial, site.slot.rolled_back.digest) == (first, None, second)
    assert before.rebuilt == "", "the one on trial was not made anew"
    dropped = site.lanes[0].line.ledger.answers_dropped
    assert dropped == ({"quarantined": 5} if how == "wrong" else {})
    site.tick()
    site.feed(5)
    assert len(site.answers()) == (5 if how == "wrong" else 10)
    assert all(lane.health().ledger.adds_up for lane in site.lanes)


def test_a_confirmed_bundle_whose_probe_fails_is_made_anew_as_ever(site: Site) -> None:
    site.confirmed(1)
    site.boot()
    ready = site.live._ready
    object.__setattr__(
        ready, "model", ready.model._replace(infer=lambda feeds: {"y": np.zeros((len(next(iter(feeds.values()))), 1))})
    )
    site.service._prove()
    assert site.live.rebuilt
    assert site.live._ready is not ready


def test_a_session_that_was_made_anew_on_trial_has_failed_it(site: Site) -> None:
    first = site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    site.live.rebuild("a call failed")
    site.tick()
    assert site.slot.rolled_back.reason == "trial: a call failed"
    site.tick()
    assert site.live.model.digest == first


def test_a_bundle_on_trial_that_is_given_up_leads_to_a_new_start_and_a_confirmed_one_does_not(site: Site) -> None:
    site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    lost = Quarantined("why", site.live._ready.report)
    site.live.is_lost = True
    assert not site.exchange.gave_up(lost)
    site.live.is_lost = False
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    assert not site.exchange.gave_up(lost), "another line's model was lost"
    site.live.is_lost = True
    assert site.exchange.gave_up(lost)
    assert site.slot.rolled_back.digest == second


def test_calls_beyond_the_limit_end_a_trial(tmp_path: Path) -> None:
    site = Site(tmp_path, trial="seconds = 86400, latency_ms = 0.000001")
    site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    site.feed(5)
    assert site.live.slow_calls == 0, "off trial nothing is held against it"
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    site.feed(5)
    site.tick()
    assert "calls beyond the latency limit" in site.slot.rolled_back.reason
    for lane in site.lanes:
        lane.stop()


def test_the_model_that_leaves_proves_its_last_answers(site: Site) -> None:
    site.confirmed(1)
    second = site.take_in(2)
    site.boot()
    site.feed(5)
    ready = site.live._ready
    object.__setattr__(
        ready, "model", ready.model._replace(infer=lambda feeds: {"y": np.zeros((len(next(iter(feeds.values()))), 1))})
    )
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    site.feed(5)
    assert len(site.answers()) == 5
    assert site.lanes[0].line.ledger.answers_dropped == {"quarantined": 5}
    assert site.lanes[0].health().ledger.adds_up


def test_a_boot_that_breaks_is_a_refusal_and_what_serves_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site.confirmed(1)
    second = site.take_in(2)
    site.boot()

    def broken(*_: Any) -> None:
        raise RuntimeError("a fault\nof ours")

    monkeypatch.setattr(supply_module, "boot", broken)
    site.store.activate("dewpoint", second, NOW)
    site.tick()
    assert site.slot.rolled_back.reason == "its boot broke: RuntimeError: a fault of ours"
    assert site.live.model.digest == first
    site.tick()
    assert site.slot.active == first


def test_a_first_bundle_that_fails_its_trial_stays_and_is_not_confirmed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = site.take_in(1)
    site.store.activate("dewpoint", digest, NOW)
    site.boot()
    site.feed(30, text='{{"time": {}, "t": null, "rh": {}}}\n')
    site.tick()
    assert "there is no confirmed bundle to go back to" in capsys.readouterr().err
    site.tick()
    assert capsys.readouterr().err == "", "it is said once"
    assert (site.slot.active, site.slot.trial.stage) == (digest, "running")


def test_a_disk_that_is_full_at_the_end_of_a_trial_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path, trial="seconds = 1")
    site.store.activate("dewpoint", site.take_in(1), NOW)
    site.boot()
    site.feed(3)
    begun_ns = site.exchange._trials["dewpoint"].begun_ns
    monkeypatch.setattr("edge_runtime.run.exchange.time.monotonic_ns", lambda: begun_ns + 2_000_000_000)

    def full(*_: Any) -> None:
        raise DeviceError(subject="store", found="the disk refusing", expected="room", todo="free it")

    with monkeypatch.context() as patch:
        patch.setattr("edge_runtime.bundle.store.write_state", full)
        for _ in range(3):
            site.tick()
    assert capsys.readouterr().err.count("the disk refusing") == 1
    assert site.slot.trial.stage == "running"
    site.tick()
    assert site.slot.trial.stage == "passed"
    site.tick()
    for lane in site.lanes:
        lane.stop()


def test_a_bundle_of_another_id_does_not_serve_whatever_the_pointer_says(site: Site) -> None:
    bundle = verify(read_files(DEWPOINT.with_name("frost")), "a test")
    with site.store.command(), site.store.arriving(bundle.signed_files) as arrived:
        site.store.take_in(arrived, bundle.digest, NOW, {})
    site.store.activate("dewpoint", bundle.digest, NOW)
    service = serve.Service(load_config(site.folder / "device.toml"), site.folder / "state")
    (report,), models = service._boot()
    assert models == {}
    first = next(one for one in report.checks if one.status == "fail")
    assert (first.id, first.measured) == ("manifest", "manifest.json, id: found frost")
