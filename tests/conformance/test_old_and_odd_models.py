"""Models of other people's exporters: old IR, unused domains, a custom operator; each serves, or is refused in one line."""

import numpy as np
import onnx
import pytest

import edge_runtime
from edge_runtime.author.graph import clean_graph
from edge_runtime.bundle.write import write_directory
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from tests.conformance.bundles import opaque_bundle
from tests.conformance.third_party import third_party


def _served(name, model, tensor, cases, to):
    """The model as a bundle, booted from disk and opened; and what the bare file says of the same cases."""
    write_directory(opaque_bundle(name, model, {tensor: cases}), to)
    assert boot(to, make_setting()).report.state == "OPERATIONAL"
    session = open_session(model)
    return edge_runtime.open(to), [session({tensor: cases[at : at + 1]}) for at in range(len(cases))]


def _digit(rng):
    picture = np.zeros((1, 1, 28, 28), dtype=np.float32)
    picture[0, 0, 4:24, 13:16] = 255.0  # an upright bar
    return np.concatenate([picture, rng.uniform(0, 255, (3, 1, 28, 28)).astype(np.float32)])


def test_mnist_of_opset_8_whose_initializers_are_inputs_serves(tmp_path):
    data = third_party("models", "mnist.onnx").read_bytes()
    original = onnx.load_model_from_string(data)
    assert (original.ir_version, original.opset_import[0].version) == (3, 8)
    cases = _digit(np.random.default_rng(8))
    model, bare = _served("mnist", data, "Input3", cases, tmp_path / "bundle")
    assert model.manifest.variants[0].ir_version == 4  # the first without constants among the inputs
    answers = [one for _, one in model.feed_many({"c_input3": case} for case in cases).answers]
    found = [answer.outputs[0].value for answer in answers]
    assert found == [tuple(one["Plus214_Output_0"][0].astype(float).tolist()) for one in bare]
    assert int(np.argmax(found[0])) == 1


def test_ultraface_serves_once_the_domains_nobody_uses_are_gone(tmp_path):
    data = third_party("models", "Ultraface.version-RFB-320.onnx").read_bytes()
    assert len(onnx.load_model_from_string(data).opset_import) == 8
    cases = np.random.default_rng(9).uniform(-1, 1, (2, 3, 240, 320)).astype(np.float32)
    model, bare = _served("ultraface", data, "input", cases, tmp_path / "bundle")
    assert set(model.manifest.variants[0].opsets) == {"ai.onnx"}
    assert [output.name for output in model.manifest.outputs] == ["output_0", "output_1"]
    answers = [one for _, one in model.feed_many({"c_input": case} for case in cases).answers]
    for answer, one in zip(answers, bare, strict=True):
        for output, tensor in zip(answer.outputs, ("scores", "boxes"), strict=True):
            assert np.array(output.value, dtype=np.float32).tobytes() == one[tensor].tobytes()


@pytest.mark.parametrize(
    "door", [lambda data: clean_graph(data, subject="m.onnx"), open_session], ids=["build", "device"]
)
def test_a_custom_operator_is_refused_in_one_plain_line_at_both_doors(door, tell):
    data = third_party("models", "pytorch_superresolution_with_pre_post_processing_opset18.onnx").read_bytes()
    with pytest.raises(BundleError) as caught:
        door(data)
    words = str(caught.value)
    assert "\n" not in words
    assert "com.microsoft.extensions" in words
    assert len(words) < 500
    tell(f"custom operator: {words}")
