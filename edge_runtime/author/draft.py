"""A first contract.toml from a model and data: what can be seen is filled in, what cannot be known is TODO; it guesses no unit."""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from edge_runtime.author.arrays import extent, longest_runs
from edge_runtime.author.draft_data import Table
from edge_runtime.author.draft_outputs import class_counts, outputs, shape_of
from edge_runtime.author.draft_reference import Recorded, draft_reference
from edge_runtime.author.draft_target import array_of, names_target, with_target, with_words
from edge_runtime.author.draft_text import channel_names, comment, listed, quoted
from edge_runtime.author.lint_nodes import dtype_name, stated_classes
from edge_runtime.author.unsaid import CHECKPOINT_DIGEST
from edge_runtime.errors import BundleError

_QUANTILES = (1, 25, 50, 75, 99)
_MIN_AXES, _MAX_AXES = 2, 3
# From so many equal values in a row on, data say something of how long an honest sensor may stand still.
_LEAST_RUN = 4
# So many columns more than channels are what was to be predicted; more of them is data for another model.
_FEW = 3
_NO_PACE = '"TODO"  # seconds between samples; without this line neither the pace of the samples nor a gap is checked'


class _Input(NamedTuple):
    """The model's input: name, axes in the contract's words, length of its window or None."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int | str, ...]
    length: str | None


def draft(
    model: ModelProto,
    table: Table,
    *,
    model_file: str,
    subject: str,
    reference: Recorded | None = None,
    target: str | None = None,
) -> str:
    """The text of a contract for ``model`` and ``table``; ``model_file`` is the path to write into it.

    ``reference`` fills its table with the arrays whose name or shape says what they are; ``target`` is the column of a
    table that is what was true, where its name does not say so.

    Raises:
        ConfigurationError: no such column.
        BundleError: the model's first input is not (batch, channel) or (batch, channel, time) in some order, or the
            data has another number of channels.

    """
    name, shape = _model_input(model, subject)
    outputs_called = channel_names([one.name for one in model.graph.output])
    table = with_target(table, [size for size in shape[1:] if isinstance(size, int)], outputs_called, target)
    table = with_words(table, class_counts(model), stated_classes(model) or ())
    model_input = _input(name, shape, table, subject)
    names = channel_names(table.names)
    recorded = draft_reference(reference, model, table, model_input.shape)
    parts = (_head(model, model_file), _data(table), recorded, _input_part(model_input, model))
    channels = (_channel(name, at, table, windowed=model_input.length is not None) for at, name in enumerate(names))
    ends = (_window(model_input, table), _preprocess(table), outputs(model, table), _END)
    return "\n".join([*parts, *channels, *(part for part in ends if part)])


def _model_input(model: ModelProto, subject: str) -> tuple[str, tuple[int | str, ...]]:
    """Name and shape of the model's first input."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    if not inputs:
        raise BundleError(subject=subject, found="no input", expected="one input", todo="export the model again")
    return inputs[0].name, shape_of(inputs[0])


def _input(name: str, shape: tuple[int | str, ...], table: Table, subject: str) -> _Input:
    channels = table.raw.shape[2]
    places = [at for at in range(1, len(shape)) if shape[at] == channels]
    if not _MIN_AXES <= len(shape) <= _MAX_AXES or not places:
        surplus = _surplus(shape, table)
        if surplus:
            raise _too_many(f"input {name} of {subject}, shape ({', '.join(map(str, shape))})", surplus, table)
        raise BundleError(
            subject=f"{subject}, input {name}", found=f"shape ({', '.join(map(str, shape))})",
            expected=f"(batch, {channels}), or with a time axis more: the data has {channels} channels",
            todo="give the data with one column (or one place on the channel axis) for each channel of the model",
        )  # fmt: skip
    if len(shape) == _MIN_AXES:
        return _Input(name, ("batch", "channel"), shape, None)
    time = 3 - places[0]
    axes = ("batch", "channel", "time") if time == 2 else ("batch", "time", "channel")  # noqa: PLR2004 - the last axis
    size = shape[time]
    if not isinstance(size, int):
        size = '"TODO"  # samples' if table.is_series else table.raw.shape[1]
    return _Input(name, axes, shape, str(size))


def _too_many(input_: str, surplus: Sequence[str], table: Table) -> BundleError:
    named = ", ".join(map(comment, surplus))
    likely = (
        f"{named} perhaps, the last, which may be what was true" if len(surplus) == 1 else f"perhaps the last: {named}"
    )
    todo = f"for a target: --target {shlex.quote(surplus[-1])}; for neither: take the column out of {table.source}"
    if table.file is not None:
        todo = "for a target: write it as an array of its own, and name that in data.train = { values, target }; else leave it out"
    return BundleError(
        subject=table.source, found=f"{len(table.names)} channels, {len(surplus)} too many ({likely})",
        expected=f"{len(table.names) - len(surplus)}, as {input_} takes", todo=todo,
    )  # fmt: skip


def _surplus(shape: Sequence[int | str], table: Table) -> tuple[str, ...]:
    """The last names of the data where it has a few more than the model's channels: mostly what was to be predicted."""
    channels = len(table.names)
    known = [size for size in shape[1:] if isinstance(size, int) and 0 < size < channels <= size + _FEW]
    return table.names[max(known) :] if known else ()


