"""The same station in other units gives the same answers; an undeclared unit is refused, or tells on itself."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Model
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.payload import CsvDecode, TimeField
from tests.proof.station import COLUMNS, FROST, STATION, US_UNITS, answers, edited, ledger, refused, rewritten, run

AIR = "air_temperature_degF"


def _fahrenheit_to_celsius(text):
    return (float(text) - 32) * 5 / 9


def _kelvin(_row, column, text):
    return f"{_fahrenheit_to_celsius(text) + 273.15:.10f}" if column == AIR else text


def _metric(_row, column, text):
    factors = {"station_pressure_inHg": 33.86388640341, "wind_speed_mph": 1.609344}
    if column == AIR:
        return f"{_fahrenheit_to_celsius(text):.10f}"
    return f"{float(text) * factors[column]:.10f}" if column in factors else text


def _mixed(_row, column, text):
    factors = {
        "relative_humidity_pct": 0.01, "station_pressure_inHg": 3386.388640341, "wind_speed_mph": 1609.344 / 1852,
        "solar_irradiance_W_m2": 0.001,
    }  # fmt: skip
    return f"{float(text) * factors[column]:.14g}" if column in factors else _kelvin(0, column, text)


DECLARED = {
    "degF": (lambda _row, _column, text: text, {}),
    "K": (_kelvin, {"air_temperature": "K"}),
    "metric": (_metric, {"air_temperature": "Cel", "station_pressure": "mbar", "wind_speed": "km/h"}),
    "mixed": (
        _mixed,
        {"air_temperature": "K", "relative_humidity": "1", "station_pressure": "Pa", "wind_speed": "[kn_i]",
         "solar_irradiance": "kW/m2"},
    ),
}  # fmt: skip


def _public(tmp_path, name):
    change, units = DECLARED[name]
    folder = tmp_path / name
    folder.mkdir()
    (folder / "stream.csv").write_bytes(rewritten(change))
    done = run(folder, "stream.csv", units=US_UNITS | units)
    assert done.returncode == 0, done.stderr
    return [(one["time"], one["seq"], one["low"]) for one in answers(done.stdout)]


def test_declared_units_give_equal_answers(tmp_path):
    fahrenheit = _public(tmp_path, "degF")
    assert len(fahrenheit) == 169
    for name in ("K", "metric", "mixed"):
        assert _public(tmp_path, name) == fahrenheit


def _first_quantizer():
    """Scale, zero point of the model's first QuantizeLinear, read with onnx."""
    model = onnx.load(FROST / "model_int8.onnx")
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    assert node.input[0] == model.graph.input[0].name
    return constants[node.input[1]], constants[node.input[2]]


def _int8_bytes(name):
    """What the model's first QuantizeLinear makes of every window, by its ONNX definition (round half to even)."""
    change, units = DECLARED[name]
    tensors = []

    def record(feeds):
        (tensor,) = feeds.values()
        tensors.append(tensor.copy())
        return {"low": np.zeros((len(tensor), 1), dtype=np.float32)}

    manifest = parse((FROST / "manifest.json").read_bytes())
    bound = {c: ChannelBinding(field=COLUMNS[c], unit=unit) for c, unit in (US_UNITS | units).items()}
    line = Line(
        name="frost", model=Model(manifest, manifest.variants[0], "0" * 64, record),
        contract=Contract(manifest.channels, bound), framing=make_framing(LinesFraming(), "utf-8"),
        decoder=make_decoder(
            CsvDecode(format="csv", columns="header", time=TimeField(field="time", format="iso8601")), bound
        ),
    )  # fmt: skip
    line.feed(rewritten(change), 0)
    line.run()
    scale, zero = _first_quantizer()
    window = np.concatenate(tensors)
    assert window.shape == (169, 5, 24)
    return np.clip(np.rint(window / scale) + zero, 0, 255).astype(np.uint8)


