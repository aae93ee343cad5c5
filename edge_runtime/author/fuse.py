"""Preprocessing steps as standard operators in front of a model, proven equal to the runtime's; what has none it refuses.

The fused model takes float64: raw values in float32 would be off by 1e-5 of a tensor whose channel lies far from zero.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author.graph import Graph, clean_graph, parse_graph
from edge_runtime.author.passes import through
from edge_runtime.errors import BundleError, ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.flow.steps import plan
from edge_runtime.spec.inputs import Axis, Input
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.steps import Clip, Difference, Lag, MinMax, Scale, Standardize
from edge_runtime.spec.variant import Variant

RANDOM_CASES = 10_000
FLOAT_LIMIT = 1e-6
_OLDEST_OPSET = 13
_CASES_A_RUN = 512
_CASTS = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "int64": TensorProto.INT64,
}  # fmt: skip
_AXES: Mapping[int, tuple[Axis, ...]] = {
    1: ("channel",), 2: ("row", "column"), 3: ("row", "column", "colour"),
}  # fmt: skip


class Fused(NamedTuple):
    """The model with its steps inside, and the inputs it has now: raw values in contract units, without steps."""

    graph: Graph
    inputs: tuple[Input, ...]


class Equality(NamedTuple):
    """One output of both models: over how many cases, whether bit for bit, and the largest difference."""

    cases: int
    equal: bool
    largest: float


def fuse(graph: Graph, manifest: Manifest, *, subject: str) -> Fused:
    """Compile the steps of every input of ``manifest`` into ``graph``.

    Raises:
        ConfigurationError: a step that has no standard operators here, by name; a float16 tensor; nothing to fuse.
        BundleError: the model's opset is older than the operators need.

    """
    if graph.opsets.get("ai.onnx", 0) < _OLDEST_OPSET:
        raise BundleError(
            subject=subject, found=f"opset {graph.opsets.get('ai.onnx')}", expected=f"{_OLDEST_OPSET} or later",
            todo='export with a later opset, or leave preprocessing = "graph" out',
        )  # fmt: skip
    if manifest.preprocess_onnx is not None:
        raise _unfit(subject, "preprocess_onnx", "steps of the contract", "leave one of the two out")
    model = parse_graph(graph)
    newest_first = manifest.window is not None and manifest.window.order == "newest_first"
    one_by_one = any(port.shape[:1] == (1,) for port in graph.inputs)
    inputs = []
    for one in manifest.inputs:
        maker = _Maker(model, one.tensor)
        _require_known(one, subject)
        maker.compile(one, manifest.length, newest_first=newest_first)
        inputs.append(_raw_input(one, maker.raw, manifest.length, has_window=manifest.window is not None))
        _replace_port(model, inputs[-1], one.tensor)
        model.graph.initializer.extend(maker.constants)
        nodes = [*maker.nodes, *model.graph.node]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(copies)
    axes = {state.input: state.batch_axis for state in manifest.state}
    axes |= {state.output: state.batch_axis for state in manifest.state}
    data = model.SerializeToString()
    return Fused(clean_graph(data, subject=f"{subject}, fused", one_by_one=one_by_one, batch_axes=axes), tuple(inputs))


def fused_variant(variant: Variant, fused: Fused) -> Variant:
    """A variant as it is once its model is the fused one; what its int8 input holds is no longer told by its input."""
    return variant.model_copy(
        update={
            "model_inputs": tuple(port.name for port in fused.graph.inputs),
            "operators": fused.graph.operators,
            "opsets": fused.graph.opsets,
            "input_clip": {},
        }
    )


def fused_manifest(manifest: Manifest, inputs: Sequence[Input], variants: Sequence[Variant]) -> Manifest:
    """The manifest of fused models: their inputs raw, without steps, and their variants."""
    return manifest.model_copy(update={"inputs": tuple(inputs), "variants": tuple(variants)})


def prove(two_steps: Model, fused: Model, raw: NDArray[np.float64]) -> dict[str, Equality]:
    """Both ways over the same raw cases ``(cases, samples, row)``: by output how far they are apart."""
    apart: dict[str, list[tuple[bool, float]]] = {}
    for first in range(0, len(raw), _CASES_A_RUN):
        part = raw[first : first + _CASES_A_RUN]
        ours, theirs = (through(one, part).outputs for one in (fused, two_steps))
        for name, values in theirs.items():
            found = ours[name]
            numbers = values.dtype.kind in "fiub"
            off = float(np.abs(found.astype(np.float64) - values).max()) if numbers else 0.0
            apart.setdefault(name, []).append((bool(np.array_equal(found, values, equal_nan=numbers)), off))
    return {
        name: Equality(len(raw), all(equal for equal, _ in found), max(off for _, off in found))
        for name, found in apart.items()
    }


def fuse_failures(found: Mapping[str, Equality], *, is_int8: bool) -> Iterator[str]:
    """A line for each output that fusing changed: of an int8 model any bit, else more than float32's own rounding."""
    for name, one in found.items():
        if one.equal or (not is_int8 and one.largest <= FLOAT_LIMIT):
            continue
        limit = "equal bits" if is_int8 else f"{FLOAT_LIMIT:g}"
        yield (
            f"preprocessing in the graph: found output {name} off by up to {one.largest:.3g} over {one.cases} cases; "
            f"expected {limit}; leave preprocessing out of the graph"
        )


