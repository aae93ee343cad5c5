"""The error of each quantized node: seen where it arises, in the record and on the page."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.author.build import Build, build
from edge_runtime.author.build_report import report_of
from edge_runtime.author.graph import clean_graph
from edge_runtime.author.node_errors import node_errors
from edge_runtime.author.record import NodeError
from edge_runtime.engine.session import open_session
from edge_runtime.flow.model import Model
from edge_runtime.spec.manifest import parse
from tests.author.conftest import Pack
from tests.author.test_lint import qoperator


@pytest.fixture
def made(pack: Pack) -> Build:
    return build(pack.contract, None, lambda _: None, strengthens=False)


def errors(made: Build, change=lambda _: None) -> dict[str, float] | None:
    """By node, of the build's model after ``change`` has had its protobuf."""
    manifest = parse(made.files["manifest.json"])
    variant = manifest.variants[0]
    model = onnx.load_model_from_string(made.files[variant.model])
    change(model)
    graph = clean_graph(model.SerializeToString(), subject="m")
    found = node_errors(Model(manifest, variant, "", open_session(graph.data), None), graph, made.source.train.raw)
    return None if found is None else {one.node: one.error for one in found}


def test_each_node_that_is_rounded_is_in_the_record(made: Build) -> None:
    (found,) = made.record.nodes.values()
    # Flatten moves numbers alone, and the Relu is done by the first product's scale.
    assert [(one.node, one.operator) for one in found] == [("first", "Gemm"), ("second", "Gemm")]
    assert all(0 < one.error < 0.1 for one in found)
    assert {one.node: one.error for one in found} == errors(made)


def test_a_coarser_scale_shows_at_its_own_node(made: Build) -> None:
    def coarser(model: onnx.ModelProto) -> None:
        for one in model.graph.initializer:
            if one.name.startswith("active_scale"):
                one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one) * np.float32(16), one.name))

    before, after = errors(made), errors(made, coarser)
    assert before is not None
    assert after is not None
    assert after["first"] > before["first"] * 4
    assert after["second"] > before["second"] * 2


def test_a_float_model_has_none_and_one_without_pairs_is_not_told(made: Build) -> None:
    manifest = parse(made.files["manifest.json"])
    (source,) = made.source.models.values()
    model = Model(manifest, manifest.variants[0], "", open_session(source.data), None)
    assert node_errors(model, source, made.source.train.raw) == ()

    operators = clean_graph(qoperator().SerializeToString(), subject="m")
    assert node_errors(model, operators, made.source.train.raw) is None


def test_the_worst_stand_on_the_page_and_a_bounded_number_of_them(made: Build) -> None:
    page = report_of(made).decode()
    assert "Error by node" in page
    assert "<td>first</td>" in page or "first" in page.partition("Error by node")[2]
    assert "Nobody compared the model node by node" not in page
    (name,) = made.record.nodes
    many = tuple(NodeError(node=f"node{at:05}", operator="Conv", error=at / 1e5) for at in range(5000))
    page = report_of(replace(made, record=made.record.model_copy(update={"nodes": {name: many}}))).decode()
    assert "node04999" in page
    assert "node04984" not in page
    assert "the 15 largest of 5000" in page
    assert len(page) < 2_000_000
    old = report_of(replace(made, record=made.record.model_copy(update={"nodes": {}}))).decode()
    assert "Nobody compared the model node by node" in old
