"""``[line.capture]``: which samples a line keeps for the author of its next model; it keeps none itself."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

_MIB = 1024 * 1024
MIN_BYTES = 65_536
MAX_BYTES = 1024 * _MIB


class CaptureConfig(BaseModel):
    """How much is kept on disk, and what is worth it; a reason that is off keeps nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_bytes: int = Field(
        default=16 * _MIB, ge=MIN_BYTES, le=MAX_BYTES, description="What the ring takes on disk; the oldest go first."
    )
    every: int | None = Field(default=None, ge=1, description="One answer in so many of each stream; absent: none.")
    margin: dict[str, Annotated[FiniteFloat, Field(gt=0)]] = Field(
        default={},
        description="By output: a number so near to one of its flags' levels, in its unit; a label whose score is lower.",
    )
    extrapolating: bool = Field(default=True, description="Answers to what training did not see.")
    refused: bool = Field(default=False, description="Refused samples too, whole.")
    a_minute: int = Field(
        default=30, ge=1, le=60_000, description="How many are kept in a minute; more are passed over and counted."
    )
