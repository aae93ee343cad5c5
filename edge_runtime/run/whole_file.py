"""Puts a small text file in place whole or not at all, also over a power cut; it knows nothing of what it says."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from edge_runtime.errors import DeviceError

_MODE: Final = 0o644  # other users read reports: a metrics collector, the service where root ran the self-test


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 in place of what stands at ``path``: a reader sees the old file or the new one.

    Raises:
        DeviceError: the disk refuses.

    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        with fresh.open("x", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.chmod(_MODE)  # whatever the umask took away
        fresh.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise DeviceError(
            subject=f"file {path}", found=f"the disk refusing to write: {error.strerror or type(error).__name__}",
            expected="a folder with room that this user may write to", todo="give another path",
        ) from error  # fmt: skip


def _sync_folder(path: Path) -> None:
    """Make the new name durable; Windows does so by itself and opens no folder."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
