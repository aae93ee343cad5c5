"""The float model inside a quantized one: weights as they are, activations held within their scales but not rounded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from edge_runtime.author.graph import Graph, clean_graph, constants, parse_graph

_CLIP_OPSET = 11


def float_twin(graph: Graph) -> Graph:
    """The model with a Clip in the place of each pair of QuantizeLinear and DequantizeLinear on an activation.

    It shows what rounding costs. The Clip is needed: a quantizer takes out a Relu whose work the scale's end does. A model
    of quantized operators (QLinearConv and its like) has no such pairs and comes back as it is, as one does whose opset
    has no Clip with bounds.
    """
    model = parse_graph(graph)
    values = constants(model)
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "QuantizeLinear"}
    if graph.opsets.get("ai.onnx", 0) < _CLIP_OPSET or not made:
        return graph
    nodes = []
    for node in model.graph.node:
        source = made.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        bounds = _bounds(values, source) if source is not None else None
        if source is None or bounds is None:
            nodes.append(NodeProto.FromString(node.SerializeToString()))
            continue
        names = [f"{node.output[0]}_{end}" for end in ("low", "high")]
        stored = [numpy_helper.from_array(bound, name) for bound, name in zip(bounds, names, strict=True)]
        model.graph.initializer.extend(stored)
        nodes.append(helper.make_node("Clip", [source.input[0], *names], [node.output[0]], name=node.name))
    outputs = {port.name for port in model.graph.output}
    read = {name for node in nodes for name in node.input} | outputs
    nodes = [node for node in nodes if node.op_type != "QuantizeLinear" or node.output[0] in read]
    used = {name for node in nodes for name in node.input}
    kept = [type(one).FromString(one.SerializeToString()) for one in model.graph.initializer if one.name in used]
    for field, found in (("node", nodes), ("initializer", kept)):
        model.graph.ClearField(field)
        getattr(model.graph, field).extend(found)
    model.graph.ClearField("value_info")
    fixed = any(port.shape[:1] == (1,) for port in graph.inputs)
    return clean_graph(
        model.SerializeToString(), subject="the float twin", one_by_one=fixed, batch_axes=_batch_axes(graph)
    )


def _bounds(values: Mapping[str, Any], node: NodeProto) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """What the scale of an activation holds; None where it is not one constant scale."""
    scale = values.get(node.input[1])
    zero = values.get(node.input[2]) if len(node.input) > 2 else np.zeros((), np.uint8)  # noqa: PLR2004 - the third input
    if scale is None or zero is None or scale.size != 1:
        return None
    held, step, at = np.iinfo(zero.dtype), float(scale.reshape(())), int(zero.reshape(()))
    return np.array((held.min - at) * step, np.float32), np.array((held.max - at) * step, np.float32)


def _batch_axes(graph: Graph) -> dict[str, int]:
    """Where each port has its dynamic dimension: a state may have it after the first."""
    found = {}
    for port in (*graph.inputs, *graph.outputs):
        dynamic = [at for at, size in enumerate(port.shape) if isinstance(size, str)]
        found[port.name] = dynamic[0] if dynamic else 0
    return found
