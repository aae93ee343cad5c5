"""Topics and payloads of Sparkplug B 3.0: how they are read, and the one command a host sends; it remembers nothing."""

from collections.abc import Iterator
from struct import unpack
from typing import Any, Final, NamedTuple

from edge_runtime.flow.protobuf import BYTES, FIXED32, FIXED64, VARINT, bytes_field, read_fields, varint_field

NAMESPACE: Final = "spBv1.0"
BIRTHS, DATA, DEATHS, COMMANDS = (
    frozenset({f"N{kind}", f"D{kind}"}) for kind in ("BIRTH", "DATA", "DEATH", "CMD")
)  # fmt: skip
_TYPES: Final = BIRTHS | DATA | DEATHS | COMMANDS
_LONGEST_TOPIC: Final = 300
"""Names are remembered, and anybody may invent them."""
MOST_METRICS: Final = 10_000
"""In one payload: each costs some hundred bytes once it is read, and three on the wire."""
MAX_SEQ: Final = 255
BD_SEQ: Final = "bdSeq"
REBIRTH: Final = "Node Control/Rebirth"
GOOD: Final = 192
_QUALITY: Final = "quality"
_COMPRESSED: Final = "SPBV1.0_COMPRESSED"

# Data types by number: which of the fields of a value they are in, and how many bits an integer has, negative if signed.
_INT, _LONG, _FLOAT, _DOUBLE, _BOOLEAN, _STRING = 10, 11, 12, 13, 14, 15
_TYPE_NAMES: Final = (
    "Unknown", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double", "Boolean",
    "String", "DateTime", "Text", "UUID", "DataSet", "Bytes", "File", "Template",
)  # fmt: skip
_INTEGERS: Final = {1: -8, 2: -16, 3: -32, 4: -64, 5: 8, 6: 16, 7: 32, 8: 64}
_OTHERS: Final = {9: _FLOAT, 10: _DOUBLE, 11: _BOOLEAN, 12: _STRING, 14: _STRING, 15: _STRING}
_LONG_BITS: Final = 64
_UINT32: Final = 7


class Topic(NamedTuple):
    """Whose message it is: ``node`` is group/edge node; ``device`` is empty for the node's own."""

    kind: str
    node: str
    device: str

    @property
    def source(self) -> str:
        """Node and device in one, as the stream is called."""
        return f"{self.node}/{self.device}" if self.device else self.node


class Metric(NamedTuple):
    """One metric as sent: ``datatype`` 0 where it says none; ``field`` is the number of the field that held ``raw``."""

    name: str | None
    alias: int | None
    timestamp_ms: int | None
    datatype: int
    is_historical: bool
    is_null: bool
    properties: bytes
    field: int
    raw: Any


class Payload(NamedTuple):
    """One payload; None stands for what it does not say."""

    timestamp_ms: int | None
    seq: int | None
    metrics: tuple[Metric, ...]


def framed(topic: str, payload: bytes) -> bytes:
    """A message as one frame: its topic, which says what the payload is, a zero byte, which no topic has, and the payload."""
    return topic.encode() + b"\0" + payload


def read_topic(text: str) -> Topic | None:
    """Take a topic apart; ``None`` for the state of a host application. Raises ValueError for one of no message."""
    if len(text) > _LONGEST_TOPIC:
        raise ValueError(f"a topic of {len(text)} characters")
    levels = text.split("/")
    if levels[:2] == [NAMESPACE, "STATE"]:
        return None
    kind = levels[2] if len(levels) > 2 else ""  # noqa: PLR2004 -- namespace, group, type, edge node, device
    is_whole = len(levels) == (5 if kind.startswith("D") else 4) and all(levels) and text.isprintable()
    if levels[0] != NAMESPACE or kind not in _TYPES or not is_whole or "+" in text or "#" in text:
        raise ValueError(f"topic {text[:80]!r}")
    return Topic(kind, f"{levels[1]}/{levels[3]}", levels[4] if kind.startswith("D") else "")


def read_payload(data: bytes) -> Payload:
    """Read one payload; values and properties stay as they are until they are asked for.

    Raises:
        ValueError: no such message, more than MOST_METRICS metrics, or a compressed one.

    """
    timestamp = seq = None
    metrics: list[Metric] = []
    for number, value in _known(data, _PAYLOAD_WIRES):
        if number == 1:
            timestamp = value
        elif number == 2:  # noqa: PLR2004 -- the numbers of the schema, here and below
            if len(metrics) == MOST_METRICS:
                raise ValueError(f"more than {MOST_METRICS} metrics")
            metrics.append(_metric(value))
        elif number == 3:  # noqa: PLR2004
            seq = value
        elif value == _COMPRESSED.encode():
            raise ValueError("a compressed payload, which is not read here")
    if seq is not None and seq > MAX_SEQ:
        raise ValueError(f"seq {seq}, beyond {MAX_SEQ}")
    return Payload(timestamp, seq, tuple(metrics))


