"""The one door to paho: MQTT 3.1.1, over TCP or websockets, as a dialect of `links.broker_link`; paho opens nothing here.

paho turns bytes into packets and back, and sends again what was not confirmed; socket, turns, keepalive and back-off are
the link's. For that one private method of paho is replaced, the one that makes its socket.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from edge_runtime.links.mqtt_dialect import (
    NORMAL,
    TOO_LARGE,
    WRONG_VERSION,
    Caller,
    Refusal,
    Target,
    Unreadable,
    Welcome,
)
from edge_runtime.links.stream_socket import StreamLost, StreamSocket

UPGRADE_S: Final = 2.0
"""How long the answer to the websocket's upgrade may take; paho waits for it, and the loop with it: so it is a refusal."""
_PING: Final = b"\xc0\x00"
_UNLIMITED: Final = 65_535


class Mqtt311:
    """MQTT 3.1.1 towards ``target``; see `links.mqtt_dialect.Dialect` for the methods.

    The version knows no number of a subscription, no refusal of a message, no limit the broker sets, no session expiry and
    no reason for a goodbye.
    """

    max_in_flight = 20

    def __init__(self, target: Target, caller: Caller) -> None:
        self.name = "MQTT 3.1.1" if target.websocket_path is None else "MQTT 3.1.1 over websockets"
        self._target, self._caller = target, caller
        self._wire: _Wire | None = None
        self._is_welcome = self._is_reading = False
        self._events: deque[Callable[[], None]] = deque()
        self._unpacked_bytes = 0
        self._client = client = _Client(
            CallbackAPIVersion.VERSION2,
            client_id=target.client_id,
            clean_session=not target.lasts,
            transport="tcp" if target.websocket_path is None else "websockets",
            reconnect_on_failure=False,  # or paho would try MQTT 3.1 by itself
            manual_ack=True,
        )
        client.max_inflight_messages_set(self.max_in_flight)
        client.connect_timeout = UPGRADE_S
        if target.websocket_path is not None:
            scheme = "http" if target.tls is None else "https"
            origin = {"Origin": f"{scheme}://{target.host}:{target.port}"}
            client.ws_set_options(target.websocket_path, origin)
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe

    def connect(self, stream: StreamSocket) -> None:
        """Say CONNECT, over websockets after their upgrade."""
        target = self._target
        last = target.will()
        if last is not None:
            self._client.will_set(last.topic, last.payload, qos=1, retain=last.retain)
        self._is_welcome = False
        self._unpacked_bytes = 0
        self._events.clear()
        self._wire = self._client.wire = _Wire(stream, self._caller.put)
        # paho takes the password as bytes too, which its types do not say.
        self._client.username_pw_set(target.user, target.password())  # type: ignore[arg-type]
        try:
            self._client.connect(target.host, target.port, target.keepalive_s)
        except StreamLost:
            raise
        except OSError as error:
            raise StreamLost(f"websocket: {error}") from error
        except Exception as error:  # paho takes the answer apart without a look whether it is one
            raise StreamLost("websocket: it answered with something that is no upgrade") from error

    def read(self, data: bytes) -> None:
        """Tell of every packet."""
        wire = self._wire
        if wire is None:
            return
        wire.feed(data)
        self._unpacked_bytes += len(data)
        before = -1
        while wire.waiting not in (0, before):
            before = wire.waiting
            outcome = self._loop_read()
            while self._events:
                self._unpacked_bytes = wire.waiting
                self._events.popleft()()
            if outcome != MQTTErrorCode.MQTT_ERR_SUCCESS:
                if not self._is_welcome:  # paho tells nobody of the answer that says so
                    self._caller.welcomed(_welcome(WRONG_VERSION))
                raise Unreadable(f"it sent something that is no MQTT 3.1.1 packet: {paho.error_string(outcome)}")
        if self._unpacked_bytes > self._target.max_packet_bytes:
            limit = self._target.max_packet_bytes
            raise Unreadable(f"it sends a packet of more than the {limit} bytes we take", TOO_LARGE)

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> int:
        """Say one."""
        told = self._client.publish(topic, payload, qos, retain)
        while told.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:  # the id is one of the few on their way
            told = self._client.publish(topic, payload, qos, retain)
        return told.mid

    def publish_again(self, packet_id: int, topic: str, payload: bytes, *, retain: bool, again: bool) -> None:
        """Say nothing: paho has done so at the welcome, by itself."""

    def forget(self, packet_id: int) -> None:
        """Take it from what paho says at the welcome by itself, which offers a way for all of them only."""
        self._client._out_messages.pop(packet_id, None)  # noqa: SLF001

    def acknowledge(self, packet_id: int) -> None:
        """Say PUBACK."""
        self._client.ack(packet_id, 1)

    def subscribe(self, pattern: str, *, qos: int, retained: bool, number: int | None) -> int:  # noqa: ARG002
        """Say SUBSCRIBE, which in this version asks for what the broker keeps too, and knows no numbers."""
        _, packet_id = self._client.subscribe(pattern, qos)
        return packet_id or 0

    def ping(self) -> None:
        """Say PINGREQ ourselves: paho does by a clock of its own, and gives up after twice the keepalive only."""
        self._unpacked_bytes = 0
        sock = self._client.socket()
        if sock is not None:
            sock.send(_PING)

    def part(self, code: int) -> None:
        """Say DISCONNECT where the will is not to be sent; the version has no other goodbye."""
        if code == NORMAL:
            self._client.disconnect()

    def _loop_read(self) -> MQTTErrorCode:
        self._is_reading = True
        try:
            return self._client.loop_read()
        except StreamLost:
            raise
        except Exception as error:  # what paho raises over a broken packet is listed nowhere
            raise Unreadable(f"it sent something that is no MQTT 3.1.1 packet: {error}") from error
        finally:
            self._is_reading = False

    # paho's callbacks: they note, and do nothing while paho is in the middle of a packet.

    def _on_connect(self, _client: object, _data: object, flags: Any, reason: Any, _more: object) -> None:
        self._is_welcome = True
        self._events.append(
            partial(self._caller.welcomed, _welcome(int(reason.value), has_session=flags.session_present))
        )

    def _on_message(self, _client: object, _data: object, message: Any) -> None:
        packet_id = message.mid if message.qos == 1 else 0
        tell = partial(
            self._caller.delivered,
            message.topic,
            message.payload,
            packet_id,
            again=message.dup,
            retained=message.retain,
        )
        self._events.append(tell)

    def _on_publish(self, _client: object, _data: object, packet_id: int, reason: Any, _more: object) -> None:
        # paho calls it for QoS 0 too, when that leaves; its id may be that of another message.
        if self._is_reading:
            self._events.append(partial(self._caller.confirmed, packet_id, int(reason.value), None))

    def _on_subscribe(
        self, _client: object, _data: object, packet_id: int, reasons: Sequence[Any], _more: object
    ) -> None:
        if reasons:
            self._events.append(partial(self._caller.granted, packet_id, int(reasons[0].value), None))


