"""Lints of int8: dead channels, sums that overflow, inputs that clip, too little calibration; it runs nothing."""

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto

from edge_runtime.author.graph import Graph, Port
from edge_runtime.author.lint_facts import Facts
from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.lint_nodes import is_external, named, shown, tensors
from edge_runtime.author.lint_products import Product, products
from edge_runtime.author.quantize import read_grid

DEAD = Rule(
    "dead-channel", "error", "an output channel whose int8 weights are all zero",
    "its weights were smaller than one step of a scale it shares: that feature is gone, whatever comes in",
    "quantize per channel, or leave that node in float",
)  # fmt: skip
OVERFLOW = Rule(
    "accumulator-overflow", "error",
    "a sum longer than 32 bits carry: above 133,144 products of int8 by int8, or 66,311 of uint8 by int8",
    "large inputs wrap around to the other sign: right on typical cases, absurd on extreme ones",
    "leave that node in float, or split the sum",
)  # fmt: skip
CLIPPED = Rule(
    "clipped-range", "warning", "a channel tolerated beyond what the scale of the int8 input holds",
    "there the model sees one value for all: its answers are flagged 'clipped', and stay where they are",
    "put such cases into the training data, narrow the tolerated range, or serve float32",
)  # fmt: skip
CALIBRATION = Rule(
    "few-calibration-cases", "warning", "fewer than 100 cases to take the int8 scales from",
    "what they lack, the scales cannot hold: seldom but real inputs are clipped",
    "give more training cases, from all seasons and states of the instrument",
)  # fmt: skip

RULES = (DEAD, OVERFLOW, CLIPPED, CALIBRATION)

MIN_CALIBRATION_CASES = 100
_INT32_MAX = 2**31 - 1
# The largest magnitude of each stored type; int8 by its symmetric range, as quantizers write weights.
_LARGEST = {"uint8": 255, "int8": 127}


def longest_sum(activation: str, weights: str) -> int:
    """How many products of two stored types int32 carries at worst: 133,144 of int8 pairs, 66,311 of uint8 by int8."""
    return _INT32_MAX // (_LARGEST[activation] * _LARGEST[weights])


def integer(model: ModelProto, facts: Facts) -> Iterator[Finding]:
    """The findings of this group."""
    for product in products(model):
        yield from _dead(product)
        yield from _overflow(product, facts)
    yield from _clipped(model, facts)
    cases = facts.calibration_cases
    if cases is not None and cases < MIN_CALIBRATION_CASES:
        yield CALIBRATION.found_at("calibration", f"{cases} cases")


def _dead(product: Product) -> Iterator[Finding]:
    if product.weights.dtype.name not in _LARGEST:
        return
    others = tuple(axis for axis in range(product.weights.ndim) if axis != product.axis)
    dead = np.flatnonzero((product.weights == product.zero).all(axis=others))
    if dead.size:
        total = product.weights.shape[product.axis]
        which = shown([str(int(at)) for at in dead])
        yield DEAD.found_at(f"{named(product.node)}, {product.name}", f"channels {which} of {total} are all zero")


def _overflow(product: Product, facts: Facts) -> Iterator[Finding]:
    stored, activation = product.weights.dtype.name, product.activation
    if stored.startswith("float") and facts.precision == "int8":
        stored, activation = "int8", "uint8"  # what the build's quantizer will make of it
    if stored not in _LARGEST or activation not in _LARGEST:
        return
    limit = longest_sum(activation, stored)
    if product.terms > limit:
        yield OVERFLOW.found_at(
            named(product.node), f"{product.terms} products of {activation} by {stored}; int32 carries {limit}"
        )


def _clipped(model: ModelProto, facts: Facts) -> Iterator[Finding]:
    if any(map(is_external, tensors(model))):
        return  # reading the scales would read a file of that name here
    # Its node's own inputs alone are wanted, so no other field is.
    inputs = tuple(Port(value.name, "", ()) for value in model.graph.input)
    held = read_grid(Graph(model.SerializeToString(), 0, {}, (), inputs, ())).input_clip
    for channel in facts.channels:
        name = channel.input or (inputs[0].name if inputs else "")
        low, high = held.get(name, (-np.inf, np.inf))
        band = channel.tensor_band
        if band is not None and not low <= band[0] <= band[1] <= high:
            yield CLIPPED.found_at(
                f"channel {channel.name}",
                f"its tolerated range is {band[0]:.3g} to {band[1]:.3g} in the tensor, the input holds {low:.3g} to {high:.3g}",
            )
