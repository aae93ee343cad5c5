"""What a boot runs against, gathered: this machine, its profile, a bundle's lines, whom it trusts, what it remembers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edge_runtime import __version__
from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.run.boot import Setting
from edge_runtime.run.config import LoadedConfig, state_folder
from edge_runtime.run.memory import read_memory
from edge_runtime.run.trust import read_trust
from edge_runtime.spec.binding import ChannelBinding

if TYPE_CHECKING:
    from edge_runtime.spec.device_config import LineConfig


def make_setting(
    profile: str | None = None, *, bindings: Mapping[str, Mapping[str, ChannelBinding]] | None = None
) -> Setting:
    """The setting of a boot without a device file: no state, and no lines but the given ``bindings``, by line name.

    Raises:
        ConfigurationError: no device profile of that name, or none that fits this machine.
        DeviceError: the program's own files are missing.

    """
    machine = probe()
    found = load_profile(profile, machine, [data_folder("device_profiles")])
    return Setting(machine, found, __version__, bindings=bindings or {})


def make_line_setting(
    loaded: LoadedConfig,
    bundle: Path,
    profile: str | None = None,
    *,
    lines: "Sequence[LineConfig] | None" = None,
    digest: str | None = None,
    identity: str | None = None,
) -> Setting:
    """The setting of a boot of ``bundle`` under a device file, with every line that names it and what the state says.

    ``profile`` goes before the file's own. ``lines`` are those that it is for, where that is known already; ``digest`` and
    ``identity`` what it has to be, where it stands in the store.

    Raises:
        ConfigurationError: the profile, the trusted keys, the state folder, or a memory in it that cannot be read.
        DeviceError: the program's own files are missing.

    """
    if digest is None and any(line.slot is not None for line in loaded.config.line):
        from edge_runtime.run.store import store_of  # noqa: PLC0415 -- for those who have one

        digest = store_of(loaded).digest_of(bundle)
    machine = probe()
    found = load_profile(profile or _profile_of(loaded), machine, [data_folder("device_profiles")])
    state = state_folder(loaded)
    memory = read_memory(state)
    return Setting(
        machine, found, __version__,
        bindings={line.name: line.channels for line in (lines_of(loaded, bundle) if lines is None else lines)},
        config_digest=loaded.digest,
        trust=read_trust(loaded),
        floors=memory.floors,
        last_passes=memory.last_passes,
        state=state,
        digest=digest,
        identity=identity,
    )  # fmt: skip


def lines_of(loaded: LoadedConfig, bundle: Path) -> "list[LineConfig]":
    """The lines of a device file that name this bundle, however they spell its path, or take its id from the store."""
    if all(line.slot is None for line in loaded.config.line):
        return [line for line in loaded.config.line if loaded.resolve(line.bundle).resolve() == bundle.resolve()]
    from edge_runtime.run.store import lines_for  # noqa: PLC0415 -- for those who have one

    return lines_for(loaded, bundle)


def _profile_of(loaded: LoadedConfig) -> str | None:
    """The device file's own profile; a path in it begins at the file's folder."""
    name = loaded.config.profile
    if name is not None and (name.endswith(".toml") or "/" in name):
        return str(loaded.resolve(name))
    return name
