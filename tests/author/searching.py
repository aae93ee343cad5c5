"""What a search works on, made of the tiny pack: its float model in a session, its graph, its cases."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author.arrays import Part
from edge_runtime.author.cases import corners
from edge_runtime.author.demands import Accept, Demands
from edge_runtime.author.graph import Graph, clean_graph
from edge_runtime.author.promise import make_channels, make_manifest, make_variant
from edge_runtime.author.quantize import read_grid
from edge_runtime.author.search import Material
from edge_runtime.author.source import read_source
from edge_runtime.engine.session import open_session
from edge_runtime.flow.model import Model
from tests.author.conftest import Pack

ROOT = Path(__file__).parents[2]


class Bench(NamedTuple):
    model: Model
    graph: Graph
    material: Material


def bench(pack: Pack) -> Bench:
    source = read_source(pack.contract)
    contract = source.contract
    graph = source.models[contract.model]
    stated = contract.variants[0].model_copy(update={"precision": "float32"})
    manifest = make_manifest(
        contract, pack.contract, make_channels(contract, pack.contract, source.train.raw), source_sha256="0" * 64,
        models=source.models, prepare=None, variants=[make_variant(contract, stated, graph, read_grid(graph), None)],
    )  # fmt: skip
    model = Model(manifest, manifest.variants[0], "", open_session(graph.data))
    assert source.test is not None
    material = Material(source.train.raw, Part(*source.test), corners(manifest.channels, manifest.length))
    return Bench(model, graph, material)


def demands(**changed: object) -> Demands:
    accept = {"output": "low", "metric": "mae", "allowed_loss": 1.0} | changed
    return Demands(accept=(Accept.model_validate(accept),), smaller=0.1)


def large_weights(width: int = 16) -> Graph:
    """A Gemm whose neighbouring weights are all large: what saturates pairs of products."""
    random = np.random.default_rng(5)
    weight = (random.uniform(0.9, 1.0, (width, 4)) * np.where(np.arange(width)[:, None] % 4 < 2, 1, -1)).astype(
        np.float32
    )
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="gemm")],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.zeros(4, np.float32), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return clean_graph(model.SerializeToString(), subject="large")


def small_conv(*, groups: int = 1, auto_pad: str = "NOTSET") -> Graph:
    """Two channels of 7 x 6 through a strided, padded convolution; 5 inputs a kernel place leave an odd pair."""
    random = np.random.default_rng(6)
    pads = {} if auto_pad != "NOTSET" else {"pads": [1, 0, 1, 2]}
    weight = random.uniform(-1, 1, (4, 6 // groups, 3, 2)).astype(np.float32)
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], name="conv", strides=[2, 1], group=groups, auto_pad=auto_pad, **pads
    )
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["y"], ["z"], name="relu")],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6, 7, 6])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 4, "rows", "columns"])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.ones(4, np.float32), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return clean_graph(model.SerializeToString(), subject="conv")
