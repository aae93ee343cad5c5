"""What the samples and answers of training were like, so that others can be flagged; it refuses no sample and no answer."""

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Frozen, Name, PositiveFloat

MAX_BINS = 100
_ROOM = 1e-6


class StepRate(Frozen):
    """``step``: a channel moves faster than ``limits`` allow, from one sample to the next."""

    limits: dict[Name, PositiveFloat] = Field(min_length=1, description="by channel, contract units a second")


class Level(Frozen):
    """The mean and standard deviation that the means of blocks had in training, in the contract unit."""

    mean: FiniteFloat
    std: PositiveFloat


class Shift(Frozen):
    """``shifted``: the means of a channel over blocks of samples have moved, by a two-sided CUSUM (Page, 1954)."""

    samples: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="samples in a row that make a block")
    k: Annotated[FiniteFloat, Field(ge=0)] = Field(default=0.5, description="what is let pass, in standard deviations")
    h: PositiveFloat = Field(default=8.0, description="the sum beyond which it is flagged, in standard deviations")
    means: dict[Name, Level] = Field(min_length=1, description="by channel, what the blocks of training had")


class Bins(Frozen):
    """A channel's values in training, cut at quantiles: bin ``i`` holds what is above edge ``i - 1``, up to edge ``i``."""

    edges: tuple[FiniteFloat, ...] = Field(min_length=1, max_length=MAX_BINS - 1)
    shares: tuple[PositiveFloat, ...] = Field(description="of training, by bin; one more than edges")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if list(self.edges) != sorted(set(self.edges)):
            raise ValueError("the edges of bins must rise")
        if len(self.shares) != len(self.edges) + 1 or abs(sum(self.shares) - 1.0) > _ROOM:
            raise ValueError("bins have one share each, and the shares add up to 1")
        return self


class Drift(Frozen):
    """``drifted``: the newest whole block of samples is spread over the bins of training otherwise (PSI)."""

    samples: Annotated[int, Field(ge=50, le=10_000_000)] = Field(description="samples that are judged together")
    limit: PositiveFloat = Field(default=0.25, description="the population stability index beyond which it is flagged")
    bins: dict[Name, Bins] = Field(min_length=1)


class Constant(Frozen):
    """``constant``: so many different inputs in a row had one and the same answer, bit for bit."""

    after: Annotated[int, Field(ge=2)]


class Plausibility(Frozen):
    """What is flagged beside the bands; a part that is absent is not watched."""

    step: StepRate | None = None
    shifted: Shift | None = None
    drifted: Drift | None = None
    constant: Constant | None = None

    @property
    def channels(self) -> Iterator[str]:
        """Every channel that a part names."""
        yield from self.step.limits if self.step else ()
        yield from self.shifted.means if self.shifted else ()
        yield from self.drifted.bins if self.drifted else ()

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.step or self.shifted or self.drifted or self.constant):
            raise ValueError("plausibility with no part; leave it out")
        return self
