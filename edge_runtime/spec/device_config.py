"""What the integrator writes in device.toml: lines from a source through a bundle to sinks; it opens none of them."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.broker import BrokerConfig
from edge_runtime.spec.capture import CaptureConfig
from edge_runtime.spec.framing import BINARY_KINDS, MODBUS_FRAMING, BlockFraming, Framing, LinesFraming
from edge_runtime.spec.modbus import reads_of
from edge_runtime.spec.payload import CsvDecode, Decode, ModbusDecode, SenmlDecode, SparkplugDecode
from edge_runtime.spec.sink import MqttTopic, Publish, Sink, SparkplugDevice
from edge_runtime.spec.source import ENDING, FolderSource, MqttSource, SerialSource, Source, StandardInput
from edge_runtime.spec.store import PREFIX, SLOT, StoreConfig
from edge_runtime.spec.topic import matches
from edge_runtime.spec.units import VOCABULARIES, UnitUnknown, resolve, spellings
from edge_runtime.spec.variables import Variables

SignaturePolicy: TypeAlias = Literal["required", "if_present", "off"]

BIRTH_BYTES = 65_536
"""Longest message of Sparkplug, where framing.max_bytes does not say."""

CONFIG_SCHEMA: Literal["edge-runtime/device/1"] = "edge-runtime/device/1"

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)
_MIB = 1024 * 1024


class JournalConfig(BaseModel):
    """What outlives a restart: window, hysteresis, ledgers and unsent answers of one line, in one file."""

    model_config = _FROZEN

    enabled: Literal["auto", "on", "off"] = Field(
        default="auto", description="auto: on, but off for a replayed file, which can be played again from its start."
    )
    sync_s: FiniteFloat = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="Seconds between two writes that reach the disk: what a power cut may cost. 0: after every sample.",
    )
    max_bytes: int = Field(
        default=4 * _MIB,
        ge=65_536,
        description="What answers that cannot be sent may take before the oldest are dropped, and the size from which"
        " the file is written anew from what still counts.",
    )


class DeadLetters(BaseModel):
    """The refused samples of one line, kept with their reasons so that somebody can look; the oldest go first."""

    model_config = _FROZEN

    max_bytes: int = Field(default=4 * _MIB, ge=0, description="What they may take on disk. 0: keep none.")


class LineConfig(BaseModel):
    """One path: source -> framing -> decode -> channels -> bundle -> sinks."""

    model_config = _FROZEN

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")] = Field(
        description="The line's own name, in reports and in the state folder: lower case, digits, - and _."
    )
    bundle: Annotated[str, Field(min_length=1)] = Field(
        description="The bundle, a folder or a .tar of it, from device.toml's folder on; or store:ID, the active one of it."
    )
    source: Source = Field(description='Where the bytes come from, such as source = { kind = "stdin" }.')
    framing: Framing = Field(default=LinesFraming(), description="Where one frame ends and the next begins.")
    decode: Decode = Field(description="How a frame becomes fields.")
    channels: Annotated[dict[str, ChannelBinding], Field(min_length=1)] = Field(
        description="For each channel of the bundle: the sender's field and its unit."
    )
    sink: Annotated[tuple[Sink, ...], Field(min_length=1)] = Field(
        description='Where the answers go, such as sink = [{ kind = "stdout" }]; at least one.'
    )
    max_age_s: FiniteFloat | None = Field(
        default=None,
        gt=0,
        description="A sample whose own time is more seconds than this before its arrival is refused as stale, where this"
        " machine's clock is synchronised: after an outage a backlog comes at full speed, and a broker may keep a"
        " message for years. Without a synchronised clock no age can be judged, and answers are flagged clock_unsynced.",
    )
    publish: Publish = Field(default=Publish(), description="Which answers are told.")
    journal: JournalConfig = Field(default=JournalConfig(), description="What outlives a restart.")
    dead_letters: DeadLetters = Field(default=DeadLetters(), description="The refused samples.")
    capture: CaptureConfig | None = Field(
        default=None, description="Samples kept as they came, for the next bundle to be held against; absent: none."
    )

    @field_validator("bundle")
    @classmethod
    def _id_of_the_store(cls, value: str) -> str:
        if value.startswith(PREFIX) and not re.fullmatch(SLOT, value):
            raise ValueError('"store:" without the id of a bundle behind it; edge-runtime inspect tells a bundle\'s')
        return value

    @field_validator("channels")
    @classmethod
    def _known_units(cls, value: dict[str, ChannelBinding], info: ValidationInfo) -> dict[str, ChannelBinding]:
        """Refuse every unit that no table knows; whether one converts is seen once the bundle is there."""
        is_pack = isinstance(info.data.get("decode"), SenmlDecode)
        unknown = [
            InitErrorDetails(
                type=PydanticCustomError("unknown_unit", "{words}", {"words": words}), loc=(name, *key), input=text
            )
            for name, binding in value.items()
            for key, text, words in _unknown_units(_of_a_pack(binding) if is_pack else binding)
        ]
        if unknown:
            raise ValidationError.from_exception_data("channels", unknown)
        return value

    @field_validator("framing", mode="before")
    @classmethod
    def _lines_by_default(cls, value: Any) -> Any:
        return {"kind": "lines"} | value if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _units_of_a_pack(self) -> Self:
        """Write out what a SenML pack leaves no choice of: its vocabulary, and that a record names its unit."""
        if not isinstance(self.decode, SenmlDecode):
            return self
        return self.model_copy(update={"channels": {name: _of_a_pack(one) for name, one in self.channels.items()}})

    @model_validator(mode="after")
    def _room_for_births(self) -> Self:
        """A birth of Sparkplug tells everything of a node: some 35 bytes a metric."""
        if not isinstance(self.decode, SparkplugDecode) or "max_bytes" in self.framing.model_fields_set:
            return self
        return self.model_copy(update={"framing": self.framing.model_copy(update={"max_bytes": BIRTH_BYTES})})

    @model_validator(mode="after")
    def _modbus_follows_from_registers(self) -> Self:
        """Write out what decode.registers leave no choice of: what is asked, and how a round of answers is framed."""
        source = self.source
        modbus = source.modbus if isinstance(source, SerialSource) else None
        if not isinstance(self.decode, ModbusDecode):
            if modbus is not None:
                raise ValueError(f'source.modbus with decode "{self.decode.format}"; write decode.format = "modbus"')
            return self
        if isinstance(source, MqttSource):
            raise ValueError(  # noqa: TRY004 (a message for who wrote the file)
                'decode "modbus" with source "mqtt"; its frames are made by source.modbus of a port'
            )
        if "framing" in self.model_fields_set and self.framing != MODBUS_FRAMING:
            raise ValueError('framing with decode "modbus"; leave it out, a round of answers has its own')
        update: dict[str, Any] = {"framing": MODBUS_FRAMING}
        if isinstance(source, SerialSource):
            if modbus is None:
                raise ValueError('decode "modbus" without source.modbus; write mode and every_s there')
            read = reads_of(self.decode.registers)
            if modbus.read not in ((), read):
                raise ValueError("source.modbus.read is not what decode.registers need; leave it out")
            update["source"] = source.model_copy(update={"modbus": modbus.model_copy(update={"read": read})})
        return self.model_copy(update=update)

    @model_validator(mode="after")
    def _framing_suits(self) -> Self:
        """Refuse a framing that would hand the decoder what it cannot read, or that the link would spoil."""
        kind = self.framing.kind
        is_binary = kind in BINARY_KINDS
        if self.takes_bytes and not (is_binary or self.takes_messages):
            raise ValueError(
                f'decode "{self.decode.format}" with framing "{kind}"; binary frames need cobs, slip, packet or block'
            )
        if (self.decode.format == "nmea") and kind != "nmea":
            raise ValueError(f'decode "nmea" with framing "{kind}"; write framing = {{ kind = "nmea" }}')
        poll = self.source.poll if isinstance(self.source, SerialSource) else None
        if poll is not None and poll.timeout_s is not None:
            is_block = isinstance(self.framing, BlockFraming) and self.framing.terminator == "lf"
            if not is_block and kind != "lines":
                raise ValueError(
                    f'poll.timeout_s with framing "{kind}"; an answer that is waited for is a line, or a block with terminator "lf"'
                )
        if is_binary and isinstance(self.source, SerialSource) and self.source.flow == "xonxoff":
            raise ValueError(f'flow "xonxoff" with framing "{kind}"; it swallows the bytes 0x11 and 0x13')
        return self

    @model_validator(mode="after")
    def _angles_are_of_sentences(self) -> Self:
        """Refuse a way to read that only sentences have."""
        for name, channel in self.channels.items():
            if channel.read == "degrees_minutes" and self.decode.format != "nmea":
                raise ValueError(
                    f'channels.{name}.read "degrees_minutes" with decode "{self.decode.format}"; it belongs to "nmea"'
                )
        return self

    @model_validator(mode="after")
    def _age_has_a_time(self) -> Self:
        """Refuse a limit that nothing would ever be held against."""
        if self.max_age_s is not None and self.decode.time is None and not isinstance(self.decode, _OWN_TIMES):
            raise ValueError("max_age_s without decode.time; a sample without a time of its own is new when it arrives")
        return self

    @model_validator(mode="after")
    def _sinks_apart(self) -> Self:
        """Refuse two sinks that no status and no journal could tell apart."""
        _once("sinks are called", [sink.full_name for sink in self.sink], "give each sink its own name")
        return self

    @model_validator(mode="after")
    def _one_entity_an_output(self) -> Self:
        """Refuse what Home Assistant would show as one value that jumps."""
        told = [sink for sink in self.sink if isinstance(sink, MqttTopic) and sink.home_assistant]
        level = self.source.stream_level if isinstance(self.source, MqttSource) else None
        if told and isinstance(self.decode, SparkplugDecode) and not self._is_of_one:
            raise ValueError(
                "home_assistant with Sparkplug of several devices, each a stream: they share one topic and would be shown in"
                ' turn as one value; name the only one in decode.of (or "node") and its node in source.topics'
            )
        if told and (self.decode.stream is not None or level is not None):
            raise ValueError(
                "home_assistant with streams; they share one topic and would be shown in turn as one value"
            )
        if len(told) > 1:
            raise ValueError(f"home_assistant of {len(told)} sinks; one is enough to show the line's answers")
        return self

    @model_validator(mode="after")
    def _whole_messages(self) -> Self:
        """Refuse what contradicts that a message is a frame and its topic may name the stream."""
        if self.takes_messages:
            cut = self.framing.model_fields_set - {"kind", "max_bytes"}
            if cut or self.framing.kind != "lines":
                found = min(cut, default=f'kind = "{self.framing.kind}"')
                what = "an MQTT message" if isinstance(self.source, MqttSource) else "a whole file"
                raise ValueError(f"framing with {found}; {what} is one frame, so leave all but max_bytes out")
        if isinstance(self.source, MqttSource):
            if self.source.retained == "accept" and self.max_age_s is None:
                raise ValueError(
                    'retained = "accept" without max_age_s; write it: what a broker has kept may be years old'
                )
            if self.source.stream_level is not None and self.decode.stream is not None:
                raise ValueError("source.stream_level and decode.stream both name the stream; leave one out")
        return self

    @model_validator(mode="after")
    def _sparkplug_in_whole(self) -> Self:
        """Refuse what would lose births, deaths or counts of Sparkplug, and what its topics say anyway."""
        if not isinstance(self.decode, SparkplugDecode):
            return self
        if not isinstance(self.source, MqttSource):
            raise ValueError('decode "sparkplug" with a source that has no topics; it belongs to kind = "mqtt"')  # noqa: TRY004
        for topic in self.source.topics:
            if not _ALL_OF_SPARKPLUG.fullmatch(topic):
                raise ValueError(
                    f'source topic {topic!r} with decode "sparkplug"; write spBv1.0/GROUP/+/NODE/# (or fewer levels before'
                    " #): births, deaths and the count of messages stand under other topics than data"
                )
        if any(one.topic is not None for one in self.channels.values()):
            raise ValueError(
                'a channel with a topic and decode "sparkplug"; a metric has a name, and decode.of says whose'
            )
        if self.source.stream_level is not None:
            raise ValueError('stream_level with decode "sparkplug"; each node, or device, is a stream by itself')
        return self

    @model_validator(mode="after")
    def _joins(self) -> Self:
        """Refuse a line that no message could complete, or whose channels could be in no message."""
        held = [name for name, one in self.channels.items() if one.when_absent == "last"]
        topics = {name: one.topic for name, one in self.channels.items() if one.topic is not None}
        if not topics and held and self.decode.format not in {"json", "senml+json", "senml+cbor", "sparkplug"}:
            raise ValueError(
                f'when_absent = "last" with decode "{self.decode.format}"; its frames have every field, so leave it out'
                " or name the topic of each channel"
            )
        taken = self.source.topics if isinstance(self.source, MqttSource) else ()
        if topics and not taken:
            raise ValueError(f'topic of channel {min(topics)} with source "{self.source.kind}"; only mqtt has topics')
        without = [name for name in self.channels if topics and name not in topics]
        if without:
            raise ValueError(f"channel {without[0]} without a topic, where {min(topics)} has one; name every channel's")
        for name, topic in topics.items():
            # What a variable stands for is not known here.
            if "{" not in topic and not any("{" in one or matches(one, topic) for one in taken):
                raise ValueError(f"topic of channel {name}, {topic!r}, which source.topics does not take; add it there")
        needed = {topic: name for name, topic in topics.items() if name not in held}
        if len(needed) > 1:
            names = " and ".join(sorted(needed.values()))
            raise ValueError(
                f"channels {names} of different topics, neither held; a message has one topic: give all but those of one"
                ' topic when_absent = "last" and max_age_s'
            )
        if topics and isinstance(self.decode, CsvDecode) and self.decode.columns == "header":
            raise ValueError('columns = "header" with topics of channels; name the columns')
        return self

    @property
    def slot(self) -> str | None:
        """The id of the store's bundles that it serves; None where it names one by its path."""
        return self.bundle.removeprefix(PREFIX) if self.bundle.startswith(PREFIX) else None

    @property
    def _is_of_one(self) -> bool:
        """Whether a line of Sparkplug can only ever have one stream: one node's one device, or the node itself."""
        if not isinstance(self.decode, SparkplugDecode) or not isinstance(self.source, MqttSource):
            return False
        nodes = [topic.split("/") for topic in self.source.topics]
        is_one_node = len(nodes) == 1 and len(nodes[0]) == _LEVELS_TO_ONE_NODE and "+" not in {nodes[0][1], nodes[0][3]}
        return is_one_node and (self.decode.of == "node" or (self.decode.of != "devices" and len(self.decode.of) == 1))

    @property
    def joins(self) -> bool:
        """Whether a sample may take values from several messages."""
        if isinstance(self.decode, SparkplugDecode):
            return False  # its decoder knows itself what was told last, and when that ends
        return any(one.when_absent == "last" or one.topic is not None for one in self.channels.values())

    @property
    def takes_bytes(self) -> bool:
        """Whether its frames are binary: no line end may be taken off them."""
        return self.decode.format in {"struct", "senml+cbor", "modbus", "sparkplug"}

    @property
    def takes_messages(self) -> bool:
        """Whether what its source gives are frames already."""
        return isinstance(self.source, MqttSource) or (isinstance(self.source, FolderSource) and self.source.whole)

    @property
    def ends(self) -> bool:
        """Whether its source ends by itself: no sensor stands behind it that goes on sending."""
        return isinstance(self.source, ENDING)

    @property
    def uses_broker(self) -> bool:
        """Whether its source or a sink of it is the broker of the file."""
        return isinstance(self.source, MqttSource) or any(
            isinstance(sink, MqttTopic | SparkplugDevice) for sink in self.sink
        )


