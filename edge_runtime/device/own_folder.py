"""Folders below the state folder that only this user can write to, locked while one boot works; no link in them is followed."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from edge_runtime.device.file_sums import MAX_BYTES
from edge_runtime.errors import DeviceError

try:
    import fcntl
except ImportError:  # Windows has no flock and opens no folder: nothing is kept there
    fcntl = None  # type: ignore[assignment]

MAX_ALL_BYTES: Final = 2 * MAX_BYTES
MIN_FREE_BYTES: Final = 64 * 1024 * 1024
_OWN: Final = "give it to the user that serves (chown, chmod 700), or remove it; the next boot makes it anew"
_OTHERS_WRITE: Final = 0o022
# With the sticky bit nobody can put something else in the place of what is ours.
_ALL_WRITE: Final = stat.S_IWOTH | stat.S_ISVTX
_TODO: Final = {
    errno.EROFS: "mount the disk to be written to",
    errno.ENOSPC: "free the disk: it has no room, or no place for another file",
    errno.EDQUOT: "raise this user's quota, or free what it uses",
    errno.EIO: "test the disk",
    errno.EACCES: _OWN,
    errno.EPERM: _OWN,
}


class NoCacheHere(Exception):
    """Nothing can be kept here, and nothing is wrong: ``found`` says what is missing, ``todo`` what would help."""

    def __init__(self, found: str, todo: str) -> None:
        self.found = found
        self.todo = todo
        super().__init__(found, todo)


def locked_folder(state: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of the folder below ``state``, made where it is not there, no link followed, locked for this boot."""
    if fcntl is None:
        raise NoCacheHere("this system has no lock for folders", "none is kept on it")
    try:
        descriptor = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise NoCacheHere(f"no state folder {state} yet", "the first run makes it") from None
    except OSError as error:
        raise NoCacheHere(f"state folder {state}, {error.strerror}", "run this as the user that serves") from error
    try:
        _require(descriptor, state)
        path = state
        for part in parts:
            path /= part
            inner = _entered(descriptor, part, path)
            os.close(descriptor)
            descriptor = inner
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise NoCacheHere("another boot of this bundle is using it", "none is needed") from None
    except OSError as error:  # a network's file system may have no locks
        os.close(descriptor)
        raise NoCacheHere(f"no lock in {state}, {error.strerror}", "put the state folder on a local disk") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require(descriptor: int, state: Path) -> None:
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise NoCacheHere(f"state folder {state} is another user's", "run this as the user that serves")
    if os.fstat(descriptor).st_mode & _ALL_WRITE == stat.S_IWOTH:
        raise NoCacheHere(f"everybody may write to state folder {state}", f"chmod o-w {state}")
    room = os.fstatvfs(descriptor)
    if room.f_flag & os.ST_RDONLY:
        raise NoCacheHere(f"state folder {state} lies on a disk that may only be read", "mount it to be written to")
    if room.f_bavail * room.f_frsize < MIN_FREE_BYTES:
        raise NoCacheHere(f"less than {MIN_FREE_BYTES >> 20} MiB free for {state}", "free the disk")


def _entered(outer: int, name: str, path: Path) -> int:
    with told_of(path):
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=outer)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
        about = os.fstat(inner)
        if not is_own(about):
            os.close(inner)
            raise OSError(errno.EPERM, "a folder of another user, or one that others may write to")
    return inner


def is_own(about: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and nobody else may write to it."""
    return about.st_uid == os.geteuid() and not about.st_mode & _OTHERS_WRITE


def make_room(top: Path, own: Path) -> str:
    """Drop the caches that were longest unused until all of them together are within bounds; says how many were."""
    homes = [home for home in top.glob("*/*") if home.is_dir() and home.resolve() == home]
    sizes = {home: sum(one.lstat().st_size for one in home.glob("*/*")) for home in homes}
    total, gone = sum(sizes.values()), 0
    for home in sorted(set(homes) - {own}, key=lambda one: one.stat().st_mtime_ns):
        if total <= MAX_ALL_BYTES:
            break
        if _removed_alone(home):
            total -= sizes[home]
            gone += 1
    return f"; {gone} of other bundles dropped, over {MAX_ALL_BYTES >> 20} MiB in all" if gone else ""


def _removed_alone(home: Path) -> bool:
    """Remove it unless a boot is at work in it."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(home)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def removed(path: Path) -> None:
    """Remove a file, a link itself, or a folder with what is in it, following no link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Turn what the disk says of ``path`` into a DeviceError of one line."""
    try:
        yield
    except OSError as error:
        raise DeviceError(
            subject=f"cache {path}", found=error.strerror or type(error).__name__, expected="a folder of this user alone",
            todo=_TODO.get(error.errno or 0, "remove it; the next boot makes it anew"),
        ) from error  # fmt: skip
