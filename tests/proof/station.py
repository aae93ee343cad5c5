"""The recorded station and device files for it, and the program as a process; it imports nothing of the program."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FROST = ROOT / "bundles" / "frost"
DEWPOINT = ROOT / "bundles" / "dewpoint"
STATION = ROOT / "examples" / "frost" / "station_us_units.csv"

COLUMNS = {
    "air_temperature": "air_temperature_degF",
    "relative_humidity": "relative_humidity_pct",
    "station_pressure": "station_pressure_inHg",
    "wind_speed": "wind_speed_mph",
    "solar_irradiance": "solar_irradiance_W_m2",
}
US_UNITS: Mapping[str, str | None] = {
    "air_temperature": "[degF]",
    "relative_humidity": "%",
    "station_pressure": "[in_i'Hg]",
    "wind_speed": "[mi_i]/h",
    "solar_irradiance": "W/m2",
}
TIME = 'time = { field = "time", format = "iso8601" }'


def lines() -> list[list[str]]:
    """The rows of the recording as texts, the header first."""
    with STATION.open(newline="") as file:
        return list(csv.reader(file))


def rewritten(change: Callable[[int, str, str], str]) -> bytes:
    """The recording with ``change(row number from 0, column, text)`` in each cell but the time's."""
    header, *rows = lines()
    changed = [
        [row[0], *(change(at, name, text) for name, text in zip(header[1:], row[1:], strict=True))]
        for at, row in enumerate(rows)
    ]
    return as_csv([header, *changed])


def as_csv(rows: Iterable[Sequence[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in rows).encode()


def device_file(
    folder: Path,
    stream: Path | str = STATION,
    *,
    bundle: Path = FROST,
    units: Mapping[str, str | None] = US_UNITS,
    sinks: Sequence[str] = ('{ kind = "stdout" }',),
    journal: str = 'enabled = "off"',
    source: str | None = None,
    extra: str = "",
) -> Path:
    """Write a device file of one line ``frost`` that replays ``stream``; its state goes into ``folder``/state."""
    channels = []
    for name, column in COLUMNS.items():
        unit = units[name]
        channels.append(f'{name} = {{ field = "{column}"' + (f', unit = "{unit}"' if unit else "") + " }")
    text = [
        'schema = "edge-runtime/device/1"',
        'state_dir = "state"',
        "[[line]]",
        'name = "frost"',
        f"bundle = {json.dumps(str(bundle))}",
        "source = " + (source or f'{{ kind = "replay", path = {json.dumps(str(stream))} }}'),
        f'decode = {{ format = "csv", columns = "header", {TIME} }}',
        f"sink = [{', '.join(sinks)}]",
        f"journal = {{ {journal} }}",
        extra,
        "[line.channels]",
        *channels,
    ]
    path = folder / "device.toml"
    path.write_text("\n".join(text) + "\n")
    return path


def program(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "edge_runtime", *map(str, words)]


def environment(folder: Path) -> dict[str, str]:
    """A home of its own, so that what the program leaves there shows, and nothing of this shell's."""
    home, runtime = folder / "home", folder / "runtime"
    home.mkdir(exist_ok=True)
    runtime.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "RUNTIME_DIRECTORY": str(runtime),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def call(
    folder: Path, *words: str | Path, stdin: bytes = b"", timeout_s: float = 120
) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end."""
    return subprocess.run(
        program(*words), cwd=folder, env=environment(folder), input=stdin, capture_output=True, check=False,
        timeout=timeout_s,
    )  # fmt: skip


def run(folder: Path, stream: Path | str = STATION, **device) -> subprocess.CompletedProcess[bytes]:
    """`run` on a device file that replays ``stream``; see ``device_file``."""
    return call(folder, "run", "--exit-on-refusal", "--config", device_file(folder, stream, **device))


def answers(data: bytes) -> list[dict]:
    """The answers on standard output or of a file; every line must be one."""
    assert not data or data.endswith(b"\n"), data[-200:]
    return [json.loads(line) for line in data.splitlines()]


def ledger(folder: Path) -> dict:
    """The ledger of the one line, as the program's status file says it."""
    (book,) = ledgers(folder).values()
    return book


def ledgers(folder: Path) -> dict[str, dict]:
    """The ledger of each line by its name, as the program's status file says it."""
    (path,) = folder.glob("runtime/**/status.json")
    return {line["name"]: line["ledger"] for line in json.loads(path.read_text())["lines"]}


def refused(folder: Path) -> list[dict]:
    """The dead letters of the line."""
    path = folder / "state" / "frost.refused.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def edited(
    source: Path, target: Path, change: Callable[[dict], None], files: Mapping[str, bytes] | None = None
) -> Path:
    """A copy of a bundle with its manifest changed, files replaced, and SHA256SUMS made right again."""
    content = {path.name: path.read_bytes() for path in source.iterdir() if path.name != "SHA256SUMS"} | dict(
        files or {}
    )
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    content["manifest.json"] = (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()
    return written(content, target)


def written(content: Mapping[str, bytes], target: Path) -> Path:
    """A bundle folder of ``content`` with a right SHA256SUMS."""
    target.mkdir()
    for name, data in content.items():
        (target / name).write_bytes(data)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(content.items()))
    (target / "SHA256SUMS").write_text(sums)
    return target
