import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime.author.graph import clean_graph, parse_graph
from edge_runtime.author.rewrite import maps_of, same_numbers, tensors_for_maps
from edge_runtime.engine.session import open_session

ROWS = np.random.default_rng(4).normal(size=(6, 2)).astype(np.float32)


def classifier(*, numbers: bool = True, scores_too: bool = False) -> onnx.ModelProto:
    """A linear classifier of three classes as scikit-learn's converter writes it: label, and scores as maps."""
    names = {"classlabels_ints": [7, 3, 11]} if numbers else {"classlabels_strings": ["a", "b", "c"]}
    mapped = {"classlabels_int64s": [7, 3, 11]} if numbers else {"classlabels_strings": ["a", "b", "c"]}
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "scores"], name="linear", domain="ai.onnx.ml", **names,
            coefficients=[1.0, 2.0, -1.0, 0.5, 0.25, -2.0], intercepts=[0.1, 0.2, 0.3], post_transform="SOFTMAX",
        ),
        helper.make_node("ZipMap", ["scores"], ["probability"], name="map", domain="ai.onnx.ml", **mapped),
    ]  # fmt: skip
    key = TensorProto.INT64 if numbers else TensorProto.STRING
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, number))
    outputs = [helper.make_tensor_value_info("label", key, [None]), helper.make_value_info("probability", maps)]
    if scores_too:
        outputs.append(helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 3]))
    graph = helper.make_graph(
        nodes, "linear", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])], outputs
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("scores_too", [True, False])
def test_maps_become_the_tensor_they_came_from(numbers: bool, scores_too: bool) -> None:
    untouched = classifier(numbers=numbers, scores_too=scores_too).SerializeToString()
    graph = clean_graph(untouched, subject="m")
    classes = ("7", "3", "11") if numbers else ("a", "b", "c")
    assert graph.maps == {"probability": classes}
    assert "ai.onnx.ml.ZipMap" not in graph.operators
    assert [port.name for port in graph.outputs][:2] == ["label", "probability"]
    assert graph.outputs[0].dtype == ("int64" if numbers else "string")
    found = open_session(graph.data)({"x": ROWS})
    assert found["probability"].shape == (6, 3)
    (maps,) = maps_of(untouched, {"x": ROWS}, ["probability"])
    assert same_numbers(maps, found["probability"], classes)
    assert not same_numbers(maps, found["probability"][:, ::-1], classes)
    assert not same_numbers(maps, found["probability"][:5], classes)


def test_rewriting_twice_changes_nothing_more() -> None:
    once = clean_graph(classifier().SerializeToString(), subject="m")
    again = clean_graph(once.data, subject="m")
    assert again.data == once.data
    assert again.maps == {}


def test_a_model_without_maps_is_left_alone() -> None:
    model = parse_graph(clean_graph(classifier().SerializeToString(), subject="m"))
    before = model.SerializeToString()
    assert tensors_for_maps(model) == {}
    assert model.SerializeToString() == before


def test_a_model_of_trees_alone_still_has_the_standard_set_it_was_exported_for() -> None:
    graph = clean_graph(classifier().SerializeToString(), subject="m")
    assert graph.opsets == {"ai.onnx": 18, "ai.onnx.ml": 3}
