"""The closed list of ways to make a model smaller, and the making itself, the same bytes each time; it judges none."""

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from edge_runtime.author.graph import Graph, clean_graph
from edge_runtime.author.quantize import evenly_spaced
from edge_runtime.engine.session import version
from edge_runtime.errors import BundleError

_ROWS_A_RUN = 64
Tensors = Mapping[str, NDArray[Any]]


class Recipe(NamedTuple):
    """One way to make a model. ``sensitive_in_float``: the nodes that cost most accuracy are left in float32."""

    name: str
    precision: Literal["int8", "float16", "float32", "as_is"]
    weights: Literal["int8", "uint8"] = "int8"
    activations: Literal["int8", "uint8"] = "uint8"
    per_channel: bool = True
    reduce_range: bool = False
    symmetric: bool = False
    sensitive_in_float: bool = False


class Calibrator(NamedTuple):
    """How ranges are taken from what was seen: all of it, a percentile of it, or what loses the least information."""

    name: str
    method: Literal["MinMax", "Percentile", "Entropy"]
    percentile: float = 100.0


RECIPES = (
    Recipe("u8s8_channel_7bit", "int8", reduce_range=True),
    Recipe("u8u8_channel", "int8", weights="uint8"),
    Recipe("u8s8_tensor_7bit", "int8", per_channel=False, reduce_range=True),
    Recipe("u8u8_tensor", "int8", weights="uint8", per_channel=False),
    Recipe("u8s8_channel", "int8"),
    Recipe("u8s8_tensor", "int8", per_channel=False),
    # TensorRT takes int8 with zero points of 0 alone (NVIDIA/TensorRT#2774), so a GPU wants this one.
    Recipe("s8s8_symmetric", "int8", activations="int8", symmetric=True),
    Recipe("u8s8_channel_7bit_mixed", "int8", reduce_range=True, sensitive_in_float=True),
    Recipe("float16", "float16"),
    Recipe("float32", "float32"),
    Recipe("as_is", "as_is"),
)
CALIBRATORS = (
    Calibrator("minmax", "MinMax"),
    Calibrator("percentile_99.99", "Percentile", 99.99),
    Calibrator("percentile_99.9", "Percentile", 99.9),
    Calibrator("entropy", "Entropy"),
)
_MANIFEST = {"minmax": "MinMax"}
# ONNX Runtime's quantizer gives the entropy method 128 bins for 128 steps, which leaves it nothing to choose.
BINS = 2048


class Prepared(NamedTuple):
    """A float model as the quantizer wants it: shapes inferred, constants folded, every node named."""

    data: bytes
    source: Graph
    subject: str
    axes: Mapping[str, int]

    @property
    def is_fixed(self) -> bool:
        """Whether a batch is fixed at 1."""
        return any(port.shape[:1] == (1,) for port in self.source.inputs)


def prepare(graph: Graph, *, subject: str, axes: Mapping[str, int] | None = None) -> Prepared:
    """Ready a float model for any number of recipes; ``axes`` says where a state has its batch dimension.

    Raises:
        BundleError: ONNX Runtime's preparation fails.

    """
    _quantization()
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415 - as in `_quantization`

    with _folder() as folder, _quantizer(subject):
        (folder / "source.onnx").write_bytes(graph.data)
        quant_pre_process(folder / "source.onnx", folder / "prepared.onnx", skip_symbolic_shape=True)
        model = onnx.load(folder / "prepared.onnx")
    for at, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{at}"
    return Prepared(model.SerializeToString(deterministic=True), graph, subject, axes or {})


def measure_ranges(prepared: Prepared, tensors: Tensors, calibrator: Calibrator) -> str:
    """The range of every tensor on these inputs, ``(cases, ...)`` by name, as the text that `quantized` takes.

    Raises:
        BundleError: ONNX Runtime's calibration fails.

    """
    ort = _quantization()
    from onnxruntime.quantization.calibrate import create_calibrator  # noqa: PLC0415 - as in `_quantization`

    # Percentiles are taken at both ends, not made symmetric, since activations are not.
    options: dict[str, Any] = {"symmetric": False}
    options |= {"num_bins": BINS} if calibrator.method != "MinMax" else {}
    options |= {"percentile": calibrator.percentile} if calibrator.method == "Percentile" else {}
    rows = 1 if prepared.is_fixed else _ROWS_A_RUN
    if calibrator.method != "MinMax":
        tensors = _whole_batches(tensors, rows)
    with _folder() as folder, _quantizer(prepared.subject):
        (folder / "prepared.onnx").write_bytes(prepared.data)
        collector = create_calibrator(
            folder / "prepared.onnx", augmented_model_path=str(folder / "augmented.onnx"), extra_options=options,
            calibrate_method=getattr(ort.CalibrationMethod, calibrator.method),
        )  # fmt: skip
        collector.collect_data(_Rows(tensors, prepared.axes, rows))
        found = collector.compute_data()
        return _told({name: data.range_value for name, data in found.items()})


