"""What the machine is, read from the kernel's files under a root; it starts no program and judges nothing.

A file that is absent or odd gives None: a container, a board or another system shows less, and that is no failure.
"""

import ctypes
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_X86: Final = ("sse4_1", "avx2", "avx512f", "avx512_vnni", "avx_vnni")
_ARM: Final = ("asimddp", "i8mm", "sve", "sme")
_WATCHED: Final = frozenset(_X86 + _ARM)
_VNNI: Final = frozenset({"avx512_vnni", "avx_vnni"})

# MIDR part numbers of Arm's own cores (implementer 0x41); an aarch64 kernel gives no model name.
_ARM_CORES: Final = {
    0xD03: "Cortex-A53",
    0xD04: "Cortex-A35",
    0xD05: "Cortex-A55",
    0xD07: "Cortex-A57",
    0xD08: "Cortex-A72",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD42: "Cortex-A78AE",
}
_ARM_LIMITED: Final = 0x41

_MIB: Final = 1024 * 1024
_KIB_PER_MIB: Final = 1024
# A cgroup without a limit says so with a number near 2^63 in version 1.
_NO_LIMIT_BYTES: Final = 1 << 60
# A file of the kernel is small; something else under that name is not read to its end.
_MAX_READ_BYTES: Final = 4 * _MIB
_TIME_ERROR: Final = 5  # adjtimex(2): the clock is not synchronised
_TIMEX_BYTES: Final = 1024  # struct timex has 208 bytes on 64-bit Linux


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found. Memory in MiB (2^20 bytes); ``isa`` has the watched CPU features; None is "not known".

    ``memory_limit_mb`` is the smallest limit of the control groups around this process, ``memory_left_mb`` the least that
    one of them has left, file cache that the kernel would give up counted as free; it need not be that of the limit.
    """

    architecture: str | None = None
    cpu_model: str | None = None
    isa: frozenset[str] | None = None
    cores: int | None = None
    memory_total_mb: int | None = None
    memory_available_mb: int | None = None
    memory_limit_mb: int | None = None
    memory_left_mb: int | None = None
    kernel: str | None = None
    glibc: str | None = None
    device_tree_model: str | None = None
    firmware: str | None = None
    boot_id: str | None = None
    clock_synchronised: bool | None = None


def probe(root: Path = Path("/")) -> Machine:
    """Read what the kernel says under ``root``.

    Under another root than ``/`` only its files count; what only this process can be asked (glibc, the clock's state)
    is then unknown.
    """
    here = root == Path("/")
    processors = _processors(_text(root / "proc/cpuinfo"))
    memory = _memory(_text(root / "proc/meminfo"))
    groups = _groups(root)
    return Machine(
        architecture=_architecture(root, processors, here=here),
        cpu_model=_cpu_model(processors),
        isa=_isa(processors),
        cores=len(processors) or (os.cpu_count() if here else None),
        memory_total_mb=memory.get("MemTotal"),
        memory_available_mb=memory.get("MemAvailable"),
        memory_limit_mb=min((one.limit // _MIB for one in groups), default=None),
        memory_left_mb=_least_left(groups),
        kernel=_line(root / "proc/sys/kernel/osrelease") or ((platform.release() or None) if here else None),
        glibc=_glibc() if here else None,
        device_tree_model=_line(root / "proc/device-tree/model"),
        firmware=_firmware(root),
        boot_id=_line(root / "proc/sys/kernel/random/boot_id"),
        clock_synchronised=clock_synchronised(root, here=here),
    )


class FreeMemory(NamedTuple):
    """MiB a process could still take: of the whole machine, and of the tightest control group around it."""

    available_mb: int | None
    left_mb: int | None


def free_memory(root: Path = Path("/")) -> FreeMemory:
    """Read again what changes by the second, and no more; None is "not known", or no limit."""
    return FreeMemory(_memory(_text(root / "proc/meminfo")).get("MemAvailable"), _least_left(_groups(root)))


def has_vnni(machine: Machine) -> bool:
    """Tell whether an x86-64 processor is known to multiply int8 without a saturating 16-bit sum."""
    return machine.isa is not None and bool(machine.isa & _VNNI)


def needs_x64_quant_precision(machine: Machine, *, seven_bit_weights: bool) -> bool:
    """Tell whether a session needs ``session.x64quantprecision=1``: without it int8 sums saturate, answers are wrong.

    That is x86-64 without VNNI and weights outside [-64, 63] (microsoft/onnxruntime issue 14642, PR 12088). Where the
    features are not known the slower, right kernel is taken. Elsewhere the option costs time and changes nothing.
    """
    return machine.architecture == "x86_64" and not has_vnni(machine) and not seven_bit_weights


def _architecture(root: Path, processors: list[dict[str, str]], *, here: bool) -> str | None:
    # The process is asked before the kernel's file: under user-mode emulation that shows the host.
    name = platform.machine() if here else _line(root / "proc/sys/kernel/arch")
    if name:
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name)
    if any("flags" in processor for processor in processors):
        return "x86_64" if all(" lm " in f" {one.get('flags', '')} " for one in processors) else "x86"
    if any(processor.get("CPU architecture") == "8" for processor in processors):
        return "aarch64"
    return None


def _processors(text: str | None) -> list[dict[str, str]]:
    """Return one mapping for each logical processor of /proc/cpuinfo."""
    found: list[dict[str, str]] = []
    for line in (text or "").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            continue
        if key.strip() == "processor":
            found.append({})
        if found:
            found[-1][key.strip()] = value.strip()
    return found


def _isa(processors: list[dict[str, str]]) -> frozenset[str] | None:
    """Return the features that every processor has: a thread may run on any of them."""
    listed = [one.get("flags", one.get("Features")) for one in processors]
    known = [frozenset(words.split()) & _WATCHED for words in listed if words is not None]
    return frozenset.intersection(*known) if known else None


def _cpu_model(processors: list[dict[str, str]]) -> str | None:
    names = {name for name in map(_core_name, processors) if name}
    return " + ".join(sorted(names)) or None


def _core_name(processor: dict[str, str]) -> str | None:
    if "model name" in processor:
        return " ".join(processor["model name"].split())
    implementer, part = _hex(processor.get("CPU implementer")), _hex(processor.get("CPU part"))
    if implementer is None or part is None:
        return None
    if implementer == _ARM_LIMITED and part in _ARM_CORES:
        return _ARM_CORES[part]
    return f"ARM implementer 0x{implementer:02x} part 0x{part:03x}"


def _hex(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _memory(text: str | None) -> dict[str, int]:
    """Return MiB by name, of /proc/meminfo, whose "kB" are KiB."""
    found = re.findall(r"^(\w+):\s+(\d+) kB$", text or "", flags=re.MULTILINE)
    return {name: int(kib) // _KIB_PER_MIB for name, kib in found}


class _Group(NamedTuple):
    """One control group with a limit on memory, in bytes; ``left`` is None where it does not tell what is used."""

    limit: int
    left: int | None


class _Names(NamedTuple):
    """What the two versions of control groups call the same things; ``cache`` is what the kernel gives up at need."""

    limit: str
    used: str
    cache: tuple[str, ...]


# tmpfs is counted as "file" or "cache" there but cannot be given up; the lists of inactive and active pages leave it out.
_V1: Final = _Names(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
)  # fmt: skip
_V2: Final = _Names("memory.max", "memory.current", ("inactive_file", "active_file", "slab_reclaimable"))


def _groups(root: Path) -> list[_Group]:
    """Every control group around this process that limits its memory."""
    groups = []
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, controllers, path = (*line.split(":", 2), "", "")[:3]
        if hierarchy == "0":
            groups += _limiting(root / "sys/fs/cgroup", path, _V2)
        elif "memory" in controllers.split(","):
            groups += _limiting(root / "sys/fs/cgroup/memory", path, _V1)
    return groups


def _limiting(top: Path, path: str, names: _Names) -> list[_Group]:
    # In a container the path is often the host's and not there; the group's own files then lie at the top.
    folders = [top]
    for part in path.strip("/").split("/"):
        if part in ("", "..", "."):
            break
        folders.append(folders[-1] / part)
    limits = ((folder, _number(_line(folder / names.limit))) for folder in folders)
    return [
        _Group(limit, _left(folder, limit, names))
        for folder, limit in limits
        if limit is not None and limit < _NO_LIMIT_BYTES
    ]


def _left(folder: Path, limit: int, names: _Names) -> int | None:
    used = _number(_line(folder / names.used))
    if used is None:
        return None
    numbers = dict(line.split(" ", 1) for line in (_text(folder / "memory.stat") or "").splitlines() if " " in line)
    cache = sum(_number(numbers.get(name)) or 0 for name in names.cache)
    return max(0, limit - max(0, used - cache))


def _least_left(groups: list[_Group]) -> int | None:
    return min((one.left // _MIB for one in groups if one.left is not None), default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _firmware(root: Path) -> str | None:
    tegra = _line(root / "etc/nv_tegra_release")
    if tegra:
        return tegra.lstrip("# ")
    parts = [_line(root / "sys/class/dmi/id" / name) for name in ("bios_vendor", "bios_version", "bios_date")]
    return " ".join(part for part in parts if part) or None


def clock_synchronised(root: Path = Path("/"), *, here: bool = True) -> bool | None:
    """Whether a time service keeps the clock; None where the system does not tell. It may change while we run."""
    if (root / "run/systemd/timesync/synchronized").exists():
        return True
    return _kernel_clock() if here else None


def _kernel_clock() -> bool | None:
    """Read the kernel's own flag, which every time daemon keeps: reading it needs no right."""
    try:
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError, TypeError):  # no such call: not Linux
        return None
    return None if state < 0 else state != _TIME_ERROR


def _glibc() -> str | None:
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):  # not glibc
        return None
    return name.split()[-1] if name else None


def _line(path: Path) -> str | None:
    """Read the first line of a file without the NUL a device tree ends its texts with; None where there is nothing."""
    text = (_text(path) or "").replace("\0", "").strip()
    return text.splitlines()[0].strip() if text else None


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_READ_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
