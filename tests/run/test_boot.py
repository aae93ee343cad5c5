"""Every check of a boot can fail, each on its own, and a bundle that was edited fails at the stage it should."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.engine import session as engine
from edge_runtime.errors import DeviceError, UsageError
from edge_runtime.run import golden_checks, latency
from edge_runtime.run.boot import ReadyModel, Setting, boot
from edge_runtime.run.drill import INJECTABLE, QUANT_PRECISION
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.report import LEFT_OUT, REQUIRED, Report
from edge_runtime.spec.units import resolve, siblings
from tests.rig.bundles import DEWPOINT, FROST, ROOT, files_of, manifest_of, write_with, write_with_manifest
from tests.rig.mutilate import flips

PUMP = ROOT / "bundles" / "tiny_pump"
GOLDENS = ("golden_tensor", "golden_output", "golden_answer", "golden_batches", "negative_goldens")
# What a check needs; where that failed it is left out, which is no pass.
_ON_PROVIDER = {"provider", "placement", *GOLDENS, "latency", "provider_choice"}
_OF_BUNDLE = {"rollback_floor", "compatibility", "headroom", "goldens", "units", "bindings", "memory", *_ON_PROVIDER}
NEEDED_BY = {
    "files": {"signature", "manifest", *_OF_BUNDLE},
    # What a stranger wrote is not read any further.
    "signature": {"manifest", *_OF_BUNDLE},
    "manifest": _OF_BUNDLE,
    "compatibility": {"headroom", "goldens", "units", *_ON_PROVIDER},
    "onnxruntime": {"compatibility", "headroom", "goldens", "units", *_ON_PROVIDER},
    # No session is made of what there is no room for.
    "headroom": _ON_PROVIDER,
    "provider": _ON_PROVIDER - {"provider"},
    "goldens": {"units", *GOLDENS, "latency"},
}


@pytest.fixture(scope="module")
def setting() -> Setting:
    return make_setting(bindings={"here": _bindings(FROST)})


@pytest.fixture(scope="module")
def bare() -> Setting:
    return make_setting()


def _bindings(bundle: Path) -> dict[str, ChannelBinding]:
    channels = manifest_of(bundle)["inputs"][0]["channels"]
    return {one["name"]: ChannelBinding(field=one["name"], unit=one["unit"]) for one in channels}


def _failed(report: Report) -> list[str]:
    return [check.id for check in report.failures()]


def _left_out(report: Report) -> set[str]:
    return {check.id for check in report.checks if check.status == "skip" and check.hint == LEFT_OUT}


@pytest.mark.parametrize("bundle", [FROST, DEWPOINT], ids=lambda path: path.name)
def test_shipped_bundles_pass(bundle: Path) -> None:
    booted = boot(bundle, make_setting(bindings={"here": _bindings(bundle)}))
    assert booted.ready is not None
    assert booted.report.state == "OPERATIONAL"
    skipped = [check.id for check in booted.report.checks if check.status == "skip"]
    assert skipped == ["signature"], "nothing else may be left out"
    assert booted.report.facts["conversions"]["here"][0].startswith("air_temperature: Cel -> Cel")


def test_every_check_can_be_injected(setting: Setting) -> None:
    every = {check.id for check in boot(FROST, setting, inject="provider_cache").report.checks}
    assert set(INJECTABLE) == every | {QUANT_PRECISION}
    # A machine whose profile lets no provider keep files is not told of it.
    assert every - {check.id for check in boot(FROST, setting).report.checks} == {"provider_cache"}


@pytest.mark.parametrize("name", [name for name in INJECTABLE if name != QUANT_PRECISION])
def test_injection_fails_that_check_and_no_other(name: str, setting: Setting) -> None:
    booted = boot(FROST, setting, inject=name)
    assert _failed(booted.report) == [name]
    assert _left_out(booted.report) == NEEDED_BY.get(name, set())
    assert "not noticed" not in booted.report.failures()[0].measured
    wanted = name in ("provider_choice", "provider_cache", "memory")
    assert (booted.ready is not None) == wanted
    assert booted.report.state == ("OPERATIONAL" if wanted else "ERROR")
    assert not booted.report.passed()


def test_an_option_that_is_not_needed_cannot_be_withheld(setting: Setting) -> None:
    """A drill that changes nothing must not read as passed; tests/proof/test_emulated_processors.py withholds a needed one."""
    (failed,) = boot(FROST, setting, inject=QUANT_PRECISION).report.failures(REQUIRED)
    assert failed.id == "provider"
    assert failed.measured == (
        "--inject quant_precision: found x64quantprecision is not needed here, so it cannot be withheld"
    )


def test_a_mistake_in_the_device_file_is_no_providers(bare: Setting, paced: "_Paced") -> None:
    """No other of the list is tried, which may take minutes, and none is said to have been refused."""
    setting = replace(_choosing(bare, "first", OPENVINO, CPU), bindings={"roof": {}})
    report = boot(FROST, setting).report
    assert _failed(report) == ["bindings"]
    assert paced.opened == [OPENVINO]


def test_a_check_that_a_drill_breaks_is_told_as_that(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, inject: bool) -> None:
        raise KeyError(inject)

    monkeypatch.setattr(golden_checks, "golden_answer", broken)
    (failed,) = boot(FROST, setting, inject="golden_answer").report.failures()
    assert failed.measured == "the check itself broke: KeyError: True"


@pytest.mark.parametrize("name", ["ports", "golden", ""])
def test_unknown_injection(name: str, setting: Setting) -> None:
    with pytest.raises(UsageError, match=r"--inject: found .*; expected one of hash_known_answer, files"):
        boot(FROST, setting, inject=name)


def test_only_boot_makes_a_ready_model(setting: Setting) -> None:
    ready = boot(FROST, setting).ready
    assert ready is not None
    with pytest.raises(TypeError, match=r"made by edge_runtime\.run\.boot\.boot alone"):
        ReadyModel(
            ready.model, ready.goldens, ready.provider, ready.profile, ready.machine, ready.report, proof=object()
        )


@pytest.mark.parametrize("bundle", [FROST, DEWPOINT], ids=lambda path: path.name)
def test_one_byte_changed_anywhere(bundle: Path, bare: Setting, tmp_path: Path) -> None:
    for count, files in enumerate(flips(files_of(bundle), per_file=60, seed=7)):
        folder = tmp_path / str(count)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        booted = boot(folder, bare)
        assert booted.ready is None
        assert _failed(booted.report) == ["files"]


@pytest.mark.long
def test_every_byte_of_the_short_files_and_2000_of_the_others(bare: Setting, tmp_path: Path) -> None:
    folder = tmp_path / "frost"
    folder.mkdir()
    original = files_of(FROST)
    short = {"manifest.json", "SHA256SUMS"}
    for name, data in original.items():
        (folder / name).write_bytes(data)
    for name, data in original.items():
        for files in flips({name: data}, per_file=len(data) if name in short else 2000, seed=5):
            (folder / name).write_bytes(files[name])
            booted = boot(folder, bare)
            assert booted.ready is None
            assert _failed(booted.report) == ["files"]
        (folder / name).write_bytes(data)
    assert boot(folder, bare).ready is not None


class Mutant(NamedTuple):
    """An edit of a manifest, and the check that must fail first."""

    name: str
    raw: dict[str, Any]
    first: tuple[str, ...]


def _mutants(raw: dict[str, Any]) -> Iterator[Mutant]:
    yield from _constants(raw)
    yield from _swaps(raw)
    yield from _units(raw)
    yield from _answers(raw)
    if "window" in raw:
        changed = deepcopy(raw)
        changed["window"]["order"] = "newest_first"
        yield Mutant("window reversed", changed, ("golden_tensor",))


def _constants(raw: dict[str, Any]) -> Iterator[Mutant]:
    for key in ("mean", "std"):
        for at in range(len(raw["inputs"][0]["steps"][0][key])):
            for factor in (0.95, 1.05):
                changed = deepcopy(raw)
                changed["inputs"][0]["steps"][0][key][at] *= factor
                yield Mutant(f"{key} {at} * {factor}", changed, ("golden_tensor",))
    changed = deepcopy(raw)
    changed["inputs"][0]["steps"] = []
    yield Mutant("preprocess dropped", changed, ("golden_tensor",))


def _swaps(raw: dict[str, Any]) -> Iterator[Mutant]:
    for one, two in combinations(range(len(raw["inputs"][0]["channels"])), 2):
        changed = deepcopy(raw)
        channels = changed["inputs"][0]["channels"]
        channels[one]["name"], channels[two]["name"] = channels[two]["name"], channels[one]["name"]
        yield Mutant(f"names {one} {two}", changed, ("units",))
        changed = deepcopy(raw)
        channels = changed["inputs"][0]["channels"]
        channels[one], channels[two] = channels[two], channels[one]
        yield Mutant(f"entries {one} {two}", changed, ("golden_tensor",))
        for keys in (("mean", "std"), ("mean",), ("std",)):
            changed = deepcopy(raw)
            for key in keys:
                values = changed["inputs"][0]["steps"][0][key]
                values[one], values[two] = values[two], values[one]
            yield Mutant(f"{' and '.join(keys)} {one} {two}", changed, ("golden_tensor",))


def _units(raw: dict[str, Any]) -> Iterator[Mutant]:
    for at, channel in enumerate(raw["inputs"][0]["channels"]):
        for unit in siblings(resolve(channel["unit"])):
            changed = deepcopy(raw)
            changed["inputs"][0]["channels"][at]["unit"] = unit.code
            yield Mutant(f"{channel['name']} in {unit.code}", changed, ("golden_tensor",))
    for unit in siblings(resolve(raw["outputs"][0]["unit"])):
        changed = deepcopy(raw)
        changed["outputs"][0]["unit"] = unit.code
        yield Mutant(f"answer in {unit.code}", changed, ("golden_answer",))


def _answers(raw: dict[str, Any]) -> Iterator[Mutant]:
    if "postprocess" not in raw["outputs"][0]:
        return
    changed = deepcopy(raw)
    del changed["outputs"][0]["postprocess"]
    yield Mutant("destandardize dropped", changed, ("golden_answer",))
    for key in ("mean", "std"):
        for factor in (0.95, 1.05):
            changed = deepcopy(raw)
            changed["outputs"][0]["postprocess"][0][key] *= factor
            yield Mutant(f"destandardize {key} * {factor}", changed, ("golden_answer",))
    for side, on, off in (("above", 2.5, 2.0), ("below", 1.5, 2.0), ("below", 2.5, 3.0)):
        changed = deepcopy(raw)
        changed["outputs"][0]["flags"][0] |= {"side": side, "on": on, "off": off}
        yield Mutant(f"flag {side} {on}", changed, ("golden_answer",))


@pytest.mark.parametrize("bundle", [FROST, DEWPOINT], ids=lambda path: path.name)
def test_edited_manifest_fails_at_its_stage(bundle: Path, bare: Setting, tmp_path: Path) -> None:
    survivors, misplaced = [], []
    mutants = list(_mutants(manifest_of(bundle)))
    assert len(mutants) > 40
    for mutant in mutants:
        path = write_with_manifest(bundle, tmp_path / "bundle", lambda raw, new=mutant.raw: raw.update(new))
        booted = boot(path, bare)
        failed = _failed(booted.report)
        if booted.ready is not None or not failed:
            survivors.append(mutant.name)
        elif failed[0] not in mutant.first:
            misplaced.append((mutant.name, failed))
    assert survivors == []
    assert misplaced == []


def _another_model(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Iterator[tuple[str, bytes]]:
    """The frost model with the weights of one layer changed, for each layer."""
    model = onnx.load(FROST / "model_int8.onnx")
    for at, initializer in enumerate(model.graph.initializer):
        weights = numpy_helper.to_array(initializer)
        if weights.dtype == np.int8 and weights.ndim > 1:
            other = onnx.ModelProto()
            other.CopyFrom(model)
            other.graph.initializer[at].CopyFrom(numpy_helper.from_array(change(weights), initializer.name))
            yield initializer.name, other.SerializeToString()


def _nudged(weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Every weight one int8 step off, up or down by chance: the least another training could differ by."""
    steps = np.random.default_rng(3).choice([-1, 1], weights.shape).astype(np.int8)
    return np.clip(weights + steps, -64, 63).astype(np.int8)