def quantized(prepared: Prepared, ranges: str, recipe: Recipe, *, in_float: Sequence[str] = ()) -> Graph:
    """The int8 model of a recipe; ``in_float`` names nodes that stay as they are.

    Raises:
        BundleError: ONNX Runtime's quantizer fails.

    """
    ort = _quantization()
    types = {"int8": ort.QuantType.QInt8, "uint8": ort.QuantType.QUInt8}
    with _folder() as folder, _quantizer(prepared.subject):
        (folder / "prepared.onnx").write_bytes(prepared.data)
        (folder / "ranges.json").write_text(ranges)
        ort.quantize_static(
            folder / "prepared.onnx", folder / "result.onnx", None, quant_format=ort.QuantFormat.QDQ,
            activation_type=types[recipe.activations], weight_type=types[recipe.weights],
            per_channel=recipe.per_channel, reduce_range=recipe.reduce_range, nodes_to_exclude=list(in_float),
            calibrate_method=ort.CalibrationMethod.MinMax, calibration_cache_path=folder / "ranges.json",
            extra_options={"ActivationSymmetric": True} if recipe.symmetric else {},
        )  # fmt: skip
        data = (folder / "result.onnx").read_bytes()
    return clean_graph(
        data, subject=f"{prepared.subject}, {recipe.name}", one_by_one=prepared.is_fixed, batch_axes=prepared.axes
    )


def heavy_nodes(prepared: Prepared) -> tuple[str, ...]:
    """The nodes that multiply by weights, by name, in the model's order."""
    model = onnx.load_model_from_string(prepared.data)
    return tuple(node.name for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul"))


def alone(prepared: Prepared, ranges: str, recipe: Recipe, node: str) -> Graph:
    """The model with this one heavy node quantized and every other node in float, to see what it costs."""
    model = onnx.load_model_from_string(prepared.data)
    return quantized(prepared, ranges, recipe, in_float=[one.name for one in model.graph.node if one.name != node])


def described(recipe: Recipe, calibrator: str) -> dict[str, str | bool]:
    """A recipe in the manifest's words."""
    return {
        "format": "QDQ", "activations": recipe.activations, "weights": recipe.weights,
        "per_channel": recipe.per_channel, "reduce_range": recipe.reduce_range,
        "calibration": _MANIFEST.get(calibrator, calibrator),
    }  # fmt: skip


def is_quantized(graph: Graph) -> bool:
    """Whether a model is quantized already, by training or by somebody else's tool."""
    return "QuantizeLinear" in graph.operators or any(one.startswith("QLinear") for one in graph.operators)


def _whole_batches(tensors: Tensors, rows: int) -> Tensors:
    """As many evenly spaced cases as fill every batch: ONNX Runtime's histograms take batches of one size alone."""
    cases = len(next(iter(tensors.values())))
    kept = evenly_spaced(cases, cases - cases % rows if cases > rows else cases)
    return {name: values[kept] for name, values in tensors.items()}


def _told(ranges: Mapping[str, tuple[Any, Any]]) -> str:
    """ONNX Runtime's own cache of calibration, sorted: it writes it in the order of a set."""

    def number(value: Any) -> dict[str, Any]:
        return {"CLS": "numpy.array", "data": [float(np.float32(np.asarray(value).reshape(())))], "dtype": "float32"}

    data = {
        name: {"CLS": "TensorData", "lowest": number(np.ravel(low)[0]), "highest": number(np.ravel(high)[0])}
        for name, (low, high) in ranges.items()
    }
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    whole = {"CLS": "TensorsData", "calibration_method": method, "data": data, "smooth_quant": False}
    return json.dumps(whole, sort_keys=True)


def _quantization() -> Any:
    version()  # imports onnxruntime with its telemetry off; the quantizer's own import would switch it on
    from onnxruntime import quantization  # noqa: PLC0415 - 0.3 s and 70 MB, for builds that quantize alone

    return quantization


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="edge-runtime-build-") as name:
        yield Path(name)


@contextlib.contextmanager
def _quantizer(subject: str) -> Iterator[None]:
    """Keep what the quantizer prints off standard output, and say in one line what it raises."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except Exception as error:
        said = (str(error) or repr(error)).splitlines()[0]
        raise BundleError(
            subject=subject, found=f"onnxruntime's quantizer fails: {said[:200]}", expected="a model it can quantize",
            todo='build with precision = "float32", or simplify the model',
        ) from error  # fmt: skip


class _Rows:
    """Calibration rows in batches, in the shape the quantizer asks for: ``get_next`` until None."""

    def __init__(self, tensors: Tensors, axes: Mapping[str, int], rows: int) -> None:
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
