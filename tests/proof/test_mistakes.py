"""Mistakes a person makes: each is one plain line with what was found, what was expected and what to do."""

import json
import shutil
import subprocess

import pytest

from tests.proof.station import ROOT, US_UNITS, call, device_file, lines, refused, run

AIR = "air_temperature_degF"
# In the device file: text to replace, by what, exit code, and what the line must say.
DEVICE = {
    "an unknown key": ("bundle =", "bundel =", 78, ["bundel", "an unknown key", "expected bundle"]),
    "a misspelt kind of source": ('kind = "replay"', 'kind = "reply"', 78, ["reply", "replay"]),
    "no TOML": ("[[line]]", "[[line]", 78, ["line 3"]),
    "an unknown unit": ('unit = "[degF]"', 'unit = "degF"', 78, ["degF", "[degF]", "air_temperature"]),
    "a unit of one letter": ('unit = "[degF]"', 'unit = "F"', 78, ["'F'", "[degF]"]),
    "a unit of another kind": ('unit = "[degF]"', 'unit = "hPa"', 78, ["'hPa'", "Cel"]),
    "an unknown channel": ("wind_speed =", "windspeed =", 78, ["wind_speed"]),
    "a wrong type": ('state_dir = "state"', "state_dir = 7", 78, ["state_dir", "7"]),
    "a wrong schema": ("edge-runtime/device/1", "edge-runtime/device/9", 78, ["edge-runtime/device/9", "edge-runtime/device/1"]),
    "no time format": (', format = "iso8601"', "", 78, ["format"]),
    "a bundle that is not there": ("bundles/frost", "bundles/frosty", 65, ["bundles/frosty"]),
    "a recording that is not there": ("station_us_units.csv", "station.csv", 78, ["station.csv", "No such file"]),
    "a profile that is not there": ("[[line]]", 'profile = "generic_x68"\n[[line]]', 78, ["generic_x68", "generic_x86"]),
    "two lines of one name": (None, None, 78, ["frost"]),
}  # fmt: skip
COMMAND = {
    "an unknown command": (["rnu"], 2, ["'rnu'", "'run'"]),
    "an unknown flag": (["run", "--confg", "device.toml"], 2, ["--confg", "--config"]),
    "a flag without its value": (["run", "--config"], 2, ["--config"]),
    "no device file": (["run", "--config", "absent.toml"], 78, ["absent.toml", "No such file"]),
    "an unknown check to inject": (["selftest", "--bundle", "BUNDLE", "--inject", "golden"], 2, ["'golden'", "golden_tensor"]),
    "an unknown tier": (["selftest", "--bundle", "BUNDLE", "--tier", "all"], 2, ["'all'", "required"]),
    "a speed below zero": (["replay", "x.csv", "--config", "device.toml", "--speed", "-1"], 2, ["-1"]),
    "a folder that is no bundle": (["verify", "home"], 65, ["SHA256SUMS"]),
}  # fmt: skip
# In contract.toml: text to replace, by what, and what the line must say; the code is always 78.
CONTRACT = {
    "a unit left open": ('unit = "Cel"\ntolerated', 'unit = "TODO"\ntolerated', ["TODO", "channel.0.unit", "docs/units.md"]),
    "an unknown key": ("when_undeclared", "if_undeclared", ["if_undeclared", "when_undeclared"]),
    "a range the wrong way round": ("tolerated = [-30, 45]", "tolerated = [45, -30]", ["45", "-30"]),
    "too few constants": ("mean = [13.989935874938965, ", "mean = [", ["standardize", "4 mean", "5 std"]),
    "an unknown precision": ('precision = "int8"', 'precision = "int7"', ["int7", "int8"]),
    "a model that is not there": ('model = "model_fp32.onnx"', 'model = "model_fp31.onnx"', ["model_fp31.onnx"]),
}  # fmt: skip
# In the stream as JSON lines: what becomes of the air temperature in line 30, its reason, and what the dead letter must say.
JSON = {
    "a key that is not in the payload": (lambda row: row | {"air_temp": row.pop(AIR)}, "missing", [f"field '{AIR}'", "air_temp"]),
    "a key that is elsewhere": (lambda row: row | {"air": {AIR: row.pop(AIR)}}, "missing", [f"nearest: '/air/{AIR}'"]),
    "no value": (lambda row: row | {AIR: None}, "missing", ["no value", "check the sensor and its cable"]),
    "a number in quotes": (lambda row: row | {AIR: "51.8"}, "type_changed", ["'51.8'", AIR, "without quotes", "numeric_text"]),
    "an object around it": (lambda row: row | {AIR: {"value": 51.8}}, "not_a_number", ["an object", "by a pointer"]),
    "several samples at once": (lambda row: [row, row], "bad_json", ["one JSON object in braces", "on a line of its own"]),
}  # fmt: skip
# In the stream: its data line 30, its reason, and what the dead letter must say.
STREAM = {
    "a text for a number": (lambda row: [row[0], "cold", *row[2:]], "not_a_number", ["'cold'", "a number", "air_temperature_degF"]),
    "a column too few": (lambda row: row[:-1], "wrong_columns", ["5 cells", "6 cells"]),
    "a time without its zone": (lambda row: [row[0].rstrip("Z"), *row[1:]], "bad_time", ["names no zone", "utc_offset_minutes"]),
    "a value no weather has": (lambda row: [row[0], "1994", *row[2:]], "beyond_physical", ["1994", "-60 to 60 Cel"]),
    "an empty cell": (lambda row: [row[0], "", *row[2:]], "missing", ["no value", "sensor"]),
}  # fmt: skip


