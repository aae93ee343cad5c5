"""What x86 without VNNI makes of an int8 model, computed without such a CPU: pairs of products in a 16-bit register.

The AVX2 kernels multiply uint8 by int8 and add each two neighbours into a *saturating* int16 (``vpmaddubsw``;
microsoft/onnxruntime#14642). It is no emulator: floats between the integer kernels round as they do here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from edge_runtime.author.graph import Graph, constants, parse_graph
from edge_runtime.engine.session import open_session

Tensors = Mapping[str, NDArray[Any]]
Integers = NDArray[np.int32]

# 255 * 128 fits 32767, 255 * 129 does not; both ends are reached at the same sum of two weights.
_SAFE_PAIR = 128
_ROWS = 8192


@dataclass(frozen=True, slots=True)
class _Heavy:
    """One Conv, Gemm or MatMul on integers: what feeds it, and its weights as ``(groups, pairs * 2, outputs)``."""

    name: str
    operator: str
    activation: str
    output: str
    zero: int
    scale: float
    signed: bool
    weights: Integers
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.float64]
    attributes: Mapping[str, Any]
    kernel: tuple[int, ...]


def nodes_at_risk(graph: Graph) -> tuple[str, ...]:
    """The integer nodes of which two neighbouring weights are large enough to overflow; none is a proof for any input."""
    return tuple(node.name for node in _heavy(parse_graph(graph)) if _risky(node.weights).any())


class Simulation:
    """A model's run as AVX2 without VNNI would do it; called like a session. ``saturated`` counts by node what was cut."""

    def __init__(self, graph: Graph, *, cuts: bool = True) -> None:
        model = parse_graph(graph)
        self._cuts = cuts
        self._inputs = [port.name for port in graph.inputs]
        self.saturated: dict[str, int] = {}
        self._parts: list[tuple[Callable[[Tensors], Tensors], _Heavy | None]] = []
        known = set(self._inputs)
        for node in _heavy(model):
            if not _risky(node.weights).any():
                continue
            self._parts.append((_segment(model, known, [node.activation]), node))
            known.add(node.output)
            self.saturated[node.name] = 0
        self._parts.append((_segment(model, known, [port.name for port in graph.outputs]), None))

    def __call__(self, feeds: Tensors) -> dict[str, NDArray[Any]]:
        """Run once; ``feeds`` by input name, batch first."""
        values = dict(feeds)
        for run, node in self._parts:
            found = run(values)
            if node is None:
                return dict(found)
            values[node.output] = self._multiplied(node, found[node.activation])
        raise AssertionError("the last part has no node")

    def _multiplied(self, node: _Heavy, activation: NDArray[Any]) -> NDArray[np.float32]:
        # ONNX Runtime turns signed activations into unsigned ones on x86, zero point and all.
        shift = 128 if node.signed else 0
        raw, zero = activation.astype(np.int32) + shift, node.zero + shift
        rows, shape = _columns(node, raw, zero)
        outputs = []
        for group, weights in enumerate(node.weights):
            own = rows[group % len(rows)]
            total = own.astype(np.float64) @ weights - float(zero) * weights.sum(axis=0)
            if self._cuts:
                extra, cut = _cut(own, weights)
                total += extra
                self.saturated[node.name] += cut
            outputs.append(total)
        total = np.concatenate(outputs, axis=1) * (node.scale * node.weight_scale) + node.bias
        total = total.reshape(*shape, -1)
        if node.operator == "Conv":
            total = np.moveaxis(total, -1, 1)
        return np.ascontiguousarray(total, np.float32)


def _cut(rows: Integers, weights: Integers) -> tuple[NDArray[np.float64], int]:
    """What saturation takes from each sum, and in how many pairs of products it did."""
    extra = np.zeros((len(rows), weights.shape[1]))
    risky = _risky(weights[np.newaxis])[0]
    cut = 0
    for pair in np.flatnonzero(risky.any(axis=1)):
        columns = np.flatnonzero(risky[pair])
        two = weights[2 * pair : 2 * pair + 2, columns]
        for first in range(0, len(rows), _ROWS):
            part = slice(first, first + _ROWS)
            sums = rows[part, 2 * pair : 2 * pair + 2] @ two
            lost = np.clip(sums, -32768, 32767) - sums
            cut += int((lost != 0).sum())
            extra[part, columns] += lost
    return extra, cut


def _risky(weights: Integers) -> NDArray[np.bool_]:
    """Which pairs can overflow at all, ``(groups, pairs, outputs)``."""
    pairs = weights.reshape(len(weights), -1, 2, weights.shape[2])
    up, down = np.maximum(pairs, 0).sum(axis=2), np.minimum(pairs, 0).sum(axis=2)
    return np.asarray((up > _SAFE_PAIR) | (down < -_SAFE_PAIR))


def _columns(node: _Heavy, raw: Integers, zero: int) -> tuple[list[Integers], tuple[int, ...]]:
    """The rows that meet the weights, for each group, padded to whole pairs, and the shape of the result before outputs."""
    if node.operator != "Conv":
        rows = raw.reshape(-1, raw.shape[-1])
        return [_even(rows)], raw.shape[:-1]
    spatial = raw.ndim - 2
    strides = node.attributes.get("strides") or [1] * spatial
    dilations = node.attributes.get("dilations") or [1] * spatial
    reach = [(size - 1) * step + 1 for size, step in zip(node.kernel, dilations, strict=True)]
    padded = np.pad(raw, [(0, 0), (0, 0), *_pads(node, raw.shape[2:], reach, strides)], constant_values=zero)
    windows = sliding_window_view(padded, reach, axis=tuple(range(2, 2 + spatial)))
    every = (slice(None), slice(None), *(slice(None, None, step) for step in strides))
    windows = windows[(*every, *(slice(None, None, step) for step in dilations))]
    # Channels last and innermost, as ONNX Runtime lays an integer convolution out: (batch, places..., kernel..., channel).
    windows = np.moveaxis(windows, 1, -1)
    shape = windows.shape[: 1 + spatial]
    groups = len(node.weights)
    parts = np.split(windows, groups, axis=-1) if groups > 1 else [windows]
    return [_even(part.reshape(prod(shape), -1)) for part in parts], shape


