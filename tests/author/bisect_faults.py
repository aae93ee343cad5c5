"""Faults to be found: a shipped bundle with one thing wrong, or a provider that miscomputes, and where it was put.

Where it was put comes from what makes the fault, never from a comparison: that is the matter under test.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from edge_runtime.author import mutate_subject
from edge_runtime.author.mutate_kinds import KINDS
from edge_runtime.author.mutate_model import prepared_constants
from edge_runtime.author.mutate_subject import Mutant, Subject
from edge_runtime.spec.manifest import encode as encode_manifest

OTHER_PROVIDER = "OpenVINOExecutionProvider"
"""The one whose place the miscomputing one takes."""
Stage = Literal["preprocessing", "model", "postprocessing"]
Made = Callable[[], dict[str, bytes]]
Change = Callable[[ModelProto], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its class, what it is, where it was put (as `explain` must name it), and the changed files.

    ``words`` must all stand in what is told. A fault of a provider changes no file; ``corrupt`` changes what it runs.
    """

    kind: str
    name: str
    stage: Stage
    place: str
    words: tuple[str, ...]
    files: Made
    corrupt: Change | None = None


def faults(subject: Subject) -> Iterator[Fault]:
    """Every fault of one bundle."""
    yield from _of_the_manifest(subject)
    yield from _swaps(subject)
    yield from _of_preparations(subject)
    yield from _of_mutated_models(subject)
    yield from _of_nodes(subject)
    yield from _of_providers(subject)


# The classes of author/mutate that change the manifest or the model file, and nothing of our own code.
_IN_FILES = (
    "constant-2", "constant-5", "unit", "step", "lookup", "label", "answer-step", "sign", "zero-point", "saturation",
    "training",
)  # fmt: skip


def _mutants(subject: Subject) -> Iterator[Mutant]:
    for kind in KINDS:
        if kind.name in _IN_FILES:
            yield from (Mutant(kind.name, name, way) for name, way in kind.make(subject))


def _of_the_manifest(subject: Subject) -> Iterator[Fault]:
    for mutant in _mutants(subject):
        place = _place_of(subject, mutant)
        if place is not None:
            stage, where, words = place
            yield Fault(mutant.kind, mutant.name, stage, where, words, partial(_manifest_files, mutant))


def _manifest_files(mutant: Mutant) -> dict[str, bytes]:
    return {"manifest.json": encode_manifest(mutant.way().model.manifest)}


Where = tuple[Stage, str, tuple[str, ...]]


def _place_of(subject: Subject, mutant: Mutant) -> Where | None:
    """Where a mutant of the manifest was put, read off its name, which whoever made it gave it."""
    first, _, rest = mutant.name.partition(", ")
    match mutant.kind:
        case "constant-2" | "constant-5":
            return _constant_place(subject, first, rest)
        case "unit":
            name = mutant.name.split(" ")[0]
            taken = name in {one.name for one in subject.manifest.channels}
            stage: Stage = "preprocessing" if taken else "postprocessing"
            return stage, f"the contract (channel {name})" if taken else f"output {name} (unit)", ()
        case "step" | "lookup":
            return _step_place("preprocessing", f"input {first}", rest)
        case "answer-step":
            return _step_place("postprocessing", f"output {first}", rest)
        case "label":
            name, from_column, _ = mutant.name.partition(" from column ")
            return "postprocessing", f"output {name} (column)" if from_column else f"output {first} (labels)", ()
    return None


def _constant_place(subject: Subject, first: str, rest: str) -> Where | None:
    """Of `window, standardize 1, mean 3 +5%`, and of an output's step or flag; None for what lies in another file."""
    if rest.startswith("fill "):
        return "preprocessing", "the contract", (f"channel {first}",)
    found = re.fullmatch(r"(\S+) (\d+), \w+(?: ([\d.]+))? [+-]\d+%", rest)
    if found is None:
        return None
    step, number, place = found.groups()
    for model_input in subject.manifest.inputs:
        if model_input.tensor == first:
            names = [channel.name for channel in model_input.channels]
            constants = model_input.steps[int(number) - 1].model_dump().values()
            own = place is not None and [len(one) for one in constants if isinstance(one, tuple)] == [len(names)] * 2
            words = (f"channel {names[int(place)]}",) if own and len(names) > 1 else ()
            return "preprocessing", f"input {first}, step {number} ({step})", words
    output = next(one for one in subject.manifest.outputs if one.name == first)
    if any(flag.name == step for flag in output.flags):
        return "postprocessing", f"output {first} (flags)", (f"flag {step}",)
    return "postprocessing", f"output {first}, step {number} ({step})", ()


