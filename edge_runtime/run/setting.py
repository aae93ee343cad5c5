"""What a boot runs against, gathered: this machine, its profile, the lines bound to a bundle, the device's memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime import __version__
from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import Setting
from edge_runtime.run.config import LoadedConfig, state_folder
from edge_runtime.run.whole_file import write_whole
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.report import Report

MEMORY_NAME: Final = "boot.json"
_SCHEMA: Final = "edge-runtime/boot/1"
_MAX_MEMORY_BYTES: Final = 1024 * 1024


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


def make_line_setting(loaded: LoadedConfig, bundle: Path, profile: str | None = None) -> Setting:
    """The setting of a boot of ``bundle`` under a device file, with every line that names it and what the state says.

    ``profile`` goes before the file's own.

    Raises:
        ConfigurationError: the profile, the state folder, or a memory in it that cannot be read.
        DeviceError: the program's own files are missing.

    """
    machine = probe()
    found = load_profile(profile or _profile_of(loaded), machine, [data_folder("device_profiles")])
    memory = _read_memory(state_folder(loaded) / MEMORY_NAME)
    return Setting(
        machine, found, __version__,
        bindings={line.name: line.channels for line in lines_of(loaded, bundle)},
        config_digest=loaded.digest,
        floors=memory.floors,
        last_passes=memory.last_passes,
    )  # fmt: skip


def lines_of(loaded: LoadedConfig, bundle: Path) -> list[LineConfig]:
    """The lines of a device file that name this bundle, however they spell its path."""
    return [line for line in loaded.config.line if loaded.resolve(line.bundle).resolve() == bundle.resolve()]


def remember_pass(folder: Path, report: Report) -> None:
    """Keep the environment of a boot that passed, for ``changed_since_last_pass``; what is known is not written again.

    The folder is not created: whoever serves does that, under the user that serves.

    Raises:
        ConfigurationError: the memory that stands there cannot be read.
        DeviceError: the disk refuses.

    """
    if report.state != "OPERATIONAL" or not folder.is_dir():
        return
    path = folder / MEMORY_NAME
    memory = _read_memory(path)
    passes = {**memory.last_passes, report.bundle["id"]: report.environment}
    if passes != memory.last_passes:
        kept = memory.model_copy(update={"last_passes": passes})
        write_whole(path, kept.model_dump_json(by_alias=True, indent=2) + "\n")


class _Memory(BaseModel):
    """``boot.json``: what a device knows of bundles across restarts, each by bundle id."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_: Literal["edge-runtime/boot/1"] = Field(alias="schema", default=_SCHEMA)
    floors: dict[str, int] = Field(default={}, description="the least security_version this device still takes")
    last_passes: dict[str, dict[str, str]] = Field(default={}, description="the environment of the last pass")


def _read_memory(path: Path) -> _Memory:
    try:
        with path.open("rb") as stream:
            return _Memory.model_validate_json(stream.read(_MAX_MEMORY_BYTES))
    except FileNotFoundError:
        return _Memory()
    except (OSError, ValidationError) as error:
        found = error.strerror if isinstance(error, OSError) else "content that this release did not write"
        # Its floors forbid older bundles: going on without them would be the roll-back they are there to stop.
        raise ConfigurationError(
            subject=f"memory of boots {path}", found=found or "an error of the disk",
            expected="the file as it was written",
            todo="restore it, or remove it and with it the device's floors against older bundles",
        ) from error  # fmt: skip


def _profile_of(loaded: LoadedConfig) -> str | None:
    """The device file's own profile; a path in it begins at the file's folder."""
    name = loaded.config.profile
    if name is not None and (name.endswith(".toml") or "/" in name):
        return str(loaded.resolve(name))
    return name
