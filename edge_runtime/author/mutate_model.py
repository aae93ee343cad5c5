"""Mutants of the model file: a layer's sign, int8 constants, normalization, another variant; no single weights."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edge_runtime.author.mutate_constants import some
from edge_runtime.author.mutate_line import Way
from edge_runtime.author.mutate_subject import Subject

Made = Iterator[tuple[str, Callable[[], Way]]]
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"})
_ML_WEIGHTS = ("target_weights", "class_weights", "leaf_weights", "coefficients")
_ZERO_POINT = 2


def signs(subject: Subject) -> Made:
    """The weights of one whole layer with the other sign."""
    model = _model(subject)
    held = {tensor.name for tensor in model.graph.initializer}
    source = {node.output[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    for at, node in enumerate(model.graph.node):
        if node.op_type in _WEIGHTED:
            for name in node.input[:2]:
                before = source.get(name)
                weight = name if name in held else before.input[0] if before is not None else ""
                if weight in held:
                    zero = before.input[2] if before is not None and len(before.input) > _ZERO_POINT else None
                    yield f"{node.op_type} {weight}", partial(_negated, subject, weight, zero)
        elif any(attribute.name in _ML_WEIGHTS for attribute in node.attribute):
            yield f"{node.op_type} {at}", partial(_negated_attributes, subject, at)


def prepared_constants(subject: Subject, share: float) -> Made:
    """Each real number in the author's own preprocessing, by ``share`` up and down; of a longer list, some."""
    own = subject.manifest.preprocess_onnx
    if own is None:
        return
    model = onnx.load_model_from_string(subject.files[own.model])
    for number, tensor in enumerate(_real(model)):
        values = numpy_helper.to_array(tensor).ravel()
        for place in some(values.size):
            for off in (share, -share) if values[place] else ():
                name = f"{own.model}, {tensor.name or number} {place} {off:+.0%}"
                yield name, partial(_prepared, subject, own.model, number, place, 1 + off)


def zero_points(subject: Subject) -> Made:
    """The zero point of one activation off by one where it is quantized, but not where it is taken back."""
    model = _model(subject)
    values = _values(model)
    for at, node in _quantizers(model):
        zero = values.get(node.input[2]) if len(node.input) > _ZERO_POINT else None
        if zero is None or zero.size != 1:
            continue
        for off in (1, -1):
            changed = int(np.asarray(zero).reshape(())) + off
            if np.iinfo(zero.dtype).min <= changed <= np.iinfo(zero.dtype).max:
                moved = np.full(zero.shape, changed, zero.dtype)
                yield f"{node.input[0]} {off:+d}", partial(_with_inputs, subject, {at: (2, moved)})


def saturations(subject: Subject) -> Made:
    """The calibrated scale of one activation halved on both sides, so that it saturates at half its range."""
    model = _model(subject)
    values = _values(model)
    for at, node in _quantizers(model):
        scale = values.get(node.input[1])
        takers = [
            number for number, other in enumerate(model.graph.node)
            if other.op_type == "DequantizeLinear" and other.input[0] == node.output[0]
        ]  # fmt: skip
        if scale is not None and takers:
            half = np.asarray(scale / 2, scale.dtype)
            yield node.input[0], partial(_with_inputs, subject, dict.fromkeys((at, *takers), (1, half)))


def training_twins(subject: Subject) -> Made:
    """Every BatchNormalization by the statistics of the batch at hand, as in training mode."""
    if any(node.op_type == "BatchNormalization" for node in _model(subject).graph.node):
        yield "every BatchNormalization", partial(_in_training, subject)


def wrong_variants(subject: Subject) -> Made:
    """Another variant's model, or the float32 one: that given, or a quantized one without the rounding of activations."""
    own = subject.variant
    for other in subject.manifest.variants:
        fits = (other.model_inputs, other.model_outputs) == (own.model_inputs, own.model_outputs)
        if other.name != own.name and fits and subject.files[other.model] != subject.files[own.model]:
            yield f"{other.model} for {own.model}", partial(subject.with_model, subject.files[other.model])
    if subject.float_model is not None and own.precision != "float32":
        yield "the float32 model", partial(subject.with_model, subject.float_model)
    elif any(True for _ in _quantizers(_model(subject))):
        yield f"{own.model} without rounding", partial(_unrounded, subject)


def _model(subject: Subject) -> ModelProto:
    return onnx.load_model_from_string(subject.files[subject.variant.model])


def _values(model: ModelProto) -> Mapping[str, NDArray[Any]]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _quantizers(model: ModelProto) -> Iterator[tuple[int, NodeProto]]:
    return ((at, node) for at, node in enumerate(model.graph.node) if node.op_type == "QuantizeLinear")


def _real(model: ModelProto) -> list[TensorProto]:
    """Every constant of real numbers, as the model holds it."""
    held = [*model.graph.initializer]
    held += [
        a.t for node in model.graph.node if node.op_type == "Constant" for a in node.attribute if a.name == "value"
    ]
    return [tensor for tensor in held if tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE)]