def _one_line(done: subprocess.CompletedProcess[bytes], code: int, says: list[str]) -> None:
    text = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), text
    assert "Traceback" not in text
    (line,) = text.splitlines()
    assert line.startswith("edge-runtime: ")
    _plain(line, says)


def _plain(line: str, says: list[str]) -> None:
    assert "found " in line or "refused at " in line, line
    assert "expected " in line, line
    assert line.count("; ") >= 2, line
    assert len(line) < 700, line
    assert not {"pydantic", "ValidationError", "KeyError"} & set(line.replace(":", " ").split()), line
    for word in says:
        assert word in line, (word, line)


@pytest.mark.parametrize("mistake", DEVICE)
def test_in_the_device_file(mistake, tmp_path):
    old, new, code, says = DEVICE[mistake]
    path = device_file(tmp_path)
    text = path.read_text()
    if old is None:
        text += text[text.index("[[line]]") :]
    else:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    done = call(tmp_path, "run", "--exit-on-refusal", "--config", path)
    # A recording is opened only once the bundle is proven, and the verdict on that is a line of its own.
    verdict, _, rest = done.stderr.partition(b"\n")
    if b"PASSED" in verdict or b"passed" in verdict:
        done.stderr = rest
    _one_line(done, code, says)


@pytest.mark.parametrize("mistake", COMMAND)
def test_on_the_command_line(mistake, tmp_path):
    words, code, says = COMMAND[mistake]
    device_file(tmp_path)
    _one_line(call(tmp_path, *[word.replace("BUNDLE", str(ROOT / "bundles" / "frost")) for word in words]), code, says)


@pytest.mark.parametrize("mistake", CONTRACT)
def test_in_the_contract(mistake, tmp_path):
    old, new, says = CONTRACT[mistake]
    pack = tmp_path / "frost"
    shutil.copytree(ROOT / "examples" / "frost", pack)
    path = pack / "contract.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    _one_line(call(tmp_path, "build", path, "--out", tmp_path / "out"), 78, says)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mistake", STREAM)
def test_in_the_stream(mistake, tmp_path):
    change, reason, says = STREAM[mistake]
    rows = [line.split(",") for line in (ROOT / "examples" / "frost" / "station_us_units.csv").read_text().splitlines()]
    rows[30] = change(rows[30])
    (tmp_path / "stream.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    assert run(tmp_path, "stream.csv").returncode == 0
    letter = next(one for one in refused(tmp_path) if one["reason"] != "gap")
    assert letter["reason"] == reason
    assert letter["raw"] == ",".join(rows[30])
    told = json.dumps(letter)
    for word in says:
        assert word in told, (word, told)
    assert all(letter[key] for key in ("subject", "found", "expected"))


@pytest.mark.parametrize("mistake", JSON)
def test_in_a_stream_of_json(mistake, tmp_path):
    change, reason, says = JSON[mistake]
    header, *rows = lines()
    objects = [dict(zip(header, [row[0], *map(float, row[1:])], strict=True)) for row in rows[:40]]
    wrong = json.dumps(change(dict(objects[29])))
    told = [json.dumps(one) for one in objects]
    told[29] = wrong
    (tmp_path / "stream.jsonl").write_text("\n".join(told) + "\n")
    path = device_file(tmp_path, "stream.jsonl")
    path.write_text(path.read_text().replace('format = "csv", columns = "header"', 'format = "json"'))
    assert call(tmp_path, "run", "--exit-on-refusal", "--config", path).returncode == 0
    letter = next(one for one in refused(tmp_path) if one["reason"] != "gap")
    assert letter["reason"] == reason
    assert wrong.startswith(letter["raw"])  # a long line is cut there
    for word in says:
        assert word in " ".join(letter[key] for key in ("subject", "found", "expected", "todo")), (word, letter)
    assert all(letter[key] for key in ("subject", "found", "expected", "todo"))


def test_an_undeclared_unit_says_what_to_write(tmp_path):
    assert run(tmp_path, units={**US_UNITS, "air_temperature": None}).returncode == 65
    assert refused(tmp_path)[0]["todo"] == (
        'declare what the sender sends in device.toml, e.g. channels.air_temperature.unit = "Cel" where it is Cel'
    )


def test_they_are_more_than_twenty():
    assert len(DEVICE) + len(COMMAND) + len(CONTRACT) + len(STREAM) + len(JSON) + 1 >= 20
