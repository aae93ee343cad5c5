"""Lints of the graph's edge against the contract, and of its versions against onnxruntime's; it runs nothing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnx import ModelProto, TensorProto, ValueInfoProto

from edge_runtime.author.lint_facts import Facts, InputFact, OutputFact
from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.lint_nodes import dtype_name, stated_classes

NAME = Rule(
    "port-name", "error", "an input or output that only the contract or only the model has",
    "the runtime would feed or read a tensor that is not there",
    "correct input.tensor or output.tensor, or name the tensors in the export (input_names, output_names)",
)  # fmt: skip
SHAPE = Rule(
    "port-shape", "error", "an input or output of another shape than channels, window and outputs lead to",
    "values would land on the wrong axis, or no run succeeds at all",
    "correct input.axes, the channels or the window, or export the model for these",
)  # fmt: skip
DTYPE = Rule(
    "port-dtype", "error", "an input of another element type than the contract prepares",
    "a scale inside or outside the graph is then missed or applied twice",
    "export it with a float32 input; an int8 model quantizes within the graph",
)  # fmt: skip
LABELS = Rule(
    "label-count", "error", "another number of labels than the output has classes",
    "labels are off by one from there on: a background class is missing, or one too many",
    "give one label for each number of the output, in the order of training",
)  # fmt: skip
ORDER = Rule(
    "label-order", "error", "labels in another order than the classes that the model itself names",
    "each answer is another class's word, said with the right one's score",
    "write `labels` in the model's own order",
)  # fmt: skip
FIXED = Rule(
    "fixed-batch", "error", "a batch of fixed size in a model that is to be run in batches",
    "the first batch of another size fails, or the answers of a padded one are read",
    "export with a dynamic batch axis (dynamic_shapes), or state batch_sizes = [1]",
)  # fmt: skip
IR = Rule(
    "ir-version", "error", "an ONNX file format (IR version) that the onnxruntime it will serve on does not read",
    "the device refuses the file at boot",
    "save it with a lower ir_version, or serve on a newer onnxruntime",
)  # fmt: skip
OPSET = Rule(
    "opset", "error", "an operator set beyond what the onnxruntime it will serve on knows",
    "the device refuses the file at boot, or runs an operator by a draft of its definition",
    "export with a lower opset_version, or convert (onnx.version_converter)",
)  # fmt: skip
FLOOR = Rule(
    "runtime-floor", "warning", "a file format (IR version) or operator set that only a newer onnxruntime takes",
    "a device with an older one, as a vendor's wheel often is, refuses the bundle",
    "export with a lower opset_version (of an IR version: save with a lower ir_version), or make sure of the devices",
)  # fmt: skip

RULES = (NAME, SHAPE, DTYPE, LABELS, ORDER, FIXED, IR, OPSET, FLOOR)

RUNTIMES = {
    (1, 24): (13, 25, 5), (1, 25): (13, 26, 5), (1, 26): (13, 26, 5), (1, 27): (13, 26, 5), (1, 28): (13, 26, 5),
    (1, 29): (13, 26, 5), (1, 30): (13, 26, 5), (1, 31): (13, 26, 5), (1, 32): (14, 28, 5),
}  # fmt: skip
"""By onnxruntime version the highest IR version, ai.onnx opset and ai.onnx.ml opset it loads.

Measured on the x86-64 wheels with a one-node model of each version; those of 1.24 on are what this package takes.
"""
_LOWER_IR = (
    "save the file with a lower one, onnx.helper.make_model(..., ir_version=10) or model.ir_version = 10 before onnx.save "
    "(an opset_version does not change it), or make sure of the devices"
)
_LOWEST_IR, _LOWEST_OPSET = 3, 7


def ports(model: ModelProto, facts: Facts) -> Iterator[Finding]:
    """The findings of this group."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    outputs = list(model.graph.output)
    yield from _inputs(inputs, facts.inputs)
    yield from _outputs(outputs, facts.outputs)
    yield from _label_order(model, facts.outputs)
    axes = {fact.name: fact.batch_axis for fact in facts.inputs} | {
        fact.name: fact.batch_axis for fact in facts.outputs
    }
    yield from _batch(inputs, outputs, facts.batch_sizes, axes)
    yield from versions(model, facts.runtime)


