"""A session that fails while it serves: what is made anew in its place, and that nothing leaves once it is given up."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import ConfigurationError, DeviceError
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.line import Line
from edge_runtime.run import goldens as stages
from edge_runtime.run import memory_checks, serve
from edge_runtime.run.boot import Booted, ReadyModel, boot
from edge_runtime.run.config import load_config
from edge_runtime.run.lane import Lane
from edge_runtime.run.live import Live, Quarantined
from edge_runtime.run.setting import make_setting
from edge_runtime.run.standstill import SUSPECT_CALLS
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_config import JournalConfig
from edge_runtime.spec.result import flag_names
from edge_runtime.spec.sink import JsonLinesFile, Publish
from tests.rig.clock import HandClock
from tests.rig.program import ROOT

Outputs = Mapping[str, Any]


def booted(bundle: str = "frost") -> Booted:
    return boot(ROOT / "bundles" / bundle, make_setting())


def altered(found: Booted, **model: Any) -> Booted:
    """The same, but for what is changed in its model."""
    assert found.ready is not None
    object.__setattr__(found.ready, "model", found.ready.model._replace(**model))
    return found


def live_of(found: Booted, again: Callable[[], Booted] = booted, say: Callable[[str], None] = lambda _: None) -> Live:
    assert found.ready is not None
    return Live(found.ready, again, say)


class Switch:
    """A model's call that does as ``how`` says from the moment that it is set."""

    def __init__(self, ready: ReadyModel | None) -> None:
        assert ready is not None
        self.how: Callable[[Outputs], Outputs] = dict
        self._infer = ready.model.infer

    def __call__(self, feeds: Mapping[str, Any], /) -> Any:
        return self.how(self._infer(feeds))


def fail(_: Outputs) -> Outputs:
    raise DeviceError(subject="the model's run", found="CUDA error", expected="an answer", todo="run the self-test")


def nan(outputs: Outputs) -> Outputs:
    return {name: np.full_like(values, np.nan) for name, values in outputs.items()}


def test_another_bundle_at_that_path_does_not_serve_the_lines_of_the_first() -> None:
    live = live_of(booted(), lambda: booted("dewpoint"))
    with pytest.raises(
        Quarantined, match="why; another bundle was there to make it anew, which a restart tests and takes"
    ):
        live.rebuild("why")
    assert live.is_lost


def test_another_variant_does_not_serve_the_lines_of_the_first() -> None:
    def again() -> Booted:
        found = booted()
        assert found.ready is not None
        return altered(found, variant=found.ready.model.variant.model_copy(update={"name": "other"}))

    with pytest.raises(Quarantined, match="why; variant other alone was there"):
        live_of(booted(), again).rebuild("why")


def test_a_boot_that_cannot_begin_gives_the_session_up() -> None:
    def again() -> Booted:
        raise ConfigurationError(subject="profile", found="none", expected="one", todo="write one")

    live = live_of(booted(), again)
    with pytest.raises(Quarantined, match="why; it could not be made anew: profile: found none"):
        live.rebuild("why")
    assert live.is_lost


def test_a_probe_that_breaks_is_a_probe_that_fails() -> None:
    found = booted()
    switch = Switch(found.ready)
    live = live_of(altered(found, infer=switch))
    assert live.probe() == ""
    switch.how = lambda outputs: dict.fromkeys(outputs, np.zeros(()))
    assert live.probe().startswith("golden probe: it broke with ")
    assert "\n" not in live.probe()


def test_an_output_that_stands_is_suspect_until_a_probe_passes_and_a_new_session_begins_anew() -> None:
    found = booted()
    switch = Switch(found.ready)
    live = live_of(altered(found, infer=switch))
    assert found.ready is not None
    frozen: list[Outputs] = []
    switch.how = lambda outputs: frozen[0] if frozen else (frozen.append(outputs) or outputs)  # type: ignore[func-returns-value]
    feeds = {name: values[:1] for name, values in found.ready.goldens.tensors.items()}

    def call(count: int) -> None:
        for n in range(count):
            live.model.infer({name: values + np.float32(n) for name, values in feeds.items()})

    call(SUSPECT_CALLS)
    assert not live.is_suspect
    call(SUSPECT_CALLS)
    assert live.is_suspect
    assert live.probe().startswith("golden probe: found ")
    assert live.is_suspect
    live.rebuild("why")
    assert not live.is_suspect


