"""Whether there is room for a bundle, before it is loaded and after: RAM, control groups, the profile, the GPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.device.nvml import Card
from edge_runtime.device.probe import FreeMemory, Machine, probe
from edge_runtime.engine import session as engine
from edge_runtime.errors import DeviceError
from edge_runtime.run import memory_checks
from edge_runtime.run.boot import Setting, boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.report import LEFT_OUT, Check, Report
from tests.device import trees
from tests.rig.bundles import FROST, files_of, write_with_manifest

MEMINFO = "MemTotal: 8388608 kB\nMemAvailable: {} kB\n"
V2 = "sys/fs/cgroup/edge.service/"


@pytest.fixture
def setting() -> Setting:
    return make_setting()


def _of(report: Report, name: str) -> Check:
    (found,) = [check for check in report.checks if check.id == name]
    return found


def _with(setting: Setting, machine: Machine, **profile: Any) -> Setting:
    here = replace(
        setting.machine, memory_available_mb=machine.memory_available_mb, memory_left_mb=machine.memory_left_mb
    )  # fmt: skip
    return replace(setting, machine=here, profile=setting.profile.model_copy(update=profile))


def _tree(root: Path, available_mb: int, left_mb: int | None = None) -> Machine:
    files = {"proc/meminfo": MEMINFO.format(available_mb * 1024)}
    if left_mb is not None:
        files |= {
            "proc/self/cgroup": "0::/edge.service\n", f"{V2}memory.max": str(256 << 20),
            f"{V2}memory.current": str((256 - left_mb) << 20),
        }  # fmt: skip
    return probe(trees.write(root, files))


def test_too_little_memory_stops_the_boot_before_a_session_is_made(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("a session was made")

    monkeypatch.setattr(engine, "open_session", opened)
    booted = boot(FROST, _with(setting, _tree(tmp_path, 64)))
    assert booted.ready is None
    (failed,) = booted.report.failures()
    assert (failed.id, failed.tier, failed.code) == ("headroom", "required", 69)
    assert failed.measured == (
        "memory this bundle still needs: found 90 MB (of the 150 MB it states this process has 60)"
    )  # fmt: skip
    assert failed.limit == "at most 67 MB, free in RAM"
    assert failed.hint == "stop other programs, or use a machine with more memory"
    assert _of(booted.report, "provider").hint == LEFT_OUT


@pytest.mark.parametrize(
    ("available_mb", "left_mb", "memory_mb", "limit", "todo"),
    [
        (4096, 64, None, "at most 67 MB, left in the control group of this process", "raise MemoryMax= of the service"),
        (80, 96, None, "at most 84 MB, free in RAM", "stop other programs"),
        (4096, 200, 128, "at most 74 MB, left of memory_mb = 128 of the profile", "raise memory_mb in the profile"),
        (4096, 4, 128, "at most 4 MB, left in the control group of this process", "raise MemoryMax="),
        (4096, None, 32, "at most 0 MB, left of memory_mb = 32 of the profile", "raise memory_mb in the profile"),
    ],
)
def test_the_least_room_counts_and_names_what_to_widen(
    setting: Setting,
    tmp_path: Path,
    available_mb: int,
    left_mb: int | None,
    memory_mb: int | None,
    limit: str,
    todo: str,
) -> None:
    machine = _tree(tmp_path, available_mb, left_mb)
    found = _of(boot(FROST, _with(setting, machine, memory_mb=memory_mb)).report, "headroom")
    assert (found.status, found.limit) == ("fail", limit)
    assert found.hint.startswith(todo)


def test_enough_of_each_is_enough(setting: Setting, tmp_path: Path) -> None:
    found = _of(boot(FROST, _with(setting, _tree(tmp_path, 90, 88), memory_mb=200)).report, "headroom")
    assert (found.status, found.limit) == ("pass", "92 MB, left in the control group of this process")
    assert found.measured == "90 MB still needed (of the 150 MB it states this process has 60)"


def test_what_a_model_s_size_alone_needs_is_not_stated_away(setting: Setting, tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["needs"]["memory_mb"] = 61.0

    bundle = write_with_manifest(FROST, tmp_path / "frost", change)
    found = _of(boot(bundle, _with(setting, _tree(tmp_path / "tree", 8))).report, "headroom")
    assert found.status == "fail"
    assert found.measured == "memory this bundle still needs: found 10 MB (the least for a model of 0.0211 MB)"


def test_a_large_batch_of_long_windows_is_counted() -> None:
    """100,000 samples of five numbers at batch 16: 12 bytes a value, 96 MB beside the session and two copies of 1 MB."""
    found = parse(files_of(FROST)["manifest.json"])
    assert found.window is not None
    long = found.model_copy(
        update={"window": found.window.model_copy(update={"length": 100_000}), "batch_sizes": (1, 16)}
    )  # fmt: skip
    assert long.width == 5
    variant = long.variants[0]
    assert memory_checks._least_needed(variant, {variant.model: bytes(1_000_000)}, long) == pytest.approx(108.0)


def test_a_system_that_tells_nothing_is_tried_and_that_is_said(setting: Setting) -> None:
    booted = boot(FROST, _with(setting, Machine()))
    found = _of(booted.report, "headroom")
    assert (found.status, found.measured) == ("skip", "not known")
    assert booted.ready is not None


@pytest.mark.parametrize(
    ("name", "options", "model", "words"),
    [
        ("CPUExecutionProvider", {}, None, ""),
        ("CUDAExecutionProvider", {}, None, "; the GPU's own memory is not checked: NVML does not"),
        ("TensorrtExecutionProvider", {}, "NVIDIA Jetson Orin Nano", "; the GPU's memory is this RAM"),
        ("OpenVINOExecutionProvider", {"device_type": "GPU"}, None, "; the GPU's own memory is not checked"),
        ("OpenVINOExecutionProvider", {"device_type": "CPU"}, None, ""),
    ],
)
def test_a_gpu_s_memory_is_told_or_said_not_to_be(
    setting: Setting, name: str, options: dict[str, str], model: str | None, words: str
) -> None:
    choice = ProviderChoice(name=name, options=options)
    told = memory_checks._on_gpu(choice, replace(setting.machine, device_tree_model=model), 25.0)
    assert told.startswith(words) if words else told == ""


def test_a_card_with_too_little_memory_stops_the_boot(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Card("nvidia0 NVIDIA RTX A2000", memory_free=24_000_000)]
    monkeypatch.setattr(memory_checks, "cards", lambda: tuple(found))
    choice = ProviderChoice(name="CUDAExecutionProvider")
    with pytest.raises(
        DeviceError, match="memory of nvidia0 NVIDIA RTX A2000: found 24 MB free; expected 25 MB or more"
    ):
        memory_checks._on_gpu(choice, setting.machine, 25.0)
    assert memory_checks._on_gpu(choice, setting.machine, 24.0) == "; 24 MB free on nvidia0 NVIDIA RTX A2000"
    found *= 2
    assert "of 2 cards CUDA may number another first" in memory_checks._on_gpu(choice, setting.machine, 25.0)


@pytest.mark.parametrize("memory_mb", [None, 64], ids=["no limit", "within the limit"])
def test_within_its_limit(setting: Setting, memory_mb: int | None) -> None:
    profile = setting.profile.model_copy(update={"memory_mb": memory_mb})
    _, measured, limit = memory_checks.memory_limit(profile, inject=False)
    assert measured.startswith("60 MB")
    assert limit == ("67 MB by the profile; 8 MB left" if memory_mb else "no limit by the profile; 8 MB left")


def test_a_process_beyond_the_profile_s_limit_does_not_serve(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([60.0, 140.0, 140.0])
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: next(sizes))
    booted = boot(FROST, replace(setting, profile=setting.profile.model_copy(update={"memory_mb": 150})))
    assert booted.ready is not None, "157 MB are allowed"
    sizes = iter([60.0, 149.0, 160.0])
    booted = boot(FROST, replace(setting, profile=setting.profile.model_copy(update={"memory_mb": 150})))
    assert booted.ready is None
    (failed,) = booted.report.failures()
    assert (failed.id, failed.tier, failed.code) == ("memory_limit", "required", 69)
    assert failed.measured == "memory of this process: found 160 MB"
    assert failed.limit == "at most 157 MB"


@pytest.mark.parametrize(
    ("free", "where"),
    [(FreeMemory(4096, 5), "left in the control group of this process"), (FreeMemory(5, None), "free in RAM")],
)
def test_a_model_that_leaves_no_room_to_live_on_does_not_serve(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, free: FreeMemory, where: str
) -> None:
    monkeypatch.setattr(memory_checks, "free_memory", lambda: free)
    booted = boot(FROST, setting)
    assert booted.ready is None
    (failed,) = booted.report.failures()
    assert failed.id == "memory_limit"
    assert failed.measured == f"memory left with the model loaded: found 5 MB, {where}"
    assert failed.limit == "8 MB or more"


def test_a_process_beyond_the_bundle_s_need_serves_and_that_is_said(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: 151.0)
    booted = boot(FROST, setting)
    assert booted.ready is not None
    (failed,) = booted.report.failures()
    assert (failed.id, failed.tier) == ("memory", "wanted")
    assert failed.limit == "at most 150 MB, the bundle's need"


@pytest.mark.parametrize("name", ["memory", "memory_limit"])
def test_a_size_that_no_system_tells_is_not_checked(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: None)
    found = _of(boot(FROST, setting).report, name)
    assert (found.status, found.measured) == ("skip", "not known")