@pytest.mark.parametrize("change", [_nudged, lambda weights: weights[..., ::-1].copy()], ids=["nudged", "reversed"])
def test_another_model_of_the_same_shape(
    change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], bare: Setting, tmp_path: Path
) -> None:
    others = list(_another_model(change))
    assert len(others) == 5
    for name, model in others:
        booted = boot(write_with(FROST, tmp_path / "bundle", {"model_int8.onnx": model}), bare)
        assert booted.ready is None, name
        assert _failed(booted.report) == ["golden_output", "golden_batches"], name


def test_float_model_in_place_of_int8(bare: Setting, tmp_path: Path) -> None:
    model = (ROOT / "examples/frost/model_fp32.onnx").read_bytes()
    booted = boot(write_with(FROST, tmp_path / "bundle", {"model_int8.onnx": model}), bare)
    assert _failed(booted.report) == ["golden_output", "golden_batches"]


def test_model_of_another_shape(bare: Setting, tmp_path: Path) -> None:
    model = (DEWPOINT / "model_float32.onnx").read_bytes()
    booted = boot(write_with(FROST, tmp_path / "bundle", {"model_int8.onnx": model}), bare)
    assert _failed(booted.report) == ["provider"]


def test_goldens_of_another_bundle(bare: Setting, tmp_path: Path) -> None:
    goldens = (DEWPOINT / "golden.npz").read_bytes()
    booted = boot(write_with(FROST, tmp_path / "bundle", {"golden.npz": goldens}), bare)
    assert _failed(booted.report) == ["goldens"]


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        (lambda raw: raw["outputs"][0].pop("flags"), "goldens", "flags: found low.frost"),
        (lambda raw: raw["outputs"][0].update(name="high"), "goldens", "answers: found low"),
        (lambda raw: raw["negative_goldens"][0].update(channel="air"), "manifest", "no channel 'air'"),
        (lambda raw: raw["negative_goldens"][0].update(case=1000), "negative_goldens", "case 1000"),
        (lambda raw: raw["window"].update(period_s=1e9), "manifest", "a hundred years"),
    ],
    ids=["flag dropped", "answer renamed", "channel", "case", "period"],
)
def test_other_edits(
    change: Callable[[dict[str, Any]], object], check: str, words: str, bare: Setting, tmp_path: Path
) -> None:
    report = boot(write_with_manifest(FROST, tmp_path / "bundle", change), bare).report
    failed = report.failures()[0]
    assert failed.id == check
    assert words in f"{failed.measured} {failed.limit}"


