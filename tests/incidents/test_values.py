"""Incidents 22 to 29: numbers, units, labels and columns that were taken for others."""

import base64
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edge_runtime.author.confusable import Quantity, confusable
from edge_runtime.author.lint import lint
from edge_runtime.author.lint_facts import Facts, InputFact, OutputFact
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Model
from edge_runtime.run.api import open_bundle
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.payload import CsvDecode, JsonDecode
from edge_runtime.spec.reading import Rejection
from tests.incidents import made
from tests.incidents.made import Raw
from tests.rig import kinds
from tests.rig.bundles import DEWPOINT, FROST, write_with_manifest

VOLTAGE = kinds.manifest([kinds.taking(made.number("voltage", "V", 200, 260))])
AIR = made.number("air", "Cel", -30, 45) | {"physical": {"min": -60, "max": 60}}
TEMPERATURE = kinds.manifest([kinds.taking(AIR)])


def _line(one: Manifest, decode: Any, channels: Mapping[str, ChannelBinding], run: Any = None) -> Line:
    model = Model(one, one.variants[0], "d" * 64, run or kinds.constant([1.0]))
    return Line(
        name="made", model=model, contract=Contract(one.channels, channels),
        framing=make_framing(LinesFraming(), decode.encoding), decoder=make_decoder(decode, channels),
    )  # fmt: skip


def _refusal(one: Manifest, channel: ChannelBinding, payload: str) -> Rejection:
    """Why one line of JSON is refused; nothing may be answered."""
    (name,) = (each.name for each in one.channels)
    line = _line(one, JsonDecode(format="json"), {name: channel})
    line.feed(payload.encode() + b"\n", 0)
    line.run()
    assert line.take_answers() == []
    (refused,) = line.take_refused()
    return refused.rejection


@pytest.mark.parametrize(
    "order", [(1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)], ids=["bytes of words", "words", "all bytes"]
)
def test_incident_22_float_in_another_word_order(order: tuple[int, ...]) -> None:
    sent = struct.pack(">f", 239.71)
    (number,) = struct.unpack(">f", bytes(sent[at] for at in order))
    refused = _refusal(VOLTAGE, ChannelBinding(field="v", unit="V"), f'{{"v": {number!r}}}')
    assert refused.reason == "beyond_physical"
    assert (
        refused.todo
        == "with its bytes in another order it is 239.71 V: correct the byte order where registers are read"
    )


def test_incident_22_packed_numbers_big_endian() -> None:
    one = kinds.manifest(
        [kinds.taking(made.number("trace", "V", 200, 260, shape=[4]), shape=["batch", 4], axes=["batch", "point"])]
    )
    binding = ChannelBinding(field="v", unit="V", read="base64", dtype="float32")
    text = base64.b64encode(np.full(4, 239.71, dtype=">f4").tobytes()).decode()
    assert _refusal(one, binding, f'{{"v": "{text}"}}').reason == "beyond_physical"


def test_incident_23_converted_to_fahrenheit_twice() -> None:
    twice = 79.5 * 1.8 + 32
    refused = _refusal(TEMPERATURE, ChannelBinding(field="t", unit="[degF]"), f'{{"t": {twice}}}')
    assert refused.reason == "beyond_physical"
    assert "79.5 Cel" in refused.found
    assert (
        refused.todo
        == "it fits if it was converted to [degF] twice: 79.5 [degF] is 26.3889 Cel; convert in one place only"
    )
    report = boot(FROST, make_setting(bindings={"roof": _frost_bindings("[degF]")})).report
    assert report.facts["conversions"]["roof"][0].startswith("air_temperature: [degF] -> Cel (x * 0.5555555555555556")


def _frost_bindings(unit: str) -> dict[str, ChannelBinding]:
    units = {
        "air_temperature": unit, "relative_humidity": "%", "station_pressure": "hPa", "wind_speed": "m/s",
        "solar_irradiance": "W/m2",
    }  # fmt: skip
    return {name: ChannelBinding(field=name, unit=one) for name, one in units.items()}


@pytest.mark.parametrize(("unit", "number"), [("K", 68.0), ("Cel", 104.0)], ids=["K for degF", "Cel for degF"])
def test_incident_24_right_number_under_the_wrong_unit(unit: str, number: float) -> None:
    refused = _refusal(TEMPERATURE, ChannelBinding(field="t", unit=unit), f'{{"t": {number}}}')
    assert refused.reason == "beyond_physical"
    assert "the value fits [degF]" in refused.todo


