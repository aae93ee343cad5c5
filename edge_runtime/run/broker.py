"""From [broker] to a link: names filled in, secrets fetched, TLS made ready; nothing is imported where there is no broker."""

import hashlib
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.links.mqtt_dialect import Caller, Dialect, LastWill, Target
from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.run.config import LoadedConfig
from edge_runtime.spec.broker import BrokerConfig
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.sink import MqttTopic
from edge_runtime.spec.source import MqttSource
from edge_runtime.spec.topic import filled, matches

if TYPE_CHECKING:
    from edge_runtime.links.broker_link import BrokerLink
    from edge_runtime.sinks.sparkplug_node import EdgeNode

PORTS: Final = {
    ("tcp", False): 1883,
    ("tcp", True): 8883,
    ("websockets", False): 80,
    ("websockets", True): 443,
}
"""By transport, and whether it is encrypted."""
_MACHINE_ID: Final = Path("/etc/machine-id")
_MAX_SECRET_BYTES: Final = 4096


def open_link(loaded: LoadedConfig, state: Path, run_id: str) -> MqttLink | None:
    """The link to the broker of a device file, not yet started; None where it names none.

    Raises ConfigurationError for a password or a certificate that cannot be read, and for a line whose answers would
    come back to a line of the same file.
    """
    broker = loaded.config.broker
    if broker is None:
        return None
    refuse_circles(loaded, broker)
    target = _target(loaded, broker, broker.client_id or default_client_id(state))
    last = LastWill(target.status_topic, offline(run_id, "the connection was lost"), retain=True)
    return _link(broker, target._replace(will=lambda: last))


def open_onlooker(loaded: LoadedConfig, broker: BrokerConfig) -> "BrokerLink":
    """A second client of the same broker, not yet started: it tells nothing of itself, and nothing is kept for it.

    Its client id is the configured one and some letters more, or all chance: it takes over no session, but where the
    broker makes the id of the user. Raises ConfigurationError as ``open_link`` does.
    """
    client_id = f"{broker.client_id or 'edge'}{token_hex(4 if broker.client_id else 8)}"
    return _link(broker, _target(loaded, broker, client_id)._replace(lasts=False))


def _link(broker: BrokerConfig, target: Target) -> "BrokerLink":
    from edge_runtime.links.broker_link import BrokerLink  # noqa: PLC0415 -- for those who have a broker

    return BrokerLink(target, dialects(broker), wall_ns=time.time_ns, mono_ns=time.monotonic_ns)


def open_node(loaded: LoadedConfig, state: Path, run_id: str) -> "EdgeNode | None":
    """The edge node of a device file, on a second connection to its broker, not yet started; None where it names none.

    Sparkplug wants a session that ends with its connection, and a will of its own. Raises as `open_link` does.
    """
    broker = loaded.config.broker
    if broker is None or broker.sparkplug is None:
        return None
    from edge_runtime.flow.sparkplug import NAMESPACE  # noqa: PLC0415 -- for who has such hosts
    from edge_runtime.sinks.sparkplug_node import EdgeNode  # noqa: PLC0415

    group, edge = broker.sparkplug.group, broker.sparkplug.edge or device_name(broker)
    node = EdgeNode(group, edge, run_id, wall_ns=time.time_ns, mono_ns=time.monotonic_ns)
    target = _target(loaded, broker, f"{broker.client_id or default_client_id(state)}sp")._replace(
        status_topic=f"{NAMESPACE}/{group}/NDEATH/{edge}", will=node.will, lasts=False, keeps_status=False
    )
    node.attach(_link(broker, target))
    return node


def _target(loaded: LoadedConfig, broker: BrokerConfig, client_id: str) -> Target:
    """The broker, as ``client_id``, which leaves no will."""
    password = _password(loaded, broker)
    tls = None
    if broker.tls is not None:
        from edge_runtime.links.tls import Tls  # noqa: PLC0415 -- for those who encrypt

        names = (broker.tls.ca, broker.tls.certificate, broker.tls.key)
        ca, certificate, key = (None if one is None else loaded.resolve(one) for one in names)
        tls = Tls(broker.tls.server_name or broker.host, ca=ca, certificate=certificate, key=key)
    return Target(
        host=broker.host,
        port=broker.port or PORTS[broker.transport, tls is not None],
        client_id=client_id,
        user=broker.user,
        password=password or (lambda: None),
        tls=tls,
        keepalive_s=broker.keepalive_s,
        session_expiry_s=broker.session_expiry_s,
        receive_maximum=broker.receive_maximum,
        max_packet_bytes=broker.max_packet_bytes,
        reconnect_max_s=broker.reconnect_max_s,
        status_topic=filled(broker.status_topic, device=device_name(broker)),
        will=lambda: None,
        websocket_path=broker.path if broker.transport == "websockets" else None,
    )


def dialects(broker: BrokerConfig) -> tuple[Callable[[Target, Caller], Dialect], ...]:
    """What to speak with the broker, in the order in which it is tried; each is loaded once it is spoken."""
    if broker.transport == "websockets" or broker.protocol == "3.1.1":
        return (_mqtt_311,)
    return (_mqtt_5,) if broker.protocol == "5" else (_mqtt_5, _mqtt_311)


def _mqtt_5(target: Target, caller: Caller) -> Dialect:
    from edge_runtime.links.mqtt5_link import Mqtt5  # noqa: PLC0415 -- for those who speak it

    return Mqtt5(target, caller)


def _mqtt_311(target: Target, caller: Caller) -> Dialect:
    from edge_runtime.links.paho_link import Mqtt311  # noqa: PLC0415 -- for those who speak it

    return Mqtt311(target, caller)


