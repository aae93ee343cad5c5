"""How a sender's bytes are read, as device.toml says it: formats, fields, time; it holds no default that would guess a meaning."""

import datetime as dt
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from edge_runtime.spec.binding import FieldName, PackedDtype
from edge_runtime.spec.modbus import ModbusRegister

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)

Encoding = Literal["utf-8", "ascii", "latin-1", "cp1252", "utf-16-le", "utf-16-be"]
"""The character encodings a decoder knows; the list is closed and nothing is detected from the bytes."""

DecimalMark = Literal[".", ","]

BalancePreset = Literal["mt-sics", "sartorius-16", "sartorius-22", "a&d"]
"""Balances whose lines are known."""

NoValue = Literal["unstable", "overload", "underload", "not_ready"]
"""Why an instrument says that it has no value now."""

_PROBE = dt.datetime(2031, 11, 23, 17, 5, 9, tzinfo=dt.UTC)


class TimeField(BaseModel):
    """The payload's own time, and how it is written."""

    model_config = _FROZEN

    field: FieldName = Field(description="The column or field that holds the time.")
    format: (
        Literal["iso8601", "unix_s", "unix_ms", "unix_us", "unix_ns"]
        | Annotated[str, StringConstraints(pattern="^%", max_length=100)]
    ) = Field(
        description="iso8601 with date and time of day; a count since 1970-01-01T00:00:00Z in the unit named; or a"
        " strptime pattern that begins with '%', for example '%d.%m.%Y %H:%M:%S'. Digits beyond the nanosecond are"
        " cut off. Send unix times with fractions as text or as integers of a finer unit: a JSON number has about 16"
        " digits."
    )
    utc_offset_minutes: int | None = Field(
        default=None,
        gt=-1440,
        lt=1440,
        description="Minutes to the east of UTC that a time without a zone is in. Without this key such a time is"
        " refused as bad_time; a time that names its zone always uses its own.",
    )
    not_before: dt.date | None = Field(
        default=None,
        description="The first day (UTC) that can be true. An earlier time is bad_time: a device without a clock of its"
        " own begins in 1970 until it is told the time.",
    )
    when_bad: Literal["refuse", "arrival"] = Field(
        default="refuse",
        description="What follows from a time that is absent, unreadable or before not_before: the sample is refused, or"
        " its time of arrival counts.",
    )

    @field_validator("format")
    @classmethod
    def _keeps_the_date(cls, value: str) -> str:
        """Refuse a strptime pattern that loses the year, the day or the half of the day."""
        if not value.startswith("%"):
            return value
        if "%Z" in value:
            raise ValueError("'%Z' reads a zone's name without its offset; use '%z' or utc_offset_minutes")
        try:
            back = dt.datetime.strptime(_PROBE.strftime(value), value)  # noqa: DTZ007 (only its date is looked at)
        except ValueError as error:
            raise ValueError(f"not a pattern that strptime can read: {error}") from error
        if back.date() != _PROBE.date() or back.hour not in (0, _PROBE.hour):
            raise ValueError("the pattern must give year, month and day, and '%H' or '%I' with '%p' for the hour")
        return value


class StatusField(BaseModel):
    """The sender's own word on whether the sample counts."""

    model_config = _FROZEN

    field: FieldName = Field(description="The column or field that holds the status.")
    accept: tuple[str, ...] = Field(
        min_length=1,
        description="The texts that let a sample pass, exactly as sent, blanks around them ignored; any other, and none"
        " at all, is refused as bad_status. A JSON number or truth value is compared as it is written: '0', 'true'.",
    )


TimeOption = Annotated[
    TimeField | None,
    Field(description="The payload's own time; without it the time of arrival counts."),
]
StreamOption = Annotated[
    FieldName | None,
    Field(description="The field that names the stream, where one link carries several; each has its own window."),
]
StatusOption = Annotated[
    StatusField | None,
    Field(description="The field in which the sender says whether a sample counts."),
]
CarryOption = Annotated[
    tuple[FieldName, ...],
    Field(description="Fields that pass through to the answer untouched, such as a sample's id or the operator."),
]
EncodingOption = Annotated[
    Encoding,
    Field(
        description="The sender's character encoding; it is never guessed. A byte order mark before a line is dropped."
        " utf-16 needs a link that loses no byte, such as a file."
    ),
]
DecimalOption = Annotated[
    DecimalMark,
    Field(description="The decimal mark. The other mark is never taken for a thousands separator."),
]


