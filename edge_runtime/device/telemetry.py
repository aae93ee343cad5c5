"""What the machine tells of itself now: heat, throttling, clocks, power, GPU, from the kernel's files; it judges nothing.

It needs no right beyond reading: a file that is absent or odd is not known, never a failure. An NVIDIA card outside a
Jetson tells these things through NVML only, which is asked where this process uses the card, or somebody waits.
Sources: the kernel's Documentation/ABI (sysfs-class-thermal, sysfs-class-hwmon, sysfs-devices-system-cpu, sysfs-class-devfreq)
and admin-guide/pm, amdgpu's and xe's sysfs, Raspberry Pi's `get_throttled`.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from edge_runtime.device.gpu import Gpu, gpus
from edge_runtime.device.kernel_files import BUDGET_NS, KernelFiles, numbered
from edge_runtime.device.nvml import Card, cards_in_use
from edge_runtime.device.rails import Rail, rails

UNDER_VOLTAGE: Final = 1
CAPPED: Final = 2
THROTTLED: Final = 4
SOFT_LIMIT: Final = 8
"""Bits of ``Telemetry.firmware`` that hold now; the same, shifted by ``SINCE_START``, have held since the start."""
SINCE_START: Final = 16

_ZONE: Final = numbered("thermal_zone")
_TRIP: Final = numbered("trip_point_", "_type")
_COOLING: Final = numbered("cooling_device")
_HWMON: Final = numbered("hwmon")
_INPUT: Final = numbered("temp", "_input")
_POLICY: Final = numbered("policy")
_CPU: Final = numbered("cpu")
# Millidegrees: a zone without power reads -256 degrees, a disabled trip -274 or 0.
_TEMPERATURE: Final = (-60_000, 200_000)
_TRIP_RANGE: Final = (1_000, 200_000)
_MAX_KHZ: Final = 20_000_000
_MAX_COUNT: Final = 1 << 62
# A disk is asked by a command to it, which may keep it awake; it says nothing of the processor.
_DISKS: Final = frozenset({"drivetemp"})
# Cores of one kind are alike; kinds of cores are two or three.
_MAX_POLICIES: Final = 8
_MAX_TRIPS: Final = 12
# What of the cooling devices slows a processor down; the others are fans.
_SLOWING: Final = ("cpufreq-", "devfreq-", "cpuidle-", "idle-", "Processor", "intel_powerclamp")


class Temperature(NamedTuple):
    """One sensor, in degrees Celsius. ``hot``: from there on the system slows down; ``critical``: it switches off."""

    sensor: str
    celsius: float
    hot: float | None = None
    critical: float | None = None


class CpuClock(NamedTuple):
    """The cores of one policy, in MHz: as they run, what they are allowed, what they are made for."""

    policy: str
    mhz: float | None
    allowed_mhz: float | None
    most_mhz: float | None
    governor: str | None
    driver: str | None


class Cooling(NamedTuple):
    """A device that cools by slowing the processor down: in ``state`` 0 it does not, in ``most`` all it can."""

    device: str
    state: int
    most: int | None


class Telemetry(NamedTuple):
    """What was found. ``throttle_events`` sums the counts of all cores and packages since the start (x86).

    ``firmware`` has the bits of a Raspberry Pi; ``is_under_voltage`` its voltage alarm. ``is_cut``: the time was up before
    all was read. None, or nothing in a tuple, is "not known".
    """

    temperatures: tuple[Temperature, ...] = ()
    cooling: tuple[Cooling, ...] = ()
    clocks: tuple[CpuClock, ...] = ()
    throttle_events: int | None = None
    firmware: int | None = None
    is_under_voltage: bool | None = None
    rails: tuple[Rail, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    is_cut: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether this machine tells nothing at all."""
        parts = (self.temperatures, self.cooling, self.clocks, self.rails, self.gpus)
        return not any(parts) and self.throttle_events is self.firmware is self.is_under_voltage is None


SILENT: Final = Telemetry()
"""A machine that tells nothing, or that nobody asked."""


def read_telemetry(
    root: Path = Path("/"),
    mono_ns: Callable[[], int] = time.monotonic_ns,
    *,
    budget_ns: int = BUDGET_NS,
    cards: Callable[[], tuple[Card, ...]] = cards_in_use,
) -> Telemetry:
    """Read what the kernel tells under ``root``, what matters most first, within ``budget_ns``; then ask NVIDIA's ``cards``."""
    files = KernelFiles(root, mono_ns, budget_ns=budget_ns)
    zones = list(_zones(files))
    sensors = [(f"sys/class/hwmon/{one}", files.text(f"sys/class/hwmon/{one}/name") or one)
               for one in files.names("sys/class/hwmon", _HWMON)]  # fmt: skip
    firmware, events = _firmware(files), _throttle_events(files)
    under_voltage = _voltage_alarm(files, sensors)
    # The thermal core shows its zones a second time as hwmon, with _ for -.
    again = {zone.sensor.replace("-", "_") for zone in zones}
    zones += [one for path, name in sensors if name not in again | _DISKS for one in _inputs(files, path, name)]
    asked = cards()
    zones += [
        Temperature(one.name, one.celsius, one.hot_celsius, one.critical_celsius)
        for one in asked
        if one.celsius is not None
    ]
    return Telemetry(
        temperatures=tuple(_named_apart(zones)),
        firmware=firmware,
        throttle_events=events,
        is_under_voltage=under_voltage,
        cooling=tuple(_cooling(files)),
        rails=(
            *(one for path, name in sensors for one in rails(files, path, name)),
            *(Rail(one.name, one.watts) for one in asked if one.watts is not None),
        ),
        gpus=(*gpus(files), *map(_gpu, asked)),
        clocks=tuple(_clocks(files)),
        is_cut=files.is_cut,
    )


