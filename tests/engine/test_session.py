import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edge_runtime.engine import session as engine
from edge_runtime.errors import BundleError, DeviceError

MAX_IR_VERSION, MAX_OPSET = engine.newest_taken(engine.version())


def model(nodes=None, external=False, ir_version=10, opset=18):
    initializers = [] if nodes else [weight(external)]
    nodes = nodes or [helper.make_node("Mul", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])], initializers,
    )  # fmt: skip
    return helper.make_model(
        graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)]
    ).SerializeToString()


def weight(external):
    one = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    if external:
        one.ClearField("float_data")
        one.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "secret.bin"), ("offset", "0"), ("length", "4")):
            entry = one.external_data.add()
            entry.key, entry.value = key, value
    return one


def feed(*rows):
    return {"x": np.array(rows, dtype=np.float32).reshape(-1, 1)}


def test_a_session_runs_and_says_what_it_takes_and_where_it_runs():
    one = engine.open_session(model())
    assert one(feed(1.5, 2.0))["y"].tolist() == [[3.0], [4.0]]
    assert one.inputs == (("x", ("batch", 1), "float32"),)
    assert one.outputs == (("y", ("batch", 1), "float32"),)
    assert dict(one.placement) == {"CPUExecutionProvider": 1}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_never_reaches_the_model(bad):
    with pytest.raises(ValueError, match="not finite"):
        engine.open_session(model())(feed(1.0, bad))


def test_large_finite_numbers_whose_sum_overflows_are_run():
    big = float(np.finfo(np.float32).max) / 4
    assert np.isfinite(engine.open_session(model())(feed(*[big] * 8))["y"]).all()


def test_an_empty_batch_never_reaches_the_model():
    with pytest.raises(ValueError, match="empty"):
        engine.open_session(model())({"x": np.empty((0, 1), dtype=np.float32)})


