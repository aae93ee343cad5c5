"""One message of Sparkplug B -> its samples, by what the births before it told; it sends nothing and reads no clock."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.held_fields import HeldFields
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.flow.sparkplug import (
    BIRTHS,
    COMMANDS,
    GOOD,
    Metric,
    Payload,
    Topic,
    properties_of,
    read_payload,
    read_topic,
    value_of,
)
from edge_runtime.flow.sparkplug_nodes import Birth, Nodes
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import SparkplugDecode
from edge_runtime.spec.reading import Pack, Reading, Rejection
from edge_runtime.spec.units import VOCABULARIES, UnitUnknown, resolve

ENGINEERING_UNIT: Final = "engUnit"
"""The property by which most senders name a unit; the specification has none."""
_QUALITIES: Final = {0: ", bad", 500: ", stale"}
_LATEST_MS: Final = ((1 << 63) - 1) // 1_000_000


class _Found(NamedTuple):
    """One metric's value with its quality; ``value`` None for null."""

    value: Any
    quality: int


class _Sample(NamedTuple):
    """The metrics of one time, by name."""

    time_ns: int | None
    is_historical: bool
    values: dict[str, _Found]


class SparkplugDecoder(Decoder):
    """Reads frames of `sparkplug.framed`, and remembers the births: without them data says nothing.

    A birth is a sample only where a channel holds its last value: it tells all of them.
    """

    def __init__(self, decode: SparkplugDecode, channels: Mapping[str, ChannelBinding]) -> None:
        """Bind by name; raises ConfigurationError where a binding asks for what a metric does not have."""
        for name, binding in channels.items():
            _check(name, binding)
        self._decode = decode
        self._channels = tuple(channels.values())
        self._field_of = {f"channel {name}": binding.field for name, binding in channels.items()}
        self._bindings = {binding.field: binding for binding in self._channels}
        self._ages = [None if one.max_age_s is None else round(one.max_age_s * 1e9) for one in self._channels]
        self._holds = any(age is not None for age in self._ages)
        self._names_units = any(one.unit is None and one.unit_field is not None for one in self._channels)
        self._held = HeldFields()
        self._nodes = Nodes(asks=decode.rebirth == "ask")

    @property
    def is_dark(self) -> bool:
        """Whether all who were alive have died."""
        return self._nodes.is_dark

    def take_asks(self) -> set[str]:
        """The edge nodes, group/node, that must send their births again before their data counts, since the last call."""
        return self._nodes.take_asks()

    def decode(self, frame: bytes) -> Reading | Rejection | Pack | None:
        """Read one message; ``None`` for births, deaths, commands, and data of no channel."""
        name, _, data = frame.partition(b"\0")
        try:
            topic = read_topic(name.decode())
            if topic is None or topic.kind in COMMANDS:
                return None
            return self._take(topic, read_payload(data), crc32(data, crc32(name)))
        except ValueError as error:
            return Rejection("bad_sparkplug", "Sparkplug message", str(error), "what Sparkplug B 3.0 describes")

    def explain_missing(self, frame: bytes, refused: Rejection) -> Rejection:
        """Tell a metric that this message does not have from one without a value: many a sender tells changes only."""
        name, _, data = frame.partition(b"\0")
        topic, field = read_topic(name.decode()), self._field_of[refused.subject]
        birth = None if topic is None else self._nodes.birth(topic)
        names = (
            () if birth is None else [one.name or birth.names.get(_alias(one)) for one in read_payload(data).metrics]
        )
        if field in names:
            return refused._replace(found=f"metric {quote(field)} without a value")
        key = f"channels.{refused.subject.removeprefix('channel ')}"
        return refused._replace(
            found=f"no metric {quote(field)} in the message, and none that is young enough",
            todo=f'where the sender tells changes only, write when_absent = "last" and max_age_s in {key}',
        )

    def _take(self, topic: Topic, payload: Payload, checksum: int) -> Reading | Rejection | Pack | None:
        if topic.kind == "NDEATH":
            self._nodes.bury(topic, payload)
            return None
        refused = self._nodes.follow(topic, payload, checksum)
        is_ours = self._is_ours(topic)
        if refused is not None:
            return refused if is_ours or refused.reason != "no_birth" else None
        if topic.kind in BIRTHS:
            return self._born(topic, payload) if is_ours else self._nodes.keep(topic, None)
        birth = self._nodes.birth(topic) if is_ours else None
        return None if birth is None or topic.kind == "DDEATH" else self._read(topic, payload, birth)

    def _is_ours(self, topic: Topic) -> bool:
        of = self._decode.of
        if isinstance(of, str):
            return bool(topic.device) == (of == "devices")
        return topic.device in of

    def _born(self, topic: Topic, payload: Payload) -> Reading | Rejection | Pack | None:
        names: dict[int, str | None] = {}
        types: dict[str, int] = {}
        for metric in payload.metrics:
            name = metric.name
            if name is None or metric.alias in names or name in types:
                raise ValueError(
                    f"metric {quote(name)}, alias {metric.alias}: no name, or one of them twice, in a birth"
                )
            if metric.alias is not None:
                names[metric.alias] = name if name in self._bindings else None
            if name in self._bindings:
                types[name] = metric.datatype
        birth = Birth(names, types, {}, {})
        self._held.forget(topic.source)
        refused = self._nodes.keep(topic, birth)
        lacking = [field for field in self._bindings if field not in types]
        if lacking and refused is None:
            told = [metric.name for metric in payload.metrics if metric.name is not None]
            like = nearest(lacking[0], told) or f"it has {quote_names(told)}"
            refused = Rejection(
                "missing_field", f"birth of {topic.source}", f"no metric {quote(lacking[0])}",
                "every metric that is bound", f"correct the fields in [line.channels], or decode.of ({like})",
            )  # fmt: skip
        if refused is not None:
            return refused
        said = self._read(topic, payload, birth)
        return said if self._holds or isinstance(said, Rejection) else None

    def _read(self, topic: Topic, payload: Payload, birth: Birth) -> Reading | Rejection | Pack | None:
        samples: dict[tuple[int | None, bool], _Sample] = {}
        refused: Rejection | None = None
        for metric in payload.metrics:
            name = metric.name
            if name is None:
                if metric.alias not in birth.names:
                    return self._nodes.lose(topic, f"alias {metric.alias}, which no birth told of")
                name = birth.names[_alias(metric)]
            if name not in self._bindings:
                continue
            found = self._found(name, metric, birth)
            own_ns = _ns(payload.timestamp_ms if metric.timestamp_ms is None else metric.timestamp_ms)
            if isinstance(found, Rejection):
                refused = refused or found
            if self._holds and not metric.is_historical:
                self._hold(topic.source, name, own_ns, found)
            if isinstance(found, Rejection):
                continue
            is_whole = self._decode.timestamps == "payload" or topic.kind in BIRTHS
            time_ns = _ns(payload.timestamp_ms) if is_whole and not metric.is_historical else own_ns
            sample = _Sample(time_ns, metric.is_historical, {})
            values = samples.setdefault((time_ns, metric.is_historical), sample).values
            if name in values:
                raise ValueError(f"metric {name!r} twice at one time")
            values[name] = found
        if refused is not None or not samples:
            return refused
        return self._readings(topic, birth, sorted(samples.values(), key=lambda one: one.time_ns or 0))

    def _hold(self, source: str, name: str, time_ns: int | None, found: "_Found | Rejection") -> None:
        """Keep what is good, a null too; what is not ends what was kept, for the sender has news of it."""
        if isinstance(found, Rejection):
            self._held.forget(source, name)
        elif time_ns is None:
            raise ValueError("a metric without a time, of which no age can be told")
        else:
            self._held.put(source, name, time_ns, found)

    def _found(self, name: str, metric: Metric, birth: Birth) -> _Found | Rejection:
        binding = self._bindings[name]
        quality = None
        if metric.properties:
            unit, quality = properties_of(metric, binding.unit_field or ENGINEERING_UNIT)
            if unit is not None and birth.units.get(name) != unit:
                birth.units[name] = unit
                birth.refusals.pop(name, None)
                other = _other_unit(name, binding, unit)
                if other is not None:
                    birth.refusals[name] = other
        if name in birth.refusals:
            return birth.refusals[name]
        if metric.is_historical and self._decode.historical == "refuse":
            return Rejection(
                "historical", f"metric {name!r}", "a value that is sent late", "one of now",
                'answer it too by decode.historical = "carry"',
            )  # fmt: skip
        if quality not in (None, GOOD) and self._decode.quality == "refuse":
            return Rejection(
                "bad_quality", f"metric {name!r}", f"quality {quality}{_QUALITIES.get(quality or 0, '')}", "192, good",
                "the sender itself does not vouch for it: look at the sensor behind it",
            )  # fmt: skip
        if name not in birth.types:
            return Rejection(
                "missing_field", f"metric {name!r}", "data of it", "that its birth names it", "see the births"
            )
        try:
            value = value_of(metric, birth.types[name])
        except ValueError as error:
            return Rejection("not_a_number", f"metric {name!r}", str(error), "one number or text of its type")
        return _Found(value, GOOD if quality is None else quality)

    def _readings(self, topic: Topic, birth: Birth, samples: list[_Sample]) -> Reading | Rejection | Pack:
        readings: list[tuple[Reading, None]] = []
        for sample in samples:
            reading = self._reading(topic, birth, sample)
            if isinstance(reading, Rejection):
                return reading
            readings.append((reading, None))
        return readings[0][0] if len(readings) == 1 else Pack(tuple(readings))

    def _reading(self, topic: Topic, birth: Birth, sample: _Sample) -> Reading | Rejection:
        found = list(self._completed(topic, sample))
        values = []
        for binding, one in zip(self._channels, found, strict=True):
            try:
                values.append(None if one is None else _as_bound(one.value, binding))
            except ValueError:
                expected = "a text or a truth value" if binding.read == "text" else "a number"
                return Rejection("not_a_number", f"metric {binding.field!r}", quote(one and one.value), expected)
        carry: dict[str, str | float | int | bool | None] = {}
        if self._decode.historical == "carry":
            carry["historical"] = sample.is_historical
        if self._decode.quality == "carry":
            carry["quality"] = min((one.quality for one in found if one is not None), default=GOOD)
        units = None
        if self._names_units:
            units = tuple([None if one.unit is not None else birth.units.get(one.field) for one in self._channels])
        return Reading(tuple(values), sample.time_ns, topic.source, units, tuple(carry.items()))

    def _completed(self, topic: Topic, sample: _Sample) -> Iterator[_Found | None]:
        """Per channel what the sample has, else what is held: never for one of the past, which it may not be of."""
        for binding, age_ns in zip(self._channels, self._ages, strict=True):
            found = sample.values.get(binding.field)
            if found is None and age_ns is not None and sample.time_ns is not None and not sample.is_historical:
                found = self._held.at(topic.source, binding.field, sample.time_ns, age_ns)
            yield found


