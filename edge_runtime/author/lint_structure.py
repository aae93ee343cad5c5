"""Lints of a graph's own making: training mode, foreign operators, quantization forms, leftovers; it runs nothing."""

import re
from collections.abc import Iterator

import numpy as np
from google.protobuf.message import Message
from onnx import ModelProto, NodeProto

from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.lint_nodes import (
    STANDARD_DOMAINS,
    Constant,
    attribute,
    constants,
    has_graph,
    is_external,
    messages,
    named,
    nodes,
    shown,
    tensors,
)

TRAINING = Rule(
    "training-mode", "error",
    "BatchNormalization with training_mode = 1 or more than one output, Dropout whose training input is true",
    "it normalizes by whatever else is in the batch, or drops at random: the same sample gets another answer each time",
    "call model.eval() before the export",
)  # fmt: skip
EXTERNAL = Rule(
    "external-data", "error", "a tensor whose bytes stand in another file",
    "the model file alone is no model, and its hash does not cover the weights",
    "save it as one file (onnx.save_model with save_as_external_data=False)",
)  # fmt: skip
CUSTOM = Rule(
    "custom-domain", "error", "an operator outside ai.onnx and ai.onnx.ml; a domain imported and not used is no matter",
    "a device has no library for it, and one that is loaded for it runs native code of a stranger",
    "export with standard operators",
)  # fmt: skip
FUNCTIONS = Rule(
    "local-functions", "error", "functions defined in the model itself",
    "providers inline them each in its own way, so that optimization and numbers depend on the version",
    "inline them (onnx.inliner.inline_local_functions)",
)  # fmt: skip
COMPILED = Rule(
    "ep-context", "error", "an EPContext node: a provider's own compiled blob",
    "it fits one provider, driver and chip, and nobody can look inside",
    "build from the exported model, not from a cache",
)  # fmt: skip
CONTROL = Rule(
    "control-flow", "error", "Loop, If, Scan, or any operator with a graph inside",
    "its time has no bound, a loop can be endless, and quantizers and accelerators stop at it",
    "export it unrolled, with fixed lengths",
)  # fmt: skip
DYNAMIC = Rule(
    "dynamic-quantization", "error", "scales computed from each input while running (DynamicQuantizeLinear and its kin)",
    "one outlier changes the scale of the whole batch, so an answer depends on its neighbours and on the CPU",
    'give the float model and precision = "int8": static scales',
)  # fmt: skip
QOPERATOR = Rule(
    "qoperator", "warning", "the QOperator form of int8 (QLinearConv, QLinearMatMul and others)",
    "accelerators take QDQ only: nearly every node would fall back to the CPU without a word",
    "quantize to QDQ (QuantizeLinear / DequantizeLinear pairs)",
)  # fmt: skip
PATHS = Rule(
    "source-paths", "warning", "paths or stack traces of the exporter's machine in doc strings, metadata or names",
    "they tell strangers your names and folders; the build strips doc strings and metadata, not names",
    "export from a clean folder, or clear doc_string and metadata_props before you hand the model on",
)  # fmt: skip

RULES = (TRAINING, EXTERNAL, CUSTOM, FUNCTIONS, COMPILED, CONTROL, DYNAMIC, QOPERATOR, PATHS)

_DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulIntegerToFloat"})
_QOPERATORS = frozenset({"QLinearConv", "QLinearMatMul", "QGemm", "QAttention", "QEmbedLayerNormalization"})
_PATH = re.compile(
    r"""(?:^|[\s"'(=])/(?:home|Users|root|mnt|tmp|opt|usr|content|kaggle|work(?:space)?)/\S"""
    r"""|\b[A-Za-z]:\\\w|\.py["']?(?:, line \d|:\d|\(\d)|\bTraceback \(most recent|\bFile "[^"]+", line \d""",
)
_SHOWN = 60


def structure(model: ModelProto) -> Iterator[Finding]:
    """The findings of this group."""
    yield from _foreign(model)
    yield from training(model)
    for tensor in tensors(model):
        if is_external(tensor):
            yield EXTERNAL.found_at(f"tensor {tensor.name!r}", "its bytes are in another file")
    yield from _paths(model)


def _foreign(model: ModelProto) -> Iterator[Finding]:
    local = {(one.domain, one.name) for one in model.functions}
    if local:
        yield FUNCTIONS.found_at("the model", f"functions {shown(sorted(f'{d}.{n}' for d, n in local))}")
    for node in nodes(model):
        rule = _foreign_rule(node, local)
        if rule is not None:
            yield rule.found_at(named(node), f"operator {node.op_type} of domain {node.domain or 'ai.onnx'!r}")


def _foreign_rule(node: NodeProto, local: set[tuple[str, str]]) -> Rule | None:
    """The one rule that says most about a node."""
    if node.op_type == "EPContext":
        return COMPILED
    if node.op_type in _DYNAMIC:
        return DYNAMIC
    if node.op_type in _QOPERATORS or node.op_type.startswith("QLinear"):
        return QOPERATOR
    if has_graph(node):
        return CONTROL
    if node.domain not in STANDARD_DOMAINS and (node.domain, node.op_type) not in local:
        return CUSTOM
    return None


def training(model: ModelProto) -> Iterator[Finding]:
    """A finding for each node that would answer as in training."""
    graphs = [model.graph, *(a.g for node in nodes(model) for a in node.attribute if a.HasField("g"))]
    known = {name: value for graph in graphs for name, value in constants(graph).items()}
    for node in nodes(model):
        if node.op_type == "BatchNormalization":
            outputs = [name for name in node.output if name]
            if attribute(node, "training_mode", 0):
                yield TRAINING.found_at(named(node), "training_mode = 1")
            elif len(outputs) > 1:
                yield TRAINING.found_at(named(node), f"{len(outputs)} outputs, the running statistics among them")
        elif node.op_type == "Dropout" and _may_drop(node, known):
            yield TRAINING.found_at(named(node), "its training_mode input is true, or known only at run time")


def _may_drop(node: NodeProto, known: dict[str, Constant]) -> bool:
    mode = node.input[2] if len(node.input) > 2 else ""  # noqa: PLR2004 - data, ratio, training_mode
    if not mode:
        return False
    constant = known.get(mode)
    return constant is None or bool(np.any(constant.values))


def _paths(model: ModelProto) -> Iterator[Finding]:
    """One finding for all, since an exporter leaves one at every node."""
    hits = [(where, text) for where, text in _texts(model) if _PATH.search(text)]
    if hits:
        where, text = hits[0]
        match = _PATH.search(text)
        start = match.start() if match else 0
        excerpt = " ".join(text[start : start + _SHOWN].split())
        yield PATHS.found_at(where, f"{len(hits)} texts with paths, the first {excerpt!r}")


def _texts(message: Message) -> Iterator[tuple[str, str]]:
    for one in messages(message):
        fields = one.DESCRIPTOR.fields_by_name
        kind = one.DESCRIPTOR.name.removesuffix("Proto").lower()
        name = one.name if "name" in fields else ""
        where = f"{kind} {name!r}" if name else f"the {kind}"
        if "doc_string" in fields and one.doc_string:
            yield f"{where}, doc_string", one.doc_string
        if "metadata_props" in fields:
            yield from ((f"{where}, metadata {entry.key!r}", entry.value) for entry in one.metadata_props)
        if name:
            yield f"{where}, name", name
