"""Messages of a broker's topics as a source, one message a chunk; it connects nothing: the link is the process's."""

from collections import deque

from edge_runtime.links.mqtt_port import Message, MqttLink
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.spec.source import MqttSource
from edge_runtime.spec.topic import level_of

QUEUE_FULL = "queue_full"
RETAINED = "retained"


class MqttTopicSource:
    """Messages of ``spec.topics``. See `sources.port.Source` for the methods.

    A position counts messages since the start; a message of QoS 1 waits at the broker until it is acknowledged.
    """

    resumable = False
    live = True
    ended = False

    def __init__(self, spec: MqttSource, link: MqttLink) -> None:
        self.name = f"mqtt {', '.join(spec.topics)}"
        self.can_wait = self.redelivers = spec.qos == 1
        self._spec = spec
        self._link = link
        self._inbox = link.subscribe(spec.topics, qos=spec.qos, retained=spec.retained == "accept")
        self._position = 0
        self._lost = 0
        self._given: deque[tuple[int, Message]] = deque()
        self._stopped = False

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""
        if self._stopped or len(self._given) >= self._link.receive_maximum:
            return False
        oldest = self._inbox.oldest
        return oldest is not None and self._link.may_take(oldest)

    @property
    def reopened(self) -> int:
        """How often the broker was connected after the first time."""
        return self._link.reopened

    def start(self, wake: Wake, position: int = 0) -> None:
        """Nothing to open: the loop turns the link."""

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """The oldest messages, up to ``max_bytes`` of payload, one at least if any waits and may be taken.

        No more are taken ahead of their acknowledgement than the broker was told to send, whatever it sends: that many
        come twice after a restart.
        """
        chunks: list[Chunk] = []
        room = max_bytes
        while room > 0 and self.waiting:
            message = self._inbox.take()
            room -= len(message.payload)
            if self._inbox.lost > self._lost:
                chunks.append(self._gap(message, self._inbox.lost - self._lost, QUEUE_FULL))
                self._lost = self._inbox.lost
            self._position += 1
            if message.mark and self.redelivers:
                self._given.append((self._position, message))
            elif message.mark:  # of another line's filter, which asked for more
                self._link.acknowledge(message)
            if message.retained and self._spec.retained == "refuse":
                chunks.append(self._gap(message, 1, RETAINED))
                continue
            chunks.append(
                Chunk(
                    message.payload,
                    message.time_ns,
                    message.mono_ns,
                    self._position,
                    stream=self._stream(message.topic),
                    mark=message.mark if self.redelivers else 0,
                    again=message.again,
                    topic=message.topic,
                )
            )
        return chunks

    def acknowledge(self, position: int) -> None:
        """Let the broker forget the messages up to ``position``."""
        given = self._given
        while given and given[0][0] <= position:
            self._link.acknowledge(given.popleft()[1])

    def due_ns(self) -> int | None:
        """At once, where an acknowledgement has made room for what waits; else the link wakes the loop."""
        return 0 if self.waiting else None

    def status(self) -> str:
        """One plain sentence."""
        return self._link.status()

    def stop(self) -> None:
        """Take nothing more: the broker keeps what was not taken. What was may still be acknowledged. Idempotent."""
        self._stopped = True
        self._inbox.clear()

    def _stream(self, topic: str) -> str:
        level = self._spec.stream_level
        return "" if level is None else level_of(topic, level)

    def _gap(self, message: Message, count: int, reason: str) -> Chunk:
        return Chunk(b"", message.time_ns, message.mono_ns, self._position, lost_before=count, dropped=reason)
