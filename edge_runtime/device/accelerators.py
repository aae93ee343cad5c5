"""Which GPUs and NPUs the kernel shows under a root, and by which drivers; it opens no device and loads no library.

What is absent gives None: a machine without an accelerator, a container that is shown none.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

# Cards alone: connectors (card0-DP-1) and render nodes (renderD128) are of a device that has its card.
_NODES: Final = (("sys/class/drm", re.compile(r"card\d+")), ("sys/class/accel", re.compile(r"accel\d+")))
_MAX_DEVICES: Final = 64
_MAX_READ_BYTES: Final = 64 * 1024
_MAX_TEXT: Final = 200
_VERSION: Final = re.compile(r"\b\d+\.\d+(?:\.\d+)?\b")
_MODEL: Final = re.compile(r"^Model:\s*(\S.*)$", re.MULTILINE)


class Accelerators(NamedTuple):
    """All of them in one text each, in an order that does not depend on how the kernel has numbered them."""

    driver: str | None
    device: str | None


def accelerators(root: Path) -> Accelerators:
    """Read what the kernel's files under ``root`` say, as ``nvidia 570.86.10`` and ``10de:2504, NVIDIA RTX A2000``."""
    drivers: set[str] = set()
    devices: Counter[str] = Counter()
    for folder in _folders(root):
        about = _about(folder)
        driver = _link(folder / "driver") or about.get("DRIVER")
        if driver:
            drivers.add(driver)
        device = _ids(folder) or about.get("OF_COMPATIBLE_0") or about.get("MODALIAS")
        if device:
            devices[device] += 1
    nvidia = _nvidia_version(root)
    if nvidia:
        drivers.add("nvidia")
    devices.update(_nvidia_models(root))
    told = [f"{name} {version}" if (version := _version(root, name, nvidia)) else name for name in sorted(drivers)]
    counted = [f"{count} x {name}" if count > 1 else name for name, count in sorted(devices.items())]
    return Accelerators(", ".join(told) or None, ", ".join(counted) or None)


def _folders(root: Path) -> Iterator[Path]:
    for name, pattern in _NODES:
        try:
            found = sorted(one for one in (root / name).iterdir() if pattern.fullmatch(one.name))
        except OSError:
            continue
        for one in found[:_MAX_DEVICES]:
            yield one / "device"


def _ids(folder: Path) -> str | None:
    """PCI's vendor and device, as ``8086:9a49``; a device of the board itself has none."""
    vendor, device = _text(folder / "vendor").strip(), _text(folder / "device").strip()
    return f"{vendor.removeprefix('0x')}:{device.removeprefix('0x')}" if vendor and device else None


def _about(folder: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in _text(folder / "uevent").splitlines())
    return {key: value.strip()[:_MAX_TEXT] for key, _, value in pairs if value.strip()}


def _link(path: Path) -> str | None:
    try:
        return path.readlink().name or None
    except OSError:
        return None


def _version(root: Path, driver: str, nvidia: str | None) -> str | None:
    """A driver outside the kernel's own tree has a version; one of it changes with the kernel, which is a part itself."""
    if driver == "nvidia":
        return nvidia
    return _line(_text(root / "sys/module" / driver / "version"))


def _nvidia_version(root: Path) -> str | None:
    module = _line(_text(root / "sys/module/nvidia/version"))
    if module:
        return module
    found = _VERSION.search(_line(_text(root / "proc/driver/nvidia/version")) or "")
    return found.group() if found else None


def _nvidia_models(root: Path) -> list[str]:
    """The card's name: without a display driver of the kernel's it has no entry under drm."""
    try:
        folders = sorted((root / "proc/driver/nvidia/gpus").iterdir())[:_MAX_DEVICES]
    except OSError:
        return []
    texts = (_text(one / "information") for one in folders)
    return [" ".join(found.group(1).split())[:_MAX_TEXT] for text in texts if (found := _MODEL.search(text))]


def _line(text: str) -> str | None:
    words = text.replace("\0", "").strip().splitlines()
    return " ".join(words[0].split())[:_MAX_TEXT] if words else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_READ_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
