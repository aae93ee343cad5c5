"""What rounding to int8 has cost by each node of a quantized model, against its float twin; it judges no node."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

from edge_runtime.author.exact import open_exact
from edge_runtime.author.graph import Graph, parse_graph
from edge_runtime.author.passes import batch_axes, through
from edge_runtime.author.quantize import MOVING, evenly_spaced
from edge_runtime.author.recipes import is_quantized
from edge_runtime.author.record import NodeError
from edge_runtime.author.twin import float_twin
from edge_runtime.errors import BundleError
from edge_runtime.flow.model import Model

_CASES = 128
# Every activation of so many cases lies in memory at once, twice.
_ROWS_A_RUN = 16


class _Place(NamedTuple):
    """Where a node's rounded output can be seen: the tensor after its DequantizeLinear."""

    tensor: str
    node: str
    operator: str


def node_errors(model: Model, graph: Graph, raw: NDArray[np.float64]) -> tuple[NodeError, ...] | None:
    """By node of ``graph``, in its order, what its output is off; ``model`` runs the graph, ``raw`` are cases for it.

    Every node takes what the int8 model's nodes before it gave, as in service, so an error is that of all up to here. A
    node whose output never changes has no spread to hold it against, and is left out. None where a quantized model has
    no pairs of QuantizeLinear and DequantizeLinear to look between, or onnxruntime does not show what is inside: a figure
    of the report keeps no model from its bundle. Of a float model there is nothing to tell.

    Raises:
        BundleError: the steps give no finite tensor.

    """
    if not is_quantized(graph):
        return ()
    twin = float_twin(graph)
    places = _places(parse_graph(graph))
    if twin is graph or not places:
        return None
    passes = any(channel.when_missing == "pass" for channel in model.manifest.channels)
    try:
        ours, exact = (open_exact(_opened(one, places), takes_nan=passes) for one in (graph, twin))
    except BundleError:
        return None
    axes = batch_axes(model.manifest)
    tensors = through(model, raw[evenly_spaced(len(raw), _CASES)]).tensors
    cases = len(next(iter(tensors.values())))
    rows = 1 if model.manifest.batch_sizes == (1,) else _ROWS_A_RUN
    sums = {place.tensor: _Sums() for place in places}
    for first in range(0, cases, rows):
        feeds = {name: _laid(values[first : first + rows], axes.get(name, 0)) for name, values in tensors.items()}
        rounded, floats = ours(feeds), exact(feeds)
        for name, one in sums.items():
            one.add(rounded[name].astype(np.float64), floats[name].astype(np.float64))
    shares = [(place, sums[place.tensor].share) for place in places]
    return tuple(
        NodeError(node=place.node, operator=place.operator, error=share) for place, share in shares if share is not None
    )


class _Sums:
    """Running sums over one tensor's numbers, so that no tensor is kept."""

    def __init__(self) -> None:
        self._count = 0
        self._first, self._second, self._off = 0.0, 0.0, 0.0

    def add(self, rounded: NDArray[np.float64], exact: NDArray[np.float64]) -> None:
        self._count += exact.size
        self._first += float(exact.sum())
        self._second += float((exact**2).sum())
        self._off += float(((rounded - exact) ** 2).sum())

    @property
    def share(self) -> float | None:
        """The root mean square difference as a share of the standard deviation; None without a finite one."""
        mean = self._first / self._count
        spread = self._second / self._count - mean * mean
        # Less than float64 can tell from no spread at all.
        if not np.isfinite(self._off) or spread <= 1e-12 * mean * mean:
            return None
        return float(np.sqrt(self._off / self._count / spread))


def _places(model: ModelProto) -> tuple[_Place, ...]:
    """Each node whose output is rounded, once; what rounds the model's own input is no node's error."""
    made_by = {name: node for node in model.graph.node for name in node.output}
    quantized = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    found: dict[str, _Place] = {}
    for node in model.graph.node:
        tensor = quantized.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        source = made_by.get(tensor) if tensor is not None else None
        while source is not None and source.op_type in MOVING:  # its error is that of what it moves
            source = made_by.get(source.input[0])
        if tensor is not None and source is not None and source.op_type != "DequantizeLinear":
            place = _Place(node.output[0], source.name or f"{source.op_type} of {tensor}", source.op_type)
            found.setdefault(tensor, place)
    return tuple(found.values())


def _opened(graph: Graph, places: tuple[_Place, ...]) -> bytes:
    """The model with its inner tensors as outputs; onnxruntime finds out their types."""
    model = parse_graph(graph)
    known = {one.name for one in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=one.tensor) for one in places if one.tensor not in known)
    return bytes(model.SerializeToString())


def _laid(values: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(values, 0, axis))
