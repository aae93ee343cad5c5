"""What the parts of a contract share: frozen values, the spelling of names, a closed range; it means nothing by itself."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="lower case, digits and underscores")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="a file of the bundle")]
SHA256_PATTERN = r"^[0-9a-f]{64}$"
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN)]
PositiveFloat = Annotated[FiniteFloat, Field(gt=0)]
Label = Annotated[str, Field(min_length=1, max_length=200)]


class Frozen(BaseModel):
    """What every part of a manifest shares: frozen, and an unknown key is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class Band(Frozen):
    """A closed range, both ends included, in the channel's contract unit."""

    min: FiniteFloat
    max: FiniteFloat

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.min < self.max:
            raise ValueError(f"min {self.min:g} must be below max {self.max:g}")
        return self

    def holds(self, inner: "Band") -> bool:
        """Whether ``inner`` lies within this band."""
        return self.min <= inner.min and inner.max <= self.max
