from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author.graph import clean_graph, parse_graph
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError
from tests.author.conftest import tiny_model

TRACE = 'File "/home/author/secret/train.py", line 12, in forward'


def _dirty() -> onnx.ModelProto:
    model = tiny_model()
    model.doc_string = model.graph.doc_string = TRACE
    model.graph.node[0].doc_string = TRACE
    model.graph.input[0].doc_string = TRACE
    model.graph.initializer[0].doc_string = TRACE
    for holder in (model, model.graph, model.graph.node[1], model.graph.initializer[1], model.graph.input[0]):
        holder.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=TRACE)
    model.graph.value_info.append(helper.make_tensor_value_info("flat", TensorProto.FLOAT, ["batch", 6]))
    model.graph.value_info[0].metadata_props.add(key="source", value="/home/author/secret/train.py")
    model.opset_import.append(helper.make_opsetid("pkg.onnxscript.torch_lib", 1))
    return model


def test_what_an_exporter_leaves_is_gone_and_the_numbers_stay() -> None:
    dirty = _dirty().SerializeToString()
    assert dirty.count(b"/home/author/secret") >= 10
    graph = clean_graph(dirty, subject="m")
    assert b"secret" not in graph.data
    assert b"stack_trace" not in graph.data
    assert graph.opsets == {"ai.onnx": 18}
    rows = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    before, after = (open_session(data)({"window": rows})["low"] for data in (dirty, graph.data))
    assert np.array_equal(before, after)


def test_cleaning_twice_gives_the_same_bytes() -> None:
    once = clean_graph(_dirty().SerializeToString(), subject="m")
    assert clean_graph(once.data, subject="m") == once


def test_what_a_graph_says_of_itself() -> None:
    graph = clean_graph(tiny_model().SerializeToString(), subject="m")
    assert graph.operators == ("Flatten", "Gemm", "Relu")
    assert [(port.name, port.dtype, port.shape) for port in graph.inputs] == [("window", "float32", ("batch", 2, 3))]
    assert [port.shape for port in graph.outputs] == [("batch", 1)]


def _shared() -> onnx.ModelProto:
    model = tiny_model()
    nodes = model.graph.node
    nodes[1].input[2] = "b1"
    nodes.insert(2, helper.make_node("Add", ["hidden", "b1"], ["again"], name="add"))
    nodes.insert(3, helper.make_node("Add", ["again", "b1"], ["more"], name="add_more"))
    nodes[4].input[0] = "more"
    taken = numpy_helper.from_array(np.zeros(1, np.float32), "b1__2")
    model.graph.initializer.append(taken)
    nodes[5].input[2] = "b1__2"
    return model


def test_a_shared_initializer_becomes_one_for_each_node_and_the_numbers_stay() -> None:
    shared = _shared().SerializeToString()
    graph = clean_graph(shared, subject="m")
    model = parse_graph(graph)
    used = [name for node in model.graph.node for name in node.input]
    own = [tensor.name for tensor in model.graph.initializer]
    assert all(used.count(name) <= 1 for name in own)
    assert len(own) == len(set(own)) == 5 + 2
    rows = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    before, after = (open_session(data)({"window": rows})["low"] for data in (shared, graph.data))
    assert np.array_equal(before, after)


def test_an_initializer_is_no_input() -> None:
    model = tiny_model()
    model.graph.input.append(helper.make_tensor_value_info("b1", TensorProto.FLOAT, [4]))
    assert [port.name for port in clean_graph(model.SerializeToString(), subject="m").inputs] == ["window"]


def test_a_model_of_ir_3_whose_constants_were_inputs_becomes_ir_4() -> None:
    model = tiny_model()
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    graph = clean_graph(model.SerializeToString(), subject="m")
    assert (graph.ir_version, len(graph.inputs)) == (4, 1)
    assert open_session(graph.data)({"window": np.ones((1, 2, 3), dtype=np.float32)})["low"].shape == (1, 1)


