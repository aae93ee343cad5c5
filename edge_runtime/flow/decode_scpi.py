"""One answer of a SCPI instrument -> one Reading; the numbers by which it says that there is no value are never values."""

from collections.abc import Mapping

from edge_runtime.flow.decode_csv import CsvDecoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import CsvDecode, ScpiDecode
from edge_runtime.spec.reading import Reading, Rejection, Value

# SCPI-1999, 7.2.1.4 and 7.2.1.5. Numbers close to them are none of a measurement either.
_NOT_A_NUMBER = 9.91e37
_INFINITY = 9.9e37
_NAN_FROM = (_INFINITY + _NOT_A_NUMBER) / 2


class ScpiDecoder(Decoder):
    """Reads numbers and words with commas between, and remembers nothing."""

    def __init__(
        self, decode: ScpiDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Bind the fields; raises ConfigurationError where a bound field is not among them."""
        keys = {"time": decode.time, "stream": decode.stream, "status": decode.status, "carry": decode.carry}
        self._row = CsvDecoder(
            CsvDecode(format="csv", columns=decode.fields, encoding="latin-1", **keys), channels, files
        )
        self._names = tuple(channels)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one answer; ``None`` for a blank one."""
        reading = self._row.decode(frame)
        if type(reading) is Reading:
            for name, value in zip(self._names, reading.values, strict=True):
                refused = _no_value(name, value)
                if refused is not None:
                    return refused
        return reading


def _no_value(name: str, value: Value) -> Rejection | None:
    numbers = value if type(value) is list else [value]
    worst = max((number for number in numbers if type(number) is float), key=abs, default=0.0)
    if abs(worst) < _INFINITY * (1 - 1e-6):
        return None
    subject = f"channel {name}"
    if worst > _NAN_FROM:
        todo = "it measured nothing: look at its display and its trigger"
        return Rejection("not_ready", subject, f"{worst:g}, SCPI's NaN", "a value", todo)
    todo = "raise the range, or lower what is measured"
    return Rejection("overload", subject, f"{worst:g}, SCPI's infinity", "a value within its range", todo)
