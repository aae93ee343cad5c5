"""A line that keeps samples gives the same answers as one that does not, and what it kept outlives its process."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_runtime.author.mutate_subject import open_subject
from edge_runtime.author.validate import read_captures, validate
from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import boot
from edge_runtime.run.config import load_config
from edge_runtime.run.lane import Lane
from edge_runtime.run.setting import make_line_setting
from edge_runtime.run.status import describe
from edge_runtime.sinks import ring_file
from edge_runtime.spec.capture import CaptureConfig
from edge_runtime.spec.device_config import JournalConfig
from edge_runtime.spec.sink import JsonLinesFile
from edge_runtime.status.health import Health
from tests.rig.bundles import FROST, ROOT, files_of


def _lane(folder: Path, capture: CaptureConfig | None, **more: Any) -> Lane:
    loaded = load_config(ROOT / "examples/frost/device.toml")
    update = {
        "journal": JournalConfig(enabled="on"), "sink": (JsonLinesFile(path=str(folder / "a.jsonl")),), "capture": capture,
    }  # fmt: skip
    line = loaded.config.line[0].model_copy(update=update | more)
    bundle = loaded.resolve(line.bundle).resolve()
    ready = boot(bundle, make_line_setting(loaded, bundle)).ready
    assert ready is not None
    made = Lane(line, ready, folder=loaded.folder, state=folder, run_id="r", wall_ns=time.time_ns, mono_ns=lambda: 0)
    made.start(SimpleNamespace(set=lambda: None))  # nobody waits
    return made


def _played(folder: Path, capture: CaptureConfig | None) -> Lane:
    folder.mkdir(exist_ok=True)
    lane = _lane(folder, capture)
    while lane.turn():
        pass
    return lane


def _kept(folder: Path) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "frost.capture.jsonl").read_text().splitlines()]


ALL = CaptureConfig(every=10, margin={"low": 0.2}, a_minute=1000)


def test_the_answers_are_those_of_a_line_that_keeps_nothing_and_the_kept_ones_are_among_them(tmp_path: Path) -> None:
    for name, config in (("with", ALL), ("without", None)):
        _played(tmp_path / name, config).stop()
    answers = (tmp_path / "with" / "a.jsonl").read_bytes()
    assert answers == (tmp_path / "without" / "a.jsonl").read_bytes()
    assert not (tmp_path / "without" / "frost.capture.jsonl").exists()
    by_id = {one["id"]: one for one in map(json.loads, answers.splitlines())}
    head, *kept = _kept(tmp_path / "with")
    assert (head["bundle"], head["length"]) == ("frost", 24)
    assert len(kept) > 17
    for one in kept:
        assert by_id[one["answer"]["id"]] == one["answer"]
    assert {why for one in kept for why in one["why"]} >= {"nth", "low_margin"}


def test_a_killed_process_leaves_whole_lines_and_the_next_one_goes_on(tmp_path: Path) -> None:
    lane = _played(tmp_path / "first", ALL)
    lane.tick()
    before = _kept(tmp_path / "first")  # not stopped: what kill -9 leaves, and the torn line it may leave
    second = tmp_path / "second"
    second.mkdir()
    torn = (tmp_path / "first" / "frost.capture.jsonl").read_bytes() + b'{"why":["nth"],"raw":"MjAy'
    (second / "frost.capture.jsonl").write_bytes(torn)
    _played(second, ALL).stop()  # the same answers are made once more
    lane.stop()
    captures = read_captures([second / "frost.capture.jsonl"])
    assert captures.torn == 1
    assert len(captures.cases) == len(before) - 1


def test_a_disk_that_fills_neither_slows_nor_stops_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ring_file, "append_whole", full)
    lane = _played(tmp_path, ALL)
    lane.tick()
    assert lane.line.ledger.published == 169
    assert lane.trouble == ""
    health = lane.health()
    assert health.capture is not None
    assert health.capture.startswith("0 samples kept, ")
    assert " lost: No space left on device. They hold measurements: " in health.capture
    text = "\n".join(
        describe(Health("2025-01-28T23:00:00Z", 1, "r", "OPERATIONAL", "all", True, True, True, None, (health,)))
    )
    assert "\n  capture      0 samples kept" in text
    lane.stop()


def test_the_bundle_itself_answers_its_captures_as_it_did(tmp_path: Path) -> None:
    _played(tmp_path, ALL).stop()
    model = open_subject(files_of(FROST)).way.model
    told = list(validate(model, read_captures([tmp_path / "frost.capture.jsonl"])))
    assert told[0].startswith("captured: ")
    assert any("the new bundle answers" in line and "refuses" not in line for line in told)
    assert any(line.startswith("  low: 0 Cel apart in the mean of") for line in told)
    frost = next(line for line in told if line.startswith("  low, frost: "))
    count = frost.removeprefix("  low, frost: ").split()
    assert count[0] == count[2]


def test_a_margin_the_bundle_has_none_of_is_refused_at_boot(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"capture\.margin: found 'high'; expected 'low'"):
        _lane(tmp_path, CaptureConfig(margin={"high": 1.0}))