def test_a_failing_run_is_a_device_error_in_one_line():
    with pytest.raises(DeviceError, match="run edge-runtime selftest") as caught:
        engine.open_session(model())({"x": np.ones((2, 3), dtype=np.float32)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["CUDAExecutionProvider", "CpuExecProvider", "AzureExecutionProvider", ""])
def test_a_provider_nobody_can_prove_is_refused_and_never_becomes_the_cpu(name):
    with pytest.raises(DeviceError, match="provider"):
        engine.open_session(model(), provider=name)


@pytest.mark.parametrize(
    "data", [b"", b"garbage", model()[:-3], model([helper.make_node("Nope", ["x"], ["y"], domain="com.x")])]
)
def test_what_is_no_model_is_a_bundle_error_in_one_line(data):
    with pytest.raises(BundleError, match="refuses it") as caught:
        engine.open_session(data)
    assert "\n" not in str(caught.value)


def test_external_data_in_the_current_folder_is_not_opened(tmp_path, monkeypatch):
    (tmp_path / "secret.bin").write_bytes(np.array([7.0], dtype=np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BundleError):
        engine.open_session(model(external=True))
    assert Path.cwd() == tmp_path


def test_the_folder_has_lost_its_name_before_the_model_is_loaded(tmp_path, monkeypatch):
    """Whatever ends the process while a model loads, no folder is left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    make = onnxruntime.InferenceSession

    def watched(*words, **named):
        seen.append((list(tmp_path.iterdir()), os.listdir(".")))  # noqa: PTH208 -- a folder without a name has no Path
        return make(*words, **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    engine.open_session(model())
    assert seen == [([], [])]


def test_external_data_would_be_opened_by_onnxruntime_itself(tmp_path, monkeypatch):
    """The reason for the empty folder; when this fails, onnxruntime has closed the hole and the folder can go."""
    (tmp_path / "secret.bin").write_bytes(np.array([7.0], dtype=np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model(external=True), options, providers=["CPUExecutionProvider"])
    assert session.run(None, feed(1.0))[0].tolist() == [[7.0]]


@pytest.mark.parametrize("ir_version", [3, MAX_IR_VERSION])
@pytest.mark.parametrize("opset", [engine.MIN_OPSET, MAX_OPSET])
def test_the_ends_of_what_this_onnxruntime_takes(ir_version, opset):
    data = model([helper.make_node("Relu", ["x"], ["y"])], ir_version=ir_version, opset=opset)
    assert engine.open_session(data)(feed(-1.0, 1.0))["y"].tolist() == [[0.0], [1.0]]


def test_one_beyond_the_ends_is_refused_by_onnxruntime_too():
    for data in (model(ir_version=MAX_IR_VERSION + 1), model(opset=MAX_OPSET + 1)):
        with pytest.raises(BundleError):
            engine.open_session(data)


def test_distributions_are_seen_by_their_metadata(tmp_path, monkeypatch):
    assert engine.distributions() == ["onnxruntime"]
    (tmp_path / "onnxruntime_gpu-1.31.1.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert engine.distributions() == ["onnxruntime", "onnxruntime-gpu"]


@pytest.mark.parametrize(("runtime", "taken"), [
    ("1.24.0", (13, 25)), ("1.25.1", (13, 26)), ("1.31.9", (13, 26)), ("1.32.0", (14, 28)), ("2.0.0", (14, 28)),
    ("1.9.0", (13, 25)),
])  # fmt: skip
def test_what_each_release_takes(runtime, taken):
    assert engine.newest_taken(runtime) == taken


PROGRAM = """
import os, sys
sys.path.insert(0, {root!r})
from edge_runtime.engine import session
session.open_session(open({path!r}, "rb").read())
print(session.telemetry_is_off(), len(os.listdir("/proc/self/task")))
"""


def test_no_file_appears_under_home_and_no_thread_stays(tmp_path):
    home, path = tmp_path / "home", tmp_path / "m.onnx"
    home.mkdir()
    path.write_bytes(model())
    root = str(Path(engine.__file__).parents[2])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(root=root, path=str(path))],
        env=environment | {"HOME": str(home), "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[0] == "True"
    assert list(home.rglob("*")) == []


def test_a_model_too_large_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(engine, "MAX_MODEL_BYTES", 10)
    with pytest.raises(BundleError, match="at most 10"):
        engine.open_session(model())


def test_the_models_of_the_test_are_valid():
    onnx.checker.check_model(onnx.load_from_string(model()))


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT, TensorProto.STRING])
def test_a_model_of_sequences_is_refused_in_one_line(elem_type):
    graph = helper.make_graph(
        [helper.make_node("SequenceAt", ["s", "i"], ["y"])], "g",
        [helper.make_tensor_sequence_value_info("s", elem_type, None),
         helper.make_tensor_value_info("i", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", elem_type, None)],
    )  # fmt: skip
    data = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    with pytest.raises(BundleError, match=r"^model, s: found seq\(tensor.*; expected a tensor; .*") as caught:
        engine.open_session(data)
    assert "\n" not in str(caught.value)


def test_texts_whole_numbers_and_a_single_number_are_run():
    def identity(elem_type, shape):
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", elem_type, shape)],
            [helper.make_tensor_value_info("y", elem_type, shape)],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 18)]
        return engine.open_session(helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString())

    assert identity(TensorProto.STRING, ["batch"])({"x": np.array(["a", "b"], dtype=object)})["y"].tolist() == [
        "a",
        "b",
    ]
    assert identity(TensorProto.INT8, ["batch"])({"x": np.array([-128, 127], dtype=np.int8)})["y"].tolist() == [
        -128,
        127,
    ]
    assert identity(TensorProto.FLOAT, [])({"x": np.array(2.5, dtype=np.float32)})["y"] == 2.5
    huge = np.full(100, 60000, dtype=np.float16)  # its sum of squares is none that float16 has
    assert (identity(TensorProto.FLOAT16, ["batch"])({"x": huge})["y"] == huge).all()


def test_a_current_folder_that_has_gone_is_not_the_model_s_fault(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert engine.open_session(model())
    finally:
        os.chdir(tmp_path)


def test_no_room_for_an_empty_folder_is_the_device_s_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(DeviceError, match="temporary folder"):
        engine.open_session(model())
