"""Finds the first node of a model whose output leaves its tolerance, another model or provider beside it; it mends none."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from edge_runtime.errors import BundleError, DeviceError
from edge_runtime.flow.batching import split
from edge_runtime.flow.model import Infer
from edge_runtime.spec.variant import Tolerance

Tensors = Mapping[str, NDArray[Any]]
Open = Callable[[bytes], Infer]
# Every activation of so many cases lies in memory at once, twice.
_ROWS_A_RUN = 16
_ROUNDING = frozenset({"QuantizeLinear", "DequantizeLinear"})
_ULPS = 64  # one kernel on equal numbers gives equal ones; what an optimizer turns round may cost the last bits
_SHARE = 0.01  # of a tensor's spread: what another provider may be off inside an int8 model, where no step says it


class Side(NamedTuple):
    """A model's bytes, and what opens bytes where they are run."""

    model: bytes
    open: Open


class Fed(NamedTuple):
    """Input tensors by name, batch first; the batch sizes a model takes; where a tensor has its batch, if not first."""

    tensors: Tensors
    batch_sizes: tuple[int, ...]
    axes: Mapping[str, int]


class FoundNode(NamedTuple):
    """The first node that is off: its name and operator, what of it is another, how far it is off and may be.

    ``agree`` counts the nodes before it whose outputs hold. ``is_fused`` says that it was found in the model as
    onnxruntime fuses it, because the fault is not there in the single nodes.
    """

    name: str
    operator: str
    differs: tuple[str, ...]
    measured: str
    limit: str
    agree: int
    is_fused: bool = False


class Room(NamedTuple):
    """How far a node may be off: within the last bits where both sides run the same kernels, else by a provider's tolerance."""

    tolerance: Tolerance | None

    def allowed(self, expected: NDArray[Any], step: float | None) -> tuple[NDArray[np.float64], str]:
        """By number of ``expected``, and in words; ``step`` is what one int8 step of the tensor is, if it has such."""
        given = self.tolerance
        if given is None:
            if expected.dtype.kind != "f":
                return np.zeros(expected.shape), "none"
            room = _ULPS * float(np.finfo(expected.dtype).eps) * _largest(expected)
            return np.full(expected.shape, room), f"{room:.3g}"
        if given.kind == "float" and expected.dtype.kind == "f":
            values = np.abs(expected.astype(np.float64))
            rtol, atol = given.rtol or 0.0, given.atol or 0.0
            return atol + rtol * (values + _largest(expected)), f"{atol:g} + {rtol:g} * (|expected| + the largest)"
        steps = given.steps or 1  # between an int8 model's nodes a provider may round a tie the other way
        if expected.dtype.kind != "f":
            return np.full(expected.shape, float(steps)), f"{steps} steps"
        room = (steps + 0.5) * step if step else _SHARE * (float(np.ptp(expected)) if expected.size else 0.0)
        return np.full(expected.shape, room), f"{room:.3g}"


def first_node(
    suspect: Side, reference: Side, fed: Fed, room: Room, refuses: Callable[[Tensors], bool]
) -> FoundNode | None:
    """The first node, in the reference's order, whose output leaves ``room``; None where none does.

    All nodes are opened at once; where that makes the model right (``refuses`` takes its outputs), the fault lies in what
    onnxruntime fuses, and they are opened one by one, everything else fused as in service.

    Raises:
        BundleError, DeviceError: one of the two cannot be opened or run at all.

    """
    theirs, ours = _Graph(suspect.model), _Graph(reference.model)
    both = [name for name in ours.live if name in theirs.maker]
    found = None
    try:
        seen, wanted = (_Run(side, both, fed) for side in (suspect, reference))
    except BundleError:
        # A node gives what is no tensor: then none can be looked at but those that are looked at alone.
        pass
    else:
        # The same kernels give equal numbers, of which nothing adds up.
        found = _first(both, seen, wanted, theirs, ours, room, suspect if room.tolerance else None)
        if refuses(seen.joined(ours.outputs)):
            return found
    return _one_by_one(both, (suspect, reference), (theirs, ours), fed, room) or found


def first_in_batches(side: Side, fed: Fed, room: Room) -> FoundNode | None:
    """The first node whose rows in the largest batch are not those of the cases one by one; None where all are."""
    graph = _Graph(side.model)
    alone = _Run(side, graph.live, fed._replace(batch_sizes=(1,)))
    together = _Run(side, graph.live, fed)
    sizes = [len(next(iter(part.values()))) for part in together.fed]
    for at, name in enumerate(graph.live):
        rows = [part[name] for part in alone.parts]
        for size, part in zip(sizes, together.parts, strict=True):
            singles, rows = rows[:size], rows[size:]
            found = part[name]
            if size == 1 or found.shape[:1] != (size,) or singles[0].shape[:1] != (1,):
                continue
            off = _off(found, np.concatenate(singles), room, graph.step(name))
            if off is not None:
                apart = ("its rows depend on the batch they stand in",)
                return _found(name, (graph, graph), off, at)._replace(differs=apart)
    return None


