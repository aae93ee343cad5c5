"""Finds the multiplications of a graph by stored weights, float or int8 (QDQ and QOperator); it judges nothing."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from edge_runtime.author.lint_nodes import Constant, attribute, constants


class Product(NamedTuple):
    """A Conv, MatMul or Gemm by stored ``weights``; ``axis`` is that of its output channels, ``terms`` its sum's length.

    ``zero`` is what stands for 0 among the weights, broadcast to them; ``activation`` the other factor's stored type
    (uint8, int8, ...), or float32.
    """

    node: NodeProto
    name: str
    weights: NDArray[Any]
    zero: NDArray[Any]
    activation: str
    axis: int
    terms: int


class _Graph(NamedTuple):
    known: dict[str, Constant]
    makers: dict[str, NodeProto]


# Where the weights, their zero point and the activation's zero point stand among the inputs.
_QLINEAR = {"QLinearConv": ("Conv", 3, 5, 2), "QLinearMatMul": ("MatMul", 3, 5, 2)}
_INTEGER = {"ConvInteger": ("Conv", 1, 3, 2), "MatMulInteger": ("MatMul", 1, 3, 2)}
_FLOAT = frozenset({"Conv", "MatMul", "Gemm"})


def products(model: ModelProto) -> Iterator[Product]:
    """Every product of the main graph whose second factor is stored in the model."""
    graph = _Graph(constants(model.graph), {name: node for node in model.graph.node for name in node.output})
    for node in model.graph.node:
        if node.op_type in _FLOAT:
            found = _of_float(node, graph)
        elif node.op_type in _QLINEAR or node.op_type in _INTEGER:
            found = _of_integer(node, graph)
        else:
            continue
        if found is not None and found.weights.ndim > 1:
            yield found


def _of_float(node: NodeProto, graph: _Graph) -> Product | None:
    weights = graph.known.get(node.input[1])
    if weights is not None:
        return _product(node, node.op_type, weights, np.zeros(1), "float32")
    dequantized = graph.makers.get(node.input[1])
    if dequantized is None or dequantized.op_type != "DequantizeLinear":
        return None
    weights = graph.known.get(dequantized.input[0])
    if weights is None:
        return None
    zero = _zero(dequantized, 2, graph)
    if zero.size > 1:
        shape = [1] * weights.values.ndim
        axis = attribute(dequantized, "axis", 1)
        if -weights.values.ndim <= axis < weights.values.ndim and weights.values.shape[axis] == zero.size:
            shape[axis] = zero.size
            zero = zero.reshape(shape)
        else:
            zero = np.zeros(1)
    return _product(node, node.op_type, weights, zero, _activation(node, graph))


def _of_integer(node: NodeProto, graph: _Graph) -> Product | None:
    kind, at, zero_at, activation_at = (_QLINEAR | _INTEGER)[node.op_type]
    weights = graph.known.get(node.input[at])
    if weights is None:
        return None
    zero = _zero(node, zero_at, graph)
    if zero.size > 1:
        zero = zero.reshape([-1, *[1] * (weights.values.ndim - 1)]) if kind == "Conv" else zero.reshape(1, -1)
    return _product(node, kind, weights, zero, _zero(node, activation_at, graph).dtype.name)


def _product(node: NodeProto, kind: str, weights: Constant, zero: NDArray[Any], activation: str) -> Product:
    shape = weights.values.shape
    if kind == "Conv":
        axis, terms = 0, math.prod(shape[1:])
    elif kind == "Gemm" and attribute(node, "transB", 0):
        axis, terms = 0, shape[-1]
    else:
        axis, terms = len(shape) - 1, shape[-2] if len(shape) > 1 else shape[0]
    return Product(node, weights.name, weights.values, zero, activation, axis, terms)


def _zero(node: NodeProto, at: int, graph: _Graph) -> NDArray[Any]:
    """A zero point; uint8 0 where there is none, as ONNX defines."""
    found = graph.known.get(node.input[at]) if len(node.input) > at else None
    return np.zeros(1, np.uint8) if found is None else found.values


def _activation(node: NodeProto, graph: _Graph) -> str:
    """The stored type of the first factor: that of the zero point of the node that dequantized it."""
    maker = graph.makers.get(node.input[0])
    if maker is None or maker.op_type != "DequantizeLinear":
        return "float32"
    return str(_zero(maker, 2, graph).dtype.name)
