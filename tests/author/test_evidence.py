import json
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.author import evidence
from edge_runtime.author.build import build
from edge_runtime.author.emulation import PROGRAM, is_available
from edge_runtime.author.evidence import (
    NOTHING_SEEN,
    Seen,
    Spread,
    measure_spread,
    propose,
    read_reports,
    seen_on,
    widest,
)
from edge_runtime.author.quantize import quantize
from edge_runtime.author.record import encode_record, read_record
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.variant import Tolerance
from tests.author.conftest import Pack
from tests.author.searching import bench

CPU = "CPUExecutionProvider"
HERE = {"architecture": "x86_64", "processor": "A", "features": "avx2", "board": "unknown"}
THERE = {"architecture": "aarch64", "processor": "B", "features": "asimddp", "board": "Pi 5"}
NUMBERS = {"low": np.linspace(-1, 1, 50, dtype=np.float32).reshape(50, 1)}
needs_qemu = pytest.mark.skipif(
    not is_available(), reason=f"NOT CHECKED: {PROGRAM} is not installed, nothing was emulated"
)


def _report(path: Path, measured: str, environment: dict, **changed: object) -> Path:
    checks = [
        {"id": "golden_output", "tier": "required", "status": changed.pop("status", "pass"), "measured": measured,
         "limit": "equal", "hint": "", "ms": 1.0}
    ]  # fmt: skip
    bundle = {"path": "b", "id": "frost", "version": "1.0.0", "security_version": 1, "digest": None, "limits": None}
    boot = {
        "status": "pass", "state": "OPERATIONAL", "started": "2026-01-01T00:00:00Z", "duration_ms": 1.0,
        "bundle": bundle | changed, "runtime": "0.1.0", "onnxruntime": "1.32.0", "profile": "p", "provider": CPU,
        "boot_id": None, "environment": environment, "changed_since_last_pass": None, "conversions": {},
        "checks": checks,
    }  # fmt: skip
    whole = {"schema": "edge-runtime/report/1", "status": "pass", "tiers": ["required"], "boots": [boot]}
    path.write_text(json.dumps(whole))
    return path


def _spread(off: float) -> Spread:
    return Spread({"low": {"repeat": 0.0, "batch 2, 1 thread(s)": off}})


@pytest.fixture
def no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "is_available", lambda: False)


@pytest.mark.usefixtures("no_emulator")
def test_an_int8_model_does_not_move_over_threads_batches_and_repeats(pack: Pack) -> None:
    made = bench(pack)
    tensors = made.model.preprocess()(made.material.calibration[:40])
    graph = quantize(made.graph, tensors, subject="m").graph
    found = measure_spread(graph, tensors, {}, (1, 2, 4))
    knobs = found.largest["low"]
    assert set(knobs) >= {"repeat", "batch 1, 2 thread(s)", "batch 2, 1 thread(s)", "batch 4, 2 thread(s)"}
    assert set(knobs.values()) == {0.0}
    assert found.not_seen == ("no other CPU: qemu-x86_64-static is not installed",)


@needs_qemu
def test_the_emulated_cpus_are_among_what_is_varied(pack: Pack) -> None:
    made = bench(pack)
    tensors = made.model.preprocess()(made.material.calibration[:40])
    found = measure_spread(made.graph, tensors, {}, (1, 2), ("Haswell-noTSX",))
    assert found.largest["low"]["Haswell-noTSX, emulated"] < 1e-5
    assert found.not_seen == ()


def test_int8_is_exact_until_something_moves_it_then_so_many_steps() -> None:
    steps = {"low": 0.1}
    exact = propose(_spread(0.0), NUMBERS, steps, NOTHING_SEEN, HERE, CPU)["low"]
    assert exact.kind == "exact"
    assert exact.evidence.endswith("none moved it; provisional, seen on 1 machine")
    two = propose(_spread(0.2000003), NUMBERS, steps, NOTHING_SEEN, HERE, CPU)["low"]
    assert (two.kind, two.steps) == ("steps", 2)
    assert "batch 2, 1 thread(s) 0.2" in two.evidence
    seen = Seen(frozenset({tuple(THERE.values())}), {CPU: 0.3}, {CPU: 3.0}, (), ())
    reported = propose(_spread(0.0), NUMBERS, steps, seen, HERE, CPU)["low"]
    assert (reported.kind, reported.steps) == ("steps", 3)
    assert propose(_spread(0.0), NUMBERS, steps, seen, HERE, "CUDAExecutionProvider")["low"].kind == "exact"


def test_float_is_never_exact_and_widens_to_twice_what_was_seen() -> None:
    plain = propose(_spread(0.0), NUMBERS, {}, NOTHING_SEEN, HERE, CPU)["low"]
    assert (plain.kind, plain.rtol, plain.atol) == ("float", 1e-5, 1e-5)
    wide = propose(_spread(3e-3), NUMBERS, {}, NOTHING_SEEN, HERE, CPU)["low"]
    assert 6e-3 <= wide.atol <= 1.2e-2


