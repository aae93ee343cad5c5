"""One SenML pack (RFC 8428), JSON or CBOR -> its readings, each with the units it names; it knows no other model of data."""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from math import inf, isfinite
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.cbor import read_cbor
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import SenmlDecode
from edge_runtime.spec.reading import ABSENT, Pack, Reading, Rejection

# RFC 8428, table 6.
_LABELS: Final = {
    -1: "bver", -2: "bn", -3: "bt", -4: "bu", -5: "bv", -6: "bs",
    0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd",
}  # fmt: skip
_VERSION, _SECONDARY_UNITS = 10, 26
"""RFC 9100: bit 4 says that units of RFC 8798 may occur, which the vocabulary has."""
_RELATIVE_NS: Final = (1 << 28) * 1_000_000_000
_LATEST_NS: Final = (1 << 63) - 1
_NAMES_TODO: Final = (
    'correct the fields in [line.channels]: whole names, or with stream = "bn" what follows the base name'
)
_OLDEST_NS: Final = -(1 << 62)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class _Record(NamedTuple):
    """One resolved record: ``time_ns`` is Unix time, or from ``_RELATIVE_NS`` down relative to now."""

    base: str
    name: str
    unit: str | None
    time_ns: int
    fields: dict[str, Any]
    base_value: Any


class _BadPackError(ValueError):
    """What a pack must not be; its text is what was found."""


class SenmlDecoder(Decoder):
    """Reads one pack per frame and remembers nothing: base fields end with their pack.

    Records of one time, and with ``stream = "bn"`` of one base name, are one reading.
    """

    def __init__(self, decode: SenmlDecode, channels: Mapping[str, ChannelBinding]) -> None:
        """Bind by name; raises ConfigurationError where a binding asks for what a pack does not have."""
        for name, binding in channels.items():
            _check(name, binding)
        self._is_json = decode.format == "senml+json"
        self._by_base = decode.stream == "bn"
        self._channels = tuple(channels.values())
        self._field_of = {f"channel {name}": binding.field for name, binding in channels.items()}
        self._fields = frozenset(binding.field for binding in self._channels)
        self._unnamed = ABSENT if any(one.when_absent == "last" for one in self._channels) else None

    def decode(self, frame: bytes) -> Reading | Rejection | Pack | None:
        """Read one pack; ``None`` for a blank frame. Records of other names are passed over, but not a pack of none else."""
        try:
            records = self._records(frame)
            if records is None:
                return None
            groups = self._grouped(records)
        except _BadPackError as error:
            return Rejection("bad_senml", "SenML pack", str(error), "what RFC 8428 describes")
        if not groups:
            return self._nothing_bound(records)
        readings: list[tuple[Reading, int | None]] = []
        for (stream, time_ns), values in sorted(groups.items(), key=lambda group: group[0][1]):
            reading = self._reading(stream, values)
            if isinstance(reading, Rejection):
                return reading
            if time_ns >= _RELATIVE_NS:
                readings.append((reading._replace(time_ns=time_ns), None))
            else:
                readings.append((reading, time_ns or None))
        alone, after_ns = readings[0]
        return alone if len(readings) == 1 and after_ns is None else Pack(tuple(readings))

    def explain_missing(self, frame: bytes, refused: Rejection) -> Rejection:
        """A name that the whole pack does not have is most likely mistyped in the device file: say what it does have."""
        field, names = self._field_of[refused.subject], sorted(self.names(frame))
        if field in names:
            return refused
        key = f"channels.{refused.subject.removeprefix('channel ')}.field"
        return refused._replace(
            found=f"no record {quote(field)} in the pack",
            todo=f"correct {key} in device.toml ({nearest(field, names) or f'it has {quote_names(names)}'})",
        )

    def names(self, frame: bytes) -> frozenset[str]:
        """The names a binding can use for this pack's records; none for what is no pack."""
        try:
            return frozenset(self._name(record) for record in self._records(frame) or ())
        except _BadPackError:
            return frozenset()

    def _records(self, frame: bytes) -> list[_Record] | None:
        text = frame.removeprefix(_BYTE_ORDER_MARK) if self._is_json else frame
        if not text or (self._is_json and text.isspace()):
            return None
        try:
            pack = from_json(text, cache_strings="none") if self._is_json else read_cbor(frame)
        except ValueError as error:
            raise _BadPackError(f"{quote(frame)} ({quote(str(error))})") from error
        if type(pack) is not list:
            raise _BadPackError(f"{quote(pack)}, no array of records")
        return list(_resolved(pack))

    def _name(self, record: _Record) -> str:
        return record.name if self._by_base else record.base + record.name

    def _grouped(self, records: list[_Record]) -> dict[tuple[str, int], dict[str, _Record]]:
        groups: dict[tuple[str, int], dict[str, _Record]] = {}
        for record in records:
            name = self._name(record)
            if name not in self._fields:
                continue
            group = groups.setdefault((record.base if self._by_base else "", record.time_ns), {})
            if name in group:
                raise _BadPackError(f"{quote(name)} twice at one time")
            group[name] = record
        return groups

    def _reading(self, stream: str, records: Mapping[str, _Record]) -> Reading | Rejection:
        found = [records.get(binding.field) for binding in self._channels]
        values = []
        for binding, record in zip(self._channels, found, strict=True):
            try:
                values.append(self._unnamed if record is None else _value(record, binding))
            except ValueError as error:
                expected = "a word in vs" if binding.read == "text" else "a number in v"
                return Rejection("not_a_number", f"SenML name {binding.field!r}", str(error), expected)
        return Reading(tuple(values), None, stream, tuple([None if one is None else one.unit for one in found]))

    def _nothing_bound(self, records: list[_Record]) -> Rejection | None:
        names = sorted({self._name(record) for record in records})
        if not names:
            return None
        wanted = self._channels[0].field
        return Rejection(
            "missing_field", "SenML pack", f"names {quote_names(names)}", f"{quote(wanted)} or another bound name",
            "; ".join(filter(None, (nearest(wanted, names), _NAMES_TODO))),
        )  # fmt: skip


