"""device.toml read once and whole: each mistake is one plain line, and paths and the state folder are found."""

import hashlib
import json
import os
import re
from argparse import Namespace
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.config import load_config, main, state_folder
from edge_runtime.spec.toml_text import MAX_TOLD

GOOD = """\
schema = "edge-runtime/device/1"
[[line]]
name = "frost"
bundle = "bundles/frost"
source = { kind = "serial", port = "/dev/ttyUSB0", baud = 9600 }
[line.decode]
format = "csv"
columns = "header"
time = { field = "time", format = "iso8601" }
[line.channels]
air_temperature = { field = "t", unit = "[degF]" }
[[line.sink]]
kind = "stdout"
"""
SOURCE = 'kind = "serial", port = "/dev/ttyUSB0", baud = 9600'
CHANNEL = 'field = "t", unit = "[degF]"'
SEE = "see docs/device_toml.md"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "device.toml"
    file.write_text(GOOD)
    return file


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_config(path)
    line = str(caught.value)
    assert "\n" not in line
    return line.replace(f"{path.parent}{os.sep}", "")


def test_a_good_file(path: Path) -> None:
    loaded = load_config(path)
    assert loaded.config.line[0].name == "frost"
    assert loaded.digest == hashlib.sha256(GOOD.encode()).hexdigest()
    assert loaded.resolve(loaded.config.line[0].bundle) == path.parent / "bundles" / "frost"
    assert loaded.profile is None


