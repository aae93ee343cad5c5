"""Home Assistant told of the answers, and told again when it starts; what is no longer told is removed. It judges no answer."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from edge_runtime import __version__
from edge_runtime.errors import DeviceError
from edge_runtime.flow.home_assistant import Place, entities
from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.run.whole_file import write_whole
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.sink import MqttTopic
from edge_runtime.spec.topic import TopicName

FILE_NAME: Final = "home_assistant.json"
_TOPICS: Final = TypeAdapter(list[TopicName])


def is_wanted(lines: Sequence[LineConfig], state: Path) -> bool:
    """Whether Home Assistant is to be told of anything, or to forget what it was told before."""
    return any(_sinks(line) for line in lines) or (state / FILE_NAME).exists()


class Discovery:
    """The entities of all lines, kept retained at the broker: sent at every connection and when Home Assistant starts.

    To be made before the link is started. ``tick`` is for once a second. Which topics bear an entity is remembered in the
    state folder, so that one that is no longer wanted is removed by a retained message of nothing, as Home Assistant asks.
    """

    def __init__(
        self,
        lines: Sequence[tuple[LineConfig, Manifest]],
        link: MqttLink,
        *,
        device: str,
        status_topic: str,
        state: Path,
    ) -> None:
        self._link, self._file = link, state / FILE_NAME
        self._wanted: dict[str, bytes] = {}
        prefixes = set()
        for line, manifest in lines:
            for sink in _sinks(line):
                tells_all = line.publish.when == "all"
                place = Place(
                    sink.discovery_prefix, device, line.name, sink.topic, sink.qos, status_topic, __version__, tells_all
                )
                self._wanted |= entities(place, manifest)
                prefixes.add(sink.discovery_prefix)
        # Home Assistant says "online" there once it is up, and must then be told again: its broker may have forgotten.
        births = [f"{prefix}/status" for prefix in sorted(prefixes)]
        self._births = link.subscribe(births, qos=0, retained=False) if births else None
        known = self._read()
        self._is_settled = not set(known) - set(self._wanted)
        self._write(sorted({*known, *self._wanted}))
        link.keep(dict.fromkeys(known, b"") | self._wanted)

    def tick(self) -> None:
        """Tell again where Home Assistant has started; forget what the broker has forgotten."""
        while self._births is not None and len(self._births):
            if self._births.take().payload == b"online":
                self._link.keep(self._wanted)
        if not self._is_settled and self._link.has_kept:
            self._is_settled = True
            self._link.keep(self._wanted)
            self._write(sorted(self._wanted))

    def _read(self) -> list[str]:
        try:
            return _TOPICS.validate_json(self._file.read_bytes())
        except (OSError, ValidationError):
            return []  # nothing was told, or nobody can know any more what was

    def _write(self, topics: list[str]) -> None:
        if not topics:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            return
        try:
            write_whole(self._file, _TOPICS.dump_json(topics).decode())
        except DeviceError:
            return  # a full disk must not stop the answers; what is remembered from before is no more than too much


def _sinks(line: LineConfig) -> list[MqttTopic]:
    return [sink for sink in line.sink if isinstance(sink, MqttTopic) and sink.home_assistant]
