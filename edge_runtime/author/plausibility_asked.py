"""``[plausibility]`` of a contract as the author writes it; it computes nothing."""

from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Frozen, Name, PositiveFloat
from edge_runtime.spec.plausibility import MAX_BINS, Constant


class AskedStep(Frozen):
    """``step``: how many times the fastest change of training is let pass."""

    factor: Annotated[FiniteFloat, Field(ge=1)] = 1.5


class AskedShift(Frozen):
    """``shifted``: samples in a block (default: the window's length, or 32 without one), and the CUSUM's constants."""

    samples: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    k: Annotated[FiniteFloat, Field(ge=0)] = 0.5
    h: PositiveFloat = 8.0


class AskedDrift(Frozen):
    """``drifted``: samples that are judged together, how many quantile bins, and the index beyond which is flagged."""

    samples: Annotated[int, Field(ge=50, le=10_000_000)] = 1024
    bins: Annotated[int, Field(ge=2, le=MAX_BINS)] = 10
    limit: PositiveFloat = 0.25


class AskedPlausibility(Frozen):
    """What the author wants watched; a part that is absent is not, and ``channels`` left out are all single numbers."""

    channels: tuple[Name, ...] = ()
    step: AskedStep | None = None
    shifted: AskedShift | None = None
    drifted: AskedDrift | None = None
    constant: Constant | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.step or self.shifted or self.drifted or self.constant):
            raise ValueError("nothing to watch: name step, shifted, drifted or constant, or leave the table out")
        return self
