"""Static int8 quantization through ONNX Runtime's quantizer, the same bytes each time; it judges no accuracy."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.graph import Graph, clean_graph, constants, parse_graph
from edge_runtime.engine.session import version
from edge_runtime.errors import BundleError
from edge_runtime.spec.variant import Int8Scale

# QDQ, because any other provider than the CPU's wants it; uint8 x int8 per channel with 7-bit weights, because pairs
# of 8-bit products overflow the 16-bit registers of x86 without VNNI (microsoft/onnxruntime#14642).
RECIPE = {
    "format": "QDQ", "activations": "uint8", "weights": "int8",
    "per_channel": True, "reduce_range": True, "calibration": "MinMax",
}  # fmt: skip
_ROWS_A_RUN = 64
# Two products of 255 and 64 just fit a signed 16-bit register; ONNX Runtime's own limit is the same, both included.
_SEVEN_BITS = 64


class Quantized(NamedTuple):
    """The int8 model and, as text, the range of each tensor that its scales came from."""

    graph: Graph
    ranges: str


class Grid(NamedTuple):
    """What a quantized model's scales say, in tensor units: what each input holds, how far apart its outputs are."""

    input_clip: dict[str, tuple[float, float]]
    output_scale: dict[str, Int8Scale]
    seven_bit_weights: bool


def evenly_spaced(cases: int, wanted: int) -> NDArray[np.int64]:
    """At most ``wanted`` indices of ``cases``, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, cases - 1, min(cases, wanted)).round().astype(np.int64))


def quantize(
    graph: Graph,
    tensors: Mapping[str, NDArray[Any]],
    *,
    subject: str,
    ranges: str | None = None,
    axes: Mapping[str, int] | None = None,
) -> Quantized:
    """Quantize by the recipe; ``tensors`` are the model's inputs by name, ``(cases, ...)``, to take the ranges from.

    ``axes`` says where a state has its batch dimension; any other input has it first.

    ``ranges`` are those of an earlier build: with them nothing is measured, so that the bytes do not depend on how
    this machine's CPU rounds the float model.

    Raises:
        BundleError: ONNX Runtime's quantizer fails.

    """
    version()  # imports onnxruntime with its telemetry off; the quantizer's own import would switch it on
    from onnxruntime import quantization as ort  # noqa: PLC0415 - 0.3 s and 70 MB, for int8 builds alone
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415 - as above

    is_fixed = _is_fixed(graph, axes or {})
    with tempfile.TemporaryDirectory(prefix="edge-runtime-build-") as name:
        folder = Path(name)
        source, prepared, result = (folder / f"{step}.onnx" for step in ("source", "prepared", "result"))
        cache = folder / "ranges.json"
        source.write_bytes(graph.data)
        if ranges is not None:
            cache.write_text(ranges)
        try:
            quant_pre_process(source, prepared, skip_symbolic_shape=True)
            ort.quantize_static(
                prepared, result, _Rows(tensors, axes or {}, 1 if is_fixed else _ROWS_A_RUN),
                quant_format=ort.QuantFormat.QDQ, activation_type=ort.QuantType.QUInt8, weight_type=ort.QuantType.QInt8,
                per_channel=True, reduce_range=True, calibrate_method=ort.CalibrationMethod.MinMax,
                calibration_cache_path=cache,
            )  # fmt: skip
        except Exception as error:
            said = (str(error) or repr(error)).splitlines()[0]
            raise BundleError(
                subject=subject, found=f"onnxruntime's quantizer fails: {said[:200]}",
                expected="a model it can quantize", todo='build with precision = "float32", or simplify the model',
            ) from error  # fmt: skip
        # The quantizer writes its ranges in the order of a set, another one in each process.
        measured = json.dumps(json.loads(cache.read_text()), sort_keys=True)
        made = clean_graph(result.read_bytes(), subject=f"{subject}, quantized", one_by_one=is_fixed, batch_axes=axes)
        return Quantized(made, measured)


def read_grid(graph: Graph) -> Grid:
    """What the QuantizeLinear at each input and the DequantizeLinear at each output say; empty where there is none.

    Operators that only move values, as Flatten does, may stand between.
    """
    model = parse_graph(graph)
    values = constants(model)
    moved = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type in MOVING}
    inputs = {port.name for port in graph.inputs}
    outputs = {_origin(port.name, moved): port.name for port in graph.outputs}
    clip: dict[str, tuple[float, float]] = {}
    scales: dict[str, Int8Scale] = {}
    widest = 0
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        scale = values.get(node.input[1])
        if node.op_type == "QuantizeLinear" and (name := _origin(node.input[0], moved)) in inputs:
            zero = values.get(node.input[2]) if len(node.input) > 2 else np.uint8(0)  # noqa: PLR2004 - the third input
            if scale is not None and zero is not None and scale.size == 1:
                held = np.iinfo(zero.dtype)
                # Half a step beyond the last value is ordinary rounding; what lies further out is lost.
                low, high = held.min - int(zero) - 0.5, held.max - int(zero) + 0.5
                clip[name] = (low * float(scale), high * float(scale))
        elif node.output[0] in outputs and scale is not None and scale.size == 1:
            scales[outputs[node.output[0]]] = _scale(
                float(scale),
                values.get(node.input[2]) if len(node.input) > 2 else None,  # noqa: PLR2004 - the third input
            )
        elif (weight := values.get(node.input[0])) is not None and weight.dtype == np.int8:
            widest = max(widest, int(np.abs(weight.astype(np.int16)).max(initial=0)))
    return Grid(clip, scales, widest <= _SEVEN_BITS)


def _scale(step: float, zero: NDArray[Any] | None) -> Int8Scale:
    zero = np.zeros((), np.uint8) if zero is None else zero
    held = np.iinfo(zero.dtype)
    return Int8Scale(step=step, min=(held.min - int(zero)) * step, max=(held.max - int(zero)) * step)


# Operators that give the numbers they take, in another shape or order.
MOVING = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def _origin(name: str, moved: Mapping[str, str]) -> str:
    while name in moved:
        name = moved[name]
    return name


def _is_fixed(graph: Graph, axes: Mapping[str, int]) -> bool:
    """Whether the batch is fixed at 1."""
    return any(port.shape[axes.get(port.name, 0)] == 1 for port in graph.inputs)


class _Rows:
    """Calibration rows in batches, in the shape the quantizer asks for: ``get_next`` until None."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], axes: Mapping[str, int], rows: int) -> None:
        cases = len(next(iter(tensors.values())))
        self._batches = iter(
            {
                name: np.ascontiguousarray(np.moveaxis(values[start : start + rows], 0, axes.get(name, 0)))
                for name, values in tensors.items()
            }
            for start in range(0, cases, rows)
        )

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._batches, None)
