"""What `doctor` says of heat, throttling, clocks, power and GPU; it reads nothing itself and switches nothing."""

from collections.abc import Sequence
from typing import Final

from edge_runtime.device.telemetry import Telemetry
from edge_runtime.run.findings import Finding
from edge_runtime.run.strain import Kind, Strain, strains

BUDGET_NS: Final = 1_000_000_000
"""What a person waits for at most; a serving process does not give its sensors so long."""
_NVML: Final = "nor does an NVIDIA card tell anything through NVML, its driver's library"


def look(told: Telemetry) -> list[Finding]:
    """One finding a matter; a warning where a limit is near or passed, not checked where the machine is silent."""
    if told.is_empty:
        text = f"not checked: the kernel shows no temperature, clock, rail or GPU here ({_NVML})"
        return [Finding("sensors", "skipped", text)]
    found = strains(told)
    return [
        _finding("temperature", _temperatures(told), found, "hot", "near_critical"),
        _finding("throttling", _throttling(told), found, "throttled", "under_voltage", "earlier"),
        _finding("clock rates", _clocks(told), found, "clock"),
        _finding("power", [f"{one.name} {one.watts:.3g} W" for one in told.rails], found, "power_alarm"),
        _finding("GPU", _gpus(told), found, "gpu", silent=_NVML),
        *([Finding("sensors", "skipped", "not checked to their end: they answer too slowly")] if told.is_cut else ()),
    ]


def _finding(subject: str, known: list[str], found: Sequence[Strain], *kinds: Kind, silent: str = "") -> Finding:
    told = [one for one in found if one.kind in kinds]
    if told:
        todo = "; ".join(dict.fromkeys(one.todo for one in told))
        return Finding(subject, "warn", "; ".join([*(one.text for one in told), *known]), todo)
    if not known:
        return Finding(subject, "skipped", f"not checked: the kernel shows none{f' ({silent})' if silent else ''}")
    return Finding(subject, "ok", "; ".join(known))


def _temperatures(told: Telemetry) -> list[str]:
    texts = []
    for one in sorted(told.temperatures, key=lambda one: -one.celsius)[:4]:
        limits = [f"{name} {at:g}" for name, at in (("hot", one.hot), ("critical", one.critical)) if at is not None]
        texts.append(f"{one.sensor} {one.celsius:.1f} C" + (f" ({', '.join(limits)})" if limits else ""))
    more = len(told.temperatures) - len(texts)
    return [*texts, f"{more} cooler ones"] if more else texts


def _throttling(told: Telemetry) -> list[str]:
    """What was looked at: without any of it nobody may read that there is none."""
    signs = {
        "processor's counts": told.throttle_events, "firmware": told.firmware, "voltage alarm": told.is_under_voltage,
        "cooling devices": told.cooling or None,
    }  # fmt: skip
    asked = [name for name, value in signs.items() if value is not None]
    return [f"asked: {', '.join(asked)}"] if asked else []


def _clocks(told: Telemetry) -> list[str]:
    texts = []
    for one in told.clocks:
        parts = [f"{one.mhz:.0f}" if one.mhz is not None else "unknown"]
        parts += [f"of {one.most_mhz:.0f}"] if one.most_mhz is not None else []
        texts.append(f"{one.policy} {' '.join(parts)} MHz, governor {one.governor or 'unknown'}")
    return texts


def _gpus(told: Telemetry) -> list[str]:
    texts = []
    for one in told.gpus:
        parts = [f"{one.load_percent:g} % busy"] if one.load_percent is not None else []
        if one.mhz is not None:
            parts.append(f"{one.mhz:.0f} MHz" if one.most_mhz is None else f"{one.mhz:.0f} of {one.most_mhz:.0f} MHz")
        if one.memory_used_mb is not None and one.memory_total_mb is not None:
            parts.append(f"{one.memory_used_mb} of {one.memory_total_mb} MiB used")
        texts.append(f"{one.name} {', '.join(parts)}")
    return texts