def test_incident_25_acceleration_in_g_or_in_metres_per_second_squared() -> None:
    band = (-16.0, 16.0)
    quantity = Quantity("acceleration", "[g]", band, band, (-20.0, 20.0), assumed=True)
    facts = Facts(model="m", precision="float32", batch_sizes=(1,), inputs=(), outputs=())
    found = {one.id: one for one in lint(made.dense(1, 1, ["batch", 1]), facts, quantities=[quantity])}
    assert found["confusable-unit"].severity == "error"
    (row,) = [one for one in confusable([quantity]) if one.sibling == "m/s2"]
    assert row.tolerated > 0.1, "no range sees it: that is why the unit has to be declared"
    one = kinds.manifest([kinds.taking(made.number("acceleration", "[g]", -16, 16))])
    assert _refusal(one, ChannelBinding(field="a"), '{"a": 9.81}').reason == "undeclared_unit"


def test_incident_26_int8_scale_skipped_or_doubled(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("ReduceMean", ["f"], ["y"])]
    model = made.model(nodes, ["batch", 2], ["batch", 1], kind=TensorProto.INT8)
    facts = Facts(
        model="m", precision="float32", batch_sizes=(1, 4), inputs=(InputFact("x", "float32", ("batch", 2)),),
        outputs=(OutputFact("y", values=1),),
    )  # fmt: skip
    assert {one.id: one.severity for one in lint(model, facts)}["port-dtype"] == "error"
    raw = made.manifest([made.number("a", "V", 0, 9), made.number("b", "V", 0, 9)], ["batch", 2], ["batch", "channel"])
    plain = made.dense(2, 1, ["batch", 2])
    stored = made.goldens(raw, plain, made.CHANCE.uniform(0, 9, (4, 1, 2)))
    assert made.refused_by(made.booted(made.write(tmp_path, raw, model, stored))) == "provider"
    one = kinds.manifest([kinds.taking(kinds.opaque(dtype="int8"), dtype="int8")])
    assert _refusal(one, ChannelBinding(field="q"), '{"q": 0.37}').reason == "beyond_dtype"


LABELS = ["background", "cat", "dog"]
SHAPE = ["batch", 2]
CLASSES = made.manifest(
    [made.number("a", "V", -9, 9), made.number("b", "V", -9, 9)], SHAPE, ["batch", "channel"],
    outputs=[{"tensor": "y", "name": "kind", "meaning": "a class", "form": "label", "labels": LABELS}],
)  # fmt: skip


@pytest.mark.parametrize(
    "labels",
    [["cat", "dog", "background"], LABELS[1:], ["tench", *LABELS]],
    ids=["rotated", "one too few", "one too many"],
)
def test_incident_28_labels_off_by_one(labels: list[str], tmp_path: Path) -> None:
    model = made.dense(2, 3, SHAPE)
    stored = made.goldens(CLASSES, model, made.CHANCE.uniform(-9, 9, (12, 1, 2)))
    assert made.booted(made.write(tmp_path, CLASSES, model, stored)).state == "OPERATIONAL"

    def mislabelled(raw: Raw) -> None:
        raw["outputs"][0]["labels"] = labels

    report = made.booted(made.write(tmp_path, made.changed(CLASSES, mislabelled), model, stored))
    assert made.refused_by(report) == "golden_answer"
    if len(labels) != len(LABELS):
        facts = Facts(
            model="m",
            precision="float32",
            batch_sizes=(1, 4),
            inputs=(),
            outputs=(OutputFact("y", labels=len(labels)),),
        )
        assert {one.id: one.severity for one in lint(model, facts)}["label-count"] == "error"


def test_incident_29_two_columns_exchanged(tmp_path: Path) -> None:
    one = kinds.manifest(
        [kinds.taking(made.number("acceleration", "m/s2", -9, 9), made.number("rate", "rad/s", -9, 9))]
    )
    channels = {
        "acceleration": ChannelBinding(field="acc", unit="m/s2"), "rate": ChannelBinding(field="gyr", unit="rad/s"),
    }  # fmt: skip
    given = []
    for text in (b"acc,gyr\n1,2\n", b"gyr,acc\n2,1\n"):
        seen: list[Any] = []

        def run(feeds: Any, seen: list[Any] = seen) -> Any:
            seen.append(feeds["x"].tolist())
            return {"y": np.ones((1, 1), np.float32)}

        line = _line(one, CsvDecode(format="csv", columns="header"), channels, run)
        line.feed(text, 0)
        line.run()
        given.append(seen)
    assert given[0] == given[1] == [[[1.0, 2.0]]], "bound by name, whatever the order of the columns"
    swapped = {"acceleration": channels["rate"], "rate": channels["acceleration"]}
    with pytest.raises(Exception, match="'rad/s'; expected a unit that converts to m/s2"):
        Contract(one.channels, swapped)

    def exchange(raw: Raw) -> None:
        names = raw["inputs"][0]["channels"]
        names[0]["name"], names[1]["name"] = names[1]["name"], names[0]["name"]

    path = write_with_manifest(DEWPOINT, tmp_path / "b", exchange)
    assert made.refused_by(made.booted(path)) in {"units", "golden_tensor", "goldens"}
    assert open_bundle(DEWPOINT).manifest.channels[0].name == "air_temperature"
