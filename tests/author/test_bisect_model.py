"""The first node that is off: among models, among providers, in batches, and where only a fused kernel is wrong."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edge_runtime.author.bisect_model import Fed, FoundNode, Room, Side, first_in_batches, first_node
from edge_runtime.engine.session import open_session
from edge_runtime.flow.model import Infer
from edge_runtime.spec.variant import Tolerance
from tests.author.mutate_bundles import onnx_model

FED = Fed({"x": np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32)}, (1, 4), {})
SAME = Room(None)
FLOAT = Room(Tolerance(kind="float", rtol=1e-5, atol=1e-5, evidence="a test"))
WEIGHTS = {
    "w1": np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32),
    "w2": np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32),
}
NODES = (
    ("MatMul", ["x", "w1"], ["first"]), ("Tanh", ["first"], ["active"]), ("Relu", ["active"], ["kept"]),
    ("MatMul", ["kept", "w2"], ["y"]),
)  # fmt: skip


def model(
    weights: Mapping[str, NDArray[Any]] = WEIGHTS, nodes: tuple[tuple[str, list[str], list[str]], ...] = NODES
) -> bytes:
    made = [helper.make_node(operator, taken, given, name=f"n_{given[0]}") for operator, taken, given in nodes]
    return onnx_model(made, {"x": (4,)}, {"y": (2,)}, weights)


def found(suspect: bytes, *, open_: Callable[[bytes], Infer] = open_session, room: Room = SAME) -> FoundNode | None:
    return first_node(Side(suspect, open_), Side(model(), open_session), FED, room, lambda _: True)


def named(one: FoundNode | None) -> tuple[str, str, tuple[str, ...]]:
    assert one is not None
    return one.name, one.operator, one.differs


def test_equal_models() -> None:
    assert found(model()) is None


def test_a_weight() -> None:
    one = found(model({**WEIGHTS, "w2": WEIGHTS["w2"] * np.float32(1.001)}))
    assert named(one) == ("n_y", "MatMul", ("constant w2",))
    assert one is not None
    assert one.agree == 3
    assert "beyond in 24 of 24 numbers" in one.measured


def test_another_operator() -> None:
    nodes = (NODES[0], ("Sigmoid", ["first"], ["active"]), *NODES[2:])
    assert named(found(model(nodes=nodes))) == ("n_active", "Tanh", ("operator Sigmoid, not Tanh",))


def test_a_node_that_is_not_there() -> None:
    nodes = (*NODES[:2], ("MatMul", ["active", "w2"], ["y"]))
    assert named(found(model(nodes=nodes))) == ("n_kept", "Relu", ("it is not there",))


def test_an_input_from_elsewhere() -> None:
    nodes = (*NODES[:2], ("Relu", ["first"], ["kept"]), NODES[3])
    assert named(found(model(nodes=nodes))) == ("n_kept", "Relu", ("input first, not active",))


def miscomputing(name: str, factor: float, *, but_shown: bool = False) -> Callable[[bytes], Infer]:
    """A provider that gives ``factor`` times one tensor, with ``but_shown`` only where that is no output."""

    def opened(data: bytes) -> Infer:
        changed = onnx.load_model_from_string(data)
        shown = name in {value.name for value in changed.graph.output}
        nodes = []
        for node in changed.graph.node:
            nodes.append(node)
            if name in node.output and not (but_shown and shown):
                node.output[list(node.output).index(name)] = "right"
                nodes.append(helper.make_node("Mul", ["right", "much"], [name]))
        kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del changed.graph.node[:]
        changed.graph.node.extend(kept)
        changed.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "much"))
        return open_session(changed.SerializeToString())

    return opened


@pytest.mark.parametrize(("tensor", "operator"), [("first", "MatMul"), ("active", "Tanh"), ("y", "MatMul")])
def test_a_provider(tensor: str, operator: str) -> None:
    one = found(model(), open_=miscomputing(tensor, 1.01), room=FLOAT)
    assert named(one) == (f"n_{tensor}", operator, ())


def test_a_provider_within_its_tolerance() -> None:
    assert found(model(), open_=miscomputing("active", 1 + 2e-6), room=FLOAT) is None


def test_a_provider_that_is_wrong_where_nobody_looks() -> None:
    """With every node shown the model is right: then one is shown at a time, and all others are left as in service."""
    one = first_node(
        Side(model(), miscomputing("active", 1.5, but_shown=True)), Side(model(), open_session), FED, FLOAT, lambda _: False
    )  # fmt: skip
    assert one is not None
    assert (one.name, one.is_fused) == ("n_kept", True)


def test_what_adds_up_is_passed_over() -> None:
    """The first tensor is off only by what the one before it was off; a later one is off by itself."""
    tight, wide = 1e-6, 4e-6

    def opened(data: bytes) -> Infer:
        alone = len(onnx.load_model_from_string(data).graph.node) == 1
        right = open_session(data)

        def infer(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            given = dict(right(feeds))
            for name, off in (("first", tight / 2), ("active", 0 if alone else wide), ("y", 1e-2)):
                if name in given:
                    given[name] = (given[name] + off).astype(np.float32)
            return given

        return infer

    room = Room(Tolerance(kind="float", rtol=0.0, atol=2e-6, evidence="a test"))
    assert named(found(model(), open_=opened, room=room)) == ("n_y", "MatMul", ())


def test_rows_that_depend_on_their_batch() -> None:
    nodes = (*NODES[:3], ("ReduceMean", ["kept"], ["mean"]), ("Sub", ["kept", "mean"], ["even"]),
             ("MatMul", ["even", "w2"], ["y"]))  # fmt: skip
    one = first_in_batches(Side(model(nodes=nodes), open_session), FED, FLOAT)
    assert named(one) == ("n_even", "Sub", ("its rows depend on the batch they stand in",))
    assert first_in_batches(Side(model(), open_session), FED, FLOAT) is None


@pytest.mark.parametrize(
    ("kind", "dtype", "step", "expected"),
    [
        ({"kind": "steps", "steps": 2}, np.uint8, None, 2.0), ({"kind": "exact"}, np.int8, None, 1.0),
        ({"kind": "steps", "steps": 2}, np.float32, 0.1, 0.25), ({"kind": "exact"}, np.float32, None, 0.03),
        ({"kind": "float", "rtol": 0.1, "atol": 1.0}, np.float32, None, 1.0 + 0.1 * (3 + 3)),
    ],
)  # fmt: skip
def test_room_for_another_provider(kind: dict[str, Any], dtype: Any, step: float | None, expected: float) -> None:
    room = Room(Tolerance(evidence="a test", **kind))
    allowed, _ = room.allowed(np.array([0, 3], dtype), step)
    assert allowed[1] == pytest.approx(expected)


def test_no_room_for_whole_numbers_of_the_same_kernel() -> None:
    allowed, limit = Room(None).allowed(np.array([0, 3], np.uint8), None)
    assert (allowed.tolist(), limit) == ([0.0, 0.0], "none")
