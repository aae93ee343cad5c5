"""Tiny bundles on which every class of mutants shows: a window, a picture, a state, 8 bits; made in a moment, no file read."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edge_runtime.author.mutate_equal import drawn
from edge_runtime.author.mutate_judge import goldens_of, picked
from edge_runtime.author.mutate_line import Way
from edge_runtime.author.mutate_subject import Subject
from edge_runtime.bundle.golden import Goldens, encode
from edge_runtime.engine.session import open_session
from edge_runtime.flow.model import Model
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.manifest import encode as encode_manifest
from tests.rig import kinds

Raw = dict[str, Any]


def window(**changes: Any) -> dict[str, bytes]:
    """Four samples of three channels; a clip that never clips, a standardization, a lag; a number with a flag."""
    channels = [
        kinds.number("warmth"),
        kinds.number("damp", unit="%", trained=_band(5, 95), tolerated=_band(0, 100), physical=_band(0, 105)),
        kinds.number(
            "weight", unit="hPa", trained=_band(950, 1040), tolerated=_band(900, 1060), physical=_band(500, 1100)
        ),
    ]
    steps = [
        {"step": "clip", "min": [-1000.0] * 3, "max": [5000.0] * 3},
        {"step": "standardize", "mean": [15.0, 60.0, 1000.0], "std": [8.0, 20.0, 30.0]},
        {"step": "lag", "lags": [0, 1]},
    ]
    outputs = [
        kinds.giving(
            unit="Cel",
            postprocess=[{"step": "destandardize", "mean": 12.0, "std": 9.0}],
            flags=[{"name": "cold", "side": "below", "on": 5.0, "off": 20.0}],
        ),
    ]
    taken = kinds.taking(*channels, length=3, steps=steps) | {"shape": ["batch", 3, 6]}
    made = kinds.manifest([taken], outputs, window={"length": 4, "period_s": 10.0}, **changes)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["hidden"]),
        helper.make_node("Tanh", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["y"]),
    ]
    weights = _random({"w1": (18, 6), "b1": (6,), "w2": (6, 1), "b2": (1,)}, 0.3)
    return bundle(made, onnx_model(nodes, {"x": (3, 6)}, {"y": (1,)}, weights))


def picture() -> dict[str, bytes]:
    """A picture of 4 by 4 by 3 bytes as numbers, scaled by 1/255; three scores to a label, and the scores as a vector."""
    shown = kinds.number(
        "picture", unit="1", shape=[4, 4, 3], trained=_band(0, 255), tolerated=_band(0, 255), physical=_band(0, 255)
    )
    taken = {
        "tensor": "x", "dtype": "float32", "shape": ["batch", 3, 4, 4], "axes": ["batch", "colour", "row", "column"],
        "channels": [shown], "steps": [{"step": "scale", "a": 1 / 255}],
    }  # fmt: skip
    outputs = [
        kinds.giving("label", "what", labels=["cat", "dog", "none"]),
        kinds.giving("vector", "odds", postprocess=[{"step": "softmax"}]),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "c"], ["felt"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["felt", "scale", "bias", "mean", "var"], ["even"]),
        helper.make_node("Relu", ["even"], ["active"]),
        helper.make_node("Flatten", ["active"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y"]),
    ]
    weights = _random({"c": (4, 3, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,), "w": (16, 3), "b": (3,)}, 1.0)
    weights["var"] = np.array([0.5, 1.0, 1.5, 2.0], np.float32)
    return bundle(
        kinds.manifest([taken], outputs), onnx_model(nodes, {"x": (3, 4, 4)}, {"y": (3,)}, weights), samples=1
    )


def state() -> dict[str, bytes]:
    """A number and a word, which a lookup turns into another; two states of one shape; six samples a case."""
    taken = kinds.taking(
        kinds.number("warmth", when_missing="fill", fill=20.0),
        kinds.category("colour"),
        length=1,
        steps=[
            {"step": "lookup", "channel": 1, "keys": [0.0, 1.0, 2.0], "values": [0.5, -1.5, 4.0]},
            {"step": "standardize", "mean": [10.0, 0.0], "std": [20.0, 2.0]},
        ],
    )
    states: list[Raw] = [
        {"input": "fast", "output": "fast_next", "dtype": "float32", "shape": [2], "initial": 0.5},
        {"input": "slow", "output": "slow_next", "dtype": "float32", "shape": [2]},
    ]
    outputs = [kinds.giving(column=1, postprocess=[{"step": "exponential", "base": "e"}])]
    made = kinds.manifest([taken], outputs, state=states, window={"length": 1, "period_s": 10.0})
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["new"]),
        helper.make_node("Mul", ["fast", "half"], ["left"]),
        helper.make_node("Add", ["left", "new"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["fast_next"]),
        helper.make_node("Mul", ["slow", "most"], ["kept"]),
        helper.make_node("Add", ["kept", "fast_next"], ["slow_next"]),
        helper.make_node("MatMul", ["slow_next", "w2"], ["y"]),
    ]
    weights = _random({"w": (2, 2), "b": (2,), "w2": (2, 2)}, 0.4)
    weights |= {"half": np.array([0.5], np.float32), "most": np.array([0.9], np.float32)}
    shapes = {"x": (1, 2), "fast": (2,), "slow": (2,)}
    given = {"y": (2,), "fast_next": (2,), "slow_next": (2,)}
    return bundle(made, onnx_model(nodes, shapes, given, weights), samples=6)


def eight_bits() -> dict[str, bytes]:
    """An opaque picture of bytes, quantized by hand: uint8 in, one number out."""
    shown = kinds.opaque("raw", "uint8", shape=[3, 4])
    taken = {
        "tensor": "x", "dtype": "uint8", "shape": ["batch", 3, 4], "axes": ["batch", "row", "column"],
        "channels": [shown],
    }  # fmt: skip
    made = kinds.manifest([taken])
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "in_scale", "in_zero"], ["real"]),
        helper.make_node("Flatten", ["real"], ["flat"]),
        helper.make_node("DequantizeLinear", ["wq", "w_scale", "w_zero"], ["w"]),
        helper.make_node("MatMul", ["flat", "w"], ["felt"]),
        helper.make_node("QuantizeLinear", ["felt", "f_scale", "f_zero"], ["felt_q"]),
        helper.make_node("DequantizeLinear", ["felt_q", "f_scale", "f_zero"], ["felt_r"]),
        helper.make_node("MatMul", ["felt_r", "w2"], ["y"]),
    ]
    weights = _random({"w2": (4, 1)}, 1.0)
    weights |= {
        "in_scale": np.array(1 / 64, np.float32), "in_zero": np.array(128, np.uint8),
        "wq": np.random.default_rng(5).integers(-60, 60, (12, 4)).astype(np.int8),
        "w_scale": np.array(0.02, np.float32), "w_zero": np.array(0, np.int8),
        "f_scale": np.array(0.05, np.float32), "f_zero": np.array(120, np.uint8),
    }  # fmt: skip
    return bundle(made, onnx_model(nodes, {"x": (3, 4)}, {"y": (1,)}, weights, taken=TensorProto.UINT8), samples=1)


def prepared() -> dict[str, bytes]:
    """Two samples of two channels, standardized by the author's own preprocess.onnx."""
    taken = kinds.taking(kinds.number("warmth"), kinds.number("other"), length=2)
    taken |= {"shape": ["batch", 2, 2], "axes": ["batch", "channel", "time"]}
    own = {"model": "preprocess.onnx", "input": "rows"}
    made = kinds.manifest([taken], window={"length": 2, "period_s": 10.0}, preprocess_onnx=own)
    before = [
        helper.make_node("Sub", ["rows", "mean"], ["off"]),
        helper.make_node("Div", ["off", "std"], ["unit"]),
        helper.make_node("Transpose", ["unit"], ["x"], perm=[0, 2, 1]),
    ]
    constants = {"mean": np.array([5.0, 0.0], np.float32), "std": np.array([10.0, 20.0], np.float32)}
    preparation = onnx_model(before, {"rows": (2, 2)}, {"x": (2, 2)}, constants)
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])]
    model = onnx_model(nodes, {"x": (2, 2)}, {"y": (1,)}, _random({"w": (4, 1)}, 1.0))
    return bundle(made, model, preparation=preparation)


