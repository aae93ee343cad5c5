"""What a contract demands of a model that is searched for: allowed loss, machines, gain; it measures nothing."""

from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Frozen, PositiveFloat

MetricName = Literal["accuracy", "macro_f1", "auroc", "mae", "rmse", "r2", "max_error"]
HIGHER_IS_BETTER: frozenset[str] = frozenset({"accuracy", "macro_f1", "auroc", "r2"})
Loss = Annotated[FiniteFloat, Field(ge=0)]


class Accept(Frozen):
    """How much worse than float32 one output may be on the validation data; all of it is hard.

    ``mean_difference`` and ``max_difference`` are of answers against those of float32, in the output's unit.
    """

    output: str
    metric: MetricName | Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] = Field(
        description="a metric of the list, or the author's own function as module:function"
    )
    better: Literal["higher", "lower"] | None = Field(default=None, description="of an own function, and needed there")
    allowed_loss: Loss
    mean_difference: Loss | None = None
    max_difference: Loss | None = None
    flags_agree: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = Field(
        default=None, description="share of the cases whose flags or labels must be those of float32"
    )

    @model_validator(mode="after")
    def _directed(self) -> Self:
        if (":" in self.metric) != (self.better is not None):
            raise ValueError("an own function says whether higher or lower is better, and only an own function")
        return self

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger metric is a better one."""
        return self.better == "higher" if self.better else self.metric in HIGHER_IS_BETTER


class Demands(Frozen):
    """The gates of a search.

    ``faster`` and ``smaller`` are factors against float32, one of which is enough. ``profiles`` names the device
    profiles it has to serve on; none means any machine.
    """

    accept: tuple[Accept, ...] = Field(min_length=1, description="the first one's loss is shown in the table")
    profiles: tuple[str, ...] = ()
    faster: PositiveFloat = 1.1
    smaller: PositiveFloat = 1.5
    recipes: tuple[str, ...] = Field(default=(), description="the recipes to try; none: all")
    calibrators: tuple[str, ...] = Field(default=(), description="the calibrators to try; none: all")
