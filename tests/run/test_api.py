"""`edge_runtime.open`: the shipped bundles from Python, with the refusals of the line and of the boot."""

import math
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import edge_runtime
from edge_runtime.errors import BundleError, ConfigurationError, SampleRefused
from edge_runtime.flow.postprocess import Unusable
from edge_runtime.run.api import OpenModel, Sample, Value
from edge_runtime.spec.result import flag_names
from tests.rig.bundles import DEWPOINT, FROST, ROOT, files_of, write_with_manifest

METRIC = {"air_temperature": "Cel", "relative_humidity": "%", "station_pressure": "hPa"}
START = datetime(2025, 1, 28, tzinfo=UTC)
GOOD: dict[str, Value] = {"air_temperature": 20.0, "relative_humidity": 50.0, "station_pressure": 990.0}


@pytest.fixture(scope="module")
def shared() -> OpenModel:
    return edge_runtime.open(DEWPOINT, units=METRIC)


@pytest.fixture
def dewpoint() -> OpenModel:
    return edge_runtime.open(str(DEWPOINT), units=METRIC)


def _magnus(celsius: float, percent: float) -> float:
    gamma = math.log(percent / 100) + 17.62 * celsius / (243.12 + celsius)
    return 243.12 * gamma / (17.62 - gamma)


def test_agrees_with_the_magnus_formula(shared: OpenModel) -> None:
    for celsius, percent in ((0.0, 80.0), (12.5, 60.0), (20.0, 50.0), (30.0, 70.0)):
        (answer,) = shared.feed(GOOD | {"air_temperature": celsius, "relative_humidity": percent})
        (output,) = answer.outputs
        assert (output.name, output.unit) == ("dew_point", "Cel")
        assert abs(output.value - _magnus(celsius, percent)) < 1.0


def test_units_of_values_and_of_open_give_the_same_answer(dewpoint: OpenModel) -> None:
    us = edge_runtime.open(
        DEWPOINT, units={"air_temperature": "°F", "relative_humidity": "%", "station_pressure": "inHg"},
        vocabulary="home-assistant",
    )  # fmt: skip
    values = {"air_temperature": 68.0, "relative_humidity": 50.0, "station_pressure": 29.5}
    (there,) = us.feed(values, time=START)
    given: dict[str, Value] = {
        "air_temperature": (68.0, "[degF]"), "relative_humidity": (np.float64(50), "%"),
        "station_pressure": (29.5, "[in_i'Hg]"),
    }  # fmt: skip
    (here,) = dewpoint.feed(given, time=START)
    assert here == there
    assert flag_names(here.flags) == ["converted"]
    assert "air_temperature: [degF] -> Cel" in us.conversions[0]


def test_report_manifest_and_time(dewpoint: OpenModel) -> None:
    assert dewpoint.report.state == "OPERATIONAL"
    assert dewpoint.manifest.id == "dewpoint"
    eastern = timezone(timedelta(hours=-5))
    (answer,) = dewpoint.feed(GOOD, time=datetime(2025, 1, 28, 1, 2, 3, 456789, tzinfo=eastern), stream="roof")
    assert answer.time_ns == 1738044123456789000
    assert (answer.stream, answer.seq) == ("roof", 0)
    assert dewpoint.feed(GOOD, time=datetime(2025, 1, 28, 6, 2, 3, 456789, tzinfo=UTC), stream="roof") == []
    assert dewpoint.ledger.duplicate == 1


def test_a_window_fills(frost_rows: list[Sample]) -> None:
    frost = edge_runtime.open(FROST)
    for sample in frost_rows[:23]:
        assert frost.feed(sample.values, time=sample.time) == []
    (answer,) = frost.feed(frost_rows[23].values, time=frost_rows[23].time)
    assert answer.outputs[0].flags[0][0] == "frost"


def test_a_gap_refuses_windows_until_they_are_whole(frost_rows: list[Sample]) -> None:
    frost = edge_runtime.open(FROST)
    for sample in frost_rows[:24]:
        frost.feed(sample.values, time=sample.time)
    with pytest.raises(SampleRefused) as caught:
        frost.feed(frost_rows[25].values, time=frost_rows[25].time)
    assert caught.value.reason == "gap"
    assert frost.ledger.adds_up(pending_samples=0, pending_answers=0)


def test_many_at_once_are_the_same_answers(frost_rows: list[Sample]) -> None:
    one_by_one = edge_runtime.open(FROST)
    singly = [answer for row in frost_rows for answer in one_by_one.feed(row.values, time=row.time)]
    frost = edge_runtime.open(FROST)
    together = frost.feed_many(frost_rows)
    assert len(frost_rows) == 192
    assert len(together.answers) == 169
    assert together == (list(enumerate(singly, 23)), [])
    assert frost.ledger.as_dict() == one_by_one.ledger.as_dict()