def test_a_probe_that_passes_clears_the_suspicion() -> None:
    found = booted()
    switch = Switch(found.ready)
    live = live_of(altered(found, infer=switch))
    assert found.ready is not None
    name, values = next(iter(found.ready.goldens.tensors.items()))
    for n in range(SUSPECT_CALLS + 1):
        switch.how = lambda outputs: {one: np.zeros_like(made) for one, made in outputs.items()}
        live.model.infer({name: values[:1] + np.float32(n)})
    assert live.is_suspect
    switch.how = dict
    assert live.probe() == ""
    assert not live.is_suspect


def test_steps_that_fail_as_a_call_have_the_session_made_anew() -> None:
    def prepare(feeds: Mapping[str, Any], /) -> Any:
        return feeds if live.rebuilt else fail(feeds)

    live = live_of(altered(booted(), prepare=prepare), lambda: altered(booted(), prepare=prepare))
    assert live.model.prepare is not None
    assert live.model.prepare({"a": np.ones(1)}) == {"a": 1}
    assert live.rebuilt.startswith("the model's run: found CUDA error")


def test_a_state_that_is_no_number_is_not_passed_on_and_the_probe_of_it_does_not_break() -> None:
    found = booted("tiny_gru")
    switch = Switch(found.ready)
    live = live_of(altered(found, infer=switch))
    manifest = live.model.manifest
    assert found.ready is not None
    first = stages.readings_of(found.ready.goldens, manifest)[0][0]
    assert first.units is not None
    assert first.time_ns is not None
    begun_ns = first.time_ns
    bound = {
        one.name: ChannelBinding(field=one.name, unit=unit)
        for one, unit in zip(manifest.channels, first.units, strict=True)
    }
    line = Line(name="a", model=live.model, contract=Contract(manifest.channels, bound))

    def give(at: int, how: Callable[[Outputs], Outputs]) -> list[Any]:
        switch.how = how
        line.offer(first._replace(time_ns=begun_ns + at * 10_000_000_000), 0)
        line.run()
        return line.take_answers()

    assert [len(give(at, dict)) for at in range(3)] == [1, 1, 1]
    assert give(3, nan) == []
    assert "golden probe" in live.probe()
    assert give(4, lambda outputs: {**outputs, "h_next": np.full_like(outputs["h_next"], np.inf)}) == []
    (answer,) = give(5, dict)
    assert "restarted" in flag_names(answer.flags)
    assert line.ledger.refused["not_finite_output"] == 2
    saved = json.dumps(line.saved()["streams"])
    assert "NaN" not in saved
    assert "Infinity" not in saved


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Switch, Lane, Lane]:
    """Two lines on one bundle, whose session is given up when it fails."""
    found = booted()
    switch = Switch(found.ready)
    live = live_of(altered(found, infer=switch), lambda: Booted(found.report, None))
    return switch, _lane(tmp_path, live, "a"), _lane(tmp_path, live, "b")


def test_nothing_leaves_another_line_of_a_session_that_was_given_up(
    pair: tuple[Switch, Lane, Lane], tmp_path: Path
) -> None:
    switch, one, other = pair
    _fill(other)  # answers that have not gone out
    switch.how = fail
    with pytest.raises(Quarantined):
        _turn_on(one)
    switch.how = dict  # it seems well again
    one.stop()
    other.stop()
    assert not (tmp_path / "a.jsonl").exists() or not (tmp_path / "a.jsonl").read_bytes()
    assert not (tmp_path / "b.jsonl").exists() or not (tmp_path / "b.jsonl").read_bytes()
    assert one.health().ledger.adds_up
    assert other.health().ledger.adds_up


def test_the_ledger_adds_up_where_a_later_batch_of_a_turn_fails(pair: tuple[Switch, Lane, Lane]) -> None:
    switch, one, other = pair
    calls = iter(range(100))
    switch.how = lambda outputs: fail(outputs) if next(calls) else outputs
    with pytest.raises(Quarantined):
        _turn_on(one)
    assert one.line.ledger.refused["inference_failed"] > 0
    assert one.line.pending > 0
    assert one.health().ledger.adds_up
    one.stop()
    other.stop()


def test_what_was_withdrawn_does_not_count_as_told(tmp_path: Path) -> None:
    found = booted()
    lane = _lane(tmp_path, live_of(found), publish=Publish(when="every", every_s=86_400))
    _fill(lane)
    told = len(lane._outbox)
    assert lane.distrust("why") == told > 0
    lane.trust()
    _fill(lane, 80)
    assert len(lane._outbox) > 0
    assert lane.health().ledger.adds_up
    assert lane.distrust("why") > 0
    assert lane.distrust("why") == 0
    lane.stop()


