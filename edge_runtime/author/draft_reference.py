"""The `[reference]` of a drafted contract, by the names of arrays, else by shapes that leave no doubt; it reads no value."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onnx import ModelProto

from edge_runtime.author.draft_data import Table
from edge_runtime.author.draft_outputs import shape_of
from edge_runtime.author.draft_text import comment, quoted

_GROUPS = ("raw", "tensor", "output")
Shape = tuple[int, ...]
# Of a model: a number, or the name of a size that may be any.
AnyShape = Sequence[int | str]


class Recorded(NamedTuple):
    """A reference that lies beside the data: its path for the contract, and the shapes of its arrays by name."""

    file: str
    arrays: Mapping[str, Shape]


def draft_reference(recorded: Recorded | None, model: ModelProto, table: Table, input_shape: AnyShape) -> str:
    """The table; what neither a name nor a shape tells is TODO.

    An array is `raw`, `tensor` or `output` by that name, or by `raw/CHANNEL` and so on, as `record_reference` writes
    them. Of the others one alone that has the layout of the data is raw, then one alone of the model's input shape is
    the tensor, and of its only output's shape the output.
    """
    arrays = recorded.arrays if recorded else {}
    found = {group: _named(group, arrays) for group in _GROUPS}
    others = {name: shape for name, shape in arrays.items() if name.partition("/")[0] not in _GROUPS}
    wanted = {group: shape for group, shape in _wanted(model, table, input_shape).items() if not found[group]}
    guessed = _by_shape(wanted, others)
    lines = [
        "# Cases your framework answered itself: raw values as in [data], the tensor it was given, and what the model itself",
        "# answered, before postprocess.",
        "[reference]",
        f"file = {quoted(recorded.file if recorded else 'TODO')}",
    ]
    for group in _GROUPS:
        if group in guessed:
            lines.append(f"{group} = {quoted(guessed[group])}  # guessed by its shape: check it")
        else:
            left = {name: shape for name, shape in others.items() if name not in guessed.values()}
            lines.append(f"{group} = {found[group] or _todo(left)}")
    return "\n".join([*lines, ""])


def _todo(others: Mapping[str, Shape]) -> str:
    shown = ", ".join(f"{name} {shape}" for name, shape in others.items())
    return quoted("TODO") + (f"  # perhaps one of {comment(shown)}" if shown else "")


def _named(group: str, arrays: Mapping[str, Shape]) -> str | None:
    inner = sorted(name for name in arrays if name.startswith(f"{group}/"))
    if group in arrays:
        return quoted(group)
    named = ", ".join(f"{quoted(name.removeprefix(f'{group}/'))} = {quoted(name)}" for name in inner)
    return f"{{ {named} }}" if named else None


def _wanted(model: ModelProto, table: Table, input_shape: AnyShape) -> dict[str, AnyShape]:
    """What shape each group would have, its first place the number of cases."""
    outputs = [shape_of(one) for one in model.graph.output]
    wanted: dict[str, AnyShape] = {"tensor": ("cases", *input_shape[1:])}
    if not table.is_series or len(input_shape) == len(table.axes):  # else the data have yet to be cut into windows
        wanted["raw"] = ("cases", *table.layout)
    if len(outputs) == 1 and outputs[0]:
        wanted["output"] = ("cases", *outputs[0][1:])
    return wanted


def _by_shape(wanted: Mapping[str, AnyShape], arrays: Mapping[str, Shape]) -> dict[str, str]:
    """The arrays that alone fit a group, and fit no other one of those still wanted."""
    fits = {group: [name for name, shape in arrays.items() if _is_like(shape, like)] for group, like in wanted.items()}
    return {
        group: names[0]
        for group, names in fits.items()
        if len(names) == 1 and sum(names[0] in other for other in fits.values()) == 1
    }


def _is_like(shape: Shape, like: AnyShape) -> bool:
    return len(shape) == len(like) and all(
        not isinstance(want, int) or want == size for size, want in zip(shape, like, strict=True)
    )
