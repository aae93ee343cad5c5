"""The check at a frame's end as device.toml says it, a CRC or a plain sum; a wrong CRC cannot be loaded."""

import binascii
import zlib
from collections.abc import Callable
from functools import reduce
from operator import xor
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

CrcFunction = Callable[[bytes], int]

CHECK_INPUT = b"123456789"
"""What a check value is the CRC of, in every catalogue."""


class Parameters(NamedTuple):
    """The Rocksoft model, as Williams's "Painless guide" (1993) and the reveng catalogue write it."""

    width: int
    poly: int
    init: int
    refin: bool
    refout: bool
    xorout: int


CrcName = Literal[
    "crc-8", "crc-8/maxim-dow", "crc-8/nrsc-5", "crc-16/arc", "crc-16/ccitt-false", "crc-16/kermit", "crc-16/mcrf4xx",
    "crc-16/modbus", "crc-16/x-25", "crc-16/xmodem", "crc-32", "crc-32/mpeg-2", "crc-32c",
]  # fmt: skip

SumName = Literal["fletcher-16", "sum-8", "sum-16", "ubx", "xor-8"]

# By name: the parameters and the CRC of CHECK_INPUT. crc-8/maxim-dow is 1-Wire's, crc-8/nrsc-5 Sensirion's,
# crc-16/mcrf4xx MAVLink's, crc-16/x-25 HDLC's and PPP's.
CATALOGUE: dict[CrcName, tuple[Parameters, int]] = {
    "crc-8": (Parameters(8, 0x07, 0x00, refin=False, refout=False, xorout=0), 0xF4),
    "crc-8/maxim-dow": (Parameters(8, 0x31, 0x00, refin=True, refout=True, xorout=0), 0xA1),
    "crc-8/nrsc-5": (Parameters(8, 0x31, 0xFF, refin=False, refout=False, xorout=0), 0xF7),
    "crc-16/arc": (Parameters(16, 0x8005, 0x0000, refin=True, refout=True, xorout=0), 0xBB3D),
    "crc-16/ccitt-false": (Parameters(16, 0x1021, 0xFFFF, refin=False, refout=False, xorout=0), 0x29B1),
    "crc-16/kermit": (Parameters(16, 0x1021, 0x0000, refin=True, refout=True, xorout=0), 0x2189),
    "crc-16/mcrf4xx": (Parameters(16, 0x1021, 0xFFFF, refin=True, refout=True, xorout=0), 0x6F91),
    "crc-16/modbus": (Parameters(16, 0x8005, 0xFFFF, refin=True, refout=True, xorout=0), 0x4B37),
    "crc-16/x-25": (Parameters(16, 0x1021, 0xFFFF, refin=True, refout=True, xorout=0xFFFF), 0x906E),
    "crc-16/xmodem": (Parameters(16, 0x1021, 0x0000, refin=False, refout=False, xorout=0), 0x31C3),
    "crc-32": (Parameters(32, 0x04C11DB7, 0xFFFFFFFF, refin=True, refout=True, xorout=0xFFFFFFFF), 0xCBF43926),
    "crc-32/mpeg-2": (Parameters(32, 0x04C11DB7, 0xFFFFFFFF, refin=False, refout=False, xorout=0), 0x0376E6E7),
    "crc-32c": (Parameters(32, 0x1EDC6F41, 0xFFFFFFFF, refin=True, refout=True, xorout=0xFFFFFFFF), 0xE3069283),
}


def _sum_8(data: bytes) -> int:
    return sum(data) & 0xFF


def _sum_16(data: bytes) -> int:
    return sum(data) & 0xFFFF


def _xor_8(data: bytes) -> int:
    return reduce(xor, data, 0)


def _fletcher(modulus: int) -> CrcFunction:
    def run(data: bytes) -> int:
        first = second = 0
        for byte in data:
            first += byte
            second += first
        return second % modulus << 8 | first % modulus

    return run


# By name: the width in bits, the function and its value for CHECK_INPUT. fletcher-16 is of Fletcher, IEEE Trans. Comm. 30:1
# (1982), modulo 255; ubx is u-blox's, the same modulo 256 (RFC 1145), whose first sum goes first on the wire: "little".
SUMS: dict[SumName, tuple[int, CrcFunction, int]] = {
    "sum-8": (8, _sum_8, 0xDD),
    "sum-16": (16, _sum_16, 0x01DD),
    "xor-8": (8, _xor_8, 0x31),
    "fletcher-16": (16, _fletcher(255), 0x1EDE),
    "ubx": (16, _fletcher(256), 0x15DD),
}


