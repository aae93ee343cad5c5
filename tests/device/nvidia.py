"""A library that answers as NVML documents it: its functions write through the pointers they are given."""

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.device.trees import write

NOT_SUPPORTED = 3
GIB = 1 << 30
_AT = ctypes.c_void_p
_NUMBER = ctypes.c_uint
_WIDE = ctypes.c_ulonglong
_NAME = b"NVIDIA RTX A2000\0"


@dataclass
class Nvml:
    """Cards of one kind; a question in ``refuses`` is answered with "not supported"."""

    count: int = 1
    total: int = 8 * GIB
    free: int = 7 * GIB
    celsius: int = 51
    reasons: int = 1
    refuses: frozenset[str] = frozenset()
    handles: int = 0
    kept: list[object] = field(default_factory=list)

    def load(self, name: str) -> "Nvml":
        assert name == "libnvidia-ml.so.1"
        return self

    def __getattr__(self, name: str) -> Any:
        takes, answer = self._questions()[name]

        def function(*given: int) -> int:
            return NOT_SUPPORTED if name in self.refuses else answer(*given)

        made = ctypes.CFUNCTYPE(ctypes.c_int, *takes)(function)
        self.kept.append(made)
        return made

    def _questions(self) -> dict[str, tuple[tuple[Any, ...], Any]]:
        """The types that each takes, and what it does."""
        asked, by_kind = (_AT, _AT), (_AT, _NUMBER, _AT)
        return {
            "nvmlInit_v2": ((), lambda: self._count_handles(1)),
            "nvmlShutdown": ((), lambda: self._count_handles(-1)),
            "nvmlDeviceGetCount_v2": ((_AT,), lambda at: _put(at, _NUMBER, self.count)),
            "nvmlDeviceGetHandleByIndex_v2": ((_NUMBER, _AT), lambda index, at: _put(at, _AT, 0x1000 + index)),
            "nvmlDeviceGetName": ((_AT, _AT, _NUMBER), lambda _, at, size: _put(at, ctypes.c_char, *_NAME[:size])),
            "nvmlDeviceGetMemoryInfo": (
                asked, lambda _, at: _put(at, _WIDE, self.total, self.free, self.total - self.free)
            ),
            "nvmlDeviceGetUtilizationRates": (asked, lambda _, at: _put(at, _NUMBER, 37, 5)),
            "nvmlDeviceGetCurrentClocksThrottleReasons": (asked, lambda _, at: _put(at, _WIDE, self.reasons)),
            "nvmlDeviceGetPowerUsage": (asked, lambda _, at: _put(at, _NUMBER, 31_500)),
            "nvmlDeviceGetClockInfo": (by_kind, lambda _, __, at: _put(at, _NUMBER, 1200)),
            "nvmlDeviceGetMaxClockInfo": (by_kind, lambda _, __, at: _put(at, _NUMBER, 2100)),
            "nvmlDeviceGetTemperature": (by_kind, lambda _, __, at: _put(at, _NUMBER, self.celsius)),
            "nvmlDeviceGetTemperatureThreshold": (by_kind, lambda _, to, at: _put(at, _NUMBER, {0: 98, 1: 95}[to])),
        }  # fmt: skip

    def _count_handles(self, by: int) -> int:
        self.handles += by
        return 0


def _put(at: int, kind: Any, *values: Any) -> int:
    found = (kind * len(values))(*values)
    ctypes.memmove(at, found, ctypes.sizeof(found))
    return 0


def root(folder: Path) -> Path:
    """A machine on which NVIDIA's driver is loaded."""
    return write(folder, {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07\n"})