def _welcome(code: int, *, has_session: bool = False) -> Welcome:
    return Welcome(code, None, has_session, None, _UNLIMITED, None)


class _Client(paho.Client):
    """paho's client over a connection that is there already."""

    wire: "_Wire"

    def _create_socket_connection(self) -> Any:
        return self.wire


class _Wire:
    """What paho takes for its socket: it reads what the link has read, and what it writes the link gathers."""

    def __init__(self, stream: StreamSocket, put: Callable[[bytes], None]) -> None:
        self._stream, self._put = stream, put
        self._data = b""
        self._at = 0
        self._wait_s: float | None = None
        self._said: list[bytes] = []

    @property
    def waiting(self) -> int:
        """How many bytes paho has not taken."""
        return len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add what came."""
        self._data, self._at = self._data[self._at :] + data, 0

    def recv(self, size: int) -> bytes:
        """Up to ``size`` bytes. Raises BlockingIOError where none wait; within the upgrade it waits for them."""
        if not self.waiting:
            if self._wait_s is None:
                raise BlockingIOError
            self._await(self._wait_s)
        start = self._at
        self._at = min(start + size, len(self._data))
        return self._data[start : self._at]

    def send(self, data: bytes | bytearray) -> int:
        """Take all of it."""
        if self._wait_s is None:
            self._put(bytes(data))
        else:
            self._stream.send(bytes(data))
        return len(data)

    def close(self) -> None:
        """The connection is the link's, which closes it."""

    def fileno(self) -> int:
        """The connection's."""
        return self._stream.socket.fileno()

    def settimeout(self, seconds: float) -> None:
        """Wait up to ``seconds`` for bytes from now on: paho reads the answer to the upgrade so."""
        self._wait_s = seconds

    def setblocking(self, flag: bool) -> None:  # noqa: ARG002, FBT001 -- a socket's
        """Wait no longer."""
        self._wait_s = None

    def _await(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Refusal(f"no answer to the websocket's upgrade within {UPGRADE_S:g} s")
            self._stream.wait(left)
            self._stream.send(b"")
            self.feed(self._stream.receive())
