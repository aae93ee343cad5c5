"""Where a line's answers go, as written in device.toml; it opens nothing."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from edge_runtime.spec.topic import TopicName

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)

FieldMap = Annotated[
    dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(pattern="^/")]] | None,
    Field(
        min_length=1,
        description="The fields to write, in this order, each a JSON Pointer (RFC 6901) into the answer's default "
        "shape, for instance temperature = '/low/value'. Without it the default shape is written.",
    ),
]
AnswerEncoding = Annotated[
    Literal["json", "influx", "thingsboard"],
    Field(
        description="How a line is written: json, in the default shape or by map; influx, the line protocol of InfluxDB and"
        " Telegraf; thingsboard, the telemetry of a device."
    ),
]
SinkName = Annotated[
    str | None, Field(min_length=1, description="Its name in status and messages; by default its kind and path.")
]


class Publish(BaseModel):
    """Which answers are told. The others are counted as suppressed: their samples still fill windows and states."""

    model_config = _FROZEN

    when: Literal["all", "on_change", "every"] = Field(
        default="all",
        description="all; on_change: those in which an output has left the deadband around the last one told, or a flag or"
        " a label is another; every: one each every_s. Each stream for itself, its first answer always.",
    )
    deadband: dict[str, Annotated[FiniteFloat, Field(ge=0)]] = Field(
        default={},
        description="With on_change: how far an output may move, in its own unit, for example { low = 0.5 }; without it,"
        " any change counts.",
    )
    every_s: Annotated[FiniteFloat, Field(gt=0, le=1e9)] | None = Field(
        default=None,
        description="With every: seconds between two answers, by their own time. With on_change: after so long one is told"
        " though nothing has changed.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.when == "every" and self.every_s is None:
            raise ValueError("when = 'every' and no every_s; say how many seconds lie between two answers")
        if self.when == "all" and self.every_s is not None:
            raise ValueError("every_s with when = 'all'; write when = 'every' or 'on_change'")
        if self.deadband and self.when != "on_change":
            raise ValueError(f"deadband with when = '{self.when}'; it belongs to 'on_change'")
        return self


class _EncodedSink(BaseModel):
    """What every sink has: a name, and how its lines are written."""

    model_config = _FROZEN

    name: SinkName = None
    encoding: AnswerEncoding = "json"
    map: FieldMap = None

    @model_validator(mode="after")
    def _map_is_of_json(self) -> Self:
        if self.map is not None and self.encoding != "json":
            raise ValueError(
                f"map with encoding = {self.encoding!r}; a map shapes JSON, the others have names of their own"
            )
        return self


class StandardOutput(_EncodedSink):
    """Lines on standard output, for another program; a reader that waits holds the answers back, none is lost."""

    kind: Literal["stdout"] = "stdout"

    @property
    def full_name(self) -> str:
        """Its name, its kind where it was given none."""
        return self.name or self.kind


class JsonLinesFile(_EncodedSink):
    """A file of lines, JSON as a rule, appended to, whole lines only; it may be renamed away by a log rotation."""

    kind: Literal["jsonl"] = "jsonl"
    path: Annotated[str, Field(min_length=1, description="The file; relative to the device file's folder.")]
    sync: Literal["interval", "each", "never"] = Field(
        "interval",
        description="When lines are forced to the disk: at most every 5 s, at each batch, or when the system likes. "
        "A killed process loses nothing either way; a power cut loses what was not yet forced.",
    )

    @property
    def full_name(self) -> str:
        """Its name, its kind and path where it was given none."""
        return self.name or f"{self.kind} {self.path}"


class MqttTopic(_EncodedSink):
    """A topic of the broker in [broker]; each answer is one message, without a newline."""

    kind: Literal["mqtt"] = "mqtt"
    topic: TopicName = Field(default="edge/{device}/{line}", description="The topic, with {device} and {line}.")
    qos: Literal[0, 1] = Field(
        default=1, description="1: an answer waits, and goes again, until the broker has taken it. 0: sent once."
    )
    retain: bool = Field(default=False, description="Whether the broker keeps the last answer for whoever comes later.")
    home_assistant: bool | TopicName = Field(
        default=False,
        description="Whether Home Assistant is told of each number, label and flag by its MQTT discovery, under 'homeassistant';"
        " or the prefix that it was given instead.",
    )

    @model_validator(mode="after")
    def _shape_that_home_assistant_reads(self) -> Self:
        if self.home_assistant and (self.encoding != "json" or self.map is not None):
            raise ValueError("home_assistant with map or another encoding than json; it reads the default shape")
        if isinstance(self.home_assistant, str) and "{" in self.home_assistant:
            raise ValueError("home_assistant with a variable of topics; write the prefix that Home Assistant was given")
        return self

    @property
    def discovery_prefix(self) -> str:
        """Under which Home Assistant looks for what it is told."""
        return self.home_assistant if isinstance(self.home_assistant, str) else "homeassistant"

    @property
    def full_name(self) -> str:
        """Its name, its kind and topic where it was given none."""
        return self.name or f"{self.kind} {self.topic}"


class SparkplugDevice(BaseModel):
    """Devices of this process's edge node, one a stream, as [broker] sparkplug names the node."""

    model_config = _FROZEN

    kind: Literal["sparkplug"] = "sparkplug"
    name: SinkName = None

    @property
    def full_name(self) -> str:
        """Its name, its kind where it was given none."""
        return self.name or self.kind


Sink = Annotated[StandardOutput | JsonLinesFile | MqttTopic | SparkplugDevice, Field(discriminator="kind")]