class SignatureConfig(BaseModel):
    """By whom the bundles of this device must be signed: never a bundle's own affair."""

    model_config = _FROZEN

    policy: SignaturePolicy = Field(
        default="if_present",
        description="required: no bundle serves unsigned; if_present: a signature that is there must hold, if there are"
        " keys; off: none is looked at.",
    )
    keys: str | None = Field(
        default=None, min_length=1, description="Folder of the trusted public keys, from device.toml's folder on."
    )

    @model_validator(mode="after")
    def _keys_to_require(self) -> Self:
        """Refuse a policy that every bundle would fail."""
        if self.policy == "required" and self.keys is None:
            raise ValueError('policy = "required" and no keys: no bundle could serve')
        return self


class DeviceConfig(BaseModel):
    """The whole of device.toml."""

    model_config = _FROZEN

    schema_: Literal["edge-runtime/device/1"] = Field(alias="schema", description='"edge-runtime/device/1"')
    profile: str | None = Field(
        default=None, min_length=1, description="Device profile, by name or file; absent: the one that fits."
    )
    state_dir: str | None = Field(
        default=None, min_length=1, description="Folder of journals and dead letters; absent: chosen as docs say."
    )
    variables: Variables = Field(
        default={},
        description="Texts that stand in names, topics and paths as {name}, so that a site's differences are in one place.",
    )
    signature: SignatureConfig = Field(default=SignatureConfig(), description="Who may have made the bundles.")
    probe_s: Annotated[FiniteFloat, Field(ge=1, le=86_400)] = Field(
        default=60.0, description="Seconds between two golden probes of each model while it serves."
    )
    store: StoreConfig = Field(
        default=StoreConfig(), description="The store of bundles that can be replaced in service."
    )
    broker: BrokerConfig | None = Field(default=None, description="The MQTT broker of sources and sinks.")
    line: Annotated[tuple[LineConfig, ...], Field(min_length=1)] = Field(description="At least one [[line]].")

    @model_validator(mode="after")
    def _lines_apart(self) -> Self:
        """Refuse two lines that would share a name or eat each other's bytes."""
        _once("lines are called", [line.name for line in self.line], "give each line its own name")
        ports = [line.source.port for line in self.line if isinstance(line.source, SerialSource) and line.source.port]
        _once("lines read the port", ports, "a port has one reader; use one line")
        taken = [one.source for one in self.line if isinstance(one.source, FolderSource) and one.source.after != "keep"]
        _once("lines take the files", [f"{one.path}/{one.pattern}" for one in taken], 'use one, or after = "keep"')
        readers = [line.name for line in self.line if isinstance(line.source, StandardInput)]
        if len(readers) > 1:
            raise ValueError(f"lines {' and '.join(readers)} read standard input; only one can")
        return self

    @model_validator(mode="after")
    def _broker_there(self) -> Self:
        users = [line for line in self.line if line.uses_broker]
        if users and self.broker is None:
            raise ValueError(f'no [broker] with host = "...", which the topics of line {users[0].name} need')
        for line in users:
            is_device = any(isinstance(sink, SparkplugDevice) for sink in line.sink)
            if is_device and self.broker is not None and self.broker.sparkplug is None:
                raise ValueError(
                    f'no sparkplug = {{ group = "..." }} in [broker], whose devices the answers of line {line.name} are'
                )
            if self.broker is not None and isinstance(line.source, MqttSource):
                most = self.broker.max_packet_bytes
                if line.framing.max_bytes > most:
                    raise ValueError(
                        f"framing.max_bytes of line {line.name} above broker.max_packet_bytes, {most}; lower it"
                    )
        return self


