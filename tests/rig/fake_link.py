"""A link to no broker: what is published stays on its way until a test confirms it; for one thread."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from zlib import crc32

from edge_runtime.links.mqtt_port import Inbox, Message, Sent, TooLarge
from edge_runtime.spec.topic import matches


class FakeLink:
    """See `links.mqtt_port.MqttLink`; ``published`` and ``acknowledged`` are what was asked of it, in order."""

    trouble = ""
    reopened = 0
    receive_maximum = 64
    socket = None
    wants_write = False

    def __init__(self, *, room: int = 20, max_bytes: int = 1 << 20) -> None:
        self.is_up = True
        self.room = room
        self.published: list[tuple[str, bytes, Sent]] = []
        self.acknowledged: list[int] = []
        self.kept: list[dict[str, bytes]] = []
        self._max_bytes = max_bytes
        self._inboxes: list[Inbox] = []
        self._packet_id = 0

    def bring(
        self,
        topic: str,
        payload: bytes,
        *,
        packet_id: int = 0,
        again: bool = False,
        retained: bool = False,
        time_ns: int = 0,
        mono_ns: int = 0,
    ) -> int:
        """Let a message of QoS 1 arrive; gives its packet id."""
        self._packet_id += 1
        number = packet_id or self._packet_id
        mark = number << 32 | crc32(payload, crc32(topic.encode()))
        for inbox in self._inboxes:
            if any(matches(one, topic) for one in inbox.filters):
                inbox.put(Message(topic, payload, number, mark, again, retained, 1, time_ns, mono_ns))
        return number

    def confirm(self, count: int) -> None:
        """Confirm the oldest ``count`` that are on their way."""
        for _, _, sent in [one for one in self.published if not one[2].done][:count]:
            sent.done = True

    def subscribe(self, filters: Sequence[str], *, qos: int, retained: bool) -> Inbox:
        """A new inbox."""
        self._inboxes.append(Inbox(filters, qos=qos, retained=retained))
        return self._inboxes[-1]

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> Sent | None:  # noqa: ARG002 -- the port's
        """On its way, while there is room."""
        if len(payload) > self._max_bytes:
            raise TooLarge(f"a message of {len(payload)} bytes, and the broker takes {self._max_bytes} at most")
        if not self.is_up or sum(not sent.done for *_, sent in self.published) >= self.room:
            return None
        sent = Sent(done=qos == 0)
        self.published.append((topic, payload, sent))
        return sent

    def withdraw(self, messages: Iterable[Sent]) -> None:
        """Note it; a test sees what would go again."""
        for one in messages:
            one.withdrawn = True

    def may_take(self, message: Message) -> bool:  # noqa: ARG002 -- the port's
        """Always."""
        return True

    def acknowledge(self, message: Message) -> None:
        """Note it."""
        self.acknowledged.append(message.packet_id)

    def start(self, wake: Callable[[], None]) -> None:
        """Nothing to connect."""

    def receive(self) -> None:
        """Nothing comes by itself."""

    def send(self) -> None:
        """Everything has left."""

    def due_ns(self) -> int | None:
        """Never."""
        return None

    def greet(self, say: Callable[[], None]) -> None:
        """A test calls ``greeting`` when it connects."""
        self.greeting = say

    def announce(self, make: Callable[[], bytes]) -> None:
        """Nobody listens."""

    def keep(self, messages: Mapping[str, bytes]) -> None:
        """Note it."""
        self.kept.append(dict(messages))

    @property
    def has_kept(self) -> bool:
        """As long as there is a connection."""
        return self.is_up

    def status(self) -> str:
        """One plain sentence."""
        return "connected" if self.is_up else "not connected: it was pulled"

    def close(self, farewell: bytes | None) -> None:
        """Nothing to part from."""
