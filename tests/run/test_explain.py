"""`explain`: from a report or a boot of now, what broke first, where, by how much, what changed and what to do."""

import json
import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.bundle.golden import decode, encode
from edge_runtime.device.telemetry import read_telemetry
from edge_runtime.errors import UsageError
from edge_runtime.run import causes
from edge_runtime.run.boot import Setting, boot
from edge_runtime.run.drill import INJECTABLE, QUANT_PRECISION
from edge_runtime.run.explain import explain, main, used
from edge_runtime.run.memory import MEMORY_NAME
from edge_runtime.run.selftest import PORTS
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.report import BOTH_TIERS
from edge_runtime.spec.report_file import CheckFile, report_file
from tests.device import sensors
from tests.rig.bundles import DEWPOINT, FROST, ROOT, write_with, write_with_manifest
from tests.rig.device_file import line, write_device_file

BUNDLES = sorted(path for path in (ROOT / "bundles").iterdir() if path.is_dir())


def _args(**given: object) -> Namespace:
    return Namespace(
        **({"report": None, "bundle": None, "config": None, "profile": None, "inject": None, "against": None} | given)
    )


@pytest.fixture(scope="module")
def setting() -> Setting:
    return make_setting()


def _explained(bundle: Path, setting: Setting, inject: str | None = None) -> str:
    report = boot(bundle, setting, inject=inject).report
    (one,) = report_file([report], BOTH_TIERS).boots
    return "\n".join(explain(one))


def test_every_check_has_a_stage_and_causes(setting: Setting) -> None:
    ids = {check.id for check in boot(DEWPOINT, setting, inject="provider_cache").report.checks} | {PORTS}
    assert set(causes.STAGES) == ids
    assert set(causes._CAUSES) == ids
    parts = set(boot(DEWPOINT, setting).report.environment)
    assert {name for listed in causes._CAUSES.values() for one in listed for name in one.when} <= parts


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_a_pass_has_its_closest_call(bundle: Path, setting: Setting) -> None:
    told = _explained(bundle, setting)
    title, call, besides = told.splitlines()[:3]
    assert title.endswith(" 1.0.0: nothing is broken; it may serve")
    assert re.fullmatch(r"  closest call (every golden exactly equal|golden_\w+, \d+% of its limit: .*)", call)
    assert re.fullmatch(r"  and besides  (latency|memory), \d+% of its limit: .*", besides)
    assert "not checked  signature" in told
    assert "Likely causes" not in told


# The precision option has no check of its own, and where nothing can be withheld it is `provider` that says so.
@pytest.mark.parametrize("name", [one for one in INJECTABLE if one not in ("bindings", QUANT_PRECISION)])
def test_each_check_is_told_when_it_breaks(name: str, setting: Setting) -> None:
    told = _explained(FROST, setting, name)
    assert f": {name} broke first; it " in told
    assert causes.STAGES[name] in told
    assert "\n    1. " in told


