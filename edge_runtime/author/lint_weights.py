"""Lints of stored numbers: NaN, vanishing deviations, a half that is none, zeros without use; it runs nothing."""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto

from edge_runtime.author.lint_facts import ChannelFact, Facts
from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.lint_nodes import Constant, constants, dtype_name, is_external, named, tensors, to_array
from edge_runtime.author.lint_products import products

NOT_FINITE = Rule(
    "not-finite-weights", "error", "NaN or infinity among the weights",
    "a float model answers NaN; an int8 one turns it into an ordinary number and nobody sees it",
    "find the step of training that diverged and export an earlier checkpoint",
)  # fmt: skip
DEVIATION = Rule(
    "vanishing-std", "error", "a deviation of 0, or below what float32 can tell apart at its mean",
    "the channel never changed in training; any real reading becomes a huge number or infinity",
    "leave the channel out, or train it on data in which it moves",
)  # fmt: skip
HALF = Rule(
    "half-without-float16", "error", "a model said to be half precision that holds no float16 tensor",
    "the conversion has failed without a word: size, speed and rounding are those of float32",
    "convert it again and look at the result, or call it what it is",
)  # fmt: skip
SPARSE = Rule(
    "dense-zeros", "warning", "weights that are mostly zero but stored and multiplied densely",
    "onnxruntime's kernels skip no zero: pruned so, a model is neither smaller nor faster",
    "prune whole channels and export the smaller model, or do not prune",
)  # fmt: skip

RULES = (NOT_FINITE, DEVIATION, HALF, SPARSE)

_HALF = re.compile(r"(?:^|[^a-z0-9])(?:fp16|float16|half)(?:[^a-z0-9]|$)")
_MOSTLY = 0.5
_FEW_WEIGHTS = 256  # a small matrix of zeros is a selection, not a pruned layer


def weights(model: ModelProto, facts: Facts) -> Iterator[Finding]:
    """The findings of this group."""
    for tensor in tensors(model):
        if not is_external(tensor):
            yield from _not_finite(tensor)
    for channel in facts.channels:
        yield from _channel(channel)
    yield from _deviations(model)
    yield from _half(model, facts)
    yield from _sparse(model)


def _not_finite(tensor: TensorProto) -> Iterator[Finding]:
    values = to_array(tensor)
    if values.dtype.kind in "fc" and (bad := int((~np.isfinite(values)).sum())):
        yield NOT_FINITE.found_at(f"tensor {tensor.name!r}", f"{bad} of {values.size} values are NaN or infinite")


def _channel(channel: ChannelFact) -> Iterator[Finding]:
    if channel.center is not None and channel.spread is not None and _vanishes(channel.center, channel.spread):
        yield DEVIATION.found_at(
            f"channel {channel.name}", f"{channel.spread:g} at {channel.center:g}, where float32 has steps of "
            f"{np.spacing(np.float32(abs(channel.center))):.2g}"
        )  # fmt: skip


def _deviations(model: ModelProto) -> Iterator[Finding]:
    """In the graph: BatchNormalization's stored statistics, and Div after Sub by constants."""
    known = constants(model.graph)
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        pair = _statistics(node, makers, known)
        if pair is None:
            continue
        center, spread = np.broadcast_arrays(*pair)
        bad = sum(map(_vanishes, center.ravel().tolist(), spread.ravel().tolist()))
        if bad:
            yield DEVIATION.found_at(named(node), f"{bad} of {spread.size} deviations")


def _statistics(
    node: NodeProto, makers: dict[str, NodeProto], known: dict[str, Constant]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """What a node takes off and what it divides by, where both are stored."""
    if node.op_type == "BatchNormalization":
        epsilon = next((float(a.f) for a in node.attribute if a.name == "epsilon"), 1e-5)
        mean, variance = (known.get(name) for name in node.input[3:5])
        if mean is not None and variance is not None:
            return mean.values.astype(float), np.sqrt(np.maximum(variance.values.astype(float) + epsilon, 0))
    if node.op_type == "Div" and (spread := known.get(node.input[1])) is not None:
        before = makers.get(node.input[0])
        center = known.get(before.input[1]) if before is not None and before.op_type == "Sub" else None
        if center is not None and spread.values.dtype.kind == "f":
            try:
                np.broadcast_shapes(center.values.shape, spread.values.shape)
            except ValueError:
                return None
            return center.values.astype(float), spread.values.astype(float)
    return None


def _vanishes(center: float, spread: float) -> bool:
    return not abs(spread) > float(np.spacing(np.float32(abs(center))))


def _half(model: ModelProto, facts: Facts) -> Iterator[Finding]:
    name = facts.model.rsplit("/", 1)[-1].lower()
    if facts.precision != "float16" and not _HALF.search(name):
        return
    types = {dtype_name(tensor.data_type) for tensor in tensors(model) if tensor.data_type}
    if "float16" not in types:
        yield HALF.found_at(facts.model, f"tensors of {', '.join(sorted(types)) or 'no type'}, none of float16")


def _sparse(model: ModelProto) -> Iterator[Finding]:
    total = zeros = 0
    for product in products(model):
        total += product.weights.size
        zeros += int((product.weights == product.zero).sum())
    if total >= _FEW_WEIGHTS and zeros >= _MOSTLY * total:
        yield SPARSE.found_at("the weights", f"{zeros} of {total} ({zeros / total:.0%}) are zero, all stored")
