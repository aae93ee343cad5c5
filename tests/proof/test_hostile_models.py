"""Models made to harm, in bundles whose hashes are right: a boot refuses each in a line, within its limits, and goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.run.boot import Booted, Setting, boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_profile import Isolation
from tests.rig.bundles import DEWPOINT, files_of, write_with
from tests.rig.program import PATIENCE_S

MODEL = next(name for name in files_of(DEWPOINT) if name.endswith(".onnx"))
MEMORY_MB = 256


def _behind(model: onnx.ModelProto, *nodes: onnx.NodeProto, **constants: object) -> None:
    """Put ``nodes`` between what the model gave, now ``was``, and its output, which is still called as before."""
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["was" if one == output.name else one for one in node.output]
        node.input[:] = ["was" if one == output.name else one for one in node.input]
    for node in nodes:
        node.output[:] = [output.name if one == "out" else one for one in node.output]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(numpy_helper.from_array(np.array(one), name) for name, one in constants.items())


def _endless(model: onnx.ModelProto) -> None:
    inner = [
        helper.make_tensor_value_info("at", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("now", TensorProto.FLOAT, None),
    ]
    given = [
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("then", TensorProto.FLOAT, None),
    ]
    turns = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Abs", ["now"], ["then"])]
    body = helper.make_graph(turns, "body", inner, given)
    _behind(model, helper.make_node("Loop", ["", "forever", "was"], ["out"], body=body), forever=True)


def _160_gb(model: onnx.ModelProto) -> None:
    """40e9 numbers of float32, by a model of a few hundred bytes."""
    _behind(
        model, helper.make_node("ConstantOfShape", ["many"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["zero"], keepdims=0), helper.make_node("Add", ["was", "zero"], ["out"]),
        many=np.array([40_000_000_000]),
    )  # fmt: skip


def _growing(model: onnx.ModelProto) -> None:
    """A bomb: what came, doubled forty times; two kilobytes that ask for 4 TB."""
    doubled = [helper.make_node("Concat", [f"d{at}", f"d{at}"], [f"d{at + 1}"], axis=0) for at in range(40)]
    _behind(
        model, helper.make_node("Flatten", ["was"], ["d0"], axis=1), *doubled,
        helper.make_node("ReduceMax", ["d40"], ["most"], keepdims=0), helper.make_node("Add", ["was", "most"], ["out"]),
    )  # fmt: skip


def _outside(model: onnx.ModelProto) -> None:
    """Weights that lie in a file of the machine."""
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.ClearField("float_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../../../../etc/passwd")


def _foreign_operator(model: onnx.ModelProto) -> None:
    _behind(model, helper.make_node("Exfiltrate", ["was"], ["out"], domain="com.example"))


def _bundle(folder: Path, change: Callable[[onnx.ModelProto], None]) -> Path:
    model = onnx.load_model_from_string(files_of(DEWPOINT)[MODEL])
    change(model)
    return write_with(DEWPOINT, folder / "hostile", {MODEL: model.SerializeToString()})


def _apart(**changed: float) -> Setting:
    here = make_setting()
    limits = Isolation(**({"memory_mb": MEMORY_MB, "timeout_s": PATIENCE_S} | changed))  # type: ignore[arg-type]
    return replace(here, profile=here.profile.model_copy(update={"isolation": limits}))


def _refused(booted: Booted) -> list[str]:
    failed = [one.measured for one in booted.report.checks if one.status == "fail" and one.tier == "required"]
    assert booted.ready is None
    assert failed
    assert not any("\n" in one for one in failed)
    return failed


def test_the_model_that_is_changed_serves_as_it_is(tmp_path: Path) -> None:
    assert boot(_bundle(tmp_path, lambda _: None), _apart()).ready is not None


def test_an_endless_loop_is_stopped_by_the_time_a_call_may_take(tmp_path: Path) -> None:
    failed = _refused(boot(_bundle(tmp_path, _endless), _apart(timeout_s=0.5)))
    assert "the session's own process: found no answer within 0.5 s" in failed[0]


@pytest.mark.parametrize("change", [_160_gb, _growing])
def test_memory_without_end_is_stopped_by_the_limit_of_its_process(
    change: Callable[[onnx.ModelProto], None], tmp_path: Path
) -> None:
    failed = _refused(boot(_bundle(tmp_path, change), _apart()))
    print(failed)
    assert any(word in failed[0] for word in ("bad_alloc", "memory", "allocate", "arena"))


@pytest.mark.parametrize("setting", [make_setting, _apart], ids=["in this process", "in its own"])
@pytest.mark.parametrize("change", [_outside, _foreign_operator])
def test_what_reaches_outside_the_bundle_is_not_loaded(
    change: Callable[[onnx.ModelProto], None], setting: Callable[[], Setting], tmp_path: Path
) -> None:
    failed = _refused(boot(_bundle(tmp_path, change), setting()))
    print(failed)
    assert failed[0].startswith("model")