def test_which_channel_and_which_cases(setting: Setting, tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["steps"][0]["mean"][3] += 0.5

    told = _explained(write_with_manifest(FROST, tmp_path / "b", change), setting)
    assert "golden_tensor broke first" in told
    assert "tensor units off at most; beyond in 33 of 33 cases, by most in case " in told
    assert "; in wind_speed 0.26" in told
    assert "air_temperature" not in told
    assert "failed too   golden_batches (follows from the first)" in told


def test_one_case_alone(setting: Setting, tmp_path: Path) -> None:
    stored = decode((FROST / "golden.npz").read_bytes(), subject="x")
    tensor = stored.tensors["window"].copy()
    tensor[7] += np.float32(0.25)
    stored = replace(stored, tensors={"window": tensor})
    told = _explained(write_with(FROST, tmp_path / "b", {"golden.npz": encode(stored)}), setting)
    assert "beyond in 1 of 33 cases, by most in case 7" in told


def test_what_changed_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_device_file(tmp_path, line("roof", DEWPOINT))
    environment = boot(DEWPOINT, make_setting()).report.environment
    memory = {"schema": "edge-runtime/boot/1", "last_passes": {"dewpoint": environment | {"glibc": "2.1"}}}
    (tmp_path / "state" / MEMORY_NAME).write_text(json.dumps(memory))
    assert main(_args(config=str(config), inject="golden_answer")) == 0
    told = capsys.readouterr().out
    assert "changed      glibc 2.1 -> " in told
    assert (
        "    1. numpy, the C library or edge-runtime itself were updated and compute a step otherwise (changed: glibc"
        in told
    )


def test_nothing_changed_speaks_for_the_hardware() -> None:
    known = causes.causes("golden_output", ["golden_output"], ())
    assert known[0].text.startswith("memory or processor are failing")
    everything = causes.causes("golden_tensor", ["golden_tensor", "golden_output", "golden_answer"], None)
    assert everything[0].text.startswith("everything at once")


def test_heat_that_the_report_shows_is_the_likeliest_cause_of_a_slow_answer(setting: Setting, tmp_path: Path) -> None:
    hot = read_telemetry(sensors.pi5(tmp_path, bits="4", millidegrees="84100"), lambda: 0)
    told = _explained(DEWPOINT, replace(setting, telemetry=lambda: hot), "latency")
    assert "\n  machine      84.1 C at most (cpu-thermal), 2400 MHz; firmware: throttled\n" in told
    assert "\n    1. the machine itself says that it was slow then: firmware: throttled\n" in told
    cool = read_telemetry(sensors.pi5(tmp_path), lambda: 0)
    told = _explained(DEWPOINT, replace(setting, telemetry=lambda: cool), "latency")
    assert "the machine itself says" not in told
    assert "the machine itself says" not in _explained(
        DEWPOINT, replace(setting, telemetry=lambda: hot), "golden_answer"
    ), "heat makes no number wrong"


def test_throttling_counted_while_it_booted_is_told(setting: Setting, tmp_path: Path) -> None:
    counts = iter([(5, 5), (5, 9)])
    told = _explained(
        DEWPOINT,
        replace(setting, telemetry=lambda: read_telemetry(sensors.pc(tmp_path, events=next(counts)), lambda: 0)),
    )
    assert "; throttled, 4 times counted since the last look\n" in told


def test_a_report_of_another_day(tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: Setting) -> None:
    report = boot(DEWPOINT, setting, inject="placement").report
    path = tmp_path / "report.json"
    path.write_text(report_file([report, report], BOTH_TIERS).model_dump_json(by_alias=True))
    assert main(_args(report=str(path))) == 0
    told = capsys.readouterr().out
    assert told.count("placement broke first") == 2
    assert told.count("  drill        --inject corrupted the input of placement: that failure is planted\n") == 2


def test_a_report_of_a_newer_schema_is_named_and_an_update_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"schema": "edge-runtime/report/2", "verdicts": [1]}))
    with pytest.raises(UsageError) as told:
        main(_args(report=str(path)))
    assert str(told.value) == (
        f"report {path}, schema: found edge-runtime/report/2; expected edge-runtime/report/1; "
        "update edge-runtime to the release that wrote it, or write one with this: edge-runtime selftest --json FILE"
    )


@pytest.mark.parametrize(
    "text", [None, "{}", "no JSON", '{"schema": "edge-runtime/report/1"}', '{"schema": "edge-runtime/doctor/2"}']
)
def test_no_report(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=r"expected what `selftest --json FILE` wrote"):
        main(_args(report=str(path)))


def _written(setting: Setting, path: Path, **changed: str) -> Path:
    """A report each of whose checks says ``changed``."""
    report = json.loads(report_file([boot(DEWPOINT, setting).report], BOTH_TIERS).model_dump_json(by_alias=True))
    for check in report["boots"][0]["checks"]:
        check.update(changed)
    path.write_text(json.dumps(report))
    return path