def test_many_with_refusals(dewpoint: OpenModel) -> None:
    outcome = dewpoint.feed_many([GOOD, GOOD | {"air_temperature": None}, {"humidity": 1.0}, GOOD])
    assert [row for row, _ in outcome.answers] == [0, 3]
    assert [(row, refusal.reason) for row, refusal in outcome.refused] == [(1, "missing"), (2, "unknown_channel")]
    assert dewpoint.ledger.adds_up(pending_samples=0, pending_answers=0)
    assert dewpoint.feed_many([]) == ([], [])


def test_a_window_s_answer_has_the_row_that_completed_it(frost_rows: list[Sample]) -> None:
    frost = edge_runtime.open(FROST)
    rows: list[Sample | Mapping[str, object]] = list(frost_rows[:60])
    rows[30] = frost_rows[29]  # a repeated sample, and with it an hour that is left out
    rows.insert(5, {"nonsense": 1.0})
    outcome = frost.feed_many(rows)
    refused = [(row, refusal.reason) for row, refusal in outcome.refused]
    assert refused == [(5, "unknown_channel"), *((row, "gap") for row in range(32, 55))]
    assert [row for row, _ in outcome.answers] == [*range(24, 31), *range(55, 61)]
    for row, answer in outcome.answers:
        time = rows[row].time
        assert answer.time_ns == time.timestamp() * 1e9
        assert answer.carry == ()


def test_a_window_refused_when_its_batch_runs_has_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model = edge_runtime.open(DEWPOINT, units=METRIC)
    answer = model._line._post.answer
    monkeypatch.setattr(
        model._line._post, "answer",
        lambda made, row, switches: Unusable("not_finite_output", "nan") if row == 1 else answer(made, row, switches),
    )  # fmt: skip
    outcome = model.feed_many([GOOD, GOOD, GOOD | {"air_temperature": None}])
    assert [(row, refusal.reason) for row, refusal in outcome.refused] == [(1, "not_finite_output"), (2, "missing")]
    assert [row for row, _ in outcome.answers] == [0]


REFUSALS: list[tuple[str, Mapping[str, object], str]] = [
    ("unknown_channel", GOOD | {"air_temp": 1.0}, "found 'air_temp'; expected 'air_temperature' perhaps"),
    ("unknown_channel", {"x": 1.0}, "expected air_temperature, relative_humidity, station_pressure"),
    ("missing", {"air_temperature": 20.0}, "channel relative_humidity: found no value"),
    ("missing", GOOD | {"air_temperature": (None, "Cel")}, "channel air_temperature: found no value"),
    ("not_a_number", GOOD | {"air_temperature": "20"}, "found '20'; expected a number, or (number, unit)"),
    ("not_a_number", GOOD | {"air_temperature": True}, "found True"),
    ("not_a_number", GOOD | {"air_temperature": (20.0, "Cel", 1)}, "expected a number, or (number, unit)"),
    ("not_a_number", GOOD | {"air_temperature": ("20", "Cel")}, "found '20'"),
    ("not_finite", GOOD | {"air_temperature": math.nan}, "found nan"),
    ("not_finite", GOOD | {"air_temperature": math.inf}, "found inf"),
    ("wrong_dimension", GOOD | {"air_temperature": (20.0, "m")}, "m measures length and cannot become Cel"),
    ("unknown_unit", GOOD | {"air_temperature": (20.0, "F")}, "'F' is not a unit in vocabulary ucum"),
    ("beyond_physical", GOOD | {"air_temperature": 293.15}, "the value fits K"),
]


@pytest.mark.parametrize(("reason", "values", "words"), REFUSALS)
def test_refusals(shared: OpenModel, reason: str, values: dict[str, Value], words: str) -> None:
    before = shared.ledger.rejected[reason]
    with pytest.raises(SampleRefused) as caught:
        shared.feed(values)
    assert caught.value.reason == reason
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert shared.ledger.rejected[reason] == before + 1
    assert shared.ledger.adds_up(pending_samples=0, pending_answers=0)
    assert len(shared.feed(GOOD)) == 1, "the stream goes on"


def test_undeclared_unit() -> None:
    model = edge_runtime.open(DEWPOINT, units={"relative_humidity": "%", "station_pressure": "hPa"})
    with pytest.raises(SampleRefused) as caught:
        model.feed(GOOD)
    assert caught.value.reason == "undeclared_unit"
    assert caught.value.todo == 'where it is Cel give open units={"air_temperature": "Cel"}, or feed (value, "Cel")'
    with pytest.raises(SampleRefused, match="channel air_temperature: found no value") as caught:
        model.feed({name: value for name, value in GOOD.items() if name != "air_temperature"})
    assert caught.value.reason == "missing"
    (row,) = model.feed_many([GOOD]).refused
    assert "units={" in row[1].todo
    assert len(model.feed(GOOD | {"air_temperature": (20.0, "Cel")})) == 1


