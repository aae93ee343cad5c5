"""Where a line's bytes come from, as written in device.toml; it opens nothing."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from edge_runtime.spec.modbus import Modbus
from edge_runtime.spec.toml_text import without_credentials
from edge_runtime.spec.topic import TopicFilter

MIN_QUEUE_BYTES = 65_536
"""One read at most; a smaller queue could not hold what a single read brings."""

Signal = Literal["keep", "low", "high"]


class SerialMatch(BaseModel):
    """Which USB serial adapter is meant, whatever name the system gives it today; at least one key."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    vid: int | None = Field(None, ge=0, le=0xFFFF, description="USB vendor id, for instance 0x0403.")
    pid: int | None = Field(None, ge=0, le=0xFFFF, description="USB product id, for instance 0x6001.")
    serial_number: str | None = Field(
        None,
        min_length=1,
        description="The adapter's own serial number. Cheap adapters all say 0001: then use port and a by-path name.",
    )
    interface: str | None = Field(
        None,
        min_length=1,
        description="USB interface name, for adapters with several ports.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if all(value is None for value in (self.vid, self.pid, self.serial_number, self.interface)):
            msg = "match is empty and would take any port; give at least one of vid, pid, serial_number, interface"
            raise ValueError(msg)
        return self


Command = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[\x01-\xff]*$")]
"""What is written to a port, its line end included: TOML's "\\r\\n" and "\\u001b"."""


class Identify(BaseModel):
    """A question at each open whose answer shows that the right instrument is plugged in."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    send: Command = Field("*IDN?\n", description="The question, with its line end; SCPI's own by default.")
    expect: Command = Field(description="A text that a line of the answer must have in it, such as the serial number.")


EverySeconds = Annotated[
    float, Field(ge=0.1, le=86_400, allow_inf_nan=False, description="Seconds from one sample to the next.")
]
TimeoutSeconds = Annotated[float, Field(ge=0.1, le=600, allow_inf_nan=False)]


class Poll(BaseModel):
    """A question that is written again and again, for an instrument that sends nothing by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    send: Command | Annotated[tuple[Command, ...], Field(min_length=1, max_length=100)] = Field(
        description="The question, with its line end: 'READ?\\n' for SCPI, 'SI\\r\\n' for MT-SICS. Several are asked one"
        " after another, and their answers, with commas between, are one line: one sample."
    )
    every_s: EverySeconds
    timeout_s: TimeoutSeconds | None = Field(
        None,
        description="How long the whole answer to a question, a line or an IEEE 488.2 block, may take; a sample without it"
        " is counted as no_answer. Without this key no answer is waited for: whatever comes is read.",
    )
    ask_error: Command | None = Field(
        None,
        description="What to ask once no answer came, 'SYST:ERR?\\n' for SCPI; the status tells what it says.",
    )

    @model_validator(mode="after")
    def _waits_where_it_must(self) -> Self:
        if self.timeout_s is None and (isinstance(self.send, tuple) or self.ask_error is not None):
            msg = "several questions, and ask_error, need timeout_s: how long an answer is waited for"
            raise ValueError(msg)
        return self

    @property
    def questions(self) -> tuple[str, ...]:
        """What to ask for one sample, in order."""
        return self.send if isinstance(self.send, tuple) else (self.send,)


class SerialSource(BaseModel):
    """A serial port, found by name or by the identity of its adapter, resolved anew at every open."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["serial"] = "serial"
    port: str | None = Field(
        None,
        min_length=1,
        description="A path (better /dev/serial/by-id/... than /dev/ttyUSB0, which swaps), a COM name, "
        "or a URL such as socket://host:port.",
    )
    match: SerialMatch | None = Field(None, description="The adapter's identity instead of a port name.")
    baud: int = Field(9600, gt=0, description="Bits per second. Never guessed.")
    bytesize: Literal[5, 6, 7, 8] = Field(8, description="Data bits.")
    parity: Literal["none", "even", "odd"] = Field("none", description="Parity bit.")
    stopbits: Literal[1, 2] = Field(1, description="Stop bits.")
    flow: Literal["none", "rtscts", "xonxoff"] = Field(
        "none", description="Flow control. xonxoff swallows the bytes 0x11 and 0x13: for text only."
    )
    dtr: Signal = Field(
        "keep",
        description="Data terminal ready on open; keep leaves it as the system sets it (Linux raises it, "
        "which restarts many development boards: see settle_ms).",
    )
    rts: Signal = Field("keep", description="Request to send on open; keep leaves it as the system sets it.")
    settle_ms: int = Field(
        0,
        ge=0,
        le=60_000,
        description="What arrives this long after an open is thrown away: boot messages of a restarted board.",
    )
    identify: Identify | None = Field(
        None, description="A question at each open; a port with another instrument behind it is not read."
    )
    poll: Poll | None = Field(None, description="A question written again and again. Without it nothing is written.")
    modbus: Modbus | None = Field(
        None, description="Registers that are asked for again and again; decode.registers says which."
    )
    reopen_max_s: float = Field(
        1.0,
        gt=0,
        le=600,
        allow_inf_nan=False,
        description="Longest wait between two attempts to open a port that is not there.",
    )
    queue_bytes: int = Field(
        1 << 20,
        ge=MIN_QUEUE_BYTES,
        description="What may wait while a long inference runs, memory of the queue itself included; the oldest is "
        "dropped, and counted, beyond it. 1 MiB is about 15 s of a full 115200 baud line.",
    )

    @field_validator("port")
    @classmethod
    def _names_no_user(cls, port: str | None) -> str | None:
        """A serial server asks for no password, and the port's name stands in the status and in logs."""
        if port is not None and without_credentials(port) != port:
            raise ValueError("a URL without a user, for nobody asks for one: socket://host:port")
        return port

    @model_validator(mode="after")
    def _one_kind_of_question(self) -> Self:
        if self.modbus is None:
            return self
        if self.poll is not None or self.identify is not None:
            msg = "modbus beside poll or identify; a Modbus slave understands no text, so keep one"
            raise ValueError(msg)
        if self.modbus.mode == "tcp" and not (self.port or "").startswith("socket://"):
            msg = 'modbus.mode "tcp" with a port that is none of the network; write port = "socket://host:502"'
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _one_way_to_find_it(self) -> Self:
        if (self.port is None) == (self.match is None):
            msg = f"give exactly one of port and match; found {'neither' if self.port is None else 'both'}"
            raise ValueError(msg)
        return self


class StandardInput(BaseModel):
    """What another program pipes in; a full queue makes that program wait, so nothing is lost."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["stdin"] = "stdin"


class ReplaySource(BaseModel):
    """A file played back: one made by `record`, or plain bytes; event time rules, not the clock."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["replay"] = "replay"
    path: str = Field(min_length=1, description="The file, from device.toml's folder on.")
    speed: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["max"] = Field(
        "max",
        description="Times the recorded pace, or max for as fast as it is taken. A plain file has no pace of its own.",
    )


class MqttSource(BaseModel):
    """Messages of the broker in [broker]; one message is one frame."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["mqtt"] = "mqtt"
    topics: Annotated[tuple[TopicFilter, ...], Field(min_length=1)] = Field(
        description="Topic filters, with '+' and '#', {device} and {line}; a message that several take is one sample."
    )
    qos: Literal[0, 1] = Field(
        default=1,
        description="1: a message is acknowledged once its effect is durable. 0: as it comes. 2 is not needed.",
    )
    retained: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="What the broker kept from before: refused, for nobody knows how old it is; or taken once a session.",
    )
    stream_level: int | None = Field(
        default=None,
        ge=1,
        le=128,
        description="The level of the topic that names the stream, the first is 1; each stream has its own window.",
    )


class FolderSource(BaseModel):
    """A folder into which another program writes its files, such as exports in CSV; each is read once it is complete."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["folder"] = "folder"
    path: str = Field(min_length=1, description="The folder, from device.toml's folder on.")
    pattern: str = Field(
        default="*",
        min_length=1,
        max_length=255,
        pattern=r"^[^/\x00]+$",
        description="Which names are read, with '*', '?' and '[...]', such as '*.csv'; never one that begins with a dot.",
    )
    order: Literal["name", "time"] = Field(
        default="name",
        description="By what the files follow each other: their names, or the times of their last change. One that is not"
        " complete holds back those behind it.",
    )
    settle_s: float = Field(
        default=2.0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="A file is complete once size and time of change have stood still this long. 0: as soon as it is seen,"
        " for a program that writes under another name and renames.",
    )
    poll_s: float = Field(
        default=1.0,
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="Seconds from one look into the folder to the next.",
    )
    after: Literal["keep", "move", "delete"] = Field(
        default="keep",
        description="What becomes of a file that was read: it stays, goes into the folder 'done' in it, or is deleted.",
    )
    whole: bool = Field(
        default=False, description="Whether a file is one frame, as a JSON document is; otherwise framing cuts it."
    )
    max_file_bytes: int = Field(
        default=16_777_216,
        ge=1,
        le=268_435_456,
        description="The largest file that is read; it is held in memory. A larger one is refused as bad_file.",
    )


class CommandSource(BaseModel):
    """A program that writes samples on its standard output; it is started, watched, and started again when it ends."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["command"] = "command"
    command: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")], ...],
        Field(min_length=1, max_length=100),
    ] = Field(
        description="The program, by name or from device.toml's folder on, and its arguments, one each. No shell reads"
        " them, so no '|', no '*' and no '$NAME' means anything."
    )
    pass_environment: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = Field(
        default=(),
        description="Variables of our environment that it gets beside PATH, HOME, TMPDIR, TZ and the language's.",
    )
    restart_max_s: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Longest wait before it is started again; the first is a tenth of a second, and again so once it has"
        " lived this long.",
    )


ENDING = StandardInput, ReplaySource
"""Sources that end by themselves: a person or a program has begun them and looks at how they end."""

Source = Annotated[
    SerialSource | StandardInput | ReplaySource | MqttSource | FolderSource | CommandSource,
    Field(discriminator="kind"),
]