def test_a_report_moves_no_cursor_and_begins_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: Setting
) -> None:
    path = _written(setting, tmp_path / "r.json", status="fail", measured="\x1b[2J\r\nPASSED: it may serve\x9b")
    assert main(_args(report=str(path))) == 0
    told = capsys.readouterr().out
    assert "  found        \\x1b[2J\\r\\nPASSED: it may serve\\x9b\n" in told
    assert not any(line.startswith("PASSED") for line in told.splitlines())


@pytest.mark.parametrize("measured", ["1, " + "9" * 5000 + "% of what is allowed", "1e999 ms", "1e308 ms"])
def test_a_number_that_is_none_is_no_distance(
    measured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: Setting
) -> None:
    path = _written(setting, tmp_path / "r.json", status="pass", measured=measured, limit="1e-308 ms")
    assert main(_args(report=str(path))) == 0
    assert "no other check measures a distance here" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["boots", "checks"])
def test_a_report_of_nothing_is_no_pass(what: str, tmp_path: Path, setting: Setting) -> None:
    path = _written(setting, tmp_path / "r.json")
    report = json.loads(path.read_text())
    (report if what == "boots" else report["boots"][0])[what] = []
    path.write_text(json.dumps(report))
    with pytest.raises(UsageError, match="a boot without a check, or no boot"):
        main(_args(report=str(path)))


@pytest.mark.parametrize("other", ["config", "inject"])
def test_a_report_and_what_a_boot_takes_at_once(other: str) -> None:
    with pytest.raises(UsageError, match="one of the two"):
        main(_args(report="r.json", **{other: "x"}))


def test_against_nothing() -> None:
    with pytest.raises(UsageError, match="--against without --bundle"):
        main(_args(report="r.json", against="b"))


def _wrong(tmp_path: Path) -> Path:
    def change(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["steps"][0]["mean"][3] += 0.5

    return write_with_manifest(FROST, tmp_path / "b", change)


def test_what_it_takes_to_name_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_args(bundle=str(_wrong(tmp_path)))) == 0
    told = capsys.readouterr().out
    assert "  first wrong  not looked for here: it takes a workstation with onnx" in told
    assert "edge-runtime explain REPORT --bundle TESTED --against DELIVERED" in told


@pytest.mark.parametrize("inject", [None, "golden_output", "files"])
def test_where_no_golden_broke_in_earnest_there_is_no_node(inject: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_args(bundle=str(FROST), inject=inject)) == 0
    assert "first wrong" not in capsys.readouterr().out


def test_a_state_that_is_off_is_the_models_work(setting: Setting, tmp_path: Path) -> None:
    """The state of a golden's last sample came out of the model: with a wrong model it is the second to be off."""
    gru = ROOT / "bundles" / "tiny_gru"
    model = onnx.load_model_from_string((gru / "model_float32.onnx").read_bytes())
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w")
    weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), "w"))
    told = _explained(write_with(gru, tmp_path / "b", {"model_float32.onnx": model.SerializeToString()}), setting)
    assert "golden_output broke first" in told
    assert "  stage        two of three, the model" in told
    assert "failed too   golden_tensor (follows from the first): input tensor: found state h" in told


def test_a_state_is_told_after_the_tensors_it_follows_from(setting: Setting, tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["steps"][0]["mean"][0] += 0.5

    told = _explained(write_with_manifest(ROOT / "bundles" / "tiny_gru", tmp_path / "b", change), setting)
    assert "golden_tensor broke first" in told
    assert "found        input tensor: found x: " in told


@pytest.mark.parametrize(
    ("measured", "limit", "share"),
    [
        ("3e-07 tensor units off at most, 30% of what is allowed", "1e-06", 0.3),
        ("25 ms, second worst of 60", "50 ms", 0.5), ("83 MB", "166 MB", 0.5), ("83 MB", "50 ms", None),
        ("32 cases", "every stage stored", None),
    ],
)  # fmt: skip
def test_how_much_of_a_limit_was_used(measured: str, limit: str, share: float | None) -> None:
    check = CheckFile(id="x", tier="required", status="pass", measured=measured, limit=limit, hint="", ms=0)
    assert used(check) == share
