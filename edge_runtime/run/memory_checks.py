"""The checks of a boot on memory: what a bundle still needs, before it is loaded, and what it took; none frees any.

As in run/checks, each gives (value, measured, limit) or raises, and ``inject`` corrupts its input, not its comparison.
Sizes in MB, 10^6 bytes, as a bundle states them; the kernel's and a profile's MiB are converted.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from edge_runtime.bundle.verify import VerifiedBundle
from edge_runtime.device.nvml import cards, only
from edge_runtime.device.probe import FreeMemory, Machine, free_memory
from edge_runtime.errors import DeviceError
from edge_runtime.run.checks import NotChecked
from edge_runtime.spec.device_profile import DeviceProfile, ProviderChoice
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.providers import CUDA, TENSORRT, TENSORRT_RTX, WEBGPU
from edge_runtime.spec.variant import Variant

if TYPE_CHECKING:
    from edge_runtime.run.boot import Setting

_NVIDIA: Final = (CUDA, TENSORRT, TENSORRT_RTX)
_MB_PER_MIB: Final = 2**20 / 1e6
# Measured, onnxruntime 1.32, models of 1 to 200 MB: 10 MB for a process's first session, and twice the file while it is
# made (once as it was parsed, once as it will be used). Any provider but the CPU takes more, so this is the least.
_SESSION_MB: Final = 10.0
_COPIES: Final = 2
# A window is kept as float64 and goes to the model as float32.
_BYTES_PER_VALUE: Final = 12
# With less than this left the next burst of samples is the kernel's reason to end the process.
_RESERVE_MB: Final = 8.0


class _Room(NamedTuple):
    """One bound on what this process may still take, in MB."""

    mb: float
    where: str
    todo: str


def headroom(
    bundle: VerifiedBundle,
    found: Manifest,
    variant: Variant,
    choice: ProviderChoice,
    setting: "Setting",
    *,
    inject: bool,
) -> tuple[bool, str, str]:
    """What the bundle still needs is free: in RAM, in the control groups around this process, by the profile."""
    has = resident_mb() or 0.0
    least = _least_needed(variant, bundle.files, found)
    more = max(found.needs.memory_mb - has, least)
    stated = f"of the {found.needs.memory_mb:g} MB it states this process has {min(has, found.needs.memory_mb):.0f}"
    why = stated if more > least else f"the least for a model of {len(bundle.files[variant.model]) / 1e6:.3g} MB"
    machine = setting.machine
    on_gpu = _on_gpu(choice, machine, least)
    now = FreeMemory(machine.memory_available_mb, machine.memory_left_mb)
    rooms = [*_rooms(now), *_by_profile(setting.profile, has)]
    if not rooms:
        raise NotChecked("not known", "this system tells no free memory in /proc/meminfo, and the profile no memory_mb")
    room = min(rooms)._replace(mb=0.0) if inject else min(rooms)
    if more > room.mb:
        raise DeviceError(
            subject="memory this bundle still needs", found=f"{more:.0f} MB ({why})",
            expected=f"at most {room.mb:.0f} MB, {room.where}", todo=room.todo,
        )  # fmt: skip
    return True, f"{more:.0f} MB still needed ({why}){on_gpu}", f"{room.mb:.0f} MB, {room.where}"


def memory(found: Manifest, *, inject: bool) -> tuple[bool, str, str]:
    """The process is not larger than the bundle's author has promised."""
    used, limit = _known(resident_mb()), found.needs.memory_mb
    if inject:
        used = limit + 1
    if used > limit:
        raise DeviceError(
            subject="memory of this process", found=f"{used:.0f} MB", expected=f"at most {limit:g} MB, the bundle's need",
            todo="see whether another onnxruntime takes less, or have the author state what it takes",
        )  # fmt: skip
    return True, f"{used:.0f} MB", f"{limit:g} MB, the bundle's need"


