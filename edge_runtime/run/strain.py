"""What in the machine's telemetry slows it down or soon will, in words with what to do; it reads nothing itself."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from edge_runtime.device.gpu import Gpu
from edge_runtime.device.telemetry import (
    CAPPED,
    SINCE_START,
    SOFT_LIMIT,
    THROTTLED,
    UNDER_VOLTAGE,
    CpuClock,
    Telemetry,
)
from edge_runtime.spec.machine_state import MachineState

Kind = Literal["hot", "near_critical", "throttled", "under_voltage", "power_alarm", "clock", "gpu", "earlier"]

NEAR_K: Final = 5.0
"""So near to the point where the system switches off, in kelvin, a machine without any other sign is told to be hot."""
_SLOWED: Final = frozenset({"hot", "throttled", "under_voltage"})
# With these drivers the governor of that name is the usual one and no fixed lowest clock.
_OWN_POWERSAVE: Final = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})
# A few MHz less than the data sheet says is rounding.
_ALLOWED_SHARE: Final = 0.98

_COOL: Final = "look at its fan, dust, sun and what else runs on it"
_FEED: Final = "use the supply that the board's maker names, and a short cable"
_UNBIND: Final = "set the power mode or governor for full speed, if latency matters"
_BITS: Final = (
    (CAPPED, "its clock capped"),
    (THROTTLED, "throttled"),
    (SOFT_LIMIT, "at its soft temperature limit"),
)


class Strain(NamedTuple):
    """One thing that slows the machine down, did or will; ``todo`` is what helps."""

    kind: Kind
    text: str
    todo: str


def strains(now: Telemetry, before: Telemetry | None = None) -> tuple[Strain, ...]:
    """What ``now`` shows; counts that grew since ``before`` are throttling of now, without it of some time since the start."""
    found = [*_heat(now), *_throttling(now, before), *_voltage(now), *_clocks(now.clocks)]
    found += [Strain("gpu", f"GPU {one.name} is slowed down", _COOL) for one in now.gpus if one.is_throttled]
    return tuple(found)


def slowing(found: Sequence[Strain]) -> tuple[str, ...]:
    """What of it slows the machine down now, by heat or for want of power, or is beyond the point where that begins."""
    return tuple(one.text for one in found if one.kind in _SLOWED)


def state_of(now: Telemetry, found: Sequence[Strain]) -> MachineState | None:
    """What a report or a status says of it; None where the machine tells nothing."""
    if now.is_empty:
        return None
    return MachineState(
        strains=tuple(one.text for one in found if one.kind != "earlier"),
        is_slowed=bool(slowing(found)),
        temperatures={one.sensor: one.celsius for one in now.temperatures},
        cpu_mhz={one.policy: one.mhz for one in now.clocks if one.mhz is not None},
        watts={one.name: round(one.watts, 4) for one in now.rails},
        gpus={one.name: _told(one) for one in now.gpus},
    )


def _heat(now: Telemetry) -> Iterator[Strain]:
    for one in now.temperatures:
        if one.hot is not None and one.celsius >= one.hot:
            yield Strain("hot", f"{one.sensor} {one.celsius:.1f} C, hot from {one.hot:g} C on", _COOL)
        elif one.critical is not None and one.celsius >= one.critical - NEAR_K:
            text = f"{one.sensor} {one.celsius:.1f} C, near its critical {one.critical:g} C"
            yield Strain("near_critical", text, _COOL)


def _throttling(now: Telemetry, before: Telemetry | None) -> Iterator[Strain]:
    for one in now.cooling:
        if one.state:
            most = f" of {one.most}" if one.most is not None else ""
            yield Strain("throttled", f"throttled by {one.device}, step {one.state}{most}", _COOL)
    if now.throttle_events:
        if before is None:
            text = f"throttled since the machine started: {now.throttle_events} times counted over all cores"
            yield Strain("earlier", text, _COOL)
        elif before.throttle_events is not None and now.throttle_events > before.throttle_events:
            count = now.throttle_events - before.throttle_events
            yield Strain("throttled", f"throttled, {count} times counted since the last look", _COOL)
    bits = now.firmware or 0
    yield from (Strain("throttled", f"firmware: {words}", _COOL) for bit, words in _BITS if bits & bit)
    earlier = [words for bit, words in (*_BITS, (UNDER_VOLTAGE, "under voltage")) if bits >> SINCE_START & bit & ~bits]
    if earlier:
        yield Strain("earlier", f"firmware: since the start it was {', '.join(earlier)}", f"{_COOL}; {_FEED}")


def _voltage(now: Telemetry) -> Iterator[Strain]:
    if now.is_under_voltage or (now.firmware or 0) & UNDER_VOLTAGE:
        yield Strain("under_voltage", "under voltage", _FEED)
    for rail in now.rails:
        if rail.is_alarmed:
            text = f"rail {rail.name} passes a limit of its sensor, at {rail.watts:.3g} W"
            yield Strain("power_alarm", text, "look at the supply and the power mode")


def _clocks(clocks: Sequence[CpuClock]) -> Iterator[Strain]:
    for one in clocks:
        if one.allowed_mhz is not None and one.most_mhz is not None and one.allowed_mhz < _ALLOWED_SHARE * one.most_mhz:
            yield Strain("clock", f"{one.policy} is allowed {one.allowed_mhz:.0f} of {one.most_mhz:.0f} MHz", _UNBIND)
        if one.governor == "powersave" and one.driver not in _OWN_POWERSAVE:
            yield Strain("clock", f"{one.policy} stays at its lowest clock, by governor powersave", _UNBIND)


def _told(gpu: Gpu) -> dict[str, float]:
    told = {
        "load_percent": gpu.load_percent, "mhz": gpu.mhz,
        "memory_used_mb": gpu.memory_used_mb, "memory_total_mb": gpu.memory_total_mb,
    }  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}
