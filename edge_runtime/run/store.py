"""The store of a device file: where it is, and which of its bundles a line serves; it changes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.store import Store
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import BundleError, EdgeRuntimeError, TemporaryError
from edge_runtime.run.config import LoadedConfig, state_folder
from edge_runtime.run.memory import read_memory
from edge_runtime.spec.manifest import Manifest, parse

if TYPE_CHECKING:
    from edge_runtime.spec.device_config import LineConfig

_FOLDER: Final = "store"


def store_folder(loaded: LoadedConfig) -> Path:
    """``store.folder`` of the file, else ``store`` in the state folder; it need not be there yet."""
    given = loaded.config.store.folder
    return state_folder(loaded) / _FOLDER if given is None else loaded.resolve(given)


def store_of(loaded: LoadedConfig) -> Store:
    """The store of a device file."""
    return Store(store_folder(loaded))


def active_path(loaded: LoadedConfig, slot: str) -> Path:
    """Where the bundle stands that is active under this id.

    Raises:
        ConfigurationError: the store cannot be read.
        TemporaryError: none is.

    """
    store = store_of(loaded)
    found = store.state().bundles.get(slot)
    if found is None:
        raise TemporaryError(
            subject=f"bundle store:{slot}", found=f"none of that id active in {store.folder}", expected="one",
            todo="run `edge-runtime bundle stage` and `bundle activate`, then start it again",
        )  # fmt: skip
    return store.path(found.active)


def lines_for(loaded: LoadedConfig, bundle: Path) -> "list[LineConfig]":
    """The lines of a device file that this bundle is for: those that name it, and those that take its id from the store."""
    lines = [line for line in loaded.config.line if line.slot is None]
    found = [line.name for line in lines if loaded.resolve(line.bundle).resolve() == bundle.resolve()]
    if len(lines) < len(loaded.config.line):
        identity = id_of(bundle)
        found += [line.name for line in loaded.config.line if line.slot is not None and line.slot == identity]
    return [line for line in loaded.config.line if line.name in found]


def id_of(bundle: Path) -> str | None:
    """The id that a bundle states of itself; None where it cannot be read, which its boot will say."""
    try:
        return manifest_at(bundle).id
    except EdgeRuntimeError:
        return None


def manifest_at(bundle: Path) -> Manifest:
    """The manifest of a bundle that is whole; raises BundleError."""
    return parse(verify(read_files(bundle), str(bundle)).files.get("manifest.json", b""))


def require_above_floor(manifest: Manifest, state: Path) -> None:
    """Refuse what the next boot would refuse, before a pointer names it.

    Raises:
        BundleError: its security_version is below what this device has confirmed.
        ConfigurationError: the memory of the state folder cannot be read.

    """
    floor = read_memory(state).floors.get(manifest.id, 0)
    if manifest.security_version < floor:
        raise BundleError(
            subject=f"bundle {manifest.id} {manifest.version}, security_version", found=str(manifest.security_version),
            expected=f"{floor} or more, the floor of this device since the last confirm", todo="take a newer bundle",
        )  # fmt: skip
