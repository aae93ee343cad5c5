"""Joules an inference costs, where this machine measures its power: of everything (gross), and beyond idling (net).

Only here, where nothing but the model runs: of a serving device, whose samples are seconds apart, such a figure would be
that of its idling.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from edge_runtime.device.energy import EnergyMeter

SPAN_S = 5.0
"""Power rails are averaged over some 10 ms to 1 s by their sensors."""
_STEP_S = 0.1


class Energy(NamedTuple):
    """Of one model: what was measured, how many inferences, and what they and idling took."""

    case: str
    source: str
    inferences: int
    idle_watts: float
    busy_watts: float
    seconds: float

    @property
    def gross_mj(self) -> float:
        """Millijoules an inference, everything that ``source`` feeds included."""
        return self.busy_watts * self.seconds / self.inferences * 1000

    @property
    def net_mj(self) -> float:
        """The same without what it takes idling."""
        return (self.busy_watts - self.idle_watts) * self.seconds / self.inferences * 1000


def measure_energy(
    case: str,
    infer: Callable[[], object],
    meter: EnergyMeter,
    *,
    mono_ns: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Energy | None:
    """Idle for ``SPAN_S``, then infer for as long; None where the machine does not measure, or ceased to meanwhile."""
    if not meter.source:
        return None
    idle = _span(meter, mono_ns, lambda: sleep(_STEP_S))
    busy = _span(meter, mono_ns, lambda: _for_a_step(infer, mono_ns))
    if idle is None or busy is None:
        return None
    return Energy(case, meter.source, busy.calls, idle.joules / idle.seconds, busy.joules / busy.seconds, busy.seconds)


class _Span(NamedTuple):
    joules: float
    seconds: float
    calls: int


def _span(meter: EnergyMeter, mono_ns: Callable[[], int], step: Callable[[], int | None]) -> _Span | None:
    begun, count = mono_ns(), 0
    first = last = meter.take(begun)
    now = begun
    while now - begun < SPAN_S * 1e9:
        count += step() or 0
        now = mono_ns()
        last = meter.take(now)
    return None if first is None or last is None else _Span(last - first, (now - begun) / 1e9, count)


def _for_a_step(infer: Callable[[], object], mono_ns: Callable[[], int]) -> int:
    end, count = mono_ns() + _STEP_S * 1e9, 0
    while mono_ns() < end:
        infer()
        count += 1
    return count
