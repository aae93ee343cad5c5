"""A float32 model as float16 between its unchanged inputs and outputs; operators it does not know it refuses by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from edge_runtime.author.graph import Graph, clean_graph, parse_graph
from edge_runtime.errors import BundleError

# Operators whose float inputs and outputs share one type; what they do with float16 is what they do with float32.
_KNOWN = frozenset({
    "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose", "Div", "Dropout", "Elu", "Erf",
    "Exp", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish",
    "Identity", "InstanceNormalization", "LayerNormalization", "LeakyRelu", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg",
    "PRelu", "Pad", "Pow", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Shape", "Sigmoid", "Slice", "Softmax", "Split",
    "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze", "Constant",
})  # fmt: skip
_LARGEST = float(np.finfo(np.float16).max)


def to_float16(graph: Graph, *, subject: str, axes: Mapping[str, int] | None = None) -> Graph:
    """The model with float16 weights and activations; its inputs and outputs stay float32, cast inside.

    ``axes`` says where a state has its batch dimension.

    Raises:
        BundleError: an operator that is not known to do the same in float16, or a weight that float16 cannot hold.

    """
    model = parse_graph(graph)
    strange = sorted({node.op_type for node in model.graph.node if node.op_type not in _KNOWN or node.domain})
    if strange:
        raise _refused(subject, f"operator {strange[0]}", "operators that float16 is known for")
    for tensor in model.graph.initializer:
        _halve(tensor, subject)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _halve(attribute.t, subject)
            if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                raise _refused(subject, f"a Constant with {attribute.name}", "constants as tensors")
    del model.graph.value_info[:]
    _cast_ports(model)
    fixed = any(port.shape[:1] == (1,) for port in graph.inputs)
    return clean_graph(model.SerializeToString(), subject=f"{subject}, float16", one_by_one=fixed, batch_axes=axes)


def _cast_ports(model: Any) -> None:
    inner: dict[str, str] = {}
    before, after = [], []
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    for port, is_input in [(one, True) for one in model.graph.input] + [(one, False) for one in model.graph.output]:
        if port.type.tensor_type.elem_type != onnx.TensorProto.FLOAT or port.name in inner:
            continue
        half = f"{port.name}_float16"
        while half in taken:
            half += "_"
        inner[port.name] = half
        if is_input:
            before.append(onnx.helper.make_node("Cast", [port.name], [half], to=onnx.TensorProto.FLOAT16))
        else:
            after.append(onnx.helper.make_node("Cast", [half], [port.name], to=onnx.TensorProto.FLOAT))
    nodes = list(model.graph.node)
    for node in nodes:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
    del model.graph.node[:]
    model.graph.node.extend([*before, *nodes, *after])


def _halve(tensor: Any, subject: str) -> None:
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return
    values = onnx.numpy_helper.to_array(tensor)
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST:
        raise _refused(subject, f"a constant of {largest:g}", f"constants up to {_LARGEST:g}, the largest of float16")
    tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float16), tensor.name))


def _refused(subject: str, found: str, expected: str) -> BundleError:
    return BundleError(
        subject=f"{subject}, float16", found=found, expected=expected, todo="leave float16 out of the recipes"
    )
