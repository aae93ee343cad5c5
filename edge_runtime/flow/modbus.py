"""The bytes of Modbus RTU and TCP, for reading alone; it knows no port, no clock, and writes no register.

Follows "MODBUS Application Protocol Specification" V1.1b3 and "MODBUS over Serial Line" V1.02.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from edge_runtime.flow.framing_stuffed import stuff_cobs
from edge_runtime.flow.quoting import quote_bytes
from edge_runtime.spec.crc import CATALOGUE, crc_function
from edge_runtime.spec.modbus import FUNCTIONS, ModbusRead, Table

BLOCK = struct.Struct(">BBHH")
"""Before the data of one answer in a sample: slave, function, address, count."""
TABLES: dict[int, Table] = {function: table for table, function in FUNCTIONS.items()}
_EXCEPTION = 0x80
_CRC_BYTES = 2
_crc = crc_function(CATALOGUE["crc-16/modbus"][0])

_WORDS = {
    1: "it does not know this function: another table, perhaps",
    2: "it has no such register: check table, address and type",
    3: "it does not give so many at once",
    4: "it failed: look at its own display",
    5: "it needs longer",
    6: "it is busy: ask less often",
    8: "its memory is damaged",
    10: "the gateway has no way to it",
    11: "the gateway had no answer from it",
}


class Response(NamedTuple):
    """What a slave answered: the data of the registers or, with ``exception``, none."""

    data: bytes
    exception: int = 0


def rtu_question(read: ModbusRead) -> bytes:
    """The request as a serial line carries it."""
    body = struct.pack(">BBHH", read.slave, FUNCTIONS[read.table], read.address, read.count)
    return body + _crc(body).to_bytes(_CRC_BYTES, "little")


def tcp_question(read: ModbusRead, transaction: int) -> bytes:
    """The request as TCP carries it."""
    return struct.pack(
        ">HHHBBHH", transaction, 0, 6, read.slave, FUNCTIONS[read.table], read.address, read.count
    )  # fmt: skip


def find_rtu(heard: bytes, read: ModbusRead) -> Response | None:
    """The answer to ``read`` wherever it begins in ``heard``, by slave, function, length and CRC."""
    function = FUNCTIONS[read.table]
    wanted = (
        (bytes((read.slave, function, read.size_bytes)), read.size_bytes),
        (bytes((read.slave, function | _EXCEPTION)), 1),
    )
    for head, size in wanted:
        start = heard.find(head)
        while start >= 0:
            end = start + len(head) + size
            if end + _CRC_BYTES <= len(heard) and _holds(heard, start, end):
                body = heard[start + len(head) : end]
                return Response(body) if head[1] == function else Response(b"", body[0])
            start = heard.find(head, start + 1)
    return None


def find_tcp(heard: bytes, read: ModbusRead, transaction: int) -> Response | None:
    """The answer to ``read`` by transaction, unit, function and length, wherever it begins in ``heard``."""
    function, size = FUNCTIONS[read.table], read.size_bytes
    head = struct.pack(">HHHBBB", transaction, 0, size + 3, read.slave, function, size)
    start = heard.find(head)
    if start >= 0 and len(heard) >= start + len(head) + size:
        return Response(heard[start + len(head) : start + len(head) + size])
    head = struct.pack(">HHHBB", transaction, 0, 3, read.slave, function | _EXCEPTION)
    start = heard.find(head)
    return Response(b"", heard[start + len(head)]) if 0 <= start < len(heard) - len(head) else None


def why_no_rtu(heard: bytes, read: ModbusRead) -> tuple[str, str]:
    """Why what was heard is no answer to ``read``: the ledger's word, and a clause for a person."""
    if not heard:
        return "no_answer", f"no answer of slave {read.slave}: is it on, its address right, baud and parity too?"
    if heard == rtu_question(read):
        return "no_answer", f"only our own question came back, the echo of an adapter; slave {read.slave} was not heard"
    head = bytes((read.slave, FUNCTIONS[read.table], read.size_bytes))
    start, whole_bytes = heard.find(head), len(head) + read.size_bytes + _CRC_BYTES
    if start >= 0 and len(heard) >= start + whole_bytes:
        return "bad_checksum", f"the CRC of the answer of slave {read.slave} does not hold: look at the cable"
    if start >= 0:
        return "no_answer", f"slave {read.slave} gave {len(heard) - start} of {whole_bytes} bytes: look at the cable"
    if heard[0] != read.slave and _is_answer(heard):
        return "wrong_sender", f"slave {heard[0]} answered a question to slave {read.slave}: two with one address?"
    return (
        "bad_frame",
        f"{len(heard)} bytes that are no answer of slave {read.slave}, {quote_bytes(heard)}: check baud, parity",
    )


def why_no_tcp(heard: bytes, read: ModbusRead, transaction: int) -> tuple[str, str]:
    """Do the same for TCP."""
    if not heard:
        return "no_answer", f"no answer of unit {read.slave}: is it there behind this address?"
    start = heard.find(struct.pack(">HH", transaction, 0))
    unit = heard[start + 6 : start + 7] if start >= 0 else b""
    if unit and unit[0] != read.slave:
        return (
            "wrong_sender",
            f"unit {unit[0]} answered a question to unit {read.slave}: write slave = {unit[0]} if it is meant",
        )
    return "bad_frame", f"{len(heard)} bytes that are no answer to {_asked(read)}, {quote_bytes(heard)}"


def exception_words(read: ModbusRead, code: int) -> str:
    """What a slave's refusal means, for a person."""
    words = _WORDS.get(code, "its manual says what that is")
    return f"slave {read.slave} refuses {_asked(read)} with exception {code}: {words}"


def sample(answers: Iterable[tuple[ModbusRead, bytes]]) -> bytes:
    """One round's answers as a frame of their own, stuffed with COBS and with a CRC: what a recording of it holds."""
    blocks = [
        BLOCK.pack(read.slave, FUNCTIONS[read.table], read.address, read.count) + data for read, data in answers
    ]  # fmt: skip
    body = b"".join(blocks)
    return b"\0" + stuff_cobs(body + _crc(body).to_bytes(_CRC_BYTES, "little")) + b"\0"


def fence(read: ModbusRead, reads: Iterable[ModbusRead]) -> ModbusRead:
    """A question to the same slave whose answer can be none to ``reads``: once it has come, nothing older will."""
    taken = {one.size_bytes for one in reads if (one.slave, one.table) == (read.slave, read.table)}
    asked = (read.model_copy(update={"count": count}) for count in range(1, 2001))
    return next(one for one in asked if one.size_bytes not in taken)


def _asked(read: ModbusRead) -> str:
    return f"{read.count} of {read.table} from {read.address} on"


def _holds(data: bytes, start: int, end: int) -> bool:
    return _crc(data[start:end]) == int.from_bytes(data[end : end + _CRC_BYTES], "little")


def _is_answer(heard: bytes) -> bool:
    """Whether it begins with a whole answer, or refusal, of whichever slave."""
    size = 3 if len(heard) > 1 and heard[1] & _EXCEPTION else 3 + (heard[2] if len(heard) > 2 else 0)  # noqa: PLR2004
    return len(heard) >= size + _CRC_BYTES and _holds(heard, 0, size)