def random_cases(manifest: Manifest, samples: int, count: int = RANDOM_CASES, seed: int = 1) -> NDArray[np.float64]:
    """Raw cases drawn evenly from each channel's tolerated band, words and whole numbers from theirs, the same each time."""
    random = np.random.default_rng(seed)
    columns = []
    for channel in manifest.channels:
        shape = (count, samples, channel.width)
        if channel.form == "number":
            band = channel.bands[1]
            columns.append(random.uniform(band.min, band.max, shape))
        elif channel.form == "category":
            columns.append(random.integers(0, len(channel.categories), shape).astype(np.float64))
        elif channel.dtype in ("int8", "uint8", "int64"):
            limits = np.iinfo("uint8" if channel.dtype == "uint8" else "int8")
            columns.append(random.integers(limits.min, limits.max, shape, endpoint=True).astype(np.float64))
        else:
            columns.append(random.normal(size=shape).astype(np.float32).astype(np.float64))
    return np.concatenate(columns, axis=2)


class _Maker:
    """Nodes and constants in the making, from one raw input to one tensor of the model."""

    def __init__(self, model: Any, tensor: str) -> None:
        taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
        taken |= {one.name for one in (*model.graph.initializer, *model.graph.input)}
        self.tensor = tensor
        self.prefix = f"{tensor}_raw"
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "_"
        self.raw = self.prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def compile(self, one: Input, length: int, *, newest_first: bool) -> None:
        """From ``(batch, [time,] sample)`` in float64 to the tensor in its own axes and type."""
        shape = (length, *one.sample_shape)
        name = self.reshape(self.raw, shape)
        # The runtime hands raw samples over in the order of the window; the steps want the oldest first.
        name = self.reversed(name, shape[0]) if newest_first else name
        for number, step in enumerate(one.steps):
            name = _COMPILED[step.step](self, step, name, plan(one.steps[:number], shape).shape)
        made = plan(one.steps, shape).shape
        name = self.reversed(name, made[0]) if newest_first else name
        self.cast(self.arranged(name, one, made), one.dtype)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{self.prefix}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = f"{self.prefix}_c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def between(self, name: str, first: int, end: int) -> str:
        """Samples ``first`` to ``end`` of the time axis."""
        places = [self.constant([value], np.int64) for value in (first, end, 1)]
        return self.node("Slice", name, *places)

    def reversed(self, name: str, length: int) -> str:
        return self.node("Gather", name, self.constant(range(length - 1, -1, -1), np.int64), axis=1)

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """The batch as it is (0 says so to Reshape), the rest anew."""
        return self.node("Reshape", name, self.constant([0, *shape], np.int64))

    def arranged(self, name: str, one: Input, made: Sequence[int]) -> str:
        names = ("time", *_sample_axes(one, len(made) - 1))
        sizes = dict(zip(names, made, strict=True))
        kept = [axis for axis in names if axis in one.axes]
        name = self.reshape(name, [sizes[axis] for axis in kept])
        wanted = [axis for axis in one.axes[1:] if axis != "one"]
        if wanted != kept:
            name = self.node("Transpose", name, perm=[0, *(1 + kept.index(axis) for axis in wanted)])
        return self.reshape(name, [1 if axis == "one" else sizes[axis] for axis in one.axes[1:]])

    def cast(self, name: str, dtype: str) -> None:
        if dtype in ("int8", "uint8", "int64"):
            limits = (-(2.0**53), 2.0**53) if dtype == "int64" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            name = self.node("Round", name)
            name = self.node("Min", self.node("Max", name, self.constant(limits[0])), self.constant(limits[1]))
        self.nodes.append(helper.make_node("Cast", [name], [self.tensor], name=f"{self.prefix}_cast", to=_CASTS[dtype]))