@pytest.mark.parametrize("precision", ["int8", "as_is"])
def test_int8_without_a_word_on_its_weights_takes_the_slower_right_kernel(
    precision: str, bare: Setting, tmp_path: Path
) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["variants"][0].pop("quantization")
        raw["variants"][0]["precision"] = precision

    path = write_with_manifest(FROST, tmp_path / "bundle", change)
    old = replace(bare.machine, architecture="x86_64", isa=frozenset({"avx2"}))
    for machine, precise in ((old, True), (replace(old, isa=frozenset({"avx2", "avx_vnni"})), False)):
        profile = bare.profile.model_copy(update={"architectures": ("x86_64",)})
        report = boot(path, replace(bare, machine=machine, profile=profile)).report
        (check,) = [one for one in report.checks if one.id == "provider"]
        assert ("x64quantprecision" in check.measured) == precise


def test_output_of_a_tensor_that_is_not_there(bare: Setting, tmp_path: Path) -> None:
    path = write_with_manifest(FROST, tmp_path / "bundle", lambda raw: raw["outputs"][0].update(tensor="high"))
    report = boot(path, bare).report
    assert _failed(report) == ["manifest"]
    assert "variant cpu_int8 has no tensor 'high'" in report.failures()[0].limit


def test_floor(tmp_path: Path, bare: Setting) -> None:
    path = write_with_manifest(FROST, tmp_path / "bundle", lambda raw: raw.update(security_version=2))
    assert boot(path, replace(bare, floors={"frost": 2})).ready is not None
    report = boot(path, replace(bare, floors={"frost": 3, "dewpoint": 0})).report
    assert _failed(report) == ["rollback_floor"]
    assert boot(path, replace(bare, floors={"another": 3})).ready is not None