def versions(model: ModelProto, runtime: tuple[int, int]) -> Iterator[Finding]:
    """IR and opsets against ``runtime``; one that is not in the table counts as the nearest older one."""
    oldest = min(RUNTIMES)
    serving = max((version for version in RUNTIMES if version <= runtime), default=oldest)
    ir, standard, ml = RUNTIMES[serving]
    used = {"" if node.domain == "ai.onnx" else node.domain for node in model.graph.node}
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    if not _LOWEST_IR <= model.ir_version <= ir:
        yield IR.found_at("the model", f"IR {model.ir_version}; onnxruntime {_text(runtime)} takes 3 to {ir}")
    elif model.ir_version > RUNTIMES[oldest][0]:
        too_new = FLOOR.found_at(
            "the model", f"IR {model.ir_version}; onnxruntime {_text(oldest)} takes up to {RUNTIMES[oldest][0]}"
        )
        yield replace(too_new, fix=_LOWER_IR)
    for domain, lowest, highest, at in (("", _LOWEST_OPSET, standard, 1), ("ai.onnx.ml", 1, ml, 2)):
        opset = opsets.get(domain)
        if opset is None or domain not in used:
            continue
        floor = RUNTIMES[oldest][at]
        found = f"opset {opset} of {domain or 'ai.onnx'}"
        if not lowest <= opset <= highest:
            yield OPSET.found_at("the model", f"{found}; onnxruntime {_text(runtime)} takes {lowest} to {highest}")
        elif opset > floor:
            yield FLOOR.found_at("the model", f"{found}; onnxruntime {_text(oldest)} takes up to {floor}")


def _inputs(inputs: Sequence[ValueInfoProto], promised: Sequence[InputFact]) -> Iterator[Finding]:
    by_name = {value.name: value for value in inputs}
    anonymous = len(promised) == 1 and promised[0].name is None
    wanted = {inputs[0].name: promised[0]} if anonymous and inputs else {fact.name or "": fact for fact in promised}
    for name, fact in wanted.items():
        value = by_name.get(name)
        if value is None:
            yield NAME.found_at(f"input {name!r}", f"not in the model, which has {', '.join(by_name) or 'none'}")
            continue
        dtype = dtype_name(value.type.tensor_type.elem_type)
        if fact.dtype is not None and dtype != fact.dtype:
            yield DTYPE.found_at(f"input {name!r}", f"{dtype}, where the contract prepares {fact.dtype}")
        shape = _shape(value)
        if fact.shape is not None and (len(shape) != len(fact.shape) or any(map(_differ, shape[1:], fact.shape[1:]))):
            yield SHAPE.found_at(
                f"input {name!r}", f"{_shown(shape)}, where the contract leads to {_shown(fact.shape)}"
            )
    for name in by_name.keys() - wanted.keys():
        yield NAME.found_at(f"input {name!r}", "in the model, but not in the contract")


def _outputs(outputs: Sequence[ValueInfoProto], promised: Sequence[OutputFact]) -> Iterator[Finding]:
    by_name = {value.name: value for value in outputs}
    for fact in promised:
        value = by_name.get(fact.name)
        if value is None:
            yield NAME.found_at(f"output {fact.name!r}", f"not in the model, which has {', '.join(by_name)}")
            continue
        shape = _shape(value)
        sizes = [size for size in shape[1:] if isinstance(size, int)]
        if len(sizes) < len(shape[1:]):
            continue  # known only at run time
        is_scores = dtype_name(value.type.tensor_type.elem_type).startswith(
            "float"
        )  # else the place, or the label itself
        if fact.labels is not None and is_scores and math.prod(sizes) != fact.labels:
            yield LABELS.found_at(f"output {fact.name!r}", f"{math.prod(sizes)} numbers a case, {fact.labels} labels")
        elif fact.values is not None and math.prod(sizes) != fact.values:
            yield SHAPE.found_at(f"output {fact.name!r}", f"{_shown(shape)}, where {fact.values} a case is promised")


def _label_order(model: ModelProto, promised: Sequence[OutputFact]) -> Iterator[Finding]:
    classes = stated_classes(model) or ()
    texts = {one.name for one in model.graph.output if one.type.tensor_type.elem_type == TensorProto.STRING}
    for fact in promised:
        if fact.name not in texts and fact.words != classes and sorted(fact.words) == sorted(classes):
            shown = ", ".join(classes)
            yield ORDER.found_at(
                f"output {fact.name!r}", f"labels {', '.join(fact.words)}, where the model has {shown}"
            )


def _batch(
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    sizes: tuple[int, ...],
    axes: Mapping[str | None, int],
) -> Iterator[Finding]:
    for kind, values in (("input", inputs), ("output", outputs)):
        for value in values:
            batch = next(iter(_shape(value)[axes.get(value.name, 0) :]), None)
            if isinstance(batch, int) and sizes != (batch,):
                yield FIXED.found_at(f"{kind} {value.name!r}", f"a batch of {batch}, for batch_sizes {list(sizes)}")


def _differ(have: int | str, want: int | str) -> bool:
    """A dynamic dimension fits any number."""
    return isinstance(have, int) and isinstance(want, int) and have != want


def _shape(value: ValueInfoProto) -> tuple[int | str, ...]:
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in value.type.tensor_type.shape.dim
    )


def _shown(shape: Sequence[int | str]) -> str:
    return f"({', '.join(str(size) or '?' for size in shape)})"


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