def _alias(metric: Metric) -> int:
    return -1 if metric.alias is None else metric.alias


def _ns(time_ms: int | None) -> int | None:
    """None for no time, and for the 0 of a device that has none."""
    if time_ms is not None and time_ms > _LATEST_MS:
        raise ValueError(f"a time of {time_ms} ms")
    return time_ms * 1_000_000 if time_ms else None


def _as_bound(value: Any, binding: ChannelBinding) -> float | str | None:
    if value is None:
        return None
    if binding.read == "text":
        if type(value) not in {str, bool}:
            raise ValueError
        return value.strip() if type(value) is str else str(value).lower()
    if type(value) not in {int, float}:
        raise ValueError
    return None if value in binding.missing_values else float(value)


def _other_unit(name: str, binding: ChannelBinding, unit: str) -> Rejection | None:
    """Why the unit that a sender names is not the one that the binding says, in whatever spelling; None where it is."""
    if binding.unit is None or unit == binding.unit:
        return None
    meant = resolve(binding.unit, binding.vocabulary).code
    for vocabulary in VOCABULARIES:
        try:
            if resolve(unit, vocabulary).code == meant:
                return None
        except UnitUnknown:
            continue
    key = binding.unit_field or ENGINEERING_UNIT
    return Rejection(
        "other_unit", f"unit of metric {name!r}", quote(unit), quote(binding.unit),
        f'correct unit; or, where the sender spells its unit so, write unit_field = "{key}" and unit_map instead of it',
    )  # fmt: skip


def _check(name: str, binding: ChannelBinding) -> None:
    if binding.read not in {"number", "text"} or binding.grid_field is not None:
        raise ConfigurationError(
            subject=f"channel {name!r}, read", found=repr(binding.read), expected="'number' or 'text' in Sparkplug",
            todo="a metric that is an array, a table or a file is not read",
        )  # fmt: skip
