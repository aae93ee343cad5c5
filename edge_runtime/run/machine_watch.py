"""Looks every some seconds how hot and how slowed down the machine is, while it serves; it slows and stops nothing."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from edge_runtime.device.telemetry import Telemetry, read_telemetry
from edge_runtime.run.strain import slowing, state_of, strains

if TYPE_CHECKING:
    from edge_runtime.spec.machine_state import MachineState

PAUSE_NS: Final = 10_000_000_000
"""Heat comes and goes in tens of seconds."""
_MIN_PAUSES: Final = 1000
"""Of the time at most a thousandth goes into reading: slow sensors are read more rarely."""


class MachineWatch:
    """To be asked once a second; ``state`` is how the machine stood at the last look, None where it tells nothing."""

    def __init__(
        self, read: Callable[[], Telemetry] = read_telemetry, mono_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._read, self._mono_ns = read, mono_ns
        self._next_ns: int | None = mono_ns()
        self._before: Telemetry | None = None
        self.state: MachineState | None = None
        self.trouble = ""
        """Why it is slowed down, as a clause; empty where it is not."""

    def look(self) -> None:
        """Read, where that is due; a machine that told nothing the first time is not asked again."""
        begun = self._mono_ns()
        if self._next_ns is None or begun < self._next_ns:
            return
        now = self._read()
        ended = self._mono_ns()
        self._next_ns = (
            None if now.is_empty and self._before is None else ended + max(PAUSE_NS, (ended - begun) * _MIN_PAUSES)
        )
        found = strains(now, self._before)
        self._before = now._replace(throttle_events=self._most(now.throttle_events))
        self.state, reasons = state_of(now, found), slowing(found)
        self.trouble = f"the machine is slowed down: {', '.join(reasons)}" if reasons else ""

    def _most(self, events: int | None) -> int | None:
        """The highest count so far: a core that is switched off takes its own along, and brings it back."""
        counts = (events, self._before.throttle_events if self._before is not None else None)
        return max((one for one in counts if one is not None), default=None)
