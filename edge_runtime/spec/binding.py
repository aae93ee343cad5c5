"""How a sender's bytes become named values, as device.toml says it; it holds no default that would guess a meaning."""

import datetime as dt
import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, model_validator

from edge_runtime.spec.topic import TopicFilter
from edge_runtime.spec.units import Vocabulary

Read = Literal["number", "numeric_text", "text", "list", "columns", "base64", "file", "degrees_minutes"]
"""How a channel's value is written in a payload."""

PackedDtype = Literal["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64"]
"""What base64 text or a named file may hold, little-endian; the list is closed and nothing is detected from the bytes."""


_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)

FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Correction(BaseModel):
    """One instrument's own correction, ``y = a * x + b`` in the sender's unit, before any conversion."""

    model_config = _FROZEN

    a: float = Field(default=1.0, allow_inf_nan=False, description="Slope, without unit; not 0.")
    b: float = Field(default=0.0, allow_inf_nan=False, description="Offset, in the sender's unit.")
    date: dt.date = Field(description="The day the correction was determined, from its certificate.")
    expires: dt.date | None = Field(default=None, description="The last day it may be used without a warning.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if math.isclose(self.a, 0.0, abs_tol=1e-300):
            raise ValueError("a = 0 would make every reading the same; give the slope of the certificate")
        if self.expires is not None and self.expires < self.date:
            raise ValueError(f"expires {self.expires} lies before date {self.date}")
        return self


class ChannelBinding(BaseModel):
    """Where one channel's value stands in a payload, and which unit the sender gives it in."""

    model_config = _FROZEN

    field: FieldName = Field(
        description="The CSV column, the field of the pattern, the metric of Sparkplug, or for JSON a top-level key or,"
        " beginning with '/', a JSON Pointer (RFC 6901)."
    )
    unit: str | None = Field(
        default=None,
        min_length=1,
        description="The sender's unit, in the spelling of the vocabulary. Without unit and unit_field the unit is"
        " undeclared, and the bundle's policy says what follows.",
    )
    unit_field: FieldName | None = Field(
        default=None,
        description="The field in which the payload itself names the unit, as a balance does whose unit is switched on"
        " its front panel. Alone: each value is converted from the unit it names. With unit: a sample that names any"
        " other is refused.",
    )
    unit_map: Annotated[dict[FieldName, FieldName], Field(min_length=1)] | None = Field(
        default=None,
        description="What the texts of unit_field mean, each a unit in vocabulary: { C = 'Cel', F = '[degF]' }. Any other"
        " text is refused as unknown_unit.",
    )
    topic: TopicFilter | None = Field(
        default=None,
        description="Of an mqtt source: the topic whose messages bring this channel, with '+', {device} and {line}; where"
        " one channel has it, all have. It must be one of those that source.topics takes.",
    )
    when_absent: Literal["refuse", "last"] = Field(
        default="refuse",
        description="Of a message that does not have the field, or is of another topic: the sample is refused, or the last"
        " value counts, flagged held (not of Sparkplug, which tells changes). A null is no such message: it says that there is"
        " no value.",
    )
    max_age_s: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="Of when_absent = 'last', and required there: a sample for which the last value is more seconds old than"
        " this is refused as stale, of Sparkplug as missing.",
    )
    vocabulary: Vocabulary = Field(default="ucum", description="Whose spelling of units unit or unit_field follows.")
    correction: Correction | None = Field(default=None, description="This instrument's own correction.")
    read: Read = Field(
        default="number",
        description="How the value is written: one 'number'; a 'numeric_text', which is a number that JSON holds as text,"
        " such as '21.5'; the 'text' of a category, such as 'red'; a 'list', which"
        " is a JSON array such as [0.1, 0.2] or, for a picture, arrays of arrays; 'columns', which are neighbouring CSV"
        " columns from field on; 'base64' (RFC 4648, padded) of packed numbers; the name of a 'file' with them in"
        " folder: raw, .npy, or binary PGM or PPM; or 'degrees_minutes', which is NMEA's ddmm.mmmm with N, S, E or W in"
        " the next field, as degrees, south and west negative.",
    )
    missing_values: tuple[FiniteFloat, ...] = Field(
        default=(),
        description="Numbers by which the sender means that there is no value, for example [-32768, 65535], compared as"
        " sent, before any correction and conversion.",
    )
    count: int | None = Field(
        default=None, ge=1, le=4096, description="Of columns: how many of them, for example 256 of a spectrometer."
    )
    dtype: PackedDtype | None = Field(
        default=None,
        description="Of base64 and file: what the numbers are, little-endian, for example 'uint8' for a picture.",
    )
    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Of file: the only folder whose files a payload may name, its subfolders with it. A relative path"
        " begins in the folder of device.toml.",
    )
    grid_field: FieldName | None = Field(
        default=None,
        description="For a spectrum that brings its own x axis: the JSON field with the list of its places, for example"
        " 'wavelength'. It must be the bundle's own grid, unless the bundle allows to resample.",
    )
    grid_unit: str | None = Field(
        default=None, min_length=1, description="The unit of the places in grid_field, for example 'nm' or 'um'."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.unit_map is not None and (self.unit_field is None or self.unit is not None):
            raise ValueError("unit_map says what the texts of unit_field mean: it belongs to unit_field without unit")
        if self.missing_values and self.read not in {"number", "numeric_text"}:
            raise ValueError("missing_values belongs to single numbers: read = 'number' or 'numeric_text'")
        if (self.read == "columns") != (self.count is not None):
            raise ValueError("count says how many columns: it belongs to read = 'columns', and only to it")
        if (self.read in {"base64", "file"}) != (self.dtype is not None):
            raise ValueError("dtype says what base64 holds, or a file: it belongs to read = 'base64' or 'file'")
        if (self.read == "file") != (self.folder is not None):
            raise ValueError("folder says where files may come from: it belongs to read = 'file', and only to it")
        if (self.grid_field is None) != (self.grid_unit is None):
            raise ValueError("grid_field and grid_unit belong together; the unit of a grid is never guessed")
        if self.grid_field is not None and self.read not in {"list", "base64", "file"}:
            raise ValueError("grid_field belongs to an array: read = 'list', 'base64' or 'file'")
        return self

    @model_validator(mode="after")
    def _held_for_a_time(self) -> Self:
        """Refuse a value that would be held for ever, and what cannot be held."""
        if self.topic is not None and "#" in self.topic:
            raise ValueError("a channel's topic with '#'; name its levels, '+' for one that may be anything")
        if (self.when_absent == "last") != (self.max_age_s is not None):
            raise ValueError("when_absent = 'last' and max_age_s belong together: no value is held for ever")
        if self.when_absent == "last" and self.read not in {"number", "numeric_text", "text"}:
            raise ValueError(
                "when_absent = 'last' belongs to a single value: read = 'number', 'numeric_text' or 'text'"
            )
        if self.when_absent == "last" and self.unit is not None and self.unit_field is not None:
            raise ValueError("unit and unit_field with when_absent = 'last'; a message without the value names no unit")
        return self
