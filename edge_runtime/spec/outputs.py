"""What comes out: outputs with meaning, unit, labels, the steps to them and their flags; it computes nothing."""

from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Frozen, Label, Name, PositiveFloat


class Destandardize(Frozen):
    """``y * std + mean``: from the model's own scale to the output's unit, in float64."""

    step: Literal["destandardize"]
    mean: FiniteFloat
    std: PositiveFloat


class Softmax(Frozen):
    """Scores that add up to 1, from logits, in float64."""

    step: Literal["softmax"]


class Sigmoid(Frozen):
    """``1 / (1 + exp(-y))``, in float64."""

    step: Literal["sigmoid"]


class Exponential(Frozen):
    """``base ** y``: the inverse of a logarithm the target was trained in."""

    step: Literal["exponential"]
    base: Literal["e", "2", "10"] = "e"


PostStep = Annotated[Destandardize | Softmax | Sigmoid | Exponential, Field(discriminator="step")]


class Threshold(Frozen):
    """A flag with hysteresis, one state per stream: on beyond ``on``, off again from ``off`` on."""

    name: Name
    side: Literal["below", "above"] = Field(description="the flag comes on below, or above, `on`")
    on: FiniteFloat = Field(description="in the output's unit; a value equal to `on` does not switch the flag on")
    off: FiniteFloat = Field(description="in the output's unit; a value equal to `off` switches the flag off")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        good = self.on <= self.off if self.side == "below" else self.off <= self.on
        if not good:
            raise ValueError(f"flag {self.name}: `off` must not lie on the flag's own side of `on`")
        return self


class Output(Frozen):
    """One answer: which tensor it comes from, what it means, its unit, and how it is made.

    ``number``: the value at ``column`` of the tensor's row. ``label``: one of ``labels``, by the highest of its scores,
    by its number (an integer tensor) or by its text (a string tensor). ``vector``: the whole row.
    """

    tensor: str
    name: Name
    meaning: str
    form: Literal["number", "label", "vector"] = "number"
    unit: str = Field(default="1", description="UCUM; '1' for a number without unit")
    kind: Literal["point", "difference"] = "point"
    column: Annotated[int, Field(ge=0)] = Field(default=0, description="of a number: its place in the row")
    labels: tuple[Label, ...] = Field(default=(), description="of a label: the words, by place")
    postprocess: tuple[PostStep, ...] = ()
    flags: tuple[Threshold, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.form == "label") != bool(self.labels):
            raise ValueError(f"output {self.name}: labels belong to the form label, and only to it")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"output {self.name}: a label stands twice")
        if self.form == "label" and self.unit != "1":
            raise ValueError(f"output {self.name}: a label has no unit")
        if self.flags and self.form != "number":
            raise ValueError(f"output {self.name}: only a number has flags")
        return self
