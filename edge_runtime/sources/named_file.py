"""Files of one folder by their names; it gives their bytes whole and reads nothing outside, nor any special file."""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.number_file import FileRefused

_LONGEST_NAME: Final = 1024
_MOST_PARTS: Final = 16


def open_folder(folder: Path, *, subject: str, max_bytes: int) -> Callable[[str], bytes]:
    """Return what reads one named file of ``folder`` whole, as `read_named` does.

    Raises ConfigurationError where ``folder``, which ``subject`` names, is none, or this system cannot open so.
    """
    refuse_system(subject, 'send the numbers themselves: read = "base64"')
    if not folder.is_dir():
        raise ConfigurationError(
            subject=subject, found=f"{folder}, which is no folder", expected="the folder that files are named from",
            todo="make it, or correct the path; see docs/device_toml.md",
        )  # fmt: skip

    return partial(read_named, folder, max_bytes=max_bytes)


def refuse_system(subject: str, todo: str) -> None:
    """Raise ConfigurationError where this system cannot open a file without following links."""
    if os.open not in os.supports_dir_fd:
        raise ConfigurationError(
            subject=subject, found="a system that cannot open a file from its folder on", expected="Linux or macOS",
            todo=todo,
        )  # fmt: skip


def read_named(folder: Path, name: str, *, max_bytes: int) -> bytes:
    """Read one file of ``folder`` whole; raises nothing but FileRefused, from an OSError where that was the cause.

    A name is relative, with "/" between folders. No part of it may be a symbolic link, so nothing outside can be
    reached, not even by a link that is put there between a check and the opening: each part is opened from the one
    before (POSIX openat with O_NOFOLLOW). A file larger than ``max_bytes`` is not read at all.
    """
    parts = _parts(name)
    try:
        descriptor = _open(folder, parts)
    except FileNotFoundError as error:
        raise FileRefused("no such file", f"one in {folder}", reason="missing_field") from error
    except (OSError, ValueError) as error:
        raise _refused(error) from error
    try:
        return _whole(descriptor, max_bytes)
    except OSError as error:
        raise _refused(error) from error
    finally:
        os.close(descriptor)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if len(name) > _LONGEST_NAME or len(parts) > _MOST_PARTS or "\0" in name or {"", ".", ".."} & set(parts):
        raise FileRefused("no plain relative name", "a name within the folder, without '..' and not from the root")
    return parts


def _open(folder: Path, parts: list[str]) -> int:
    """Open the last part, never following a link below ``folder``, never waiting for a pipe's other end."""
    common = os.O_RDONLY | os.O_CLOEXEC
    here = os.open(folder, common | os.O_DIRECTORY)
    for part in parts[:-1]:
        here = _step(here, part, common | os.O_DIRECTORY | os.O_NOFOLLOW)
    return _step(here, parts[-1], common | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)


def _step(here: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags, dir_fd=here)
    finally:
        os.close(here)


def _whole(descriptor: int, max_bytes: int) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused("no regular file", "a regular file")
    if found.st_size > max_bytes:
        raise FileRefused(f"{found.st_size} bytes", f"at most {max_bytes}")
    pieces, room = [], found.st_size + 1
    while room and (piece := os.read(descriptor, room)):
        pieces.append(piece)
        room -= len(piece)
    if room != 1 or os.fstat(descriptor).st_mtime_ns != found.st_mtime_ns:
        todo = "let the sender write the file under another name, rename it, and only then name it"
        raise FileRefused("a file that changed while it was read", "a finished file", todo)
    return b"".join(pieces)


def _refused(error: Exception) -> FileRefused:
    if isinstance(error, OSError) and error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return FileRefused("a symbolic link, or a file for a folder", "a regular file that no link leads to")
    found = (error.strerror if isinstance(error, OSError) else "") or "a name that this system cannot open"
    return FileRefused(found, "a regular file that this user may read")
