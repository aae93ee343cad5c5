"""`diff`: no field of a contract can differ unseen, each difference says what it means, and nothing heavy is imported."""

import hashlib
import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.bundle.write import write_tar
from edge_runtime.errors import BundleError
from edge_runtime.run.diff import main
from edge_runtime.run.differences import GROUPS, ORDER, differences
from edge_runtime.spec.manifest import Manifest, parse
from tests.rig import tiny
from tests.rig.bundles import DEWPOINT, FROST, ROOT, files_of, manifest_of, write_with, write_with_manifest


def _told(change: Any, bundle: Path = FROST) -> list[tuple[str, str, str, str, str]]:
    raw = manifest_of(bundle)
    change(raw)
    a, b = parse((bundle / "manifest.json").read_bytes()), parse(json.dumps(raw).encode())
    return [tuple(one) for one in differences(a, b)]


def _channel(raw: dict[str, Any], number: int = 0) -> dict[str, Any]:
    channel: dict[str, Any] = raw["inputs"][0]["channels"][number]
    return channel


def test_every_field_of_the_manifest_has_a_group() -> None:
    assert set(GROUPS) - {"channels"} == set(Manifest.model_fields)
    assert set(GROUPS.values()) <= set(ORDER)


def test_equal_contracts_do_not_differ() -> None:
    assert _told(lambda _: None) == []


def _edits(raw: Any) -> Iterator[Any]:  # noqa: C901 - one branch a JSON type
    """Copies of a JSON tree with one leaf changed so that it may still be valid."""
    if isinstance(raw, dict):
        for key in raw:
            for other in _edits(raw[key]):
                yield raw | {key: other}
    elif isinstance(raw, list):
        for at, one in enumerate(raw):
            for other in _edits(one):
                yield [*raw[:at], other, *raw[at + 1 :]]
        if len(raw) > 1:
            yield [raw[1], raw[0], *raw[2:]]
    elif isinstance(raw, bool):
        yield not raw
    elif isinstance(raw, int):
        yield raw + 1
    elif isinstance(raw, float):
        yield raw * 1.001 + 1e-6
    elif isinstance(raw, str):
        yield f"{raw}x"


BUNDLES = sorted(path for path in (ROOT / "bundles").iterdir() if path.is_dir())


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_no_leaf_differs_unseen(bundle: Path) -> None:
    raw = manifest_of(bundle)
    before = parse(json.dumps(raw).encode())
    valid = 0
    for edited in _edits(deepcopy(raw)):
        try:
            after = parse(json.dumps(edited).encode())
        except BundleError:
            continue
        if after != before:
            valid += 1
            told = differences(before, after)
            assert told
            assert all(one.means for one in told)
            assert all((one.was, one.is_now) != ("none", "none") for one in told)
    assert valid > 40


