"""The closed list of preprocessing steps, as frozen values with stored constants; nothing here computes or is fitted."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Frozen, PositiveFloat

ChannelNumber = Annotated[int, Field(ge=0, le=1_000_000, description="number of the channel, from 0")]
Pixels = Annotated[int, Field(ge=1, le=8192)]
Grid = Annotated[tuple[FiniteFloat, ...], Field(min_length=2, max_length=65_536)]
Section = tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]


class Standardize(Frozen):
    """``(x - mean) / std`` per channel, in float64, with stored constants."""

    step: Literal["standardize"]
    mean: tuple[FiniteFloat, ...]
    std: tuple[PositiveFloat, ...]

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.mean) != len(self.std):
            raise ValueError(f"standardize: {len(self.mean)} mean, but {len(self.std)} std")
        return self


class MinMax(Frozen):
    """``(x - min) / (max - min)`` per channel, in float64, with stored constants."""

    step: Literal["min_max"]
    min: tuple[FiniteFloat, ...]
    max: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _wide(self) -> Self:
        if len(self.min) != len(self.max):
            raise ValueError(f"min_max: {len(self.min)} min, but {len(self.max)} max")
        if any(not low < high for low, high in zip(self.min, self.max, strict=True)):
            raise ValueError("min_max: each min must be below its max")
        return self


class Clip(Frozen):
    """Each channel held within ``min .. max``."""

    step: Literal["clip"]
    min: tuple[FiniteFloat, ...]
    max: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if len(self.min) != len(self.max):
            raise ValueError(f"clip: {len(self.min)} min, but {len(self.max)} max")
        if any(low > high for low, high in zip(self.min, self.max, strict=True)):
            raise ValueError("clip: no min may be above its max")
        return self


class Scale(Frozen):
    """``x * a + b``, the same for every value."""

    step: Literal["scale"]
    a: FiniteFloat
    b: FiniteFloat = 0.0


class Log(Frozen):
    """``log(x + offset)``; an argument below ``floor`` becomes NaN, which is refused downstream as not finite."""

    step: Literal["log"]
    base: Literal["e", "2", "10"]
    offset: FiniteFloat = 0.0
    floor: PositiveFloat = Field(description="the smallest argument, offset included, that has a logarithm here")


class Lookup(Frozen):
    """One channel's value replaced by the one its key stands for; keys are compared exactly."""

    step: Literal["lookup"]
    channel: ChannelNumber
    keys: tuple[FiniteFloat, ...] = Field(min_length=1, max_length=65_536)
    values: tuple[FiniteFloat, ...]
    otherwise: FiniteFloat | None = Field(
        default=None, description="for a value that is no key; absent: NaN, which is refused downstream as not finite"
    )

    @model_validator(mode="after")
    def _one_to_one(self) -> Self:
        if len(self.keys) != len(self.values):
            raise ValueError(f"lookup: {len(self.keys)} keys, but {len(self.values)} values")
        if len(set(self.keys)) != len(self.keys):
            raise ValueError("lookup: a key stands twice")
        return self


class OneHot(Frozen):
    """One channel of whole numbers ``0 .. count - 1`` replaced by ``count`` columns; any other number becomes NaN."""

    step: Literal["one_hot"]
    channel: ChannelNumber
    count: Annotated[int, Field(ge=1, le=4096)]


class Lag(Frozen):
    """Each sample beside earlier ones; the oldest ``max(lags)`` samples are history only."""

    step: Literal["lag"]
    lags: tuple[Annotated[int, Field(ge=0, le=1_000_000)], ...] = Field(
        min_length=1, max_length=1000, description="how many samples back, in the order the columns stand in"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.lags)) != len(self.lags):
            raise ValueError("lag: a lag stands twice")
        return self


class Difference(Frozen):
    """The step from one sample to the next, taken ``order`` times over; time shrinks by ``order``."""

    step: Literal["difference"]
    order: Annotated[int, Field(ge=1, le=3)] = 1


class Filter(Frozen):
    """A recursive filter along time, in second-order sections, begun anew for each window."""

    step: Literal["filter"]
    sections: tuple[Section, ...] = Field(
        min_length=1, max_length=64, description="b0, b1, b2, a0, a1, a2 each, as scipy's output='sos'; a0 is 1"
    )
    initial: Literal["zero", "steady"] = Field(
        description="'zero': nothing came before; 'steady': the first sample had stood for ever"
    )

    @model_validator(mode="after")
    def _stable(self) -> Self:
        for number, (_, _, _, a0, a1, a2) in enumerate(self.sections):
            if a0 != 1:
                raise ValueError(f"filter: section {number} has a0 {a0:g}; divide the section by it")
            if not (abs(a2) < 1 and abs(a1) < 1 + a2):
                raise ValueError(f"filter: section {number} is not stable, a pole lies on or outside the unit circle")
        return self


class Spectrum(Frozen):
    """The spectrum of each channel's window: Hann window, then the real FFT; time becomes frequency bins."""

    step: Literal["spectrum"]
    hann: Literal["periodic", "symmetric"]
    output: Literal["magnitude", "power", "db"]
    floor: PositiveFloat | None = Field(default=None, description="for db, and needed there: the smallest magnitude")

    @model_validator(mode="after")
    def _floored(self) -> Self:
        if (self.floor is not None) != (self.output == "db"):
            raise ValueError("spectrum: db needs a floor, magnitude and power take none")
        return self


