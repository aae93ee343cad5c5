"""What the integrator writes of the bundle store: where it is, what a trial must meet, what a refusal leads to; it opens none."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

PREFIX: Final = "store:"
"""Of a line's ``bundle``: what follows is the id of whatever bundle is active."""
SLOT: Final = r"store:[a-z0-9][a-z0-9-]{0,63}"

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid", defer_build=True)
_WEEK_S: Final = 7 * 86_400

Percent = Annotated[FiniteFloat, Field(ge=0, le=100)]


class TrialConfig(BaseModel):
    """What a bundle that was activated must meet before it may be confirmed; what fails it is rolled back."""

    model_config = _FROZEN

    seconds: Annotated[FiniteFloat, Field(ge=1, le=_WEEK_S)] = Field(
        default=600.0, description="How long it must serve, from its first start in a process on."
    )
    answers: Annotated[int, Field(ge=1)] = Field(
        default=1, description="How many answers must have been due: without any nothing was tried, and it goes on."
    )
    failed_percent: Percent = Field(
        default=1.0, description="Most answers due that were none: the model failed, or gave no number."
    )
    refused_percent: Percent = Field(default=10.0, description="Most samples that its contract may refuse.")
    latency_ms: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        default=None, description="What 99 of 100 calls of the model may take; absent: the bundle's own latency_p99_ms."
    )
    starts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3,
        description="How many starts may end neither in order nor with a passed trial before it is rolled back.",
    )


class StoreConfig(BaseModel):
    """The store of bundles, for lines whose bundle is ``"store:ID"``."""

    model_config = _FROZEN

    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Its folder, from device.toml's on; absent: `store` in the state folder.",
    )
    on_refusal: Literal["stop", "last_passing"] = Field(
        default="stop",
        description="When a confirmed bundle is refused at a start: stop, or serve the one that was confirmed before it,"
        " flagged in every answer.",
    )
    trial: TrialConfig = Field(default=TrialConfig(), description="What a trial must meet.")