class CsvDecode(BaseModel):
    """One line is one row of separated cells; cells may be quoted as RFC 4180 says, but hold no line end."""

    model_config = _FROZEN

    format: Literal["csv"]
    columns: Literal["header"] | tuple[FieldName, ...] = Field(
        description="'header' where the first line names the columns, as any later line that repeats it does; or the"
        " names in order, where the sender gives none."
    )
    separator: str = Field(default=",", min_length=1, max_length=1, description="The one character between two cells.")
    decimal: DecimalOption = "."
    encoding: EncodingOption = "utf-8"
    missing: tuple[str, ...] = Field(
        default=("",),
        description="Cell texts that mean 'no value', blanks around them ignored, for example ['', 'NAN', '-7999'].",
    )
    comment: str | None = Field(
        default=None, min_length=1, max_length=10, description="A line that begins with this text is no sample."
    )
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()

    @model_validator(mode="after")
    def _unambiguous(self) -> Self:
        if self.separator == self.decimal:
            raise ValueError(f"separator and decimal are both {self.decimal!r}; a cell could not be told from a number")
        if self.separator.isalnum() or self.separator in '"+-._\r\n\0\ufeff':
            raise ValueError(f"separator {self.separator!r} may stand inside a cell; use one such as ',' ';' or a tab")
        if self.columns != "header":
            _check_columns(self.columns)
        return self


def _check_columns(columns: tuple[str, ...]) -> None:
    if not columns:
        raise ValueError("columns names none; write 'header' or the names in order")
    for name in columns:
        if name != name.strip():
            raise ValueError(f"column {name!r} has blanks around it; cells are read without them")
        if columns.count(name) > 1:
            raise ValueError(f"column {name!r} stands twice")


class JsonDecode(BaseModel):
    """One line is one JSON object; numbers are JSON numbers, never texts. Of a doubled key the last one counts."""

    model_config = _FROZEN

    format: Literal["json"]
    encoding: EncodingOption = "utf-8"
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()


class PatternDecode(BaseModel):
    """One line follows a fixed picture, as balances and meters print: ``S {state:word} {mass:number} {unit:word}``."""

    model_config = _FROZEN

    format: Literal["pattern"]
    pattern: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Literal text and fields: {name:number}, {name:int}, {name:word} (no blanks inside) and, as the"
        " last, {name:text}. White space matches one or more blanks; '{{' and '}}' are braces. The whole line must"
        " match, blanks at its ends ignored.",
    )
    refuse: dict[NoValue, tuple[Annotated[str, StringConstraints(min_length=1, max_length=1000)], ...]] = Field(
        default={},
        description="For each of unstable, overload, underload and not_ready the patterns of lines by which the instrument"
        " says so; they need no field.",
    )
    preset: BalancePreset | None = Field(
        default=None,
        description="Instead of pattern and refuse: those of a known balance. Its fields are mass and unit.",
    )
    unverified_digits: Literal["refuse", "keep", "drop"] = Field(
        default="refuse",
        description="What to make of digits in brackets, 12.34[5] g, which a balance for legal use shows but is not"
        " verified for: refuse the line as unverified, keep them as the digits they are, or drop them.",
    )
    decimal: DecimalOption = "."
    encoding: EncodingOption = "utf-8"
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()

    @model_validator(mode="after")
    def _one_picture(self) -> Self:
        if (self.pattern is None) == (self.preset is None):
            raise ValueError("give exactly one of pattern and preset")
        if self.preset is not None and self.refuse:
            raise ValueError(f"preset {self.preset!r} has its own refuse; write pattern and refuse instead")
        return self


class StructField(BaseModel):
    """One field of a binary frame, or several numbers of one type behind each other."""

    model_config = _FROZEN

    name: FieldName | None = Field(default=None, description="What bindings call it; without a name it is passed over.")
    type: PackedDtype = Field(description="What its bytes are.")
    count: int | None = Field(
        default=None, ge=1, le=65_536, description='How many numbers, for a channel with read = "list"; without it one.'
    )
    missing: tuple[int | float, ...] = Field(
        default=(),
        description="Numbers that mean 'no value', as they are sent, for example [-32768]. NaN is refused anyway.",
    )

    @model_validator(mode="after")
    def _missing_is_of_one(self) -> Self:
        if self.missing and self.count is not None:
            raise ValueError("missing belongs to a single number; an array is there as a whole or not at all")
        return self


class StructDecode(BaseModel):
    """One frame is a fixed layout of binary numbers without gaps, as a C struct that is packed."""

    model_config = _FROZEN

    format: Literal["struct"]
    byte_order: Literal["little", "big"] = Field(description="Of all its numbers; most microcontrollers are little.")
    fields: tuple[StructField, ...] = Field(
        min_length=1,
        max_length=1000,
        description="Every byte of the frame, in order; a frame of another size is refused.",
    )
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()

    @model_validator(mode="after")
    def _each_name_once(self) -> Self:
        names = [field.name for field in self.fields if field.name is not None]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"field {name!r} stands twice")
        return self

    @property
    def encoding(self) -> Encoding:
        """What a framing of text would have to know; bytes as they are."""
        return "latin-1"


