"""What a GPU tells in the kernel's files: its load, clock and memory; of a card that is silent there it knows nothing."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from edge_runtime.device.kernel_files import KernelFiles, numbered

# How boards name them among other devices: the Jetsons by their chips, Thor as gpu-gpc-0 and gpu-nvd-0.
_NAMES: Final = ("gpu", "mali", "gm20b", "gp10b", "gv11b", "ga10b", "gb10b")
_CARD: Final = numbered("card")
_MAX_HZ: Final = 20_000_000_000
_MAX_MHZ: Final = 20_000
_MAX_BYTES: Final = 1 << 50
# i915 before and after its files went below gt0, xe: clock, most, whether it is slowed down.
_INTEL: Final = (
    ("gt/gt0/rps_act_freq_mhz", "gt/gt0/rps_RP0_freq_mhz", "gt/gt0/throttle_reason_status"),
    ("gt_act_freq_mhz", "gt_RP0_freq_mhz", "gt/gt0/throttle_reason_status"),
    ("device/tile0/gt0/freq0/act_freq", "device/tile0/gt0/freq0/rp0_freq", "device/tile0/gt0/freq0/throttle/status"),
)


class Gpu(NamedTuple):
    """One GPU: load in percent, clock in MHz, memory in MiB; None is "not known"."""

    name: str
    load_percent: float | None = None
    mhz: float | None = None
    most_mhz: float | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    is_throttled: bool | None = None


def gpus(files: KernelFiles) -> Iterator[Gpu]:
    """Every GPU that tells anything: of boards (devfreq), of amdgpu, i915 and xe."""
    found = [*_boards(files), *(_card(files, card) for card in files.names("sys/class/drm", _CARD))]
    return (one for one in found if (one.load_percent, one.mhz, one.memory_total_mb, one.is_throttled) != (None,) * 4)


def _boards(files: KernelFiles) -> Iterator[Gpu]:
    for name in files.names("sys/class/devfreq", _is_gpu):
        path = f"sys/class/devfreq/{name}"
        per_mille = files.number(f"{path}/device/load", 0, 1000)
        yield Gpu(
            name,
            None if per_mille is None else per_mille / 10,
            _scaled(files.number(f"{path}/cur_freq", 0, _MAX_HZ)),
            _scaled(files.number(f"{path}/max_freq", 1, _MAX_HZ)),
        )


def _is_gpu(name: str) -> bool:
    return any(one in name.lower() for one in _NAMES)


def _card(files: KernelFiles, card: str) -> Gpu:
    path = f"sys/class/drm/{card}"
    used = files.number(f"{path}/device/mem_info_vram_used", 0, _MAX_BYTES)
    total = files.number(f"{path}/device/mem_info_vram_total", 1, _MAX_BYTES)
    mhz = most = slowed = None
    for clock, limit, status in _INTEL:
        mhz = files.number(f"{path}/{clock}", 0, _MAX_MHZ)
        if mhz is not None:
            most = files.number(f"{path}/{limit}", 1, _MAX_MHZ)
            slowed = files.number(f"{path}/{status}", 0, 1)
            break
    return Gpu(
        card,
        files.number(f"{path}/device/gpu_busy_percent", 0, 100),
        mhz,
        most,
        None if used is None else used >> 20,
        None if total is None else total >> 20,
        None if slowed is None else bool(slowed),
    )


def _scaled(hertz: int | None) -> float | None:
    return None if hertz is None else hertz / 1e6
