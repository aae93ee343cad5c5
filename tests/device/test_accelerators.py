"""GPUs, NPUs and their drivers as made-up kernel files show them; nothing where there is nothing."""

from pathlib import Path

import pytest

from edge_runtime.device.accelerators import accelerators
from edge_runtime.device.probe import probe
from tests.device import trees


def test_an_empty_root_has_none(tmp_path: Path) -> None:
    assert accelerators(tmp_path) == (None, None)


def test_each_kind_with_its_driver(tmp_path: Path) -> None:
    found = accelerators(trees.gpus(tmp_path))
    assert found.driver == "i915, intel_vpu, nvidia 570.86.10"
    assert found.device == "10de:24b0, 8086:7d1d, 8086:9a49, NVIDIA RTX A4000"
    machine = probe(tmp_path)
    assert (machine.driver, machine.device) == found


def test_other_numbers_of_the_same_cards_change_nothing(tmp_path: Path) -> None:
    before = accelerators(trees.gpus(tmp_path))
    cards = tmp_path / "sys/class/drm"
    (cards / "card0").rename(cards / "card7")
    assert accelerators(tmp_path) == before


def test_nvidias_older_driver_says_its_version_in_proc_alone(tmp_path: Path) -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12\n"
    assert accelerators(trees.write(tmp_path, {"proc/driver/nvidia/version": text})) == ("nvidia 535.104.05", None)


def test_a_device_of_the_board_itself(tmp_path: Path) -> None:
    uevent = "DRIVER=gk20a\nOF_NAME=gpu\nOF_COMPATIBLE_0=nvidia,ga10b\nMODALIAS=of:NgpuT(null)\n"
    root = trees.write(tmp_path, {"sys/class/drm/card1/device/uevent": uevent, "sys/module/gk20a/version": "1.2\n"})
    assert accelerators(root) == ("gk20a 1.2", "nvidia,ga10b")


def test_two_alike_are_counted(tmp_path: Path) -> None:
    files = {f"sys/class/drm/card{n}/device/{key}": "0x1002\n" for n in range(2) for key in ("vendor", "device")}
    assert accelerators(trees.write(tmp_path, files)) == (None, "2 x 1002:1002")


@pytest.mark.parametrize("text", ["", "\0\0", "\n\n", "x" * 100_000])
def test_odd_files_break_nothing(tmp_path: Path, text: str) -> None:
    names = ("sys/module/nvidia/version", "sys/class/drm/card0/device/uevent", "proc/driver/nvidia/version")
    driver, device = accelerators(trees.write(tmp_path, dict.fromkeys(names, text)))
    assert device is None
    assert driver is None or len(driver) < 300


def test_a_folder_where_a_file_belongs(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nvidia/version").mkdir(parents=True)
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/drm").write_text("odd")
    assert accelerators(tmp_path) == (None, None)