def test_where_nothing_is_withdrawn_nothing_is_counted(tmp_path: Path) -> None:
    lane = _lane(tmp_path, live_of(booted()))
    assert lane.distrust("why") == 0
    assert lane.health().ledger.counts["answers"]["dropped"] == {}
    lane.stop()


def _lane(tmp_path: Path, live: Live, name: str = "a", **more: Any) -> Lane:
    """The shipped line of that name, with a journal."""
    loaded = load_config(ROOT / "examples/frost/device.toml")
    path = str(tmp_path / f"{name}.jsonl")
    update = {"name": name, "journal": JournalConfig(enabled="on"), "sink": (JsonLinesFile(path=path),)}
    line = loaded.config.line[0].model_copy(update=update | more)
    made = Lane(line, live, folder=loaded.folder, state=tmp_path, run_id="r", wall_ns=time.time_ns, mono_ns=lambda: 0)
    made.start(SimpleNamespace(set=lambda: None))
    return made


def _turn_on(lane: Lane) -> None:
    while lane.turn():
        pass


def _fill(lane: Lane, first: int = 0) -> None:
    """Answer the samples from ``first`` on, 80 of them, without sending."""
    header, *rows = (ROOT / "examples/frost/station_us_units.csv").read_bytes().splitlines(keepends=True)
    lane.line.feed(b"".join(rows[first : first + 80] if first else [header, *rows[:80]]), 0)
    lane.line.run()
    lane._collect(0)


class Hours:
    """The service between two lines' files and one session, and its clock; the probes are counted."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: Callable[[], Booted]) -> None:
        found = booted()
        self.switch = Switch(found.ready)
        self.live = live_of(altered(found, infer=self.switch), again)
        self.lane = _lane(tmp_path, self.live)
        self.out = tmp_path / "a.jsonl"
        self.clock = HandClock(mono_ns=1)
        self.probes: list[str] = []
        probe = self.live.probe

        def counted() -> str:
            self.probes.append(probe())
            return self.probes[-1]

        self.live.probe = counted  # type: ignore[method-assign]
        clocks = SimpleNamespace(time_ns=self.clock.wall_ns, monotonic_ns=self.clock.mono_ns)
        monkeypatch.setattr(serve, "time", clocks)
        self.service = serve.Service(load_config(ROOT / "examples/frost/device.toml"), tmp_path)
        self.service._lives, self.service._lanes = (self.live,), (self.lane,)

    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.service._prove()


def test_a_probe_is_due_one_interval_after_the_last_and_nothing_leaves_behind_the_first_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours(tmp_path, monkeypatch, lambda: Booted(booted().report, None))
    for _ in range(2):  # at the start, and each minute to the second
        hours.tick(0)
        assert hours.probes.pop() == ""
        for _ in range(59):
            hours.tick(1)
        assert hours.probes == []
        hours.clock.advance(1)
    hours.tick(0)
    assert hours.probes.pop() == ""
    hours.switch.how = lambda outputs: {name: values + values.dtype.type(3) for name, values in outputs.items()}
    _fill(hours.lane)
    wrong = len(hours.lane._outbox)
    for _ in range(59):
        hours.tick(1)
    assert hours.probes == []
    with pytest.raises(Quarantined):
        hours.tick(1)
    assert len(hours.probes) == 1
    assert hours.probes[0].startswith("golden probe: found ")
    assert hours.lane.health().ledger.counts["answers"]["dropped"] == {"quarantined": wrong}
    assert wrong > 0
    hours.lane.stop()
    assert not hours.out.exists() or hours.out.read_bytes() == b""


def test_a_session_made_anew_by_a_failed_probe_is_what_the_next_probes_and_answers_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours(tmp_path, monkeypatch, booted)
    hours.tick(0)
    hours.switch.how = nan
    hours.tick(59)
    assert hours.live.rebuilt == ""
    hours.tick(1)
    assert hours.live.rebuilt == hours.probes[-1] != ""
    hours.tick(60)
    assert [one == "" for one in hours.probes] == [True, False, True]
    _fill(hours.lane)
    assert hours.lane._send()
    hours.lane.stop()
    assert hours.out.read_bytes().count(b"\n") > 0


def test_a_process_larger_than_its_profile_allows_fails_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    found = booted()
    assert found.ready is not None
    object.__setattr__(found.ready, "profile", found.ready.profile.model_copy(update={"memory_mb": 100}))
    live = live_of(found)
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: 104.0)
    assert live.probe() == ""
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: 105.0)
    with pytest.raises(DeviceError, match="memory of this process: found 105 MB; expected at most 105 MB"):
        live.probe()
