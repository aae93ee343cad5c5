"""What slows a machine down, read from its sensors: what is named, what helps, and what counts as slowed down now."""

from pathlib import Path

import pytest

from edge_runtime.device.telemetry import SILENT, Telemetry, read_telemetry
from edge_runtime.run import machine_findings
from edge_runtime.run.findings import Finding
from edge_runtime.run.strain import slowing, state_of, strains
from tests.device import sensors
from tests.device.trees import write


def told(root: Path) -> Telemetry:
    return read_telemetry(root, lambda: 0)


def finding(telemetry: Telemetry, subject: str) -> Finding:
    return next(one for one in machine_findings.look(telemetry) if one.subject == subject)


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("1", "under voltage"),
        ("2", "firmware: its clock capped"),
        ("4", "firmware: throttled"),
        ("8", "firmware: at its soft temperature limit"),
    ],
)
def test_each_bit_of_a_pi_slows_it_down(tmp_path: Path, bits: str, text: str) -> None:
    now = told(sensors.pi5(tmp_path, bits=bits))
    assert slowing(strains(now)) == (text,)
    assert finding(now, "throttling").status == "warn"
    assert text in finding(now, "throttling").text


def test_what_a_pi_was_since_the_start_is_told_and_slows_nothing_now(tmp_path: Path) -> None:
    now = told(sensors.pi5(tmp_path, bits="50000"))
    assert [one.text for one in strains(now)] == ["firmware: since the start it was throttled, under voltage"]
    assert slowing(strains(now)) == ()
    state = state_of(now, strains(now))
    assert state is not None
    assert (state.strains, state.is_slowed) == ((), False)
    assert finding(now, "throttling").status == "warn"


def test_a_bit_that_holds_now_is_not_told_as_of_earlier_too(tmp_path: Path) -> None:
    assert len(strains(told(sensors.pi5(tmp_path, bits="50005")))) == 2


def test_the_voltage_alarm_alone(tmp_path: Path) -> None:
    now = told(sensors.pi5(tmp_path, alarm="1"))
    assert slowing(strains(now)) == ("under voltage",)
    assert "supply" in finding(now, "throttling").todo


@pytest.mark.parametrize(("millidegrees", "hot"), [("101900", False), ("102000", True)])
def test_hot_from_the_trip_on(tmp_path: Path, millidegrees: str, hot: bool) -> None:
    now = told(sensors.orin(tmp_path, millidegrees=millidegrees))
    assert (slowing(strains(now)) == ("cpu-thermal 102.0 C, hot from 102 C on",)) is hot


@pytest.mark.parametrize(("millidegrees", "near"), [("104900", False), ("105000", True)])
def test_without_such_a_trip_near_the_critical_one_is_told_and_flags_nothing(
    tmp_path: Path, millidegrees: str, near: bool,
) -> None:  # fmt: skip
    now = told(sensors.pi5(tmp_path, millidegrees=millidegrees))
    assert [one.kind for one in strains(now)] == (["near_critical"] if near else [])
    assert slowing(strains(now)) == ()
    assert finding(now, "temperature").status == ("warn" if near else "ok")


def test_a_step_of_a_cooling_device(tmp_path: Path) -> None:
    assert slowing(strains(told(sensors.orin(tmp_path, step="3")))) == ("throttled by thermal-cpufreq-0, step 3 of 12",)


def test_counts_that_grow_are_of_now_and_others_of_earlier(tmp_path: Path) -> None:
    before, after = (told(sensors.pc(tmp_path, events=(0, count))) for count in (5, 9))
    assert slowing(strains(after, before)) == ("throttled, 4 times counted since the last look",)
    assert strains(before, before) == ()
    assert [one.kind for one in strains(before)] == ["earlier"]
    assert strains(before, after) == (), "a count that fell began anew"


