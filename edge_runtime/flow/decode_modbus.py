"""One round of Modbus answers -> one Reading, register by register; it guesses no word order."""

import struct
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Getter, bound_fields, make_assemble
from edge_runtime.flow.decode_struct import binary_numbers
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.modbus import BLOCK, TABLES
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import nearest, quote_names
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.modbus import FUNCTIONS, REGISTERS, ModbusRegister, RegisterType, size_bytes
from edge_runtime.spec.payload import ModbusDecode
from edge_runtime.spec.reading import Reading, Rejection

_CODES: dict[RegisterType, str] = {
    "bool": ">H", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q", "uint64": ">Q",
    "float32": ">f", "float64": ">d",
}  # fmt: skip


class _Block(NamedTuple):
    function: int
    address: int
    data: bytes


class ModbusDecoder(Decoder):
    """Reads the frames that `flow.modbus.sample` makes, and remembers nothing."""

    def __init__(
        self, decode: ModbusDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Place the registers; raises ConfigurationError for a bound field that is none, or is read in a way it cannot be."""
        self._registers = decode.registers
        self._places = {register.name: place for place, register in enumerate(decode.registers)}
        for field, purpose in bound_fields(decode, channels).items():
            if field not in self._places:
                todo = nearest(field, self._places) or "correct the binding, or list it in decode.registers"
                raise ConfigurationError(
                    subject=f"field {field!r} ({purpose})", found=f"registers {quote_names(self._places)}",
                    expected="it among decode.registers", todo=todo,
                )  # fmt: skip
        for name, binding in channels.items():
            if binding.read not in {"number", "text"} or binding.grid_field is not None:
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found=repr(binding.read), expected="'number' or 'text', and no grid",
                    todo="each register is a number of its own",
                )  # fmt: skip
        self._assemble = make_assemble(decode, channels, self._getter_of, binary_numbers("register"), files)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one round."""
        blocks = _blocks(frame)
        row = [None if blocks is None else _value(blocks, register) for register in self._registers]
        for register, value in zip(self._registers, row, strict=True):
            if value is None:
                found = f"no {register.table} {register.address} of slave {register.slave} in {len(frame)} bytes"
                todo = "a recording must be of these registers: record it again"
                return Rejection(
                    "wrong_size", f"register {register.name!r}", found, "every one of decode.registers", todo
                )
        return self._assemble(row)

    def _getter_of(self, name: str) -> Getter:
        place = self._places[name]
        register = self._registers[place]
        if not register.missing and register.scale == 1:
            return itemgetter(place)
        missing, scale = frozenset(register.missing), _scale(register.scale)

        def scaled(row: list[Any]) -> float | None:
            value = row[place]
            return None if value in missing else scale(value)

        return scaled


def _blocks(frame: bytes) -> dict[int, list[_Block]] | None:
    """The answers by slave; ``None`` where the frame holds something else."""
    blocks: dict[int, list[_Block]] = {}
    place = 0
    while place < len(frame):
        if place + BLOCK.size > len(frame):
            return None
        slave, function, address, count = BLOCK.unpack_from(frame, place)
        if function not in TABLES or not count:
            return None
        begin = place + BLOCK.size
        place = begin + size_bytes(TABLES[function], count)
        if place > len(frame):
            return None
        blocks.setdefault(slave, []).append(_Block(function, address, frame[begin:place]))
    return blocks


def _value(blocks: Mapping[int, list[_Block]], register: ModbusRegister) -> float | None:
    """The number as it was sent, ``None`` where no answer holds all of it."""
    for block in blocks.get(register.slave, ()):
        at = register.address - block.address
        if block.function != FUNCTIONS[register.table] or at < 0:
            continue
        if register.table in {"coil", "discrete"}:
            if at < 8 * len(block.data):
                return block.data[at // 8] >> at % 8 & 1
            continue
        words = block.data[2 * at : 2 * (at + REGISTERS[register.type])]
        if len(words) == 2 * REGISTERS[register.type]:
            return _number_of(words, register)
    return None


def _number_of(words: bytes, register: ModbusRegister) -> float:
    if register.word_order == "little":
        words = b"".join(words[at : at + 2] for at in range(len(words) - 2, -1, -2))
    value: float = struct.unpack(_CODES[register.type], words)[0]
    return value if register.bit is None else int(value) >> register.bit & 1


def _scale(factor: float) -> Callable[[float], float]:
    """Multiply; by a tenth as a division by ten, whose result is the decimal number that was meant."""
    whole = round(1 / factor)
    if whole and abs(whole * factor - 1) < 1e-12:  # noqa: PLR2004 (a few units in the last place)
        return lambda value: value / whole
    return lambda value: float(value * factor)