def _head(model: ModelProto, model_file: str) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", model_file.rsplit("/", 1)[-1].removesuffix(".onnx").lower()).strip("-")
    producer = f"{model.producer_name} {model.producer_version}".strip() or "TODO"
    return f"""\
# A draft by `edge-runtime init`. Nothing is built while a TODO is left; docs/contract.md explains every key.
id = {quoted(stem or "model")}
version = "0.1.0"
security_version = 0
description = "TODO"  # one sentence: what goes in -> what comes out
model = {quoted(model_file)}
# For int8 write "int8": the build quantizes the model by data.train, which then needs 100 cases or more, as they will come.
precision = "float32"

[provenance]
checkpoint = "TODO"
checkpoint_sha256 = "TODO"  # {CHECKPOINT_DIGEST}
framework = "TODO"  # with its version
exporter = {quoted(producer)}
training_data = "TODO"
licence = "TODO"
limits = "TODO"  # what the numbers must not be taken for
"""


def _data(table: Table) -> str:
    left_out = f"; left out, not numbers: {comment(', '.join(table.left_out))}" if table.left_out else ""
    lines = [f"# {table.cases} cases, from {comment(table.source)}{left_out}.", "[data]"]
    if table.file is None:
        named = ", ".join(f"{name}=..." for part in table.parts for name in (part.values, part.target) if name)
        words = (one for one in table.targets if isinstance(one.values[0], str) and names_target(table, one))
        told = "".join(f"; {array_of(one.name)}: the words of {comment(one.name)}, one a case" for one in words)
        lines.append(f'file = "TODO"  # a build reads .npz: numpy.savez("data.npz", {named}){told}')
    else:
        lines.append(f"file = {quoted(table.file)}")
    lines.append(f"axes = {listed(table.axes)}")
    for part in table.parts:
        target = f", target = {quoted(part.target)}" if part.target else ""
        lines.append(f"{part.role} = {{ values = {quoted(part.values)}{target} }}")
    return "\n".join([*lines, ""])


def _input_part(model_input: _Input, model: ModelProto) -> str:
    shape = ", ".join(map(str, model_input.shape))
    dtype = next(
        dtype_name(value.type.tensor_type.elem_type) for value in model.graph.input if value.name == model_input.name
    )
    return f"""\
[[input]]
tensor = {quoted(model_input.name)}  # {dtype} ({comment(shape)})
axes = {listed(model_input.axes)}
"""


def _channel(name: str, at: int, table: Table, *, windowed: bool) -> str:
    every = table.raw[:, :, at]
    values = every[np.isfinite(every)]
    missing = every.size - values.size
    lines = [f"# {comment(table.names[at])}: {values.size} values"]
    if missing:
        lines.append(f"# {missing} are missing (NaN): a build refuses those, leave the cases out or fill them")
    low, high = extent(values) if values.size else (0.0, 0.0)
    if values.size:
        marks = ", ".join(f"{q} % {v:.6g}" for q, v in zip(_QUANTILES, np.percentile(values, _QUANTILES), strict=True))
        lines.append(
            f"# lowest {low:.6g}, {marks}, highest {high:.6g}; mean {values.mean():.6g}, std {values.std():.6g}"
        )
    if low == high:
        lines.append("# it never changes here: the model has learnt nothing from it")
    longest = longest_runs(table.raw[:, :, at : at + 1])[0]
    lines.append(f"# longest run of equal values, in the order of the file: {longest} samples")
    lines += [
        "[[input.channel]]",
        f"name = {quoted(name)}",
        'unit = "TODO"  # the unit these values are in, as docs/units.md spells it',
        f"tolerated = {_range(low, high)}  # widen it to what you vouch for",
        'physical = ["TODO", "TODO"]  # lowest and highest that can be at all: beyond, a sample is refused',
        'when_undeclared = "refuse"',
    ]
    if windowed:
        lines.append(_stuck_after(longest, moves=low != high))
    return "\n".join([*lines, ""])


def _stuck_after(longest: int, *, moves: bool) -> str:
    """Half as long again as the longest run seen: honest data that come later may rest a little longer."""
    limit = longest + max(_LEAST_RUN // 2, (longest + 1) // 2)
    if moves and longest >= _LEAST_RUN:
        return f"stuck_after = {limit}  # the longest equal run here is {longest} samples, and half as many more"
    why = (
        f"a longest run of {longest} says nothing of how long" if moves else "it never changes here: who knows how long"
    )
    return f"# stuck_after = {limit}  # {why} an honest sensor may stand still; look before you switch it on"


def _window(model_input: _Input, table: Table) -> str:
    period = f"{table.period_s:g}" if table.period_s else None
    if model_input.length is None:
        return f"# The data has one sample every {period} s.\n" if period else ""
    pace = f"period_s = {period or _NO_PACE}"
    return f"[window]\nlength = {model_input.length}\nhop = 1\n{pace}\n"


def _preprocess(table: Table) -> str:
    return f"""\
# What your training code did to the raw values, with its own constants. Those below are this data's: replace them by
# those you trained with (the build compares the outcome with the reference's tensor), or leave all out if there was none.
# [[input.preprocess]]
# step = "standardize"
# mean = {_each(table.raw, np.mean)}
# std = {_each(table.raw, np.std)}
"""


def _each(raw: NDArray[np.float64], measure: Callable[[NDArray[np.float64]], np.float64]) -> str:
    """A measure of every channel, as a TOML array."""
    columns = [column[np.isfinite(column)] for column in raw.reshape(-1, raw.shape[2]).T]
    return "[" + ", ".join(f"{measure(column):.9g}" if column.size else "0" for column in columns) + "]"


_END = """\
# Where it will serve; both are measured at each boot. The build tells what it took of memory and refuses less.
[needs]
latency_p99_ms = 100
memory_mb = 200
"""


def _range(low: float, high: float) -> str:
    return f"[{low!r}, {high!r}]"
