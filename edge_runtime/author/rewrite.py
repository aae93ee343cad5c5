"""Takes a sequence of maps back to the tensor it was made of, as scikit-learn's converters write one; it keeps every number."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from edge_runtime.engine.session import version

# What a converter writes for "the probability of each class": one dictionary a case, which no tensor runtime can batch.
_MAP = "ZipMap"
_ML = "ai.onnx.ml"


def tensors_for_maps(model: ModelProto) -> dict[str, tuple[str, ...]]:
    """Change ``model``: each output that a ZipMap makes becomes, under its name, the tensor ``(batch, classes)`` before it.

    Gives by output the classes in the order of the columns, as texts. Anything that reads a map inside the graph is left.
    """
    graph = model.graph
    outputs = {value.name: value for value in graph.output}
    found: dict[str, tuple[str, ...]] = {}
    for node in [one for one in graph.node if one.op_type == _MAP and one.domain == _ML]:
        name = node.output[0]
        value = outputs.get(name)
        if value is None or any(name in one.input for one in graph.node):
            continue
        found[name] = _classes(node)
        source = node.input[0]
        place = list(graph.node).index(node)
        graph.node.remove(node)
        # A tensor that is an output or an input itself keeps its name; any other takes the map's.
        if source in outputs or all(source not in one.output for one in graph.node):
            graph.node.insert(place, helper.make_node("Identity", [source], [name], name=node.name))
        else:
            _rename(graph.node, source, name)
        _retype(value, len(found[name]))
    return found


def maps_of(model: bytes, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[list[Mapping[Any, float]]]:
    """What the untouched ``model`` answers at its outputs ``names``, case by case: one map each.

    The engine opens no such model, so this is asked of onnxruntime itself, as the quantizer is.
    """
    version()  # imports onnxruntime with its telemetry off
    import onnxruntime  # noqa: PLC0415 - for models with maps alone

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found: list[list[Mapping[Any, float]]] = [[] for _ in names]
    for case in range(len(next(iter(feeds.values())))):
        answered = session.run(list(names), {name: values[case : case + 1] for name, values in feeds.items()})
        for place, one in enumerate(answered):
            found[place] += one
    return found


def same_numbers(maps: Sequence[Mapping[Any, float]], rows: NDArray[Any], classes: Sequence[str]) -> bool:
    """Whether the maps of an untouched model are the rows of the rewritten one, number for number."""
    if len(maps) != len(rows):
        return False
    wanted = [[float({str(key): number for key, number in one.items()}[name]) for name in classes] for one in maps]
    return bool(np.array_equal(np.array(wanted), rows.astype(np.float64), equal_nan=True))


def _classes(node: NodeProto) -> tuple[str, ...]:
    for attribute in node.attribute:
        if attribute.name == "classlabels_strings" and attribute.strings:
            return tuple(text.decode() for text in attribute.strings)
        if attribute.name == "classlabels_int64s" and attribute.ints:
            return tuple(str(number) for number in attribute.ints)
    return ()


def _rename(nodes: Sequence[NodeProto], old: str, new: str) -> None:
    for node in nodes:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]


def _retype(value: ValueInfoProto, classes: int) -> None:
    fresh = helper.make_tensor_value_info(value.name, TensorProto.FLOAT, ["batch", classes])
    value.CopyFrom(fresh)