def _step_place(stage: Stage, where: str, rest: str) -> Where | None:
    """Of `clip 1 left out`: that step; of `clip 1 twice`: the one that follows."""
    found = re.match(r"(\w+) (\d+) (.*)", rest)
    if found is None:
        return None
    return stage, f"{where}, step {int(found[2]) + (found[3] == 'twice')} (", (found[1],)


def _swaps(subject: Subject) -> Iterator[Fault]:
    """The entries of two neighbouring channels exchanged."""
    for at, model_input in enumerate(subject.manifest.inputs):
        for place in range(len(model_input.channels) - 1):
            one, other = model_input.channels[place : place + 2]
            yield Fault(
                "swap", f"{one.name} and {other.name}", "preprocessing", "the contract (order of channels)",
                (f"{other.name} stands where {one.name} belongs", f"{one.name} stands where {other.name} belongs"),
                partial(_swapped, subject, at, place),
            )  # fmt: skip


def _swapped(subject: Subject, at: int, place: int) -> dict[str, bytes]:
    model_input = subject.manifest.inputs[at]
    channels = list(model_input.channels)
    channels[place : place + 2] = channels[place + 1], channels[place]
    way = subject.with_input(at, model_input.model_copy(update={"channels": tuple(channels)}))
    return {"manifest.json": encode_manifest(way.model.manifest)}


def _of_preparations(subject: Subject) -> Iterator[Fault]:
    """A constant of the author's own preprocessing, 5 % off."""
    own = subject.manifest.preprocess_onnx
    if own is None:
        return
    model = onnx.load_model_from_string(subject.files[own.model])
    for mutant in (Mutant("prepared", name, way) for name, way in prepared_constants(subject, 0.05)):
        constant = mutant.name.split(", ")[1].split(" ")[0]
        node = next(one for one in model.graph.node if constant in one.input)
        yield Fault(
            "prepared", mutant.name, "preprocessing", _shown(node), (), partial(_prepared_files, own.model, mutant)
        )


def _prepared_files(file: str, mutant: Mutant) -> dict[str, bytes]:
    with patch.object(mutate_subject, "_open", lambda model, _: model):
        return {file: mutant.way().model.prepare}  # type: ignore[dict-item]


def _of_mutated_models(subject: Subject) -> Iterator[Fault]:
    model = _model(subject)
    for mutant in _mutants(subject):
        node = None
        if mutant.kind == "sign":
            operator, _, weight = mutant.name.partition(" ")
            takers = [one for one in model.graph.node if one.op_type == operator and weight in _constants(model, one)]
            node = takers[0] if takers else model.graph.node[int(weight)]
        elif mutant.kind in ("zero-point", "saturation"):
            tensor = mutant.name.split(" ")[0]
            node = next(one for one in model.graph.node if one.op_type == "QuantizeLinear" and one.input[0] == tensor)
        elif mutant.kind == "training":
            node = next(one for one in model.graph.node if one.op_type == "BatchNormalization")
        if node is not None:
            yield Fault(mutant.kind, mutant.name, "model", _shown(node), (), partial(_model_files, subject, mutant))


def _model_files(subject: Subject, mutant: Mutant) -> dict[str, bytes]:
    """The bytes that a mutant of the model would be opened from."""
    with patch.object(mutate_subject, "_open", lambda model, _: model):
        return {subject.variant.model: mutant.way().model.infer}  # type: ignore[dict-item]


def _of_nodes(subject: Subject) -> Iterator[Fault]:
    """What author/mutate has no class for: biases, weights of one row, scales, attributes, operators."""
    model = _model(subject)
    for at, node in enumerate(model.graph.node):
        changes: list[tuple[str, Change]] = []
        if node.op_type in ("Conv", "Gemm", "MatMul", "GRU", "Add"):
            held = _constants(model, node)
            for name in held:
                values = _value(model, name)
                if values.dtype.kind == "f" and values.ndim and not name.endswith("scale"):
                    changes.append(("values", partial(_scaled, name, 1.3)))
                if values.dtype.kind in "iu" and values.size > 1:
                    changes.append(("row", partial(_rolled, name)))
                if name.endswith("scale"):
                    changes.append(("weight scale", partial(_scaled, name, 1.25)))
        for attribute, value in _ATTRIBUTES.get(node.op_type, ()):
            changes.append(("attribute", partial(_with_attribute, at, attribute, value)))
        if node.op_type in _OTHERWISE:
            changes.append(("operator", partial(_with_operator, at, _OTHERWISE[node.op_type])))
        for kind, change in changes:
            name = f"{node.op_type} {node.name}, {getattr(change, 'args', ())}"
            yield Fault(kind, name, "model", _shown(node), (), partial(_changed_model, subject, change))