class StandardNormalVariate(Frozen):
    """``(x - mean) / std`` with each spectrum's own mean and standard deviation (SNV); a flat one becomes NaN."""

    step: Literal["snv"]
    ddof: Literal[0, 1] = Field(description="std divides by n - ddof; both are in use, so it has to be said")


class SavitzkyGolay(Frozen):
    """A polynomial fitted to each stretch of ``window`` values, or its derivative; at the ends, the outermost one."""

    step: Literal["savitzky_golay"]
    window: Annotated[int, Field(ge=3, le=501)]
    polyorder: Annotated[int, Field(ge=0, le=9)]
    derivative: Annotated[int, Field(ge=0, le=9)] = 0
    delta: Annotated[FiniteFloat, Field(ge=1e-12, le=1e12)] = Field(
        default=1.0, description="the distance between neighbours"
    )
    along: Literal["time", "sample"]

    @model_validator(mode="after")
    def _determined(self) -> Self:
        if self.window % 2 == 0:
            raise ValueError(f"savitzky_golay: window {self.window} must be odd")
        if not self.derivative <= self.polyorder < self.window:
            raise ValueError("savitzky_golay: derivative may not exceed polyorder, and polyorder must be below window")
        return self


class Resample(Frozen):
    """A spectrum measured at ``source``, interpolated linearly to ``target``; nothing is extrapolated."""

    step: Literal["resample"]
    source: Grid = Field(description="x of the points that come in, strictly rising or falling")
    target: Grid = Field(description="x of the points that go out, in the same unit, strictly rising or falling")

    @model_validator(mode="after")
    def _covered(self) -> Self:
        for name, grid in (("source", self.source), ("target", self.target)):
            if not (_rises(grid) or _rises(grid[::-1])):
                raise ValueError(f"resample: {name} must rise or fall strictly")
        low, high = sorted((self.source[0], self.source[-1]))
        first, last = sorted((self.target[0], self.target[-1]))
        if first < low or last > high:
            raise ValueError(f"resample: target {first:g} .. {last:g} leaves source {low:g} .. {high:g}")
        return self


class Resize(Frozen):
    """A picture brought to ``height`` rows and ``width`` columns."""

    step: Literal["resize"]
    height: Pixels
    width: Pixels
    method: Literal["area", "bilinear"] = Field(
        description="'area': mean over the covered area; 'bilinear': between pixel centres, without smoothing"
    )


class Colours(Frozen):
    """The colours of a picture turned round (``bgr``), or weighed into one (``gray``)."""

    step: Literal["colours"]
    to: Literal["bgr", "gray"]
    weights: tuple[FiniteFloat, FiniteFloat, FiniteFloat] | None = Field(
        default=None, description="for gray, and needed there: red, green and blue, or the order they come in"
    )

    @model_validator(mode="after")
    def _weighed(self) -> Self:
        if (self.weights is not None) != (self.to == "gray"):
            raise ValueError("colours: gray needs weights, bgr takes none")
        return self


Step = Annotated[
    Standardize
    | MinMax
    | Clip
    | Scale
    | Log
    | Lookup
    | OneHot
    | Lag
    | Difference
    | Filter
    | Spectrum
    | StandardNormalVariate
    | SavitzkyGolay
    | Resample
    | Resize
    | Colours,
    Field(discriminator="step"),
]

# Steps made of float64 + - * / and the square root alone, in a fixed order: IEEE 754 makes them equal on every machine.
# The others call a logarithm or an FFT, whose last bits depend on the CPU and on the library.
ARITHMETIC: frozenset[str] = frozenset({
    "standardize", "min_max", "clip", "scale", "lookup", "one_hot", "lag", "difference", "filter", "snv",
    "savitzky_golay", "resample", "resize", "colours",
})  # fmt: skip

# Equal up to the cast: what is left is the rounding to float32, 6e-8 of a value, of two tensors stored apart.
_EQUAL = (1e-6, 1e-6)
# A logarithm is off by 2 units of the last place, 5e-16 of its value. What that grows to when a difference of two
# logarithms near 10 is standardized by a spread of 1e-8: 1e-14 / 1e-8 = 1e-6, on top of the cast.
_LOG = (1e-6, 2e-6)
# An FFT's error is about 1e-15 of the *largest* bin in every bin: 1e-5 absolute covers peaks up to 1e10.
_FFT = (1e-6, 1e-5)
# In decibel a bin that lies on a floor of 1e-10 of the peak moves by 8.7 * 1e-15 / 1e-10 = 1e-4.
_DB = (1e-6, 2e-4)


def tolerance(steps: Iterable[Step]) -> tuple[float, float]:
    """How far a tensor may be from its golden after these steps, as ``(rtol, atol)`` in the tensor's own scale.

    The widest any of the steps needs. It presumes what a good contract has: a tensor that ends in a scale near 1,
    magnitudes below 1e10, and a floor for decibels no lower than 1e-10 of the highest peak.
    """
    needs = [_EQUAL, *(_need(step) for step in steps)]
    return max(rtol for rtol, _ in needs), max(atol for _, atol in needs)


def _need(step: Step) -> tuple[float, float]:
    if isinstance(step, Log):
        return _LOG
    if isinstance(step, Spectrum):
        return _DB if step.output == "db" else _FFT
    return _EQUAL


def _rises(grid: Sequence[float]) -> bool:
    return all(low < high for low, high in pairwise(grid))
