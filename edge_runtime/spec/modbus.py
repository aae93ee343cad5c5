"""Which registers of which Modbus slaves make a sample, as device.toml says it; it asks nobody."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, model_validator

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)

Table = Literal["coil", "discrete", "holding", "input"]
RegisterType = Literal["bool", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]

FUNCTIONS: dict[Table, int] = {"coil": 1, "discrete": 2, "holding": 3, "input": 4}
"""Modbus Application Protocol 1.1b3, section 6: the function that reads each table."""
REGISTERS: dict[RegisterType, int] = {
    "bool": 1, "int16": 1, "uint16": 1, "int32": 2, "uint32": 2, "float32": 2, "int64": 4, "uint64": 4, "float64": 4,
}  # fmt: skip
"""How many registers, or coils, a number takes."""
_MOST = {"coil": 2000, "discrete": 2000, "holding": 125, "input": 125}
_BITS = {"coil", "discrete"}

SlaveAddress = Annotated[
    int,
    Field(ge=0, le=255, description="The slave's address, 1 to 247; over TCP the unit identifier, often 0, 1 or 255."),
]
RegisterAddress = Annotated[
    int,
    Field(ge=0, le=65_535, description="As it is on the wire, from 0: register 40101 of many a manual is holding 100."),
]


class ModbusRegister(BaseModel):
    """One number of a slave, in one register or several, or a coil."""

    model_config = _FROZEN

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(description="What bindings call it.")
    slave: SlaveAddress = 1
    table: Table = Field(description="coil and discrete hold bits, holding and input registers of 16 bits.")
    address: RegisterAddress
    type: RegisterType = Field(description="What it holds; of coil and discrete 'bool'.")
    word_order: Literal["big", "little"] | None = Field(
        default=None,
        description="Of a number in several registers: which comes first, the high one ('big') or the low one. It is never"
        " guessed. Within a register the high byte comes first, as Modbus has it.",
    )
    bit: int | None = Field(
        default=None, ge=0, le=15, description="Of a 'bool' in a register: which bit, the lowest is 0."
    )
    scale: FiniteFloat = Field(default=1.0, description="What the number is multiplied with: 0.1 for tenths.")
    missing: tuple[int | float, ...] = Field(
        default=(), description="Numbers that mean 'no value', as they are sent, before scale: [-32768, 32767]."
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        is_bit = self.table in _BITS
        if is_bit and self.type != "bool":
            raise ValueError(f"{self.table} holds bits: type 'bool', not {self.type!r}")
        if (self.bit is not None) != (self.type == "bool" and not is_bit):
            raise ValueError("bit says which bit of a register a 'bool' is: it belongs to that, and only to it")
        if (self.word_order is not None) != (REGISTERS[self.type] > 1):
            raise ValueError(f"word_order says how several registers stand: {self.type} has {REGISTERS[self.type]}")
        if self.address + REGISTERS[self.type] > 65_536:  # noqa: PLR2004 (as many as an address can tell apart)
            raise ValueError(f"a {self.type} at address {self.address} goes on beyond 65535")
        if self.scale == 0:
            raise ValueError("scale = 0 would make every reading the same")
        return self


class ModbusRead(BaseModel):
    """One request: neighbouring registers of one table of one slave."""

    model_config = _FROZEN

    slave: SlaveAddress
    table: Table
    address: RegisterAddress
    count: int = Field(ge=1, le=2000, description="How many registers or bits.")

    @property
    def size_bytes(self) -> int:
        """How many bytes of data the answer has."""
        return size_bytes(self.table, self.count)


class Modbus(BaseModel):
    """Registers that are asked for again and again: one sample is one round through all of them."""

    model_config = _FROZEN

    mode: Literal["rtu", "tcp"] = Field(
        description="rtu: on a serial line, or through a server that hands its bytes on; tcp: Modbus TCP, mostly port 502."
    )
    every_s: float = Field(ge=0.1, le=86_400, allow_inf_nan=False, description="Seconds from one sample to the next.")
    timeout_s: float = Field(
        default=1.0, ge=0.1, le=600, allow_inf_nan=False, description="How long the answer of one slave may take."
    )
    read: tuple[ModbusRead, ...] = Field(default=(), description="Leave it out: it follows from decode.registers.")


def size_bytes(table: Table, count: int) -> int:
    """How many bytes ``count`` of a table's bits or registers take in an answer."""
    return (count + 7) // 8 if table in _BITS else 2 * count


def reads_of(registers: Iterable[ModbusRegister]) -> tuple[ModbusRead, ...]:
    """The requests that read these registers and no other: a slave refuses a whole request for one that it has not."""
    spans = sorted((one.slave, one.table, one.address, one.address + REGISTERS[one.type]) for one in registers)
    joined: list[tuple[int, Table, int, int]] = []
    for slave, table, begin, end in spans:
        last = joined[-1] if joined else None
        if last is not None and last[:2] == (slave, table) and begin <= last[3] and end - last[2] <= _MOST[table]:
            joined[-1] = (slave, table, last[2], max(end, last[3]))
        else:
            joined.append((slave, table, begin, end))
    return tuple(
        ModbusRead(slave=slave, table=table, address=begin, count=end - begin) for slave, table, begin, end in joined
    )
