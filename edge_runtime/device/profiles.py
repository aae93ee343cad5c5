"""Finds and reads the device profile, by name, by file or by what the machine is; it checks no provider."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from edge_runtime.device.probe import Machine
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.device_profile import DeviceProfile
from edge_runtime.spec.toml_text import MAX_TOML_BYTES, parse_toml, validate

_TODO: Final = "see docs/device_profiles.md"
_SUFFIX: Final = ".toml"


class _Resolved(NamedTuple):
    """A profile whose parents are in it, and how many they were."""

    profile: DeviceProfile
    parents: int


def load_profile(name_or_path: str | None, machine: Machine, folders: Sequence[Path]) -> DeviceProfile:
    """Return the profile with that name in ``folders`` (the first that has it), or in that file, or the one that fits.

    With None the most specific profile that fits ``machine`` is taken: the longest matching part of the device-tree
    model, then the most CPU features asked for, then the fewest parents, so that a profile which only inherits and adds
    no condition is taken by name alone. ``inherits`` is resolved: a key of the profile replaces its parent's.

    Raises ConfigurationError for a name or file that is not there, a profile that is wrong or inherits from itself,
    and where none or several equally specific ones fit.
    """
    if name_or_path is None:
        return _best(machine, folders)
    if is_file_name(name_or_path):
        path = Path(name_or_path)
        return _resolve(path, (path.parent, *folders)).profile
    return _resolve(_find(name_or_path, folders, f"profile {name_or_path!r}"), folders).profile


def is_file_name(name_or_path: str) -> bool:
    """Tell whether a profile is meant by its file, not by its name."""
    return name_or_path.endswith(_SUFFIX) or "/" in name_or_path or "\\" in name_or_path


def fits(profile: DeviceProfile, machine: Machine) -> bool:
    """Tell whether ``machine`` has the architecture, the features and, where asked for, the board of ``profile``."""
    return (
        machine.architecture in profile.architectures
        and set(profile.isa) <= (machine.isa or frozenset())
        and (not profile.match or _matched_length(profile, machine) > 0)
    )


def _best(machine: Machine, folders: Sequence[Path]) -> DeviceProfile:
    candidates = [_resolve(path, folders) for path in _known(folders).values()]
    fitting = [one for one in candidates if fits(one.profile, machine)]
    if not fitting:
        names = ", ".join(one.profile.name for one in candidates) or "no profile at all"
        raise ConfigurationError(
            subject="device profile",
            found=f"none that fits this machine ({machine.architecture or 'unknown architecture'}, {names})",
            expected="one for its architecture and features",
            todo="name one with `profile` in device.toml, or write one: see docs/device_profiles.md",
        )
    top = max(_rank(one, machine) for one in fitting)
    best = [one.profile for one in fitting if _rank(one, machine) == top]
    if len(best) > 1:
        raise ConfigurationError(
            subject="device profile",
            found=f"{len(best)} that fit equally well: {', '.join(one.name for one in best)}",
            expected="one",
            todo="name it with `profile` in device.toml",
        )
    return best[0]


def _rank(one: _Resolved, machine: Machine) -> tuple[int, int, int]:
    return _matched_length(one.profile, machine), len(one.profile.isa), -one.parents


def _matched_length(profile: DeviceProfile, machine: Machine) -> int:
    model = machine.device_tree_model or ""
    return max((len(part) for part in profile.match if part in model), default=0)


def _resolve(path: Path, folders: Sequence[Path]) -> _Resolved:
    chain = [path.stem]
    merged = _read(path)
    parent = merged.get("inherits")
    while isinstance(parent, str):
        if parent in chain:
            raise ConfigurationError(
                subject=f"{path}, inherits",
                found=" -> ".join([*chain, parent]),
                expected="a chain of profiles that ends",
                todo="remove `inherits` from one of them",
            )
        chain.append(parent)
        older = _read(_find(parent, folders, f"{path}, inherits"))
        merged = older | merged
        parent = older.get("inherits")
    profile = validate(DeviceProfile, merged, str(path), _TODO)
    if profile.name != path.stem:
        raise ConfigurationError(
            subject=f"{path}, name", found=repr(profile.name), expected=repr(path.stem), todo="name it as its file"
        )
    return _Resolved(profile, len(chain) - 1)


def _find(name: str, folders: Sequence[Path], subject: str) -> Path:
    known = _known(folders)
    if name in known:
        return known[name]
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    near = get_close_matches(name, known, n=1, cutoff=0.5)
    raise ConfigurationError(
        subject=subject,
        found=f"no profile {name!r}",
        expected=f"{near[0]!r} perhaps" if near else f"one of {', '.join(known) or 'none: no profile is installed'}",
        todo=_TODO,
    )


def _known(folders: Sequence[Path]) -> dict[str, Path]:
    """Return name -> file, sorted by name; an earlier folder's file hides a later one's."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in folder.glob(f"*{_SUFFIX}"):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TOML_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            subject=f"profile {path}",
            found=error.strerror or str(error),
            expected="a readable TOML file",
            todo="correct the path, or name a profile that comes with the program",
        ) from error
    return parse_toml(data, str(path))
