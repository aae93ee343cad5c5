"""The outputs of a drafted contract: a label and its scores where model or data show classes, else a number; it guesses no word."""

from collections.abc import Sequence
from typing import NamedTuple

from onnx import ModelProto, TensorProto, ValueInfoProto

from edge_runtime.author.draft_data import Table, Target
from edge_runtime.author.draft_target import names_target
from edge_runtime.author.draft_text import channel_names, comment, listed, quoted
from edge_runtime.author.lint_nodes import dtype_name, made_by, stated_classes
from edge_runtime.author.rewrite import tensors_for_maps

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_BY_ROW = 2  # axes of a tensor of scores: the batch and the classes


class _Labels(NamedTuple):
    """The words of a label by place, and where they are from; none known where there are none."""

    words: tuple[str, ...]
    source: str


def outputs(model: ModelProto, table: Table) -> str:
    """The ``[[output]]`` tables: of a classifier its label, and its scores as a vector, which the mutants need."""
    plain = ModelProto()
    plain.CopyFrom(model)
    maps = tensors_for_maps(plain)  # a build makes the same tensors of them
    stated = next(iter(maps.values()), None) or stated_classes(model)
    values = list(plain.graph.output)
    label = next((one for one in values if _is_label(one)), None)
    scores = next((one for one in values if one.name in maps), None)
    scores = scores or next((one for one in values if _has_classes(one, stated, table, beside_label=bool(label))), None)
    # A whole number is a place: where the model's classes are other numbers, its scores tell the label.
    if label is not None and not _is_text(label) and stated and stated != _places(len(stated)):
        label = scores
    label = label or scores
    if label is None:
        return _number(values)
    labels = _labels(label, scores, stated, table)
    used = {one.name for one in (label, scores) if one is not None}
    parts = [_others([one.name for one in values if one.name not in used]), _label(label, labels, table)]
    if scores is not None:
        done = made_by(model, scores.name) in ("Softmax", "Sigmoid")
        parts.append(_scores(scores, by_place=label is not scores, done=done))
    return "\n".join(part for part in parts if part)


def class_counts(model: ModelProto) -> tuple[int, ...]:
    """How many classes each output can be the scores of, where it has several numbers a case."""
    return tuple(count for one in model.graph.output if (count := _classes_in(one)) is not None)


def shape_of(value: ValueInfoProto) -> tuple[int | str, ...]:
    """A tensor's sizes: a number, the name of one that may be any, or "?"."""
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)


def _number(values: Sequence[ValueInfoProto]) -> str:
    value = values[0]
    wide = _classes_in(value)
    several = f"# {wide} numbers a case: one of them by its `column`, or form = {quoted('vector')}\n" if wide else ""
    others = _others([other.name for other in values[1:]])
    return f"""\
{others}{several}[[output]]
{_tensor(value)}
name = {quoted(channel_names([value.name])[0])}
meaning = "TODO"
unit = "TODO"  # "1" for a number without unit
# postprocess = [{{ step = "destandardize", mean = 0.0, std = 1.0 }}]  # where the target was standardized
# flags = [{{ name = "low", side = "below", on = 2.0, off = 2.5 }}]  # a warning with hysteresis, in this unit
"""


def _label(value: ValueInfoProto, labels: _Labels, table: Table) -> str:
    words = listed(labels.words or ("TODO",))
    return f"""\
{_unfit_targets(labels.words, table)}[[output]]
{_tensor(value)}
name = "label"
meaning = "TODO"
form = "label"
labels = {words}  # {comment(labels.source)}
"""


def _scores(value: ValueInfoProto, *, by_place: bool, done: bool) -> str:
    hint = "# The reference's output then names an array for each of the two tensors.\n" if by_place else ""
    softmax = (
        "# No softmax in postprocess: the model's own last node has done it."
        if done
        else '# postprocess = [{ step = "softmax" }]  # if these are logits'
    )
    return f"""\
# The scores beside the label: a label alone hides most mistakes, and a build wants its goldens to notice them.
{hint}[[output]]
{_tensor(value)}
name = "scores"
meaning = "the score of each label, in their order"
form = "vector"
{softmax}
"""