def memory_limit(profile: DeviceProfile, *, inject: bool) -> tuple[bool, str, str]:
    """With everything loaded the process is within the profile's limit, and so much is left that it can live on."""
    used = _known(resident_mb())
    rooms = list(_rooms(free_memory()))
    left = min(rooms, default=None)
    limit = profile.memory_mb * _MB_PER_MIB if profile.memory_mb is not None else None
    if inject:
        limit, used = (limit, limit + 1) if limit is not None else (used - 1, used)
    if limit is not None and used > limit:
        raise DeviceError(
            subject="memory of this process", found=f"{used:.0f} MB", expected=f"at most {limit:.0f} MB",
            todo="raise memory_mb in the profile where the machine has more, or serve a smaller bundle",
        )  # fmt: skip
    if left is not None and left.mb < _RESERVE_MB:
        raise DeviceError(
            subject="memory left with the model loaded", found=f"{left.mb:.0f} MB, {left.where}",
            expected=f"{_RESERVE_MB:g} MB or more", todo=left.todo,
        )  # fmt: skip
    if limit is None and left is None:
        raise NotChecked("not known", "this system tells no free memory in /proc/meminfo, and the profile no memory_mb")
    told = f"; {left.mb:.0f} MB, {left.where}" if left is not None else ""
    by_profile = f"{limit:.0f} MB by the profile" if limit is not None else "no limit by the profile"
    return True, f"{used:.0f} MB{told}", f"{by_profile}; {_RESERVE_MB:g} MB left"


def resident_mb() -> float | None:
    """How large this process is, in MB; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6  # 4 KiB on most machines, 16 KiB on a Raspberry Pi 5


def _known(used: float | None) -> float:
    if used is None:
        raise NotChecked("not known", "this system does not tell a process its size in /proc")
    return used


def _least_needed(variant: Variant, files: Mapping[str, bytes], found: Manifest) -> float:
    """What loading takes in any case, whatever was stated: the session, and the largest batch with its windows."""
    names = [variant.model, *([found.preprocess_onnx.model] if found.preprocess_onnx else [])]
    values = found.length * found.width * found.batch_sizes[-1]
    return (
        _SESSION_MB * len(names)
        + _COPIES * sum(len(files[name]) for name in names) / 1e6
        + _BYTES_PER_VALUE * values / 1e6
    )


def _rooms(now: FreeMemory) -> Iterator[_Room]:
    if now.available_mb is not None:
        yield _Room(
            now.available_mb * _MB_PER_MIB, "free in RAM",
            "stop other programs, or use a machine with more memory",
        )  # fmt: skip
    if now.left_mb is not None:
        yield _Room(
            now.left_mb * _MB_PER_MIB, "left in the control group of this process",
            "raise MemoryMax= of the service or the container's limit, or stop what else runs under it",
        )  # fmt: skip


def _by_profile(profile: DeviceProfile, has: float) -> Iterator[_Room]:
    if profile.memory_mb is not None:
        yield _Room(
            max(0.0, profile.memory_mb * _MB_PER_MIB - has), f"left of memory_mb = {profile.memory_mb} of the profile",
            "raise memory_mb in the profile where the machine has more, or serve a smaller bundle",
        )  # fmt: skip


def _on_gpu(choice: ProviderChoice, machine: Machine, least: float) -> str:
    """What is known of a GPU's own memory, in words: nothing, unless it is the machine's or its driver tells.

    Raises:
        DeviceError: less is free on the card than the model takes at the least.

    """
    asked = choice.device or choice.options.get("device_type", "")
    if "GPU" not in asked and choice.name not in (*_NVIDIA, WEBGPU):
        return ""
    if "Jetson" in (machine.device_tree_model or ""):
        return "; the GPU's memory is this RAM"
    if choice.name not in _NVIDIA:
        return "; the GPU's own memory is not checked: no file of the kernel tells what is free"
    found = cards()
    card = only(found)
    if card is None or card.memory_free is None:
        why = f"of {len(found)} cards CUDA may number another first" if len(found) > 1 else "NVML does not tell it"
        return f"; the GPU's own memory is not checked: {why}"
    free = card.memory_free / 1e6
    if least > free:
        raise DeviceError(
            subject=f"memory of {card.name}", found=f"{free:.0f} MB free",
            expected=f"{least:.0f} MB or more, the least for this model", todo="see in nvidia-smi what else uses the card",
        )  # fmt: skip
    return f"; {free:.0f} MB free on {card.name}"
