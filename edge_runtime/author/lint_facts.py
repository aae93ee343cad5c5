"""What the contract says, in the few numbers that lints compare a model with; it reads no file."""

from dataclasses import dataclass, field
from typing import NamedTuple

from edge_runtime.author.contract import Contract, ContractInput
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.steps import Clip, Log, Lookup, MinMax, Scale, Standardize, Step


class InputFact(NamedTuple):
    """An input as the contract means it; ``shape`` begins with the batch, ``name`` is None where any will do.

    ``dtype`` and ``shape`` are None where the model's own counts. ``batch_axis`` is where the batch is, of a state.
    """

    name: str | None
    dtype: str | None
    shape: tuple[int | str, ...] | None
    batch_axis: int = 0


class OutputFact(NamedTuple):
    """An output: how many numbers a case it gives, or how many labels they stand for, and which; None where it does not say.

    ``batch_axis`` is where the batch is, of a state.
    """

    name: str
    values: int | None = None
    labels: int | None = None
    words: tuple[str, ...] = ()
    batch_axis: int = 0


class ChannelFact(NamedTuple):
    """A channel: ``center`` and ``spread`` of the first scaling step, raw; the ``tensor_band`` it is tolerated in.

    Each is None where no step says it; ``tensor_band`` is what the model's input then holds. ``input`` is that input's
    name, None where the model has one.
    """

    name: str
    center: float | None = None
    spread: float | None = None
    tensor_band: tuple[float, float] | None = None
    input: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A contract, as lints need it. ``runtime`` is the onnxruntime it will be served by, as (1, 32).

    ``model`` is the file's name; ``calibration_cases`` are those the int8 scales come from, None where there are none.
    """

    model: str
    precision: str
    batch_sizes: tuple[int, ...]
    inputs: tuple[InputFact, ...]
    outputs: tuple[OutputFact, ...]
    channels: tuple[ChannelFact, ...] = ()
    calibration_cases: int | None = None
    runtime: tuple[int, int] = field(default=(1, 32))


def facts_of(contract: Contract, *, train_cases: int, runtime: tuple[int, int]) -> Facts:
    """The facts of a contract that has ``train_cases`` to calibrate with."""
    calibrates = any(one.precision == "int8" for one in contract.variants)
    states = contract.state
    return Facts(
        model=contract.model,
        precision=contract.precision,
        batch_sizes=contract.batch_sizes,
        inputs=(
            *(_input(one, contract) for one in contract.input),
            *(InputFact(one.input, None, None, one.batch_axis) for one in states),
        ),
        outputs=(
            *(_output(output) for output in contract.output),
            *(OutputFact(one.output, batch_axis=one.batch_axis) for one in states),
        ),
        channels=tuple(
            _channel(channel.name, channel.tolerated, one, at)
            for one in (contract.input if contract.preprocess_onnx is None else ())
            for at, channel in enumerate(one.channel)
            if channel.tolerated is not None and not channel.shape
        ),
        calibration_cases=min(train_cases, contract.calibration.samples) if calibrates else None,
        runtime=runtime,
    )


def _input(stated: ContractInput, contract: Contract) -> InputFact:
    """An input's shape where channels and window say it; another layout, or steps that change it, leave it open."""
    dtype = stated.channel[0].dtype
    if contract.preprocess_onnx is not None or not all(isinstance(step, _KEEPS_SHAPE) for step in stated.preprocess):
        return InputFact(stated.tensor, dtype, None)
    sizes: dict[str, int | str] = {"batch": "batch", "channel": len(stated.channel), "one": 1}
    if contract.window:
        sizes["time"] = contract.window.length
    return InputFact(stated.tensor, dtype, tuple(sizes.get(axis, axis) for axis in stated.axes))


def _output(output: Output) -> OutputFact:
    if output.form == "label":
        return OutputFact(output.tensor, labels=len(output.labels), words=output.labels)
    is_alone = output.form == "number" and "column" not in output.model_fields_set
    return OutputFact(output.tensor, values=1 if is_alone else None)


_KEEPS_SHAPE = (Standardize, MinMax, Clip, Scale, Log, Lookup)


def _channel(name: str, tolerated: tuple[float, float], stated: ContractInput, at: int) -> ChannelFact:
    steps = stated.preprocess
    first = next((scale for step in steps if (scale := _scale(step, at)) is not None), None)
    center, spread = first or (None, None)
    return ChannelFact(name, center, spread, _through(steps, tolerated, at), stated.tensor)


def _scale(step: Step, at: int) -> tuple[float, float] | None:
    """What a step takes off a channel, and what it divides by; None where it scales nothing, or lacks the channel."""
    match step:
        case Standardize(mean=mean, std=std) if at < min(len(mean), len(std)):
            return mean[at], std[at]
        case MinMax(min=low, max=high) if at < min(len(low), len(high)):
            return low[at], high[at] - low[at]
        case _:
            return None


def _through(steps: tuple[Step, ...], band: tuple[float, float], at: int) -> tuple[float, float] | None:
    """A band after every step; None where one of them is not affine and no clip, so that its ends say too little."""
    low, high = band
    for step in steps:
        scale = _scale(step, at)
        if scale is not None and scale[1] > 0:
            low, high = ((end - scale[0]) / scale[1] for end in (low, high))
        elif isinstance(step, Clip) and at < min(len(step.min), len(step.max)):
            low, high = (min(max(end, step.min[at]), step.max[at]) for end in (low, high))
        else:
            return None
    return low, high
