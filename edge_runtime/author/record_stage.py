"""Which stage a framework's record is of, where it is not the model's own output; it judges no number that fits none."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.straight import nearest_line
from edge_runtime.flow.model import Model
from edge_runtime.flow.postprocess import Postprocess
from edge_runtime.spec.outputs import Output, PostStep, Sigmoid, Softmax

WANTED = "the model's own output, before postprocess"
"""What a record has to be."""

_ALIKE = 1e-3
_MIN_NUMBERS = 8
_UNSAID: tuple[PostStep, ...] = (Softmax(step="softmax"), Sigmoid(step="sigmoid"))

Values = NDArray[Any]


class Stage(NamedTuple):
    """What a record is instead of the model's own output, and what to do, in words."""

    found: str
    todo: str


def stage_of(model: Model, tensor: str, ours: Values, theirs: Values) -> Stage | None:
    """The stage whose values ``theirs`` are, where ``ours`` is what the model gives at ``tensor``; None where none fits.

    Both have the cases first, and may be of other sizes than one another: a label is one text for many scores.
    """
    if len(theirs) != len(ours):
        return None
    outputs = [output for output in model.manifest.outputs if output.tensor == tensor]
    found = [stage for output in outputs for stage in _stages(model, output, ours, theirs)]
    return next(iter(found), None) or _by_column(model, outputs, ours, theirs) or _line(ours, theirs)


def _by_column(model: Model, outputs: Sequence[Output], ours: Values, theirs: Values) -> Stage | None:
    """Numbers that are taken from one row, each after steps of its own."""
    numbers = [output for output in outputs if output.form == "number" and output.postprocess]
    if not numbers or ours.dtype.kind not in "fiu" or theirs.size != ours.size:
        return None
    rows = ours.reshape(len(ours), -1).astype(np.float64)
    for output in numbers:
        after = _after(model, output, output.postprocess, ours)
        if after is None or output.column >= after.shape[1]:
            return None
        rows[:, output.column] = after[:, output.column]
    return _answer([step for output in numbers for step in output.postprocess]) if _is_made_of(theirs, rows) else None


def _stages(model: Model, output: Output, ours: Values, theirs: Values) -> Iterator[Stage]:
    if output.form == "label":
        yield from _labelled(model, output, ours, theirs)
    ways = [output.postprocess] if output.postprocess else []
    ways += [(step,) for step in _UNSAID] if not output.postprocess else []
    for steps in ways:
        names = _names(steps)
        is_stated = bool(output.postprocess)
        if _is_made_of(theirs, _after(model, output, steps, ours), output):
            yield _answer(steps) if is_stated else Stage(
                f"the {names} of the model's output",
                f"record what the model gave before {names}, or export it with {names} inside",
            )  # fmt: skip
        if _is_made_of(ours, _after(model, output, steps, theirs)):
            yield Stage(
                f"what the model's output is made of by {names}: the model has {names} inside, the record stops before",
                "record the exported model's own output" + (f", and take {names} out of postprocess" if is_stated else "")
                + f"; or export the model without {names}",
            )  # fmt: skip


def _answer(steps: Sequence[PostStep]) -> Stage:
    names = _names(steps)
    return Stage(
        f"the answer, after postprocess ({names})",
        f"record what the model gave before {names}, or export it with {names} inside and take that out of postprocess",
    )


def _names(steps: Sequence[PostStep]) -> str:
    return ", ".join(dict.fromkeys(step.step for step in steps))


def _labelled(model: Model, output: Output, ours: Values, theirs: Values) -> Iterator[Stage]:
    """Words or places of labels, where the model gives scores or places."""
    if theirs.size != len(theirs) or (theirs.dtype.kind not in "OUiu"):
        return
    (made,) = Postprocess(model.manifest.model_copy(update={"outputs": (output,)})).make({output.tensor: ours})
    words = [getattr(one, "text", None) for one in made]
    said = theirs.reshape(-1).tolist()
    places = [output.labels.index(word) if word in output.labels else None for word in words]
    gives = "scores" if ours.dtype.kind == "f" else "numbers"
    if said == words or (said == places and ours.dtype.kind == "f"):
        kind = "labels" if said == words else "places of the labels"
        yield Stage(
            f"the {kind}, after postprocess", f"record the {gives} that the model gives and the labels are made of"
        )


def _after(model: Model, output: Output, steps: Sequence[PostStep], values: Values) -> Values | None:
    """The whole rows after ``steps``, as a device computes them; None of what is no number."""
    if values.dtype.kind not in "fiu":
        return None
    row = output.model_copy(update={"form": "vector", "postprocess": tuple(steps), "column": 0})
    (made,) = Postprocess(model.manifest.model_copy(update={"outputs": (row,)})).make({output.tensor: values})
    return np.array(made) if all(type(one) is tuple for one in made) else None


def _is_made_of(record: Values, rows: Values | None, output: Output | None = None) -> bool:
    """Whether a record is these rows, or that number of each that ``output`` takes."""
    if rows is None or record.dtype.kind not in "fiu":
        return False
    if output is not None and output.form == "number" and record.size == len(rows) and output.column < rows.shape[1]:
        rows = rows[:, output.column]
    return record.size == rows.size and _is_alike(record.reshape(-1), rows.reshape(-1))


def _is_alike(record: Values, values: Values) -> bool:
    spread = float(record.std())
    return spread > 0 and bool((np.abs(record.astype(np.float64) - values) <= _ALIKE * spread).all())


def _line(ours: Values, theirs: Values) -> Stage | None:
    """A constant and a factor away in every number: the answer in its unit, mostly."""
    if ours.size != theirs.size or ours.size < _MIN_NUMBERS or {ours.dtype.kind, theirs.dtype.kind} - set("fiu"):
        return None
    values, record = ours.reshape(-1).astype(np.float64), theirs.reshape(-1).astype(np.float64)
    if not (np.isfinite(values).all() and np.isfinite(record).all()):
        return None
    line = nearest_line(values, record)
    is_same = _is_alike(record, values)
    if is_same or line.factor <= 0 or not _is_alike(record, values * line.factor + line.shift):
        return None
    return Stage(
        f"the model's output {line.told('')} in every case: the answer in its unit, it seems",
        f'record the model\'s own output, and let postprocess = [{{ step = "destandardize", mean = {line.shift:.6g}, '
        f"std = {line.factor:.6g} }}] make the answer; or export the model with that inside",
    )  # fmt: skip
