"""Floor 4, where bytes come from; no byte is interpreted here."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.sources.mqtt_topic import MqttTopicSource
from edge_runtime.sources.port import Source
from edge_runtime.sources.replay_file import ReplayFile
from edge_runtime.sources.standard_input import StandardInputSource
from edge_runtime.spec.source import MqttSource, ReplaySource, SerialSource, StandardInput
from edge_runtime.spec.source import Source as SourceSpec

if TYPE_CHECKING:
    from edge_runtime.sources.trace import Trace

__all__ = ["make_source"]


def make_source(
    spec: SourceSpec,
    *,
    wall_ns: Callable[[], int],
    mono_ns: Callable[[], int],
    folder: Path = Path(),
    link: MqttLink | None = None,
    trace: "Trace | None" = None,
) -> Source:
    """Make the source that ``spec`` describes, not yet started.

    The clocks count nanoseconds; ``folder`` is where a relative path begins; ``link`` is the broker's, for those that
    read it: their topics have their variables filled in; ``trace`` is written by serial
    ports. Raises TypeError for one that reads the broker and was given no link.
    """
    match spec:
        case SerialSource():
            from edge_runtime.sources.serial_line import SerialLine  # noqa: PLC0415 -- pyserial, for lines that have a port

            return SerialLine(spec, wall_ns=wall_ns, mono_ns=mono_ns, trace=trace)
        case StandardInput():
            return StandardInputSource(wall_ns=wall_ns, mono_ns=mono_ns)
        case ReplaySource():
            return ReplayFile(folder / spec.path, spec.speed, wall_ns=wall_ns, mono_ns=mono_ns)
        case MqttSource():
            if link is None:
                raise TypeError("a source of MQTT messages needs the link to its broker")
            return MqttTopicSource(spec, link)