def _labels(
    label: ValueInfoProto, scores: ValueInfoProto | None, stated: tuple[str, ...] | None, table: Table
) -> _Labels:
    count = _classes_in(scores) if scores is not None else None
    if stated and count in (None, len(stated)):
        return _Labels(stated, "the model's own classes, in its order")
    for target in table.targets:
        words = _words(target, count)
        if words:
            return _from_target(target, words, table, is_text=_is_text(label))
    if count is None and not _is_text(label):
        return _Labels((), 'its words, by place; or form = "number", where it counts something')
    return _Labels((), f"its {count} words, by place" if count else "its words")


def _from_target(target: Target, words: tuple[str, ...], table: Table, *, is_text: bool) -> _Labels:
    """The words of a target; none where nothing would prove the order that only the author knows."""
    if isinstance(target.values[0], int):
        return _Labels(words, f"places, as {target.name} numbers the classes: write their words, if they have any")
    if is_text:
        return _Labels(words, f"the words of {target.name}")
    if names_target(table, target):
        return _Labels(words, f"the words of {target.name} in sorted order: check it, the model does not say its own")
    shown = ", ".join(words)
    return _Labels(
        (), f"by place, as in training; perhaps the words of {target.name} ({shown}): no target proves their order"
    )


def _words(target: Target, count: int | None) -> tuple[str, ...]:
    """What a target's values are as labels of so many classes (None: not known); nothing where they cannot be that."""
    numbers = [value for value in target.values if isinstance(value, int)]
    if not numbers:
        return tuple(map(str, target.values)) if count in (None, len(target.values)) else ()
    places = _places(count or len(numbers))
    return places if len(numbers) > 1 and _fits(target, places) else ()


def _unfit_targets(words: tuple[str, ...], table: Table) -> str:
    """A build takes a number in a target as a label's place: say where the data's values are none."""
    unfit = [comment(one.name) for one in table.targets if words and not _fits(one, words)]
    told = "has values that are none of these labels: write it as their words, or as their places from 0 on"
    return "".join(f"# {name} {told}.\n" for name in unfit)


def _fits(target: Target, words: tuple[str, ...]) -> bool:
    return all(one in words if isinstance(one, str) else 0 <= one < len(words) for one in target.values)


def _is_label(value: ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    return _is_text(value) or (kind.elem_type == TensorProto.INT64 and _classes_in(value) is None)


def _is_text(value: ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.STRING)


def _has_classes(value: ValueInfoProto, stated: tuple[str, ...] | None, table: Table, *, beside_label: bool) -> bool:
    """Whether a row of floats looks like the scores of classes: beside a label, or by as many classes somewhere."""
    count = _classes_in(value)
    if count is None or value.type.tensor_type.elem_type not in _FLOATS:
        return False
    if stated:
        return count == len(stated)
    return beside_label or any(_words(one, count) for one in table.targets)


def _classes_in(value: ValueInfoProto) -> int | None:
    """How many numbers a row has, where they are several and known."""
    dims = value.type.tensor_type.shape.dim
    size = dims[-1].dim_value if len(dims) == _BY_ROW else 0
    return size if size > 1 else None


def _places(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _others(names: Sequence[str]) -> str:
    return f"# other outputs of the model: {comment(', '.join(names))}\n" if names else ""


def _tensor(value: ValueInfoProto) -> str:
    kind = value.type.tensor_type
    shape = ", ".join(map(str, shape_of(value)))
    dtype = "string" if _is_text(value) else dtype_name(kind.elem_type)
    return f"tensor = {quoted(value.name)}  # {dtype} ({comment(shape)})"