def test_whole_numbers_and_texts_are_exact() -> None:
    texts = {"low": np.array(["a", "b"])}
    assert propose(_spread(0.0), texts, {}, NOTHING_SEEN, HERE, CPU)["low"].kind == "exact"


def test_the_widest_of_several_outputs_is_the_provider_s() -> None:
    exact = Tolerance(kind="exact", evidence="e")
    steps = [Tolerance(kind="steps", steps=count, evidence="e") for count in (1, 3)]
    wide = Tolerance(kind="float", rtol=1e-5, atol=1e-3, evidence="e")
    assert widest({"a": exact}) == exact
    assert widest({"a": exact, "b": steps[0], "c": steps[1]}).steps == 3
    assert widest({"a": steps[1], "b": wide}) == wide


def test_reports_are_counted_by_kind_of_machine(tmp_path: Path) -> None:
    paths = [
        _report(tmp_path / "a.json", "0 (0 steps) off at most; from the source framework: x", HERE),
        _report(tmp_path / "b.json", "0.37 (2 steps) off at most, 50% of what is allowed", THERE),
        _report(tmp_path / "c.json", "0.18 (1 steps) off at most", THERE | {"kernel": "6.2"}),
    ]
    seen = read_reports(paths, bundle="frost", version="1.0.0")
    assert (seen.steps, seen.largest) == ({CPU: 2.0}, {CPU: 0.37})
    assert len(seen.machines) == 2
    assert seen_on(HERE, seen) == "seen on 2 machines"
    assert seen_on(HERE, NOTHING_SEEN) == "provisional, seen on 1 machine"
    assert (seen.failed, seen.unused) == ((), ())


def test_reports_of_other_bundles_and_of_none_are_told_not_used(tmp_path: Path) -> None:
    paths = [
        _report(tmp_path / "a.json", "0.1 (1 steps) off at most", HERE, version="0.9.0"),
        _report(tmp_path / "b.json", "needs what failed above", HERE, status="skip"),
        _report(tmp_path / "c.json", "nan off at most", HERE),
        _report(tmp_path / "d.json", "2.4 (13 steps) off at most; beyond in 3 of 32 cases", HERE, status="fail"),
    ]
    seen = read_reports(paths, bundle="frost", version="1.0.0")
    assert len(seen.unused) == 3
    assert seen.unused[0] == f"{paths[0]}: of frost 0.9.0, not frost 1.0.0"
    assert seen.steps == {CPU: 13.0}
    assert seen.failed == (f"{paths[3]}: golden_output: 2.4 (13 steps) off at most; beyond in 3 of 32 cases",)


def test_a_drill_is_no_evidence(tmp_path: Path) -> None:
    path = _report(tmp_path / "a.json", "2.4 (13 steps) off at most", HERE, status="fail")
    drill = json.loads(path.read_text())
    drill["boots"][0]["injected"] = "golden_output"
    path.write_text(json.dumps(drill))
    seen = read_reports([path], bundle="frost", version="1.0.0")
    assert (seen.steps, seen.failed) == ({}, ())
    assert seen.unused == (f"{path}: a drill, golden_output was injected",)


def test_what_is_no_report_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json: found No such file"):
        read_reports([tmp_path / "none.json"], bundle="frost", version="1.0.0")
    path = tmp_path / "x.json"
    for text in ("{", "{}", '{"schema": 1}'):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=r"x\.json, ") as caught:
            read_reports([path], bundle="frost", version="1.0.0")
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_emulator")
def test_a_build_with_evidence_says_where_its_tolerance_comes_from_and_repeats_it(pack: Pack) -> None:
    report = _report(pack.folder / "r.json", "0.02 (1 steps) off at most", THERE, id="tiny", version="1.2.3")
    made = build(pack.contract, None, lambda _: None, [report], strengthens=False)
    assert made.failures == ()
    (tolerance,) = parse(made.files["manifest.json"]).variants[0].tolerances.values()
    assert (tolerance.kind, tolerance.steps) == ("steps", 1)
    assert "seen on 2 machines" in tolerance.evidence
    path = pack.folder / "build.json"
    path.write_bytes(encode_record(made.record))
    assert build(pack.contract, read_record(path), lambda _: None, strengthens=False).files == made.files


@pytest.mark.usefixtures("no_emulator")
def test_a_stated_tolerance_stands(pack: Pack) -> None:
    pack.contract.write_text(
        pack.contract.read_text() + '\n[tolerance]\nkind = "steps"\nsteps = 4\nevidence = "mine"\n'
    )
    made = build(pack.contract, None, lambda _: None, [], strengthens=False)
    (tolerance,) = parse(made.files["manifest.json"]).variants[0].tolerances.values()
    assert (tolerance.steps, tolerance.evidence) == (4, "mine")
    assert made.record.tolerances["cpu_int8"]["low"].kind == "exact"
