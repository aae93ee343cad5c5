"""Mutants of the tensor a model is fed: axes, order, colours, a picture's scale; the numbers stay what they were."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.mutate_line import Tensors, Way
from edge_runtime.author.mutate_subject import Subject
from edge_runtime.spec.inputs import Input

Made = Iterator[tuple[str, Callable[[], Way]]]
_REVERSED = ("time", "row", "column", "point")
_COLOURS = 3
_BYTE = 255.0


def layouts(subject: Subject) -> Made:
    """Two axes exchanged under an unchanged shape, and each of time, rows, columns, points the other way round."""
    for model_input in subject.manifest.inputs:
        sizes = _sizes(subject, model_input)
        for one, other in combinations(sizes, 2):
            names = f"{model_input.axes[one]} and {model_input.axes[other]} exchanged"
            yield f"{model_input.tensor}, {names}", _changed(subject, model_input, partial(_transposed, one, other))
        for axis in sizes:
            if model_input.axes[axis] in _REVERSED:
                yield (
                    f"{model_input.tensor}, {model_input.axes[axis]} reversed",
                    _changed(subject, model_input, partial(_flipped, axis)),
                )


def colours(subject: Subject) -> Made:
    """Red, green and blue the other way round."""
    for model_input in subject.manifest.inputs:
        for axis, size in _sizes(subject, model_input).items():
            is_colour = model_input.axes[axis] == "colour" or (
                model_input.axes[axis] == "channel" and _is_picture(model_input)
            )
            if size == _COLOURS and is_colour:
                yield f"{model_input.tensor}, BGR", _changed(subject, model_input, partial(_flipped, axis))


def pictures(subject: Subject) -> Made:
    """A picture 255 times too dark or too bright, and 8-bit numbers taken with the other sign."""
    for model_input in subject.manifest.inputs:
        if not _is_picture(model_input):
            continue
        yield f"{model_input.tensor} / 255", _changed(subject, model_input, partial(_scaled, 1 / _BYTE))
        yield f"{model_input.tensor} * 255", _changed(subject, model_input, partial(_scaled, _BYTE))
        if model_input.dtype in ("uint8", "int8"):
            yield f"{model_input.tensor}, 128 off", _changed(subject, model_input, _other_sign)


def _sizes(subject: Subject, model_input: Input) -> dict[int, int]:
    """The axes that hold more than one place, without the batch, as the goldens have them."""
    shape = subject.goldens.tensors[model_input.tensor].shape
    return {axis: size for axis, size in enumerate(shape) if axis and size > 1}


def _is_picture(model_input: Input) -> bool:
    return {"row", "column"} <= set(model_input.axes)


def _changed(subject: Subject, model_input: Input, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[], Way]:
    name = model_input.tensor

    def tensors(fed: Tensors) -> Tensors:
        return fed | {name: np.ascontiguousarray(change(fed[name]))}

    return partial(replace, subject.way, tensors=tensors)


def _transposed(one: int, other: int, values: NDArray[Any]) -> NDArray[Any]:
    return values.swapaxes(one, other).reshape(values.shape)


def _flipped(axis: int, values: NDArray[Any]) -> NDArray[Any]:
    return np.flip(values, axis)


def _scaled(factor: float, values: NDArray[Any]) -> NDArray[Any]:
    scaled = values.astype(np.float64) * factor
    if values.dtype.kind in "iu":
        held = np.iinfo(values.dtype)
        scaled = np.clip(np.rint(scaled), held.min, held.max)
    return scaled.astype(values.dtype)


def _other_sign(values: NDArray[Any]) -> NDArray[Any]:
    return (values.view(np.uint8) ^ np.uint8(128)).view(values.dtype)