class _Run:
    """What one side's opened model gives, batch by batch."""

    def __init__(self, side: Side, names: Sequence[str], fed: Fed) -> None:
        infer = side.open(_opened(side.model, names))
        self.fed = list(_batches(fed))
        self.parts = [infer(feeds) for feeds in self.fed]
        self._axes = fed.axes

    def all_of(self, name: str, like: "_Run") -> NDArray[Any]:
        """A tensor's numbers in all batches, in a row; but the first batch that has another shape or type than ``like``'s."""
        for part, other in zip(self.parts, like.parts, strict=True):
            if (part[name].shape, part[name].dtype) != (other[name].shape, other[name].dtype):
                return part[name]
        return np.concatenate([part[name].ravel() for part in self.parts])

    def joined(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The model's own outputs, batch first."""
        return {
            name: np.concatenate([np.moveaxis(part[name], self._axes.get(name, 0), 0) for part in self.parts])
            for name in names
        }


class _Graph:
    """A model's nodes by what they make; ``live`` are the tensors that depend on an input, in the nodes' order."""

    def __init__(self, data: bytes) -> None:
        model: ModelProto = onnx.load_model_from_string(data)
        self.maker: dict[str, NodeProto] = {name: node for node in model.graph.node for name in node.output if name}
        held = {tensor.name: tensor for tensor in model.graph.initializer}
        self._held = held
        self.outputs = [value.name for value in model.graph.output]
        self._takers: dict[str, NodeProto] = {name: node for node in model.graph.node for name in node.input}
        self._model = model
        self.fed = {value.name for value in model.graph.input} - set(held)
        live = set(self.fed)
        self.live: list[str] = []
        for node in model.graph.node:
            if live.intersection(node.input):
                made = [name for name in node.output if name]
                live.update(made)
                self.live += made

    def constants(self, node: NodeProto) -> dict[str, NDArray[Any]]:
        """The node's constant inputs by name; what was quantized stands with its scale and zero point."""
        found = {}
        for name in node.input:
            maker = self.maker.get(name)
            if name in self._held:
                found[name] = numpy_helper.to_array(self._held[name])
            elif maker is not None and name not in self.live:
                found |= self.constants(maker)
                found |= {f"{name}.{one.name}": _plain(one) for one in maker.attribute}
        return found

    def alone(self, node: NodeProto, given: Tensors) -> bytes:
        """A model of this node and the constants it takes, fed with numbers of these shapes."""
        taken = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
            for name, values in given.items()
        ]
        nodes, held = self._closure(node)
        graph = helper.make_graph(
            nodes, "alone", taken, [ValueInfoProto(name=name) for name in node.output if name], held
        )
        made = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        return bytes(made.SerializeToString())

    def _closure(self, node: NodeProto) -> tuple[list[NodeProto], list[TensorProto]]:
        nodes: list[NodeProto] = []
        held: list[TensorProto] = []
        for name in dict.fromkeys(node.input):
            if name in self._held:
                held.append(self._held[name])
            elif name in self.maker and name not in self.live:
                before, constants = self._closure(self.maker[name])
                nodes += before
                held += constants
        return [*nodes, node], held

    def step(self, name: str) -> float | None:
        """How wide an int8 step of a tensor is: of what it was made from, or of what it is about to be."""
        for node in (self.maker.get(name), self._takers.get(name)):
            if node is not None and node.op_type in _ROUNDING and node.input[1] in self._held:
                scale = numpy_helper.to_array(self._held[node.input[1]])
                if scale.size:
                    return float(scale.max())
        return None


def _opened(model: bytes, names: Sequence[str]) -> bytes:
    """The model with these tensors as outputs; onnxruntime finds out their types."""
    opened = onnx.load_model_from_string(model)
    known = {one.name for one in opened.graph.output}
    opened.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in known)
    return bytes(opened.SerializeToString())


def _batches(fed: Fed) -> Iterator[dict[str, NDArray[Any]]]:
    count, first = len(next(iter(fed.tensors.values()))), 0
    for size in split(count, tuple(size for size in fed.batch_sizes if size <= _ROWS_A_RUN)):
        yield {
            name: np.ascontiguousarray(np.moveaxis(values[first : first + size], 0, fed.axes.get(name, 0)))
            for name, values in fed.tensors.items()
        }
        first += size


class _Off(NamedTuple):
    measured: str
    limit: str


def _first(
    names: Sequence[str],
    seen: _Run,
    wanted: _Run,
    theirs: _Graph,
    ours: _Graph,
    room: Room,
    suspect: Side | None = None,
) -> FoundNode | None:
    """The first node that is off; with another provider one that is so by itself, if there is any.

    What a provider rounds otherwise adds up from node to node within everybody's tolerance: a node that is off only
    because what it was given was off by as much is passed over as long as another one is off on the right numbers too.
    """
    found = None
    for at, name in enumerate(names):
        off = _off(seen.all_of(name, wanted), wanted.all_of(name, wanted), room, ours.step(name))
        if off is None:
            continue
        one = _found(name, (theirs, ours), off, at)
        if suspect is None or _is_off_alone(name, suspect, theirs, wanted, room, ours.step(name)):
            return one
        found = found or one._replace(differs=("not by itself: what was rounded before it adds up",))
    return found


