"""Floor 4, where bytes come from; no byte is interpreted here."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.sources.mqtt_topic import MqttTopicSource
from edge_runtime.sources.port import Source
from edge_runtime.sources.replay_file import ReplayFile
from edge_runtime.sources.standard_input import StandardInputSource
from edge_runtime.spec.source import (
    CommandSource,
    FolderSource,
    MqttSource,
    ReplaySource,
    SerialSource,
    StandardInput,
)
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
    files: Path | None = None,
    trace: "Trace | None" = None,
    gather_ns: int = 0,
) -> Source:
    """Make the source that ``spec`` describes, not yet started.

    The clocks count nanoseconds; ``folder`` is where a relative path begins; ``link`` is the broker's, for those that
    read it: their topics have their variables filled in; ``files`` is where a folder's list of its files stands; ``trace``
    is written by serial ports, whose bytes may gather for ``gather_ns`` where they come fast. Raises TypeError for a source
    that was not given what it needs.
    """
    match spec:
        case SerialSource():
            from edge_runtime.sources.serial_line import SerialLine  # noqa: PLC0415 -- pyserial, for lines that have a port

            return SerialLine(spec, wall_ns=wall_ns, mono_ns=mono_ns, trace=trace, gather_ns=gather_ns)
        case StandardInput():
            return StandardInputSource(wall_ns=wall_ns, mono_ns=mono_ns)
        case ReplaySource():
            return ReplayFile(folder / spec.path, spec.speed, wall_ns=wall_ns, mono_ns=mono_ns)
        case MqttSource():
            if link is None:
                raise TypeError("a source of MQTT messages needs the link to its broker")
            return MqttTopicSource(spec, link)
        case CommandSource():
            from edge_runtime.sources.child_process import ChildProcess  # noqa: PLC0415 -- for lines that have a program

            return ChildProcess(spec, folder, wall_ns=wall_ns, mono_ns=mono_ns)
        case FolderSource():
            if files is None:
                raise TypeError("a source of files needs a list of them")
            from edge_runtime.sources.file_list import FileList  # noqa: PLC0415 -- for lines that have a folder
            from edge_runtime.sources.watched_folder import WatchedFolder  # noqa: PLC0415 -- the same

            return WatchedFolder(spec, folder / spec.path, FileList(files), wall_ns=wall_ns, mono_ns=mono_ns)
