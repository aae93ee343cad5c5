"""What was done with the bundles of a device, a JSON object a line, each with the hash of the one before; nothing is edited.

A line that was cut off, changed or taken out is found by ``verify``. Whoever may write all three files may forge a whole
chain: there is no key in it. It is the word of a device about itself, for who asks what happened.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from edge_runtime.bundle.durable import refused, replace_whole, sync_folder
from edge_runtime.errors import ConfigurationError

LOG_NAME: Final = "log.jsonl"
OLD_NAME: Final = "log.1.jsonl"
HEAD_NAME: Final = "log.head.json"
MAX_BYTES: Final = 256 * 1024
"""Of a file; two of them are kept, so some 2,000 events. A bundle a week makes about 500 a year."""
_MAX_LINE: Final = 8 * 1024
_FIRST: Final = "0" * 64
_MOST_TOLD: Final = 20


class Event(NamedTuple):
    """One line: its number from 1 on, its fields, and the SHA-256 of its bytes."""

    number: int
    fields: Mapping[str, Any]
    hash: str


def append(folder: Path, event: str, now: str, **fields: Any) -> None:
    """Put one event behind the others, on the disk before this returns; for the holder of the store's lock.

    Raises:
        DeviceError: the disk refuses; the log is as it was.

    """
    path = folder / LOG_NAME
    try:
        number, link = _behind(folder)
        line = to_json({"n": number, "time": now, "event": event, **fields, "prev": link})
        if path.exists() and path.stat().st_size + len(line) >= MAX_BYTES:
            path.replace(folder / OLD_NAME)
        _append(path, line + b"\n")
        sync_folder(folder)
    except OSError as error:
        raise refused(path, error) from error
    head = {"n": number, "hash": hashlib.sha256(line).hexdigest()}
    replace_whole(folder / HEAD_NAME, to_json(head) + b"\n")


def events(folder: Path) -> Iterator[Event]:
    """What can be read, oldest first; a line that is none is passed over, which ``verify`` tells.

    Raises:
        ConfigurationError: the files cannot be read.

    """
    for name in (OLD_NAME, LOG_NAME):
        for line in _lines(folder / name):
            event = _parsed(line)
            if event is not None:
                yield event


def verify(folder: Path) -> list[str]:
    """What is wrong with the chain, a sentence each, the first twenty; nothing where it is whole.

    Raises:
        ConfigurationError: the files cannot be read.

    """
    faults: list[str] = []
    before: Event | None = None
    for name in (OLD_NAME, LOG_NAME):
        for at, line in enumerate(_lines(folder / name), start=1):
            event = _parsed(line)
            if event is None:
                faults.append(f"line {at} of {name} is no event: it was changed, or cut off")
                continue
            faults += _joint(before, event, f"line {at} of {name}", is_oldest=name == OLD_NAME)
            before = event
    faults += _end(folder, before)
    return faults[:_MOST_TOLD]


def _joint(before: Event | None, event: Event, place: str, *, is_oldest: bool) -> Iterator[str]:
    """Whether ``event`` follows on ``before``; the oldest file begins where an older one was let go."""
    if before is None:
        if not is_oldest and event.number != 1:
            yield f"{place} has number {event.number}, and the {event.number - 1} before it are missing"
    elif event.number != before.number + 1:
        yield f"{place} has number {event.number} behind {before.number}: lines are missing, or there twice"
    elif event.fields.get("prev") != before.hash:
        yield f"number {before.number}, before {place}, is not as it was when {event.number} was written"


def _end(folder: Path, last: Event | None) -> Iterator[str]:
    head = _head(folder)
    if head is None:
        # A process that died between its first event and this file leaves one event and no head.
        if (last is not None and last.number > 1) or (folder / HEAD_NAME).exists():
            yield f"{HEAD_NAME} is missing, or not as it was written: nobody can tell whether lines were cut off at the end"
        return
    number, link = head
    found = 0 if last is None else last.number
    if found < number:
        yield f"the log ends with number {found}, and {number} was written: {number - found} lines were cut off"
    elif last is not None and found == number and last.hash != link:
        yield f"number {number}, the last, is not as it was written"
    elif found > number + 1:  # one more is what a process that died before it wrote the head leaves
        yield f"the log ends with number {found}, and {number} was the last to be written"


def _behind(folder: Path) -> tuple[int, str]:
    """The number of the next event, and the hash that it bears: of what was written, not of what has become of it."""
    last, head = _last(folder), _head(folder)
    known = max((one for one in (last and (last.number, last.hash), head) if one), default=(0, _FIRST))
    number, link = head if head is not None and head[0] == known[0] else known
    return number + 1, link


def _head(folder: Path) -> tuple[int, str] | None:
    """Number and hash of what was written last; None where there is none that can be read."""
    try:
        head = from_json((folder / HEAD_NAME).read_bytes())
        return int(head["n"]), str(head["hash"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _last(folder: Path) -> Event | None:
    """The last whole event, behind which the next one goes; what was half written is cut off."""
    for name in (LOG_NAME, OLD_NAME):
        path = folder / name
        data = _read(path)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with path.open("r+b") as stream:
                stream.truncate(whole)
                os.fsync(stream.fileno())
        if whole:
            line = data[:whole].split(b"\n")[-2]
            # A line that somebody has changed has a hash all the same: the chain goes on, and tells of it.
            return _parsed(line) or Event(_number_of(folder), {}, hashlib.sha256(line).hexdigest())
    return None


def _number_of(folder: Path) -> int:
    numbers = [event.number for event in events(folder)]
    return max(numbers, default=0) + 1


def _append(path: Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)
    try:
        end = os.fstat(descriptor).st_size
        try:
            written = os.write(descriptor, line)
            if written != len(line):
                raise OSError(28, "no room for a whole line")  # noqa: TRY301 -- as the disk says it
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[bytes]:
    """The whole lines; what has no end yet was never written, and the head tells if it had been."""
    try:
        return _read(path).split(b"\n")[:-1]
    except OSError as error:
        raise ConfigurationError(
            subject=f"log {path}", found=error.strerror or type(error).__name__, expected="a file that can be read",
            todo="run this as the user that serves",
        ) from error  # fmt: skip


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 2 * _MAX_LINE)
    except FileNotFoundError:
        return b""


def _parsed(line: bytes) -> Event | None:
    try:
        fields = from_json(line)
        return Event(int(fields["n"]), fields, hashlib.sha256(line).hexdigest())
    except (ValueError, TypeError, KeyError):
        return None