@pytest.mark.parametrize(
    ("change", "group", "subject", "was", "is_now", "means"),
    [
        (lambda raw: _channel(raw).update(unit="K"), "units", "channel air_temperature, unit", "Cel", "K", "+ 273.15"),
        (lambda raw: _channel(raw).update(unit="m"), "units", "channel air_temperature, unit", "Cel", "m",
         "another quantity"),
        (lambda raw: _channel(raw).update(unit="hPa"), "units", "channel air_temperature, unit", "Cel", "hPa",
         "refused at boot"),
        (lambda raw: _channel(raw).update(physical={"min": -70, "max": 50}), "bands",
         "channel air_temperature, physical", "-60 to 60", "-70 to 50", "are refused that A took"),
        (lambda raw: _channel(raw).update(physical={"min": -70, "max": 60}), "bands",
         "channel air_temperature, physical", "-60 to 60", "-70 to 60", "samples are taken that A refused"),
        (lambda raw: _channel(raw).update(when_undeclared="assume"), "policies",
         "channel air_temperature, when_undeclared", "refuse", "assume", "assumed_unit"),
        (lambda raw: _channel(raw).update(when_missing="hold", hold_s=60), "policies", "channel air_temperature, hold_s",
         "none", "60.0", "held for another time"),
        (lambda raw: raw["window"].update(period_s=600), "window", "window, period_s", "3600.0", "600.0", "the new pace"),
        (lambda raw: raw["window"].update(hop=2), "window", "window, hop", "1", "2", "more, or less, often"),
        (lambda raw: raw["inputs"][0]["steps"][0]["mean"].__setitem__(1, 7.0), "steps",
         "input window, step 1 standardize, mean, relative_humidity", "69.43142700195312", "7.0", "goldens of B"),
        (lambda raw: raw["outputs"][0]["flags"][0].update(on=1.0), "flags", "output low, flag frost, on", "2.0", "1.0",
         "comes on"),
        (lambda raw: raw["outputs"][0].update(unit="K"), "units", "output low, unit", "Cel", "K", "in another unit"),
        (lambda raw: raw["variants"][0]["tolerances"].update(
            CPUExecutionProvider={"kind": "steps", "steps": 1, "evidence": "none"}), "tolerances",
         "variant cpu_int8, tolerances, CPUExecutionProvider, kind", "exact", "steps", "off by more"),
        (lambda raw: raw.update(security_version=2), "identity", "security_version", "1", "2", "refuses A"),
        (lambda raw: raw.update(security_version=0), "identity", "security_version", "1", "0", "roll-back"),
        (lambda raw: raw["needs"].update(memory_mb=1), "needs", "needs, memory_mb", "150.0", "1.0", "`memory`"),
        (lambda raw: raw["inputs"][0]["channels"].reverse(), "channels", "order of channels", "air_temperature, rel", "solar",
         "bound by name"),
    ],
)  # fmt: skip
def test_each_kind_says_what_it_means(change: Any, group: str, subject: str, was: str, is_now: str, means: str) -> None:
    found = [one for one in _told(change) if one[1] == subject]
    assert len(found) == 1, _told(change)
    assert found[0][0] == group
    assert found[0][2].startswith(was)
    assert found[0][3].startswith(is_now)
    assert means in found[0][4]


def _with_channel(raw: dict[str, Any], name: str) -> None:
    raw["inputs"][0]["channels"].append(_channel(raw) | {"name": name})
    raw["inputs"][0]["steps"] = []


@pytest.mark.parametrize("name", ["gust", "unit", "order", "steps", "tolerances"])
def test_a_channel_added_or_removed_must_be_bound(name: str) -> None:
    a, b = manifest_of(FROST), manifest_of(FROST)
    _with_channel(b, name)
    a["inputs"][0]["steps"] = []
    one, other = (parse(json.dumps(raw).encode()) for raw in (a, b))
    (added,) = differences(one, other)
    assert (added.group, added.subject, added.was) == ("channels", f"channel {name}", "none")
    assert f"device.toml must bind it: [line.channels] {name}" in added.means
    (removed,) = differences(other, one)
    assert "must no longer bind it" in removed.means


def test_labels_and_long_constants() -> None:
    labels = ("cold", "mild", "warm")
    plain = {"tensor": "y", "name": "class", "meaning": "a class", "form": "label"}
    one = tiny.manifest(outputs=[plain | {"labels": labels}])
    other = tiny.manifest(outputs=[plain | {"labels": ("background", *labels[:2])}])
    (found,) = differences(one, other)
    assert (found.group, found.was, found.is_now) == ("labels", "cold, mild, warm", "background, cold, mild")
    assert "other words" in found.means
    grid = [float(at) for at in range(200)]
    longs = [
        tiny.manifest(steps=[{"step": "lookup", "channel": 0, "keys": grid, "values": [*grid[:-1], last]}])
        for last in (0.0, 1.0)
    ]
    (found,) = differences(*longs)
    assert (found.was, found.is_now) == ("0.0 at place 199 of 200", "1.0 there")


def test_a_renamed_tensor_is_told_as_renamed() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["tensor"] = "x"
        raw["variants"][0] |= {"model_inputs": ["x"], "name": "other", "input_clip": {}}

    subjects = [one[1] for one in _told(change)]
    assert "input window, tensor" in subjects
    assert "variant cpu_int8, name" in subjects
    assert not any("step 1" in subject for subject in subjects)


