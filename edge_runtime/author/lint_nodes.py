"""Walks over every tensor, node and constant of an ONNX model, however deep; it judges nothing."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from edge_runtime.errors import BundleError

_COPIES = frozenset({"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
STANDARD_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})


class Constant(NamedTuple):
    """A tensor stored in the model, by the name nodes use for it."""

    name: str
    values: NDArray[Any]


def messages(message: Message) -> Iterator[Message]:
    """The message and all within it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in [value] if isinstance(value, Message) else value:
            yield from messages(inner)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node, those of subgraphs and of model-local functions too."""
    yield from (one for one in messages(model) if isinstance(one, NodeProto))


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every stored tensor: initializers, attributes, those of subgraphs and functions."""
    yield from (one for one in messages(model) if isinstance(one, TensorProto))


def stated_classes(model: ModelProto) -> tuple[str, ...] | None:
    """The classes that a classifier of ai.onnx.ml names, as texts; None where no node does, or two differ."""
    found = {
        tuple(text.decode("utf-8", "replace") for text in one.strings) or tuple(map(str, one.ints))
        for node in nodes(model)
        for one in node.attribute
        if one.name.startswith("classlabels") and one.type in (AttributeProto.STRINGS, AttributeProto.INTS)
    }
    return found.pop() if len(found) == 1 else None


def made_by(model: ModelProto, tensor: str) -> str | None:
    """The operator that gives a tensor its values, whatever only copies, casts or reshapes them after it."""
    makers = {name: node for node in model.graph.node for name in node.output}
    while (node := makers.get(tensor)) is not None and node.op_type in _COPIES:
        tensor = node.input[0]
    return str(node.op_type) if node is not None else None


def constants(graph: GraphProto) -> dict[str, Constant]:
    """What a graph's own nodes may take as constants: its initializers and its Constant nodes; no external data."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            value = next((a.t for a in node.attribute if a.name == "value"), None)
            if value is not None:
                found[node.output[0]] = value
    return {name: Constant(name, to_array(tensor)) for name, tensor in found.items() if not is_external(tensor)}


def is_external(tensor: TensorProto) -> bool:
    """Whether a tensor's bytes stand in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data)


def to_array(tensor: TensorProto) -> NDArray[Any]:
    """A tensor's values; those numpy has no type for (bfloat16, float8) as float32."""
    values = numpy_helper.to_array(tensor)
    return values if values.dtype.kind in "biufcSUO" else values.astype(np.float32)


def attribute(node: NodeProto, name: str, default: int) -> int:
    """A whole-number attribute of a node."""
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def has_graph(node: NodeProto) -> bool:
    """Whether a node carries a graph of its own: a branch or a loop body."""
    return any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute)


def named(node: NodeProto) -> str:
    """A node as a person finds it again: operator and name, or operator and first output."""
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    return f"{domain}{node.op_type} {node.name or (node.output[0] if node.output else '')!r}"


def shown(names: list[str]) -> str:
    """At most three of many names."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004 - three


def dtype_name(code: int) -> str:
    """A tensor type's number as numpy names it."""
    return onnx.helper.tensor_dtype_to_np_dtype(code).name if code else "undefined"


def parse_model(data: bytes, *, subject: str) -> ModelProto:
    """The protobuf of a model's bytes, external data left where it is.

    Raises:
        BundleError: it is no ONNX model.

    """
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise _no_model(subject, str(error)) from error
    if not model.graph.node:
        raise _no_model(subject, "no nodes")
    return model


def _no_model(subject: str, why: str) -> BundleError:
    return BundleError(
        subject=subject, found=f"no ONNX model ({why[:80]})", expected="the bytes of an ONNX model",
        todo="export the model again",
    )  # fmt: skip
