"""The lines of the two shipped bundles as a device file would make them, for proofs that need no process."""

from functools import cache
from pathlib import Path

from edge_runtime.engine.session import Session, open_session
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Model
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.payload import CsvDecode, JsonDecode, TimeField
from tests.proof.station import COLUMNS, DEWPOINT, FROST, US_UNITS

TIME = TimeField(field="time", format="iso8601")


@cache
def _session(path: Path) -> Session:
    return open_session(path.read_bytes())


def model(bundle: Path) -> Model:
    manifest = parse((bundle / "manifest.json").read_bytes())
    variant = manifest.variants[0]
    return Model(manifest, variant, "0" * 64, _session(bundle / variant.model))


def frost(*, batch_sizes=None, model=None, max_bytes=4096) -> Line:
    """CSV with a header, in US units."""
    bound = {name: ChannelBinding(field=COLUMNS[name], unit=unit) for name, unit in US_UNITS.items()}
    return _line(FROST, CsvDecode(format="csv", columns="header", time=TIME), bound, batch_sizes, model, max_bytes)


def dewpoint(*, batch_sizes=None, max_bytes=4096) -> Line:
    """JSON lines in contract units, of streams that ``site`` names."""
    bound = {
        "air_temperature": ChannelBinding(field="t", unit="Cel"),
        "relative_humidity": ChannelBinding(field="rh", unit="%"),
        "station_pressure": ChannelBinding(field="p", unit="hPa"),
    }
    decode = JsonDecode(format="json", time=TIME, stream="site")
    return _line(DEWPOINT, decode, bound, batch_sizes, None, max_bytes)


def _line(bundle, decode, bound, batch_sizes, infer, max_bytes) -> Line:
    served = infer or model(bundle)
    return Line(
        name=bundle.name, model=served, contract=Contract(served.manifest.channels, bound),
        framing=make_framing(LinesFraming(max_bytes=max_bytes), "utf-8"), decoder=make_decoder(decode, bound),
        batch_sizes=batch_sizes,
    )  # fmt: skip
