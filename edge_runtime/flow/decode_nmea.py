"""One NMEA 0183 sentence of the wanted kind -> one Reading, by field number; all other sentences are no samples."""

import re
from collections.abc import Mapping, Sequence
from operator import itemgetter

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Conversions, Getter, bad_encoding, bound_fields, make_assemble
from edge_runtime.flow.decode_csv import make_number, make_word
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import quote
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import NmeaDecode
from edge_runtime.spec.reading import Reading, Rejection

_MOST_FIELDS = 100
_STANDARD_ADDRESS = 5
_EMPTY = ("",)
_ANGLE = re.compile(r"(?P<degrees>[0-9]{2,3})(?P<minutes>[0-5][0-9](?:\.[0-9]*)?)")
# By hemisphere: the sign, the digits of the degrees and how many there may be.
_HEMISPHERES = {"N": (1, 2, 90.0), "S": (-1, 2, 90.0), "E": (1, 3, 180.0), "W": (-1, 3, 180.0)}


class NmeaDecoder(Decoder):
    """Reads sentences as the framing hands them on, without '$' and checksum, and remembers nothing."""

    def __init__(
        self, decode: NmeaDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Resolve the field numbers; raises ConfigurationError for a bound field that is no number from 1 to 99."""
        self._sentence = decode.sentence.encode()
        fields = bound_fields(decode, channels)
        for field, purpose in fields.items():
            if not (field.isascii() and field.isdigit() and 0 < int(field) < _MOST_FIELDS):
                raise ConfigurationError(
                    subject=f"field {field!r} ({purpose})", found="no field number", expected="a number from 1 to 99",
                    todo=f"count the fields of {decode.sentence} as its description does, from 1 behind the address",
                )  # fmt: skip
        for name, binding in channels.items():
            if binding.read not in {"number", "text", "degrees_minutes"} or binding.grid_field is not None:
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found=repr(binding.read),
                    expected="'number', 'text' or 'degrees_minutes'",
                    todo="a sentence has no arrays",
                )  # fmt: skip
        pairs = [int(binding.field) + 1 for binding in channels.values() if binding.read == "degrees_minutes"]
        self._last = max([*map(int, fields), *pairs])
        word = make_word(_EMPTY)
        conversions = Conversions(
            "field", make_number(_EMPTY, "."), str.strip, str.strip, "a number", word, columns_of=_neighbours, angle=_degrees
        )  # fmt: skip
        self._assemble = make_assemble(decode, channels, _getter_of, conversions, files)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one sentence; ``None`` for one of another kind."""
        address = frame.partition(b",")[0]
        if address != self._sentence and not self._is_from_any_talker(address):
            return None
        try:
            cells = frame.decode("ascii").split(",")
        except UnicodeDecodeError as error:
            return bad_encoding(frame, "ascii", error)
        if len(cells) <= self._last:
            return Rejection(
                "wrong_columns", "sentence", f"{len(cells) - 1} fields in {quote(frame)}", f"{self._last} or more",
                "correct the field numbers in the binding",
            )  # fmt: skip
        return self._assemble(cells)

    def _is_from_any_talker(self, address: bytes) -> bool:
        """Whether two letters of a talker stand before the wanted three; P begins a maker's own sentence."""
        return address[2:] == self._sentence and len(address) == _STANDARD_ADDRESS and address[:1] != b"P"


def _getter_of(field: str) -> Getter:
    return itemgetter(int(field))


def _neighbours(field: str, count: int) -> Getter:
    return itemgetter(slice(int(field), int(field) + count))


def _degrees(cells: Sequence[str]) -> float | None:
    """NMEA's ddmm.mmmm and hemisphere in degrees, ``None`` where both are empty; raises ValueError for what is none."""
    written, hemisphere = (cell.strip() for cell in cells)
    if not written and not hemisphere:
        return None
    found = _ANGLE.fullmatch(written)
    if found is None or hemisphere not in _HEMISPHERES:
        raise ValueError
    sign, digits, most = _HEMISPHERES[hemisphere]
    degrees = int(found["degrees"]) + float(found["minutes"]) / 60
    if len(found["degrees"]) != digits or degrees > most:
        raise ValueError
    return sign * degrees