def _is_off_alone(name: str, suspect: Side, graph: _Graph, wanted: _Run, room: Room, step: float | None) -> bool:
    """Whether the suspect's node leaves the tolerance where it is given the reference's own numbers."""
    node = graph.maker[name]
    given = [one for one in dict.fromkeys(node.input) if one in graph.live or one in graph.fed]
    for feeds, part in zip(wanted.fed, wanted.parts, strict=True):
        numbers = {one: feeds[one] if one in feeds else part[one] for one in given if one in feeds or one in part}
        try:
            made = suspect.open(graph.alone(node, numbers))(numbers)[name]
        except (BundleError, DeviceError, ValueError):  # it does not run alone: what it gave among the others stands
            return True
        if _off(made, part[name], room, step) is not None:
            return True
    return False


def _one_by_one(
    names: Sequence[str], sides: tuple[Side, Side], graphs: tuple[_Graph, _Graph], fed: Fed, room: Room
) -> FoundNode | None:
    for at, name in enumerate(names):
        try:
            seen, wanted = (_Run(side, [name], fed) for side in sides)
        except BundleError:
            continue
        found = _first([name], seen, wanted, *graphs, room)
        if found is not None:
            made = _before_rounding(name, graphs[1])
            node = graphs[1].maker[made]
            return found._replace(name=_name(node), operator=node.op_type, agree=at, is_fused=True)
    return None


def _before_rounding(name: str, graph: _Graph) -> str:
    """What a fused operator begins with: the node before the QuantizeLinear that was fused into it."""
    node = graph.maker[name]
    while node.op_type in _ROUNDING and node.input[0] in graph.live:
        name = node.input[0]
        node = graph.maker[name]
    return name


def _found(name: str, graphs: tuple[_Graph, _Graph], off: _Off, agree: int) -> FoundNode:
    theirs, ours = graphs
    node = ours.maker[name]
    gone = _gone(node, theirs, ours)
    if gone is not None:
        return FoundNode(_name(gone), gone.op_type, ("it is not there",), off.measured, off.limit, agree)
    return FoundNode(_name(node), node.op_type, tuple(_differs(name, theirs, ours)), off.measured, off.limit, agree)


def _gone(node: NodeProto, theirs: _Graph, ours: _Graph) -> NodeProto | None:
    """The earliest of the nodes right before this one that the suspect does not have."""
    found = None
    for name in node.input:
        before = ours.maker.get(name)
        if before is not None and name in ours.live and name not in theirs.maker:
            found = found or _gone(before, theirs, ours) or before
    return found


def _differs(name: str, theirs: _Graph, ours: _Graph) -> Iterator[str]:
    """What of a node is not as in the reference: operator, constants, attributes, where its inputs come from."""
    one, other = theirs.maker[name], ours.maker[name]
    if one.op_type != other.op_type:
        yield f"operator {one.op_type}, not {other.op_type}"
        return
    # A constant may have got another name with its value; then its place says which it is.
    had, has = ours.constants(other), theirs.constants(one)
    for (was, expected), found in zip(had.items(), has.values(), strict=False):
        if not _equal(found, expected):
            yield f"constant {was}"
    attributes = [{each.name: each.SerializeToString() for each in node.attribute} for node in (one, other)]
    for key in sorted({*attributes[0], *attributes[1]}):
        if attributes[0].get(key) != attributes[1].get(key):
            yield f"attribute {key}"
    taken = [(was, now) for was, now in zip(other.input, one.input, strict=False) if was in ours.live and was != now]
    yield from (f"input {now}, not {was}" for was, now in taken)


def _off(found: NDArray[Any], expected: NDArray[Any], room: Room, step: float | None) -> _Off | None:
    """How far the worst number is beyond, None where all hold."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return _Off(f"{found.dtype} {found.shape}", f"{expected.dtype} {expected.shape}")
    if found.dtype.kind not in "fiub":
        same = bool((found == expected).all())
        return None if same else _Off("other texts", "equal")
    allowed, limit = room.allowed(expected, step)
    both = np.isnan(found) & np.isnan(expected) if found.dtype.kind == "f" else np.zeros(found.shape, np.bool_)
    with np.errstate(invalid="ignore"):
        same_end = found == expected  # of two infinities the difference is none
        off = np.where(both | same_end, 0.0, np.abs(found.astype(np.float64) - expected.astype(np.float64)))
        beyond = ~(off <= allowed)
    if not beyond.any():
        return None
    unit = "" if found.dtype.kind == "f" else " steps"
    return _Off(
        f"{np.nanmax(np.where(np.isnan(off), np.inf, off)):.3g}{unit} off at most, beyond in {beyond.sum()} of {off.size} numbers",
        limit,
    )


def _largest(values: NDArray[Any]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.abs(finite.astype(np.float64)).max(initial=0.0))


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _plain(attribute: Any) -> NDArray[Any]:
    return np.frombuffer(attribute.SerializeToString(), np.uint8)


def _name(node: NodeProto) -> str:
    return node.name or f"{node.op_type} of {node.output[0]}"
