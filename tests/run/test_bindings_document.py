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


# The same, for bindings whose channels have topics: the last line of each says what its source is.
BROKER_HEAD = HEAD.replace("[[line]]", '[broker]\nhost = "127.0.0.1"\n[[line]]').replace(
    'source = { kind = "stdin" }\n', ""
)


class Payload(NamedTuple):
    """One payload, as the document shows it."""

    kind: str
    topic: str
    text: str


class Example(NamedTuple):
    """One payload under one binding, or several behind each other, and the lines the document says come of them."""

    title: str
    binding: str
    payloads: tuple[Payload, ...]
    says: str
    span: tuple[int, int]

    @property
    def topic(self) -> str:
        return self.payloads[0].topic


def examples(text: str) -> Iterator[Example]:
    binding = ""
    payloads: tuple[Payload, ...] = ()
    for block in BLOCK.finditer(text):
        if block["kind"] == "toml":
            assert not payloads
            binding = block["text"]
        elif block["kind"] in PAYLOADS:
            payloads += (Payload(block["kind"], block["topic"], block["text"]),)
        elif block["kind"] == "console":
            assert payloads
            title = text[: block.start()].rpartition("\n## ")[2].partition("\n")[0]
            yield Example(title, binding, payloads, block["text"], block.span("text"))
            payloads = ()
    assert not payloads


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


def capture(payload: Payload, second: int) -> str:
    """The payload as captured, each ten seconds after the one before."""
    text = payload.text.removesuffix("\n")
    message = {
        "tst": f"2026-11-30T20:36:{10 * second:02d}.000000Z+0000", "topic": payload.topic, "qos": 0, "retain": 0,
        "payloadlen": len(text.encode()), "payload": text or None,
    }  # fmt: skip
    if payload.kind == "hex":
        return f"{payload.topic} {''.join(text.split())}".strip()
    return json.dumps(message)


def said(example: Example, folder: Path) -> tuple[int, str]:
    """Run `bind` on one example: its exit code, and its text without head and sum."""
    head = BROKER_HEAD if "topic = " in example.binding or "[line.source]" in example.binding else HEAD
    config = parse_toml((head + example.binding).encode(), "device.toml")
    write_bundle(folder, list(config["line"][0]["channels"]))
    (folder / "device.toml").write_text(head + example.binding)
    captured = [capture(payload, second) for second, payload in enumerate(example.payloads)]
    (folder / "captured").write_text("\n".join(captured))
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
    assert code == (0 if "accepted" in text and "refused" not in text else 65)


def of(title: str) -> str:
    found = "".join(one.says for one in EXAMPLES if one.title.startswith(title))
    assert found, title
    return found


def test_every_preset_is_there() -> None:
    for title in ("Zigbee2MQTT", "Tasmota", "The Things Stack", "ChirpStack", "Shelly", "SenML", "A plain number", "rtl_433",
                  "Numbers as text", "Victron", "SCPI", "Modbus", "Balances", "Sparkplug B"):  # fmt: skip
        assert "accepted" in of(title)


def test_the_whole_file_loads_and_takes_the_capture_of_its_topic(tmp_path: Path) -> None:
    whole = next(block["text"] for block in BLOCK.finditer(TEXT) if block["kind"] == "toml")
    assert whole.startswith("schema = ")
    (tmp_path / "device.toml").write_text(whole.replace("bundles/dewpoint", str(ROOT / "bundles" / "dewpoint")))
    [topic] = load_config(tmp_path / "device.toml").config.line[0].source.topics
    first = next(one for one in EXAMPLES if one.topic == topic)
    (tmp_path / "captured").write_text("".join(first.payloads[0].text.splitlines()))
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
    assert len(EXAMPLES) == kinds_found.count("console")
    assert sum(len(one.payloads) for one in EXAMPLES) == sum(kind in PAYLOADS for kind in kinds_found)
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
    assert "refused, overload" in of("SCPI")
    assert "refused, not_ready" in of("SCPI")
    assert "refused, beyond_physical" in of("Modbus")
    assert "refused, missing: channel air_temperature" in of("Modbus")
    for reason in ("unstable", "other_unit", "unverified"):
        assert f"refused, {reason}" in of("Balances")
    assert "refused, no_birth" in of("Sparkplug B")
    assert "refused, bad_quality" in of("Sparkplug B")
    assert "no sample" in of("Victron")


if __name__ == "__main__":
    for each in reversed(EXAMPLES):
        with tempfile.TemporaryDirectory() as made:
            begin, end = each.span
            TEXT = TEXT[:begin] + said(each, Path(made))[1] + TEXT[end:]
    DOCUMENT.write_text(TEXT, encoding="utf-8")
