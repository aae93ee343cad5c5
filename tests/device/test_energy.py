"""Joules over a span: of counters that wrap, of a rail that is sampled, and of neither."""

from pathlib import Path

import pytest

from edge_runtime.device.energy import EnergyMeter
from tests.device import sensors
from tests.device.trees import write

PACKAGE = "sys/class/powercap/intel-rapl:{}/"
SECOND = 1_000_000_000


def count(root: Path, uj: str, package: int = 0) -> None:
    (root / PACKAGE.format(package) / "energy_uj").write_text(uj)


def test_a_machine_without_any_has_no_source(tmp_path: Path) -> None:
    meter = EnergyMeter(tmp_path)
    assert meter.source == ""
    assert meter.take(0) is None


def test_a_counter_that_begins_anew(tmp_path: Path) -> None:
    root = sensors.pc(tmp_path)  # 328,850 uJ before its end
    meter = EnergyMeter(root)
    assert meter.source == "intel-rapl:0"
    assert meter.take(0) == 0
    count(root, "262143100000")
    assert meter.take(SECOND) == pytest.approx(0.1)
    count(root, "671150")
    assert meter.take(2 * SECOND) == pytest.approx(1.0)


def test_packages_are_added_and_what_holds_them_is_left_out(tmp_path: Path) -> None:
    root = sensors.pc(tmp_path)
    for n, name in ((1, "package-1"), (2, "psys")):
        path = PACKAGE.format(n)
        write(root, {f"{path}name": name, f"{path}energy_uj": "5000000", f"{path}max_energy_range_uj": "9000000"})
    meter = EnergyMeter(root)
    assert meter.source == "intel-rapl:0, intel-rapl:1"
    meter.take(0)
    count(root, "262143250000")
    for package in (1, 2):
        count(root, "6000000", package)
    assert meter.take(SECOND) == pytest.approx(1.25)


def test_a_counter_kept_from_this_user_is_none(tmp_path: Path) -> None:
    root = sensors.pc(tmp_path)
    count(root, "")
    assert EnergyMeter(root).source == ""


def test_a_counter_that_fails_midway_ends_the_measurement(tmp_path: Path) -> None:
    root = sensors.pc(tmp_path)
    meter = EnergyMeter(root)
    meter.take(0)
    count(root, "n/a")
    assert meter.take(SECOND) is None
    count(root, "262143250000")
    assert meter.take(2 * SECOND) is None, "what lies between is not known"


def test_a_rail_of_the_whole_board_is_taken_at_the_mean_of_two_samples(tmp_path: Path) -> None:
    meter = EnergyMeter(sensors.orin(tmp_path, milliamps="1000"))
    assert meter.source == "rail VDD_IN"
    assert meter.take(0) == 0
    sensors.orin(tmp_path, milliamps="2000")
    assert meter.take(2 * SECOND) == pytest.approx((5 + 10) / 2 * 2)
    assert meter.take(3 * SECOND) == pytest.approx(15 + 10)


def test_a_rail_of_a_part_is_not_the_machine(tmp_path: Path) -> None:
    root = sensors.orin(tmp_path)
    (root / "sys/class/hwmon/hwmon1/in1_label").write_text("VDD_GPU_SOC")
    assert EnergyMeter(root).source == ""
