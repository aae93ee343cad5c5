"""Small whole bundles around models built node by node, their goldens what those models really answer; no build, no gates."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edge_runtime.bundle.golden import Goldens, encode
from edge_runtime.bundle.write import write_directory
from edge_runtime.engine.session import open_session
from edge_runtime.flow.postprocess import Labelled, Postprocess
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.report import Report

Raw = dict[str, Any]
CHANCE = np.random.default_rng(20260101)
NUMBER = TensorProto.FLOAT


def model(
    nodes: Sequence[NodeProto],
    shape: Sequence[int | str],
    out: Sequence[int | str],
    weights: Mapping[str, NDArray[Any]] | None = None,
    *,
    kind: int = NUMBER,
    opsets: Mapping[str, int] | None = None,
    ir_version: int = 10,
) -> ModelProto:
    """A model from `x` to `y`, float32 unless ``kind`` says so for `x`."""
    graph = helper.make_graph(
        list(nodes), "made",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info("y", NUMBER, list(out))],
        [numpy_helper.from_array(values, name) for name, values in (weights or {}).items()],
    )  # fmt: skip
    imports = [helper.make_opsetid(domain, version) for domain, version in (opsets or {"": 18}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def dense(size: int, out: int, shape: Sequence[int | str]) -> ModelProto:
    """Flatten -> Gemm, with weights of its own for each number, so that no two of them can be exchanged unseen."""
    weights = {"w": CHANCE.normal(size=(size, out)).astype(np.float32), "b": CHANCE.normal(size=out).astype(np.float32)}
    nodes = [helper.make_node("Flatten", ["x"], ["f"], axis=1), helper.make_node("Gemm", ["f", "w", "b"], ["y"])]
    return model(nodes, shape, ["batch", out], weights)


def number(name: str, unit: str, low: float, high: float, **more: Any) -> Raw:
    """A channel that is trained and tolerated from ``low`` to ``high``, and can be half as much again."""
    band = {"min": low, "max": high}
    room = (high - low) / 2
    return {
        "name": name, "unit": unit, "trained": band, "tolerated": band,
        "physical": {"min": low - room, "max": high + room}, **more,
    }  # fmt: skip


def manifest(channels: Sequence[Raw], shape: Sequence[int | str], axes: Sequence[str], **changes: Any) -> Raw:
    """A manifest whose one output is a number; ``changes`` replace or add keys, `steps` among them."""
    steps = changes.pop("steps", [])
    features = changes.pop("must_understand", [])
    return {
        "schema": "edge-runtime/bundle/1", "id": "made", "version": "1.0.0", "security_version": 1,
        "must_understand": features, "description": "made by a test",
        "provenance": {
            "checkpoint": "none", "checkpoint_sha256": "0" * 64, "framework": "none", "exporter": "onnx.helper",
            "source_model_sha256": "0" * 64, "training_data": "none", "licence": "CC0-1.0", "limits": "a test",
        },
        "variants": [
            {
                "name": "cpu", "model": "model.onnx", "goldens": "golden.npz", "precision": "float32",
                "ir_version": 10, "opsets": {"ai.onnx": 18}, "operators": [], "model_inputs": ["x"],
                "model_outputs": ["y"],
                "tolerances": {CPU: {"kind": "float", "rtol": 1e-5, "atol": 1e-5, "evidence": "float32"}},
            }
        ],
        "inputs": [
            {"tensor": "x", "dtype": "float32", "shape": list(shape), "axes": list(axes), "channels": list(channels),
             "steps": steps}
        ],
        "outputs": [{"tensor": "y", "name": "value", "meaning": "a test", "unit": "1"}],
        "batch_sizes": [1, 4], "needs": {"latency_p99_ms": 5000.0, "memory_mb": 2000.0},
    } | changes  # fmt: skip


def goldens(raw: Raw, onnx: ModelProto, values: NDArray[np.float64]) -> Goldens:
    """What the model answers to ``values`` ``(cases, samples, numbers)``, which are in contract units; one by one."""
    contract = parse(json.dumps(raw).encode())
    tensors = make_preprocess(contract)(values)
    nan = any(channel.when_missing == "pass" for channel in contract.channels)
    session = open_session(onnx.SerializeToString(), takes_nan=nan)
    rows = [session({name: tensor[at : at + 1] for name, tensor in tensors.items()}) for at in range(len(values))]
    outputs = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    post = Postprocess(contract)
    made = post.make(outputs)
    return Goldens(
        channels=tuple(channel.name for channel in contract.channels), raw=values,
        units=(tuple(channel.unit for channel in contract.channels),) * len(values), tensors=tensors, outputs=outputs,
        references={},
        answers={
            output.name: np.array([one.text if isinstance(one, Labelled) else one for one in rows_made])
            for output, rows_made in zip(contract.outputs, made, strict=True)
        },
        answer_units={output.name: output.unit for output in contract.outputs}, flags={},
    )  # fmt: skip


def write(to: Path, raw: Raw, onnx: ModelProto, stored: Goldens) -> Path:
    """Write the bundle ``to / "bundle"``, in place of one that stands there; its sums are right."""
    files = {
        "manifest.json": json.dumps(raw).encode(), "model.onnx": onnx.SerializeToString(), "golden.npz": encode(stored),
    }  # fmt: skip
    write_directory(files, to / "bundle")
    return to / "bundle"


def changed(raw: Raw, change: Callable[[Raw], object]) -> Raw:
    """A copy with a mistake in it."""
    other: Raw = json.loads(json.dumps(raw))
    change(other)
    return other


def booted(path: Path) -> Report:
    """The report of booting it here."""
    return boot(path, make_setting()).report


def refused_by(report: Report) -> str:
    """The first check that refuses; it must not serve then."""
    failures = [check for check in report.failures() if check.tier == "required"]
    assert failures, "nothing refused it"
    assert report.state == "ERROR"
    return failures[0].id


def words(report: Report) -> str:
    """What the first failure says."""
    check = report.failures()[0]
    return f"{check.measured}; expected {check.limit}; {check.hint}"
