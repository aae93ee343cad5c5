"""What NVIDIA's cards tell through NVML, the library of their driver; where it is absent or silent, nothing is known.

An NVIDIA card in a PC tells next to nothing in the kernel's files. NVML comes with the driver and is loaded from where the
system keeps it, never from a profile or a bundle. Source: NVML API Reference, Device Queries.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

LIBRARY: Final = "libnvidia-ml.so.1"
_DRIVER: Final = "proc/driver/nvidia/version"
_CUDA: Final = "libcuda.so.1"
_MAX_CARDS: Final = 16
_MAX_NAME: Final = 96
_OK: Final = 0
_TO_SLOWDOWN: Final = 1
_TO_SHUTDOWN: Final = 0
_GRAPHICS_CLOCK: Final = 0
_GPU_SENSOR: Final = 0
# Slowed down by heat or by the board: hardware slowdown, thermal by software and by hardware, power brake. Its idle clocks
# and the power cap a card always runs at are no fault.
_SLOWED: Final = 0x8 | 0x20 | 0x40 | 0x80
_MAX_CELSIUS: Final = 200
_MAX_MILLIWATTS: Final = 10_000_000
_MAX_BYTES: Final = 1 << 50


class Card(NamedTuple):
    """One card: degrees Celsius, MHz, watts, bytes, load in percent; None is "not known"."""

    name: str
    memory_total: int | None = None
    memory_free: int | None = None
    load_percent: int | None = None
    mhz: int | None = None
    most_mhz: int | None = None
    celsius: int | None = None
    hot_celsius: int | None = None
    critical_celsius: int | None = None
    watts: float | None = None
    is_throttled: bool | None = None


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def cards(root: Path = Path("/"), load: Callable[[str], Any] = ctypes.CDLL) -> tuple[Card, ...]:
    """Ask every card; nothing where NVIDIA's driver is not loaded under ``root``. A sleeping card takes a second to answer."""
    if not (root / _DRIVER).exists():
        return ()
    try:
        library = load(LIBRARY)
        if library.nvmlInit_v2() != _OK:
            return ()
    except (OSError, AttributeError):
        return ()
    try:
        return tuple(_cards(library))
    except AttributeError:  # a library that has no such function is not the one described
        return ()
    finally:
        library.nvmlShutdown()


def cards_in_use() -> tuple[Card, ...]:
    """The same where this process computes with CUDA, so that they are awake and answer at once; else nothing."""
    try:
        ctypes.CDLL(_CUDA, mode=os.RTLD_NOLOAD)
    except (OSError, AttributeError):  # not loaded; Windows has no such flag
        return ()
    return cards()


def _cards(library: Any) -> Iterator[Card]:
    for index in range(min(_value(library.nvmlDeviceGetCount_v2) or 0, _MAX_CARDS)):
        card = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(card)) == _OK:
            yield _card(library, card, index)


def _card(library: Any, card: ctypes.c_void_p, index: int) -> Card:
    memory, load, throttled = _Memory(), _Utilization(), ctypes.c_ulonglong()
    has_memory = library.nvmlDeviceGetMemoryInfo(card, ctypes.byref(memory)) == _OK and memory.total < _MAX_BYTES
    has_load = library.nvmlDeviceGetUtilizationRates(card, ctypes.byref(load)) == _OK
    has_reasons = library.nvmlDeviceGetCurrentClocksThrottleReasons(card, ctypes.byref(throttled)) == _OK
    milliwatts = _within(_value(library.nvmlDeviceGetPowerUsage, card), _MAX_MILLIWATTS)
    limit = library.nvmlDeviceGetTemperatureThreshold
    return Card(
        name=f"nvidia{index}{_name(library, card)}",
        memory_total=memory.total if has_memory else None,
        memory_free=memory.free if has_memory and memory.free <= memory.total else None,
        load_percent=_within(load.gpu, 100) if has_load else None,
        mhz=_value(library.nvmlDeviceGetClockInfo, card, _GRAPHICS_CLOCK),
        most_mhz=_value(library.nvmlDeviceGetMaxClockInfo, card, _GRAPHICS_CLOCK),
        celsius=_within(_value(library.nvmlDeviceGetTemperature, card, _GPU_SENSOR), _MAX_CELSIUS),
        hot_celsius=_within(_value(limit, card, _TO_SLOWDOWN), _MAX_CELSIUS),
        critical_celsius=_within(_value(limit, card, _TO_SHUTDOWN), _MAX_CELSIUS),
        watts=None if milliwatts is None else milliwatts / 1000,
        is_throttled=bool(throttled.value & _SLOWED) if has_reasons else None,
    )


def _name(library: Any, card: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(_MAX_NAME)
    if library.nvmlDeviceGetName(card, text, ctypes.c_uint(_MAX_NAME)) != _OK:
        return ""
    return " " + "".join(filter(str.isprintable, text.value.decode("utf-8", "replace")))


def _value(ask: Any, *about: ctypes.c_void_p | int) -> int | None:
    """One unsigned number: each of these questions gives it through its last argument."""
    found = ctypes.c_uint()
    whole = [ctypes.c_uint(one) if isinstance(one, int) else one for one in about]
    return found.value if ask(*whole, ctypes.byref(found)) == _OK else None


def _within(found: int | None, most: int) -> int | None:
    return None if found is None or found > most else found


def only(found: Sequence[Card]) -> Card | None:
    """The card where there is one: of several CUDA numbers another first than NVML may."""
    return found[0] if len(found) == 1 else None
