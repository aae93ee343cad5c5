"""Mutants of the constants a manifest holds, each a share off; it looks at no unit and runs none of them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from edge_runtime.author.mutate_line import Way
from edge_runtime.author.mutate_subject import Subject
from edge_runtime.spec.outputs import Destandardize, Output

Made = Iterator[tuple[str, Callable[[], Way]]]

# So many of one list of constants: a spectrum has a mean and a deviation for each of a thousand points.
MAX_OF_A_LIST = 32
# Fields that are numbers, but no measured constants.
_NO_CONSTANTS = frozenset({"keys", "source", "target"})
_A0 = 3  # of a filter's section, always 1


def constants(subject: Subject, share: float) -> Made:
    """Each number of the steps, the outputs' steps, the flags, the fills and the states, by ``share`` up and down."""
    yield from _of_inputs(subject, share)
    for at, output in enumerate(subject.manifest.outputs):
        for name, changed in _changed_steps(output.postprocess, share):
            made = output.model_copy(update={"postprocess": changed})
            yield f"{output.name}, {name}", partial(subject.with_output, at, made)
        for name, flags in _changed_steps(output.flags, share, zero=_spread(output)):
            made = output.model_copy(update={"flags": flags})
            yield f"{output.name}, {name}", partial(subject.with_output, at, made)
    manifest = subject.manifest
    for at, state in enumerate(manifest.state):
        for off in (share, -share) if state.initial else ():
            other = state.model_copy(update={"initial": state.initial * (1 + off)})
            changed_manifest = manifest.model_copy(update={"state": put(manifest.state, at, other)})
            yield f"{state.input}, initial {off:+.0%}", partial(subject.with_manifest, changed_manifest)


def put(values: Sequence[Any], place: int, value: Any) -> tuple[Any, ...]:
    """The values with another one at ``place``."""
    return (*values[:place], value, *values[place + 1 :])


def some(count: int) -> list[int]:
    """The places of a list that are changed: all, or as many as `MAX_OF_A_LIST`, evenly spaced."""
    if count <= MAX_OF_A_LIST:
        return list(range(count))
    return [int(at) for at in np.linspace(0, count - 1, MAX_OF_A_LIST).round()]


def _of_inputs(subject: Subject, share: float) -> Made:
    for at, model_input in enumerate(subject.manifest.inputs):
        for name, changed in _changed_steps(model_input.steps, share):
            steps = model_input.model_copy(update={"steps": changed})
            yield f"{model_input.tensor}, {name}", partial(subject.with_input, at, steps)
        for place, channel in enumerate(model_input.channels):
            for off in (share, -share) if channel.fill else ():
                filled = channel.model_copy(update={"fill": (channel.fill or 0.0) * (1 + off)})
                held = model_input.model_copy(update={"channels": put(model_input.channels, place, filled)})
                yield f"{channel.name}, fill {off:+.0%}", partial(subject.with_input, at, held)


def _changed_steps(
    every: Sequence[BaseModel], share: float, zero: float = 0.0
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each list of steps that differs in one number, with its name; what no manifest could hold is left out."""
    for number, step in enumerate(every):
        named = getattr(step, "step", None) or getattr(step, "name", "")
        for where, update in _changed_numbers(step, share, zero):
            try:
                changed = type(step).model_validate(step.model_dump() | update)
            except ValidationError:
                continue
            yield f"{named} {number + 1}, {where}", put(every, number, changed)


def _changed_numbers(step: BaseModel, share: float, zero: float) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in type(step).model_fields:
        value = getattr(step, field)
        if field in _NO_CONSTANTS or not isinstance(value, float | tuple):
            continue
        for off in (share, -share):
            if isinstance(value, tuple):
                for where, changed in _changed_list(step, field, value, off):
                    yield f"{field} {where} {off:+.0%}", {field: changed}
            elif (other := _off(value, off, _width(step, field, None) or zero)) != value:
                yield f"{field} {off:+.0%}", {field: other}


def _changed_list(step: BaseModel, field: str, values: tuple[Any, ...], off: float) -> Iterator[tuple[str, Any]]:
    """A list of numbers, or of filter sections, with one number of it changed."""
    for place in some(len(values)):
        value = values[place]
        if isinstance(value, tuple):
            for inner, number in enumerate(value):
                if inner != _A0 and number:
                    yield f"{place}.{inner}", put(values, place, put(value, inner, number * (1 + off)))
        elif isinstance(value, float) and (other := _off(value, off, _width(step, field, place))) != value:
            yield str(place), put(values, place, other)


_NEXT_TO_ZERO = 0.01


def _off(value: float, off: float, width: float) -> float:
    """The number off by a share of itself; one that is next to zero, by that share of the width that goes with it.

    A mean of -0.003 beside a spread of 3 is a zero with noise on it: a hundredth of it is nothing anybody could notice.
    """
    return value * (1 + off) if abs(value) > _NEXT_TO_ZERO * width else value + off * width


def _width(step: BaseModel, field: str, place: int | None) -> float:
    if field == "mean":
        std: Any = getattr(step, "std", 0.0)
        return float(std if place is None else std[place])
    if field in ("min", "max") and place is not None:
        return float(getattr(step, "max")[place] - getattr(step, "min")[place])  # noqa: B009 - of whatever step has them
    if field == "values":
        return float(np.abs(getattr(step, field)).max())
    return 1.0 if field == "b" else 0.0


def _spread(output: Output) -> float:
    return next((step.std for step in output.postprocess if isinstance(step, Destandardize)), 0.0)
