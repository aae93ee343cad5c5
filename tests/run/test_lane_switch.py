"""One bundle in the place of another in a lane: what goes on, what begins anew, and that nothing is lost on the way."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.config import load_config
from edge_runtime.run.lane import Lane
from edge_runtime.run.live import Live
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.capture import CaptureConfig
from edge_runtime.spec.device_config import JournalConfig, LineConfig
from edge_runtime.spec.result import flag_names
from edge_runtime.spec.sink import JsonLinesFile, Publish, SparkplugDevice
from tests.rig.bundles import write_with_manifest
from tests.rig.program import ROOT

ROWS = (ROOT / "examples/frost/station_us_units.csv").read_bytes().splitlines(keepends=True)
WARM_UP = 23


def _ready(bundle: Path) -> ReadyModel:
    ready = boot(bundle, make_setting()).ready
    assert ready is not None
    return ready


def live(bundle: Path) -> Live:
    ready = _ready(bundle)
    return Live(ready, lambda: pytest.fail("it was made anew"), lambda _: None)  # type: ignore[arg-type, return-value]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Frost as shipped, a twin of the same contract, and one whose channel means another thing."""
    folder = tmp_path_factory.mktemp("bundles")
    frost = ROOT / "bundles/frost"

    def other(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["channels"][0]["physical"]["max"] += 1

    return {
        "first": frost,
        "twin": write_with_manifest(frost, folder / "twin", lambda raw: raw.update(version="9.0.0")),
        "other": write_with_manifest(frost, folder / "other", other),
    }


class Rig:
    """A lane of the store on a folder of its own, fed by hand."""

    def __init__(self, folder: Path, **more: Any) -> None:
        loaded = load_config(ROOT / "examples/frost/device.toml")
        update = {
            "bundle": "store:frost", "journal": JournalConfig(enabled="on", sync_s=0),
            "sink": (JsonLinesFile(path=str(folder / "out.jsonl")),),
        }  # fmt: skip
        self.config: LineConfig = loaded.config.line[0].model_copy(update=update | more)
        self._folder, self._loaded = folder, loaded
        self.lane: Lane

    def open(self, live: Live) -> Lane:
        self.lane = Lane(
            self.config, live, folder=self._loaded.folder, state=self._folder, run_id="r1", wall_ns=time.time_ns,
            mono_ns=lambda: 0,
        )  # fmt: skip
        # What the source would give is fed by hand.
        self.lane.source = SimpleNamespace(  # type: ignore[assignment]
            take=list, ended=False, resumable=False, redelivers=False, live=False, can_wait=True, due_ns=lambda: None,
            start=lambda *_: None, stop=lambda: None, acknowledge=lambda _: None, status=lambda: "", reopened=0, name="hand",
        )  # fmt: skip
        self.lane.start(SimpleNamespace(set=lambda: None))
        return self.lane

    def feed(self, data: bytes) -> None:
        self.lane.line.feed(data, 0)
        self.lane.line.run()
        self.lane._collect(0)
        self.lane._keep()

    def rows(self, first: int, last: int) -> None:
        self.feed(b"".join(ROWS[first:last]))

    def switch(self, live: Live, run_id: str = "r2") -> None:
        self.lane.switch(live, self.lane.fitted(live), run_id)

    def sent(self) -> list[dict[str, Any]]:
        self.lane._send()
        path = self._folder / "out.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def kill(self) -> None:
        """Leave the files as a kill would: what was committed is there, nothing is tidied."""
        assert self.lane._journal is not None
        self.lane._journal._close_files()
        for sink in self.lane._sinks:
            sink.close()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_under_the_same_contract_windows_go_on_and_answers_name_another_run(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    twin = live(bundles["twin"])
    rig.switch(twin)
    assert rig.lane.serves(twin)
    rig.rows(41, 61)
    rows = rig.sent()
    assert [row["seq"] for row in rows] == list(range(60 - WARM_UP))
    assert [row["run"] for row in rows] == ["r1"] * (40 - WARM_UP) + ["r2"] * 20
    assert [row["seq"] for row in rows if "restarted" in row["flags"]] == [40 - WARM_UP]
    assert rig.lane.health().ledger.adds_up
    assert rig.lane.health().ledger.counts["samples"]["received"] == 60
    assert rig.lane.health().bundle is not None
    assert rig.lane.health().bundle.version == "9.0.0"  # type: ignore[union-attr]
    rig.lane.stop()


def test_the_answers_of_a_twin_are_those_of_a_line_that_never_changed(
    rig: Rig, bundles: dict[str, Path], tmp_path: Path
) -> None:
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    rig.switch(live(bundles["twin"]))
    rig.rows(41, 81)
    (tmp_path / "whole").mkdir()
    whole = Rig(tmp_path / "whole")
    whole.open(live(bundles["twin"]))
    whole.rows(0, 81)
    values = [[row["low"]["value"], row["time"]] for row in rig.sent()]
    assert values == [[row["low"]["value"], row["time"]] for row in whole.sent()]
    ids = {row["id"] for row in rig.sent()}
    assert len(ids & {row["id"] for row in whole.sent()}) == 40, "an id says by which bundle an answer was made"
    rig.lane.stop()
    whole.lane.stop()


def test_under_another_contract_windows_begin_anew_and_counts_go_on(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    rig.switch(live(bundles["other"]))
    rig.rows(41, 41 + WARM_UP)
    assert len(rig.sent()) == 40 - WARM_UP
    rig.rows(41 + WARM_UP, 42 + WARM_UP)
    last = rig.sent()[-1]
    assert (last["seq"], last["flags"].count("restarted")) == (0, 0), "a first start, as far as a stream knows"
    assert rig.lane.health().ledger.counts["samples"]["accepted"] == 41 + WARM_UP
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()


def test_half_a_frame_goes_on_in_the_new_line_and_so_does_the_header(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.open(live(bundles["first"]))
    rig.rows(0, 30)
    rig.feed(ROWS[30][:17])
    rig.switch(live(bundles["twin"]))
    rig.feed(ROWS[30][17:])
    rig.rows(31, 41)
    assert [row["seq"] for row in rig.sent()] == list(range(40 - WARM_UP))
    assert rig.lane.line.ledger.rejected.total() == 0
    rig.lane.stop()


def test_answers_that_wait_go_out_as_they_are(rig: Rig, bundles: dict[str, Path], tmp_path: Path) -> None:
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    waiting = [entry.lines for entry in rig.lane._outbox._entries]
    rig.switch(live(bundles["other"]))
    rig.sent()
    assert (tmp_path / "out.jsonl").read_bytes() == b"".join(line for lines in waiting for line in lines)
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()


@pytest.mark.parametrize(("after", "answers"), [("twin", 60 - WARM_UP), ("other", 40 - WARM_UP)])
def test_killed_before_a_switch_nothing_waits_in_vain(
    rig: Rig, bundles: dict[str, Path], after: str, answers: int
) -> None:
    """The pointer had changed, and the process died with answers in its outbox: another bundle finds the journal."""
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    rig.kill()
    rig.open(live(bundles[after]))
    assert rig.lane._journal is not None
    assert rig.lane._journal.notes == []
    rig.rows(41, 61)
    rows = rig.sent()
    assert [row["time"] for row in rows[: 40 - WARM_UP]] == sorted({row["time"] for row in rows[: 40 - WARM_UP]})
    assert len(rows) == answers
    assert rig.lane.health().ledger.adds_up
    assert rig.lane.health().ledger.counts["samples"]["accepted"] == 60
    rig.kill()
    rig.open(live(bundles["first"]))  # and back, from a journal that the second bundle has written
    rig.rows(61, 71)
    assert len(rig.sent()) == answers + (10 if after == "twin" else 0)
    assert rig.lane.health().ledger.adds_up
    rig.lane.stop()


def test_killed_after_a_switch_the_same_bundle_goes_on(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    rig.switch(live(bundles["twin"]))
    rig.rows(41, 51)
    rig.kill()
    rig.open(live(bundles["twin"]))
    rig.rows(51, 61)
    assert [row["seq"] for row in rig.sent()] == list(range(60 - WARM_UP))
    rig.lane.stop()


def test_a_journal_that_could_not_be_written_anew_takes_nothing_of_the_new_bundle(
    rig: Rig, bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else samples of the second would stand behind windows of the first, as if they were its."""
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    journal = rig.lane._journal
    assert journal is not None
    kept = journal._path.read_bytes()

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "_replace", full)
    rig.switch(live(bundles["other"]))
    assert "a restart would lose what came last" in rig.lane.trouble
    rig.rows(41, 61)
    assert journal._path.read_bytes() == kept
    monkeypatch.undo()
    rig.lane.tick()
    assert "a restart would lose" not in rig.lane.trouble
    assert journal._path.read_bytes() != kept
    rig.lane.stop()


def test_states_of_the_former_model_begin_anew(tmp_path: Path) -> None:
    """A recurrent state of other weights would be a wrong number that looks like one."""
    bundle = ROOT / "bundles/tiny_gru"
    first = live(bundle)
    manifest = first.model.manifest
    bound = {one.name: {"field": one.name, "unit": one.unit} for one in manifest.channels}
    config = LineConfig.model_validate({
        "name": "gru", "bundle": "store:tiny-gru", "source": {"kind": "stdin"},
        "decode": {"format": "json", "time": {"field": "time", "format": "unix_s"}}, "channels": bound,
        "sink": [{"kind": "jsonl", "path": str(tmp_path / "out.jsonl")}],
    })  # fmt: skip
    rig = Rig(tmp_path)
    rig.config = config
    rig.open(first)
    period = manifest.window.period_s if manifest.window and manifest.window.period_s else 10
    middle = {one.name: (one.trained.min + one.trained.max) / 2 for one in manifest.channels if one.trained}

    def sample(at: int) -> bytes:
        return json.dumps({"time": 1_738_022_400 + at * period, **middle}).encode() + b"\n"

    rig.feed(b"".join(sample(at) for at in range(3)))
    (stream,) = rig.lane.line._streams.values()
    assert any(values.any() for values in stream.state.values())
    rig.switch(live(bundle))
    (stream,) = rig.lane.line._streams.values()
    assert not any(values.any() for values in stream.state.values())
    rig.feed(sample(3))
    assert "restarted" in rig.sent()[-1]["flags"]
    rig.lane.stop()


def test_a_bundle_that_the_device_file_does_not_suit_is_refused_with_nothing_changed(
    tmp_path: Path, bundles: dict[str, Path]
) -> None:
    def renamed(raw: dict[str, Any]) -> None:
        raw["outputs"][0]["name"] = "lowest"

    path = write_with_manifest(ROOT / "bundles/frost", tmp_path / "renamed", renamed)
    other = boot(path, make_setting())
    found = live(bundles["first"])
    found.model = found.model._replace(manifest=_manifest(path))
    assert other.report.bundle["id"] == "frost"
    rig = Rig(tmp_path, publish=Publish(when="on_change", deadband={"low": 0.5}))
    rig.open(live(bundles["first"]))
    line = rig.lane.line
    with pytest.raises(ConfigurationError, match=r"publish\.deadband"):
        rig.lane.fitted(found)
    assert rig.lane.line is line
    rig.lane.stop()


def _manifest(bundle: Path) -> Any:
    from edge_runtime.spec.manifest import parse

    return parse((bundle / "manifest.json").read_bytes())


def test_samples_are_captured_under_the_bundle_that_answers(tmp_path: Path, bundles: dict[str, Path]) -> None:
    rig = Rig(tmp_path, capture=CaptureConfig.model_validate({"every": 1, "refused": True}))
    rig.open(live(bundles["first"]))
    rig.rows(0, 41)
    rig.lane.tick()
    twin = live(bundles["twin"])
    rig.switch(twin)
    rig.rows(41, 61)
    rig.lane.tick()
    rig.lane.stop()
    heads = [
        json.loads(line)
        for name in ("frost.capture.jsonl.1", "frost.capture.jsonl")
        if (tmp_path / name).exists()
        for line in (tmp_path / name).read_bytes().splitlines()
        if b"digest" in line
    ]
    assert twin.model.digest in json.dumps(heads)


@pytest.mark.parametrize("told", [True, False])
def test_a_host_that_was_told_other_outputs_takes_a_new_start(rig: Rig, bundles: dict[str, Path], told: bool) -> None:
    rig.open(live(bundles["first"]))
    if told:
        rig.lane._config = rig.config.model_copy(update={"sink": (SparkplugDevice(kind="sparkplug"),)})
    fitting = rig.lane.fitted(live(bundles["twin"])) if not told else rig.lane._fitting
    assert rig.lane.may_switch(fitting)
    changed = _with_outputs(fitting, [one.model_copy(update={"unit": "K"}) for one in fitting.outputs])
    assert rig.lane.may_switch(changed) is not told
    rig.lane.stop()


def _with_outputs(fitting: Any, outputs: list[Any]) -> Any:
    from dataclasses import replace

    return replace(fitting, outputs=outputs)


def test_a_bundle_in_another_s_place_is_flagged_in_every_answer(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.open(live(bundles["first"]))
    rig.lane.line.judge_by_bundle(is_fallback=True)
    rig.rows(0, 41)
    assert all("fallback_bundle" in row["flags"] for row in rig.sent())
    rig.switch(live(bundles["twin"]))
    rig.rows(41, 51)
    assert not any("fallback_bundle" in row["flags"] for row in rig.sent()[40 - WARM_UP :])
    rig.lane.stop()


def test_the_flag_has_a_name_of_its_own() -> None:
    assert flag_names(262144) == ["fallback_bundle"]
