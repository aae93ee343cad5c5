"""The rig itself, on a model made here: a picture and a gain in, scores and a sum out, through boot and `open`."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import edge_runtime
from edge_runtime.bundle.write import write_directory
from edge_runtime.errors import SampleRefused
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from tests.conformance.bundles import opaque_bundle


def _model():
    """``scores``: the picture's columns summed, times the gain; ``brightest``: the largest of them."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["Picture:0"], ["seen"], to=TensorProto.FLOAT),
            helper.make_node("ReduceSum", ["seen", "rows"], ["sums"], keepdims=0),
            helper.make_node("Mul", ["sums", "gain"], ["scores"]),
            helper.make_node("ReduceMax", ["scores", "columns"], ["brightest"], keepdims=1),
        ],
        "g",
        [
            helper.make_tensor_value_info("Picture:0", TensorProto.UINT8, ["batch", 2, 3]),
            helper.make_tensor_value_info("gain", TensorProto.FLOAT, ["batch", 1]),
        ],
        [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("brightest", TensorProto.FLOAT, ["batch", 1]),
        ],
        [
            helper.make_tensor("rows", TensorProto.INT64, [1], [1]),
            helper.make_tensor("columns", TensorProto.INT64, [1], [1]),
        ],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


@pytest.fixture
def opened(tmp_path):
    rng = np.random.default_rng(3)
    cases = {
        "Picture:0": rng.integers(0, 256, (9, 2, 3), dtype=np.uint8),
        "gain": rng.uniform(1, 2, (9, 1)).astype(np.float32),
    }
    files = opaque_bundle("Two_In", _model(), cases, labels={"scores": ("left", "middle", "right")})
    write_directory(files, tmp_path / "bundle")
    report = boot(tmp_path / "bundle", make_setting()).report
    assert report.state == "OPERATIONAL", [check for check in report.checks if check.status == "fail"]
    return edge_runtime.open(tmp_path / "bundle")


@pytest.mark.parametrize(
    "picture", [[[1, 2, 3], [4, 5, 1]], [1, 2, 3, 4, 5, 1], np.array([[1, 2, 3], [4, 5, 1]], dtype=np.uint8)]
)
def test_what_a_program_feeds_comes_out_as_the_model_says(opened, picture):
    (answer,) = opened.feed({"c_picture_0": picture, "c_gain": [2.0]})
    label, brightest = answer.outputs
    assert (label.value, label.score) == ("middle", 14.0)
    assert brightest.value == (14.0,)


@pytest.mark.parametrize(
    ("picture", "reason"),
    [
        ([[1, 2, 3]], "wrong_shape"),
        ([[1, 2], [3, 4], [5, 6]], "wrong_shape"),
        ([[1, 2, 3], [4, 5]], "not_a_number"),
        ([256, 0, 0, 0, 0, 0], "beyond_dtype"),
        ([0.5, 0, 0, 0, 0, 0], "beyond_dtype"),
        ("abcdef", "not_a_number"),
        (1.0, "wrong_shape"),
        (None, "missing"),
    ],
)
def test_what_is_no_such_picture_is_refused(opened, picture, reason):
    with pytest.raises(SampleRefused) as caught:
        opened.feed({"c_picture_0": picture, "c_gain": [2.0]})
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)
    assert opened.ledger.adds_up(pending_samples=0, pending_answers=0)
