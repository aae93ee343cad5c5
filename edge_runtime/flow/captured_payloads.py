"""Captured payloads, out of an open file or pipe, as the frames a line would have cut; it decodes none of them."""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

from pydantic_core import from_json, to_json

from edge_runtime.flow.framing import Framer
from edge_runtime.flow.recording import MAGIC, MESSAGES_MAGIC, RecordingError, RecordingReader
from edge_runtime.spec.reading import LATEST_NS, Damaged, Rejection

_CHUNK_BYTES: Final = 1 << 16
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TOLD_BY: Final = frozenset({"topic", "qos", "payload"})
"""The keys by which a line of mosquitto_sub is told from a payload that is an object itself."""
_KEYS: Final = _TOLD_BY | {"tst", "retain", "mid", "payloadlen", "properties"}
_TODO: Final = "capture it again; docs/bindings.md says how"
_BYTES_TODO: Final = "capture it again with mosquitto_sub -F '%t %x', where the payloads are bytes and no text"


class Payload(NamedTuple):
    """One frame as captured: by MQTT its topic, and whether the broker had kept it; its arrival in Unix ns, if noted."""

    frame: bytes | Damaged
    topic: str = ""
    arrival_ns: int | None = None
    is_retained: bool = False


def payloads(file: BinaryIO, framer: Framer, *, is_text: bool) -> Iterator[Payload]:
    """Every payload of a capture, told by its first line.

    A recording of `edge-runtime record`, and anything that is none of the two below, goes through ``framer``, the
    line's own; a message in it is one frame. A line of ``mosquitto_sub -F '%j'`` (or ``'%J'``) is one message. Where the
    line's payloads are not text (``is_text``), a line of hexadecimal digits, as ``mosquitto_sub -F '%x'`` writes it, is
    one message too, also behind its topic and a blank, as by ``-F '%t %x'``.
    """
    first = file.readline()
    if first in {MAGIC, MESSAGES_MAGIC}:
        return _recorded(first, file, framer, is_text=is_text)
    if is_capture(first):
        return (captured(line) for line in _all(first, file) if line.strip())
    if not is_text and _hexadecimal(first) is not None:
        return (_unhexed(line) for line in _all(first, file) if line.strip())
    return _framed(first, file, framer)


def whole_payload(file: BinaryIO, *, is_text: bool) -> Payload:
    """A file that is one frame."""
    data = file.read()
    return Payload(data.rstrip(b"\r\n") if is_text else data)


def is_capture(line: bytes) -> bool:
    """Whether a line is one message as ``mosquitto_sub -F '%j'`` writes it."""
    message = _message(line)
    return message is not None and message.keys() >= _TOLD_BY


def missing_keys(line: bytes) -> list[str]:
    """What such a line would have to have besides to be known as one; empty where it is one, or something else."""
    message = _message(line)
    if message is None or not message.keys() <= _KEYS or message.keys().isdisjoint({"topic", "payload"}):
        return []
    return sorted(_TOLD_BY - message.keys())


def captured(line: bytes) -> Payload:
    """The message of such a line; a Damaged frame where it is none, or not whole."""
    message = _message(line)
    if message is None or "payload" not in message:
        without = "" if message is None else ": it has no key 'payload'"
        return _broken(f"a line that is no message of mosquitto_sub -F '%j'{without}", line)
    return _payload_of(message, line)._replace(is_retained=message.get("retain") == 1)


def _all(first: bytes, file: BinaryIO) -> Iterable[bytes]:
    yield first
    yield from file


def _framed(first: bytes, file: BinaryIO, framer: Framer) -> Iterator[Payload]:
    chunk = first
    while chunk:
        yield from map(Payload, framer.feed(chunk))
        chunk = file.read(_CHUNK_BYTES)
    yield from map(Payload, framer.flush())


def _recorded(first: bytes, file: BinaryIO, framer: Framer, *, is_text: bool) -> Iterator[Payload]:
    reader, chunk = RecordingReader(), first
    try:
        while chunk:
            for record in reader.feed(chunk):
                if record.topic:
                    frame = record.data.rstrip(b"\r\n") if is_text else record.data
                    yield Payload(frame, record.topic, record.time_ns, record.retained)
                    continue
                if not record.data:  # a stream began: if it is not whole, with the rest of a frame
                    framer.restore(discarding=not record.anew)
                for one in framer.feed(record.data):
                    yield Payload(one, arrival_ns=record.time_ns)
            chunk = file.read(_CHUNK_BYTES)
        reader.feed(b"")
    except RecordingError as error:
        yield _broken(f"a recording damaged {error}", b"")
    yield from map(Payload, framer.flush())


def _message(line: bytes) -> dict[str, object] | None:
    """One JSON object; where a payload in it is no UTF-8, its bytes come as the characters of the same numbers."""
    try:
        found = from_json(line)
    except ValueError:
        try:
            found = from_json(line.decode("latin-1"))
        except ValueError:
            return None
    return found if type(found) is dict else None


def _payload_of(message: dict[str, object], line: bytes) -> Payload:
    topic, arrival_ns = str(message.get("topic", "")), _arrival(message.get("tst"))
    payload = message["payload"]
    if payload is None:  # how mosquitto_sub writes an empty one; a JSON null under %J has a length
        return Payload(b"null" if message.get("payloadlen") else b"", topic, arrival_ns)
    if not isinstance(payload, str):
        return Payload(to_json(payload), topic, arrival_ns)
    frame = payload.encode() if _is_utf8(line) else payload.encode("latin-1", "replace")
    length = message.get("payloadlen", len(frame))
    if length != len(frame):
        found = f"{len(frame)} of {length} bytes: -F '%j' ends at a zero byte"
        return _broken(found, frame, _BYTES_TODO)._replace(topic=topic)
    return Payload(frame.rstrip(b"\r\n"), topic, arrival_ns)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _arrival(tst: object) -> int | None:
    """``2026-11-30T21:36:58.176555Z+0000``, as mosquitto_sub 2.0 writes it, zone twice; earlier ones give seconds.

    None for what no clock of ours says: before 1970, after 2262, no time at all.
    """
    try:
        if isinstance(tst, int):
            arrival_ns = tst * 1_000_000_000
        else:
            moment = dt.datetime.fromisoformat(str(tst).replace("Z+", "+"))
            arrival_ns = (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    except (ValueError, TypeError):
        return None
    return arrival_ns if 0 <= arrival_ns <= LATEST_NS else None


def _hexadecimal(line: bytes) -> Payload | None:
    """A payload, perhaps behind its topic; a topic may have blanks, and an empty payload leaves one at the end."""
    topic, _, digits = line.rstrip(b"\r\n").rpartition(b" ")
    try:
        return Payload(bytes.fromhex(digits.decode("ascii")), topic.decode())
    except ValueError:
        return None


def _unhexed(line: bytes) -> Payload:
    return _hexadecimal(line) or _broken("a line that is not hexadecimal", line)


def _broken(found: str, raw: bytes, todo: str = _TODO) -> Payload:
    return Payload(Damaged(Rejection("bad_frame", "capture", found, "whole payloads", todo), raw))
