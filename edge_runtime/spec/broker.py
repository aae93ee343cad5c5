"""The one MQTT broker a process talks to, as written in device.toml; it holds no password, only where one stands."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from edge_runtime.spec.topic import TopicName

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class BrokerTls(BaseModel):
    """How the connection is encrypted, and by whom the broker and this device prove who they are."""

    model_config = _FROZEN

    ca: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file of the authorities that may vouch for the broker; absent: the system's own.",
    )
    certificate: str | None = Field(
        default=None, min_length=1, description="PEM file of this device's certificate, where the broker asks for one."
    )
    key: str | None = Field(default=None, min_length=1, description="PEM file of that certificate's private key.")
    server_name: str | None = Field(
        default=None,
        min_length=1,
        description="The name the broker's certificate must bear; absent: host.",
    )

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together; give both or neither")
        return self


SparkplugName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^/+#{}\x00-\x1f\x7f-\x9f]+$")
]


class SparkplugNode(BaseModel):
    """As which edge node of Sparkplug B this process answers, on a second connection to the same broker."""

    model_config = _FROZEN

    group: SparkplugName = Field(description="The group of nodes it belongs to.")
    edge: SparkplugName | None = Field(
        default=None,
        description="The node's name, which no other in the group may have; absent: what {device} stands for.",
    )


class BrokerConfig(BaseModel):
    """One connection for all lines of the file, with a session that outlives it."""

    model_config = _FROZEN

    host: str = Field(
        min_length=1,
        max_length=253,
        description="The broker's name or address, without a scheme and without a port.",
    )
    port: int | None = Field(
        default=None, ge=1, le=65_535, description="Absent: 1883, with tls 8883; websockets 80, with tls 443."
    )
    protocol: Literal["auto", "5", "3.1.1"] = Field(
        default="auto", description="The version of MQTT; auto: 5, and 3.1.1 where the broker does not speak that."
    )
    transport: Literal["tcp", "websockets"] = Field(
        default="tcp", description="What carries MQTT; over websockets only 3.1.1 is spoken."
    )
    path: str = Field(
        default="/mqtt",
        pattern=r"^/[!-~]*$",
        description="Where the broker answers on its web server; websockets only.",
    )
    device: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[^/+#{}$\x00-\x1f\x7f-\x9f]+$",
        description="What {device} stands for in topics; absent: the host's name. No / + # $ { }, for it is a level of them.",
    )
    client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="The session's name at the broker, which no other client may use; absent: made from the machine id"
        " and the state folder.",
    )
    user: str | None = Field(default=None, min_length=1, description="The user to log in as.")
    password_file: str | None = Field(
        default=None, min_length=1, description="File whose first line is the password. It never stands in this file."
    )
    password_env: str | None = Field(
        default=None, min_length=1, description="Environment variable that holds the password, instead of a file."
    )
    tls: BrokerTls | None = Field(default=None, description="Encryption; absent: none.")
    keepalive_s: int = Field(
        default=15,
        ge=2,
        le=3600,
        description="Silence after which the broker is asked whether it is there; after half as much again the"
        " connection is given up.",
    )
    session_expiry_s: int = Field(
        default=86_400,
        ge=0,
        le=0xFFFF_FFFF,
        description="How long the broker keeps the session, and what comes meanwhile, while this device is away.",
    )
    receive_maximum: int = Field(
        default=64,
        ge=1,
        le=64,
        description="Messages the broker may send ahead of their acknowledgement. A line knows this many again when"
        " they are sent twice.",
    )
    max_packet_bytes: int = Field(
        default=262_144,
        ge=1024,
        le=16_777_216,
        description="Longest message the broker may send; a longer one it drops.",
    )
    reconnect_max_s: float = Field(
        default=1.0,
        gt=0,
        le=600,
        allow_inf_nan=False,
        description="Longest wait between two attempts to connect; what the broker refuses is tried less often.",
    )
    sparkplug: SparkplugNode | None = Field(
        default=None, description="The edge node whose devices the sinks of kind sparkplug are; absent: none."
    )
    status_topic: TopicName = Field(
        default="edge/{device}/status",
        description="Where the state of this process stands, retained; its end is told there too.",
    )

    @field_validator("host")
    @classmethod
    def _bare(cls, host: str) -> str:
        """Refuse what other programs take in this place, which no name server knows; an IPv6 address has more colons."""
        if "/" in host or "[" in host or host.count(":") == 1 or host != host.strip():
            raise ValueError("a name or address alone; the port is broker.port, and encryption broker.tls")
        return host

    @model_validator(mode="after")
    def _fits_transport(self) -> Self:
        if self.transport == "websockets" and self.protocol == "5":
            raise ValueError('over websockets only 3.1.1 is spoken; leave protocol out, or use transport "tcp"')
        if self.transport == "tcp" and "path" in self.model_fields_set:
            raise ValueError('path belongs to transport "websockets"; give both or neither')
        return self

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password_file is not None and self.password_env is not None:
            raise ValueError("password_file and password_env both say the password; keep one")
        if self.user is None and (self.password_file or self.password_env):
            raise ValueError("a password belongs to a user; give user too")
        return self
