"""A tiny contract with a model that a test can compute in its head: the answer is the mean of channel `a` over the window."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.capture import Choose
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Infer, Model
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.payload import CsvDecode, Decode, JsonDecode, TimeField

STEPS = ({"step": "standardize", "mean": [0.0, 0.0], "std": [10.0, 10.0]},)


def manifest(
    *,
    length: int = 2,
    hop: int = 1,
    flags: bool = True,
    sizes: tuple[int, ...] = (1, 2, 4),
    steps: Sequence[Mapping[str, Any]] = STEPS,
    **changes: Any,
) -> Manifest:
    """Two channels `a` (Cel) and `b` (%), a window of ``length`` samples 10 s apart, standardized; output `mean` in Cel."""
    band = {"min": -50.0, "max": 50.0}
    channel = {"trained": band, "tolerated": band, "physical": {"min": -100.0, "max": 100.0}}
    raw = {
        "schema": "edge-runtime/bundle/1",
        "id": "tiny",
        "version": "1.0.0",
        "security_version": 1,
        "description": "a test",
        "provenance": {
            "checkpoint": "none", "checkpoint_sha256": "0" * 64, "framework": "none", "exporter": "none",
            "source_model_sha256": "0" * 64, "training_data": "none", "licence": "CC0-1.0", "limits": "a test",
        },
        "variants": [
            {
                "name": "cpu_float32", "model": "model.onnx", "goldens": "golden.npz", "precision": "float32",
                "ir_version": 10, "opsets": {"": 18}, "operators": ["ReduceMean"], "model_inputs": ["x"],
                "model_outputs": ["y"],
                "tolerances": {"CPUExecutionProvider": {"kind": "float", "rtol": 1e-5, "atol": 1e-5, "evidence": "a test"}},
                "input_clip": {"x": {"min": -4.0, "max": 4.0}},
            }
        ],
        "inputs": [
            {
                "tensor": "x", "dtype": "float32", "shape": ["batch", 2, length], "axes": ["batch", "channel", "time"],
                "channels": [
                    {"name": "a", "unit": "Cel", "stuck_after": 4, **channel},
                    {"name": "b", "unit": "%", **channel},
                ],
                "steps": list(steps),
            }
        ],
        "window": {"length": length, "hop": hop, "period_s": 10.0},
        "outputs": [
            {
                "tensor": "y", "name": "mean", "meaning": "the mean of a", "unit": "Cel",
                "postprocess": [{"step": "destandardize", "mean": 0.0, "std": 10.0}],
                "flags": [{"name": "cold", "side": "below", "on": 2.0, "off": 4.0}] if flags else [],
            }
        ],
        "batch_sizes": list(sizes),
        "needs": {"latency_p99_ms": 50.0, "memory_mb": 500.0},
    }  # fmt: skip
    return Manifest.model_validate(raw | changes)


def infer(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The mean of the first channel, as float32 ``(batch, 1)``."""
    tensor = feeds["x"]
    assert tensor.dtype == np.float32
    return {"y": tensor[:, 0].astype(np.float64).mean(axis=1, keepdims=True).astype(np.float32)}


def model(contract: Manifest | None = None, run: Infer = infer) -> Model:
    """The model of ``manifest``, or of another one."""
    contract = contract or manifest()
    return Model(contract, contract.variants[0], "d" * 64, run)


CHANNELS = {"a": ChannelBinding(field="a", unit="Cel"), "b": ChannelBinding(field="b", unit="%")}
CSV = CsvDecode(
    format="csv", columns=("t", "a", "b"), encoding="utf-8", time=TimeField(field="t", format="unix_s"), carry=()
)
JSON = JsonDecode(
    format="json", encoding="utf-8", time=TimeField(field="t", format="unix_s"), stream="who", carry=("note",)
)


def line(
    contract: Manifest | None = None,
    run: Infer = infer,
    decode: Decode = CSV,
    channels: Mapping[str, ChannelBinding] = CHANNELS,
    sizes: tuple[int, ...] | None = None,
    max_age_ns: int | None = None,
    choose: Choose | None = None,
) -> Line:
    """A whole line from bytes to answers."""
    one = model(contract, run)
    return Line(
        name="tiny",
        model=one,
        contract=Contract(one.manifest.channels, channels),
        framing=make_framing(LinesFraming(max_bytes=200), decode.encoding),
        decoder=make_decoder(decode, channels),
        batch_sizes=sizes,
        when_bad_time="refuse" if decode.time is None else decode.time.when_bad,
        max_age_ns=max_age_ns,
        choose=choose,
    )
