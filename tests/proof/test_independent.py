"""All 169 answers of the recorded station, computed here with numpy and constants of our own, against the program's."""

import csv
import json
from datetime import datetime

import numpy as np
import onnxruntime

from tests.proof.station import FROST, ROOT, STATION, answers, ledger, run

# By definition: the inch is 25.4 mm, the mile 1609.344 m; conventional mercury has 13595.1 kg/m3 under 9.80665 m/s2.
F_SCALE, F_OFFSET = 5 / 9, 32
HPA_PER_INHG = 13595.1 * 9.80665 * 0.0254 / 100
M_S_PER_MPH = 1609.344 / 3600


def _answers_computed_here():
    with STATION.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[1:] == [
        "air_temperature_degF", "relative_humidity_pct", "station_pressure_inHg", "wind_speed_mph", "solar_irradiance_W_m2",
    ]  # fmt: skip
    fahrenheit, humidity, mercury, miles, sun = np.array([row[1:] for row in rows], dtype=np.float64).T
    raw = np.stack(
        [(fahrenheit - F_OFFSET) * F_SCALE, humidity, mercury * HPA_PER_INHG, miles * M_S_PER_MPH, sun], axis=-1
    )
    constants = json.loads((ROOT / "examples" / "frost" / "constants.json").read_text())
    mean = np.array([channel["mean"] for channel in constants["channels"]])
    std = np.array([channel["std"] for channel in constants["channels"]])
    scaled = (raw - mean) / std
    session = onnxruntime.InferenceSession(FROST / "model_int8.onnx", providers=["CPUExecutionProvider"])
    lows, flags, state = [], [], False
    for end in range(24, len(rows) + 1):
        tensor = scaled[end - 24 : end].T[None].astype(np.float32)
        (output,) = session.run(None, {session.get_inputs()[0].name: tensor})
        low = float(output.reshape(-1)[0]) * 9.878963470458984 + 12.233016014099121
        state = low < 2.0 or (state and low < 2.5)
        lows.append(low)
        flags.append(state)
    return [row[0] for row in rows[23:]], lows, flags


def test_every_answer_of_the_recorded_station_is_the_one_computed_without_our_code(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    public = answers(done.stdout)
    times, lows, flags = _answers_computed_here()
    assert len(public) == len(times) == 169
    assert [datetime.fromisoformat(one["time"]) for one in public] == [datetime.fromisoformat(time) for time in times]
    assert [one["low"]["value"] for one in public] == lows
    assert [one["low"]["frost"] for one in public] == flags
    assert {one["low"]["unit"] for one in public} == {"Cel"}
    assert 0 < sum(flags) < 169
    assert len({one["id"] for one in public}) == 169
    assert [one["seq"] for one in public] == list(range(169))


def test_the_ledgers_say_so_too(tmp_path):
    assert run(tmp_path).returncode == 0
    book = ledger(tmp_path)
    assert book["adds_up"]
    assert book["counts"]["samples"] == {
        "received": 192,
        "accepted": 192,
        "duplicate": 0,
        "rejected": {},
        "dropped": {},
    }
    assert book["counts"]["answers"] == {"due": 169, "published": 169, "refused": {}, "suppressed": {}, "dropped": {}}
