"""What `doctor` says of providers and of a Jetson's release: what ran now and what did not; it proves no bundle."""

import re

import numpy as np

from edge_runtime.device.probe import Machine
from edge_runtime.engine import session as engine
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.run.checks import opener
from edge_runtime.run.findings import Finding
from edge_runtime.spec.device_profile import DeviceProfile, ProviderChoice

# Jetson Linux 36 is JetPack 6, 38 the first of JetPack 7.
_TEGRA = re.compile(r"R(\d+) \(release\)")
_LAST_OF_JETPACK_6 = 36


def provider(choice: ProviderChoice, profile: DeviceProfile) -> Finding:
    """Have a provider run a model of one node now: being compiled in says nothing, a right answer does.

    It runs where the profile has sessions run: a driver that is kept apart for its crashes must not end this command.
    """
    name, subject = choice.name, f"provider {choice.name}"
    feed = np.array([1.5, -2.0], np.float32)
    try:
        session = opener(profile)(
            engine.IDENTITY_MODEL, provider=name, provider_options=choice.options, library=choice.library,
            device=choice.device, threads=profile.intra_threads,
        )  # fmt: skip
        answer = session({"x": feed})["y"]
    except EdgeRuntimeError as error:
        if error.found.startswith("not in this onnxruntime"):
            return Finding(subject, "fail", f"{error.found}; not tried", error.todo)
        return Finding(subject, "fail", f"refused when tried: {error.subject}: found {error.found}", error.todo)
    if session.placement[name] < 1 or not np.array_equal(answer, feed):
        text = f"does not work: ran elsewhere or wrongly when tried ({dict(session.placement)})"
        return Finding(subject, "fail", text, "correct the device profile, or install the onnxruntime it names")
    return Finding(subject, "ok", "works: ran a model of one node now, with the right answer")


def jetpack(machine: Machine) -> list[Finding]:
    """Tell a Jetson whose release has no onnxruntime for its GPU that runs here; nothing on any other machine."""
    release = _TEGRA.match(machine.firmware or "")
    if release is None:
        return []
    number = int(release.group(1))
    if number > _LAST_OF_JETPACK_6:
        return [Finding("jetpack", "ok", f"Jetson Linux {number}: JetPack 7 or later")]
    text = (
        f"Jetson Linux {number}: JetPack 6 or earlier is not supported: its Python is 3.10 or older, and so is every "
        "onnxruntime for its GPU; this program needs 3.11"
    )
    return [Finding("jetpack", "fail", text, "update the Jetson to JetPack 7, or name the profile generic_arm64 (CPU)")]
