"""From the model's output tensors to values with units and flags; hysteresis is the caller's state, handed in and back."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Destandardize, Exponential, Output, PostStep, Sigmoid, Threshold
from edge_runtime.spec.result import OutputValue
from edge_runtime.spec.variant import Variant

Outputs = Mapping[str, NDArray[Any]]


class Unusable(NamedTuple):
    """A value the model gave that is no answer: the ledger's ``reason`` and what it was."""

    reason: str
    found: str


class Labelled(NamedTuple):
    """A label and its score, if there is one."""

    text: str
    score: float | None


Made = float | tuple[float, ...] | Labelled | Unusable
UNUSABLE = ("not_finite_output", "no_number", "unknown_label")
"""Every reason of one: a model that gives any of them may not be the one that was proven any more."""

_NOT_FINITE = Unusable("not_finite_output", "NaN or infinity from the model")


@dataclass(frozen=True, slots=True)
class _Answering:
    """One output, out of the manifest and into what one row needs of it."""

    name: str
    tensor: str
    unit: str
    make: Callable[[NDArray[Any]], Sequence[Made]]
    flags: tuple[Threshold, ...]


class Postprocess:
    """The outputs of one manifest, resolved once; ``flag_names`` are ``output.flag``, in the order of a state."""

    def __init__(self, manifest: Manifest, variant: Variant | None = None) -> None:
        self._outputs = tuple(
            _Answering(output.name, output.tensor, output.unit, _maker(output), tuple(output.flags))
            for output in manifest.outputs
        )
        self._ends = () if variant is None else tuple(_ends(manifest, variant))
        self.has_ends = bool(self._ends)
        self.flag_names = tuple(f"{output.name}.{flag.name}" for output in manifest.outputs for flag in output.flags)
        self.fresh = (False,) * len(self.flag_names)

    def make(self, outputs: Outputs) -> list[Sequence[Made]]:
        """For each output, one value a row; ``outputs`` are the model's tensors by name, batch first."""
        return [output.make(outputs[output.tensor]) for output in self._outputs]

    def answer(
        self, made: Sequence[Sequence[Made]], row: int, flags: tuple[bool, ...]
    ) -> tuple[tuple[OutputValue, ...], tuple[bool, ...]] | Unusable:
        """Put the values of one row together; ``flags`` is the stream's state before. Returns the values and it after."""
        values = []
        after: list[bool] = []
        for output, rows in zip(self._outputs, made, strict=True):
            value = rows[row]
            if type(value) is float:
                named = []
                for flag in output.flags:
                    state = switched(flag, value, was_on=flags[len(after)])
                    after.append(state)
                    named.append((flag.name, state))
                values.append(OutputValue(output.name, value, output.unit, tuple(named)))
            elif isinstance(value, Unusable):
                return value
            elif isinstance(value, Labelled):
                values.append(OutputValue(output.name, value.text, output.unit, (), value.score))
            else:
                values.append(OutputValue(output.name, value, output.unit))
        return tuple(values), tuple(after)

    def is_clipped(self, outputs: Outputs, row: int) -> bool:
        """Whether a number of this row stands at an end of its int8 scale: it may lie anywhere beyond."""
        for tensor, column, low, high in self._ends:
            values = outputs[tensor]
            if not low < values.item(row * (values.size // len(values)) + column) < high:
                return True
        return False


def switched(flag: Threshold, value: float, *, was_on: bool) -> bool:
    """The flag's state after ``value``: on strictly beyond ``on``, off at or beyond ``off``, else as it was."""
    if flag.side == "below":
        return value < flag.on or (was_on and value < flag.off)
    return value > flag.on or (was_on and value > flag.off)


def _ends(manifest: Manifest, variant: Variant) -> list[tuple[str, int, float, float]]:
    """Half a step inside the ends of each number's scale: rounding must not decide."""
    ends = []
    for output in manifest.outputs:
        scale = variant.output_scale.get(output.tensor)
        if scale is not None and output.form == "number":
            ends.append((output.tensor, output.column, scale.min + scale.step / 2, scale.max - scale.step / 2))
    return ends


def _maker(output: Output) -> Callable[[NDArray[Any]], Sequence[Made]]:
    if output.form == "label":
        return _label_maker(output)
    make = _number_maker(output) if output.form == "number" else _vector_maker(output)
    column = output.column

    def checked(tensor: NDArray[Any]) -> Sequence[Made]:
        width = tensor.size // len(tensor)
        if tensor.dtype.kind in "fiub" and column < width:
            return make(tensor)
        found = f"{width} {tensor.dtype} values, no number at place {column}"
        return [Unusable("no_number", found)] * len(tensor)

    return checked


def _vector_maker(output: Output) -> Callable[[NDArray[Any]], Sequence[Made]]:
    steps = [_row_step(step) for step in output.postprocess]
    return lambda tensor: [_vector(row) for row in _stepped(tensor, steps)]


def _label_maker(output: Output) -> Callable[[NDArray[Any]], Sequence[Made]]:
    steps = [_row_step(step) for step in output.postprocess]
    labels = output.labels

    def label(tensor: NDArray[Any]) -> Sequence[Made]:
        is_one = tensor.size == len(tensor)
        if tensor.dtype.kind in "OU" and is_one:
            return [_labelled(labels, str(text)) for text in tensor.reshape(len(tensor)).tolist()]
        if tensor.dtype.kind in "iub" and is_one:
            return [_numbered(labels, int(place)) for place in tensor.reshape(len(tensor)).tolist()]
        if tensor.dtype.kind not in "fiub":
            found = f"{tensor.size // len(tensor)} {tensor.dtype} values, not one text"
            return [Unusable("unknown_label", found)] * len(tensor)
        return [_highest(labels, row) for row in _stepped(tensor, steps)]

    return label


def _number_maker(output: Output) -> Callable[[NDArray[Any]], Sequence[Made]]:
    column = output.column
    if all(isinstance(step, Destandardize) for step in output.postprocess):
        affine = [(step.std, step.mean) for step in output.postprocess if isinstance(step, Destandardize)]

        def number(tensor: NDArray[Any]) -> Sequence[Made]:
            made: list[Made] = []
            is_one = tensor.size == len(tensor)
            for raw in tensor.ravel().tolist() if is_one else tensor.reshape(len(tensor), -1)[:, column].tolist():
                value = float(raw)
                for scale, offset in affine:
                    value = value * scale + offset
                made.append(value if math.isfinite(value) else _NOT_FINITE)
            return made

        return number
    steps = [_row_step(step) for step in output.postprocess]
    return lambda tensor: [_finite(float(row[column])) for row in _stepped(tensor, steps)]


def _row_step(step: PostStep) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    if isinstance(step, Destandardize):
        return lambda rows: rows * step.std + step.mean
    if isinstance(step, Sigmoid):
        return lambda rows: 1.0 / (1.0 + np.exp(-np.clip(rows, -700.0, 700.0)))
    if isinstance(step, Exponential):
        base = {"e": math.e, "2": 2.0, "10": 10.0}[step.base]
        return lambda rows: np.exp(rows) if base == math.e else np.power(base, rows)
    return _softmax


def _softmax(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _stepped(
    tensor: NDArray[Any], steps: Sequence[Callable[[NDArray[np.float64]], NDArray[np.float64]]]
) -> NDArray[np.float64]:
    rows = tensor.reshape(len(tensor), -1).astype(np.float64)
    # A step may make a number of infinity, as a sigmoid does, and hide what the model gave.
    rows[~np.isfinite(rows)] = np.nan
    with np.errstate(all="ignore"):  # what is not finite is refused by name, row by row
        for step in steps:
            rows = step(rows)
    return rows


def _finite(value: float) -> Made:
    return value if math.isfinite(value) else _NOT_FINITE


def _vector(row: NDArray[np.float64]) -> Made:
    return tuple(row.tolist()) if np.isfinite(row).all() else _NOT_FINITE


def _highest(labels: tuple[str, ...], row: NDArray[np.float64]) -> Made:
    if len(row) != len(labels):
        return Unusable("unknown_label", f"{len(row)} scores for {len(labels)} labels")
    if not np.isfinite(row).all():
        return _NOT_FINITE
    place = int(row.argmax())
    return Labelled(labels[place], float(row[place]))


def _numbered(labels: tuple[str, ...], place: int) -> Made:
    if 0 <= place < len(labels):
        return Labelled(labels[place], None)
    return Unusable("unknown_label", f"label number {place} of {len(labels)}")


def _labelled(labels: tuple[str, ...], text: str) -> Made:
    return Labelled(text, None) if text in labels else Unusable("unknown_label", f"label {text[:60]!r}")
