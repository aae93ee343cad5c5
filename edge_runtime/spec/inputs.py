"""What goes in: channels with their units, bands and policies, tensors, windows and states; it converts nothing."""

from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Band, Frozen, Label, Name, PositiveFloat
from edge_runtime.spec.steps import Step

Dtype = Literal["float32", "float16", "float64", "int8", "uint8", "int64"]
Axis = Literal["batch", "time", "channel", "point", "row", "column", "colour", "one"]
# A sample is a row of numbers; one larger than this is no sensor's sample but a mistake in a shape.
MAX_WIDTH = 4_000_000


class Channel(Frozen):
    """One named quantity of a sample.

    ``number``: a quantity with a unit and three bands, one number or, with ``shape``, an array of them (a spectrum, a
    picture). ``category``: one of a closed list of words. ``opaque``: numbers without unit, taken as they come.
    """

    name: Name
    form: Literal["number", "category", "opaque"] = "number"
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(), max_length=4, description="of an array channel: (points), (rows, columns), (rows, columns, colours)"
    )
    unit: str = Field(default="1", description="UCUM, as docs/units.md lists; '1' for a number without unit")
    kind: Literal["point", "difference"] = Field(
        default="point", description="a difference (a span of temperature) is converted without the offset"
    )
    trained: Band | None = Field(
        default=None, description="what training saw; outside it an answer is flagged 'extrapolating'"
    )
    tolerated: Band | None = Field(
        default=None, description="what the author vouches for; outside it an answer is flagged too"
    )
    physical: Band | None = Field(default=None, description="what can be at all; outside it the sample is refused")
    when_undeclared: Literal["refuse", "assume"] = Field(
        default="refuse", description="what to do where nobody declared the unit; 'assume' is the author's own risk"
    )
    when_missing: Literal["refuse", "hold", "fill", "pass"] = Field(
        default="refuse",
        description="a missing number: refuse the sample, hold the last one, fill in a constant, or pass NaN to the model",
    )
    hold_s: PositiveFloat | None = Field(
        default=None, le=1e9, description="with hold: how old a held number may be, seconds"
    )
    fill: FiniteFloat | None = Field(default=None, description="with fill: the constant, in the contract unit")
    stuck_after: Annotated[int, Field(ge=2)] | None = Field(
        default=None,
        description="equal values in a row, one more than training ever saw, from which 'stuck' is flagged",
    )
    categories: tuple[Label, ...] = Field(default=(), description="of a category: its words; the number is the place")
    unknown: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="of a category: the place an unknown word takes; absent: it is refused"
    )
    dtype: Dtype | None = Field(
        default=None, description="of an opaque channel: what its numbers are, as the model takes them"
    )
    grid: tuple[FiniteFloat, ...] = Field(default=(), description="of a spectrum: where its points lie, rising")
    grid_unit: str = Field(default="1", description="UCUM unit of the grid")
    other_grid: Literal["refuse", "resample"] = Field(
        default="refuse", description="a payload with another grid: refuse it, or resample it linearly"
    )

    @property
    def width(self) -> int:
        """How many numbers it has in a sample."""
        return prod(self.shape)

    @property
    def bands(self) -> tuple[Band, Band, Band]:
        """Trained, tolerated, physical: of a number, which has all three."""
        if self.trained is None or self.tolerated is None or self.physical is None:
            raise TypeError(f"channel {self.name} is no number")
        return self.trained, self.tolerated, self.physical

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.form == "number":
            self._bands_fit()
        elif self.trained or self.tolerated or self.physical or self.unit != "1":
            raise ValueError(f"channel {self.name}: only a number has a unit and bands")
        self._category_fits()
        self._missing_fits()
        if (self.form == "opaque") != (self.dtype is not None):
            raise ValueError(f"channel {self.name}: an opaque channel says its dtype, and only an opaque one")
        if self.shape and (self.form == "category" or self.when_missing != "refuse" or self.stuck_after):
            raise ValueError(f"channel {self.name}: an array is no category, is never filled in and never stuck")
        if self.grid and (self.shape != (len(self.grid),) or list(self.grid) != sorted(set(self.grid))):
            raise ValueError(f"channel {self.name}: the grid must rise, one place for each point")
        if self.width > MAX_WIDTH:
            raise ValueError(f"channel {self.name}: {self.width} numbers, more than {MAX_WIDTH}")
        return self

    def _category_fits(self) -> None:
        if (self.form == "category") != bool(self.categories):
            raise ValueError(f"channel {self.name}: categories belong to the form category, and only to it")
        if len(set(self.categories)) != len(self.categories):
            raise ValueError(f"channel {self.name}: a category stands twice")
        if self.unknown is not None and self.unknown >= len(self.categories):
            raise ValueError(f"channel {self.name}: unknown must be the place of one of its categories")

    def _missing_fits(self) -> None:
        if (self.when_missing == "hold") != (self.hold_s is not None):
            raise ValueError(f"channel {self.name}: hold needs hold_s, and only hold")
        if (self.when_missing == "fill") != (self.fill is not None):
            raise ValueError(f"channel {self.name}: fill needs the constant, and only fill")
        if self.form == "category" and self.fill is not None and self.fill not in range(len(self.categories)):
            raise ValueError(f"channel {self.name}: fill must be the place of one of its categories")
        if self.form == "opaque" and self.dtype and self.dtype[0] != "f":
            if self.when_missing == "pass":
                raise ValueError(f"channel {self.name}: {self.dtype} has no NaN that a missing number could be")
            if self.fill is not None and not self.fill.is_integer():
                raise ValueError(f"channel {self.name}: fill must be whole, as {self.dtype} is")

    def _bands_fit(self) -> None:
        if not (self.trained and self.tolerated and self.physical):
            raise ValueError(f"channel {self.name}: a number needs the bands trained, tolerated and physical")
        if not self.physical.holds(self.tolerated):
            raise ValueError(f"channel {self.name}: the tolerated band must lie within the physical band")
        if not self.physical.holds(self.trained):
            raise ValueError(f"channel {self.name}: the trained band must lie within the physical band")


