"""Raw streams for bundles of other kinds than the station's, and their device files; it imports nothing of the program."""

import base64
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.proof.station import ROOT

GRU = ROOT / "bundles" / "tiny_gru"
DIGITS = ROOT / "bundles" / "digits"
GRU_UNITS = {"flow": "L/s", "pressure": "[psi]"}
JSON = 'format = "json", time = { field = "time", format = "iso8601" }'
START = datetime(2026, 3, 1, 6, tzinfo=UTC)


def pipes(count: int, seed: int = 1) -> list[dict]:
    """Two pipes read every 10 s in turns, ``count`` readings each: north has a gap, south refused and doubled readings."""
    chance = random.Random(seed)
    made = []
    for at in range(count):
        for pipe, late_s in (("north", 0), ("south", 4)):
            one = {
                "time": (START + timedelta(seconds=10 * at + late_s)).isoformat(),
                "pipe": pipe,
                "flow": round(chance.uniform(1.6, 5.2), 4),
                "pressure": round(chance.uniform(43, 61), 3),
            }
            if pipe == "north" and count // 3 <= at < count // 3 + 2:
                continue
            made.append(one)
            if pipe == "south" and at == count // 2:
                later = (START + timedelta(seconds=10 * at + late_s + 1)).isoformat()
                made += [one, {**one, "time": later, "pressure": 9999.0}]
    return made


def pictures(count: int, seed: int = 1) -> list[dict]:
    """``count`` pictures of 8 x 8 grey steps from 0 to 16, one a second; they need not look like digits."""
    chance = random.Random(seed)
    return [
        {
            "time": (START + timedelta(seconds=at)).isoformat(),
            "image": base64.b64encode(
                bytes(chance.choice((0, 0, chance.randint(0, 16), 16)) for _ in range(64))
            ).decode(),
        }
        for at in range(count)
    ]


def json_lines(rows: Sequence[dict]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def gru_device(folder: Path, *, own_units: bool = False, **options) -> Path:
    """A device file of one line whose streams are the pipes; with ``own_units`` each reading names its units itself."""
    channels = [
        f'{name} = {{ field = "{name}", ' + (f'unit_field = "{name} unit" }}' if own_units else f'unit = "{unit}" }}')
        for name, unit in GRU_UNITS.items()
    ]
    return _device_file(folder, GRU, f'{JSON}, stream = "pipe"', channels, **options)


def digits_device(folder: Path, **options) -> Path:
    """A device file of one line that takes pictures as base64."""
    channels = ['image = { field = "image", read = "base64", dtype = "uint8", unit = "1" }']
    return _device_file(folder, DIGITS, JSON, channels, **options)


def _device_file(
    folder: Path,
    bundle: Path,
    decode: str,
    channels: Sequence[str],
    *,
    source: str,
    sinks: Sequence[str] = ('{ kind = "stdout" }',),
    journal: str = 'enabled = "off"',
    name: str = "tiny",
) -> Path:
    path = folder / "device.toml"
    text = [
        'schema = "edge-runtime/device/1"',
        'state_dir = "state"',
        "[[line]]",
        f'name = "{name}"',
        f"bundle = {json.dumps(str(bundle))}",
        f"source = {source}",
        f"decode = {{ {decode} }}",
        f"sink = [{', '.join(sinks)}]",
        f"journal = {{ {journal} }}",
        "[line.channels]",
        *channels,
    ]
    path.write_text("\n".join(text) + "\n")
    return path
