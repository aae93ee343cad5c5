"""Boots a built bundle on this machine, the way a device will, before anybody gets it; it has no checks of its own."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from edge_runtime import __version__
from edge_runtime.bundle.write import write_directory
from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.run.boot import Setting, boot


def boot_failures(files: Mapping[str, bytes], variant: str | None = None) -> tuple[str, ...]:
    """A line for each required check that the bundle of these files fails at boot; none where it may serve.

    How long a call takes is left to the devices: the budget is theirs, and may be one that only their provider meets.

    ``variant`` is the one a device's profile would name; without, the first that fits.

    Raises:
        ConfigurationError: no shipped device profile fits this machine.

    """
    with written(files) as folder:
        return failures_of(folder, variant)


@contextmanager
def written(files: Mapping[str, bytes]) -> Iterator[Path]:
    """A folder that is the bundle of these files, for so long."""
    with tempfile.TemporaryDirectory(prefix="edge-runtime-build-") as name:
        folder = Path(name) / "bundle"
        write_directory(files, folder)
        yield folder


def failures_of(folder: Path, variant: str | None = None) -> tuple[str, ...]:
    """``boot_failures`` of a bundle that is written."""
    machine = probe()
    profile = load_profile(None, machine, [data_folder("device_profiles")])
    setting = Setting(machine, profile.model_copy(update={"variant": variant}), __version__)
    booted = boot(folder, setting)
    return tuple(
        f"boot{f' of {variant}' if variant else ''}, {check.id}: {check.measured}; expected {check.limit}; {check.hint}"
        for check in booted.report.failures(frozenset({"required"}))
        if check.id != "latency"
    )
