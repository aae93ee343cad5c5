"""NVIDIA's cards through NVML: what is told, what is not supported, and a machine or a process that has none."""

from pathlib import Path
from typing import Any

import pytest

from edge_runtime.device.nvml import Card, cards, cards_in_use, only
from edge_runtime.device.telemetry import Temperature, read_telemetry
from tests.device import nvidia
from tests.device.nvidia import GIB, Nvml

NAME = "nvidia0 NVIDIA RTX A2000"
TOLD = Card(NAME, 8 * GIB, 7 * GIB, 37, 1200, 2100, 51, 95, 98, 31.5, is_throttled=False)


def test_a_card_tells_all(tmp_path: Path) -> None:
    library = Nvml()
    assert cards(nvidia.root(tmp_path), library.load) == (TOLD,)
    assert library.handles == 0, "closed again"


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("nvmlDeviceGetMemoryInfo", {"memory_total": None, "memory_free": None}),
        ("nvmlDeviceGetUtilizationRates", {"load_percent": None}),
        ("nvmlDeviceGetPowerUsage", {"watts": None}),
        ("nvmlDeviceGetClockInfo", {"mhz": None}),
        ("nvmlDeviceGetMaxClockInfo", {"most_mhz": None}),
        ("nvmlDeviceGetTemperature", {"celsius": None}),
        ("nvmlDeviceGetTemperatureThreshold", {"hot_celsius": None, "critical_celsius": None}),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", {"is_throttled": None}),
        ("nvmlDeviceGetName", {"name": "nvidia0"}),
    ],
)
def test_what_a_card_does_not_support_is_not_known(question: str, fields: dict[str, Any], tmp_path: Path) -> None:
    library = Nvml(refuses=frozenset({question}))
    assert cards(nvidia.root(tmp_path), library.load) == (TOLD._replace(**fields),)


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [(0x0, False), (0x1, False), (0x4, False), (0x8, True), (0x20, True), (0x40, True), (0x80, True)],
)
def test_heat_and_power_brake_are_throttling_and_idle_is_not(reasons: int, expected: bool, tmp_path: Path) -> None:
    (card,) = cards(nvidia.root(tmp_path), Nvml(reasons=reasons).load)
    assert card.is_throttled is expected


def test_what_cannot_be_true_is_not_known(tmp_path: Path) -> None:
    (card,) = cards(nvidia.root(tmp_path), Nvml(celsius=4_000_000_000, free=9 * GIB).load)
    assert (card.celsius, card.memory_free) == (None, None)


def test_a_library_that_is_absent_or_another_or_refuses(tmp_path: Path) -> None:
    root = nvidia.root(tmp_path)

    def absent(_: str) -> object:
        raise OSError("cannot open shared object file")

    assert cards(root, absent) == ()
    assert cards(root, lambda _: object()) == ()
    assert cards(root, Nvml(refuses=frozenset({"nvmlInit_v2"})).load) == ()
    assert cards(root, Nvml(refuses=frozenset({"nvmlDeviceGetCount_v2"})).load) == ()


def test_without_the_driver_the_library_is_not_loaded(tmp_path: Path) -> None:
    def load(_: str) -> object:
        raise AssertionError("loaded")

    assert cards(tmp_path, load) == ()


def test_a_process_without_cuda_wakes_no_card() -> None:
    assert cards_in_use() == ()


def test_of_several_cards_none_is_the_one(tmp_path: Path) -> None:
    root = nvidia.root(tmp_path)
    assert only(cards(root, Nvml(count=1).load)) == TOLD
    assert only(cards(root, Nvml(count=2).load)) is None
    assert len(cards(root, Nvml(count=4000).load)) == 16
    assert only(()) is None


def test_the_telemetry_has_its_heat_power_load_and_memory(tmp_path: Path) -> None:
    told = read_telemetry(tmp_path, lambda: 0, cards=lambda: (TOLD,))
    assert told.temperatures == (Temperature(NAME, 51, 95, 98),)
    assert [(one.name, one.watts) for one in told.rails] == [(NAME, 31.5)]
    (gpu,) = told.gpus
    assert (gpu.memory_used_mb, gpu.memory_total_mb, gpu.load_percent, gpu.is_throttled) == (1024, 8192, 37, False)
