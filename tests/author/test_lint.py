"""Each static lint has a tiny model that provokes it and a near twin that does not."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author import lint_answers, lint_contract
from edge_runtime.author.lint import RULES, lint
from edge_runtime.author.lint_facts import ChannelFact, Facts, InputFact, OutputFact
from edge_runtime.author.lint_integer import longest_sum
from edge_runtime.author.lint_ports import RUNTIMES, versions
from tests.author.test_rewrite import classifier

FACTS = Facts(
    model="model.onnx",
    precision="float32",
    batch_sizes=(1, 2, 4),
    inputs=(InputFact("x", "float32", ("batch", 3)),),
    outputs=(OutputFact("y", values=2),),
)
WEIGHTS = np.array([[1, -2], [0.5, 4], [3, 0.25]], np.float32)
Values = np.ndarray[Any, Any]


def make(
    *nodes: onnx.NodeProto,
    stored: dict[str, Values] | None = None,
    x: tuple[str | int, ...] = ("batch", 3),
    y: tuple[str | int, ...] = ("batch", 2),
    dtype: int = TensorProto.FLOAT,
    opset: int = 18,
    ir: int = 10,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """A model from x to y; without nodes y = x @ w."""
    graph = helper.make_graph(
        list(nodes) or [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "tiny",
        [helper.make_tensor_value_info("x", dtype, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(values, name) for name, values in ({"w": WEIGHTS} | (stored or {})).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def facts(**changes: Any) -> Facts:
    return dataclasses.replace(FACTS, **changes)


def norm(
    outputs: tuple[str, ...] = ("y",), mean: float = 0.0, variance: float = 1.0, **attributes: Any
) -> onnx.ModelProto:
    """y = BatchNormalization(x @ w)."""
    stored = {name: np.full(2, value, np.float32) for name, value in (("s", 1), ("b", 0), ("m", mean), ("v", variance))}
    return make(
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("BatchNormalization", ["h", "s", "b", "m", "v"], list(outputs), name="norm", **attributes),
        stored=stored,
    )


def dropout(mode: bool | None) -> onnx.ModelProto:
    inputs = ["h", "ratio"] if mode is None else ["h", "ratio", "mode"]
    return make(
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Dropout", inputs, ["y"], name="drop"),
        stored={"ratio": np.float32(0.5).reshape(()), "mode": np.bool_(mode).reshape(())},
    )


def dropout_from_constant(mode: bool) -> onnx.ModelProto:
    constant = helper.make_node("Constant", [], ["mode"], value=numpy_helper.from_array(np.array(mode)))
    model = dropout(mode)
    del model.graph.initializer[-1]
    model.graph.node.insert(0, constant)
    return model


def external(there: bool) -> onnx.ModelProto:
    model = make()
    if there:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
    return model


def function(inlined: bool) -> onnx.ModelProto:
    if inlined:
        return make()
    model = make(helper.make_node("Double", ["x", "w"], ["y"], domain="own"), domains=("own",))
    body = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    model.functions.append(
        helper.make_function("own", "Double", ["a", "b"], ["c"], body, [helper.make_opsetid("", 18)])
    )
    return model


def branch(there: bool) -> onnx.ModelProto:
    if not there:
        return make(helper.make_node("Where", ["c", "x", "x"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"]),
                    stored={"c": np.array(True)})  # fmt: skip
    arm = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["out"])], "arm", [],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", 2])],
    )  # fmt: skip
    return make(helper.make_node("If", ["c"], ["y"], name="choice", then_branch=arm, else_branch=arm),
                stored={"c": np.array(True)})  # fmt: skip


def dynamic() -> onnx.ModelProto:
    return make(
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="dynamic"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    )


def qdq(
    weights: Values, *, zero: int = 0, per_channel: bool = False, scale: float = 0.1, activation: type = np.uint8,
    rows: int = 3,
) -> onnx.ModelProto:  # fmt: skip
    """y = dequantized x @ dequantized weights."""
    columns = weights.shape[1]
    stored = {
        "xs": np.float32(scale).reshape(()), "xz": np.zeros((), activation), "wq": weights,
        "ws": np.full(columns if per_channel else (), 0.1, np.float32),
        "wz": np.full(columns if per_channel else (), zero, weights.dtype),
    }  # fmt: skip
    axis = {"axis": 1} if per_channel else {}
    return make(
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["h"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], **axis),
        helper.make_node("MatMul", ["h", "wd"], ["y"], name="product"),
        stored=stored, x=("batch", rows), y=("batch", columns),
    )  # fmt: skip


def qoperator() -> onnx.ModelProto:
    stored = {"s": np.float32(0.1).reshape(()), "z": np.zeros((), np.uint8), "wq": np.ones((3, 2), np.uint8)}
    return make(
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearMatMul", ["q", "s", "z", "wq", "s", "z", "s", "z"], ["p"], name="qproduct"),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
        stored=stored,
    )


def with_text(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = make()
    change(model)
    return model


def metadata(model: onnx.ModelProto, text: str) -> None:
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=text)


def scaled(std: float) -> onnx.ModelProto:
    return make(
        helper.make_node("Sub", ["x", "mean"], ["h"]),
        helper.make_node("Div", ["h", "std"], ["g"], name="divide"),
        helper.make_node("MatMul", ["g", "w"], ["y"]),
        stored={"mean": np.full(3, 1000, np.float32), "std": np.array([1, 2, std], np.float32)},
    )


def half(dtype: type) -> onnx.ModelProto:
    return make(helper.make_node("Cast", ["w2"], ["w3"], to=TensorProto.FLOAT),
                helper.make_node("MatMul", ["x", "w3"], ["y"]), stored={"w2": WEIGHTS.astype(dtype)})  # fmt: skip


def pruned(share: float) -> onnx.ModelProto:
    weights = np.ones((128, 4), np.float32)
    weights[: int(128 * share)] = 0
    return make(
        helper.make_node("MatMul", ["x", "wide"], ["y"]), stored={"wide": weights}, x=("batch", 128), y=("batch", 4)
    )


def long_sum(terms: int, activation: type = np.uint8, weights: type = np.int8) -> onnx.ModelProto:
    return qdq(np.ones((terms, 1), weights), activation=activation, rows=terms)


def wide(terms: int) -> Facts:
    return facts(inputs=(InputFact("x", "float32", ("batch", terms)),), outputs=(OutputFact("y", values=1),))


def channel(**known: Any) -> Facts:
    return facts(channels=(ChannelFact("pressure", **known),))


class Case(NamedTuple):
    id: str
    bad: onnx.ModelProto
    good: onnx.ModelProto
    words: str
    bad_facts: Facts = FACTS
    good_facts: Facts = FACTS


INT8 = np.array([[1, 0], [2, 5], [3, 0]], np.int8)
DEAD = np.array([[1, 0], [2, 0], [3, 0]], np.int8)


def named(output: str, words: str) -> Facts:
    """Of the classifier that names its own classes a, b, c: what the contract calls them."""
    return facts(inputs=(InputFact("x", "float32", ("batch", 2)),), outputs=(OutputFact(output, words=tuple(words)),))


PATH = 'File "/home/ada/train/frost.py", line 12, in forward'

CASES = [
    Case("training-mode", norm(("y", "rm", "rv"), training_mode=1), norm(), "norm'"),
    Case("training-mode", norm(("y", "rm", "rv")), norm(("y", "", "")), "3 outputs"),
    Case("training-mode", dropout(True), dropout(False), "drop'"),
    Case("training-mode", dropout_from_constant(True), dropout_from_constant(False), "training_mode input"),
    Case("training-mode", dropout(True), dropout(None), "training_mode input"),
    Case("external-data", external(True), external(False), "tensor 'w'"),
    Case(
        "custom-domain",
        make(helper.make_node("Fancy", ["x", "w"], ["y"], domain="com.acme"), domains=("com.acme",)),
        make(domains=("com.acme", "com.microsoft.nchwc")), "com.acme",
    ),
    Case("local-functions", function(inlined=False), function(inlined=True), "own.Double"),
    Case(
        "ep-context",
        make(helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft"), domains=("com.microsoft",)),
        make(domains=("com.microsoft",)), "EPContext",
    ),
    Case("control-flow", branch(there=True), branch(there=False), "If 'choice'"),
    Case("dynamic-quantization", dynamic(), qdq(INT8), "DynamicQuantizeLinear 'dynamic'"),
    Case("qoperator", qoperator(), qdq(INT8), "QLinearMatMul 'qproduct'"),
    Case("source-paths", with_text(lambda m: metadata(m, PATH)), with_text(lambda m: metadata(m, "aten.mm")), "ada"),
    Case(
        "source-paths", with_text(lambda m: setattr(m, "doc_string", r"C:\Users\ada\net.py")),
        with_text(lambda m: setattr(m, "doc_string", "ratio a/b: see the paper")), "the model, doc_string",
    ),
    Case(
        "source-paths", with_text(lambda m: setattr(m.graph.initializer[0], "name", "/home/ada/w")),
        with_text(lambda m: setattr(m.graph.node[0], "name", "/conv1/home.0/Conv")), "name",
    ),
    Case("port-name", make(), make(), "'frame'", facts(inputs=(InputFact("frame", "float32", ("batch", 3)),)),
         facts(inputs=(InputFact(None, "float32", ("batch", 3)),))),
    Case("port-name", make(), make(), "output 'low'", facts(outputs=(OutputFact("low"),)), facts(outputs=(OutputFact("y"),))),
    Case("port-shape", make(x=("batch", 4)), make(), "(batch, 4), where the contract leads to (batch, 3)"),
    Case("port-shape", make(x=("batch", 3, 1)), make(x=("batch", "n")), "(batch, 3, 1)"),
    Case("port-shape", make(y=("batch", 3)), make(y=("batch", 2, 1)), "output 'y'"),
    Case("port-dtype", make(dtype=TensorProto.UINT8), make(), "uint8"),
    Case("label-count", make(), make(), "2 numbers a case, 3 labels", facts(outputs=(OutputFact("y", labels=3),)),
         facts(outputs=(OutputFact("y", labels=2),))),
    Case("label-order", classifier(numbers=False), classifier(numbers=False), "labels a, c, b, where the model has a, b, c",
         named("probability", "acb"), named("probability", "abc")),
    Case("label-order", classifier(numbers=False), classifier(numbers=False), "labels a, c, b", named("probability", "acb"),
         named("label", "acb")),  # the text is the label itself
    Case("fixed-batch", make(x=(1, 3)), make(x=("n", 3)), "a batch of 1"),
    Case("fixed-batch", make(x=(1, 3), y=(1, 2)), make(x=(1, 3), y=(1, 2)), "a batch of 1", FACTS, facts(batch_sizes=(1,))),
    Case("ir-version", make(ir=14), make(ir=14), "IR 14; onnxruntime 1.31", facts(runtime=(1, 31)), facts(runtime=(1, 32))),
    Case("opset", make(opset=29), make(opset=28), "opset 29 of ai.onnx"),
    Case("opset", make(opset=6), make(opset=7), "takes 7 to 28"),
    Case("runtime-floor", make(opset=26), make(opset=25), "1.24 takes up to 25"),
    Case("not-finite-weights", make(stored={"w": np.array([[1, np.nan]] * 3, np.float32)}), make(), "3 of 6"),
    Case("not-finite-weights", make(stored={"h": np.array([np.inf], np.float16)}),
         make(stored={"h": np.array([1], np.float16)}), "tensor 'h'"),
    Case("vanishing-std", make(), make(), "channel pressure", channel(center=101325.0, spread=0.005),
         channel(center=101325.0, spread=0.5)),
    Case("vanishing-std", make(), make(), "0 at 0", channel(center=0.0, spread=0.0), channel(center=0.0, spread=1e-9)),
    Case("vanishing-std", scaled(5e-5), scaled(5e-3), "1 of 3 deviations"),
    Case("vanishing-std", norm(mean=1e6, variance=0), norm(mean=1e2, variance=0), "norm'"),
    Case("half-without-float16", half(np.float64), half(np.float16), "none of float16", facts(model="frost_fp16.onnx"),
         facts(model="frost_fp16.onnx")),
    Case("half-without-float16", make(), make(), "float32", facts(precision="float16"), facts(model="behalf.onnx")),
    Case("dense-zeros", pruned(0.5), pruned(0.4), "50%",
         facts(inputs=(InputFact("x", "float32", ("batch", 128)),), outputs=(OutputFact("y", values=4),)),
         facts(inputs=(InputFact("x", "float32", ("batch", 128)),), outputs=(OutputFact("y", values=4),))),
    Case("dead-channel", qdq(DEAD), qdq(INT8), "channels 1 of 2"),
    Case("dead-channel", qdq(np.full((3, 2), 7, np.int8), zero=7), qdq(np.full((3, 2), 7, np.int8)), "channels 0, 1"),
    Case("dead-channel", qdq(DEAD, per_channel=True), qdq(INT8, per_channel=True), "wq"),
    Case("accumulator-overflow", long_sum(66_312), long_sum(66_311), "int32 carries 66311", wide(66_312), wide(66_311)),
    Case("accumulator-overflow", long_sum(133_145, np.int8), long_sum(133_144, np.int8), "carries 133144",
         wide(133_145), wide(133_144)),
    Case("clipped-range", qdq(INT8), qdq(INT8), "0 to 30", channel(tensor_band=(0.0, 30.0)), channel(tensor_band=(0.0, 25.0))),
    Case("few-calibration-cases", make(), make(), "99 cases", facts(calibration_cases=99), facts(calibration_cases=100)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{at}-{case.id}" for at, case in enumerate(CASES)])
def test_each_lint_has_a_model_that_provokes_it_and_a_twin_that_does_not(case: Case) -> None:
    found = [finding for finding in lint(case.bad, case.bad_facts) if finding.id == case.id]
    assert found
    assert case.words in str(found[0])
    assert "\n" not in str(found[0])
    assert (found[0].why, found[0].fix) == (RULES[case.id].why, RULES[case.id].fix)
    assert case.id not in {finding.id for finding in lint(case.good, case.good_facts)}


def test_every_rule_is_provoked_somewhere() -> None:
    behavioural = {"batch-dependent", "not-repeatable", "reference-apart", "confusable-unit", "events-per-minute"}
    # Each of these has its test in test_lint_answers or test_lint_contract.
    of_answers = {rule.id for rule in (*lint_answers.RULES, *lint_contract.RULES)}
    assert {case.id for case in CASES} | behavioural | of_answers == set(RULES)


def test_a_clean_model_has_no_findings_and_errors_come_first() -> None:
    assert lint(make(), FACTS) == ()
    model = make(opset=26, x=("batch", 4))
    assert [finding.severity for finding in lint(model, FACTS)] == ["error", "warning"]


def test_one_operator_in_a_branch_is_found_too() -> None:
    model = branch(there=True)
    model.graph.node[0].attribute[0].g.node[0].domain = "com.acme"
    assert "custom-domain" in {finding.id for finding in lint(model, FACTS)}


@pytest.mark.parametrize(("activation", "weights", "limit"), [("int8", "int8", 133_144), ("uint8", "int8", 66_311)])
def test_the_longest_sums_int32_carries(activation: str, weights: str, limit: int) -> None:
    assert longest_sum(activation, weights) == limit
    largest = {"int8": 127, "uint8": 255}
    assert (
        limit * largest[activation] * largest[weights]
        <= 2**31 - 1
        < (limit + 1) * largest[activation] * largest[weights]
    )


def test_a_float_model_that_will_be_quantized_is_held_to_int8_sums() -> None:
    terms = 66_312
    model = make(helper.make_node("MatMul", ["x", "long"], ["y"]), stored={"long": np.ones((terms, 1), np.float32)},
                 x=("batch", terms), y=("batch", 1))  # fmt: skip
    assert lint(model, wide(terms)) == ()
    assert "accumulator-overflow" in {f.id for f in lint(model, dataclasses.replace(wide(terms), precision="int8"))}


@pytest.mark.parametrize(
    ("kind", "shape", "attributes", "terms"),
    [
        ("Conv", (2, 3, 5), {}, 15),
        ("Gemm", (3, 2), {}, 3),
        ("Gemm", (2, 3), {"transB": 1}, 3),
        ("MatMul", (3, 2), {}, 3),
    ],
)
def test_how_long_a_sum_is(kind: str, shape: tuple[int, ...], attributes: dict[str, int], terms: int) -> None:
    from edge_runtime.author.lint_products import products

    model = make(helper.make_node(kind, ["x", "k"], ["y"], **attributes), stored={"k": np.ones(shape, np.float32)})
    (product,) = products(model)
    assert (product.terms, product.weights.shape[product.axis]) == (terms, 2)


def test_an_unknown_runtime_counts_as_the_nearest_older_one() -> None:
    assert list(versions(make(ir=14, opset=28), (1, 99))) != []
    assert {finding.id for finding in versions(make(ir=14, opset=28), (1, 99))} == {"runtime-floor"}
    assert {finding.id for finding in versions(make(ir=14), (1, 1))} == {"ir-version"}


def test_the_way_out_of_a_new_file_format_is_not_the_opset() -> None:
    (of_ir,) = versions(make(ir=14), (1, 99))
    (of_opset,) = versions(make(opset=28), (1, 99))
    assert "make_model(..., ir_version=10)" in of_ir.fix
    assert of_opset.fix.startswith("export with a lower opset_version")


def test_the_table_agrees_with_the_onnxruntime_that_is_here() -> None:
    from edge_runtime.engine.session import open_session, version
    from edge_runtime.errors import BundleError

    major, minor = (int(part) for part in version().split(".")[:2])
    limits = RUNTIMES.get((major, minor))
    if limits is None:
        pytest.skip(f"onnxruntime {version()} is not in the table yet: measure and add it")
    node = helper.make_node("Relu", ["x"], ["y"])
    open_session(make(node, y=("batch", 3), ir=limits[0], opset=limits[1]).SerializeToString())
    for ir, opset in ((limits[0] + 1, 18), (10, limits[1] + 1)):
        with pytest.raises(BundleError):
            open_session(make(node, y=("batch", 3), ir=ir, opset=opset).SerializeToString())
