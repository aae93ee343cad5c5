r"""The recording format, raw bytes with their times of arrival; it never looks into the bytes.

A file is ``edge-runtime-recording/1\n``, then records ``<unix ns> <length>\n<bytes>\n``, only ever appended. A record
of length 0 says that a connection began or bytes were lost there: what follows may start in the middle of a frame.
Numbers are decimal, without sign or leading zero, so that equal recordings are equal bytes.
"""

import re

MAGIC = b"edge-runtime-recording/1\n"
MAX_RECORD_BYTES = 1 << 20
"""No reader of ours delivers more at once; beyond it a damaged length would have us wait for bytes without end."""

_MAX_TIME_NS = (1 << 63) - 1
_HEADER = re.compile(rb"(0|[1-9][0-9]{0,18}) (0|[1-9][0-9]{0,6})\n")
_LONGEST_HEADER = 28


class RecordingError(ValueError):
    """The bytes are not a recording, or are damaged; ``offset`` is where in the file, in bytes."""

    def __init__(self, offset: int, found: str) -> None:
        self.offset = offset
        self.found = found
        super().__init__(f"at byte {offset}: {found}")


def encode_chunk(time_ns: int, data: bytes) -> bytes:
    """One record: ``time_ns`` in Unix nanoseconds; empty ``data`` marks a new connection.

    Raises ValueError for a time before 1970 or past 2262, or more than ``MAX_RECORD_BYTES``.
    """
    if not 0 <= time_ns <= _MAX_TIME_NS:
        msg = f"time_ns is {time_ns}; a record holds 0 to {_MAX_TIME_NS}"
        raise ValueError(msg)
    if len(data) > MAX_RECORD_BYTES:
        msg = f"{len(data)} bytes; a record holds at most {MAX_RECORD_BYTES}"
        raise ValueError(msg)
    return b"%d %d\n%b\n" % (time_ns, len(data), data)


class RecordingReader:
    """Turns a recording, fed in pieces of any size, back into (time_ns, data) pairs."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._offset = 0
        self._begun = False

    @property
    def pending_bytes(self) -> int:
        """Bytes of a record not yet complete; at the end of a file, those of a tail that was cut."""
        return len(self._waiting)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Every record that ``data`` completes; an unfinished one is kept.

        Raises RecordingError where damaged, after every record before the damage was given: ``feed(b"")`` at the end
        of a file asks for the last word.
        """
        self._waiting += data
        if not self._begun and not self._begin():
            return []
        records: list[tuple[int, bytes]] = []
        at = 0
        try:
            while (record := self._record(at)) is not None:
                time_ns, payload, at = record
                records.append((time_ns, payload))
        except RecordingError:
            if not records:
                raise
        del self._waiting[:at]
        self._offset += at
        return records

    def _begin(self) -> bool:
        start = bytes(self._waiting[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise RecordingError(0, f"the file begins with {start!r}, not with {MAGIC!r}")
        if len(start) < len(MAGIC):
            return False
        del self._waiting[: len(MAGIC)]
        self._offset = len(MAGIC)
        self._begun = True
        return True

    def _record(self, at: int) -> tuple[int, bytes, int] | None:
        waiting = self._waiting
        header = _HEADER.match(waiting, at)
        if header is None:
            end = waiting.find(b"\n", at, at + _LONGEST_HEADER)
            if end >= 0 or len(waiting) - at >= _LONGEST_HEADER:
                raise RecordingError(self._offset + at, f"a record begins with {bytes(waiting[at : at + 28])!r}")
            return None
        length = int(header[2])
        if length > MAX_RECORD_BYTES:
            raise RecordingError(self._offset + at, f"a record says it has {length} bytes, over {MAX_RECORD_BYTES}")
        start = header.end()
        end = start + length
        if end >= len(waiting):
            return None
        if waiting[end] != ord("\n"):
            raise RecordingError(self._offset + end, "a record does not end where its length says")
        return int(header[1]), bytes(waiting[start:end]), end + 1
