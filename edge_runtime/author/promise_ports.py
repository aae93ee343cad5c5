"""Holds a model's inputs, states and outputs against what the contract leads to; it knows no numbers."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple, NoReturn, get_args

from pydantic import ValidationError

from edge_runtime.author.contract import Contract, ContractInput
from edge_runtime.author.graph import Graph, Port
from edge_runtime.author.mistake import told
from edge_runtime.errors import BundleError, ConfigurationError
from edge_runtime.flow.steps import plan
from edge_runtime.spec.inputs import Channel, Dtype, Input, StateTensor
from edge_runtime.spec.outputs import Output

_DTYPES: tuple[str, ...] = get_args(Dtype)
_PLANNED = {2: ("time", "channel"), 3: ("time", "row", "column"), 4: ("time", "row", "column", "colour")}
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
_NUMBERS = ("float16", "float32", "float64", *_INTEGERS)


class Ports(NamedTuple):
    """A model's inputs and outputs by name."""

    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]

    @classmethod
    def of(cls, graph: Graph) -> "Ports":
        """Those of a graph."""
        return cls({port.name: port for port in graph.inputs}, {port.name: port for port in graph.outputs})


def make_inputs(
    contract: Contract, path: Path, ports: Ports, channels: Sequence[Channel], file: str
) -> tuple[Input, ...]:
    """The inputs with the model's names, types and shapes.

    Raises:
        ConfigurationError: a name the model does not have, axes or steps that do not fit the channels.
        BundleError: another number, type or shape than the contract leads to.

    """
    fed = {state.input for state in contract.state}
    free = [name for name in ports.inputs if name not in fed]
    if len(free) != len(contract.input):
        names = ", ".join(free)
        raise BundleError(
            subject=f"{file}, inputs", found=f"{len(free)} ({names[:80]})", expected=_count(len(contract.input)),
            todo="give each an [[input]] or a [[state]], or export the model with fewer",
        )  # fmt: skip
    made = []
    left = list(channels)
    for at, stated in enumerate(contract.input):
        own, left = left[: len(stated.channel)], left[len(stated.channel) :]
        name = stated.tensor or free[0]
        if name not in free:
            raise ConfigurationError(
                subject=f"{path}, input.{at}.tensor", found=repr(name), todo="correct or remove it",
                expected=f"{' or '.join(map(repr, free))}, as {'the model has' if file == contract.model else file}",
            )  # fmt: skip
        made.append(_input(contract, stated, ports.inputs[name], own, f"{path}, input.{at}", file))
    return tuple(made)


def make_states(contract: Contract, path: Path, ports: Ports) -> tuple[StateTensor, ...]:
    """The states with the model's types and shapes.

    Raises:
        ConfigurationError: a name the model does not have.
        BundleError: a state whose output is no next input, or with a dynamic dimension beside the batch.

    """
    found = []
    for at, state in enumerate(contract.state):
        for key, there in (("input", ports.inputs), ("output", ports.outputs)):
            name = getattr(state, key)
            if name not in there:
                raise ConfigurationError(
                    subject=f"{path}, state.{at}.{key}", found=repr(name), todo="correct the name",
                    expected=f"an {key} of the model: {', '.join(there)}",
                )  # fmt: skip
        before, after = ports.inputs[state.input], ports.outputs[state.output]
        shape = (*before.shape[: state.batch_axis], *before.shape[state.batch_axis + 1 :])
        subject = f"{contract.model}, state {state.input}"
        if before.dtype not in _DTYPES or before.dtype != after.dtype:
            _unfit(subject, f"{before.dtype} in, {after.dtype} out", f"one of {', '.join(_DTYPES)}, the same in both")
        if any(isinstance(size, str) for size in shape) or state.batch_axis >= len(before.shape):
            _unfit(subject, f"shape {_shape(before.shape)}", f"fixed sizes but for the batch, axis {state.batch_axis}")
        if len(after.shape) != len(before.shape):
            _unfit(subject, f"shape {_shape(after.shape)} out", f"{_shape(before.shape)}, as it goes in")
        found.append(
            StateTensor.model_validate({**state.model_dump(exclude_unset=True), "dtype": before.dtype, "shape": shape})
        )
    return tuple(found)