def test_a_power_alarm_is_told_and_slows_nothing_by_itself(tmp_path: Path) -> None:
    now = told(sensors.orin(tmp_path, alarm="1"))
    assert [one.kind for one in strains(now)] == ["power_alarm"]
    assert finding(now, "power") == Finding(
        "power", "warn", "rail VDD_IN passes a limit of its sensor, at 4.8 W; VDD_IN 4.8 W; VDD_CPU_GPU_CV 0.998 W",
        "look at the supply and the power mode",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("driver", "warns"),
    [("intel_pstate", False), ("amd-pstate-epp", False), ("acpi-cpufreq", True), ("cpufreq-dt", True)],
)
def test_powersave_means_the_lowest_clock_with_most_drivers(tmp_path: Path, driver: str, warns: bool) -> None:
    now = told(sensors.pc(tmp_path, driver=driver))
    assert [one.kind for one in strains(now)] == (["clock"] if warns else [])
    assert finding(now, "clock rates").status == ("warn" if warns else "ok")


def test_a_clock_that_is_held_below_what_the_processor_can(tmp_path: Path) -> None:
    write(tmp_path, sensors.clock(0, 600_000, 1_500_000, 2_400_000, "ondemand", "cpufreq-dt"))
    assert [one.text for one in strains(told(tmp_path))] == ["policy0 is allowed 1500 of 2400 MHz"]


def test_a_gpu_that_is_slowed_down_is_told_and_flags_nothing(tmp_path: Path) -> None:
    root = sensors.pc(tmp_path)
    write(root, {"sys/class/drm/card0/gt/gt0/throttle_reason_status": "1"})
    assert slowing(strains(told(root))) == ()
    assert finding(told(root), "GPU").text.startswith(
        "GPU card0 is slowed down; card0 350 of 1300 MHz; card1 12 % busy"
    )


def test_a_silent_machine_is_not_checked() -> None:
    assert strains(SILENT) == ()
    assert state_of(SILENT, ()) is None
    (one,) = machine_findings.look(SILENT)
    assert (one.subject, one.status) == ("sensors", "skipped")
    assert one.text.startswith("not checked: ")


def test_what_a_good_machine_tells(tmp_path: Path) -> None:
    assert machine_findings.look(told(sensors.orin(tmp_path))) == [
        Finding("temperature", "ok", "cpu-thermal 52.5 C (hot 102, critical 104.5)"),
        Finding("throttling", "ok", "asked: cooling devices"),
        Finding("clock rates", "ok", "policy0 730 of 1510 MHz, governor schedutil"),
        Finding("power", "ok", "VDD_IN 4.8 W; VDD_CPU_GPU_CV 0.998 W"),
        Finding("GPU", "ok", "17000000.gpu 37.4 % busy, 306 of 625 MHz"),
    ]


def test_what_it_does_not_tell_is_not_checked_and_neither_is_what_took_too_long(tmp_path: Path) -> None:
    write(tmp_path, sensors.zone(0, "cpu", "40000"))
    found = machine_findings.look(told(tmp_path)._replace(is_cut=True))
    assert {one.subject: one.status for one in found} == {
        "temperature": "ok", "throttling": "skipped", "clock rates": "skipped", "power": "skipped", "GPU": "skipped",
        "sensors": "skipped",
    }  # fmt: skip
    assert all(one.text.startswith("not checked") for one in found[1:])


def test_the_state_in_numbers(tmp_path: Path) -> None:
    now = told(sensors.orin(tmp_path))
    state = state_of(now, strains(now))
    assert state is not None
    assert state.temperatures == {"cpu-thermal": 52.5}
    assert state.cpu_mhz == {"policy0": 729.6}
    assert state.watts == {"VDD_IN": 4.8, "VDD_CPU_GPU_CV": 0.9984}
    assert state.gpus == {"17000000.gpu": {"load_percent": 37.4, "mhz": 306.0}}
    assert state.as_text() == (
        "52.5 C at most (cpu-thermal), 730 MHz, 4.8 W VDD_IN, 0.998 W VDD_CPU_GPU_CV, 17000000.gpu 37.4 % busy"
    )