def _gpu(card: Card) -> Gpu:
    used = None if card.memory_total is None or card.memory_free is None else card.memory_total - card.memory_free
    return Gpu(
        card.name,
        card.load_percent,
        card.mhz,
        card.most_mhz,
        None if used is None else used >> 20,
        None if card.memory_total is None else card.memory_total >> 20,
        card.is_throttled,
    )


def _zones(files: KernelFiles) -> Iterator[Temperature]:
    for zone in files.names("sys/class/thermal", _ZONE):
        path = f"sys/class/thermal/{zone}"
        celsius = _celsius(files, f"{path}/temp", _TEMPERATURE)
        if celsius is None:
            continue
        trips: dict[str, list[float]] = {}
        for name in files.names(path, _TRIP)[:_MAX_TRIPS]:
            at = _celsius(files, f"{path}/{name.removesuffix('type')}temp", _TRIP_RANGE)
            if at is not None:
                trips.setdefault(files.text(f"{path}/{name}") or "", []).append(at)
        # Of several passive trips the first only arms the control of the next, which slows down.
        hot = min(trips.get("hot", ()), default=None) or max(trips.get("passive", ()), default=None)
        yield Temperature(
            files.text(f"{path}/type") or zone, celsius, hot, min(trips.get("critical", ()), default=None)
        )


def _inputs(files: KernelFiles, path: str, name: str) -> Iterator[Temperature]:
    for one in files.names(path, _INPUT):
        celsius = _celsius(files, f"{path}/{one}", _TEMPERATURE)
        if celsius is not None:
            stem = f"{path}/{one.removesuffix('input')}"
            label = files.text(f"{stem}label")
            critical = _celsius(files, f"{stem}crit", _TRIP_RANGE)
            yield Temperature(f"{name} {label}" if label else name, celsius, None, critical)


def _named_apart(found: list[Temperature]) -> Iterator[Temperature]:
    seen: dict[str, int] = {}
    for one in found:
        seen[one.sensor] = count = seen.get(one.sensor, 0) + 1
        sensor = one.sensor if count == 1 else f"{one.sensor} ({count})"
        yield Temperature(sensor, one.celsius, one.hot, one.critical)


def _cooling(files: KernelFiles) -> Iterator[Cooling]:
    for device in files.names("sys/class/thermal", _COOLING):
        path = f"sys/class/thermal/{device}"
        kind = files.text(f"{path}/type") or ""
        state = (
            files.number(f"{path}/cur_state", 0, _MAX_COUNT)
            if kind.removeprefix("thermal-").startswith(_SLOWING)
            else None
        )
        if state is not None:
            yield Cooling(kind, state, files.number(f"{path}/max_state", 0, _MAX_COUNT))


def _clocks(files: KernelFiles) -> Iterator[CpuClock]:
    for policy in files.names("sys/devices/system/cpu/cpufreq", _POLICY)[:_MAX_POLICIES]:
        path = f"sys/devices/system/cpu/cpufreq/{policy}"
        yield CpuClock(
            policy,
            _mhz(files, f"{path}/scaling_cur_freq"),
            _mhz(files, f"{path}/scaling_max_freq"),
            _mhz(files, f"{path}/cpuinfo_max_freq"),
            files.text(f"{path}/scaling_governor"),
            files.text(f"{path}/scaling_driver"),
        )


def _throttle_events(files: KernelFiles) -> int | None:
    paths = [f"sys/devices/system/cpu/{cpu}/thermal_throttle" for cpu in files.names("sys/devices/system/cpu", _CPU)]
    counts = [
        count
        for path in paths
        for name in ("core_throttle_count", "package_throttle_count")
        if (count := files.number(f"{path}/{name}", 0, _MAX_COUNT)) is not None
    ]
    # Part of a sum would look as if it had grown the next time.
    return sum(counts) if counts and not files.is_cut else None


def _firmware(files: KernelFiles) -> int | None:
    for soc in files.names("sys/devices/platform", _is_soc):
        for firmware in files.names(f"sys/devices/platform/{soc}", lambda name: name.endswith(":firmware")):
            found = files.bits(f"sys/devices/platform/{soc}/{firmware}/get_throttled")
            if found is not None:
                return found
    return None


def _is_soc(name: str) -> bool:
    # With the address of its bus behind it on later boards.
    return name == "soc" or name.startswith("soc@")


def _voltage_alarm(files: KernelFiles, sensors: list[tuple[str, str]]) -> bool | None:
    alarms = [files.number(f"{path}/in0_lcrit_alarm", 0, 1) for path, name in sensors if name == "rpi_volt"]
    known = [alarm for alarm in alarms if alarm is not None]
    return any(known) if known else None


def _celsius(files: KernelFiles, path: str, within: tuple[int, int]) -> float | None:
    found = files.number(path, *within)
    return None if found is None else found / 1000


def _mhz(files: KernelFiles, path: str) -> float | None:
    khz = files.number(path, 1, _MAX_KHZ)
    return None if khz is None else khz / 1000
