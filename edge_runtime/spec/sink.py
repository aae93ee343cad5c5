"""Where a line's answers go, as written in device.toml; it opens nothing."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

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
SinkName = Annotated[
    str | None, Field(min_length=1, description="Its name in status and messages; by default its kind and path.")
]


class StandardOutput(BaseModel):
    """JSON lines on standard output, for another program; a reader that waits holds the answers back, none is lost."""

    model_config = _FROZEN

    kind: Literal["stdout"] = "stdout"
    name: SinkName = None
    map: FieldMap = None

    @property
    def full_name(self) -> str:
        """Its name, its kind where it was given none."""
        return self.name or self.kind


class JsonLinesFile(BaseModel):
    """A file of JSON lines, appended to, whole lines only; it may be renamed away by a log rotation."""

    model_config = _FROZEN

    kind: Literal["jsonl"] = "jsonl"
    path: Annotated[str, Field(min_length=1, description="The file; relative to the device file's folder.")]
    sync: Literal["interval", "each", "never"] = Field(
        "interval",
        description="When lines are forced to the disk: at most every 5 s, at each batch, or when the system likes. "
        "A killed process loses nothing either way; a power cut loses what was not yet forced.",
    )
    name: SinkName = None
    map: FieldMap = None

    @property
    def full_name(self) -> str:
        """Its name, its kind and path where it was given none."""
        return self.name or f"{self.kind} {self.path}"


class MqttTopic(BaseModel):
    """A topic of the broker in [broker]; each answer is one message, without a newline."""

    model_config = _FROZEN

    kind: Literal["mqtt"] = "mqtt"
    topic: TopicName = Field(default="edge/{device}/{line}", description="The topic, with {device} and {line}.")
    qos: Literal[0, 1] = Field(
        default=1, description="1: an answer waits, and goes again, until the broker has taken it. 0: sent once."
    )
    retain: bool = Field(default=False, description="Whether the broker keeps the last answer for whoever comes later.")
    name: SinkName = None
    map: FieldMap = None

    @property
    def full_name(self) -> str:
        """Its name, its kind and topic where it was given none."""
        return self.name or f"{self.kind} {self.topic}"


Sink = Annotated[StandardOutput | JsonLinesFile | MqttTopic, Field(discriminator="kind")]