def test_changed_since_last_pass(bare: Setting) -> None:
    report = boot(FROST, bare).report
    assert report.changed_since_last_pass is None
    same = replace(bare, last_passes={"frost": report.environment})
    assert boot(FROST, same).report.changed_since_last_pass == ()
    before = report.environment | {"kernel": "5.10.0-old", "onnxruntime": "1.20.0"}
    changed = boot(FROST, replace(bare, last_passes={"frost": before})).report.changed_since_last_pass
    assert changed is not None
    assert [words.split(" -> ")[0] for words in changed] == ["kernel 5.10.0-old", "onnxruntime 1.20.0"]


def test_wrong_architecture(bare: Setting) -> None:
    machine = replace(bare.machine, architecture="riscv64")
    assert _failed(boot(FROST, replace(bare, machine=machine)).report) == ["compatibility"]


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        ({}, "no channel air_temperature"),
        ({"wind": ChannelBinding(field="w", unit="m/s")}, "an unknown channel wind"),
        ({"air_temperature": ChannelBinding(field="t", unit="m")}, "'m'"),
        ({"air_temperature": ChannelBinding(field="t", unit="C")}, "'C'"),
    ],
    ids=["missing", "unknown", "dimension", "ambiguous"],
)
def test_bindings(binding: dict[str, ChannelBinding], words: str) -> None:
    bound = _bindings(FROST) | binding
    if not binding:
        del bound["air_temperature"]
    report = boot(FROST, make_setting(bindings={"roof": bound})).report
    assert _failed(report) == ["bindings"]
    assert words in report.failures()[0].measured


