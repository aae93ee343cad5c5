"""Reads device.toml once, whole, and says each mistake in one line; it opens no port and no bundle."""

import hashlib
import json
import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.device.profiles import is_file_name
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.toml_text import MAX_TOML_BYTES, parse_toml, validate

if TYPE_CHECKING:
    from edge_runtime.spec.device_config import DeviceConfig

_TODO: Final = "see docs/device_toml.md"
_SYSTEM_STATE: Final = Path("/var/lib/edge-runtime")
_RUN: Final = Path("/run")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A device file as it was read: relative paths begin in ``folder``; ``digest`` is the SHA-256 of its bytes."""

    config: "DeviceConfig"
    path: Path
    folder: Path
    digest: str

    @property
    def profile(self) -> str | None:
        """The profile's name, or its file's absolute path, or None where the machine decides."""
        name = self.config.profile
        return str(self.folder / name) if name is not None and is_file_name(name) else name

    def resolve(self, path: str | Path) -> Path:
        """Return a path of the file as an absolute one."""
        return self.folder / path


def load_config(path: Path) -> LoadedConfig:
    """Read and check a device file.

    Raises ConfigurationError in one line for everything that can be wrong with it: absent, too large, no TOML (with the
    line), an unknown key (with the nearest), a wrong type or kind, a missing key, two lines of one name, two sinks
    on one file.
    """
    from edge_runtime.spec.device_config import DeviceConfig  # noqa: PLC0415 -- its models, and a bundle alone needs none
    from edge_runtime.spec.variables import fill  # noqa: PLC0415 -- the same

    data = _read(path)
    config = validate(DeviceConfig, fill(parse_toml(data, str(path)), str(path)), str(path), _TODO)
    loaded = LoadedConfig(config, path, path.absolute().parent, hashlib.sha256(data).hexdigest())
    _refuse_shared_files(loaded)
    return loaded


def state_folder(
    loaded: LoadedConfig,
    environment: Mapping[str, str] = os.environ,
    system: Path = _SYSTEM_STATE,
) -> Path:
    """Choose the folder of journals and dead letters; it need not be there yet.

    ``state_dir`` of the file, else $STATE_DIRECTORY (systemd's), else ``system`` where this user may write there, else
    edge-runtime in $XDG_STATE_HOME or ~/.local/state. Raises ConfigurationError for one inside a bundle: a bundle holds
    exactly the files it lists.
    """
    folder = _chosen_state(loaded, environment, system)
    for line in loaded.config.line:
        bundle = loaded.resolve(line.bundle)
        if folder.resolve().is_relative_to(bundle.resolve()):
            raise ConfigurationError(
                subject=f"{loaded.path}, state_dir",
                found=f"{folder}, inside the bundle of line {line.name}",
                expected="a folder outside every bundle",
                todo="name another folder with state_dir",
            )
    return folder


def status_folders(state: Path, environment: Mapping[str, str] = os.environ, system: Path = _RUN) -> list[Path]:
    """Where the status of the process with this state folder may stand, the best place first.

    It is written every second, so it belongs in memory, not on flash: systemd's $RUNTIME_DIRECTORY, else a folder of
    /run, else the user's own of it, else the state folder.
    """
    key = hashlib.sha256(os.fsencode(state.resolve())).hexdigest()[:12]
    given = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    own = environment.get("XDG_RUNTIME_DIR", "")
    places = [Path(given)] if given else []
    places.append(system / "edge-runtime")
    if own:
        places.append(Path(own) / "edge-runtime")
    return [*(place / key for place in places), state]


def main(args: Namespace) -> int:
    """Print the configuration of ``args.config`` with every default, as JSON."""
    loaded = load_config(Path(args.config))
    resolved = {
        "file": str(loaded.path),
        "digest": loaded.digest,
        "state_dir": str(state_folder(loaded)),
        "bundles": {line.name: str(loaded.resolve(line.bundle)) for line in loaded.config.line},
        "config": loaded.config.model_dump(mode="json", by_alias=True),
    }
    print(json.dumps(resolved, indent=2, ensure_ascii=False))  # noqa: T201 -- the command's output
    return 0


def _refuse_shared_files(loaded: LoadedConfig) -> None:
    """Refuse two sinks on one file: the lock would stop the second only once the first line serves."""
    owners: dict[str, str] = {}
    for line in loaded.config.line:
        for sink in line.sink:
            if sink.kind != "jsonl":
                continue
            file = os.path.realpath(loaded.resolve(sink.path))
            owner = f"sink {sink.full_name!r} of line {line.name}"
            if file in owners:
                raise ConfigurationError(
                    subject=f"{loaded.path}, line {line.name}, sink",
                    found=f"{file}, written by {owners[file]} and by {owner}",
                    expected="one sink to one file",
                    todo="give each a path of its own",
                )
            owners[file] = owner


def _chosen_state(loaded: LoadedConfig, environment: Mapping[str, str], system: Path) -> Path:
    if loaded.config.state_dir is not None:
        return loaded.folder / loaded.config.state_dir
    # systemd gives several folders with colons between them where a unit asks for several.
    given = environment.get("STATE_DIRECTORY", "").split(":")[0]
    if given:
        return Path(given)
    if os.access(system if system.exists() else system.parent, os.W_OK):
        return system
    if environment.get("XDG_STATE_HOME"):
        return Path(environment["XDG_STATE_HOME"]) / "edge-runtime"
    try:
        return Path.home() / ".local" / "state" / "edge-runtime"
    except RuntimeError as error:
        raise ConfigurationError(
            subject=f"{loaded.path}, state_dir",
            found="none, and this user has no home folder",
            expected="a folder for journals and dead letters",
            todo="name one with state_dir",
        ) from error


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TOML_BYTES + 1)
    except OSError as error:
        todo = f"correct the path, or write one: {_TODO}" if isinstance(error, FileNotFoundError) else _TODO
        raise ConfigurationError(
            subject=f"device file {path}",
            found=error.strerror or str(error),
            expected="a readable TOML file",
            todo=todo,
        ) from error
