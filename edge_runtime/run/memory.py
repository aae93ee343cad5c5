"""boot.json, what a device knows of bundles across restarts: floors and last passes; it decides on neither."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.errors import ConfigurationError, DeviceError, TemporaryError
from edge_runtime.run.whole_file import write_whole
from edge_runtime.spec.report import Report

try:
    import fcntl
except ImportError:  # Windows has no flock: there two processes that write at once are not told apart
    fcntl = None  # type: ignore[assignment]

MEMORY_NAME: Final = "boot.json"
_SCHEMA: Final = "edge-runtime/boot/1"
_MAX_BYTES: Final = 1024 * 1024


class Memory(BaseModel):
    """The file, each part by bundle id."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_: Literal["edge-runtime/boot/1"] = Field(alias="schema", default=_SCHEMA)
    floors: dict[str, int] = Field(default={}, description="the least security_version this device still takes")
    last_passes: dict[str, dict[str, str]] = Field(default={}, description="the environment of the last pass")


def read_memory(folder: Path) -> Memory:
    """Read what ``folder``, the state folder, remembers: nothing, where there is no file yet.

    Raises:
        ConfigurationError: the file cannot be read, or this release did not write it.

    """
    path = folder / MEMORY_NAME
    try:
        return Memory.model_validate_json(_read(path))
    except FileNotFoundError:
        return Memory()
    except (OSError, ValidationError) as error:
        found = error.strerror if isinstance(error, OSError) else "content that this release did not write"
        todo = "restore it, or remove it and with it the device's floors against older bundles"
        if isinstance(error, PermissionError):  # nothing is wrong with it then, and removing it would cost the floors
            todo = "run this as the user that serves"
        # Its floors forbid older bundles: going on without them would be the roll-back they are there to stop.
        raise ConfigurationError(
            subject=f"memory of boots {path}", found=found or "an error of the disk",
            expected="the file as it was written",
            todo=todo,
        ) from error  # fmt: skip


def _read(path: Path) -> bytes:
    if path.is_fifo():  # opening it would wait for ever, and no signal would end that
        raise OSError(errno.EINVAL, "a fifo, not a file")
    with path.open("rb") as stream:
        return stream.read(_MAX_BYTES)


def remember_pass(folder: Path, report: Report) -> None:
    """Keep the environment of a boot that passed, for ``changed_since_last_pass``; what is known is not written again.

    The folder is not created: whoever serves does that, under the user that serves.

    Raises:
        ConfigurationError: the memory that stands there cannot be read.
        DeviceError: the disk refuses.
        TemporaryError: another process is writing it.

    """
    if report.state != "OPERATIONAL" or not folder.is_dir():
        return
    one = {report.bundle["id"]: report.environment}
    if read_memory(folder).last_passes.items() >= one.items():
        return
    with _alone(folder):
        memory = read_memory(folder)
        _write(folder, memory.model_copy(update={"last_passes": {**memory.last_passes, **one}}))


def raise_floors(folder: Path, least: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Raise the floors of the bundles named in ``least`` (id -> security_version); gives id -> (before, after).

    None is ever lowered. The new ones are on the disk, all or none, once this returns.

    Raises:
        ConfigurationError: the memory that stands there cannot be read.
        DeviceError: the disk refuses.
        TemporaryError: another process is writing it.

    """
    with _alone(folder):
        memory = read_memory(folder)
        changes = {name: (memory.floors.get(name, 0), version) for name, version in least.items()}
        changes = {name: (before, max(before, version)) for name, (before, version) in changes.items()}
        floors = {**memory.floors, **{name: after for name, (_, after) in changes.items()}}
        _write(folder, memory.model_copy(update={"floors": floors}))
    return changes


def _write(folder: Path, memory: Memory) -> None:
    write_whole(folder / MEMORY_NAME, memory.model_dump_json(by_alias=True, indent=2) + "\n")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from writing between our reading and our writing: a floor would be lost."""
    if fcntl is None:
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DeviceError(
            subject=f"state folder {folder}", found=error.strerror or type(error).__name__,
            expected="a folder this user can write", todo="run it as the user that serves",
        ) from error  # fmt: skip
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise TemporaryError(
            subject=f"memory of boots {folder / MEMORY_NAME}", found="another process writing it",
            expected="one at a time", todo="wait a moment and run it again",
        ) from error  # fmt: skip
    finally:
        os.close(descriptor)