def _prepared(subject: Subject, file: str, number: int, place: int, factor: float) -> Way:
    model = onnx.load_model_from_string(subject.files[file])
    tensor = _real(model)[number]
    values = numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[place] *= factor
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return subject.with_preparation(model.SerializeToString())


def _negated(subject: Subject, weight: str, zero_point: str | None) -> Way:
    model = _model(subject)
    values = _values(model)
    zero = values[zero_point].astype(np.int32) if zero_point and zero_point in values else np.zeros((), np.int32)
    for tensor in model.graph.initializer:
        if tensor.name == weight:
            found = values[weight]
            if found.dtype.kind in "iu":
                axes = (-1, *(1,) * (found.ndim - 1)) if np.size(zero) == found.shape[0] else (1,) * found.ndim
                around = zero.reshape(axes) if np.size(zero) in (1, found.shape[0]) else np.zeros((), np.int32)
                held = np.iinfo(found.dtype)
                turned = np.clip(2 * around - found.astype(np.int32), held.min, held.max).astype(found.dtype)
            else:
                turned = -found
            tensor.CopyFrom(numpy_helper.from_array(turned, weight))
    return subject.with_model(model.SerializeToString())


def _negated_attributes(subject: Subject, at: int) -> Way:
    model = _model(subject)
    for attribute in model.graph.node[at].attribute:
        if attribute.name in _ML_WEIGHTS and attribute.floats:
            attribute.floats[:] = [-value for value in attribute.floats]
        elif attribute.name in _ML_WEIGHTS:
            attribute.t.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(attribute.t), attribute.t.name))
    return subject.with_model(model.SerializeToString())


def _with_inputs(subject: Subject, changes: Mapping[int, tuple[int, NDArray[Any]]]) -> Way:
    """Nodes by number, each with one input replaced by a constant of its own."""
    model = _model(subject)
    for number, (place, value) in changes.items():
        name = f"mutant_{number}_{place}"
        model.graph.initializer.append(numpy_helper.from_array(value, name))
        model.graph.node[number].input[place] = name
    return subject.with_model(model.SerializeToString())


def _in_training(subject: Subject) -> Way:
    model = _model(subject)
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    nodes: list[NodeProto] = []
    for number, node in enumerate(model.graph.node):
        nodes += _training_nodes(model, node, number, opset) if node.op_type == "BatchNormalization" else [node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return subject.with_model(model.SerializeToString())


def _training_nodes(model: ModelProto, node: NodeProto, number: int, opset: int) -> list[NodeProto]:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` with mean and variance over the batch and the places."""
    values = _values(model)
    rank = _rank(model, node.input[0])
    axes = [axis for axis in range(rank) if axis != 1]
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    name = f"mutant_{number}_"
    shape = (-1, *(1,) * (rank - 2))
    given = {
        "scale": values[node.input[1]].reshape(shape), "bias": values[node.input[2]].reshape(shape),
        "epsilon": np.array(epsilon, np.float32), "axes": np.array(axes, np.int64),
    }  # fmt: skip
    model.graph.initializer.extend(numpy_helper.from_array(value, name + key) for key, value in given.items())

    def mean(of: str, to: str) -> NodeProto:
        if opset >= 18:  # noqa: PLR2004 - where the axes became an input
            return helper.make_node("ReduceMean", [of, name + "axes"], [to])
        return helper.make_node("ReduceMean", [of], [to], axes=axes)

    def two(operator: str, one: str, other: str, to: str) -> NodeProto:
        return helper.make_node(operator, [one, other], [to])

    return [
        mean(node.input[0], name + "mean"),
        two("Sub", node.input[0], name + "mean", name + "off"),
        two("Mul", name + "off", name + "off", name + "square"),
        mean(name + "square", name + "variance"),
        two("Add", name + "variance", name + "epsilon", name + "sum"),
        helper.make_node("Sqrt", [name + "sum"], [name + "std"]),
        two("Div", name + "off", name + "std", name + "unit"),
        two("Mul", name + "unit", name + "scale", name + "scaled"),
        two("Add", name + "scaled", name + "bias", node.output[0]),
    ]


def _rank(model: ModelProto, name: str) -> int:
    known = onnx.shape_inference.infer_shapes(model).graph
    for value in (*known.input, *known.value_info, *known.output):
        if value.name == name:
            return len(value.type.tensor_type.shape.dim)
    return 4


def _unrounded(subject: Subject) -> Way:
    """Each pair of QuantizeLinear and DequantizeLinear around an activation left out."""
    model = _model(subject)
    rounded = {node.output[0]: node.input[0] for _, node in _quantizers(model)}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in rounded:
            nodes.append(helper.make_node("Identity", [rounded[node.input[0]]], [node.output[0]]))
        else:
            nodes.append(node)
    still = {name for node in nodes for name in node.input} | {value.name for value in model.graph.output}
    kept = [node for node in nodes if node.op_type != "QuantizeLinear" or node.output[0] in still]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return subject.with_model(model.SerializeToString())
