"""From the model's output tensors to values with units and flags; hysteresis is the caller's state, handed in and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from edge_runtime.spec.manifest import Manifest, Output, Threshold
from edge_runtime.spec.result import OutputValue


@dataclass(frozen=True, slots=True)
class _Answering:
    """One output, out of the manifest and into what one row needs of it."""

    name: str
    tensor: str
    unit: str
    steps: tuple[tuple[float, float], ...]
    flags: tuple[Threshold, ...]


class Postprocess:
    """The outputs of one manifest, resolved once; ``flag_names`` are ``output.flag``, in the order of a state."""

    def __init__(self, manifest: Manifest) -> None:
        self._outputs = tuple(_resolve(output) for output in manifest.outputs)
        self.flag_names = tuple(f"{output.name}.{flag.name}" for output in manifest.outputs for flag in output.flags)
        self.fresh = (False,) * len(self.flag_names)

    def answer(
        self, outputs: Mapping[str, Sequence[float]], row: int, flags: tuple[bool, ...]
    ) -> tuple[tuple[OutputValue, ...], tuple[bool, ...]]:
        """Make the values of one row.

        ``outputs`` holds, by tensor name, one float a row (``scalars`` makes them); ``flags`` is the stream's state
        before. Returns the values and the state after.
        """
        values = []
        after = []
        at = 0
        for output in self._outputs:
            value = outputs[output.tensor][row]
            for scale, offset in output.steps:
                value = value * scale + offset
            named = []
            for flag in output.flags:
                state = switched(flag, value, was_on=flags[at])
                after.append(state)
                named.append((flag.name, state))
                at += 1
            values.append(OutputValue(output.name, value, output.unit, tuple(named)))
        return tuple(values), tuple(after)


def _resolve(output: Output) -> _Answering:
    steps = tuple((step.std, step.mean) for step in output.postprocess)
    return _Answering(output.name, output.tensor, output.unit, steps, tuple(output.flags))


def scalars(outputs: Mapping[str, NDArray[Any]]) -> dict[str, list[float]]:
    """One float64 a row from each output tensor of shape ``(batch,)`` or ``(batch, 1)``."""
    return {name: list(map(float, values.reshape(len(values)).tolist())) for name, values in outputs.items()}


def switched(flag: Threshold, value: float, *, was_on: bool) -> bool:
    """The flag's state after ``value``: on strictly beyond ``on``, off at or beyond ``off``, else as it was."""
    if flag.side == "below":
        return value < flag.on or (was_on and value < flag.off)
    return value > flag.on or (was_on and value > flag.off)
