import json

import numpy as np
import pytest

from edge_runtime.author.exact import open_exact
from edge_runtime.author.graph import Graph, clean_graph, constants, parse_graph
from edge_runtime.author.half import to_float16
from edge_runtime.author.quantize import quantize
from edge_runtime.author.recipes import (
    CALIBRATORS,
    RECIPES,
    alone,
    heavy_nodes,
    is_quantized,
    measure_ranges,
    prepare,
    quantized,
)
from edge_runtime.author.twin import float_twin
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError
from tests.author.conftest import tiny_model

ROWS = {"window": np.random.default_rng(2).normal(size=(300, 2, 3)).astype(np.float32)}
INT8 = [one for one in RECIPES if one.precision == "int8" and not one.sensitive_in_float]
BY_NAME = {one.name: one for one in RECIPES}


@pytest.fixture
def graph() -> Graph:
    return clean_graph(tiny_model().SerializeToString(), subject="m")


def _weights(graph: Graph) -> list[np.ndarray]:
    return [one for name, one in constants(parse_graph(graph)).items() if name.endswith("_quantized") and one.ndim == 2]


@pytest.mark.parametrize("recipe", INT8, ids=lambda one: one.name)
def test_each_recipe_gives_the_types_it_names(graph: Graph, recipe) -> None:
    prepared = prepare(graph, subject="m")
    made = quantized(prepared, measure_ranges(prepared, ROWS, CALIBRATORS[0]), recipe)
    weights = _weights(made)
    assert len(weights) == 2
    assert {str(one.dtype) for one in weights} == {recipe.weights}
    if recipe.reduce_range:
        assert max(int(np.abs(one.astype(int)).max()) for one in weights) <= 64
    values = constants(parse_graph(made))
    zeros = [one for name, one in values.items() if name.startswith(("window", "low")) and "zero_point" in name]
    assert {str(one.dtype) for one in zeros} == {recipe.activations}
    if recipe.symmetric:
        assert all(int(one) == 0 for one in zeros)
    scales = [one for name, one in values.items() if name.startswith("w1") and "scale" in name]
    assert (scales[0].size > 1) == recipe.per_channel
    off = open_exact(made.data)(ROWS)["low"] - open_session(graph.data)(ROWS)["low"]
    assert np.abs(off).max() < 0.25


def test_the_first_recipe_is_the_build_s_own_byte_for_byte(graph: Graph) -> None:
    prepared = prepare(graph, subject="m")
    ranges = measure_ranges(prepared, ROWS, CALIBRATORS[0])
    own = quantize(graph, ROWS, subject="m")
    assert quantized(prepared, ranges, RECIPES[0]).data == own.graph.data
    assert ranges == own.ranges


def test_calibrators_differ_and_repeat(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    prepared = prepare(graph, subject="m")
    many = {"window": np.random.default_rng(3).normal(size=(4000, 2, 3)).astype(np.float32)}
    ranges = {one.name: measure_ranges(prepared, many, one) for one in CALIBRATORS}
    assert len(set(ranges.values())) == len(CALIBRATORS)
    widths = {
        name: [one["highest"]["data"][0] - one["lowest"]["data"][0] for one in json.loads(text)["data"].values()]
        for name, text in ranges.items()
    }
    assert all(np.array(widths["minmax"]) >= np.array(widths["percentile_99.9"]))
    assert measure_ranges(prepared, many, CALIBRATORS[3]) == ranges["entropy"]
    assert capsys.readouterr().out == ""


def test_histograms_take_cases_that_fill_no_whole_batch(graph: Graph) -> None:
    prepared = prepare(graph, subject="m")
    odd = {"window": ROWS["window"][:131]}
    assert json.loads(measure_ranges(prepared, odd, CALIBRATORS[1]))["data"]


def test_nodes_can_stay_in_float_or_be_quantized_alone(graph: Graph) -> None:
    prepared = prepare(graph, subject="m")
    ranges = measure_ranges(prepared, ROWS, CALIBRATORS[0])
    assert heavy_nodes(prepared) == ("first", "second")
    assert len(_weights(quantized(prepared, ranges, RECIPES[0], in_float=["first"]))) == 1
    only = _weights(alone(prepared, ranges, RECIPES[0], "first"))
    assert [one.shape for one in only] == [(6, 4)]


def test_what_the_quantizer_cannot_do_is_one_line(graph: Graph) -> None:
    prepared = prepare(graph, subject="m")
    with pytest.raises(BundleError, match="m: found onnxruntime's quantizer fails: ") as caught:
        measure_ranges(prepared, {"window": ROWS["window"][:, :1]}, CALIBRATORS[0])
    assert "\n" not in str(caught.value)


def test_float16_is_close_and_keeps_its_ports(graph: Graph) -> None:
    half = to_float16(graph, subject="m")
    assert [one.dtype for one in (*half.inputs, *half.outputs)] == ["float32", "float32"]
    assert len(half.data) < len(graph.data) + 300
    off = open_session(half.data)(ROWS)["low"] - open_session(graph.data)(ROWS)["low"]
    assert 0 < np.abs(off).max() < 0.02


def test_float16_refuses_by_name() -> None:
    model = tiny_model()
    model.graph.node[2].op_type = "Softsign"
    with pytest.raises(BundleError, match="m, float16: found operator Softsign"):
        to_float16(clean_graph(model.SerializeToString(), subject="m"), subject="m")
    model = tiny_model()
    weight = next(one for one in model.graph.initializer if one.name == "b2")
    weight.raw_data = np.array([1e5], np.float32).tobytes()
    with pytest.raises(BundleError, match=r"found a constant of 100000; expected constants up to 65504"):
        to_float16(clean_graph(model.SerializeToString(), subject="m"), subject="m")


def test_the_float_twin_of_a_quantized_model_has_only_its_weights_rounded(graph: Graph) -> None:
    made = quantize(graph, ROWS, subject="m").graph
    twin = float_twin(made)
    assert is_quantized(made)
    assert "QuantizeLinear" not in twin.operators
    run = {name: open_session(one.data)(ROWS)["low"] for name, one in (("f", graph), ("q", made), ("t", twin))}
    assert 0 < np.abs(run["t"] - run["f"]).max() < 0.1
    assert np.abs(run["t"] - run["f"]).mean() < np.abs(run["q"] - run["f"]).mean()


def test_a_float_model_is_its_own_twin(graph: Graph) -> None:
    assert float_twin(graph).data == graph.data
    assert not is_quantized(graph)
