"""Measures the energy a machine takes over a span, where a counter or a rail of the whole tells it; it estimates nothing.

Sources: the kernel's Documentation/power/powercap (`energy_uj` counts up to `max_energy_range_uj` and begins anew; read by
root alone since 2020, for it gives away what other processes do), and `edge_runtime.device.rails`.
"""

from pathlib import Path
from typing import Final, NamedTuple

from edge_runtime.device.kernel_files import KernelFiles, numbered
from edge_runtime.device.rails import Rail, rails, whole_board

_POWERCAP: Final = "sys/class/powercap"
_PACKAGE: Final = numbered("intel-rapl:")  # also AMD's; what has a second colon is a part of one
_HWMON: Final = numbered("hwmon")
_MAX_UJ: Final = 1 << 62


class _Counter(NamedTuple):
    path: str
    range_uj: int


class EnergyMeter:
    """Joules since the first ``take``; ``source`` says what is measured: processor packages, or the whole board.

    A rail is power at a moment: what lies between two takes is taken to be their mean, so take them often.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._counters = _packages(self._files())
        self._board = None if self._counters else whole_board(_rails(self._files()))
        self._last_uj: list[int] | None = None
        self._last: tuple[int, float] | None = None
        self._joules: float | None = 0.0
        names = [one.path.rpartition("/")[2] for one in self._counters]
        self.source = ", ".join(names) or (f"rail {self._board.name}" if self._board is not None else "")
        """Empty where this machine has neither, or keeps it from this user."""

    def take(self, now_ns: int) -> float | None:
        """Read now, by the monotonic clock: the joules since the first time; None from the first reading that failed on."""
        added = self._counted() if self._counters else self._sampled(now_ns)
        self._joules = None if added is None or self._joules is None else self._joules + added
        return self._joules

    def _counted(self) -> float | None:
        found = [_read_uj(self._files(), one.path) for one in self._counters]
        now = [one for one in found if one is not None]
        if len(now) < len(found):
            return None
        before, self._last_uj = self._last_uj or now, now
        steps = zip(now, before, self._counters, strict=True)
        return sum(uj - last if uj >= last else uj - last + one.range_uj for uj, last, one in steps) / 1e6

    def _sampled(self, now_ns: int) -> float | None:
        board = whole_board(_rails(self._files()))
        if board is None:
            return None
        before, self._last = self._last or (now_ns, board.watts), (now_ns, board.watts)
        return (now_ns - before[0]) / 1e9 * (board.watts + before[1]) / 2

    def _files(self) -> KernelFiles:
        return KernelFiles(self._root)


def _packages(files: KernelFiles) -> list[_Counter]:
    found = []
    for name in files.names(_POWERCAP, _PACKAGE):
        path = f"{_POWERCAP}/{name}"
        # What is named psys holds the packages as well: each joule counts once.
        if (files.text(f"{path}/name") or "").startswith("package") and _read_uj(files, path) is not None:
            range_uj = files.number(f"{path}/max_energy_range_uj", 1, _MAX_UJ)
            found += [_Counter(path, range_uj)] if range_uj is not None else []
    return found


def _read_uj(files: KernelFiles, path: str) -> int | None:
    return files.number(f"{path}/energy_uj", 0, _MAX_UJ)


def _rails(files: KernelFiles) -> list[Rail]:
    names = files.names("sys/class/hwmon", _HWMON)
    return [one for name in names for one in rails(files, f"sys/class/hwmon/{name}", name)]
