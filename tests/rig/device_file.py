"""A device file for the dewpoint bundle, written where a test wants it; it is the least that is valid."""

from pathlib import Path

_LINE = """
[[line]]
name = "{name}"
bundle = "{bundle}"

[line.source]
{source}

[line.decode]
format = "json"

[line.channels.air_temperature]
field = "t"
unit = "{temperature}"

[line.channels.relative_humidity]
field = "rh"
unit = "%"

[line.channels.station_pressure]
field = "p"
unit = "hPa"

[[line.sink]]
kind = "stdout"
"""


def line(
    name: str, bundle: Path, *, source: str = 'kind = "replay"\npath = "none.jsonl"', temperature: str = "[degF]"
) -> str:
    """One [[line]] that reads JSON, of a file without any unless told otherwise."""
    return _LINE.format(name=name, bundle=bundle, source=source, temperature=temperature)


def write_device_file(folder: Path, *lines: str) -> Path:
    """Write device.toml into ``folder``, its state folder ``state`` beside it, already there."""
    (folder / "state").mkdir(exist_ok=True)
    (folder / "none.jsonl").touch()
    path = folder / "device.toml"
    path.write_text('schema = "edge-runtime/device/1"\nstate_dir = "state"\n' + "".join(lines), encoding="utf-8")
    return path