def _standardize(maker: _Maker, step: Standardize, name: str, _: Sequence[int]) -> str:
    return maker.node("Div", maker.node("Sub", name, maker.constant(step.mean)), maker.constant(step.std))


def _min_max(maker: _Maker, step: MinMax, name: str, _: Sequence[int]) -> str:
    span = np.array(step.max) - np.array(step.min)
    return maker.node("Div", maker.node("Sub", name, maker.constant(step.min)), maker.constant(span))


def _clip(maker: _Maker, step: Clip, name: str, _: Sequence[int]) -> str:
    return maker.node("Min", maker.node("Max", name, maker.constant(step.min)), maker.constant(step.max))


def _scale(maker: _Maker, step: Scale, name: str, _: Sequence[int]) -> str:
    return maker.node("Add", maker.node("Mul", name, maker.constant(step.a)), maker.constant(step.b))


def _lag(maker: _Maker, step: Lag, name: str, shape: Sequence[int]) -> str:
    reach = max(step.lags)
    parts = [maker.between(name, reach - lag, shape[0] - lag) for lag in step.lags]
    return maker.node("Concat", *parts, axis=len(shape))


def _difference(maker: _Maker, step: Difference, name: str, shape: Sequence[int]) -> str:
    for taken in range(step.order):
        time = shape[0] - taken
        name = maker.node("Sub", maker.between(name, 1, time), maker.between(name, 0, time - 1))
    return name


_COMPILED: Mapping[str, Callable[[_Maker, Any, str, Sequence[int]], str]] = {
    "standardize": _standardize, "min_max": _min_max, "clip": _clip, "scale": _scale, "lag": _lag,
    "difference": _difference,
}  # fmt: skip


def _require_known(one: Input, subject: str) -> None:
    for step in one.steps:
        if step.step not in _COMPILED:
            raise _unfit(
                f"{subject}, input {one.tensor}", f"step {step.step!r}", f"steps among {', '.join(_COMPILED)}",
                'leave preprocessing = "graph" out: the runtime has every step',
            )  # fmt: skip
    if one.dtype not in _CASTS:
        raise _unfit(
            f"{subject}, input {one.tensor}", f"a tensor of {one.dtype}", f"one of {', '.join(_CASTS)}",
            'leave preprocessing = "graph" out',
        )  # fmt: skip


def _sample_axes(one: Input, dimensions: int) -> tuple[Axis, ...]:
    if dimensions == 1 and one.channels[0].shape and "point" in one.axes:
        return ("point",)
    return _AXES[dimensions]


def _raw_input(one: Input, name: str, length: int, *, has_window: bool) -> Input:
    sample = one.sample_shape
    time: tuple[Axis, ...] = ("time",) if has_window else ()
    axes: tuple[Axis, ...] = ("batch", *time, *_sample_axes(one, len(sample)))
    shape = (one.shape[0], *((length,) if has_window else ()), *sample)
    return Input(tensor=name, dtype="float64", shape=shape, axes=axes, channels=one.channels)


def _replace_port(model: Any, raw: Input, tensor: str) -> None:
    ports = [
        helper.make_tensor_value_info(raw.tensor, TensorProto.DOUBLE, list(raw.shape)) if port.name == tensor else port
        for port in model.graph.input
    ]
    copies = [onnx.ValueInfoProto.FromString(port.SerializeToString()) for port in ports]
    del model.graph.input[:]
    model.graph.input.extend(copies)


def _unfit(subject: str, found: str, expected: str, todo: str) -> ConfigurationError:
    return ConfigurationError(subject=subject, found=found, expected=expected, todo=todo)