def test_the_folder_is_absolute_wherever_the_command_ran(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    loaded = load_config(Path("device.toml"))
    monkeypatch.chdir("/")
    assert loaded.folder == path.parent


def test_a_byte_order_mark_is_no_mistake(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_config(path).config.line


MISTAKES = {
    "unknown key": (
        ("baud =", "bauds ="),
        f"device.toml, line[0].source.bauds: found an unknown key; expected baud; {SEE}",
    ),
    "unknown key, two mistakes": (
        ('bundle = "bundles/frost"', 'bundel = "bundles/frost"'),
        f"device.toml, line[0].bundel: found an unknown key; expected bundle; {SEE}",
    ),
    "unknown table": (
        ("[line.channels]", "[line.chanels]"),
        f"device.toml, line[0].chanels: found an unknown key; expected channels; {SEE}",
    ),
    "unknown key, none near": (
        ("schema =", "zzz = 1\nschema ="),
        (
            "device.toml, zzz: found an unknown key; expected one of schema, profile, state_dir, variables, signature,"
            f" probe_s, store, broker, line; {SEE}"
        ),
    ),
    "unknown key in a channel": (
        ("unit =", "units ="),
        f"device.toml, line[0].channels.air_temperature.units: found an unknown key; expected unit; {SEE}",
    ),
    "unknown key in a sink": (
        ('kind = "stdout"', 'kind = "stdout"\nnames = "a"'),
        f"device.toml, line[0].sink[0].names: found an unknown key; expected name; {SEE}",
    ),
    "text for a number": (
        ("9600", '"9600"'),
        f"device.toml, line[0].source.baud: found '9600'; expected an integer; {SEE}",
    ),
    "truth value for a number": (
        ("9600", "true"),
        f"device.toml, line[0].source.baud: found true; expected an integer; {SEE}",
    ),
    "number for a text": (
        ('name = "frost"', "name = 7"),
        f"device.toml, line[0].name: found 7; expected a string; {SEE}",
    ),
    "out of bounds": (
        ("9600", "0"),
        f"device.toml, line[0].source.baud: found 0; expected greater than 0; {SEE}",
    ),
    "not a number": (
        ("[line.channels]", "[line.journal]\nsync_s = nan\n[line.channels]"),
        f"device.toml, line[0].journal.sync_s: found nan; expected a finite number; {SEE}",
    ),
    "one of several": (
        ("[line.channels]", "[line.journal]\nenabled = true\n[line.channels]"),
        f"device.toml, line[0].journal.enabled: found true; expected 'auto', 'on' or 'off'; {SEE}",
    ),
    "wrong kind": (
        ('"serial"', '"tcp"'),
        (
            "device.toml, line[0].source: found kind 'tcp'; expected one of 'serial', 'stdin', 'replay', 'mqtt', 'folder', "
            f"'command'; {SEE}"
        ),
    ),
    "a format for a kind": (
        ('"serial"', '"csv"'),
        (
            "device.toml, line[0].source: found kind 'csv'; expected one of 'serial', 'stdin', 'replay', 'mqtt', 'folder', "
            "'command' ('replay' reads a file, 'stdin' a pipe; that it is csv is said by decode.format)"
            f"; {SEE}"
        ),
    ),
    "no kind": (
        ('kind = "serial", ', ""),
        (
            "device.toml, line[0].source: found no kind; expected kind = 'serial' or 'stdin' or 'replay' or 'mqtt' or 'folder'"
            f" or 'command'; {SEE}"
        ),
    ),
    "wrong format": (
        ('format = "csv"', 'format = "xml"'),
        (
            "device.toml, line[0].decode: found format 'xml'; expected one of 'csv', 'json', 'pattern', 'struct', 'nmea', "
            f"'scpi', 'modbus', 'senml+json', 'senml+cbor', 'sparkplug'; {SEE}"
        ),
    ),
    "wrong framing": (
        ("[line.decode]", '[line.framing]\nkind = "line"\n[line.decode]'),
        f"device.toml, line[0].framing: found kind 'line'; expected one of 'lines', 'nmea', 'cobs', 'slip', 'packet', 'block'; {SEE}",  # noqa: E501
    ),
    "a key of another framing": (
        ("[line.decode]", "[line.framing]\nlineend = 'lf'\n[line.decode]"),
        f"device.toml, line[0].framing.lineend: found an unknown key; expected line_end; {SEE}",
    ),
    "a CRC that is not what it says": (
        (
            "[line.decode]",
            """[line.framing]
kind = "slip"
crc = { width = 8, poly = 7, init = 0, refin = false, refout = false, xorout = 0, check = 0xF7 }
[line.decode]""",
        ),
        (
            "device.toml, line[0].framing.crc: found a mistake (check is 0xF7, and these parameters give 0xF4 for "
            f"'123456789'; one of them is wrong); expected keys that agree; {SEE}"
        ),
    ),
    "one of two types": (
        (SOURCE, 'kind = "replay", path = "x", speed = "slow"'),
        f"device.toml, line[0].source.speed: found 'slow'; expected a number or 'max'; {SEE}",
    ),
    "missing key": (
        ('bundle = "bundles/frost"\n', ""),
        (
            "device.toml, line[0].bundle: found no such key; expected it to be there "
            f"(the bundle, a folder or a .tar of it, from device.toml's folder on); {SEE}"
        ),
    ),
    "missing schema": (
        ('schema = "edge-runtime/device/1"\n', ""),
        f'device.toml, schema: found no such key; expected it to be there ("edge-runtime/device/1"); {SEE}',
    ),
    "another schema": (
        ("device/1", "device/2"),
        f"device.toml, schema: found 'edge-runtime/device/2'; expected 'edge-runtime/device/1'; {SEE}",
    ),
    "odd name": (
        ('name = "frost"', 'name = "Frost 1"'),
        (
            "device.toml, line[0].name: found 'Frost 1'; expected a text like ^[a-z0-9][a-z0-9_-]{0,63}$ "
            f"(the line's own name, in reports and in the state folder); {SEE}"
        ),
    ),
    "a table for an array of tables": (
        ("[[line.sink]]", "[line.sink]"),
        f"device.toml, line[0].sink: found a table; expected an array of tables, each begun with [[line.sink]]; {SEE}",
    ),
    "no sink": (
        ('[[line.sink]]\nkind = "stdout"\n', ""),
        (
            "device.toml, line[0].sink: found no such key; expected it to be there"
            f' (where the answers go, such as sink = [{{ kind = "stdout" }}]); {SEE}'
        ),
    ),
    "port and match": (
        ("baud = 9600", "match = { vid = 1 }"),
        (
            "device.toml, line[0].source: found a mistake (give exactly one of port and match; found both); "
            f"expected keys that agree; {SEE}"
        ),
    ),
    "a text for a table": (
        (f"{{ {CHANNEL} }}", '"t"'),
        f"device.toml, line[0].channels.air_temperature: found 't'; expected a table, {{ field = ... }}; {SEE}",
    ),
    "a key of the line below a table of it": (
        ('columns = "header"', 'columns = "header"\nmax_age_s = 60'),
        (
            "device.toml, line[0].decode.max_age_s: found an unknown key; "
            f"expected it in line[0]: write it above [line.decode]; {SEE}"
        ),
    ),
    "a key of the file below a line": (
        ("[line.channels]", "[line.journal]\nstate_dir = 'x'\n[line.channels]"),
        (
            "device.toml, line[0].journal.state_dir: found an unknown key; "
            f"expected it in the file itself: write it above [line.journal]; {SEE}"
        ),
    ),
    "a date that is none": (
        (CHANNEL, f'{CHANNEL}, correction = {{ date = "soon" }}'),
        (
            "device.toml, line[0].channels.air_temperature.correction.date: found 'soon'; "
            f"expected a date in the format YYYY-MM-DD, input is too short; {SEE}"
        ),
    ),
    "no TOML": (
        ('name = "frost"', "name ="),
        (
            "device.toml, line 3, column 7: found invalid value; expected TOML; correct that line: a text stands between "
            "straight double quotes, true and false are lower case"
        ),
    ),
    "a key twice": (
        ('name = "frost"', 'name = "frost"\nname = "frost"'),
        "device.toml, line 4, column 15: found cannot overwrite a value; expected TOML; correct that line",
    ),
    "cut off": (
        ('kind = "stdout"\n', "kind = "),
        (
            "device.toml, its end: found invalid value; expected TOML; correct that line: a text stands between "
            "straight double quotes, true and false are lower case"
        ),
    ),
    "a decimal comma": (
        ("baud = 9600 }", "baud = 9600 }\nmax_age_s = 1,5"),
        (
            "device.toml, line 6, column 14: found expected newline or end of document after a statement; expected TOML; "
            "correct that line: one key = value a line, and the decimal mark is a point"
        ),
    ),
    "a backslash": (
        ("bundles/frost", r"bundles\frost\data"),
        (
            r"device.toml, line 4, column 26: found unescaped '\' in a string; expected TOML; "
            r"correct that line: write each \ twice, or the text between single quotes"
        ),
    ),
    "two words": (
        ("bundle =", "bundle is ="),
        (
            "device.toml, line 4, column 8: found expected '=' after a key in a key/value pair; expected TOML; "
            "correct that line: write key = value, a key with blanks between double quotes"
        ),
    ),
    "no columns": (
        ('columns = "header"\n', ""),
        (
            "device.toml, line[0].decode.columns: found no such key; expected it to be there ('header' where the first line "
            f"names the columns, as any later line that repeats it does); {SEE}"
        ),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(path: Path, name: str) -> None:
    (before, after), message = MISTAKES[name]
    text = GOOD.replace(before, after, 1)
    assert text != GOOD
    path.write_text(text)
    assert refusal(path) == message


def refusals(path: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_config(path)
    lines = [str(one).replace(f"{path.parent}{os.sep}", "") for one in (caught.value, *caught.value.others)]
    assert not any("\n" in line for line in lines)
    return lines


def test_all_mistakes_of_a_file_are_told_at_once(path: Path) -> None:
    text = GOOD.replace("baud = 9600", 'bauds = 9600, parity = "odd?"').replace('bundle = "bundles/frost"\n', "")
    path.write_text(text.replace("[degF]", "F").replace("[[line.sink]]", "[line.sink]"))
    assert refusals(path) == [
        f"device.toml, line[0].source.bauds: found an unknown key; expected baud; {SEE}",
        (
            "device.toml, line[0].bundle: found no such key; expected it to be there "
            f"(the bundle, a folder or a .tar of it, from device.toml's folder on); {SEE}"
        ),
        f"device.toml, line[0].source.parity: found 'odd?'; expected 'none', 'even' or 'odd'; {SEE}",
        (
            "device.toml, line[0].channels.air_temperature.unit: found 'F'; expected a unit of vocabulary ucum: it is "
            f"read in more than one way: write [degF] for degrees Fahrenheit or uF for microfarads; {SEE}"
        ),
        f"device.toml, line[0].sink: found a table; expected an array of tables, each begun with [[line.sink]]; {SEE}",
    ]


def test_a_mistyped_key_is_not_told_as_an_absent_one_too(path: Path) -> None:
    path.write_text(GOOD.replace("[line.channels]", "[line.chanels]").replace('bundle = "b', 'bundel = "b'))
    assert [line.partition(";")[0] for line in refusals(path)] == [
        "device.toml, line[0].bundel: found an unknown key",
        "device.toml, line[0].chanels: found an unknown key",
    ]


def test_a_key_in_the_wrong_table_is_not_told_as_an_absent_one_too(path: Path) -> None:
    text = GOOD.replace('[[line.sink]]\nkind = "stdout"\n', "")
    path.write_text(text.replace('columns = "header"', 'columns = "header"\nsink = [{ kind = "stdout" }]'))
    assert refusals(path) == [
        f"device.toml, line[0].decode.sink: found an unknown key; expected it in line[0]: write it above [line.decode]; {SEE}"
    ]


def test_of_very_many_mistakes_a_screen_is_told(path: Path) -> None:
    path.write_text("".join(f"a{number} = 1\n" for number in range(MAX_TOLD + 5)) + GOOD)
    *told, last = refusals(path)
    assert len(told) == MAX_TOLD
    assert last == "device.toml: found 5 more mistakes; expected none; mend those above first"


UNITS = {
    "rpm": (
        'unit = "rpm"',
        "unit: found 'rpm'; expected a unit of vocabulary ucum: write circ/min, or vocabulary = 'plain' beside it",
    ),
    "C": (
        'unit = "C"',
        "unit: found 'C'; expected a unit of vocabulary ucum: it is read in more than one way: write Cel",
    ),
    "percent": ('unit = "percent"', "unit: found 'percent'; expected a unit of vocabulary ucum: write %"),
    "furlong": (
        'unit = "furlong"',
        "unit: found 'furlong'; expected a unit of vocabulary ucum: docs/units.md lists those that are; see",
    ),
    "another vocabulary": (
        'unit = "[degF]", vocabulary = "plain"',
        "unit: found '[degF]'; expected a unit of vocabulary plain: write ",
    ),
    "in a map": (
        'unit_field = "u", unit_map = { C = "Cel", F = "Fahr" }',
        "unit_map.F: found 'Fahr'; expected a unit of vocabulary ucum: ",
    ),
    "of a grid": (
        'unit = "1", read = "list", grid_field = "x", grid_unit = "micron"',
        "grid_unit: found 'micron'; expected a unit of vocabulary ucum: ",
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_that_no_table_knows_is_a_mistake_of_the_file(path: Path, name: str) -> None:
    written, message = UNITS[name]
    path.write_text(GOOD.replace('unit = "[degF]"', written))
    [line] = refusals(path)
    assert line.startswith(f"device.toml, line[0].channels.air_temperature.{message}")


def test_a_unit_of_a_pack_is_one_of_senml(path: Path) -> None:
    text = GOOD.replace('format = "csv"\ncolumns = "header"\n', 'format = "senml+json"\n')
    text = text.replace('time = { field = "time", format = "iso8601" }\n', "")
    path.write_text(text.replace("[degF]", "%RH"))
    assert load_config(path).config.line[0].channels["air_temperature"].vocabulary == "senml"
    path.write_text(text)
    assert "found '[degF]'; expected a unit of vocabulary senml" in refusals(path)[0]


def test_a_text_for_a_table_of_any_names(path: Path) -> None:
    text = GOOD.replace(f"[line.channels]\nair_temperature = {{ {CHANNEL} }}\n", "")
    path.write_text(text.replace("[line.decode]", 'channels = "t"\n[line.decode]'))
    assert refusal(path) == f"device.toml, line[0].channels: found 't'; expected a table, {{ NAME = ... }}; {SEE}"


def second(name: str, source: str) -> str:
    line = GOOD.partition("\n")[2]
    return GOOD + line.replace('"frost"', f'"{name}"', 1).replace(SOURCE, source)


def test_two_lines_of_one_name(path: Path) -> None:
    path.write_text(second("frost", 'kind = "stdin"'))
    assert refusal(path) == (
        "device.toml: found a mistake (2 lines are called 'frost'; give each line its own name); "
        f"expected keys that agree; {SEE}"
    )


def test_two_lines_of_one_port(path: Path) -> None:
    path.write_text(second("other", SOURCE))
    assert "2 lines read the port '/dev/ttyUSB0'; a port has one reader; use one line" in refusal(path)


def test_two_lines_of_standard_input(path: Path) -> None:
    path.write_text(second("other", 'kind = "stdin"').replace(SOURCE, 'kind = "stdin"'))
    assert "lines frost and other read standard input; only one can" in refusal(path)


FILE_SINK = 'kind = "jsonl"\npath = "{}"'


@pytest.mark.parametrize("other", ["out/a.jsonl", "out/../out/./a.jsonl", "link/a.jsonl"])
def test_two_lines_on_one_file(path: Path, other: str) -> None:
    (path.parent / "out").mkdir()
    (path.parent / "link").symlink_to("out")
    text = second("other", 'kind = "stdin"').replace('kind = "stdout"', FILE_SINK.format("out/a.jsonl"), 1)
    path.write_text(text.replace('kind = "stdout"', FILE_SINK.format(other)))
    assert refusal(path) == (
        "device.toml, line other, sink: found out/a.jsonl, written by sink 'jsonl out/a.jsonl' of line frost and by "
        f"sink 'jsonl {other}' of line other; expected one sink to one file; give each a path of its own"
    )


def test_two_sinks_of_a_line_on_one_file(path: Path) -> None:
    two = f'{FILE_SINK.format("a")}\nname = "x"\n[[line.sink]]\n{FILE_SINK.format("./a")}'
    path.write_text(GOOD.replace('kind = "stdout"', two))
    assert "written by sink 'x' of line frost and by sink 'jsonl ./a' of line frost" in refusal(path)


@pytest.mark.parametrize("two", [
    'kind = "stdout"\n[[line.sink]]\nkind = "stdout"',
    'kind = "stdout"\n[[line.sink]]\nkind = "jsonl"\npath = "a"\nname = "stdout"',
])  # fmt: skip
def test_two_sinks_of_one_name(path: Path, two: str) -> None:
    path.write_text(GOOD.replace('kind = "stdout"', two))
    assert refusal(path) == (
        "device.toml, line[0]: found a mistake (2 sinks are called 'stdout'; give each sink its own name); "
        f"expected keys that agree; {SEE}"
    )


def test_two_lines_may_both_write_to_standard_output(path: Path) -> None:
    path.write_text(second("other", 'kind = "stdin"'))
    assert len(load_config(path).config.line) == 2


def test_no_line_at_all(path: Path) -> None:
    path.write_text('schema = "edge-runtime/device/1"\nline = []\n')
    assert refusal(path) == f"device.toml, line: found nothing; expected at least 1; {SEE}"


def test_no_utf_8(path: Path) -> None:
    path.write_bytes(GOOD.encode() + b"# 5 \xb0C\n")
    assert refusal(path) == "device.toml, line 14: found byte 0xb0; expected UTF-8 text; save it as UTF-8"


def test_too_large(path: Path) -> None:
    path.write_text("# padding\n" * 200_000)
    assert refusal(path) == (
        "device.toml: found 1048577 bytes; expected at most 1048576; give the file that was written by hand"
    )


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, ".".join("a" * 5000) + " = 1",
                                  ".".join("a" * 300) + " = 1", "a = " + "{a = " * 70 + "1" + "}" * 70])  # fmt: skip
def test_nested_too_deeply(path: Path, text: str) -> None:
    path.write_text(text)
    assert refusal(path).startswith("device.toml: found values nested too deeply")


def test_not_there(path: Path) -> None:
    path.unlink()
    assert refusal(path) == (
        "device file device.toml: found No such file or directory; expected a readable TOML file; "
        "correct the path, or write one: see docs/device_toml.md"
    )


def test_a_folder(path: Path) -> None:
    assert "found Is a directory; expected a readable TOML file" in refusal(path.parent)


@pytest.mark.parametrize(
    ("profile", "found"), [("generic_x86", "generic_x86"), ("own/p.toml", "{}/own/p.toml"), ("p.toml", "{}/p.toml")]
)
def test_a_profiles_file_is_found_from_the_device_files_folder(path: Path, profile: str, found: str) -> None:
    path.write_text(GOOD.replace("[[line]]", f'profile = "{profile}"\n[[line]]', 1))
    assert load_config(path).profile == found.format(path.parent)


def test_the_state_folder_in_its_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_config(path)
    system = tmp_path / "var" / "lib" / "edge-runtime"
    monkeypatch.setenv("HOME", "/home/somebody")
    assert state_folder(loaded, {}, system) == Path("/home/somebody/.local/state/edge-runtime")
    assert state_folder(loaded, {"XDG_STATE_HOME": "/x"}, system) == Path("/x/edge-runtime")
    system.parent.mkdir(parents=True)
    assert state_folder(loaded, {"XDG_STATE_HOME": "/x"}, system) == system
    assert state_folder(loaded, {"STATE_DIRECTORY": "/run/a:/run/b"}, system) == Path("/run/a")
    path.write_text(GOOD.replace("[[line]]", 'state_dir = "state"\n[[line]]', 1))
    assert state_folder(load_config(path), {"STATE_DIRECTORY": "/run/a"}, system) == path.parent / "state"


def test_the_state_folder_is_never_inside_a_bundle(path: Path) -> None:
    path.write_text(GOOD.replace("[[line]]", 'state_dir = "bundles/frost/../frost/state"\n[[line]]', 1))
    with pytest.raises(ConfigurationError) as caught:
        state_folder(load_config(path))
    assert "inside the bundle of line frost; expected a folder outside every bundle" in str(caught.value)


def test_without_a_home_the_state_folder_must_be_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigurationError) as caught:
        state_folder(load_config(path), {}, Path("/nowhere/at/all"))
    assert str(caught.value).endswith("name one with state_dir")


def test_config_show_prints_every_default(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(Namespace(config=str(path), resolved=False, command="config show")) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["bundles"] == {"frost": str(path.parent / "bundles" / "frost")}
    assert shown["config"]["schema"] == "edge-runtime/device/1"
    line = shown["config"]["line"][0]
    assert line["source"]["parity"] == "none"
    assert line["journal"]["sync_s"] == 5.0
    assert line["decode"]["separator"] == ","


def drop_in(path: Path, name: str, text: str) -> None:
    folder = path.with_name("device.toml.d")
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


SITE = """
variables = { site = "north" }
state_dir = "state-{site}"
[[line]]
name = "frost"
source = { port = "/dev/ttyS1" }
[[line]]
name = "second"
bundle = "bundles/{site}"
source = { kind = "replay", path = "a\\u007f.csv" }
decode = { format = "json", time = { field = "t", format = "iso8601", not_before = 2020-01-01 } }
channels = { "a.b" = { field = "t", unit = "Cel" } }
sink = [{ kind = "stdout" }]
[[line]]
name = "third"
bundle = "b"
decode = { format = "struct", byte_order = "big", fields = [{ name = "a", type = "int8" }, { type = "int8" }] }
framing = { kind = "slip" }
source = { kind = "serial", port = "socket://10.0.0.5:9" }
channels = { a = { field = "a" } }
sink = [{ kind = "stdout" }]
"""


def show(path: Path, capsys: pytest.CaptureFixture[str], **more: object) -> str:
    assert main(Namespace(**({"config": str(path), "resolved": True, "command": "config show"} | more))) == 0
    return capsys.readouterr().out


def test_a_drop_in_lies_over_the_device_file(path: Path) -> None:
    drop_in(path, "20-site.toml", SITE)
    drop_in(path, "10-before.toml", 'state_dir = "early"')
    drop_in(path, ".hidden.toml", "no TOML at all")
    drop_in(path, "README", "neither")
    loaded = load_config(path)
    assert [one.name for one in loaded.config.line] == ["frost", "second", "third"]
    assert loaded.config.line[0].source.model_dump()["port"] == "/dev/ttyS1"
    assert loaded.config.line[0].source.model_dump()["baud"] == 9600
    assert loaded.config.state_dir == "state-north"
    assert loaded.resolve(loaded.config.line[1].bundle) == path.parent / "bundles" / "north"
    assert loaded.drop_ins == ("device.toml.d/10-before.toml", "device.toml.d/20-site.toml")


def test_the_digest_is_of_every_file(path: Path) -> None:
    plain = load_config(path).digest
    drop_in(path, "a.toml", "")
    first = load_config(path).digest
    drop_in(path, "a.toml", "# other")
    assert len({plain, first, load_config(path).digest}) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[broker]\nhosts = 1", "device.toml.d/a.toml, broker.hosts: found an unknown key; expected host"),
        ('[[line]]\nname = "frost"\nsource = { baud = "x" }', "device.toml.d/a.toml, line[0].source.baud: found 'x'"),
        ('[[line]]\nname = "other"', "device.toml.d/a.toml, line[1]."),
        ("a = ", "device.toml.d/a.toml, its end: found invalid value"),
        ('state_dir = "{x}"', "device.toml with device.toml.d, state_dir: found {x}"),
    ],
)
def test_a_mistake_is_told_of_the_file_that_wrote_it(path: Path, text: str, says: str) -> None:
    drop_in(path, "a.toml", text)
    said = refusal(path)
    assert said.startswith(says), said


def test_several_mistakes_are_each_told_of_their_own_file(path: Path) -> None:
    drop_in(path, "a.toml", "[broker]\nhosts = 1")
    path.write_text(GOOD.replace("baud =", "bauds ="))
    with pytest.raises(ConfigurationError) as caught:
        load_config(path)
    subjects = sorted(
        one.subject.removeprefix(f"{path.parent}{os.sep}") for one in (caught.value, *caught.value.others)
    )
    assert subjects == ["device.toml, line[0].source.bauds", "device.toml.d/a.toml, broker.hosts"]


def test_a_mistake_of_the_device_file_stays_its_own(path: Path) -> None:
    drop_in(path, "a.toml", 'profile = "x"')
    path.write_text(GOOD.replace("baud =", "bauds ="))
    assert refusal(path).startswith("device.toml, line[0].source.bauds: found an unknown key")


def test_a_drop_in_folder_that_is_none(path: Path) -> None:
    path.with_name("device.toml.d").write_text("")
    assert "device.toml.d: found Not a directory" in refusal(path)


def test_drop_ins_are_bounded(path: Path) -> None:
    for number in range(65):
        drop_in(path, f"{number}.toml", "")
    assert "found 65 files; expected at most 64" in refusal(path)


def test_the_resolved_file_is_one_that_says_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drop_in(path, "20-site.toml", SITE)
    text = show(path, capsys)
    again = path.with_name("again.toml")
    again.write_text(text)
    assert load_config(again).config == load_config(path).config
    lines = text.splitlines()
    assert 'state_dir = "state-north"  # device.toml.d/20-site.toml' in lines
    assert 'port = "/dev/ttyS1"  # device.toml.d/20-site.toml' in lines
    assert "baud = 9600  # device.toml" in lines
    assert "# stopbits = 1  # default" in lines
    assert '[line.channels."a.b"]  # device.toml.d/20-site.toml' in lines
    assert "[[line.decode.fields]]  # device.toml.d/20-site.toml" in lines
    assert any(line.startswith("# journal = { enabled = ") for line in lines)


@pytest.mark.parametrize("is_resolved", [True, False])
def test_a_secret_is_not_shown(path: Path, capsys: pytest.CaptureFixture[str], is_resolved: bool) -> None:
    drop_in(path, "20-site.toml", SITE.replace(
        'source = { kind = "serial", port = "socket://10.0.0.5:9" }',
        'source = { kind = "command", command = ["curl", "https://user:hu@sh@ten.example/x?a@b&API_Token=hush&b=1"] }',
    ).replace('site = "north"', 'site = "north", api_token = "hush"'))  # fmt: skip
    text = show(path, capsys, resolved=is_resolved)
    assert not re.search("hush|sh@", text)
    assert '"https://***@ten.example/x?a@b&API_Token=***&b=1"' in text
    assert "ten.example" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('broker = { host = "mqtt://user:hush@ten.example" }', "'mqtt://***@ten.example'"),
        ('broker = { host = "mqtt://user:hush@{nowhere}" }', "'mqtt://***@{nowhere}'"),
        ('[[line]]\nname = "frost"\nsource = { port = "socket://user:hush@10.0.0.5:9" }', "a URL without a user"),
    ],
)
def test_a_refusal_shows_no_secret_of_a_url(path: Path, line: str, words: str) -> None:
    drop_in(path, "20-site.toml", line)
    assert words in refusal(path)
    assert "hush" not in refusal(path)


def test_a_key_writes_no_line_of_its_own(path: Path) -> None:
    drop_in(path, "20-site.toml", '"a\\u001b[31m\\nb" = 1')
    assert "a\\x1b[31m b: found an unknown key" in refusal(path)


def test_a_drop_in_that_is_a_pipe_is_not_waited_for(path: Path) -> None:
    drop_in(path, "10.toml", "")
    os.mkfifo(path.with_name("device.toml.d") / "20.toml")
    assert "20.toml: found a pipe" in refusal(path)


@pytest.mark.parametrize("name", [".", "/", ""])
def test_a_path_without_a_name_is_a_folder(path: Path, name: str) -> None:
    assert path.is_file()
    assert "found Is a directory" in refusal(Path(name))


def test_config_check_says_that_it_is_right(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drop_in(path, "20-site.toml", SITE)
    said = show(path, capsys, command="config check")
    assert said == (
        f"{path} with device.toml.d/20-site.toml: right, with line frost, second, third;"
        " `edge-runtime doctor` looks at what it names\n"
    )


def test_config_check_refuses_what_run_would_of_topics(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drop_in(
        path,
        "20-site.toml",
        'broker = { host = "h", device = "d" }'
        """
[[line]]
name = "round"
bundle = "b"
source = { kind = "mqtt", topics = ["edge/#"] }
decode = { format = "json" }
channels = { a = { field = "a" } }
sink = [{ kind = "stdout" }]
""",
    )
    with pytest.raises(
        ConfigurationError, match="topic 'edge/d/status', which source topic 'edge/#' of line round takes"
    ):
        show(path, capsys, command="config check")


DOCUMENT = (Path(__file__).parents[2] / "docs/device_toml.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(BLOCKS.index(block)))
def test_every_file_of_the_documentation_says_the_same_once_resolved(
    block: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(block)
    again = path.with_name("again.toml")
    again.write_text(show(path, capsys))
    assert load_config(again).config == load_config(path).config
