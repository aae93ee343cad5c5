"""Answers as Sparkplug B: every payload is read by Google's protobuf, none by the code under test."""

import json
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.encode import make_encoder
from edge_runtime.flow.encode_sparkplug import answer_line, death, metrics_of, node_metrics, shape_of, stamped
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import CONVERTED, STUCK, Answer, OutputValue
from edge_runtime.spec.sink import SparkplugDevice
from tests.rig import sparkplug_pb as pb

T0 = 1_700_000_000_000
OUTPUTS = (
    Output.model_validate({
        "name": "low", "meaning": "low", "tensor": "y", "unit": "Cel",
        "flags": [{"name": "frost", "side": "below", "on": 0.0, "off": 1.0}],
    }),
    Output.model_validate({"name": "kind", "meaning": "k", "tensor": "k", "form": "label", "labels": ["a", "b"]}),
    Output.model_validate({"name": "bands", "meaning": "b", "tensor": "v", "form": "vector", "unit": "nm"}),
)  # fmt: skip
ANSWER = Answer(
    "roof", 7, T0 * 1_000_000 + 999, "0123",
    (OutputValue("low", -1.25, "Cel", (("frost", True),)), OutputValue("kind", "b", "1", (), 0.75),
     OutputValue("bands", (1.0, 2.5), "nm")),
    CONVERTED | STUCK, ("t",),
)  # fmt: skip
SHAPE = shape_of(OUTPUTS)


def told(answer: Answer = ANSWER) -> tuple[str, int, dict[str, Any]]:
    stream, time_ms, values = json.loads(answer_line(answer))
    return stream, time_ms, values


def read(metrics: bytes) -> dict[str, Any]:
    return {one.name: one for one in pb.parsed(stamped(metrics, T0, 3)).metrics}


def test_a_birth_names_types_and_units_and_has_no_value_yet() -> None:
    born = read(metrics_of(SHAPE, {}, T0, birth=True))
    assert {name: one.datatype for name, one in born.items()} == {
        "low": 10, "low/frost": 11, "kind": 12, "kind/score": 10, "bands": 30, "flags": 12, "stream": 12, "seq": 4, "id": 12,
    }  # fmt: skip
    assert all(one.is_null and one.timestamp == T0 and one.WhichOneof("value") is None for one in born.values())
    units = {name: list(one.properties.values) for name, one in born.items() if one.HasField("properties")}
    assert {name: [one.string_value for one in values] for name, values in units.items()} == {
        "low": ["Cel"],
        "bands": ["nm"],
    }
    assert list(born["low"].properties.keys) == ["engUnit"]
    assert born["low"].properties.values[0].type == pb.STRING


def test_data_has_names_and_values_and_neither_types_nor_aliases() -> None:
    stream, time_ms, values = told()
    assert (stream, time_ms) == ("roof", T0)
    data = read(metrics_of(SHAPE, values, time_ms, birth=False))
    assert data["low"].double_value == -1.25
    assert data["low/frost"].boolean_value is True
    assert (data["kind"].string_value, data["kind/score"].double_value) == ("b", 0.75)
    assert struct.unpack("<2d", data["bands"].bytes_value) == (1.0, 2.5)
    assert (data["flags"].string_value, data["seq"].long_value, data["id"].string_value) == (
        "converted,stuck",
        7,
        "0123",
    )
    assert data["stream"].string_value == "roof"
    for one in data.values():
        assert (one.timestamp, one.HasField("datatype"), one.HasField("alias"), one.HasField("is_historical")) == (
            T0, False, False, False,
        )  # fmt: skip


def test_a_birth_may_have_the_last_values_and_late_data_says_so() -> None:
    born = read(metrics_of(SHAPE, told()[2], T0, birth=True))
    assert (born["low"].double_value, born["low"].is_null, born["low"].datatype) == (-1.25, False, 10)
    late = read(metrics_of(SHAPE, told()[2], T0, birth=False, historical=True))
    assert all(one.is_historical for one in late.values())


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 2**62), st.text(max_size=30))
def test_numbers_and_texts_arrive_as_they_were(value: float, seq: int, stream: str) -> None:
    answer = Answer(stream, seq, T0 * 1_000_000, "x", (OutputValue("low", value, "Cel", (("frost", False),)),))
    data = read(metrics_of(SHAPE, told(answer)[2], T0, birth=False))
    assert (data["low"].double_value, data["seq"].long_value, data["stream"].string_value) == (value, seq, stream)
    assert set(data) == {"low", "low/frost", "flags", "stream", "seq", "id"}


def test_node_and_death_share_the_number_of_their_connection() -> None:
    born = pb.parsed(stamped(node_metrics(200, "run-1", T0), T0, 0))
    metrics = {one.name: one for one in born.metrics}
    assert (born.seq, born.timestamp) == (0, T0)
    assert metrics["bdSeq"].long_value == 200
    assert (metrics["Node Control/Rebirth"].datatype, metrics["Node Control/Rebirth"].boolean_value) == (
        pb.BOOLEAN,
        False,
    )
    assert metrics["Properties/run"].string_value == "run-1"
    dead = pb.parsed(death(200, T0))
    assert not dead.HasField("seq")
    assert [(one.name, one.long_value, one.datatype) for one in dead.metrics] == [("bdSeq", 200, pb.INT64)]


def test_the_sink_s_encoder_is_that_line() -> None:
    assert make_encoder(SparkplugDevice(), "r", OUTPUTS)(ANSWER) == answer_line(ANSWER)