EVERY = {"window": window, "picture": picture, "state": state, "eight_bits": eight_bits, "prepared": prepared}


def bundle(
    manifest: Manifest, model: bytes, *, count: int = 40, samples: int | None = None, preparation: bytes | None = None
) -> dict[str, bytes]:
    """The bundle's files with ``count`` random goldens of its own answers."""
    samples = samples or manifest.length
    prepare = open_session(preparation) if preparation else None
    right = Way(Model(manifest, manifest.variants[0], "", open_session(model), prepare))
    blank = _blank(manifest, samples)
    made, answered = goldens_of(right, drawn(Subject({}, right, blank, None), count, 77, ("tolerated", "trained")))
    stored = picked(made, np.flatnonzero(answered))
    variant = manifest.variants[0]
    made_files = {"manifest.json": encode_manifest(manifest), variant.model: model, variant.goldens: encode(stored)}
    return made_files | ({"preprocess.onnx": preparation} if preparation else {})


def _blank(manifest: Manifest, samples: int) -> Goldens:
    names = tuple(channel.name for channel in manifest.channels)
    raw = np.zeros((1, samples, manifest.width))
    return Goldens(names, raw, (("1",) * len(names),), {}, {}, {}, {}, {}, {})


def onnx_model(
    nodes: Sequence[NodeProto],
    taken_shapes: Mapping[str, Sequence[int]],
    given_shapes: Mapping[str, Sequence[int]],
    weights: Mapping[str, NDArray[Any]],
    taken: int = TensorProto.FLOAT,
) -> bytes:
    """A model of these nodes with a dynamic batch."""
    graph = helper.make_graph(
        list(nodes),
        "tiny",
        [helper.make_tensor_value_info(name, taken, ["batch", *shape]) for name, shape in taken_shapes.items()],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
            for name, shape in given_shapes.items()
        ],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _random(shapes: Mapping[str, Sequence[int]], scale: float) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(11)
    return {name: (scale * random.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def _band(low: float, high: float) -> dict[str, float]:
    return {"min": float(low), "max": float(high)}