def offline(run_id: str, reason: str) -> bytes:
    """What stands on the status topic while nobody serves."""
    return to_json({"status": "offline", "reason": reason, "run_id": run_id})


def device_name(broker: BrokerConfig) -> str:
    """What {device} stands for."""
    return broker.device or re.sub(r"[/+#{}$\x00-\x1f\x7f-\x9f]", "-", socket.gethostname()) or "device"


def default_client_id(state: Path, machine_id: Path = _MACHINE_ID) -> str:
    """A name for the session that no other process has and that a restart has again.

    Made of the machine id, which the system asks not to be shown as it is, and the state folder, which one process at
    a time owns; 20 letters and digits, which every broker takes.
    """
    try:
        machine = machine_id.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        machine = socket.gethostname()
    return "edge" + hashlib.sha256(f"{machine}\n{state.resolve()}".encode()).hexdigest()[:16]


def with_topics(line: LineConfig, broker: BrokerConfig | None) -> LineConfig:
    """The line with the variables of its topics filled in; where a sink had no name, its topic is that."""
    if broker is None or not line.uses_broker:
        return line
    device = device_name(broker)
    source, channels = line.source, line.channels
    if isinstance(source, MqttSource):
        topics = tuple(filled(one, device=device, line=line.name) for one in source.topics)
        source = source.model_copy(update={"topics": topics})
        channels = {
            name: one if one.topic is None else one.model_copy(
                update={"topic": filled(one.topic, device=device, line=line.name)}
            )
            for name, one in channels.items()
        }  # fmt: skip
    sinks = tuple(
        one.model_copy(update={"topic": filled(one.topic, device=device, line=line.name)})
        if isinstance(one, MqttTopic)
        else one
        for one in line.sink
    )
    return line.model_copy(update={"source": source, "channels": channels, "sink": sinks})


def refuse_circles(loaded: LoadedConfig, broker: BrokerConfig) -> None:
    """Refuse a topic that this process writes and a source of it reads: the broker does not send us our own.

    And one that bears both the status and answers: what is retained there would be either. Raises ConfigurationError.
    """
    lines = [with_topics(line, broker) for line in loaded.config.line]
    status = filled(broker.status_topic, device=device_name(broker))
    sinks = [(line, sink) for line in lines for sink in line.sink if isinstance(sink, MqttTopic)]
    writers = [("broker.status_topic", status)]
    writers += [(f"line {line.name}, sink {sink.full_name}", sink.topic) for line, sink in sinks]
    writers += [
        (
            f"line {line.name}, sink {sink.full_name}, home_assistant",
            f"{sink.discovery_prefix}/sensor/{line.name}/config",
        )
        for line, sink in sinks
        if sink.home_assistant
    ]
    if broker.sparkplug is not None:
        from edge_runtime.flow.sparkplug import NAMESPACE  # noqa: PLC0415 -- for who has such hosts

        node = broker.sparkplug.edge or device_name(broker)
        writers.append(("broker.sparkplug", f"{NAMESPACE}/{broker.sparkplug.group}/DDATA/{node}/device"))
    written: dict[str, str] = {}
    for writer, topic in writers:
        if topic == status and writer != "broker.status_topic":
            raise ConfigurationError(
                subject=f"{loaded.path}, {writer}", found=f"topic {topic!r}, where the status stands",
                expected="a topic of the answers' own", todo="change it, or broker.status_topic",
            )  # fmt: skip
        if topic in written:
            raise ConfigurationError(
                subject=f"{loaded.path}, {writer}", found=f"topic {topic!r}, where {written[topic]} writes too",
                expected="one sink to one topic", todo="give each a topic of its own",
            )  # fmt: skip
        written[topic] = writer
        for reader in lines:
            for one in reader.source.topics if isinstance(reader.source, MqttSource) else ():
                if matches(one, topic):
                    raise ConfigurationError(
                        subject=f"{loaded.path}, {writer}",
                        found=f"topic {topic!r}, which source topic {one!r} of line {reader.name} takes",
                        expected="answers and a status that do not come back as samples",
                        todo="give them a topic of their own, or name the source's topics more closely",
                    )


def _password(
    loaded: LoadedConfig, broker: BrokerConfig, environment: Mapping[str, str] = os.environ
) -> Callable[[], bytes | None] | None:
    """What reads the password, anew at every connection: it may be changed while we run. It is kept nowhere."""
    if broker.password_env is not None:
        name = broker.password_env
        if not environment.get(name):
            raise ConfigurationError(
                subject=f"{loaded.path}, broker.password_env", found=f"no environment variable {name}",
                expected="the password in it", todo="set it for the service, or use password_file",
            )  # fmt: skip
        return lambda: os.fsencode(environment.get(name, ""))  # its bytes, whatever their encoding
    if broker.password_file is not None:
        path = loaded.resolve(broker.password_file)
        _first_line(path)

        def read() -> bytes | None:
            try:
                return _first_line(path)
            except ConfigurationError:
                return None  # the broker then says that it is wrong, and the next attempt reads again

        return read
    return None


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            line = file.readline(_MAX_SECRET_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise ConfigurationError(
            subject="broker.password_file", found=f"{path}: {error.strerror}", expected="a file this user can read",
            todo="correct the path, or give the service's user the file",
        ) from error  # fmt: skip
    if not line:
        raise ConfigurationError(
            subject="broker.password_file", found=f"{path}, whose first line is empty", expected="the password in it",
            todo="write it into the file",
        )  # fmt: skip
    return line
