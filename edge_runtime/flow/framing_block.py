"""IEEE 488.2 definite length blocks, ``#<n><length><data>`` and a terminator; their data have no check of their own."""

from edge_runtime.flow.quoting import quote_bytes
from edge_runtime.spec.framing import BlockFraming
from edge_runtime.spec.reading import Rejection

TERMINATORS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r", "none": b""}
_TODO = "a rare one is a disturbed line; else ask the instrument for binary data, and check framing.kind"
_MOST_DIGITS = 9


class BlockLayout:
    """See `framing_search.Layout`; a frame is the data of one block (IEEE 488.2-1992, 8.7.9)."""

    subject = "block"
    no_sync_todo = _TODO
    sync = b"#"
    head_bytes = 2  # a refusal may come as soon as these are there

    def __init__(self, spec: BlockFraming) -> None:
        self._max_bytes = spec.max_bytes
        self._terminator = TERMINATORS[spec.terminator]
        self.longest_bytes = 2 + _MOST_DIGITS + spec.max_bytes + len(self._terminator)

    def end(self, data: bytes, start: int) -> int | Rejection:
        """Where it ends; a length beyond the limit is refused before its bytes are waited for."""
        end = block_end(data, start, self._max_bytes)
        return end if isinstance(end, Rejection) or end > len(data) else end + len(self._terminator)

    def read(self, data: bytes, start: int, end: int) -> bytes | Rejection:
        """The data, if the terminator stands where the length says: all that tells of a lost byte."""
        data_end = end - len(self._terminator)
        if data[data_end:end] != self._terminator:
            found = f"{quote_bytes(data[data_end:end])} behind {data_end - start} bytes"
            todo = "if every block says so, correct framing.terminator"
            return Rejection("bad_frame", "block", found, f"its terminator {quote_bytes(self._terminator)}", todo)
        return data[start + 2 + int(data[start + 1 : start + 2]) : data_end]


def block_end(data: bytes, start: int, max_bytes: int) -> int | Rejection:  # noqa: PLR0911 (one exit per fault)
    """Where the data of the block at ``start`` end, or a place beyond ``data`` up to which more must come to know it."""
    digits = data[start + 1 : start + 2]
    if not digits:
        return start + 2
    if digits == b"0":
        found, expected = "#0, a block of unknown length", "a definite one, such as #3100"
        return Rejection("bad_frame", "block", found, expected, "set the instrument to blocks of definite length")
    if not b"1" <= digits <= b"9":
        return Rejection("bad_frame", "block", f"# and {quote_bytes(digits)}", "# and a digit from 1 to 9", _TODO)
    data_at = start + 2 + int(digits)
    written = data[start + 2 : data_at]
    if len(data) < data_at:
        return data_at
    if not written.isdigit():
        return Rejection("bad_frame", "block", f"a length of {quote_bytes(written)}", f"{int(digits)} digits", _TODO)
    if int(written) > max_bytes:
        todo = "if every block says so, raise framing.max_bytes"
        return Rejection("bad_frame", "block", f"a length of {int(written)}", f"{max_bytes} at most", todo)
    return data_at + int(written)