_PAYLOAD_WIRES: Final = {1: VARINT, 2: BYTES, 3: VARINT, 4: BYTES}
_METRIC_WIRES: Final = {
    1: BYTES, 2: VARINT, 3: VARINT, 4: VARINT, 5: VARINT, 7: VARINT, 9: BYTES,
    10: VARINT, 11: VARINT, 12: FIXED32, 13: FIXED64, 14: VARINT, 15: BYTES, 16: BYTES, 17: BYTES, 18: BYTES, 19: BYTES,
}  # fmt: skip
_PROPERTY_WIRES: Final = {2: VARINT, 3: VARINT, 4: VARINT, 8: BYTES}


def _known(data: bytes, wires: dict[int, int]) -> Iterator[tuple[int, Any]]:
    """The fields that ``wires`` names; others are passed over, as Protocol Buffers ask."""
    for number, wire, value in read_fields(data):
        if number in wires:
            if wires[number] != wire:
                raise ValueError(f"field {number} of wire type {wire}")
            yield number, value


def _metric(data: bytes) -> Metric:
    found: dict[int, Any] = {}
    field = 0
    for number, value in _known(data, _METRIC_WIRES):
        found[number] = value
        if number >= _INT:
            field = number
    name = found[1].decode() if 1 in found else None
    return Metric(
        name or None, found.get(2), found.get(3), found.get(4, 0), bool(found.get(5)), bool(found.get(7)),
        found.get(9, b""), field, found.get(field),
    )  # fmt: skip


def value_of(metric: Metric, datatype: int) -> float | int | bool | str | None:
    """What a metric of ``datatype`` says; None for null. Raises ValueError, in words, for what is no single value of it.

    A signed integer is taken both as the width it has and as 32 bits wide: both are written.
    """
    if metric.is_null:
        return None
    if metric.datatype not in (0, datatype):
        raise ValueError(f"a value of type {type_name(metric.datatype)}, born as {type_name(datatype)}")
    bits = _INTEGERS.get(datatype)
    if bits is not None:
        fields = {_LONG} if abs(bits) == _LONG_BITS else {_INT, _LONG} if datatype == _UINT32 else {_INT}
    else:
        fields = {_OTHERS.get(datatype, -1)}
    if metric.field not in fields:
        raise ValueError(f"a value of type {type_name(datatype)} in field {metric.field or 'none'}")
    raw = metric.raw
    if bits is not None:
        return _integer(raw, bits)
    if datatype in {9, 10}:
        return float(unpack("<f" if metric.field == _FLOAT else "<d", raw)[0])
    return bool(raw) if metric.field == _BOOLEAN else raw.decode()


def _integer(raw: int, bits: int) -> int:
    width, is_signed = abs(bits), bits < 0
    top = 1 << width
    if is_signed and width < _LONG_BITS and raw >= top:
        raw -= 1 << 32
        if not -(top >> 1) <= raw < 0:
            raise ValueError(f"an integer beyond {width} bits")
        return raw
    if raw >= top:
        raise ValueError(f"an integer beyond {width} bits")
    return raw - top if is_signed and raw >= top >> 1 else raw


def type_name(datatype: int) -> str:
    """As the specification calls it."""
    return _TYPE_NAMES[datatype] if datatype < len(_TYPE_NAMES) else f"number {datatype}"


def properties_of(metric: Metric, unit_key: str) -> tuple[str | None, int | None]:
    """The text of property ``unit_key`` and the code of property Quality, whichever way it is capitalised.

    Raises ValueError where keys and values do not pair, or one of the two is of another kind.
    """
    keys: list[str] = []
    values: list[bytes] = []
    for number, value in _known(metric.properties, {1: BYTES, 2: BYTES}):
        if number == 1:
            keys.append(value.decode())
        else:
            values.append(value)
    unit, quality = None, None
    for key, value in zip(keys, values, strict=True):
        if key == unit_key:
            unit = _property(value, 8).decode()
        elif key.casefold() == _QUALITY:
            quality = _property(value, 3, 4)
    return unit or None, quality


def _property(data: bytes, *fields: int) -> Any:
    found = dict(_known(data, _PROPERTY_WIRES))
    if found.get(2):
        return b"" if fields == (8,) else None
    for field in fields:
        if field in found:
            return found[field]
    raise ValueError("a unit that is no text, or a quality that is no integer, among its properties")


def rebirth_command(timestamp_ms: int) -> bytes:
    """The payload of the NCMD by which a host asks an edge node to send its births again."""
    boolean = 11
    metric = (
        bytes_field(1, REBIRTH)
        + varint_field(3, timestamp_ms)
        + varint_field(4, boolean)
        + varint_field(_BOOLEAN, 1)
    )  # fmt: skip
    return varint_field(1, timestamp_ms) + bytes_field(2, metric)


def asks_rebirth(data: bytes) -> bool:
    """Whether the payload of an NCMD asks for births; what cannot be read asks for nothing."""
    try:
        return any(one.name == REBIRTH and one.field == _BOOLEAN and one.raw for one in read_payload(data).metrics)
    except ValueError:
        return False


def command_topic(node: str) -> str:
    """Where commands to ``node``, group/edge node, are sent."""
    group, edge = node.split("/")
    return f"{NAMESPACE}/{group}/NCMD/{edge}"