def _check(name: str, binding: ChannelBinding) -> None:
    if binding.read not in {"number", "text"} or binding.grid_field is not None:
        raise ConfigurationError(
            subject=f"channel {name!r}, read", found=repr(binding.read), expected="'number' or 'text' in SenML",
            todo="a pack has single values",
        )  # fmt: skip
    if binding.vocabulary != "senml" or binding.unit_field not in (None, "u"):
        raise ConfigurationError(
            subject=f"channel {name!r}", found=f"vocabulary {binding.vocabulary!r}, unit_field {binding.unit_field!r}",
            expected="vocabulary 'senml', unit_field 'u'",
            todo="leave both out: a record names its unit itself; unit is for records that do not",
        )  # fmt: skip


def _resolved(pack: list[Any]) -> Iterator[_Record]:
    """Apply the base fields, which hold from their record on, to what follows (RFC 8428, section 4.6)."""
    base: dict[str, Any] = {"bn": "", "bt": 0, "bu": None, "bv": None}
    for number, record in enumerate(pack, 1):
        if type(record) is not dict:
            raise _BadPackError(f"record {number}: {quote(record)}, no object")
        fields = {_LABELS.get(key, str(key)): value for key, value in record.items()}
        _check_record(number, fields)
        base |= {key: fields[key] for key in base if key in fields}
        if not fields.keys() & _OWN:
            continue
        name = fields.get("n", "")
        if not base["bn"] + name:
            raise _BadPackError(f"record {number}: neither n nor bn")
        time_ns = _ns(number, base["bt"]) + _ns(number, fields.get("t", 0))
        if not _OLDEST_NS <= time_ns <= _LATEST_NS:
            raise _BadPackError(f"record {number}: a time of {quote(time_ns)} ns")
        yield _Record(base["bn"], name, fields.get("u") or base["bu"] or None, time_ns, fields, base["bv"])


_OWN: Final = frozenset({"v", "vs", "vb", "vd", "s"})
"""A record without any of them has base fields only."""


def _check_record(number: int, fields: Mapping[str, Any]) -> None:
    for key in ("bn", "bu", "n", "u"):
        if type(fields.get(key, "")) is not str:
            raise _BadPackError(f"record {number}: {key} that is no text")
    version = fields.get("bver", _VERSION)
    if type(version) is not int or not (0 < version <= _VERSION or version == _SECONDARY_UNITS):
        raise _BadPackError(f"record {number}: bver {quote(version)}, a version unknown here")
    for key in fields:
        if key.endswith("_"):
            raise _BadPackError(f"record {number}: field {quote(key)}, which must be understood and is not")


def _value(record: _Record, binding: ChannelBinding) -> float | str | None:
    fields = record.fields
    if binding.read == "text":
        word = fields.get("vs")
        if type(word) is not str:
            raise ValueError(_found(fields))
        return word.strip()
    raw = fields.get("v")
    if raw is None and not fields.keys() & {"vs", "vb", "vd"}:
        return None  # a record of its sum alone
    if not _is_number(raw) or not (record.base_value is None or _is_number(record.base_value)):
        raise ValueError(_found(fields))
    value = _float(raw)
    if record.base_value is not None:
        value += _float(record.base_value)
    return None if value in binding.missing_values else value


def _found(fields: Mapping[str, Any]) -> str:
    shown = [f"{key} {quote(fields[key])}" for key in ("v", "vs", "vb", "vd") if key in fields]
    return ", ".join(shown) or "nothing"


def _is_number(raw: Any) -> bool:
    return type(raw) in (int, float, Decimal)


def _float(raw: Any) -> float:
    try:
        return float(raw)
    except OverflowError:
        return inf if raw > 0 else -inf


def _ns(number: int, seconds: Any) -> int:
    """Seconds in whole nanoseconds, as they were written: a float's shortest decimal text is."""
    if type(seconds) is int:
        return seconds * 1_000_000_000
    try:
        if type(seconds) is Decimal or (type(seconds) is float and isfinite(seconds)):
            return int(Decimal(str(seconds)).scaleb(9))
    except InvalidOperation:
        pass
    raise _BadPackError(f"record {number}: a time that is no number, {quote(seconds)}")
