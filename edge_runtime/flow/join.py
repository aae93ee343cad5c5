"""The last value of each channel, held until a message lacks it: one sample of several messages; it reads no clock."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.line import refuse_stream
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import quote
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import Decode
from edge_runtime.spec.reading import ABSENT, Pack, Reading, Rejection, Value
from edge_runtime.spec.topic import matches

# A category's words have 200 characters at most: a longer text is unknown however it goes on.
_MAX_TEXT = 201
# Topics whose channels are remembered; a wide filter may bring any number of others.
_MAX_TOPICS = 1024
_NO_TOPIC = "name it: only an mqtt source has topics, and of captures those that mosquitto_sub -F '%j' has made"


class Held(NamedTuple):
    """What a channel was last: its value and unit text as sent, and the time of the message that brought it (Unix ns)."""

    value: Value
    unit: str | None
    time_ns: int


class Joined(NamedTuple):
    """A reading with all its channels; ``held`` are the places of those that an earlier message brought."""

    reading: Reading
    held: tuple[int, ...] = ()


class Join:
    """What a line remembers between messages, where one message brings not all channels.

    A sample is made by a message that brings a channel that is not held (``when_absent`` is "refuse"); where all are
    held, by each that brings any. Every other message only updates what is held. Ages are differences of sample times.
    """

    def __init__(
        self,
        decode: Decode,
        channels: Mapping[str, ChannelBinding],
        contract: Contract,
        *,
        max_streams: int,
        files: Mapping[str, NumberFiles] | None = None,
    ) -> None:
        """Make a decoder for each set of channels that a message may bring; raises as `make_decoder` does."""
        self._decode, self._channels, self._contract, self._files = decode, dict(channels), contract, files or {}
        self._max_streams = max_streams
        self._names = tuple(channels)
        self._ages_ns = tuple(
            None if one.max_age_s is None else round(one.max_age_s * 1e9) for one in channels.values()
        )
        self._makes = frozenset(at for at, age in enumerate(self._ages_ns) if age is None) or frozenset(
            range(len(channels))
        )
        self._topics = tuple(one.topic for one in channels.values())
        self._has_topics = any(self._topics)
        self._decoders: dict[tuple[int, ...], Decoder] = {}
        self._by_topic: dict[str, Decoder] = {}
        everything = tuple(range(len(channels)))
        self._whole = self._decoder_of(everything)
        for topic in filter(None, self._topics):
            self._decoder_of(tuple(at for at, one in enumerate(self._topics) if one == topic))
        self._streams: dict[str, list[Held | None]] = {}
        self._touched: set[str] = set()

    def decoder(self, topic: str) -> Decoder:
        """What reads a message of ``topic``: the channels it does not bring are ABSENT."""
        if not self._has_topics:
            return self._whole
        found = self._by_topic.get(topic)
        if found is None:
            places = tuple(at for at, one in enumerate(self._topics) if one is not None and matches(one, topic))
            found = self._decoder_of(places) if places else _OtherTopic(topic, [one for one in self._topics if one])
            if len(self._by_topic) >= _MAX_TOPICS:
                self._by_topic.clear()
            self._by_topic[topic] = found
        return found

    def expected(self, topic: str) -> list[str]:
        """The channels that a message of ``topic`` should bring: those that are not held, of those it may bring."""
        here = [at for at, one in enumerate(self._topics) if one is None or matches(one, topic)]
        return [self._names[at] for at in here if self._ages_ns[at] is None]

    def complete(self, reading: Reading, time_ns: int) -> Joined | Rejection | None:
        """Hold what ``reading`` brings and give it what it lacks; None where it only brings, or why neither."""
        brought = [at for at, value in enumerate(reading.values) if value is not ABSENT]
        if not brought:
            return self._nothing_bound()
        state = self._streams.get(reading.stream)
        if state is None:
            refused = refuse_stream(reading.stream, known=len(self._streams), most=self._max_streams)
            if refused is not None:
                return refused
            state = [None] * len(self._names)
        for at in brought:
            refused = self._refused(at, reading)
            if refused is not None:
                return refused
        self._streams[reading.stream] = state
        for at in brought:
            self._hold(state, at, reading, time_ns)
        if any(self._ages_ns[at] is not None for at in brought):
            self._touched.add(reading.stream)
        if self._makes.isdisjoint(brought):
            return None
        return self._filled(reading, state, time_ns)

    def saved(self) -> dict[str, Any]:
        """What is held of every stream, as JSON can hold it."""
        self._touched = set(self._streams)
        return self.take_changes()

    def take_changes(self) -> dict[str, Any]:
        """The same of the streams that changed since the last call."""
        touched, self._touched = self._touched, set()
        return {name: [None if one is None else list(one) for one in self._streams[name]] for name in sorted(touched)}

    def restore(self, saved: Mapping[str, Sequence[Sequence[Any] | None]]) -> None:
        """Take over what ``saved`` or ``take_changes`` gave."""
        for name, state in saved.items():
            self._streams[name] = [None if one is None else Held(*one) for one in state]

    def _decoder_of(self, places: tuple[int, ...]) -> Decoder:
        decoder = self._decoders.get(places)
        if decoder is None:
            some = {name: one for at, (name, one) in enumerate(self._channels.items()) if at in places}
            decoder = make_decoder(self._decode, some, {name: one for name, one in self._files.items() if name in some})
            needed = frozenset(f"channel {self._names[at]}" for at in places if self._ages_ns[at] is None)
            decoder = self._decoders[places] = _Some(decoder, places, len(self._channels), needed)
        return decoder

    def _refused(self, at: int, reading: Reading) -> Rejection | None:
        """A value that no sample could have is refused with the message that brought it, and never held."""
        value = reading.values[at]
        if self._ages_ns[at] is None or value is None:
            return None
        return self._contract.refuses(at, value, None if reading.units is None else reading.units[at])

    def _hold(self, state: list[Held | None], at: int, reading: Reading, time_ns: int) -> None:
        age_ns, before = self._ages_ns[at], state[at]
        # A message that was delayed tells nothing new; but a time far ahead was a clock's mistake and holds nobody up.
        if age_ns is None or (before is not None and 0 < before.time_ns - time_ns <= age_ns):
            return
        value = reading.values[at]
        # The unit of a value has been judged, and is a short one then; that of none has not.
        unit = None if reading.units is None or value is None else reading.units[at]
        state[at] = Held(value[:_MAX_TEXT] if type(value) is str else value, unit, time_ns)

    def _filled(self, reading: Reading, state: Sequence[Held | None], time_ns: int) -> Joined | Rejection:
        values = list(reading.values)
        units: list[str | None] = [None] * len(values) if reading.units is None else list(reading.units)
        held = []
        for at, value in enumerate(values):
            if value is not ABSENT:
                continue
            age_ns, one = self._ages_ns[at], state[at]
            if age_ns is None:
                values[at] = None
                continue
            if one is None:
                return self._never_seen(at)
            if abs(time_ns - one.time_ns) > age_ns:
                return self._too_old(at, time_ns - one.time_ns, age_ns)
            values[at], units[at] = one.value, one.unit
            held.append(at)
        named = tuple(units) if any(units) or reading.units is not None else None
        return Joined(reading._replace(values=tuple(values), units=named), tuple(held))

    def _never_seen(self, at: int) -> Rejection:
        where = f"a message on {self._topics[at]!r}" if self._topics[at] else f"a message with {self._field(at)}"
        return Rejection("missing", f"channel {self._names[at]}", "no value yet", where, "see that it is sent")

    def _too_old(self, at: int, age_ns: int, limit_ns: int) -> Rejection:
        found = f"a value {abs(age_ns) / 1e9:.6g} s {'older' if age_ns > 0 else 'newer'} than the sample"
        return Rejection(
            "stale", f"channel {self._names[at]}", found, f"{limit_ns / 1e9:g} s at most",
            f"see why {self._topics[at] or self._field(at)} is silent, or raise channels.{self._names[at]}.max_age_s",
        )  # fmt: skip

    def _nothing_bound(self) -> Rejection:
        fields = ", ".join(dict.fromkeys(map(self._field, range(len(self._names)))))
        todo = "correct the fields in [line.channels], or name source.topics more closely"
        return Rejection("missing_field", "message", "none of the bound fields", f"at least one of {fields}", todo)

    def _field(self, at: int) -> str:
        return quote(self._channels[self._names[at]].field)


class _Some(Decoder):
    """A decoder of some channels, giving all: the others are ABSENT. Only ``needed`` ones are explained where missing."""

    def __init__(self, decoder: Decoder, places: tuple[int, ...], count: int, needed: frozenset[str]) -> None:
        self._decoder, self._places, self._count, self._needed = decoder, places, count, needed

    def decode(self, frame: bytes) -> Reading | Rejection | Pack | None:
        item = self._decoder.decode(frame)
        if isinstance(item, Reading):
            return self._spread(item)
        if isinstance(item, Pack):
            return Pack(tuple((self._spread(reading), after_ns) for reading, after_ns in item.readings))
        return item

    def explain_missing(self, frame: bytes, refused: Rejection) -> Rejection:
        if refused.subject in self._needed:
            return self._decoder.explain_missing(frame, refused)
        return refused._replace(todo="the last message that brought it said that there is none; check the sensor")

    def _spread(self, reading: Reading) -> Reading:
        if len(self._places) == self._count:
            return reading
        values: list[Value] = [ABSENT] * self._count
        units: list[str | None] = [None] * self._count
        for at, place in enumerate(self._places):
            values[place] = reading.values[at]
            units[place] = None if reading.units is None else reading.units[at]
        return reading._replace(values=tuple(values), units=None if reading.units is None else tuple(units))


class _OtherTopic(Decoder):
    """What stands for the decoder of a topic that brings no channel."""

    def __init__(self, topic: str, bound: Sequence[str]) -> None:
        shown, some = (quote(topic) if topic else "no topic"), ", ".join(map(repr, dict.fromkeys(bound[:4])))
        todo = "name source.topics more closely" if topic else _NO_TOPIC
        self._refused = Rejection("other_topic", "topic", shown, f"one of {some}", todo)

    def decode(self, frame: bytes) -> Rejection:  # noqa: ARG002 -- whatever it holds
        return self._refused