def test_text_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tar({name: data for name, data in files_of(FROST).items() if name != "SHA256SUMS"}, tmp_path / "frost.tar")
    assert main(Namespace(a=str(FROST), b=str(tmp_path / "frost.tar"), json=False)) == 0
    assert "equal: every file of the two, byte for byte" in capsys.readouterr().out
    changed = write_with_manifest(FROST, tmp_path / "b", lambda raw: _channel(raw).update(unit="K"))
    assert main(Namespace(a=str(FROST), b=str(changed), json=False)) == 1
    out = capsys.readouterr().out
    assert "\nunits\n  channel air_temperature, unit: Cel -> K\n      nothing where device.toml" in out
    assert "metrics: there -> no b.build.json beside it" in out


def test_files_goldens_and_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = (ROOT / "examples/frost/model_fp32.onnx").read_bytes()
    path = write_with(FROST, tmp_path / "b", {"model_int8.onnx": model, "more.txt": b"x"})
    assert main(Namespace(a=str(FROST), b=str(path), json=True)) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["equal"]) == ("edge-runtime/diff/1", False)
    found = {(one["group"], one["subject"]): one for one in told["differences"]}
    assert set(found) == {("files", "model_int8.onnx"), ("files", "more.txt"), ("metrics", "metrics")}
    assert found["files", "more.txt"]["was"] == "none"


@pytest.mark.parametrize(
    ("key", "was", "is_now", "means"),
    [
        ("mae_bundle", 2.0, 1.5, "25.0% less error"), ("mae_bundle", 2.0, 2.5, "25.0% more error"),
        ("accuracy_bundle", 0.9, 0.95, "right in 5.0% more of the author's test cases"),
        ("accuracy_bundle", 0.9, 0.85, "right in 5.0% fewer of the author's test cases"),
        ("cases", 10, 20, "see the author's record"), ("mae_bundle", 0.0, 0.1, "see the author's record"),
    ],
)  # fmt: skip
def test_metrics_say_what_is_better(
    key: str, was: float, is_now: float, means: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name, value in (("a", was), ("b", is_now)):
        paths.append(write_with_manifest(FROST, tmp_path / name, lambda raw, name=name: raw.update(description=name)))
        digest = hashlib.sha256((tmp_path / name / "SHA256SUMS").read_bytes()).hexdigest()
        record = {"bundle": {"digest": digest}, "metrics": {"cpu": {"low": {key: value, "unit": "Cel"}}}}
        (tmp_path / f"{name}.build.json").write_text(json.dumps(record))
    assert main(Namespace(a=str(paths[0]), b=str(paths[1]), json=True)) == 1
    (found,) = [one for one in json.loads(capsys.readouterr().out)["differences"] if one["group"] == "metrics"]
    assert (found["subject"], found["was"], found["is"]) == (f"cpu.low.{key}", str(was), str(is_now))
    assert means in found["means"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("{", "cannot be read"),
        ('{"bundle": {"digest": "x"}, "metrics": {}}', "of another build"),
        ("[]", "cannot be read"),
    ],
)
def test_a_record_that_does_not_fit_is_said(
    text: str, note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_with_manifest(FROST, tmp_path / "b", lambda raw: raw.update(version="1.0.1"))
    (tmp_path / "b.build.json").write_text(text)
    assert main(Namespace(a=str(FROST), b=str(path), json=False)) == 1
    assert note in capsys.readouterr().out


def test_any_two_bundles(capsys: pytest.CaptureFixture[str]) -> None:
    for a, b in pairwise([*BUNDLES, BUNDLES[0]]):
        assert main(Namespace(a=str(a), b=str(b), json=True)) == 1
        told = json.loads(capsys.readouterr().out)["differences"]
        assert [one["group"] for one in told] == sorted((one["group"] for one in told), key=ORDER.index)
        assert all(one["was"] != one["is"] for one in told)


def test_unreadable_is_65_and_onnxruntime_is_not_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "edge_runtime", "diff"]
    done = subprocess.run([*command, FROST, tmp_path / "none"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 65
    assert done.stderr.splitlines()[-1].startswith("edge-runtime: ")
    done = subprocess.run([*command, FROST, DEWPOINT], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "edge_runtime.run.differences" in modules
    assert not any(name.partition(".")[0] in ("onnxruntime", "onnx", "serial") for name in modules)