class NmeaDecode(BaseModel):
    """One sentence of NMEA 0183; a field is its number, counted from 1 behind the address, as descriptions do."""

    model_config = _FROZEN

    format: Literal["nmea"]
    sentence: Annotated[str, StringConstraints(pattern="^[A-Z][A-Z0-9]{2,15}$")] = Field(
        description="The sentence that is a sample: 'MWV' from any talker, 'WIMWV' from one, or a maker's own, 'PGRME'."
        " All others are passed over and not counted."
    )
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()

    @property
    def encoding(self) -> Encoding:
        """NMEA 0183 is ASCII."""
        return "ascii"


class ScpiDecode(BaseModel):
    """One line is the answer of a SCPI instrument: numbers and words with commas between."""

    model_config = _FROZEN

    format: Literal["scpi"]
    fields: tuple[FieldName, ...] = Field(
        description="A name for each value of the answer, in order. 9.9E37 is refused as overload, 9.91E37 as not_ready."
    )
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()

    @model_validator(mode="after")
    def _names(self) -> Self:
        _check_columns(self.fields)
        return self

    @property
    def encoding(self) -> Encoding:
        """Its texts may hold any byte, such as a degree sign."""
        return "latin-1"


class ModbusDecode(BaseModel):
    """One frame is one round of a Modbus source through all of these registers."""

    model_config = _FROZEN

    format: Literal["modbus"]
    registers: tuple[ModbusRegister, ...] = Field(
        min_length=1, max_length=1000, description="Every number of a sample; neighbours are read in one request."
    )
    time: TimeOption = None
    stream: StreamOption = None
    status: StatusOption = None
    carry: CarryOption = ()

    @model_validator(mode="after")
    def _each_name_once(self) -> Self:
        names = [register.name for register in self.registers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"register {name!r} stands twice")
        return self

    @property
    def encoding(self) -> Encoding:
        """What a framing of text would have to know; bytes as they are."""
        return "latin-1"


class SenmlDecode(BaseModel):
    """One frame is one SenML pack (RFC 8428): names, values, units and times as it says them itself."""

    model_config = _FROZEN

    format: Literal["senml+json", "senml+cbor"] = Field(description="As the media type ends.")
    stream: Literal["bn"] | None = Field(
        default=None,
        description="bn: each base name is a stream of its own, and a channel's field is the name behind it (n). Without"
        " this key a field is the whole name, bn followed by n.",
    )

    @property
    def encoding(self) -> Encoding:
        """JSON's own."""
        return "utf-8"

    @property
    def time(self) -> None:
        """None of its own: a pack has its times where RFC 8428 says."""
        return None

    @property
    def status(self) -> None:
        """SenML has none."""
        return None

    @property
    def carry(self) -> tuple[FieldName, ...]:
        """Nothing passes through."""
        return ()


class SparkplugDecode(BaseModel):
    """One frame is one message of Sparkplug B: births name the metrics, and data may call them by number only."""

    model_config = _FROZEN

    format: Literal["sparkplug"]
    of: Literal["devices", "node"] | Annotated[tuple[FieldName, ...], Field(min_length=1, max_length=1000)] = Field(
        default="devices",
        description="Whose metrics the channels are: those of every device, of the devices named, or of the edge nodes"
        " themselves. Each device, or node, is a stream of its own.",
    )
    timestamps: Literal["metric", "payload"] = Field(
        default="metric",
        description="metric: the metrics of one payload that have one time are one sample. payload: all of a payload are one"
        " sample of the payload's time, for senders that stamp each metric as they come to it.",
    )
    historical: Literal["refuse", "carry"] = Field(
        default="refuse",
        description="What was measured earlier and is sent late: refused as historical, or taken at its own time, with"
        " 'historical' in the answer.",
    )
    quality: Literal["refuse", "carry"] = Field(
        default="refuse",
        description="A value whose quality is not 192, good: the sample is refused as bad_quality, or it is taken, with the"
        " lowest code of its values as 'quality' in the answer.",
    )
    rebirth: Literal["ask", "never"] = Field(
        default="ask",
        description="Where births are not known, or a message was lost: the edge node is asked to send them again, by the"
        " command 'Node Control/Rebirth', each 30 s at most; or nothing is ever written.",
    )

    @property
    def encoding(self) -> Encoding:
        """Texts in Protocol Buffers are UTF-8."""
        return "utf-8"

    @property
    def time(self) -> None:
        """None of its own: metrics and payloads have their times."""
        return None

    @property
    def stream(self) -> None:
        """The topic names it."""
        return None

    @property
    def status(self) -> None:
        """Quality is a metric's own."""
        return None

    @property
    def carry(self) -> tuple[FieldName, ...]:
        """What a sample was taken in spite of."""
        return tuple(key for key in ("historical", "quality") if getattr(self, key) == "carry")


Decode = Annotated[
    CsvDecode
    | JsonDecode
    | PatternDecode
    | StructDecode
    | NmeaDecode
    | ScpiDecode
    | ModbusDecode
    | SenmlDecode
    | SparkplugDecode,
    Field(discriminator="format"),
]
"""How one frame is read, chosen by ``format``."""
