"""Floor 4, where answers and state go; no answer is changed in value here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edge_runtime.flow.encode_flat import MEASUREMENT
from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.sinks.jsonl_file import JsonLinesSink
from edge_runtime.sinks.mqtt_topic import MqttTopicSink
from edge_runtime.sinks.port import Sink
from edge_runtime.sinks.standard_output import StandardOutputSink
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.sink import JsonLinesFile, MqttTopic, SparkplugDevice, StandardOutput
from edge_runtime.spec.sink import Sink as SinkSpec

if TYPE_CHECKING:
    from edge_runtime.sinks.sparkplug_node import EdgeNode

__all__ = ["make_sink"]


def make_sink(
    spec: SinkSpec,
    folder: Path,
    *,
    mono_ns: Callable[[], int],
    link: MqttLink | None = None,
    node: "EdgeNode | None" = None,
    line: str = "",
    outputs: Sequence[Output] = (),
) -> Sink:
    """The sink that ``spec`` describes, open; its relative path begins at ``folder``; the clock counts nanoseconds.

    ``link`` is the broker's, for one that publishes there: its topic has its variables filled in. ``node`` is the process's
    edge node, for one that is devices of it, which are called as ``line`` and have metrics as ``outputs`` are.

    Raises:
        TypeError: it publishes to a broker, and there is no link, or no node.
        ConfigurationError: its file cannot be appended to, or is no file of JSON lines.
        TemporaryError: another process writes to it.

    """
    match spec:
        case StandardOutput():
            return StandardOutputSink(spec.full_name)
        case JsonLinesFile():
            keys = {"/id": "id"} if spec.map is None else {pointer: key for key, pointer in spec.map.items()}
            return JsonLinesSink(
                folder / spec.path,
                spec.full_name,
                sync=spec.sync,
                id_key=keys.get("/id") if spec.encoding == "json" else None,
                mono_ns=mono_ns,
                begin=f"{MEASUREMENT},".encode() if spec.encoding == "influx" else b"{",
            )
        case SparkplugDevice():
            from edge_runtime.flow.encode_sparkplug import shape_of  # noqa: PLC0415 -- for who has such hosts
            from edge_runtime.sinks.sparkplug_node import SparkplugSink  # noqa: PLC0415

            if node is None:
                raise TypeError("a device of Sparkplug needs its edge node")
            return SparkplugSink(spec.full_name, node, line, shape_of(outputs))
        case MqttTopic():
            if link is None:
                raise TypeError("a sink that publishes needs the link to its broker")
            return MqttTopicSink(spec.full_name, link, spec.topic, qos=spec.qos, retain=spec.retain, mono_ns=mono_ns)
