"""What is seen only by running: the training-mode export that loads and runs, and what an optimizer folds."""

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author.lint import lint
from edge_runtime.author.lint_behaviour import Evidence
from edge_runtime.author.lint_facts import Facts, InputFact, OutputFact
from edge_runtime.author.lint_finding import Finding
from edge_runtime.engine.session import open_session

FACTS = Facts(
    model="frost.onnx",
    precision="float32",
    batch_sizes=(1, 2, 4, 8, 16),
    inputs=(InputFact("window", "float32", ("batch", 5, 24)),),
    outputs=(OutputFact("low", values=1),),
)
RANDOM = np.random.default_rng(11)
WEIGHTS = {
    "kernel": RANDOM.normal(size=(8, 5, 5)).astype(np.float32), "bias": RANDOM.normal(size=8).astype(np.float32),
    "gain": RANDOM.uniform(0.5, 2, 8).astype(np.float32), "shift": RANDOM.normal(size=8).astype(np.float32),
    "mean": RANDOM.normal(size=8).astype(np.float32), "variance": RANDOM.uniform(5, 20, 8).astype(np.float32),
    "head": RANDOM.normal(size=(8, 1)).astype(np.float32), "offset": np.zeros(1, np.float32),
}  # fmt: skip
TENSOR = RANDOM.normal(size=(40, 5, 24)).astype(np.float32)


def export(
    *normalization: onnx.NodeProto, rows: int | str = "batch", tail: tuple[onnx.NodeProto, ...] = ()
) -> onnx.ModelProto:
    """Conv1d -> ``normalization`` of c to n -> Relu -> mean over time -> Gemm, as the frost model is."""
    last = "y" if tail else "low"
    nodes = [
        helper.make_node("Conv", ["window", "kernel", "bias"], ["c"], name="conv"),
        *normalization,
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"], axis=1),
        helper.make_node("Gemm", ["f", "head", "offset"], [last], name="head"),
        *tail,
    ]
    extra = {"eps": np.float32(1e-5).reshape(1), "ratio": np.float32(0.5).reshape(()), "yes": np.array(True),
             "once": np.array([1, 1], np.int64)}  # fmt: skip
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "frost",
        [helper.make_tensor_value_info("window", TensorProto.FLOAT, [rows, 5, 24])],
        [helper.make_tensor_value_info("low", TensorProto.FLOAT, [rows, 1])],
        [numpy_helper.from_array(v, name) for name, v in (WEIGHTS | extra).items() if name in used],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


STATISTICS = ["c", "gain", "shift", "mean", "variance"]
EVAL = export(helper.make_node("BatchNormalization", STATISTICS, ["n"], name="norm"))
# As torch exports it where eval() was forgotten: running statistics come out as further outputs.
TRAIN = export(
    helper.make_node("BatchNormalization", STATISTICS, ["n", "rm", "rv"], name="norm", training_mode=1),
)
# The same written out: over batch and time, so that no operator is left that says "training".
FOLDED = export(
    helper.make_node("ReduceMean", ["c"], ["m"], axes=[0, 2]),
    helper.make_node("Sub", ["c", "m"], ["d"]),
    helper.make_node("Mul", ["d", "d"], ["dd"]),
    helper.make_node("ReduceMean", ["dd"], ["v"], axes=[0, 2]),
    helper.make_node("Add", ["v", "eps"], ["ve"]),
    helper.make_node("Sqrt", ["ve"], ["s"]),
    helper.make_node("Div", ["d", "s"], ["n"]),
)
# onnxruntime's optimizer takes this one out, another provider may not: only the graph tells.
DROPPING = export(
    helper.make_node("BatchNormalization", STATISTICS, ["d"], name="norm"),
    helper.make_node("Dropout", ["d", "ratio", "yes"], ["n"], name="drop"),
)
NOISY = export(
    helper.make_node("BatchNormalization", STATISTICS, ["d"], name="norm"),
    helper.make_node("RandomNormalLike", ["d"], ["noise"]),
    helper.make_node("Add", ["d", "noise"], ["n"]),
)
SINGLE = export(
    helper.make_node("BatchNormalization", STATISTICS, ["n"], name="norm"),
    tail=(helper.make_node("Reshape", ["y", "once"], ["low"], name="reshape"),),
)


def seen(model: onnx.ModelProto, *, trained: onnx.ModelProto = EVAL, facts: Facts = FACTS) -> tuple[Finding, ...]:
    """The findings of a model against the record of the model that was trained."""
    answered = open_session(trained.SerializeToString())({"window": TENSOR})["low"]
    infer = open_session(model.SerializeToString())
    return lint(model, facts, evidence=Evidence(infer, "window", TENSOR, "low", answered))


def ids(found: tuple[Finding, ...]) -> set[str]:
    return {finding.id for finding in found if finding.severity == "error"}


def test_an_export_in_evaluation_mode_has_no_findings() -> None:
    assert seen(EVAL) == ()


def test_a_training_mode_export_is_refused_although_it_loads_and_runs() -> None:
    onnx.checker.check_model(TRAIN, full_check=True)
    answer = open_session(TRAIN.SerializeToString())({"window": TENSOR[:4]})["low"]
    assert answer.shape == (4, 1)
    assert np.isfinite(answer).all()
    found = seen(TRAIN)
    assert {"training-mode", "batch-dependent"} <= ids(found)
    assert "training_mode = 1" in str(next(finding for finding in found if finding.id == "training-mode"))


def test_what_was_folded_is_seen_by_running_one_and_many() -> None:
    found = seen(FOLDED)
    assert ids(found) == {"batch-dependent"}
    assert "among 16" in found[0].found
    assert "from the first" in found[0].found


def test_one_checkpoint_for_another_is_seen_by_the_record() -> None:
    other = onnx.ModelProto()
    other.CopyFrom(EVAL)
    head = next(tensor for tensor in other.graph.initializer if tensor.name == "head")
    head.CopyFrom(numpy_helper.from_array(WEIGHTS["head"] * 1.01, "head"))
    assert ids(seen(other)) == {"reference-apart"}


def test_dropout_that_only_the_optimizer_hides_is_seen_in_the_graph() -> None:
    assert ids(seen(DROPPING)) == {"training-mode"}


def test_what_draws_at_random_is_seen_by_asking_twice() -> None:
    found = seen(NOISY)
    assert ids(found) == {"not-repeatable"}
    assert "between two runs of the same cases" in found[0].found


def test_a_batch_fixed_within_the_graph_is_seen_by_running_many() -> None:
    found = seen(SINGLE)
    assert ids(found) == {"fixed-batch"}
    assert "a batch of 16 fails, where one case runs" in found[0].found
    assert seen(SINGLE, facts=dataclasses.replace(FACTS, batch_sizes=(1,))) == ()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_number_is_apart_from_every_number(value: float) -> None:
    def infer(feeds: object) -> dict[str, np.ndarray]:
        return {"low": np.full((len(feeds["window"]), 1), value)}  # type: ignore[index]

    found = lint(EVAL, FACTS, evidence=Evidence(infer, "window", TENSOR, "low", np.zeros((40, 1))))
    assert ids(found) == {"reference-apart"}
