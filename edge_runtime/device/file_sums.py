"""What lies in one folder, by name, size and SHA-256, read without following a link; whether it may be used it does not say."""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

MAX_FILES: Final = 64
MAX_BYTES: Final = 512 * 1024 * 1024
_BLOCK_BYTES: Final = 1024 * 1024


class DamagedFiles(Exception):
    """The files are not what they must be; the text says which is not, and how."""


class Sums(NamedTuple):
    """Of files in a folder: by name (bytes, SHA-256); and what the kernel says of each, which a change would change."""

    files: dict[str, tuple[int, str]]
    marks: dict[str, tuple[int, ...]]

    def __str__(self) -> str:
        """How many and how much, in words."""
        size = sum(size for size, _ in self.files.values())
        return f"{len(self.files)} file{'' if len(self.files) == 1 else 's'}, {size / 1e6:.3g} MB"


def difference(listed: Mapping[str, tuple[int, str]], there: Mapping[str, tuple[int, str]]) -> str | None:
    """Say how files, name -> (bytes, SHA-256), differ from the listing: the first in the order of names, None if none does."""
    for name in sorted({*listed, *there}):
        if name not in there:
            return f"{name!r} missing"
        if name not in listed:
            return f"{name!r} added"
        (before, one), (now, other) = listed[name], there[name]
        if now < before:
            return f"{name!r} cut to {now} of {before} bytes"
        if one != other:
            return f"{name!r} changed"
    return None


def marks_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """By name, what a write to a file, or another one in its place, would change.

    Raises ``DamagedFiles`` where an entry is no file of one name or another user's, or where they are too many or too large.
    """
    found: dict[str, tuple[int, ...]] = {}
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            about = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
                raise DamagedFiles(f"{entry.name!r}, which is no file of its own")
            if about.st_uid != os.geteuid():
                raise DamagedFiles(f"{entry.name!r}, which is another user's")
            total += about.st_size
            found[entry.name] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            if len(found) > MAX_FILES:
                raise DamagedFiles(f"more than {MAX_FILES} files")
            if total > MAX_BYTES:
                raise DamagedFiles(f"more than {MAX_BYTES >> 20} MiB")
    return found


def sums_of(folder: Path, *, most: Mapping[str, int] | None = None, sync: bool = False) -> Sums:
    """Hash every file; those that ``most`` does not name, or that have another size, are not read to be refused."""
    marks = marks_of(folder)
    files = {}
    for name, (_, size, *_rest) in sorted(marks.items()):
        if most is not None and most.get(name) != size:
            files[name] = (size, "")
            continue
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            digest = hashlib.sha256()
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
            if sync:
                os.fsync(descriptor)
        files[name] = (size, digest.hexdigest())
    return Sums(files, marks)
