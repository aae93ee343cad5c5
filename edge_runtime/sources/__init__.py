"""Floor 4, where bytes come from; no byte is interpreted here."""

from collections.abc import Callable
from pathlib import Path

from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.sources.mqtt_topic import MqttTopicSource
from edge_runtime.sources.port import Source
from edge_runtime.sources.replay_file import ReplayFile
from edge_runtime.sources.standard_input import StandardInputSource
from edge_runtime.spec.source import MqttSource, ReplaySource, SerialSource, StandardInput
from edge_runtime.spec.source import Source as SourceSpec

__all__ = ["make_source"]


def make_source(
    spec: SourceSpec,
    *,
    wall_ns: Callable[[], int],
    mono_ns: Callable[[], int],
    folder: Path = Path(),
    link: MqttLink | None = None,
    framed: Callable[[str, bytes], bytes] | None = None,
) -> Source:
    """Make the source that ``spec`` describes, not yet started.

    The clocks count nanoseconds; ``folder`` is where a relative path begins; ``link`` is the broker's, for those that
    read it: their topics have their variables filled in, and ``framed`` is what makes a chunk of topic and payload where the
    payload alone is not enough. Raises TypeError for one that reads it and was given none.
    """
    match spec:
        case SerialSource():
            from edge_runtime.sources.serial_line import SerialLine  # noqa: PLC0415 -- pyserial, for lines that have a port

            return SerialLine(spec, wall_ns=wall_ns, mono_ns=mono_ns)
        case StandardInput():
            return StandardInputSource(wall_ns=wall_ns, mono_ns=mono_ns)
        case ReplaySource():
            return ReplayFile(folder / spec.path, spec.speed, wall_ns=wall_ns, mono_ns=mono_ns)
        case MqttSource():
            if link is None:
                raise TypeError("a source of MQTT messages needs the link to its broker")
            return MqttTopicSource(spec, link, framed=framed)
