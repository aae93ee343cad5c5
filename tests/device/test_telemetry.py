"""What made-up sensors tell; one that is absent, odd or slow is not known, and none of it is a failure."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.device.gpu import Gpu
from edge_runtime.device.rails import Rail, whole_board
from edge_runtime.device.telemetry import SILENT, CpuClock, Telemetry, Temperature, read_telemetry
from tests.device import sensors
from tests.device.trees import write

TREES: tuple[Callable[[Path], Path], ...] = (sensors.pi5, sensors.orin, sensors.pc)
ZONE = "sys/class/thermal/thermal_zone0/temp"


def tell(root: Path) -> Telemetry:
    """What is there, however slow this machine is."""
    return read_telemetry(root, lambda: 0)


def test_a_machine_without_any_sensor_is_silent(tmp_path: Path) -> None:
    assert tell(tmp_path) == SILENT
    assert tell(tmp_path / "no folder") == SILENT
    assert SILENT.is_empty


def test_a_pi(tmp_path: Path) -> None:
    told = tell(sensors.pi5(tmp_path, bits="50005", alarm="1"))
    assert told.temperatures == (Temperature("cpu-thermal", 61.2, None, 110.0),), "the zone is not told again as hwmon"
    assert told.clocks == (CpuClock("policy0", 2400.0, 2400.0, 2400.0, "ondemand", "cpufreq-dt"),)
    assert told.firmware == 0x50005
    assert told.is_under_voltage
    assert told.cooling == (), "a fan slows nothing down"
    assert not told.is_empty


def test_a_jetson(tmp_path: Path) -> None:
    told = tell(sensors.orin(tmp_path, step="2"))
    assert told.temperatures == (Temperature("cpu-thermal", 52.5, 102.0, 104.5),), "a zone without power reads -256"
    assert [(one.device, one.state, one.most) for one in told.cooling] == [("thermal-cpufreq-0", 2, 12)]
    assert told.rails == (Rail("VDD_IN", 4.8, False), Rail("VDD_CPU_GPU_CV", pytest.approx(0.9984)))  # type: ignore[arg-type]
    assert whole_board(told.rails) == told.rails[0]
    assert told.gpus == (Gpu("17000000.gpu", 37.4, 306.0, 624.75),), "the other devfreq device is no GPU"
    assert told.firmware is told.throttle_events is told.is_under_voltage is None


def test_a_pc(tmp_path: Path) -> None:
    told = tell(sensors.pc(tmp_path, events=(3, 4)))
    assert told.temperatures == (
        Temperature("x86_pkg_temp", 47.0),
        Temperature("coretemp Package id 0", 48.0, None, 100.0),
        Temperature("coretemp Core 0", 46.0),
    ), "no trip that is switched off, no disk"
    assert told.throttle_events == 7
    assert told.rails == (Rail("amdgpu", 7.0),)
    assert told.gpus == (
        Gpu("card0", None, 350, 1300, is_throttled=False),
        Gpu("card1", 12, memory_used_mb=1024, memory_total_mb=8192),
    )
    assert whole_board(told.rails) is None


def test_the_last_of_several_passive_trips_slows_down(tmp_path: Path) -> None:
    write(tmp_path, sensors.zone(0, "soc", "60000", ("passive", "75000"), ("passive", "85000"), ("critical", "115000")))
    assert tell(tmp_path).temperatures == (Temperature("soc", 60.0, 85.0, 115.0),)


def test_sensors_of_one_name_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, sensors.zone(2, "acpitz", "30000") | sensors.zone(10, "acpitz", "40000"))
    found = [(one.sensor, one.celsius) for one in tell(tmp_path).temperatures]
    assert found == [("acpitz", 30.0), ("acpitz (2)", 40.0)]


@pytest.mark.parametrize(
    "text", ["", "\n", "\0", "n/a", "48.5", "1e5", "0x10", "9" * 4000, "9" * 20, "-300000", "١٢", "--1"]
)
def test_odd_content_is_not_known(tmp_path: Path, text: str) -> None:
    for tree in TREES:
        root = tree(tmp_path / tree.__name__)
        for path in [one for one in root.rglob("*") if one.is_file() and one.name != "type"]:
            path.write_text(text)
        told = tell(root)
        assert not told.temperatures
        assert told.throttle_events is None
        assert not told.rails
        assert all(one.mhz is None for one in told.clocks)
        assert not told.is_cut


@pytest.mark.parametrize("data", [b"\xff\xfe", b"48000" + b"\n" * 100_000, b"48000 C"])
def test_bytes_that_are_no_line(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, sensors.zone(0, "cpu", "1"))
    (tmp_path / ZONE).write_bytes(data)
    found = [one.celsius for one in tell(tmp_path).temperatures]
    assert found == ([48.0] if b"\n" in data else [])


@pytest.mark.parametrize(
    "error", [OSError(22, "EINVAL"), BlockingIOError(11, "EAGAIN"), OSError(5, "EIO"), PermissionError(13, "no")]
)
def test_a_sensor_that_refuses_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def fail(*_: object) -> bytes:
        raise error

    root = sensors.orin(tmp_path)
    monkeypatch.setattr(os, "read", fail)
    assert tell(root).temperatures == ()


def test_a_pipe_or_a_folder_under_a_sensors_name_holds_nobody_up(tmp_path: Path) -> None:
    root = sensors.orin(tmp_path)
    (root / ZONE).unlink()
    os.mkfifo(root / ZONE)
    freq = root / "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq"
    freq.unlink()
    freq.mkdir()
    told = tell(root)
    assert told.temperatures == ()
    assert told.clocks[0].mhz is None


def test_a_text_that_cannot_be_printed_is_stripped_and_bounded(tmp_path: Path) -> None:
    write(tmp_path, sensors.zone(0, "a\x1b[2Jb" + "x" * 500, "20000"))
    (one,) = tell(tmp_path).temperatures
    assert one.sensor == ("a[2Jb" + "x" * 500)[:79]


def test_slow_sensors_are_left_when_the_time_is_up(tmp_path: Path) -> None:
    now = iter(range(0, 10**9, 1_000_000))  # each file takes a millisecond
    told = read_telemetry(sensors.pc(tmp_path), lambda: next(now), budget_ns=6_000_000)
    assert told.is_cut
    assert told.temperatures == (Temperature("x86_pkg_temp", 47.0),)
    assert told.throttle_events is None


def test_part_of_a_sum_is_no_sum(tmp_path: Path) -> None:
    root = sensors.pc(tmp_path, events=(3, 4))
    found = set()
    for most in range(60):
        now = iter(range(10**6))
        found.add(read_telemetry(root, lambda now=now: next(now), budget_ns=most).throttle_events)  # type: ignore[misc]
    assert found == {None, 7}, "wherever the time was up"


def test_a_folder_of_very_many_sensors_is_bounded(tmp_path: Path) -> None:
    for n in range(70):
        write(tmp_path, sensors.zone(n, f"z{n}", "20000"))
    assert [one.sensor for one in tell(tmp_path).temperatures] == [f"z{n}" for n in range(64)]


@pytest.mark.parametrize(
    "name", ["gpu-gpc-0", "gpu-nvd-0", "57000000.gpu", "17000000.ga10b", "fb000000.gpu", "13000000.mali"]
)
def test_gpus_of_boards_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, {f"sys/class/devfreq/{name}/cur_freq": "1000000000"})
    assert tell(tmp_path).gpus == (Gpu(name, None, 1000.0),)


def test_the_clock_of_an_xe_card(tmp_path: Path) -> None:
    gt = "sys/class/drm/card0/device/tile0/gt0/freq0/"
    write(tmp_path, {f"{gt}act_freq": "0", f"{gt}rp0_freq": "2050", f"{gt}throttle/status": "1"})
    assert tell(tmp_path).gpus == (Gpu("card0", None, 0, 2050, is_throttled=True),)
