"""What the numbers of a device may depend on, in named parts, and what of it changed; it decides nothing."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from edge_runtime.device.probe import Machine
from edge_runtime.spec.device_profile import DeviceProfile, ProviderChoice

_COMBINED: Final = "combined"
_DIGESTS: Final = ("bundle", "library", "configuration")
_UNKNOWN: Final = "unknown"
_SHOWN_DIGITS: Final = 12
# What belongs to one provider: where another serves, that is the change, and these say nothing beyond it.
_OF_PROVIDER: Final = frozenset({"options", "library"})
# What device.toml says changes no file of a provider: a topic renamed must not cost an engine that took minutes.
_NOT_IN_A_CACHE: Final = frozenset({"configuration", _COMBINED})


def fingerprint(
    machine: Machine,
    *,
    runtime_version: str,
    ort_version: str,
    choice: ProviderChoice | None,
    profile: DeviceProfile,
    bundle_digest: str,
    config_digest: str,
    library_digest: str = "none",
) -> dict[str, str]:
    """Return name -> text of every part, and under ``combined`` the SHA-256 over all of them (64 hex digits).

    ``choice`` is the provider that serves, or the last that was tried; None: none was. Every other part is the same
    whichever provider of the profile serves: drivers and devices of all accelerators are in it also where the CPU does.
    Two equal fingerprints mean: no part that could change an answer differs.
    """
    parts = {
        **machine_parts(machine),
        "edge-runtime": runtime_version,
        "onnxruntime": ort_version,
        "provider": choice.name if choice is not None else "none",
        "options": _options(choice),
        "library": library_digest,
        "threads": str(profile.intra_threads),
        "variant": profile.variant or "the first that fits",
        "bundle": bundle_digest,
        "configuration": config_digest,
    }
    return parts | {_COMBINED: _sha256(parts)}


def machine_parts(machine: Machine) -> dict[str, str]:
    """The parts that are the machine's own, whatever runs on it."""
    return {
        "architecture": machine.architecture or _UNKNOWN,
        "processor": machine.cpu_model or _UNKNOWN,
        "features": _UNKNOWN if machine.isa is None else " ".join(sorted(machine.isa)),
        "board": machine.device_tree_model or _UNKNOWN,
        "firmware": machine.firmware or _UNKNOWN,
        "kernel": machine.kernel or _UNKNOWN,
        "driver": machine.driver or _UNKNOWN,
        "device": machine.device or _UNKNOWN,
        "glibc": machine.glibc or _UNKNOWN,
    }


def cache_key(parts: Mapping[str, str]) -> str:
    """The SHA-256 (64 hex digits) over those parts that a file which a provider keeps may depend on."""
    return _sha256({name: text for name, text in parts.items() if name not in _NOT_IN_A_CACHE})


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Tell what differs, part by part in words, as ``kernel 6.1.0 -> 6.1.2``; a part only one side has counts too."""
    left_out = {_COMBINED}
    if before.get("provider") != after.get("provider"):
        left_out |= _OF_PROVIDER
    names = [*after, *(name for name in before if name not in after)]
    return [
        _sentence(name, before.get(name), after.get(name))
        for name in names
        if name not in left_out and before.get(name) != after.get(name)
    ]


def _options(choice: ProviderChoice | None) -> str:
    """What the session is told beside the provider's name; a text, so that a change of it can be read."""
    if choice is None:
        return "none"
    told = [f"{key}={text}" for key, text in sorted(choice.options.items())]
    if choice.device is not None:
        told.append(f"device={choice.device}")
    if choice.allowed_elsewhere:
        told.append(f"allowed_elsewhere={choice.allowed_elsewhere:g}")
    return " ".join(told) or "none"


def _sha256(parts: Mapping[str, str]) -> str:
    canonical = json.dumps(dict(parts), sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(canonical).hexdigest()


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