def test_undeclared_unit_in_another_vocabulary() -> None:
    with pytest.raises(SampleRefused, match=r'units=\{"air_temperature": "plain\'s word for Cel"\}'):
        edge_runtime.open(DEWPOINT, vocabulary="plain").feed(GOOD)


def test_what_is_no_sample_is_told_the_channels(shared: OpenModel) -> None:
    with pytest.raises(SampleRefused) as caught:
        shared.feed([20.0, 50.0, 990.0])  # type: ignore[arg-type] # that is the mistake
    assert caught.value.todo == "name the channels: air_temperature, relative_humidity, station_pressure"


@pytest.mark.parametrize("name", ["contract.toml", "device.toml"])
def test_a_toml_file_is_no_bundle(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x = 1\n")
    with pytest.raises(BundleError) as caught:
        edge_runtime.open(tmp_path / name)
    assert "a TOML file, a device file or a contract" in str(caught.value)
    assert "of a contract make one with edge-runtime build" in str(caught.value)


def test_times(dewpoint: OpenModel) -> None:
    with pytest.raises(SampleRefused, match=r"2025-01-28T00:00:00 without a zone") as caught:
        dewpoint.feed(GOOD, time=START.replace(tzinfo=None))
    assert caught.value.reason == "bad_time"
    dewpoint.feed(GOOD, time=START)
    with pytest.raises(SampleRefused) as caught:
        dewpoint.feed(GOOD, time=START - timedelta(seconds=1))
    assert caught.value.reason == "time_back"


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ({"air_temp": "Cel"}, "units: found an unknown channel 'air_temp'; expected 'air_temperature' perhaps"),
        ({"air_temperature": "C"}, "'C' is not a unit in vocabulary ucum"),
        ({"air_temperature": "hPa"}, "hPa measures pressure"),
    ],
)
def test_wrong_units(units: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        edge_runtime.open(DEWPOINT, units=units)
    assert words in str(caught.value)


def test_refused_bundle_names_its_failing_checks(tmp_path: Path) -> None:
    path = write_with_manifest(
        DEWPOINT, tmp_path / "bundle", lambda raw: raw["inputs"][0]["steps"][0]["mean"].reverse()
    )
    with pytest.raises(BundleError) as caught:
        edge_runtime.open(path)
    assert "golden_tensor failed: input tensor: found " in str(caught.value)
    assert "golden_batches failed" in str(caught.value)
    assert f"edge-runtime selftest --bundle {path}" in str(caught.value)
    (path / "golden.npz").write_bytes(files_of(FROST)["golden.npz"])
    with pytest.raises(BundleError, match=r"files failed: .*golden\.npz with other content"):
        edge_runtime.open(path)


def test_nothing_piles_up(dewpoint: OpenModel) -> None:
    for _ in range(10):
        dewpoint.feed(GOOD)
    changes = dewpoint._line.take_changes()
    assert "samples" not in changes


def test_leaves_no_file_at_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import edge_runtime, sys; model = edge_runtime.open(sys.argv[1]); "
        "(answer,) = model.feed({'air_temperature': (20, 'Cel'), 'relative_humidity': (50, '%'), "
        "'station_pressure': (990, 'hPa')}); print(answer.outputs[0].value)"
    )
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("ORT_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", code, str(DEWPOINT)], capture_output=True, text=True, check=False, timeout=60,
        cwd=home, env=environment | {"HOME": str(home), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert abs(float(done.stdout) - _magnus(20, 50)) < 0.5
    assert list(home.iterdir()) == []


def test_onnxruntime_imported_first_with_telemetry_is_refused(tmp_path: Path) -> None:
    code = (
        "import onnxruntime, edge_runtime, sys\n"
        "try:\n    edge_runtime.open(sys.argv[1])\n"
        "except edge_runtime.errors.BundleError as error:\n    print(error)"
    )
    environment = {key: text for key, text in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(DEWPOINT)], capture_output=True, text=True, check=False, timeout=60,
        env=environment | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "onnxruntime failed: onnxruntime, telemetry: found imported before it was switched off" in done.stdout


@pytest.fixture(scope="module")
def frost_rows() -> list[Sample]:
    """The recorded station, in its US units, read by hand."""
    units = {
        "air_temperature": "[degF]", "relative_humidity": "%", "station_pressure": "[in_i'Hg]", "wind_speed": "[mi_i]/h",
        "solar_irradiance": "W/m2",
    }  # fmt: skip
    lines = (ROOT / "examples/frost/station_us_units.csv").read_text().splitlines()[1:]
    rows = []
    for text in lines:
        time, *cells = text.split(",")
        values = {name: (float(cell), unit) for (name, unit), cell in zip(units.items(), cells, strict=True)}
        rows.append(Sample(values, datetime.fromisoformat(time)))
    return rows


def test_the_documentation_s_program_runs() -> None:
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    (program,) = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("OPERATIONAL\n")
    assert "wrong_dimension - channel station_pressure" in done.stdout