class Input(Frozen):
    """One input tensor of the model: its channels, the steps from them to it, and its shape.

    The channels are single numbers (or categories), or there is exactly one, an array.
    """

    tensor: str
    dtype: Dtype
    shape: tuple[int | str, ...] = Field(description="a number, or a name for a dynamic dimension")
    axes: tuple[Axis, ...] = Field(description="what each dimension is; 'one' is a dimension of size 1 put in")
    channels: tuple[Channel, ...] = Field(min_length=1)
    steps: tuple[Step, ...] = ()

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample before the steps."""
        first = self.channels[0]
        return first.shape or (len(self.channels),)

    @property
    def width(self) -> int:
        """How many numbers of a sample's row are this input's."""
        return sum(channel.width for channel in self.channels)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        named = [axis for axis in self.axes if axis != "one"]
        if len(self.axes) != len(self.shape) or self.axes[:1] != ("batch",) or len(set(named)) != len(named):
            raise ValueError(f"input {self.tensor}: one distinct axis a dimension is needed, 'batch' first")
        if len(self.channels) > 1 and any(channel.shape for channel in self.channels):
            raise ValueError(f"input {self.tensor}: an array channel must be its only channel")
        return self


class StateTensor(Frozen):
    """A recurrent state, one per stream: an output of one call that is an input of the stream's next."""

    input: str
    output: str
    dtype: Dtype
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(description="without the batch dimension")
    batch_axis: Annotated[int, Field(ge=0)] = Field(default=0, description="where the batch dimension is put in")
    initial: FiniteFloat = 0.0
    reset: Literal["gap", "never"] = Field(default="gap", description="whether a gap in the stream starts it anew")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.batch_axis > len(self.shape):
            raise ValueError(f"state {self.input}: batch_axis lies outside its shape")
        return self


class Window(Frozen):
    """How many samples make one input, how far it moves, and the pace they must have."""

    length: Annotated[int, Field(ge=1, le=1_000_000)]
    hop: Annotated[int, Field(ge=1)] = 1
    period_s: PositiveFloat | None = Field(default=None, description="seconds between samples; absent: not checked")
    rate_tolerance: Annotated[FiniteFloat, Field(gt=0, lt=0.5)] = Field(
        default=0.05, description="share of the period a step may differ by before 'rate_off' is flagged"
    )
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    gap: Literal["refuse"] = Field(default="refuse", description="a window over a missing sample is refused")