def _external(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")


def _external_in_attribute(model: onnx.ModelProto) -> None:
    node = helper.make_node("Constant", [], ["unused"], value=numpy_helper.from_array(np.zeros(2, np.float32), "c"))
    node.attribute[0].t.data_location = TensorProto.EXTERNAL
    node.attribute[0].t.external_data.add(key="location", value="weights.bin")
    model.graph.node.insert(0, node)


def _external_unmarked(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].external_data.add(key="location", value="weights.bin")


def _custom(model: onnx.ModelProto) -> None:
    model.graph.node[2].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))


def _compiled(model: onnx.ModelProto) -> None:
    model.graph.node[2].op_type = "EPContext"
    model.graph.node[2].domain = "com.microsoft"


def _dynamic(model: onnx.ModelProto) -> None:
    model.graph.node.insert(0, helper.make_node("DynamicQuantizeLinear", ["window"], ["q", "s", "z"], name="dq"))


def _branching(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([], "inner", [], [])
    model.graph.node.append(helper.make_node("If", ["low"], ["out"], then_branch=inner, else_branch=inner))


def _training(model: onnx.ModelProto) -> None:
    node = helper.make_node("BatchNormalization", ["hidden", "b1", "b1", "b1", "b1"], ["n"], training_mode=1)
    model.graph.node.insert(2, node)


def _training_of_old(model: onnx.ModelProto) -> None:
    node = helper.make_node("BatchNormalization", ["hidden", "b1", "b1", "b1", "b1"], ["n", "mean", "var"])
    model.graph.node.insert(2, node)


def _dropping(model: onnx.ModelProto) -> None:
    """As torch 2.13 writes a network in training mode: BatchNorm folded away, and only the Dropout left to show it."""
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.1, np.float32), "ratio"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "mode"))
    model.graph.node.insert(2, helper.make_node("Dropout", ["hidden", "ratio", "mode"], ["dropped"]))


def _function(model: onnx.ModelProto) -> None:
    inner = [helper.make_node("Relu", ["x"], ["y"])]
    model.functions.append(helper.make_function("local", "f", ["x"], ["y"], inner, [helper.make_opsetid("", 18)]))


def _fixed(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def test_a_batch_fixed_at_one_serves_one_by_one() -> None:
    model = tiny_model()
    _fixed(model)
    graph = clean_graph(model.SerializeToString(), subject="model.onnx", one_by_one=True)
    assert graph.inputs[0].shape[0] == 1
    _fixed_output(model)
    with pytest.raises(BundleError, match="'low' with a fixed batch of 8"):
        clean_graph(model.SerializeToString(), subject="model.onnx", one_by_one=True)


def _fixed_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 8


def _dangling(model: onnx.ModelProto) -> None:
    model.graph.node[2].input[0] = "nowhere"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_external, "external data"),
        (_external_in_attribute, "external data"),
        (_external_unmarked, "external data"),
        (_custom, "'com.example'"),
        (_compiled, "EPContext"),
        (_dynamic, "DynamicQuantizeLinear"),
        (_branching, "control flow"),
        (_training, "training mode"),
        (_training_of_old, "training mode"),
        (_dropping, "training mode"),
        (_function, "local.f"),
        (_fixed, "fixed batch of 1"),
        (_fixed_output, "'low' with a fixed batch of 8"),
        (_dangling, "onnx.checker"),
    ],
)
def test_what_cannot_be_vouched_for_is_refused_in_one_line(
    spoil: Callable[[onnx.ModelProto], None], words: str
) -> None:
    model = tiny_model()
    spoil(model)
    with pytest.raises(BundleError) as caught:
        clean_graph(model.SerializeToString(), subject="model.onnx")
    line = str(caught.value)
    assert words in line
    assert line.startswith("model.onnx: found ")
    assert "expected" in line
    assert "\n" not in line


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x08" * 50])
def test_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(BundleError, match=r"model\.onnx: found no"):
        clean_graph(data, subject="model.onnx")


def test_a_model_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_runtime.author.graph.MAX_MODEL_BYTES", 100)
    with pytest.raises(BundleError, match="at most 100"):
        clean_graph(tiny_model().SerializeToString(), subject="model.onnx")