def test_a_mistyped_channel_is_told_with_the_nearest() -> None:
    bound = _bindings(FROST)
    bound["air_temprature"] = bound.pop("air_temperature")
    (failed,) = boot(FROST, make_setting(bindings={"roof": bound})).report.failures()
    assert (
        "found an unknown channel air_temprature (air_temperature perhaps) and no channel air_temperature; expected"
        in f"found {failed.measured}; expected"
    )


def test_a_check_that_breaks_has_not_passed(bare: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, inject: bool) -> None:
        raise KeyError(inject)

    monkeypatch.setattr(golden_checks, "golden_answer", broken)
    booted = boot(FROST, bare)
    assert booted.ready is None
    assert _failed(booted.report) == ["golden_answer"]
    [failure] = booted.report.failures()
    assert "the check itself broke: KeyError" in failure.measured
    assert failure.code == 70


def _listed(bare: Setting, *names: str) -> Setting:
    providers = tuple(ProviderChoice(name=name) for name in names)
    return replace(bare, profile=bare.profile.model_copy(update={"providers": providers}))


def test_a_provider_that_is_not_there_leaves_it_to_the_next_of_the_list(bare: Setting) -> None:
    booted = boot(FROST, _listed(bare, "OpenVINOExecutionProvider", "CPUExecutionProvider"))
    assert booted.ready is not None
    assert booted.ready.provider == booted.report.facts["provider"] == "CPUExecutionProvider"
    assert [check.id for check in booted.report.checks].count("provider") == 1
    (failed,) = booted.report.failures()
    assert (failed.id, failed.tier) == ("provider_choice", "wanted")
    assert (
        "OpenVINOExecutionProvider was refused by provider, provider OpenVINOExecutionProvider: found not in this"
        in (failed.measured)
    )


def test_a_list_without_one_that_works_is_no_boot(bare: Setting) -> None:
    booted = boot(FROST, _listed(bare, "OpenVINOExecutionProvider"))
    assert booted.ready is None
    (failed,) = booted.report.failures(REQUIRED)
    assert (failed.id, failed.code) == ("provider", 69)
    assert "from onnxruntime-openvino (pip install 'edge-runtime[openvino]')" in failed.limit


def test_a_provider_without_a_tolerance_serves_nothing(bare: Setting) -> None:
    (failed,) = boot(FROST, _listed(bare, "CUDAExecutionProvider")).report.failures(REQUIRED)
    assert failed.id == "compatibility"
    assert failed.limit == "one its tolerances name: CPUExecutionProvider, OpenVINOExecutionProvider"


