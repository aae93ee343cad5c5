"""A whole bundle around a model whose numbers nobody describes: opaque inputs, its own answers as goldens; no contract.toml."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.exact import open_exact
from edge_runtime.author.graph import Graph, Port, clean_graph
from edge_runtime.bundle.golden import Goldens, encode
from edge_runtime.bundle.write import sums
from edge_runtime.flow.batching import split
from edge_runtime.flow.postprocess import Labelled, Postprocess
from edge_runtime.spec.manifest import SCHEMA, Manifest, parse
from edge_runtime.spec.providers import CPU

Arrays = Mapping[str, NDArray[Any]]

_AXES = {1: ("point",), 2: ("row", "column"), 3: ("row", "column", "colour")}
_SIZES = (1, 8)
_NOTHING = "0" * 64


def opaque_bundle(
    name: str,
    model: bytes,
    cases: Arrays,
    *,
    labels: Mapping[str, Sequence[str]] | None = None,
    references: Arrays | None = None,
) -> dict[str, bytes]:
    """The files of a bundle, SHA256SUMS included.

    ``cases`` are the goldens' input tensors by name, batch first. Every output is a vector, or a label where ``labels``
    names its words. Its tolerance is what the model itself differs by between the batch sizes: equal, or float's own.
    """
    graph = _graph(model, name)
    sizes = (1,) if graph.inputs[0].shape[0] == 1 else _SIZES
    session = open_exact(graph.data)
    outputs = _run(session, cases, (1,))
    together = _run(session, cases, sizes)
    tolerance = _tolerance(outputs, together)
    names = _names(graph.outputs)
    manifest = _manifest(name, model, graph, sizes, tolerance, names, labels or {})
    goldens = _goldens(parse(manifest), cases, outputs, references or {})
    files = {"manifest.json": manifest, "model.onnx": graph.data, "golden.npz": encode(goldens)}
    return files | {"SHA256SUMS": sums(files)}


def channel_of(port: Port) -> str:
    """The name of the channel that is one input tensor: the tensor's own, as far as a channel may be called so."""
    return "c_" + "".join(letter if letter.isalnum() else "_" for letter in port.name.lower())[:60]


def _graph(model: bytes, name: str) -> Graph:
    return clean_graph(model, subject=f"{name}.onnx", one_by_one=True)


def _run(session: Any, cases: Arrays, sizes: Sequence[int]) -> dict[str, NDArray[Any]]:
    parts, first = [], 0
    for size in split(len(next(iter(cases.values()))), tuple(sizes)):
        parts.append(session({tensor: values[first : first + size] for tensor, values in cases.items()}))
        first += size
    return {tensor: np.concatenate([part[tensor] for part in parts]) for tensor in parts[0]}


def _tolerance(alone: Arrays, together: Arrays) -> dict[str, Any]:
    steps = max(
        (int(np.abs(alone[one].astype(int) - together[one]).max()) for one in alone if alone[one].dtype.kind in "iu"),
        default=0,
    )
    if any(values.dtype.kind == "f" for values in alone.values()):
        return {"kind": "float", "rtol": 1e-4, "atol": 1e-5, "evidence": "float32's own rounding"}
    if steps:
        return {"kind": "steps", "steps": steps, "evidence": f"batches of {_SIZES} differ by that"}
    return {"kind": "exact", "evidence": f"batches of {_SIZES} are equal"}


def _names(ports: Sequence[Port]) -> dict[str, str]:
    return {port.name: f"output_{place}" for place, port in enumerate(ports)}


def _manifest(
    name: str, model: bytes, graph: Graph, sizes: Sequence[int], tolerance: Mapping[str, Any],
    names: Mapping[str, str], labels: Mapping[str, Sequence[str]],
) -> bytes:  # fmt: skip
    digest = hashlib.sha256(model).hexdigest()
    must = ["opaque"]
    must += ["multiple_inputs"] if len(graph.inputs) > 1 else []
    must += ["multiple_outputs"] if len(graph.outputs) > 1 else []
    outputs = []
    for port in graph.outputs:
        output: dict[str, Any] = {"tensor": port.name, "name": names[port.name], "meaning": f"{port.name}, as it comes"}
        words = labels.get(port.name)
        outputs.append(output | ({"form": "label", "labels": list(words)} if words else {"form": "vector"}))
    raw = {
        "schema": SCHEMA,
        "must_understand": sorted(must),
        "id": name.replace("_", "-").lower(),
        "version": "1.0.0",
        "security_version": 1,
        "description": f"{name}, its numbers taken as they come",
        "provenance": {
            "checkpoint": "none", "checkpoint_sha256": _NOTHING, "framework": "unknown", "exporter": "unknown",
            "source_model_sha256": digest, "training_data": "unknown", "licence": "unknown",
            "limits": "opaque numbers: nobody vouches for what they mean",
        },
        "variants": [
            {
                "name": "as_is", "model": "model.onnx", "goldens": "golden.npz", "precision": "as_is",
                "ir_version": graph.ir_version, "opsets": graph.opsets, "operators": list(graph.operators),
                "model_inputs": [port.name for port in graph.inputs],
                "model_outputs": [port.name for port in graph.outputs], "tolerances": {CPU: dict(tolerance)},
            }
        ],
        "inputs": [_input(port) for port in graph.inputs],
        "outputs": outputs,
        "batch_sizes": list(sizes),
        "needs": {"latency_p99_ms": 5000.0, "memory_mb": 2000.0},
    }  # fmt: skip
    return json.dumps(raw).encode()


def _input(port: Port) -> dict[str, Any]:
    inner = list(port.shape[1:])
    channel = {"name": channel_of(port), "form": "opaque", "dtype": port.dtype, "shape": inner}
    axes = ["batch", *_AXES[len(inner)]]
    return {
        "tensor": port.name, "dtype": port.dtype, "shape": ["batch", *inner], "axes": axes, "channels": [channel],
    }  # fmt: skip


def _goldens(manifest: Manifest, cases: Arrays, outputs: Arrays, references: Arrays) -> Goldens:
    count = len(next(iter(cases.values())))
    rows = [cases[one.tensor].reshape(count, -1).astype(np.float64) for one in manifest.inputs]
    made = Postprocess(manifest).make(outputs)
    return Goldens(
        channels=tuple(channel.name for channel in manifest.channels),
        raw=np.concatenate(rows, axis=1)[:, np.newaxis],
        units=(("1",) * len(manifest.channels),) * count,
        tensors=dict(cases),
        outputs=dict(outputs),
        references=dict(references),
        answers={
            output.name: np.array([one.text if isinstance(one, Labelled) else one for one in values])
            for output, values in zip(manifest.outputs, made, strict=True)
        },
        answer_units={output.name: output.unit for output in manifest.outputs},
        flags={},
    )
