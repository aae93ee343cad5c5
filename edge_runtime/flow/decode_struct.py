"""One binary frame of fixed layout -> one Reading; it guesses no byte order and takes no frame of another size."""

import struct
from collections.abc import Mapping
from math import isfinite
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Conversions, Getter, Row, Scalar, bound_fields, make_assemble
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import nearest, quote_names
from edge_runtime.spec.binding import ChannelBinding, PackedDtype
from edge_runtime.spec.payload import StructDecode, StructField
from edge_runtime.spec.reading import Reading, Rejection

_CODES: dict[PackedDtype, str] = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


class StructDecoder(Decoder):
    """Unpacks one frame and remembers nothing."""

    def __init__(
        self, decode: StructDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Lay out the fields; raises ConfigurationError for a bound field that is none, or is read in a way it cannot be."""
        self._order: Literal["<", ">"] = "<" if decode.byte_order == "little" else ">"
        self._layout = struct.Struct(self._order + "".join(map(_code, decode.fields)))
        self._fields = {field.name: field for field in decode.fields if field.name is not None}
        self._places = {name: place for place, name in enumerate(self._fields)}
        self._check(decode, channels)
        conversions = binary_numbers("field")._replace(array=lambda raw: raw)
        self._assemble = make_assemble(decode, channels, self._getter_of, conversions, files)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one frame."""
        try:
            row = self._layout.unpack(frame)
        except struct.error:
            return Rejection(
                "wrong_size", "frame", f"{len(frame)} bytes", f"{self._layout.size}, as decode.fields say",
                "if every frame says so, correct decode.fields, or framing.crc where the frames end with one",
            )  # fmt: skip
        return self._assemble(row)

    def _check(self, decode: StructDecode, channels: Mapping[str, ChannelBinding]) -> None:
        arrays = {binding.field for binding in channels.values() if binding.read == "list"}
        for field, purpose in bound_fields(decode, channels).items():
            if field not in self._fields:
                todo = nearest(field, self._fields) or "correct the binding, or name the field in decode.fields"
                raise ConfigurationError(
                    subject=f"field {field!r} ({purpose})", found=f"fields {quote_names(self._fields)}",
                    expected="it among decode.fields", todo=todo,
                )  # fmt: skip
            count = self._fields[field].count
            if (count is not None) != (field in arrays):
                found = "a single number" if count is None else f"{count} numbers"
                raise ConfigurationError(
                    subject=f"field {field!r} ({purpose})", found=found,
                    expected='several numbers for read = "list", a single one for all else', todo="correct count or read",
                )  # fmt: skip
        for name, binding in channels.items():
            if binding.read not in {"number", "text", "list"} or binding.grid_field is not None:
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found=repr(binding.read), expected="'number', 'text' or 'list', and no grid",
                    todo="a struct holds numbers alone",
                )  # fmt: skip

    def _getter_of(self, name: str) -> Getter:
        place, field = self._places[name], self._fields[name]
        if field.count is not None:
            kind = np.dtype(field.type).newbyteorder(self._order)

            def array(row: Row) -> NDArray[Any]:
                return np.frombuffer(row[place], kind).astype(field.type)

            return array
        if not field.missing:
            return itemgetter(place)
        missing = frozenset(field.missing)

        def number(row: Row) -> float | None:
            value: float = row[place]
            return None if value in missing else value

        return number


def binary_numbers(place: str) -> Conversions:
    """How fields are read that are numbers already; ``place`` is what a person calls one."""
    return Conversions(place, _number, _text, _carried, "a number", _text)


def _code(field: StructField) -> str:
    code = _CODES[field.type]
    size = struct.calcsize("<" + code) * (field.count or 1)
    if field.name is None:
        return f"{size}x"
    return code if field.count is None else f"{size}s"


def _number(raw: float | None) -> float | None:
    return None if raw is None else float(raw)


def _text(raw: float | None) -> str | None:
    return None if raw is None else str(raw)


def _carried(raw: float | None) -> Scalar:
    return raw if raw is None or isfinite(raw) else str(raw)
