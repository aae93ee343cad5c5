"""Files that are there whole or not at all, also over a power cut, and locks that end with their process; no content is known.

A link is nowhere made: the same calls do on Windows, where making one takes a right that services do not have.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from edge_runtime.errors import DeviceError, TemporaryError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_MODE: Final = 0o644
# A reader on Windows that has the file open for this moment keeps it from being replaced.
_REPLACE_TRIES: Final = 20
_PAUSE_S: Final = 0.01
_OPEN_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)


def replace_whole(path: Path, data: bytes) -> None:
    """Put ``data`` in place of what stands at ``path``: on the disk before its name changes, and the name before this returns.

    Raises:
        DeviceError: the disk refuses; what stood there stands there still.

    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        write_synced(fresh, data)
        fresh.chmod(_MODE)  # whatever the umask took away
        _replace(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise refused(path, error) from error


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and bring it to the disk; raises OSError."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(path: Path) -> None:
    """Make the names in ``path`` durable; Windows does so by itself and opens no folder. Raises OSError."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refused(path: Path, error: OSError) -> DeviceError:
    """What the disk said of ``path``, in one line."""
    return DeviceError(
        subject=f"store {path}", found=f"the disk refusing: {error.strerror or type(error).__name__}",
        expected="a folder with room that this user may write to",
        todo="free the disk, or run it as the user that serves; nothing was changed",
    )  # fmt: skip


@contextmanager
def locked(path: Path, *, patience_s: float, busy: str) -> Iterator[None]:
    """Hold ``path`` against every other process that asks for it here; the kernel lets go of it with this one.

    Raises:
        DeviceError: the file cannot be made.
        TemporaryError: another has it, still after ``patience_s``; ``busy`` says in a clause who that may be.

    """
    try:
        descriptor = os.open(path, _OPEN_FLAGS, _MODE)
    except OSError as error:
        raise refused(path, error) from error
    try:
        deadline_s = time.monotonic() + patience_s
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline_s:
                raise TemporaryError(
                    subject=f"store {path.parent}", found=busy, expected="one at a time",
                    todo="wait until it is done and run this again",
                )  # fmt: skip
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            _lock_first_byte(descriptor)
    except OSError:
        return False
    return True


def _lock_first_byte(descriptor: int) -> None:
    import msvcrt  # noqa: PLC0415 -- what Windows has in place of flock

    msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined] # only there


def _replace(fresh: Path, path: Path) -> None:
    for left in reversed(range(_REPLACE_TRIES)):
        try:
            fresh.replace(path)
        except PermissionError:
            if os.name == "posix" or not left:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
