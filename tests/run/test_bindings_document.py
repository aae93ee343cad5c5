"""docs/bindings.md, block by block: what it says `bind` says is what `bind` says. Run as a program it writes those blocks."""

import contextlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from edge_runtime.bundle.write import write_directory
from edge_runtime.cli import parser
from edge_runtime.run import bind
from edge_runtime.run.config import load_config
from edge_runtime.spec.manifest import encode
from edge_runtime.spec.toml_text import parse_toml
from tests.rig import kinds
from tests.rig.bundles import ROOT

DOCUMENT = ROOT / "docs" / "bindings.md"
BLOCK = re.compile(r"^```(?P<kind>\w+) ?(?P<topic>\S*)\n(?P<text>.*?)^```$", flags=re.MULTILINE | re.DOTALL)
PAYLOADS = ("json", "payload", "hex")
HEAD = """schema = "edge-runtime/device/1"
[[line]]
name = "doc"
bundle = "bundle"
source = { kind = "stdin" }
sink = [{ kind = "stdout" }]
"""


class Example(NamedTuple):
    """One payload under one binding, and the lines the document says come of it."""

    title: str
    binding: str
    kind: str
    topic: str
    payload: str
    says: str
    span: tuple[int, int]


def examples(text: str) -> Iterator[Example]:
    binding = ""
    blocks = list(BLOCK.finditer(text))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block["kind"] == "toml":
            binding = block["text"]
        if block["kind"] in PAYLOADS:
            assert after is not None
            assert after["kind"] == "console"
            title = text[: block.start()].rpartition("\n## ")[2].partition("\n")[0]
            yield Example(
                title, binding, block["kind"], block["topic"], block["text"], after["text"], after.span("text")
            )


def write_bundle(folder: Path, names: list[str]) -> None:
    """A bundle whose contract has these channels, as the document's table describes them; its model is no model."""
    table = dict(re.findall(r"^\| `(\w+)` \| (\S+ \| \S+ to \S+) \|$", DOCUMENT.read_text(), flags=re.MULTILINE))
    channels = []
    for name in names:
        unit, low, high = re.split(r" \| | to ", table[name])
        band = {"min": float(low), "max": float(high)}
        channels.append(kinds.number(name, unit=unit, trained=band, tolerated=band, physical=band))
    manifest = kinds.manifest([kinds.taking(*channels)])
    files = {"manifest.json": encode(manifest), "model.onnx": b"none", "golden.npz": b"none"}
    write_directory(files, folder / "bundle")


def head(example: Example) -> str:
    """What stands above a binding; one that names its own source is of the broker."""
    if "[line.source]" not in example.binding:
        return HEAD
    return HEAD.replace('source = { kind = "stdin" }\n', "").replace(
        "[[line]]", 'broker = { host = "broker" }\n[[line]]'
    )


def hexed(text: str) -> str:
    """Messages in hexadecimal, a line each, behind their topics where they have any."""
    messages = [""]
    for line in text.split("\n"):
        if "/" in line:
            messages.append(f"{line} ")
        else:
            messages[-1] += line
    return "".join(f"{one}\n" for one in messages if one)


def said(example: Example, folder: Path) -> tuple[int, str]:
    """Run `bind` on one example: its exit code, and its text without head and sum."""
    config = parse_toml((head(example) + example.binding).encode(), "device.toml")
    write_bundle(folder, list(config["line"][0]["channels"]))
    (folder / "device.toml").write_text(head(example) + example.binding)
    payload = example.payload.removesuffix("\n")
    message = {
        "tst": "2026-11-30T20:36:59.000000Z+0000", "topic": example.topic, "qos": 0, "retain": 0,
        "payloadlen": len(payload.encode()), "payload": payload or None,
    }  # fmt: skip
    captured = hexed(payload) if example.kind == "hex" else json.dumps(message)
    (folder / "captured").write_text(captured)
    arguments = ["--config", str(folder / "device.toml"), str(folder / "captured")]
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with patch.object(sys, "stdout", out), contextlib.redirect_stderr(err):
        code = bind.main(parser().parse_args(["bind", "--dry-run", *arguments]))
    lines = err.getvalue().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("payload "))
    return code, "".join(f"{line}\n" for line in lines[first:-1])


