"""The model of device.toml: its defaults, and that every block of the documentation is valid."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.device_config import DeviceConfig
from edge_runtime.spec.drop_in import merged
from edge_runtime.spec.toml_text import parse_toml, validate
from edge_runtime.spec.variables import fill

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "device_toml.md").read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(BLOCKS.index(block)))
def test_every_block_of_the_documentation_is_valid(block: str) -> None:
    assert validate(DeviceConfig, fill(parse_toml(block.encode(), "docs"), "docs"), "docs", "").line


def test_the_drop_in_of_the_documentation_lies_over_its_first_example() -> None:
    [over] = re.findall(
        r"^```toml drop-in\n(.*?)^```$", (DOCS / "device_toml.md").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    raw, _ = merged([("base", tomllib.loads(BLOCKS[0])), ("over", tomllib.loads(over))])
    before = validate(DeviceConfig, parse_toml(BLOCKS[0].encode(), "docs"), "docs", "").line[0]
    [line] = validate(DeviceConfig, raw, "docs", "").line
    assert line.source.model_dump()["port"].endswith("B20K9876-if00-port0")
    assert line.model_copy(update={"source": before.source}) == before


def test_the_documentation_has_blocks() -> None:
    assert len(BLOCKS) >= 5


def keys(schema: dict, name: str) -> set[str]:
    return set(schema["$defs"][name]["properties"])


@pytest.mark.parametrize(
    "name",
    [
        *("LineConfig", "SerialSource", "SerialMatch", "Identify", "Poll", "ReplaySource", "CsvDecode", "JsonDecode"),
        "SenmlDecode",
        *(
            "LinesFraming",
            "NmeaFraming",
            "CobsFraming",
            "SlipFraming",
            "PacketFraming",
            "BlockFraming",
            "LengthField",
            "Crc",
        ),
        *(
            "PatternDecode",
            "StructDecode",
            "StructField",
            "NmeaDecode",
            "ScpiDecode",
            "ModbusDecode",
            "ModbusRegister",
            "Modbus",
            "TimeField",
            "StatusField",
        ),
        *("ChannelBinding", "Correction", "StandardOutput", "JsonLinesFile", "Publish", "JournalConfig", "DeadLetters"),
        "CaptureConfig",
    ],
)
def test_every_key_is_in_the_documentation(name: str) -> None:
    text = (DOCS / "device_toml.md").read_text()
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", text))))
    assert keys(DeviceConfig.model_json_schema(), name) <= words


def test_the_default_of_everything_that_has_one() -> None:
    config = validate(DeviceConfig, parse_toml(BLOCKS[0].encode(), "docs"), "docs", "")
    line = config.line[0]
    assert (config.profile, config.state_dir) == (None, None)
    assert line.framing.max_bytes == 4096
    assert line.journal.model_dump() == {"enabled": "auto", "sync_s": 5.0, "max_bytes": 4 * 1024 * 1024}
    assert line.dead_letters.model_dump() == {"max_bytes": 4 * 1024 * 1024}


def test_it_is_frozen_and_survives_json() -> None:
    config = validate(DeviceConfig, parse_toml(BLOCKS[0].encode(), "docs"), "docs", "")
    with pytest.raises(ValidationError):
        config.profile = "other"
    again = DeviceConfig.model_validate_json(json.dumps(config.model_dump(mode="json", by_alias=True)))
    assert again == config


def senml(kind: str, channel: dict, **keys: object) -> DeviceConfig:
    line = {
        "name": "roof", "bundle": "b", "source": {"kind": "stdin"}, "decode": {"format": kind},
        "channels": {"t": {"field": "t"} | channel}, "sink": [{"kind": "stdout"}],
    }  # fmt: skip
    return DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "line": [line | keys]})


def test_a_pack_brings_its_vocabulary_and_its_units() -> None:
    bound = senml("senml+json", {}).line[0].channels["t"]
    assert (bound.vocabulary, bound.unit_field, bound.unit) == ("senml", "u", None)
    bound = senml("senml+json", {"unit": "Cel"}).line[0].channels["t"]
    assert (bound.vocabulary, bound.unit_field, bound.unit) == ("senml", None, "Cel")
    assert senml("json", {}).line[0].channels["t"].vocabulary == "ucum"


def test_binary_packs_are_not_cut_into_lines() -> None:
    with pytest.raises(ValidationError, match="need cobs, slip, packet or block"):
        senml("senml+cbor", {})
    assert senml("senml+cbor", {}, framing={"kind": "slip"}).line[0].decode.encoding == "utf-8"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"decode": {"format": "struct", "byte_order": "little", "fields": [{"type": "int8"}]}},
            "cobs, slip, packet or block",
        ),
        ({"decode": {"format": "nmea", "sentence": "MWV"}}, 'write framing = { kind = "nmea" }'),
        (
            {"framing": {"kind": "slip"}, "source": {"kind": "serial", "port": "/dev/ttyS0", "flow": "xonxoff"}},
            "0x11 and 0x13",
        ),
    ],
)
def test_a_framing_suits_its_decoder_and_its_link(changes: dict, says: str) -> None:
    raw = parse_toml(BLOCKS[0].encode(), "docs")
    raw["line"][0] |= changes
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        validate(DeviceConfig, raw, "docs", "")


def serial(framing: dict | None, poll: dict, **keys: object) -> DeviceConfig:
    line = {
        "name": "meter", "bundle": "b", "source": {"kind": "serial", "port": "COM3", "poll": poll},
        "decode": {"format": "struct", "byte_order": "big", "fields": [{"name": "t", "type": "int16"}]},
        "channels": {"t": {"field": "t", "unit": "V"}}, "sink": [{"kind": "stdout"}],
    }  # fmt: skip
    framed = line if framing is None else line | {"framing": framing}
    return DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "line": [framed | keys]})


def test_an_answer_that_is_waited_for_is_a_line_or_a_block() -> None:
    poll = {"send": "CURV?\n", "every_s": 1, "timeout_s": 1}
    assert serial({"kind": "block"}, poll).line[0].takes_bytes
    for framing in ({"kind": "cobs"}, {"kind": "block", "terminator": "crlf"}):
        with pytest.raises(ValidationError, match="an answer that is waited for is a line, or a block with terminator"):
            serial(framing, poll)
    assert serial({"kind": "cobs"}, {"send": "GO", "every_s": 1})


def test_angles_are_read_from_sentences_alone() -> None:
    place = {"t": {"field": "t", "unit": "deg", "read": "degrees_minutes"}}
    with pytest.raises(ValidationError, match='read "degrees_minutes" with decode "struct"; it belongs to "nmea"'):
        serial({"kind": "cobs"}, {"send": "GO", "every_s": 1}, channels=place)


REGISTER = {"name": "t", "table": "input", "address": 100, "type": "float32", "word_order": "little"}


def modbus(source: dict, **keys: object) -> DeviceConfig:
    line = {
        "name": "plant", "bundle": "b", "source": {"kind": "serial", "port": "/dev/ttyUSB0"} | source,
        "decode": {"format": "modbus", "registers": [REGISTER]}, "channels": {"t": {"field": "t", "unit": "Cel"}},
        "sink": [{"kind": "stdout"}],
    }  # fmt: skip
    return DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "line": [line | keys]})


def test_what_a_round_asks_follows_from_the_registers_and_survives_json() -> None:
    config = modbus({"modbus": {"mode": "rtu", "every_s": 1}})
    line = config.line[0]
    assert [one.model_dump() for one in line.source.modbus.read] == [
        {"slave": 1, "table": "input", "address": 100, "count": 2}
    ]
    assert line.framing.kind == "cobs"
    assert DeviceConfig.model_validate_json(json.dumps(config.model_dump(mode="json", by_alias=True))) == config


@pytest.mark.parametrize(
    ("source", "keys", "says"),
    [
        ({}, {}, 'decode "modbus" without source.modbus; write mode and every_s there'),
        ({"modbus": {"mode": "rtu", "every_s": 1}}, {"framing": {"kind": "lines"}}, "leave it out, a round of answers has its own"),
        ({"modbus": {"mode": "rtu", "every_s": 1}}, {"decode": {"format": "json"}}, 'source.modbus with decode "json"; write'),
        ({"modbus": {"mode": "tcp", "every_s": 1}}, {}, 'modbus.mode "tcp" with a port that is none of the network'),
        ({"modbus": {"mode": "rtu", "every_s": 1}, "poll": {"send": "A", "every_s": 1}}, {}, "modbus beside poll or identify"),
        ({"modbus": {"mode": "rtu", "every_s": 1}, "flow": "xonxoff"}, {}, "it swallows the bytes 0x11 and 0x13"),
        (
            {"modbus": {"mode": "rtu", "every_s": 1, "read": [{"slave": 1, "table": "input", "address": 0, "count": 2}]}}, {},
            "source.modbus.read is not what decode.registers need; leave it out",
        ),
    ],
)  # fmt: skip
def test_a_modbus_line_that_contradicts_itself_is_refused(source: dict, keys: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        modbus(source, **keys)


def test_slaves_do_not_answer_by_a_broker() -> None:
    line = modbus({"modbus": {"mode": "rtu", "every_s": 1}}).model_dump(mode="json", by_alias=True)["line"][0]
    del line["framing"]
    line["source"] = {"kind": "mqtt", "topics": ["a"]}
    with pytest.raises(ValidationError, match='decode "modbus" with source "mqtt"'):
        DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "broker": {"host": "h"}, "line": [line]})


def test_a_recording_of_slaves_needs_no_port() -> None:
    line = modbus({"modbus": {"mode": "rtu", "every_s": 1}}).model_dump(mode="json", by_alias=True)["line"][0]
    recorded = {key: value for key, value in line.items() if key != "framing"}
    recorded["source"] = {"kind": "replay", "path": "plant.rec"}
    config = DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "line": [recorded]})
    assert config.line[0].framing.kind == "cobs"


LAST = {"when_absent": "last", "max_age_s": 5}
CSV = {"format": "csv", "columns": ["v"]}


def joined(channels: dict, topics: tuple[str, ...] = ("a/#",), decode: dict | None = None) -> DeviceConfig:
    line = {
        "name": "roof", "bundle": "b", "source": {"kind": "mqtt", "topics": topics} if topics else {"kind": "stdin"},
        "decode": decode or {"format": "json"}, "sink": [{"kind": "stdout"}],
        "channels": {name: {"field": "v"} | one for name, one in channels.items()},
    }  # fmt: skip
    return DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "broker": {"host": "h"}, "line": [line]})


def test_which_lines_join() -> None:
    assert not joined({"t": {}}).line[0].joins
    assert joined({"t": LAST}).line[0].joins
    assert joined({"t": LAST}, (), {"format": "senml+json"}).line[0].joins
    assert (
        joined({"t": {"topic": "a/+/t"}, "h": {"topic": "a/+/t"}, "p": LAST | {"topic": "a/b/p"}}, decode=CSV)
        .line[0]
        .joins
    )


@pytest.mark.parametrize(
    ("channels", "more", "says"),
    [
        ({"t": LAST}, {"decode": CSV}, "its frames have every field"),
        ({"t": {"topic": "a/t"}}, {"topics": ()}, "only mqtt has topics"),
        ({"t": {"topic": "a/t"}, "h": {}}, {}, "channel h without a topic"),
        ({"t": {"topic": "b/t"}}, {}, "source.topics does not take"),
        ({"t": {"topic": "a/+"}}, {"topics": ("a/t",)}, "source.topics does not take"),
        ({"t": {"topic": "a/t"}, "h": {"topic": "a/h"}}, {}, "channels h and t of different topics"),
        ({"t": {"topic": "a/t"}}, {"decode": CSV | {"columns": "header"}}, "name the columns"),
    ],
)
def test_a_line_that_no_message_could_complete(channels: dict, more: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(says)):
        joined(channels, **more)