def test_declared_units_give_the_same_int8_bytes():
    fahrenheit = _int8_bytes("degF")
    assert len(np.unique(fahrenheit)) > 50
    for name in ("K", "metric", "mixed"):
        assert np.array_equal(_int8_bytes(name), fahrenheit), name


def test_an_undeclared_unit_is_refused_at_the_first_sample(tmp_path):
    done = run(tmp_path, units={**US_UNITS, "air_temperature": None})
    assert (done.returncode, done.stdout) == (65, b"")
    book = ledger(tmp_path)
    assert book["adds_up"]
    assert book["counts"]["samples"]["accepted"] == 0
    assert book["counts"]["samples"]["rejected"] == {"undeclared_unit": 192}
    first = refused(tmp_path)[0]
    assert first["raw"].startswith("2025-01-28T00:00:00Z,")
    assert 'channels.air_temperature.unit = "Cel"' in first["todo"]


def _assuming(tmp_path):
    """frost with an author who lets undeclared temperatures pass as what the contract has; all goldens kept but one."""

    def change(manifest):
        manifest["inputs"][0]["channels"][0]["when_undeclared"] = "assume"
        kept = [one for one in manifest["negative_goldens"] if one["fault"] != "undeclared"]
        assert len(kept) == len(manifest["negative_goldens"]) - 1
        manifest["negative_goldens"] = kept

    return edited(FROST, tmp_path / "assuming", change)


def test_undeclared_kelvin_that_is_assumed_to_be_celsius_is_refused_at_every_sample(tmp_path):
    (tmp_path / "kelvin.csv").write_bytes(rewritten(_kelvin))
    done = run(tmp_path, "kelvin.csv", bundle=_assuming(tmp_path), units={**US_UNITS, "air_temperature": None})
    assert (done.returncode, done.stdout) == (65, b""), done.stderr
    assert ledger(tmp_path)["counts"]["samples"]["rejected"] == {"beyond_physical": 192}
    letters = refused(tmp_path)
    assert 'the value fits K: declare it, e.g. channels.air_temperature.unit = "K"' in letters[0]["todo"]
    assert all("fits K" in letter["todo"] for letter in letters if letter["raw"])


def test_undeclared_fahrenheit_that_is_assumed_passes_as_far_as_the_ranges_say(tmp_path):
    (tmp_path / "station.csv").write_bytes(STATION.read_bytes())
    done = run(tmp_path, "station.csv", bundle=_assuming(tmp_path), units={**US_UNITS, "air_temperature": None})
    assert done.returncode == 0, done.stderr
    physical = json.loads((FROST / "manifest.json").read_bytes())["inputs"][0]["channels"][0]["physical"]
    rows = [line.split(",") for line in STATION.read_text().splitlines()[1:]]
    passes = [physical["min"] <= float(row[1]) <= physical["max"] for row in rows]
    assert 0 < sum(passes) < 192
    samples = ledger(tmp_path)["counts"]["samples"]
    assert (samples["accepted"], samples["rejected"]) == (sum(passes), {"beyond_physical": 192 - sum(passes)})
    whole = [end for end in range(24, 193) if all(passes[end - 24 : end])]
    given = answers(done.stdout)
    assert [one["time"] for one in given] == [rows[end - 1][0] for end in whole]
    assert all("assumed_unit" in one["flags"] for one in given)
    first = next(letter for letter in refused(tmp_path) if letter["reason"] == "beyond_physical")
    assert first["raw"].startswith(rows[passes.index(False)][0])
    assert "the value fits [degF]" in first["todo"]


@pytest.mark.parametrize(
    ("channel", "unit"), [("air_temperature", "hPa"), ("wind_speed", "m"), ("solar_irradiance", "W")]
)
def test_a_wrong_dimension_is_refused_at_boot(tmp_path, channel, unit):
    done = run(tmp_path, units=US_UNITS | {channel: unit})
    assert (done.returncode, done.stdout) == (78, b"")
    text = done.stderr.decode()
    assert "bindings: " in text
    assert channel in text
    assert repr(unit) in text