class Crc(BaseModel):
    """Which check a frame ends with: ``name``, or a CRC's six parameters and ``check``; and the order of its own bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: CrcName | SumName | None = Field(
        default=None, description="One of the usual ones, in the spelling of this list."
    )
    width: Literal[8, 16, 24, 32] | None = Field(default=None, description="Bits of the CRC.")
    poly: int | None = Field(default=None, ge=0, description="Polynomial, highest power first, its leading 1 left out.")
    init: int | None = Field(default=None, ge=0, description="What the register holds at the start.")
    refin: bool | None = Field(default=None, description="Whether each byte goes in with its lowest bit first.")
    refout: bool | None = Field(default=None, description="Whether the register is reflected at the end.")
    xorout: int | None = Field(default=None, ge=0, description="What the register is XORed with at the end.")
    check: int | None = Field(
        default=None,
        ge=0,
        description="The CRC of the nine bytes '123456789', from the protocol's description: it proves the parameters.",
    )
    byte_order: Literal["little", "big"] | None = Field(
        default=None, description="Of the CRC itself on the wire; needed where it is longer than one byte."
    )

    @model_validator(mode="after")
    def _agrees_with_its_check_value(self) -> Self:
        given = (self.width, self.poly, self.init, self.refin, self.refout, self.xorout, self.check)
        if self.name is not None and any(value is not None for value in given):
            raise ValueError(f"name {self.name!r} and parameters both say the CRC; keep one")
        if self.name is None and any(value is None for value in given):
            raise ValueError("a CRC needs its name, or width, poly, init, refin, refout, xorout and check")
        if self.byte_order is None and self.size_bytes > 1:
            raise ValueError(
                "byte_order says how the CRC's own bytes stand on the wire, 'little' or 'big'; it is never guessed"
            )
        if self.name is not None:
            return self
        parameters = self.parameters
        if max(parameters.poly, parameters.init, parameters.xorout) >> parameters.width:
            raise ValueError(f"poly, init or xorout has more than the {parameters.width} bits of width")
        found = crc_function(parameters)(CHECK_INPUT)
        if self.check is not None and found != self.check:
            raise ValueError(
                f"check is 0x{self.check:X}, and these parameters give 0x{found:X} for '123456789'; one of them is wrong"
            )
        return self

    @property
    def size_bytes(self) -> int:
        """How many bytes it takes on the wire."""
        return (SUMS[self.name][0] if self.name in SUMS else self.parameters.width) // 8

    def function(self) -> CrcFunction:
        """Give it as a function of bytes."""
        return SUMS[self.name][1] if self.name in SUMS else crc_function(self.parameters)

    @property
    def parameters(self) -> Parameters:
        """The six numbers of a CRC, also where a name says them. Raises KeyError for a sum, which has none."""
        if self.name is not None:
            return CATALOGUE[self.name][0]  # type: ignore[index] # a sum is none
        return Parameters(
            self.width or 0, self.poly or 0, self.init or 0, bool(self.refin), bool(self.refout), self.xorout or 0
        )


def crc_function(parameters: Parameters) -> CrcFunction:
    """Give the CRC as a function of bytes: Python's own in C where they are equal, else a table of 256 entries."""
    width, poly, init, refin, refout, xorout = parameters
    if parameters == CATALOGUE["crc-32"][0]:
        return zlib.crc32
    if (width, poly, refin, refout) == (16, 0x1021, False, False):
        return lambda data: binascii.crc_hqx(data, init) ^ xorout
    mask = (1 << width) - 1
    shift = width - 8
    # A register that is kept reflected needs no reflection of each byte.
    table = [_entry(byte, width, poly, refin=refin) for byte in range(256)]
    start = _reflect(init, width) if refin else init

    def reflected(data: bytes) -> int:
        register = start
        for byte in data:
            register = (register >> 8) ^ table[(register ^ byte) & 0xFF]
        return register

    def plain(data: bytes) -> int:
        register = start
        for byte in data:
            register = ((register << 8) & mask) ^ table[(register >> shift) ^ byte]
        return register

    run = reflected if refin else plain
    if refin == refout:
        return lambda data: run(data) ^ xorout
    return lambda data: _reflect(run(data), width) ^ xorout


def _entry(byte: int, width: int, poly: int, *, refin: bool) -> int:
    """What eight shifts make of one byte at the register's end where bytes come in."""
    if refin:
        register, reversed_poly = byte, _reflect(poly, width)
        for _ in range(8):
            register = (register >> 1) ^ (reversed_poly if register & 1 else 0)
        return register
    register, top = byte << (width - 8), 1 << (width - 1)
    for _ in range(8):
        register = ((register << 1) & ((1 << width) - 1)) ^ (poly if register & top else 0)
    return register


def _reflect(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)
