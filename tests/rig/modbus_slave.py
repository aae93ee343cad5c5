"""Modbus slaves written from the specification, sharing no code with the runtime: requests in, answers out."""

import struct
from dataclasses import dataclass, field

EXCEPTION_FUNCTION, EXCEPTION_ADDRESS, EXCEPTION_VALUE = 1, 2, 3


def crc16(data: bytes) -> bytes:
    """The CRC of a serial frame, bit by bit, low byte first ("MODBUS over Serial Line" V1.02, appendix B)."""
    register = 0xFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xA001 if register & 1 else 0)
    return struct.pack("<H", register)


@dataclass
class Slave:
    """One slave's tables: address -> register of 16 bits, or bit. What is not there it refuses."""

    holding: dict[int, int] = field(default_factory=dict)
    inputs: dict[int, int] = field(default_factory=dict)
    coils: dict[int, int] = field(default_factory=dict)
    discretes: dict[int, int] = field(default_factory=dict)

    def answer(self, pdu: bytes) -> bytes:
        """Answer one protocol data unit."""
        function, address, count = struct.unpack(">BHH", pdu)
        table = {1: self.coils, 2: self.discretes, 3: self.holding, 4: self.inputs}.get(function)
        if table is None:
            return bytes((function | 0x80, EXCEPTION_FUNCTION))
        if not 1 <= count <= (2000 if function <= 2 else 125):
            return bytes((function | 0x80, EXCEPTION_VALUE))
        values = [table.get(address + at) for at in range(count)]
        if None in values:
            return bytes((function | 0x80, EXCEPTION_ADDRESS))
        if function <= 2:
            bits = sum(bool(value) << at for at, value in enumerate(values))
            data = bits.to_bytes((count + 7) // 8, "little")
        else:
            data = struct.pack(f">{count}H", *values)
        return bytes((function, len(data))) + data


def rtu_answer(slaves: dict[int, Slave], question: bytes) -> bytes:
    """What the bus answers to one request frame: nothing where no slave has the address, or the CRC does not hold."""
    slave = slaves.get(question[0])
    if slave is None or crc16(question[:-2]) != question[-2:]:
        return b""
    body = question[:1] + slave.answer(question[1:-2])
    return body + crc16(body)


def tcp_answer(slaves: dict[int, Slave], question: bytes) -> bytes:
    """The same over TCP."""
    transaction, protocol, length, unit = struct.unpack(">HHHB", question[:7])
    assert (protocol, length) == (0, len(question) - 6)
    slave = slaves.get(unit)
    if slave is None:
        return b""
    pdu = slave.answer(question[7:])
    return struct.pack(">HHHB", transaction, 0, len(pdu) + 1, unit) + pdu
