"""One door to ONNX files: reads a model, refuses what cannot be vouched for, and gives clean bytes; it runs nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, NamedTuple

from edge_runtime.errors import BundleError, DeviceError

try:
    import onnx
    from google.protobuf.message import DecodeError, Message
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

    from edge_runtime.author.lint_structure import training
    from edge_runtime.author.rewrite import tensors_for_maps
except ImportError as error:
    raise DeviceError(
        subject="onnx", found="not installed", expected="the package that builds need and devices do not",
        todo="install edge-runtime[author]",
    ) from error  # fmt: skip

# A model that fits a device beside its work; larger ones need protobuf's external data, which is refused anyway.
MAX_MODEL_BYTES = 512 * 1024 * 1024

# From which IR version on an initializer may be no input.
_IR_OF_CONSTANTS = 4

_STANDARD_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
_DYNAMIC_QUANTIZATION = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})


class Port(NamedTuple):
    """An input or output of the graph; a dynamic dimension is its name, or "" where it has none."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A model that passed: its clean bytes and what they say of themselves.

    ``maps`` are the outputs that were sequences of maps and are tensors now, with the classes of their columns.
    """

    data: bytes
    ir_version: int
    opsets: dict[str, int]
    operators: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    maps: Mapping[str, tuple[str, ...]] = dataclass_field(default_factory=dict)


def clean_graph(
    data: bytes, *, subject: str, one_by_one: bool = False, batch_axes: Mapping[str, int] | None = None
) -> Graph:
    """Read a model's bytes and give them back clean: equal bytes for equal models.

    Doc strings, metadata (exporters put stack traces with source paths there) and unused operator sets are removed;
    an initializer that several nodes share becomes one for each, because ONNX Runtime's weight conversion for CPUs
    without VNNI fails to load a shared one (``session.x64quantprecision``). A sequence of maps becomes the tensor it was
    made of. ``batch_axes`` says by tensor where a state has its batch dimension. A batch fixed at 1 passes where the model
    is to serve ``one_by_one``, with batch_sizes [1].

    Raises:
        BundleError: no ONNX; too large; external data; custom domains or functions; EPContext; dynamic quantization;
            control flow; training mode; a fixed batch; or what ``onnx.checker`` refuses.

    """
    model = _parsed(data, subject)
    _require_servable(model, subject)
    _strip(model)
    maps = tensors_for_maps(model)
    _keep_used_opsets(model)
    _inputs_without_initializers(model)
    _unshare(model)
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise _refused(subject, f"a model that onnx.checker refuses ({error})", "a valid model", _EXPORT) from error
    graph = Graph(
        data=model.SerializeToString(deterministic=True),
        ir_version=model.ir_version,
        opsets={entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        operators=tuple(sorted({_operator(node) for node in model.graph.node})),
        inputs=tuple(_port(value) for value in model.graph.input),
        outputs=tuple(_port(value) for value in model.graph.output),
        maps=maps,
    )
    _require_batch(graph, subject, batch_axes or {}, one_by_one=one_by_one)
    return graph


def parse_graph(graph: Graph) -> ModelProto:
    """The protobuf of a clean graph, for who has to look inside."""
    return onnx.load_model_from_string(graph.data)


_EXPORT = "export the model again"


def _parsed(data: bytes, subject: str) -> ModelProto:
    if len(data) > MAX_MODEL_BYTES:
        raise _refused(subject, f"{len(data)} bytes", f"at most {MAX_MODEL_BYTES}", "make the model smaller")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise _refused(subject, f"no ONNX model ({error})", "the bytes of an ONNX model", _EXPORT) from error
    if not model.graph.node:
        raise _refused(subject, "no nodes", "the bytes of an ONNX model", _EXPORT)
    return model


def _require_servable(model: ModelProto, subject: str) -> None:
    for message in _messages(model):
        if isinstance(message, TensorProto) and (
            message.data_location == TensorProto.EXTERNAL or message.external_data
        ):
            raise _refused(
                subject, f"tensor {message.name!r} in external data", "all weights inside the file",
                "save it as one file (onnx.save_model with save_as_external_data=False)",
            )  # fmt: skip
        if isinstance(message, NodeProto):
            _require_servable_node(message, subject)
    for finding in training(model):
        raise _refused(
            subject, f"{finding.subject} in training mode, {finding.found}", "a model in evaluation mode",
            "call model.eval() first",
        )  # fmt: skip
    if model.functions:
        names = ", ".join(f"{one.domain}.{one.name}" for one in model.functions[:3])
        raise _refused(
            subject, f"model-local functions ({names})", "standard operators alone",
            "inline them (onnx.inliner.inline_local_functions)",
        )  # fmt: skip


def _require_servable_node(node: NodeProto, subject: str) -> None:
    named = f"operator {_operator(node)}"
    if node.op_type == "EPContext":
        raise _refused(
            subject, named, "a model that no provider has compiled", "build from the exported model, not from a cache"
        )
    if node.op_type in _DYNAMIC_QUANTIZATION:
        raise _refused(
            subject, f"{named}, which fits a scale to each input", "static quantization",
            'give the float model and precision = "int8"',
        )  # fmt: skip
    if node.domain not in _STANDARD_DOMAINS:
        raise _refused(
            subject, f"{named} of the custom domain {node.domain!r}", "operators of ai.onnx and ai.onnx.ml",
            "export with standard operators",
        )  # fmt: skip
    if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute):
        raise _refused(subject, f"{named}, control flow", "a graph without branches and loops", "export it unrolled")


def _strip(message: Message) -> None:
    for name in ("doc_string", "metadata_props"):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for inner in _inner(message):
        _strip(inner)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for inner in _inner(message):
        yield from _messages(inner)


def _inner(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if isinstance(value, Message):
            yield value
        else:
            yield from value


def _keep_used_opsets(model: ModelProto) -> None:
    # The standard set is kept where it stands: a model of trees alone uses none of it, and is still held to one.
    used = {_canonical(node.domain) for node in model.graph.node} | {""}
    kept = sorted(
        ((_canonical(entry.domain), entry.version) for entry in model.opset_import if _canonical(entry.domain) in used),
    )
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in kept)


def _inputs_without_initializers(model: ModelProto) -> None:
    """Before IR 4 each initializer had to be an input too; as an input it could be overridden from outside."""
    constants = {tensor.name for tensor in model.graph.initializer}
    if constants:
        model.ir_version = max(model.ir_version, _IR_OF_CONSTANTS)
    kept = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _unshare(model: ModelProto) -> None:
    graph = model.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | set(initializers)
    users: Counter[str] = Counter()
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            if name not in initializers:
                continue
            users[name] += 1
            if users[name] > 1:
                own = _free_name(name, users[name], taken)
                copy = graph.initializer.add()
                copy.CopyFrom(initializers[name])
                copy.name = own
                node.input[:] = [own if each == name else each for each in node.input]


def _free_name(name: str, number: int, taken: set[str]) -> str:
    own = f"{name}__{number}"
    while own in taken:
        own += "_"
    taken.add(own)
    return own


def _require_batch(graph: Graph, subject: str, axes: Mapping[str, int], *, one_by_one: bool) -> None:
    names = [port.name for port in (*graph.inputs, *graph.outputs)]
    absent = next((name for name in axes if name not in names), None)
    if absent is not None:
        raise _refused(subject, f"no tensor {absent!r}", f"one of {', '.join(names)}", "correct the [[state]]")
    for port in (*graph.inputs, *graph.outputs):
        at = axes.get(port.name, 0)
        first = port.shape[at] if at < len(port.shape) else None
        if isinstance(first, str) or (one_by_one and first == 1):
            continue
        found = f"a fixed batch of {first}" if port.shape else "no batch axis"
        raise _refused(
            subject, f"{port.name!r} with {found}", "a dynamic first dimension",
            "export it with a dynamic batch axis, or state batch_sizes = [1] for a batch fixed at 1",
        )  # fmt: skip


def _port(value: ValueInfoProto) -> Port:
    tensor = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else "undefined"
    dtype = "string" if tensor.elem_type == TensorProto.STRING else dtype
    shape: tuple[int | str, ...] = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim
    )
    return Port(value.name, dtype, shape)


def _operator(node: NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if _canonical(node.domain) else str(node.op_type)


def _canonical(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _refused(subject: str, found: str, expected: str, todo: str) -> BundleError:
    return BundleError(subject=subject, found=found[:200], expected=expected, todo=todo)


def constants(model: ModelProto) -> dict[str, Any]:
    """The initializers of a model as arrays, by name."""
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