_ATTRIBUTES: dict[str, tuple[tuple[str, Any], ...]] = {
    "Gemm": (("alpha", 1.2), ("beta", 0.5)), "GRU": (("linear_before_reset", 0), ("activations", ["Sigmoid", "Relu"])),
    "ArgMax": (("select_last_index", 1),), "TreeEnsembleClassifier": (("post_transform", "SOFTMAX"),),
}  # fmt: skip
_OTHERWISE = {"Tanh": "Sigmoid", "Relu": "Abs", "Add": "Sub", "ArgMax": "ArgMin"}


def _of_providers(subject: Subject) -> Iterator[Fault]:
    """A provider whose kernel of one operator is wrong, from one node on; where the bundle is for that provider at all."""
    if OTHER_PROVIDER not in subject.variant.tolerances:
        return
    model = _model(subject)
    live = {value.name for value in model.graph.input}
    for at, node in enumerate(model.graph.node):
        if not live.intersection(node.input):
            continue
        live.update(node.output)
        if node.op_type in ("Conv", "Gemm", "MatMul", "Tanh", "Relu", "Add", "GRU"):
            hurt = frozenset(
                next(name for name in reversed(one.output) if name)
                for one in model.graph.node[at:] if one.op_type == node.op_type
            )  # fmt: skip
            name = f"{node.op_type} from {node.name} on"
            yield Fault("provider", name, "model", _shown(node), (), dict, partial(_miscomputing, hurt))
            if any(one.op_type == "QuantizeLinear" and one.input[0] in node.output for one in model.graph.node):
                fused = partial(_miscomputing_fused, hurt)
                yield Fault("provider, fused alone", name, "model", _shown(node), (), dict, fused)


def _miscomputing_fused(hurt: frozenset[str], model: ModelProto) -> None:
    """As `_miscomputing`, but where what a kernel makes is shown outside, another kernel is taken, and that is right."""
    _miscomputing(hurt - {value.name for value in model.graph.output}, model)


def _miscomputing(hurt: frozenset[str], model: ModelProto) -> None:
    """These outputs are 1.25 times what they should be, in whatever model a provider is handed."""
    kind = model.graph.output[0].type.tensor_type.elem_type
    much = np.array(1.25, np.float16 if kind == onnx.TensorProto.FLOAT16 else np.float32)
    model.graph.initializer.append(numpy_helper.from_array(much, "much"))
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        one = NodeProto.FromString(node.SerializeToString())
        nodes.append(one)
        for name in hurt.intersection(one.output):
            one.output[list(one.output).index(name)] = f"{name}_right"
            nodes.append(helper.make_node("Mul", [f"{name}_right", "much"], [name]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _scaled(name: str, factor: float, model: ModelProto) -> None:
    _put(model, name, lambda values: (values * factor).astype(values.dtype))


def _rolled(name: str, model: ModelProto) -> None:
    """The whole tensor's values one place on, as if a layout were off by one."""
    _put(model, name, lambda values: np.roll(values, 1))


def _put(model: ModelProto, name: str, change: Callable[[Any], Any]) -> None:
    for tensor in model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), name))


def _with_attribute(at: int, name: str, value: Any, model: ModelProto) -> None:
    node = model.graph.node[at]
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _with_operator(at: int, operator: str, model: ModelProto) -> None:
    model.graph.node[at].op_type = operator


def _changed_model(subject: Subject, change: Change) -> dict[str, bytes]:
    model = _model(subject)
    change(model)
    return {subject.variant.model: model.SerializeToString()}


def _constants(model: ModelProto, node: NodeProto) -> list[str]:
    """The initializers that only this node takes, those behind a DequantizeLinear of a weight among them."""
    held = {tensor.name for tensor in model.graph.initializer}
    made = {name: one for one in model.graph.node for name in one.output}
    found = []
    for name in node.input:
        source = made.get(name)
        if name in held:
            found.append(name)
        elif source is not None and source.op_type == "DequantizeLinear" and source.input[0] in held:
            found += [one for one in source.input[:2] if one in held]
    return found


def _value(model: ModelProto, name: str) -> Any:
    return next(numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name == name)


def _model(subject: Subject) -> ModelProto:
    return onnx.load_model_from_string(subject.files[subject.variant.model])


def _shown(node: NodeProto) -> str:
    return f"{node.name or f'{node.op_type} of {node.output[0]}'} ({node.op_type})"