TEXT = DOCUMENT.read_text(encoding="utf-8")
EXAMPLES = list(examples(TEXT))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.title} {example.span[0]}")
def test_bind_says_what_the_document_says(example: Example, tmp_path: Path) -> None:
    code, text = said(example, tmp_path)
    assert text == example.says
    assert code == (65 if "refused" in text or "accepted" not in text else 0)


def of(title: str) -> str:
    found = "".join(one.says for one in EXAMPLES if one.title.startswith(title))
    assert found, title
    return found


def test_every_preset_is_there() -> None:
    for title in ("Zigbee2MQTT", "Tasmota", "The Things Stack", "ChirpStack", "Shelly", "SenML", "A plain number", "rtl_433",
                  "Numbers as text", "Victron", "Sparkplug B"):  # fmt: skip
        assert "accepted" in of(title)


def test_the_whole_file_loads_and_takes_the_capture_of_its_topic(tmp_path: Path) -> None:
    whole = next(block["text"] for block in BLOCK.finditer(TEXT) if block["kind"] == "toml")
    assert whole.startswith("schema = ")
    (tmp_path / "device.toml").write_text(whole.replace("bundles/dewpoint", str(ROOT / "bundles" / "dewpoint")))
    [topic] = load_config(tmp_path / "device.toml").config.line[0].source.topics
    first = next(one for one in EXAMPLES if one.topic == topic)
    (tmp_path / "captured").write_text("".join(first.payload.splitlines()))
    assert (
        bind.main(
            parser().parse_args(
                ["bind", "--dry-run", "--config", str(tmp_path / "device.toml"), str(tmp_path / "captured")]
            )
        )
        == 0
    )


def test_no_block_stands_aside() -> None:
    kinds_found = [block["kind"] for block in BLOCK.finditer(TEXT)]
    assert kinds_found.count("sh") == 1  # it needs a broker
    assert set(kinds_found) == {"sh", "toml", "console", *PAYLOADS}
    assert len(EXAMPLES) == sum(kind in PAYLOADS for kind in kinds_found) == kinds_found.count("console")
    [command] = re.findall(r"^edge-runtime (.*)$", TEXT, flags=re.MULTILINE)
    assert parser().parse_args(command.split()).dry_run


def test_the_traps_are_refused_and_told() -> None:
    assert "refused, missing: channel air_temperature" in of("Zigbee2MQTT")
    assert "the value fits mV" in of("Zigbee2MQTT")
    assert "2985 mV -> 2.985 V" in of("Zigbee2MQTT")
    assert "refused, bad_time" in of("Tasmota")
    assert "accepted, at its arrival" in of("Tasmota")
    assert "70.5 [degF] (sent as 'F') -> 21.38888889 Cel" in of("Tasmota")
    assert "refused, missing: channel air_temperature" in of("The Things Stack")
    assert " 0 Cel" not in of("The Things Stack")
    assert "refused, missing: channel mains_voltage" in of("Shelly")
    assert "refused, no_match" in of("A plain number")
    assert "refused, type_changed" in of("Numbers as text")
    assert "refused, missing: channel battery_voltage" in of("Victron")
    assert "refused, no_birth" in of("Sparkplug B")
    assert "refused, bad_quality" in of("Sparkplug B")
    assert "no sample" in of("Victron")


if __name__ == "__main__":
    for each in reversed(EXAMPLES):
        with tempfile.TemporaryDirectory() as made:
            begin, end = each.span
            TEXT = TEXT[:begin] + said(each, Path(made))[1] + TEXT[end:]
    DOCUMENT.write_text(TEXT, encoding="utf-8")
