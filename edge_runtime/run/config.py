"""Reads device.toml once, whole, and says each mistake in one line; it opens no port and no bundle."""

import hashlib
import json
import os
import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from edge_runtime.device.profiles import is_file_name
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.toml_text import MAX_TOML_BYTES, parse_toml, validate

if TYPE_CHECKING:
    from edge_runtime.spec.device_config import DeviceConfig, LineConfig
    from edge_runtime.spec.drop_in import Origins

_TODO: Final = "see docs/device_toml.md"
MAX_DROP_INS: Final = 64
_KEYS: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_SYSTEM_STATE: Final = Path("/var/lib/edge-runtime")
_RUN: Final = Path("/run")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A device file as it was read: relative paths begin in ``folder``; ``digest`` is the SHA-256 of its bytes.

    ``drop_ins`` are the files that were laid over it, whose bytes then count in the digest too.
    """

    config: "DeviceConfig"
    path: Path
    folder: Path
    digest: str
    drop_ins: tuple[str, ...] = ()

    @property
    def profile(self) -> str | None:
        """The profile's name, or its file's absolute path, or None where the machine decides."""
        name = self.config.profile
        return str(self.folder / name) if name is not None and is_file_name(name) else name

    def resolve(self, path: str | Path) -> Path:
        """Return a path of the file as an absolute one."""
        return self.folder / path

    def bundle(self, line: "LineConfig") -> Path:
        """Where a line's bundle is: the path that it names, or the active one of the store.

        Raises:
            ConfigurationError: the store cannot be read.
            TemporaryError: nothing of that id is active yet.

        """
        if line.slot is None:
            return self.resolve(line.bundle)
        from edge_runtime.run.store import active_path  # noqa: PLC0415 -- for those who have one

        return active_path(self, line.slot)

    def bundle_place(self, line: "LineConfig") -> Path | None:
        """The path that a line names; None for a bundle of the store, which lies where others come to lie."""
        return self.resolve(line.bundle) if line.slot is None else None


def load_config(path: Path) -> LoadedConfig:
    """Read and check a device file, with what ``PATH.d/*.toml`` lays over it, in the order of their names.

    Raises ConfigurationError in one line for everything that can be wrong with them: absent, too large, no TOML (with the
    line), an unknown key (with the nearest), a wrong type or kind, a missing key, a variable that is not there, two lines
    of one name, two sinks on one file.
    """
    return _checked(path, _written(path))


class _Written(NamedTuple):
    """What the files say together, with their variables filled in; ``names`` are those beside the device file."""

    raw: dict[str, Any]
    origins: "Origins"
    names: tuple[str, ...]
    digest: str


def _written(path: Path) -> _Written:
    from edge_runtime.spec.drop_in import merged  # noqa: PLC0415 -- a bundle alone needs none
    from edge_runtime.spec.variables import fill  # noqa: PLC0415 -- the same

    files = [path, *_drop_ins(path)]
    contents = [_read(file) for file in files]
    digest = hashlib.sha256(contents[0])
    for file, data in zip(files[1:], contents[1:], strict=True):
        digest.update(b"\0%b\0%d\0%b" % (os.fsencode(file.name), len(data), data))
    names = [path.name, *(f"{path.name}.d/{file.name}" for file in files[1:])]
    told = [str(path), *(str(file) for file in files[1:])]
    raws = [parse_toml(data, name) for name, data in zip(told, contents, strict=True)]
    raw, origins = merged(zip(names, raws, strict=True))
    label = str(path) if len(files) == 1 else f"{path} with {path.name}.d"
    return _Written(fill(raw, label), origins, tuple(names[1:]), digest.hexdigest())


def _drop_ins(path: Path) -> list[Path]:
    if not path.name:  # "." and "/", which are read as what they are: no file
        return []
    folder = path.with_name(f"{path.name}.d")
    try:
        found = sorted(one for one in folder.iterdir() if one.suffix == ".toml" and not one.name.startswith("."))
        pipes = [one for one in found if one.is_fifo()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(
            subject=f"{folder}", found=error.strerror or str(error), expected="a folder of TOML files, or nothing",
            todo=_TODO,
        ) from error  # fmt: skip
    if pipes:  # reading it would wait for ever
        raise ConfigurationError(
            subject=f"device file {pipes[0]}", found="a pipe", expected="a readable TOML file", todo=_TODO
        )
    if len(found) > MAX_DROP_INS:
        raise ConfigurationError(
            subject=f"{folder}", found=f"{len(found)} files", expected=f"at most {MAX_DROP_INS}", todo=_TODO
        )
    return found


def _checked(path: Path, written: _Written) -> LoadedConfig:
    from edge_runtime.spec.device_config import DeviceConfig  # noqa: PLC0415 -- its models, and a bundle alone needs none

    try:
        config = validate(DeviceConfig, written.raw, str(path), _TODO)
    except ConfigurationError as error:
        if written.names:
            for one in (error, *error.others):
                one.subject = _place(path, one.subject, written)
        raise
    loaded = LoadedConfig(config, path, path.absolute().parent, written.digest, written.names)
    _refuse_shared_files(loaded)
    return loaded


def _place(path: Path, subject: str, written: _Written) -> str:
    """The same place, named by the file that wrote it."""
    from edge_runtime.spec.drop_in import origin  # noqa: PLC0415 -- the same

    place = subject.removeprefix(f"{path}").removeprefix(", ")
    keys = tuple(int(index) if index else key for key, index in _KEYS.findall(place))
    name = origin(written.origins, keys)
    return f"{path.parent / name if name else path}{', ' if place else ''}{place}"


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
        bundle = loaded.bundle_place(line)
        if bundle is not None and folder.resolve().is_relative_to(bundle.resolve()):
            raise ConfigurationError(
                subject=f"{loaded.path}, state_dir",
                found=f"{folder}, inside the bundle of line {line.name}",
                expected="a folder outside every bundle",
                todo="name another folder with state_dir",
            )
    return folder


def slots_of(loaded: LoadedConfig) -> list[str]:
    """The ids that the lines of a device file take from the store, each once, in their order."""
    return list(dict.fromkeys(line.slot for line in loaded.config.line if line.slot is not None))


def status_folders(state: Path, environment: Mapping[str, str] = os.environ, system: Path = _RUN) -> list[Path]:
    """Where the status of the process with this state folder may stand, the best place first.

    It is written every second, so it belongs in memory, not on flash: systemd's $RUNTIME_DIRECTORY, else a folder of
    /run, else the user's own of it, else the state folder.
    """
    key = hashlib.sha256(os.fsencode(state.resolve())).hexdigest()[:12]
    given = environment.get("RUNTIME_DIRECTORY", "").split(os.pathsep)[0]
    own = environment.get("XDG_RUNTIME_DIR", "")
    places = [Path(given)] if given else []
    if os.name == "posix":  # elsewhere it would be a folder of that name beside the user's own
        places.append(system / "edge-runtime")
    if own:
        places.append(Path(own) / "edge-runtime")
    return [*(place / key for place in places), state]


def main(args: Namespace) -> int:
    """Print the configuration of ``args.config`` with every default, as JSON or, with ``args.resolved``, as TOML.

    As TOML each value has the name of the file that it came from, and each default is a comment. `config check` says in
    one line that it is right in itself. Raises ConfigurationError where it is not.
    """
    path = Path(args.config)
    written = _written(path)
    loaded = _checked(path, written)
    if args.command == "config check":
        return _say_right(loaded)
    from edge_runtime.run.config_text import masked, resolved  # noqa: PLC0415 -- for those who ask

    if args.resolved:
        for line in resolved(written.raw, loaded.config, written.origins):
            print(line)  # noqa: T201 -- the command's output
        return 0
    shown = {
        "file": str(loaded.path),
        "drop_ins": list(loaded.drop_ins),
        "digest": loaded.digest,
        "state_dir": str(state_folder(loaded)),
        "bundles": {line.name: str(loaded.bundle_place(line) or line.bundle) for line in loaded.config.line},
        "config": masked(loaded.config.model_dump(mode="json", by_alias=True)),
    }
    print(json.dumps(shown, indent=2, ensure_ascii=False))  # noqa: T201 -- the command's output
    return 0


def _say_right(loaded: LoadedConfig) -> int:
    state_folder(loaded)
    if loaded.config.broker is not None:
        from edge_runtime.run.broker import refuse_circles  # noqa: PLC0415 -- for those who have a broker

        refuse_circles(loaded, loaded.config.broker)
    over = f" with {', '.join(loaded.drop_ins)}" if loaded.drop_ins else ""
    names = ", ".join(line.name for line in loaded.config.line)
    print(f"{loaded.path}{over}: right, with line {names}; `edge-runtime doctor` looks at what it names")  # noqa: T201
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
    given = environment.get("STATE_DIRECTORY", "").split(os.pathsep)[0]
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
        if (path / "manifest.json").is_file():
            raise ConfigurationError(
                subject=f"device file {path}", found="a bundle", expected="a TOML file that names the bundle",
                todo="write one like the smallest example of docs/device_toml.md",
            ) from error  # fmt: skip
        todo = f"correct the path, or write one: {_TODO}" if isinstance(error, FileNotFoundError) else _TODO
        raise ConfigurationError(
            subject=f"device file {path}",
            found=error.strerror or str(error),
            expected="a readable TOML file",
            todo=todo,
        ) from error
