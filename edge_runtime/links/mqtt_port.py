"""What a connection to an MQTT broker promises to sources, sinks and the loop; which protocol version is none of theirs."""

import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

INBOX_BYTES = 1 << 20
"""What messages of QoS 0 may wait in; beyond it a new one is dropped and counted. Those of QoS 1 wait at the broker."""
MESSAGE_COST_BYTES = 400
"""What a message costs beside topic and payload."""


class Message(NamedTuple):
    """One message as it came.

    ``mark`` is the same when the broker sends it again (0 for QoS 0), ``again`` whether it says that it does;
    ``connection`` counts the connections: an acknowledgement belongs to the one it came by. Times are nanoseconds.
    """

    topic: str
    payload: bytes
    packet_id: int
    mark: int
    again: bool
    retained: bool
    connection: int
    time_ns: int
    mono_ns: int


class TooLarge(Exception):
    """A message the broker would not take at all; one plain sentence says how large it is and may be."""


class Inbox:
    """The messages of some topic filters, in order, until they are taken.

    ``lost`` is how many were dropped; ``bytes`` is what those that wait cost.
    """

    def __init__(self, filters: Sequence[str], *, qos: int, retained: bool) -> None:
        self.filters = tuple(filters)
        self.qos = qos
        self.retained = retained
        self.lost = self.bytes = 0
        self._messages: deque[Message] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._messages)

    def put(self, message: Message) -> None:
        """Add one behind the others, or drop it where it may be dropped and there is no room."""
        size = len(message.payload) + len(message.topic) + MESSAGE_COST_BYTES
        if not message.mark and self.bytes + size > INBOX_BYTES:
            self.lost += 1
            return
        self._messages.append(message)
        self.bytes += size

    @property
    def oldest(self) -> Message | None:
        """What ``take`` would give; None where none waits."""
        return self._messages[0] if self._messages else None

    def take(self) -> Message:
        """Give the oldest; raises IndexError where none waits."""
        message = self._messages.popleft()
        self.bytes -= len(message.payload) + len(message.topic) + MESSAGE_COST_BYTES
        return message

    def shorten(self, count: int) -> None:
        """Forget what waits behind the oldest ``count`` and comes again: more than that would not be known again."""
        if len(self._messages) > count:
            kept = [one for at, one in enumerate(self._messages) if at < count or not one.mark]
            self._messages = deque(kept)
            self.bytes = sum(len(one.payload) + len(one.topic) + MESSAGE_COST_BYTES for one in kept)

    def clear(self) -> None:
        """Forget what waits: the broker still has what was not acknowledged."""
        self._messages.clear()
        self.bytes = 0


class Sent:
    """One message on its way: ``done`` once the broker has taken it, ``refusal`` in words if it will not."""

    __slots__ = ("done", "refusal", "unheard", "withdrawn")

    def __init__(self, *, done: bool = False) -> None:
        self.done = done
        self.refusal = ""
        self.unheard = False
        """The broker has taken it, and nobody subscribes to its topic."""
        self.withdrawn = False
        """It is not to be sent again, whatever becomes of it."""


class MqttLink(Protocol):
    """One connection to one broker, made again for ever; no call blocks but ``close``, and none raises for the network.

    What is published and acknowledged is gathered and leaves with ``send``.
    """

    @property
    def receive_maximum(self) -> int:
        """How many messages may be taken and not acknowledged; some brokers send more than they were told to."""

    @property
    def socket(self) -> socket.socket | None:
        """What to wait for; None while there is nothing. Another object after each connection."""

    @property
    def wants_write(self) -> bool:
        """Whether to wait for room to write too."""

    @property
    def is_up(self) -> bool:
        """Whether the broker has said welcome, and not been lost since."""

    @property
    def trouble(self) -> str:
        """What keeps it from its work, as a clause; empty where nothing does."""

    @property
    def reopened(self) -> int:
        """How often it was connected after the first time."""

    def subscribe(self, filters: Sequence[str], *, qos: int, retained: bool) -> Inbox:
        """Where messages of these filters will arrive; to be called before ``start``."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to connect; ``wake`` may be called from another thread when something changed."""

    def receive(self) -> None:
        """Take all that waits and do what is due."""

    def send(self) -> None:
        """Hand what was gathered to the system, in one call where it takes it."""

    def due_ns(self) -> int | None:
        """When, on the monotonic clock, ``receive`` must be called without new input."""

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> Sent | None:
        """Send one; None where that has to wait. Raises TooLarge."""

    def withdraw(self, messages: Iterable[Sent]) -> None:
        """Never send these again; what the system has of them cannot be called back."""

    def may_take(self, message: Message) -> bool:
        """Whether the broker has been told of all but ``receive_maximum`` messages before this one, of whatever line."""

    def acknowledge(self, message: Message) -> None:
        """Say that a message's effect is durable; nothing where its connection is gone."""

    def greet(self, say: Callable[[], None]) -> None:
        """Call ``say`` after every connection, before anybody else can publish; to be called before ``start``."""

    def announce(self, make: Callable[[], bytes]) -> None:
        """Keep what ``make`` gives retained on the status topic: made and sent now, and after every connection."""

    def keep(self, messages: Mapping[str, bytes]) -> None:
        """Keep each payload retained on its topic instead of what was asked before: sent now, and after every connection."""

    @property
    def has_kept(self) -> bool:
        """Whether the broker has taken all that ``keep`` asked for, on this connection."""

    def status(self) -> str:
        """One plain sentence."""

    def close(self, farewell: bytes | None) -> None:
        """Leave ``farewell``, if any, on the status topic, see that the broker has it, part. Idempotent, never raises."""