def require_outputs(contract: Contract, path: Path, ports: Ports, file: str) -> None:
    """Each output of the contract is one the model has, of a type and size that its form can be made of.

    Raises:
        ConfigurationError: a name the model does not have, or labels that are not the model's.
        BundleError: another type or size.

    """
    for output in contract.output:
        port = ports.outputs.get(output.tensor)
        if port is None:
            raise ConfigurationError(
                subject=f"{path}, output {output.name}, tensor", found=repr(output.tensor),
                expected=f"an output of the model: {', '.join(ports.outputs)}", todo="correct the name",
            )  # fmt: skip
        subject = f"{file}, output {port.name}"
        allowed = (*_NUMBERS, "string") if output.form == "label" else _NUMBERS
        if port.dtype not in allowed:
            _unfit(subject, port.dtype, "numbers" if output.form != "label" else "numbers or texts")
        sizes = [size for size in port.shape[1:] if isinstance(size, int)]
        if len(sizes) == len(port.shape[1:]):  # a dynamic size is met at the first run
            _require_size(output, port, prod(sizes), subject)


def _require_size(output: Output, port: Port, size: int, subject: str) -> None:
    if output.form == "number" and (output.column >= size or (size > 1 and "column" not in output.model_fields_set)):
        _unfit(
            subject, f"shape {_shape(port.shape)}",
            "one number a case, (batch) or (batch, 1), or the `column` that holds it",
        )  # fmt: skip
    if output.form == "label":
        by_place = port.dtype == "string" or (port.dtype in _INTEGERS and size == 1)
        if (by_place and size != 1) or (not by_place and size != len(output.labels)):
            wanted = "one text or whole number a case" if by_place else f"{len(output.labels)} scores, one a label"
            _unfit(subject, f"{size} a case", wanted)


def _input(
    contract: Contract, stated: ContractInput, port: Port, channels: Sequence[Channel], subject: str, file: str
) -> Input:
    model = f"{file}, input {port.name}"
    if port.dtype not in _DTYPES:
        _unfit(model, port.dtype, " or ".join(_DTYPES), todo="export it with such an input")
    opaque = next((one for one in channels if one.form == "opaque" and one.dtype != port.dtype), None)
    if opaque is not None and not stated.preprocess and contract.preprocess_onnx is None:
        _unfit(model, port.dtype, f"{opaque.dtype}, as channel {opaque.name} says", todo="correct its dtype")
    shape = port.shape
    if contract.preprocess_onnx is None:
        expected = _expected(contract, stated, channels, subject)
        if port.shape[1:] != expected[1:]:
            _unfit(
                model, f"shape {_shape(port.shape)}",
                f"{_shape(expected)}, from input.axes, the channels and the window",
                todo="correct the contract, or export the model for these",
            )  # fmt: skip
        shape = expected
    try:
        return Input(
            tensor=port.name, dtype=port.dtype, shape=("batch", *shape[1:]), axes=stated.axes,
            channels=tuple(channels), steps=stated.preprocess,
        )  # fmt: skip
    except ValidationError as error:
        raise told(error, subject=subject, model=Input) from error


def _expected(
    contract: Contract, stated: ContractInput, channels: Sequence[Channel], subject: str
) -> tuple[int | str, ...]:
    """The shape that channels, window and steps lead to, by the axes."""
    wide = next((one for one in channels if one.shape), None)
    if wide is not None and len(channels) > 1:
        raise ConfigurationError(
            subject=subject, found=f"{wide.name} among {len(channels)} channels", todo="give it an [[input]] of its own",
            expected="an array channel to be its only one",
        )  # fmt: skip
    sample = channels[0].shape or (len(channels),)
    try:
        planned = plan(stated.preprocess, (contract.window.length if contract.window else 1, *sample)).shape
    except ValueError as error:
        raise ConfigurationError(
            subject=f"{subject}.preprocess", found=str(error), expected="steps that fit one another",
            todo="correct the steps, the channels or the window",
        ) from error  # fmt: skip
    names = _PLANNED[len(planned)]
    if wide is not None and "point" in stated.axes:
        names = tuple("point" if name == "channel" else name for name in names)
    sizes = dict(zip(names, planned, strict=True)) | {"one": 1}
    unknown = [axis for axis in stated.axes[1:] if axis not in sizes]
    left_out = [axis for axis, size in sizes.items() if axis not in stated.axes and size != 1]
    if unknown or left_out:
        raise ConfigurationError(
            subject=f"{subject}.axes", found=f"{unknown[0]!r}" if unknown else f"no {left_out[0]!r}",
            expected=", ".join(f"{axis} ({size})" for axis, size in sizes.items() if axis != "one"),
            todo="name the axes that channels and steps lead to, in the model's order",
        )  # fmt: skip
    return ("batch", *(sizes[axis] for axis in stated.axes[1:]))


def _count(number: int) -> str:
    return "one" if number == 1 else str(number)


def _shape(shape: Sequence[int | str]) -> str:
    return f"({', '.join(str(size) or '?' for size in shape)})"


def _unfit(
    subject: str, found: str, expected: str, todo: str = "correct the contract, or export the model so"
) -> NoReturn:
    raise BundleError(subject=subject, found=found, expected=expected, todo=todo)
