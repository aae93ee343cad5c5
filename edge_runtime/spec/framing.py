"""Where one frame ends and the next begins, as device.toml says it; it cuts nothing itself."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from edge_runtime.spec.crc import Crc

BINARY_KINDS = frozenset({"cobs", "slip", "packet", "block"})
"""Framings whose frames may hold any byte."""

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)

MaxBytes = Annotated[
    int,
    Field(
        ge=1,
        le=16_777_216,
        description="Longest line or frame in bytes. A longer one is refused as too_long and skipped to its end: without"
        " a limit, a sender at the wrong baud rate, which never sends an end, would fill the memory. A picture or a"
        " spectrum in one line needs more than the default: 96 x 96 x 3 bytes as base64 are 36864 bytes.",
    ),
]
CrcOption = Annotated[
    Crc | None, Field(description="The CRC over the whole frame, at its end; without this key the frame has none.")
]


class LinesFraming(BaseModel):
    """One frame is one line of text."""

    model_config = _FROZEN

    kind: Literal["lines"] = "lines"
    max_bytes: MaxBytes = 4096
    line_end: Literal["any", "lf", "cr"] = Field(
        default="any",
        description="What ends a line: 'lf', 'cr', or with 'any' either of them and both together. Empty lines are no"
        " frames.",
    )


class NmeaFraming(BaseModel):
    """One frame is one NMEA 0183 sentence, from behind its '$' or '!' to before its '*'."""

    model_config = _FROZEN

    kind: Literal["nmea"]
    max_bytes: MaxBytes = 1024
    checksum: Literal["required", "if_present"] = Field(
        default="required",
        description="A checksum that is there must always hold; with 'if_present' a sentence may also have none.",
    )


class CobsFraming(BaseModel):
    """One frame is what stands between two zero bytes, stuffed as COBS says (Cheshire and Baker, 1999)."""

    model_config = _FROZEN

    kind: Literal["cobs"]
    max_bytes: MaxBytes = 4096
    crc: CrcOption = None


class SlipFraming(BaseModel):
    """One frame is what stands between two END bytes, with ESC as RFC 1055 says."""

    model_config = _FROZEN

    kind: Literal["slip"]
    max_bytes: MaxBytes = 4096
    crc: CrcOption = None


class LengthField(BaseModel):
    """The number in a packet that says how long it is."""

    model_config = _FROZEN

    type: Literal["uint8", "uint16", "uint32"] = Field(description="How it is written.")
    byte_order: Literal["little", "big"] | None = Field(
        default=None, description="Of the length itself; needed where it is longer than one byte."
    )
    after_bytes: int = Field(
        default=0,
        ge=0,
        le=64,
        description="How many bytes, a message's type for example, stand between sync and length.",
    )
    counts: Literal["payload", "payload_and_crc", "packet"] = Field(
        default="payload",
        description="What it counts: the bytes behind it without the CRC, with the CRC, or the whole packet, sync and"
        " CRC included.",
    )

    @model_validator(mode="after")
    def _has_an_order(self) -> Self:
        if self.byte_order is None and self.type != "uint8":
            raise ValueError(
                f"byte_order says how the bytes of a {self.type} stand, 'little' or 'big'; it is never guessed"
            )
        return self


class PacketFraming(BaseModel):
    """One frame begins with sync bytes, has a known length and ends with a CRC."""

    model_config = _FROZEN

    kind: Literal["packet"]
    sync: str = Field(
        min_length=2,
        max_length=48,
        description="The bytes every packet begins with, in hexadecimal, for example 'aa 55'.",
    )
    length: LengthField | None = Field(default=None, description="The length field; or else payload_bytes.")
    payload_bytes: int | None = Field(
        default=None, ge=1, le=65_536, description="Where all packets are equally long: the bytes between sync and CRC."
    )
    max_bytes: MaxBytes = 4096
    crc: Crc = Field(
        description="The CRC at the end; without one, sync bytes within the data would begin false packets."
    )
    crc_covers: Literal["payload", "after_sync", "packet"] = Field(
        description="What the CRC is taken over: the bytes behind the length field, all behind the sync bytes, or the"
        " sync bytes too."
    )

    @field_validator("sync")
    @classmethod
    def _are_bytes(cls, value: str) -> str:
        try:
            bytes.fromhex(value)
        except ValueError:
            raise ValueError("the sync bytes in hexadecimal, two digits each, for example 'aa 55'") from None
        return value

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.length is None) == (self.payload_bytes is None):
            raise ValueError("give exactly one of length and payload_bytes")
        if self.payload_bytes is not None and self.payload_bytes > self.max_bytes:
            raise ValueError(f"payload_bytes {self.payload_bytes} is more than max_bytes {self.max_bytes}")
        return self


class BlockFraming(BaseModel):
    """One frame is the data of an IEEE 488.2 definite length block, as SCPI instruments send curves."""

    model_config = _FROZEN

    kind: Literal["block"]
    max_bytes: MaxBytes = 65_536
    terminator: Literal["lf", "crlf", "cr", "none"] = Field(
        default="lf",
        description="What follows the data. It alone tells that a byte was lost within them: a block has no checksum.",
    )


Framing = Annotated[
    LinesFraming | NmeaFraming | CobsFraming | SlipFraming | PacketFraming | BlockFraming, Field(discriminator="kind")
]
"""Chosen by ``kind``; without it, lines."""

MODBUS_FRAMING = CobsFraming(kind="cobs", max_bytes=65_536, crc=Crc(name="crc-16/modbus", byte_order="little"))
"""How one round of a Modbus source's answers is kept together, in a queue and in a recording."""
