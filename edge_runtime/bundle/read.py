"""Takes a bundle's bytes off the disk, once and within bounds; it judges names and kinds of file, never content."""

import os
import stat
from pathlib import Path
from typing import Final, NoReturn

from edge_runtime.bundle.names import SUMS_NAME, require_names, shown
from edge_runtime.bundle.tar import read_tar
from edge_runtime.errors import BundleError

# Half of what the smallest supported device has (1 GiB); models for such devices are some MiB.
MAX_TOTAL_BYTES: Final = 512 * 1024 * 1024
# A bundle of ten variants with goldens and label files has about forty.
MAX_FILES: Final = 64

# No link is followed and no fifo waited for, even if one takes the file's place after the listing. Windows has
# neither flag, but needs to be told that the bytes are not text.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a subdirectory",
    stat.S_IFIFO: "a fifo",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}


def read_files(path: Path, *, max_total_bytes: int = MAX_TOTAL_BYTES, max_files: int = MAX_FILES) -> dict[str, bytes]:
    """Return name -> bytes of every file of a bundle, SHA256SUMS and model.sig included.

    `path` is a directory or one plain .tar of it, and may itself be a link, which is resolved once. Hard links within
    a directory are fine: package installers make them.

    Raises
    ------
    BundleError
        naming the file, for a link, subdirectory, fifo, device, socket or odd name inside, a file that changes while
        it is read or cannot be read, and for more files or bytes than allowed.

    """
    origin = str(path)
    try:
        resolved = path.resolve(strict=True)
        is_directory = stat.S_ISDIR(resolved.stat().st_mode)
    # A loop of links is a RuntimeError before Python 3.13, a NUL in the path a ValueError.
    except (OSError, RuntimeError, ValueError) as error:
        _unreadable(origin, "the bundle", error)
    if is_directory:
        files = _read_directory(resolved, origin, max_total_bytes, max_files)
    else:
        files = _read_archive(resolved, origin, max_total_bytes, max_files)
    require_names(files, origin)
    return files


def _read_directory(folder: Path, origin: str, max_total_bytes: int, max_files: int) -> dict[str, bytes]:
    names = _list(folder, origin, max_files)
    require_names(names, origin)
    files: dict[str, bytes] = {}
    left = max_total_bytes
    for name in names:
        try:
            _require_regular((folder / name).lstat().st_mode, name, origin)
            files[name] = _read_file(folder / name, name, origin, left)
        except OSError as error:
            _unreadable(origin, shown(name), error)
        left -= len(files[name])
    return files


def _list(folder: Path, origin: str, max_files: int) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(names) == max_files:
                    _refuse(origin, f"more than {max_files} entries", f"at most {max_files}", "remove what is not its")
                names.append(entry.name)
    except OSError as error:
        _unreadable(origin, "the folder", error)
    return sorted(names)


def _read_file(path: Path, name: str, origin: str, max_bytes: int) -> bytes:
    # Buffered, so that one read gives all of it in one piece of memory: a bundle may be half of what the device has.
    with open(os.open(path, _FLAGS), "rb") as stream:  # noqa: PTH123 - pathlib takes no descriptor
        status = os.fstat(stream.fileno())
        _require_regular(status.st_mode, name, origin)
        if status.st_size > max_bytes:
            found = f"{name} of {status.st_size} bytes where {max_bytes} are left of the limit"
            _refuse(origin, found, "a bundle within its limit", "use a smaller model or fewer variants")
        data = stream.read(status.st_size + 1)
    if len(data) != status.st_size:
        _changed(origin, name)
    return data


def _read_archive(path: Path, origin: str, max_total_bytes: int, max_files: int) -> dict[str, bytes]:
    if path.suffix != ".tar" and (path.parent / SUMS_NAME).is_file() and (path.parent / "manifest.json").is_file():
        _refuse(origin, "a file of a bundle", "the bundle itself", f"name its folder, {path.parent}")
    if path.suffix == ".onnx":
        _refuse(origin, "a bare model", "a bundle, a folder or a .tar of it",
                "make one of it with edge-runtime build, as docs/tutorial.md shows")  # fmt: skip
    if path.suffix == ".toml":
        _refuse(origin, "a TOML file, a device file or a contract", "a bundle, a folder or a .tar of it",
                "name the bundle that the device file names (a command with --config takes the file itself);"
                " of a contract make one with edge-runtime build")  # fmt: skip
    try:
        _require_regular(path.lstat().st_mode, path.name, origin)
        with open(os.open(path, _FLAGS), "rb") as stream:  # noqa: PTH123 - pathlib takes no descriptor
            status = os.fstat(stream.fileno())
            _require_regular(status.st_mode, path.name, origin)
            files = read_tar(stream, status.st_size, origin, max_total_bytes=max_total_bytes, max_files=max_files)
            if os.fstat(stream.fileno()).st_size != status.st_size:
                _changed(origin, path.name)
    except OSError as error:
        _unreadable(origin, "the archive", error)
    return files


def _require_regular(mode: int, name: str, origin: str) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something that is no file")
        _refuse(origin, f"{name}, {kind}", "regular files only", "replace it by the file itself or remove it")


def _changed(origin: str, name: str) -> NoReturn:
    _refuse(origin, f"{name} changing while it was read", "a bundle nobody writes to", "try again once it is complete")


def _unreadable(origin: str, what: str, error: Exception) -> NoReturn:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    todo = "check the path and fetch the bundle again"
    if isinstance(error, FileNotFoundError):
        todo = "correct the path (in device.toml it begins in that file's folder), or make the bundle with edge-runtime build"
    if isinstance(error, PermissionError):
        todo = "let the user that runs edge-runtime read it: chmod -R u=rwX,go=rX on the bundle, or chown it"
    raise BundleError(
        subject=f"bundle {origin}", found=f"{what} unreadable: {reason}", expected="a readable bundle", todo=todo
    ) from error


def _refuse(origin: str, found: str, expected: str, todo: str) -> NoReturn:
    raise BundleError(subject=f"bundle {origin}", found=found, expected=expected, todo=todo)
