r"""The recording format, raw bytes or whole messages with their times of arrival; it never looks into the bytes.

A file is ``edge-runtime-recording/1\n``, then records ``<unix ns> <length>\n<bytes>\n``, only ever appended. A record
of length 0 says that a connection began or bytes were lost there: what follows may start in the middle of a frame; with
``<unix ns> 0 anew\n\n`` a stream begins that is whole, such as the output of a program that was started again.

A file of messages is ``edge-runtime-messages/1\n``, then records ``<unix ns> <length> <qos><marks> <topic length>\n
<topic><payload>\n``, the line break after the header only; the marks are ``r``, retained, and ``d``, sent again. A
record of length 0 without a topic says that messages were lost there. Numbers are decimal, without sign or leading
zero, so that equal recordings are equal bytes.
"""

import re
from typing import NamedTuple

from edge_runtime.spec.reading import LATEST_NS

MAGIC = b"edge-runtime-recording/1\n"
MESSAGES_MAGIC = b"edge-runtime-messages/1\n"
MAX_RECORD_BYTES = 1 << 20
"""No reader of ours delivers more at once; beyond it a damaged length would have us wait for bytes without end."""
MAX_MESSAGE_BYTES = 1 << 24
"""What `[broker] max_packet_bytes` may be at most."""

_HEADER = re.compile(rb"(0|[1-9][0-9]{0,18}) (0|[1-9][0-9]{0,7})(?: (anew)| ([01])(r?)(d?) ([1-9][0-9]{0,4}))?\n")
_CUT_HEADER = re.compile(rb"(?:[0-9]+(?: [0-9]*(?: [0-9anewrd]*(?: [0-9]*)?)?)?)?")
_LONGEST_HEADER = 40


class RecordingError(ValueError):
    """The bytes are not a recording, or are damaged; ``offset`` is where in the file, in bytes."""

    def __init__(self, offset: int, found: str) -> None:
        self.offset = offset
        self.found = found
        super().__init__(f"at byte {offset}: {found}")


class Record(NamedTuple):
    """What came together at ``time_ns`` (Unix): bytes of a stream, or with a ``topic`` one message.

    Empty ``data`` without a topic is a break in the stream; ``anew`` says that what follows is whole. ``qos`` is that of
    the delivery, ``again`` the broker's word that it had sent it before.
    """

    time_ns: int
    data: bytes
    anew: bool = False
    topic: str = ""
    qos: int = 0
    retained: bool = False
    again: bool = False


def encode_chunk(time_ns: int, data: bytes, *, anew: bool = False) -> bytes:
    """One record of bytes: ``time_ns`` in Unix nanoseconds; empty ``data`` marks a new connection, or a stream anew.

    Raises ValueError for a time before 1970 or past 2262, or more than ``MAX_RECORD_BYTES``.
    """
    _check(time_ns, data, MAX_RECORD_BYTES)
    if anew and data:
        raise ValueError("the mark of a stream anew holds no bytes")
    return b"%d %d%b\n%b\n" % (time_ns, len(data), b" anew" if anew else b"", data)


def encode_message(record: Record) -> bytes:
    """One record of a message, whose topic is not empty.

    Raises ValueError for a time before 1970 or past 2262, or more than ``MAX_MESSAGE_BYTES``.
    """
    time_ns, data = record.time_ns, record.data
    _check(time_ns, data, MAX_MESSAGE_BYTES)
    topic = record.topic.encode()
    marks = b"r" * record.retained + b"d" * record.again
    return b"%d %d %d%b %d\n%b%b\n" % (time_ns, len(data), record.qos, marks, len(topic), topic, data)


def _check(time_ns: int, data: bytes, limit: int) -> None:
    if not 0 <= time_ns <= LATEST_NS:
        raise ValueError(f"time_ns is {time_ns}; a record holds 0 to {LATEST_NS}")
    if len(data) > limit:
        raise ValueError(f"{len(data)} bytes; a record holds at most {limit}")


class RecordingReader:
    """Turns a recording, fed in pieces of any size, back into records; ``has_messages`` once its first bytes said so."""

    def __init__(self) -> None:
        self.has_messages = False
        self._waiting = bytearray()
        self._offset = 0
        self._begun = False

    @property
    def pending_bytes(self) -> int:
        """Bytes of a record not yet complete; at the end of a file, those of a tail that was cut."""
        return len(self._waiting)

    def feed(self, data: bytes) -> list[Record]:
        """Every record that ``data`` completes; an unfinished one is kept.

        Raises RecordingError where damaged, after every record before the damage was given: ``feed(b"")`` at the end
        of a file asks for the last word.
        """
        self._waiting += data
        if not self._begun and not self._begin():
            return []
        records: list[Record] = []
        at = 0
        try:
            while (found := self._record(at)) is not None:
                record, at = found
                records.append(record)
        except RecordingError:
            if not records:
                raise
        del self._waiting[:at]
        self._offset += at
        return records

    def _begin(self) -> bool:
        waiting = bytes(self._waiting[: len(MAGIC)])
        for magic in (MAGIC, MESSAGES_MAGIC):
            if waiting.startswith(magic):
                self._begun, self.has_messages = True, magic == MESSAGES_MAGIC
                del self._waiting[: len(magic)]
                self._offset = len(magic)
                return True
        if not (MAGIC.startswith(waiting) or MESSAGES_MAGIC.startswith(waiting)):
            raise RecordingError(0, f"the file begins with {waiting!r}, not with {MAGIC!r} or {MESSAGES_MAGIC!r}")
        return False

    def _record(self, at: int) -> tuple[Record, int] | None:
        waiting = self._waiting
        header = _HEADER.match(waiting, at)
        if header is None:
            rest = bytes(waiting[at : at + _LONGEST_HEADER])
            if len(rest) == _LONGEST_HEADER or not _CUT_HEADER.fullmatch(rest):
                raise RecordingError(self._offset + at, f"a record begins with {rest!r}")
            return None
        if int(header[1]) > LATEST_NS:
            raise RecordingError(self._offset + at, f"a record says it is of {int(header[1])} ns, past 2262")
        length = int(header[2])
        limit = MAX_RECORD_BYTES if header[7] is None else MAX_MESSAGE_BYTES
        if length > limit:
            raise RecordingError(self._offset + at, f"a record says it has {length} bytes, over {limit}")
        is_message, is_anew = header[7] is not None, header[3] is not None
        wrong_in_messages = is_anew or (not is_message and length > 0)
        if wrong_in_messages if self.has_messages else is_message or (is_anew and length > 0):
            raise RecordingError(self._offset + at, f"a record begins with {bytes(header[0])!r}, which is none here")
        start = header.end() + int(header[7] or 0)
        end = start + length
        if end >= len(waiting):
            return None
        if waiting[end] != ord("\n"):
            raise RecordingError(self._offset + end, "a record does not end where its length says")
        data = bytes(waiting[start:end])
        if not is_message:
            return Record(int(header[1]), data, anew=is_anew), end + 1
        try:
            topic = waiting[header.end() : start].decode()
        except UnicodeDecodeError as error:
            raise RecordingError(self._offset + header.end(), "a topic is no UTF-8") from error
        retained, again = bool(header[5]), bool(header[6])
        return Record(int(header[1]), data, topic=topic, qos=int(header[4]), retained=retained, again=again), end + 1
