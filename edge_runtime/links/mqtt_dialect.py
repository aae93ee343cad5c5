"""What one version of MQTT has to know for `links.broker_link`: packets from bytes and back; it owns no connection."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from edge_runtime.links.stream_socket import Encryption, StreamLost, StreamSocket

REFUSED = 0x80
"""From here on a reason code, MQTT 5's in every version, is a refusal."""
MALFORMED = 0x81
WRONG_VERSION = 0x84
SHUTTING_DOWN = 0x8B
TAKEN_OVER = 0x8E
TOO_LARGE = 0x95
NOBODY_LISTENS = 0x10
NORMAL = 0x00


class LastWill(NamedTuple):
    """What the broker is to publish, with QoS 1, when a connection ends without a farewell."""

    topic: str
    payload: bytes
    retain: bool


class Target(NamedTuple):
    """Which broker, as whom, on what terms; see `spec.broker.BrokerConfig`. ``password`` is never shown or logged.

    ``will`` is asked at each connection; one of none tells nothing of us. ``websocket_path`` is None where MQTT goes over TCP
    itself. ``lasts``: the session outlives its connection. ``keeps_status``: what stands on the status topic is retained.
    """

    host: str
    port: int
    client_id: str
    user: str | None
    password: Callable[[], bytes | None]
    tls: Encryption | None
    keepalive_s: int
    session_expiry_s: int
    receive_maximum: int
    max_packet_bytes: int
    reconnect_max_s: float
    status_topic: str
    will: Callable[[], LastWill | None]
    websocket_path: str | None = None
    lasts: bool = True
    keeps_status: bool = True


class Welcome(NamedTuple):
    """The broker's answer to a connection; a ``code`` from REFUSED on is a refusal.

    ``says_filters`` is whether its messages say by which subscriptions they come.
    """

    code: int
    told: str | None
    has_session: bool
    keepalive_s: int | None
    receive_maximum: int
    max_packet_bytes: int | None
    says_filters: bool = False


class Refusal(StreamLost):
    """The broker said no, or cost us time: not to be asked again soon."""


class Known(StreamLost):
    """The connection was ended for a reason that is known, so nobody else has to be suspected."""


class ShuttingDown(Known):
    """The broker ended the connection since it stops, and may be there again soon."""


class Unreadable(Known):
    """The broker sent what is no packet, or one larger than we take; ``code`` is what to tell it."""

    def __init__(self, why: str, code: int = MALFORMED) -> None:
        super().__init__(why)
        self.code = code


class Caller(Protocol):
    """The connection, as its dialect sees it."""

    def put(self, data: bytes) -> None:
        """Gather bytes that leave with the next turn."""

    def free_id(self) -> int:
        """A packet id that nothing of ours bears now."""

    def welcomed(self, welcome: Welcome) -> None:
        """The broker has answered. Raises StreamLost for a refusal."""

    def delivered(
        self, topic: str, payload: bytes, packet_id: int, *, again: bool, retained: bool, by: Sequence[int] = ()
    ) -> None:
        """A message has come; ``packet_id`` is 0 for QoS 0, ``by`` the numbers of its subscriptions, where it says so."""

    def confirmed(self, packet_id: int, code: int, told: str | None) -> None:
        """The broker has taken a message, or will not."""

    def granted(self, packet_id: int, code: int, told: str | None) -> None:
        """The broker has answered a subscription."""

    def dismissed(self, code: int, told: str | None) -> None:
        """The broker ends the connection. Raises StreamLost."""


class Dialect(Protocol):
    """One version of MQTT for one process; it outlives connections. What it says goes to its caller's ``put``."""

    @property
    def name(self) -> str:
        """As people say it."""

    @property
    def max_in_flight(self) -> int:
        """Messages sent and not confirmed, whatever the broker allows: what goes again after a loss."""

    def connect(self, stream: StreamSocket) -> None:
        """Ask for a session on a new connection. Raises StreamLost."""

    def read(self, data: bytes) -> None:
        """Tell the caller of every packet that ``data`` completes. Raises StreamLost, of which Unreadable."""

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> int:
        """Say one; gives its packet id, which counts with QoS 1 only."""

    def publish_again(self, packet_id: int, topic: str, payload: bytes, *, retain: bool, again: bool) -> None:
        """Say one of QoS 1 on a later connection, under its id; ``again`` where the broker still has the session."""

    def forget(self, packet_id: int) -> None:
        """Do not say one of QoS 1 on a later connection."""

    def acknowledge(self, packet_id: int) -> None:
        """Say that a message's effect is durable."""

    def subscribe(self, pattern: str, *, qos: int, retained: bool, number: int | None) -> int:
        """Ask for what a filter takes, with what the broker keeps or without; gives the packet id.

        ``number`` is what its messages are to say; None where the broker's cannot.
        """

    def ping(self) -> None:
        """Ask whether it is there."""

    def part(self, code: int) -> None:
        """Say that we leave, and why where the version has words for that; the will is left out for NORMAL only."""