_OWN_TIMES = (SenmlDecode, SparkplugDecode)
_LEVELS_TO_ONE_NODE = 5  # spBv1.0/GROUP/+/NODE/#
_ALL_OF_SPARKPLUG = re.compile(r"spBv1\.0(/[^/#]+(/\+(/[^/#]+)?)?)?/#")


def _of_a_pack(channel: ChannelBinding) -> ChannelBinding:
    said = channel.model_fields_set
    written = {} if "vocabulary" in said else {"vocabulary": "senml"}
    if not said & {"unit", "unit_field"}:
        written["unit_field"] = "u"
    return channel.model_copy(update=written)


def _unknown_units(binding: ChannelBinding) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Each unit of a binding that its vocabulary does not have: the key, the text, and what was expected."""
    written: list[tuple[tuple[str, ...], str | None]] = [(("unit",), binding.unit), (("grid_unit",), binding.grid_unit)]
    written += [(("unit_map", word), unit) for word, unit in (binding.unit_map or {}).items()]
    for key, text in written:
        if text is None:
            continue
        try:
            resolve(text, binding.vocabulary)
        except UnitUnknown as error:
            others = [name for name in VOCABULARIES if name != binding.vocabulary and text in spellings(name)]
            or_declare = f", or vocabulary = {others[-1]!r} beside it" if others else ""
            yield key, text, f"a unit of vocabulary {binding.vocabulary}: {error.hint}{or_declare}"


def _once(what: str, names: list[str], todo: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{count} {what} {name!r}; {todo}")
