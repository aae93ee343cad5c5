import json
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.author.graph import Graph, clean_graph, constants, parse_graph
from edge_runtime.author.quantize import evenly_spaced, quantize, read_grid
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError
from tests.author.conftest import tiny_model

BUNDLES = Path(__file__).parents[2] / "bundles"
ROWS = np.random.default_rng(2).normal(size=(130, 2, 3)).astype(np.float32)


@pytest.fixture
def graph() -> Graph:
    return clean_graph(tiny_model().SerializeToString(), subject="m")


def test_the_recipe_gives_standard_operators_and_seven_bit_weights(graph: Graph) -> None:
    made = quantize(graph, {"window": ROWS}, subject="m").graph
    assert made.opsets == {"ai.onnx": 18}
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(made.operators)
    values = constants(parse_graph(made))
    weights = [one for name, one in values.items() if name.endswith("weight_quantized") or one.dtype == np.int8]
    assert weights
    assert max(int(np.abs(one.astype(int)).max(initial=0)) for one in weights) <= 64


def test_a_quantized_model_shares_no_initializer(graph: Graph) -> None:
    model = parse_graph(quantize(graph, {"window": ROWS}, subject="m").graph)
    own = {tensor.name for tensor in model.graph.initializer}
    used = [name for node in model.graph.node for name in node.input if name in own]
    assert len(used) == len(set(used))


def test_the_grid_is_what_the_model_does(graph: Graph) -> None:
    made = quantize(graph, {"window": ROWS}, subject="m").graph
    grid = read_grid(made)
    low, high = grid.input_clip["window"]
    assert low <= ROWS.min() + 0.05
    assert high >= ROWS.max() - 0.05
    session = open_session(made.data)
    steps = session({"window": ROWS})["low"] / grid.output_scale["low"].step
    assert np.abs(steps - steps.round()).max() < 1e-3
    held, beyond = np.full((1, 2, 3), high, np.float32), np.full((1, 2, 3), high * 3, np.float32)
    assert np.array_equal(session({"window": held})["low"], session({"window": beyond})["low"])
    assert grid.seven_bit_weights


def test_weights_beyond_seven_bits_are_measured(graph: Graph) -> None:
    model = parse_graph(quantize(graph, {"window": ROWS}, subject="m").graph)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("_quantized") and tensor.data_type == tensor.INT8:
            tensor.raw_data = bytes([65]) + tensor.raw_data[1:]
    assert not read_grid(clean_graph(model.SerializeToString(), subject="m")).seven_bit_weights


def test_a_float_model_has_no_grid(graph: Graph) -> None:
    grid = read_grid(graph)
    assert (grid.input_clip, grid.output_scale) == ({}, {})


def test_ranges_of_an_earlier_build_are_used_instead_of_measuring(graph: Graph) -> None:
    first = quantize(graph, {"window": ROWS}, subject="m")
    assert first.ranges == json.dumps(json.loads(first.ranges), sort_keys=True)
    again = quantize(graph, {"window": ROWS * 5}, subject="m", ranges=first.ranges)
    assert again == first
    assert quantize(graph, {"window": ROWS * 5}, subject="m") != first


def test_what_the_quantizer_cannot_do_is_one_line(graph: Graph) -> None:
    with pytest.raises(BundleError, match=r"m: found onnxruntime's quantizer fails: .*; expected a model") as caught:
        quantize(graph, {"window": ROWS[:, :1]}, subject="m")
    assert "\n" not in str(caught.value)


def test_rows_are_spaced_evenly_and_the_same_each_time() -> None:
    assert evenly_spaced(5, 100).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spaced(101, 3).tolist() == [0, 50, 100]
    rows = evenly_spaced(4416, 512)
    assert len(rows) == 512
    assert (rows[0], rows[-1]) == (0, 4415)
    assert set(np.diff(rows).tolist()) <= {8, 9}


def test_the_frost_input_clips_where_it_is_said_to() -> None:
    frost = clean_graph((BUNDLES / "frost" / "model_int8.onnx").read_bytes(), subject="frost")
    assert read_grid(frost).input_clip["window"] == pytest.approx((-3.473, 4.573), abs=1e-3)
    assert read_grid(frost).seven_bit_weights


def test_a_state_is_calibrated_with_its_batch_where_the_model_has_it() -> None:
    data = (BUNDLES.parent / "examples" / "tiny" / "gru" / "model.onnx").read_bytes()
    axes = {"h": 1, "h_next": 1}
    gru = clean_graph(data, subject="gru", batch_axes=axes)
    random = np.random.default_rng(1)
    cases = {"x": random.normal(size=(100, 2)).astype("f4"), "h": random.normal(size=(100, 1, 4)).astype("f4")}
    assert "DequantizeLinear" in quantize(gru, cases, subject="gru", axes=axes).graph.operators
    with pytest.raises(BundleError, match="quantizer fails"):
        quantize(gru, cases, subject="gru", axes={"h": 2, "h_next": 1})
