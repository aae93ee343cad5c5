"""Lines between topics that serve shipped bundles, and what they are sent; it starts and checks nothing."""

import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.proof.kinds_streams import GRU, GRU_UNITS
from tests.proof.station import COLUMNS, DEWPOINT, FROST, US_UNITS, lines

WINDOW = 24
PIPES = ("north", "south", "east")
BEGIN = dt.datetime(1990, 1, 1, tzinfo=dt.UTC)
ROWS = [dict(zip(lines()[0], row, strict=True)) for row in lines()[1:]]
TIME = ', time = { field = "time", format = "unix_s" }'
DEWPOINT_UNITS = {name: US_UNITS[name] for name in ("air_temperature", "relative_humidity", "station_pressure")}

HEAD = """schema = "edge-runtime/device/1"
state_dir = "state"
"""
BROKER = """[broker]
host = "127.0.0.1"
port = {port}
protocol = "{protocol}"
device = "killed"
receive_maximum = {ahead}
{extra}
"""
LINE = """[[line]]
name = "{name}"
bundle = "{bundle}"
source = {source}
decode = {{ format = "json"{decode} }}
sink = [{sink}]
[line.channels]
{channels}
"""


def station(at, *, with_time=True):
    """The recorded station again and again, an hour a sample."""
    row = ROWS[at % len(ROWS)]
    values = {name: float(row[column]) for name, column in COLUMNS.items()}
    time = {"time": int((BEGIN + dt.timedelta(hours=at)).timestamp())} if with_time else {}
    return json.dumps(time | values).encode()


def pipe(at):
    """Three pipes in turns, each read every 10 s."""
    turn, which = divmod(at, len(PIPES))
    time = int(BEGIN.timestamp()) + 10 * turn + which
    values = {"flow": 3 + math.sin(at / 7), "pressure": 52 + 8 * math.cos(at / 11)}
    return json.dumps({"time": time, "pipe": PIPES[which]} | values).encode()


class Kind(NamedTuple):
    """A line: its bundle and binding, what it is sent; ``ahead`` is receive_maximum."""

    bundle: Path
    units: Mapping[str, str | None]
    decode: str
    payload: Callable[[int], bytes]
    warm_up: int = 0
    ahead: int = 64
    """More than mosquitto lets be on their way, 20 answers; in a windowed line less than the window."""


KINDS = {
    "windowed": Kind(FROST, US_UNITS, TIME, station, WINDOW - 1, ahead=10),
    "stateful": Kind(GRU, GRU_UNITS, f'{TIME}, stream = "pipe"', pipe),
    "stateless": Kind(DEWPOINT, DEWPOINT_UNITS, TIME, station),
    "timeless": Kind(DEWPOINT, DEWPOINT_UNITS, "", partial(station, with_time=False)),
}


def line_text(name, *, source=None, sink=None):
    kind = KINDS[name]
    return LINE.format(
        name=name,
        bundle=kind.bundle,
        source=source or f'{{ kind = "mqtt", topics = ["in/{name}"] }}',
        decode=kind.decode,
        sink=sink or f'{{ kind = "mqtt", topic = "out/{name}" }}',
        channels="\n".join(f'{channel} = {{ field = "{channel}", unit = "{unit}" }}' for channel, unit in kind.units.items()),
    )  # fmt: skip


def broker_text(port, protocol, *, ahead=64, extra=""):
    """The table of a broker, which sends ``ahead`` samples before their acknowledgement."""
    return BROKER.format(port=port, protocol=protocol, ahead=ahead, extra=extra)
