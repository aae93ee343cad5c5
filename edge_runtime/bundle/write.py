"""Puts a bundle on disk whole or not at all, as a folder or as one .tar; it never edits one that is there."""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from edge_runtime.bundle.names import SIGNATURE_NAME, SUMS_NAME, require_names
from edge_runtime.bundle.tar import format_tar
from edge_runtime.errors import DeviceError, UsageError


def sums(files: Mapping[str, bytes]) -> bytes:
    """Return the canonical SHA256SUMS of `files`; itself and model.sig are left out, if there.

    Raises
    ------
    BundleError
        for a name that no bundle may use.

    """
    require_names({*files, SUMS_NAME, SIGNATURE_NAME}, "to be written")
    names = sorted(set(files) - {SUMS_NAME, SIGNATURE_NAME})
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in names).encode("ascii")


def write_directory(files: Mapping[str, bytes], path: Path) -> None:
    """Write `files` and their SHA256SUMS as the folder `path`, in place of a bundle that stands there.

    Everything is on the disk before the name changes. An old bundle is moved aside, the new one moved in, then the
    old one removed: a kill in between leaves both beside `path` under hidden names, never half of one.

    Raises
    ------
    BundleError
        for a name that no bundle may use.
    DeviceError
        where the disk refuses.
    UsageError
        where `path` is something else than a bundle's folder.

    """
    complete = {**files, SUMS_NAME: sums(files)}
    _require_replaceable(path)
    token = secrets.token_hex(4)
    fresh = path.with_name(f".{path.name}.{token}.new")
    old = path.with_name(f".{path.name}.{token}.old")
    try:
        fresh.mkdir(parents=True)
        for name, data in sorted(complete.items()):
            _write_synced(fresh / name, (data,))
        _sync_folder(fresh)
        _move_in(fresh, path, old)
        _sync_folder(path.parent)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise _disk_fault(path, error) from error
    shutil.rmtree(old, ignore_errors=True)


def write_tar(files: Mapping[str, bytes], path: Path) -> None:
    """Write `files` and their SHA256SUMS as the plain .tar `path`, the same bytes each time; replaces a file there.

    Raises
    ------
    BundleError
        for a name that no bundle may use.
    DeviceError
        where the disk refuses.

    """
    complete = {**files, SUMS_NAME: sums(files)}
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(fresh, format_tar(complete))
        fresh.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise _disk_fault(path, error) from error


def _require_replaceable(path: Path) -> None:
    """Refuse to remove what was never a bundle: a slip in a path must not cost somebody's files."""
    if not path.is_symlink():
        if not path.exists():
            return
        if path.is_dir():
            entries = list(path.iterdir())
            flat = all(entry.is_file() or entry.is_symlink() for entry in entries)
            if not entries or (flat and (path / SUMS_NAME).is_file()):
                return
    raise UsageError(
        subject=f"bundle {path}",
        found="something there that is no bundle folder",
        expected="a free path, an empty folder or an older bundle",
        todo="give another path or remove it yourself",
    )


def _move_in(fresh: Path, path: Path, old: Path) -> None:
    if not path.exists():
        fresh.rename(path)
        return
    path.rename(old)
    try:
        fresh.rename(path)
    except OSError:
        old.rename(path)
        raise


def _write_synced(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("xb") as stream:
        for piece in pieces:
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(path: Path) -> None:
    """Make names durable; Windows does so by itself and opens no folder."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_fault(path: Path, error: OSError) -> DeviceError:
    return DeviceError(
        subject=f"bundle {path}",
        found=f"the disk refusing to write: {error.strerror or error}",
        expected="a folder with room that this user may write to",
        todo="free space, correct the permissions or give another path",
    )
