"""What the numbers of a device may depend on, in named parts, and what of it changed; it decides nothing."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from edge_runtime.device.probe import Machine

_COMBINED: Final = "combined"
_DIGESTS: Final = ("bundle", "configuration")
_UNKNOWN: Final = "unknown"
_SHOWN_DIGITS: Final = 12


def fingerprint(
    machine: Machine,
    *,
    runtime_version: str,
    ort_version: str,
    provider: str,
    bundle_digest: str,
    config_digest: str,
) -> dict[str, str]:
    """Return name -> text of every part, and under ``combined`` the SHA-256 over all of them (64 hex digits).

    Two equal fingerprints mean: no part that could change an answer differs.
    """
    parts = {
        "architecture": machine.architecture or _UNKNOWN,
        "processor": machine.cpu_model or _UNKNOWN,
        "features": _UNKNOWN if machine.isa is None else " ".join(sorted(machine.isa)),
        "board": machine.device_tree_model or _UNKNOWN,
        "firmware": machine.firmware or _UNKNOWN,
        "kernel": machine.kernel or _UNKNOWN,
        "glibc": machine.glibc or _UNKNOWN,
        "edge-runtime": runtime_version,
        "onnxruntime": ort_version,
        "provider": provider,
        "bundle": bundle_digest,
        "configuration": config_digest,
    }
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()
    return parts | {_COMBINED: hashlib.sha256(canonical).hexdigest()}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Tell what differs, part by part in words, as ``kernel 6.1.0 -> 6.1.2``; a part only one side has counts too."""
    names = [*after, *(name for name in before if name not in after)]
    return [
        _sentence(name, before.get(name), after.get(name))
        for name in names
        if name != _COMBINED and before.get(name) != after.get(name)
    ]


def _sentence(name: str, before: str | None, after: str | None) -> str:
    if name == "features" and before not in (None, _UNKNOWN) and after not in (None, _UNKNOWN):
        old, new = set((before or "").split()), set((after or "").split())
        words = [f"lost {one}" for one in sorted(old - new)] + [f"gained {one}" for one in sorted(new - old)]
        return f"features {', '.join(words)}"
    return f"{name} {_shown(name, before)} -> {_shown(name, after)}"


def _shown(name: str, text: str | None) -> str:
    if text is None:
        return "not recorded"
    return text[:_SHOWN_DIGITS] if name in _DIGESTS else text
