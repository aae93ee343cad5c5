"""Appending to a file so that a line is there whole or not at all, under a lock; it knows nothing of what lines say."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from edge_runtime.errors import TemporaryError

try:
    import fcntl
except ImportError:  # Windows has no flock: there two processes on one file are not told apart
    fcntl = None  # type: ignore[assignment]

# Linux syncs the bytes and the length alone; where that call is missing, the whole inode.
sync_data = getattr(os, "fdatasync", os.fsync)

_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_for_append(path: Path, mode: int = 0o644) -> int:
    """A descriptor whose every write goes to the end of ``path``, made if missing; raises OSError.

    A fifo is refused: it has no end to append to, and reading or filling it would wait for ever.
    """
    descriptor = os.open(path, _OPEN_FLAGS, mode)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "a fifo, not a file", str(path))
    return descriptor


def append_whole(descriptor: int, data: bytes, end: int) -> None:
    """Append ``data`` to a file of ``end`` bytes, in one write where the system takes it so.

    Raises OSError when it does not fit; the file is then cut back to ``end``. That the cut can fail as well is why
    whoever reads such a file must check its last line.
    """
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        with suppress(OSError):  # what is told is why it did not take it, not that a device cannot be cut
            os.ftruncate(descriptor, end)
        raise


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` (new, renamed, gone) survive a power cut; raises OSError."""
    if os.name == "nt":  # folders cannot be opened there; NTFS journals names by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, path: Path) -> None:
    """Hold ``path`` against every other opener until ``descriptor`` is closed or the process dies.

    Raises:
        TemporaryError: another process, named by its id where the system tells it, or another part of this one has it.

    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(os.fstat(descriptor).st_ino)
        raise TemporaryError(
            subject=str(path),
            found=f"a lock held by process {holder}" if holder else "a lock held by another process",
            expected="one edge-runtime line to one such file",
            todo="stop that process, or give this line a file of its own",
        ) from error  # fmt: skip


def _holder(inode: int) -> int | None:
    """Who holds a lock, from the kernel's list: ``1: FLOCK  ADVISORY  WRITE 4242 fe:00:1311 0 EOF`` (proc(5))."""
    try:
        listed = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for words in map(str.split, listed):
        if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode) and int(words[4]) > 0:
            return int(words[4])
    return None