def _pads(node: _Heavy, sizes: Sequence[int], reach: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    auto = node.attributes.get("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        wanted = [
            max((-(-size // step) - 1) * step + far - size, 0)
            for size, far, step in zip(sizes, reach, strides, strict=True)
        ]
        small = [one // 2 for one in wanted]
        if auto == b"SAME_UPPER":
            return [(less, one - less) for less, one in zip(small, wanted, strict=True)]
        return [(one - less, less) for less, one in zip(small, wanted, strict=True)]
    pads = node.attributes.get("pads") or [0] * 2 * len(sizes)
    return list(zip(pads[: len(sizes)], pads[len(sizes) :], strict=True))


def _even(rows: Integers) -> Integers:
    return np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))


def _heavy(model: Any) -> Iterator[_Heavy]:
    """The nodes that run on integers with int8 weights; a depthwise convolution has a kernel that widens first."""
    values = constants(model)
    made = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        data, weight = (_dequantize(made, name) for name in node.input[:2])
        if data is None or weight is None:
            continue
        stored = values.get(weight.input[0])
        if stored is None or stored.dtype != np.int8:
            continue
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "Conv" and stored.shape[1] == 1 and attributes.get("group", 1) > 1:
            continue
        zero = _value(values, data, 2, np.zeros((), np.uint8))
        laid = _laid_out(node.op_type, stored, attributes)
        outputs = laid.shape[0] * laid.shape[2]
        yield _Heavy(
            name=node.name or node.output[0], operator=node.op_type, activation=data.input[0], output=node.output[0],
            zero=int(zero), scale=float(values[data.input[1]].reshape(())), signed=zero.dtype == np.int8, weights=laid,
            weight_scale=np.broadcast_to(values[weight.input[1]].astype(np.float64).ravel(), outputs),
            bias=_bias(values, made, node), attributes=attributes, kernel=stored.shape[2:],
        )  # fmt: skip


def _laid_out(operator: str, stored: NDArray[np.int8], attributes: Mapping[str, Any]) -> Integers:
    """Weights as ``(groups, pairs * 2, outputs)``, in the order the integer kernels read them."""
    if operator == "Conv":
        groups = attributes.get("group", 1)
        last = np.moveaxis(stored, 1, -1).reshape(groups, len(stored) // groups, -1)
        laid = last.transpose(0, 2, 1)
    else:
        laid = (stored.T if attributes.get("transB", 0) else stored)[np.newaxis]
    return np.pad(laid.astype(np.int32), ((0, 0), (0, laid.shape[1] % 2), (0, 0)))


def _bias(values: Tensors, made: Mapping[str, Any], node: Any) -> NDArray[np.float64]:
    if len(node.input) < 3 or not node.input[2]:  # noqa: PLR2004 - the third input is the bias
        return np.zeros(())
    name = node.input[2]
    if (plain := values.get(name)) is not None:
        return np.asarray(plain, np.float64).ravel()
    source = made[name]
    return np.asarray(values[source.input[0]].astype(np.float64) * values[source.input[1]].astype(np.float64)).ravel()


def _dequantize(made: Mapping[str, Any], name: str) -> Any | None:
    node = made.get(name)
    return node if node is not None and node.op_type == "DequantizeLinear" else None


def _value(values: Tensors, node: Any, at: int, otherwise: NDArray[Any]) -> NDArray[Any]:
    return values[node.input[at]].reshape(()) if len(node.input) > at and node.input[at] else otherwise


def _segment(model: Any, known: set[str], wanted: Sequence[str]) -> Callable[[Tensors], Tensors]:
    """A session from tensors that are known to those wanted, cut out of the model."""
    made = {name: node for node in model.graph.node for name in node.output}
    kept: set[int] = set()
    fed: set[str] = set()
    open_names = list(wanted)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    used: set[str] = set()
    while open_names:
        name = open_names.pop()
        if name in known:
            fed.add(name)
        elif name in stored:
            used.add(name)
        elif name and id(made[name]) not in kept:
            kept.add(id(made[name]))
            open_names += made[name].input
    types = {one.name: one for one in (*model.graph.input, *model.graph.output)}
    inputs = [types[name] if name in types else _typed(name, onnx.TensorProto.FLOAT) for name in sorted(fed)]
    outputs = [types[name] if name in types else _typed(name, _integer_type(made[name], stored)) for name in wanted]
    nodes = [node for node in model.graph.node if id(node) in kept]
    if not nodes:
        return lambda feeds: {name: feeds[name] for name in wanted}
    graph = onnx.helper.make_graph(nodes, "part", inputs, outputs, [stored[name] for name in sorted(used)])
    part = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    session = open_session(part.SerializeToString())
    return lambda feeds: session({name: feeds[name] for name in fed})


def _typed(name: str, kind: int) -> Any:
    return onnx.helper.make_value_info(name, onnx.helper.make_tensor_type_proto(kind, None))


def _integer_type(node: Any, stored: Mapping[str, Any]) -> int:
    if node.op_type == "QuantizeLinear" and len(node.input) > 2:  # noqa: PLR2004 - the third input is the zero point
        return int(stored[node.input[2]].data_type)
    return int(onnx.TensorProto.UINT8)
