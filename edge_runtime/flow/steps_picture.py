"""The steps on pictures: resize and colours; it decodes no file and knows no layout but rows, columns, colours."""

from edge_runtime.flow.steps_sums import Fit, Floats, Shape, area, bilinear, weighted
from edge_runtime.spec.steps import Colours, Resize

_GREY, _COLOURED = 3, 4  # dimensions of (time, rows, columns) and of (time, rows, columns, colours)
_RGB = 3
_ROWS, _COLUMNS = 2, 3  # where they stand in a batch


def fit_resize(step: Resize, shape: Shape) -> Fit:
    """``(time, rows, columns[, colours])`` to ``(time, height, width[, colours])``.

    ``area`` refuses to enlarge one side while it shrinks the other: there libraries disagree.
    """
    if len(shape) not in {_GREY, _COLOURED}:
        return "(time, rows, columns) or (time, rows, columns, colours)"
    grown = (step.height - shape[1], step.width - shape[2])
    if step.method == "area" and min(grown) < 0 < max(grown):
        return f"rows and columns both at least, or both at most, {step.height} x {step.width}; or bilinear"
    taps = area if step.method == "area" else bilinear
    rows, columns = taps(shape[1], step.height), taps(shape[2], step.width)

    def apply(values: Floats) -> Floats:
        return weighted(weighted(values, _ROWS, rows), _COLUMNS, columns)

    return apply, (shape[0], step.height, step.width, *shape[3:])


def fit_colours(step: Colours, shape: Shape) -> Fit:
    """``(time, rows, columns, 3)`` to the same for ``bgr``, to ``(time, rows, columns)`` for ``gray``."""
    if len(shape) != _COLOURED or shape[3] != _RGB:
        return "(time, rows, columns, 3)"
    if step.weights is None:
        return lambda values: values[..., ::-1], shape
    red, green, blue = step.weights

    def apply(values: Floats) -> Floats:
        grey: Floats = values[..., 0] * red
        grey += values[..., 1] * green
        grey += values[..., 2] * blue
        return grey

    return apply, shape[:3]