def test_a_session_that_fails_its_goldens_leaves_it_to_the_next_of_the_list(
    bare: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a provider that computes something else; here another model plays it."""
    other = (ROOT / "examples/frost/model_fp32.onnx").read_bytes()
    real = engine.open_session

    def opened(model: bytes, *, provider: str = CPU, **more: Any) -> engine.Session:
        del more["provider_options"]
        made = real(model if provider == CPU else other, **more)
        made.placement = Counter({provider: made.placement.total()})
        return made

    monkeypatch.setattr(engine, "open_session", opened)
    booted = boot(FROST, _listed(bare, "OpenVINOExecutionProvider", "CPUExecutionProvider"))
    assert booted.ready is not None
    assert "was refused by golden_output, model output: found" in booted.report.failures()[0].measured


class _Paced(NamedTuple):
    """A machine whose providers take so many seconds a call, by name; it stands in the place of clock and provider."""

    seconds: dict[str, list[float]]
    opened: list[str]


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> _Paced:
    """Every provider is the CPU, but takes the time that is written for it: the last one given for all that follow."""
    machine, now = _Paced({}, []), [0.0]
    real = engine.open_session

    def opened(model: bytes, *, provider: str = CPU, **more: Any) -> Any:
        del more["provider_options"]
        machine.opened.append(provider)
        made = real(model, **more)
        made.placement = Counter({provider: made.placement.total()})
        return _Slow(made, machine.seconds.get(provider, [0.0]), now)

    @contextmanager
    def clock(_processes: Sequence[int] = ()) -> Iterator[latency.Clock]:
        yield latency.Clock(lambda: now[0], lambda _: None, lambda: 0.0)

    monkeypatch.setattr(engine, "open_session", opened)
    monkeypatch.setattr(latency, "kernel_clock", clock)
    return machine


class _Slow:
    """A session that takes its time, by the tests' own clock."""

    def __init__(self, session: engine.Session, seconds: list[float], now: list[float]) -> None:
        self._session, self._seconds, self._now = session, seconds, now
        self.inputs, self.outputs, self.placement = session.inputs, session.outputs, session.placement

    def __call__(self, feeds: Any) -> Any:
        took = self._seconds[0] if len(self._seconds) == 1 else self._seconds.pop(0)
        if took < 0:
            raise DeviceError(subject="the model's run", found="a fault", expected="an answer", todo="mend it")
        self._now[0] += took
        return self._session(feeds)


OPENVINO = "OpenVINOExecutionProvider"


def _choosing(bare: Setting, choose: str, *names: str) -> Setting:
    listed = _listed(bare, *names)
    return replace(listed, profile=listed.profile.model_copy(update={"choose": choose}))


def test_a_model_beyond_its_budget_does_not_serve(bare: Setting, paced: _Paced) -> None:
    paced.seconds[CPU] = [0.07]
    booted = boot(FROST, bare)
    assert booted.ready is None
    (failed,) = booted.report.failures(REQUIRED)
    assert (failed.id, failed.code) == ("latency", 69)
    assert failed.measured == "latency of one inference: found 70 ms at best, in 5 rounds of paced calls"
    assert failed.limit == "at most 50 ms, by the bundle's need"


def test_the_profile_s_budget_counts_where_it_is_tighter(bare: Setting, paced: _Paced) -> None:
    paced.seconds[CPU] = [0.02]
    tighter = replace(bare, profile=bare.profile.model_copy(update={"latency_p99_ms": 10.0}))
    (failed,) = boot(FROST, tighter).report.failures(REQUIRED)
    assert (failed.id, failed.limit) == ("latency", "at most 10 ms, by profile generic_x86")
    wider = replace(bare, profile=bare.profile.model_copy(update={"latency_p99_ms": 100.0}))
    assert boot(FROST, wider).ready is not None


def test_a_provider_beyond_its_budget_leaves_it_to_the_next_of_the_list(bare: Setting, paced: _Paced) -> None:
    paced.seconds[OPENVINO] = [0.07]
    booted = boot(FROST, _listed(bare, OPENVINO, CPU))
    assert booted.ready is not None
    assert booted.ready.provider == CPU
    assert f"{OPENVINO} was refused by latency" in booted.report.failures()[0].measured


@pytest.mark.parametrize(
    ("seconds", "passes"),
    [(0.09, True), (0.15, True), (7.0, False)],
    ids=["keeps up alone", "keeps up in batches", "falls behind"],
)
def test_a_model_that_cannot_keep_up_with_its_own_pace_does_not_serve(
    bare: Setting, paced: _Paced, tmp_path: Path, *, seconds: float, passes: bool
) -> None:
    """An answer each 100 ms; batches of 64 are allowed, so what waits goes 64 at a time."""

    def change(raw: dict[str, Any]) -> None:
        raw["window"]["period_s"] = 0.05
        raw["window"]["hop"] = 2
        raw["needs"]["latency_p99_ms"] = 10_000.0

    paced.seconds[CPU] = [seconds]
    report = boot(write_with_manifest(PUMP, tmp_path / "pump", change), bare).report
    (found,) = [check for check in report.checks if check.id == "latency"]
    assert (found.status == "pass") == passes
    assert "100 ms" in found.limit


def test_the_first_of_the_list_serves_however_slow(bare: Setting, paced: _Paced) -> None:
    paced.seconds[OPENVINO] = [0.02]
    booted = boot(FROST, _choosing(bare, "first", OPENVINO, CPU))
    assert booted.ready is not None
    assert booted.ready.provider == OPENVINO
    assert paced.opened == [OPENVINO]


@pytest.mark.parametrize(
    ("first_s", "second_s", "served"),
    [(0.02, 0.010, 1), (0.02, 0.016, 0), (0.02, 0.04, 0)],
    ids=["clearly faster", "a little faster", "slower"],
)
def test_the_fastest_serves_where_it_is_clearly_faster(
    bare: Setting, paced: _Paced, first_s: float, second_s: float, served: int
) -> None:
    paced.seconds.update({OPENVINO: [first_s], CPU: [second_s]})
    booted = boot(FROST, _choosing(bare, "fastest", OPENVINO, CPU))
    assert booted.ready is not None
    name = (OPENVINO, CPU)[served]
    assert booted.ready.provider == booted.report.facts["provider"] == name
    by_id = {check.id: check for check in booted.report.checks}
    assert by_id["provider"].measured.startswith(name)
    told = f"{name} ({OPENVINO} {first_s * 1000:.3g} ms; {CPU} {second_s * 1000:.3g} ms)"
    assert (by_id["provider_choice"].status, by_id["provider_choice"].measured) == ("pass", told)
    assert [check.id for check in booted.report.checks].count("latency") == 1


def test_only_what_passes_may_be_the_fastest(bare: Setting, paced: _Paced) -> None:
    paced.seconds[OPENVINO] = [0.02]
    booted = boot(FROST, _choosing(bare, "fastest", OPENVINO, "CUDAExecutionProvider"))
    assert booted.ready is not None
    assert booted.ready.provider == OPENVINO
    (failed,) = booted.report.failures()
    assert failed.id == "provider_choice"
    assert f"{OPENVINO} ({OPENVINO} 20 ms): CUDAExecutionProvider was refused by compatibility" in failed.measured


def test_of_a_list_without_one_that_passes_the_fastest_is_none(bare: Setting, paced: _Paced) -> None:
    paced.seconds[CPU] = [0.07]
    booted = boot(FROST, _choosing(bare, "fastest", "CUDAExecutionProvider", CPU))
    assert booted.ready is None
    assert [check.id for check in booted.report.failures(REQUIRED)] == ["latency"]


def test_a_provider_that_fails_while_it_is_measured_is_not_chosen(
    bare: Setting, paced: _Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced.seconds[CPU] = [0.02]
    real = latency.in_turn

    def failing(calls: Sequence[Callable[[], object]], clock: latency.Clock) -> list[float]:
        paced.seconds[OPENVINO][:] = [-1.0]
        return real(calls, clock)

    paced.seconds[OPENVINO] = [0.001]
    monkeypatch.setattr(latency, "in_turn", failing)
    booted = boot(FROST, _choosing(bare, "fastest", OPENVINO, CPU))
    assert booted.ready is not None
    assert booted.ready.provider == CPU
    assert f"{OPENVINO} was refused by latency, a call failed" in booted.report.failures()[0].measured


def test_where_every_provider_fails_while_it_is_measured_none_serves(
    bare: Setting, paced: _Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "in_turn", lambda calls, _clock: [math.inf for _ in calls])
    paced.seconds.update({OPENVINO: [0.001], CPU: [0.001]})
    booted = boot(FROST, _choosing(bare, "fastest", OPENVINO, CPU))
    assert (booted.ready, booted.report.state) == (None, "ERROR")
    (failed,) = booted.report.failures(REQUIRED)
    assert (failed.id, failed.measured, failed.code) == (
        "latency", "latency of one inference: found a call failed while it was measured", 69,
    )  # fmt: skip
    (choice,) = [check for check in booted.report.failures() if check.id == "provider_choice"]
    assert f"{OPENVINO} was refused by latency, a call failed" in choice.measured
