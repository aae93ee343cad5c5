"""A TCP link between clients and an MQTT broker that can be cut, held and left half open, and that reads along."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

CONNECT, CONNACK, PUBLISH, PUBACK = 1, 2, 3, 4
_VERSION_5 = 5
_PIECE_BYTES = 1 << 16
_TURN_S = 0.05


class Packet(NamedTuple):
    """One that went through; ``topic``, ``payload``, ``again`` are those of a PUBLISH, ``code`` that of an answer."""

    connection: int
    from_broker: bool
    kind: int
    packet_id: int = 0
    topic: str = ""
    payload: bytes = b""
    again: bool = False
    code: int = 0


Tell = Callable[[Packet], None]


class MqttProxy:
    """Listens on ``port``; ``tell`` gets every CONNACK, PUBLISH and PUBACK, from the proxy's threads.

    A packet is told before it is passed on: whether the other side still gets it is not known here.
    """

    def __init__(self, broker_port: int, tell: Tell) -> None:
        self._broker_port, self._tell = broker_port, tell
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_open = threading.Event()
        self._is_open.set()
        self._closed = False
        self._connections: list[_Connection] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._is_open.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """End every connection at once and without a word (RST), on both sides."""
        for one in self._connections:
            one.cut()

    def hold(self) -> None:
        """Pass nothing on, either way; connections stay open, and new ones are left without an answer."""
        self._is_open.clear()

    def release(self) -> None:
        """Pass on what was held."""
        self._is_open.set()

    def leave_half_open(self) -> None:
        """End the broker's side of every connection, and let the client believe that it still has one."""
        for one in self._connections:
            one.leave_half_open()

    def _accept(self) -> None:
        for number in range(1, 1 << 30):
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(number, client), daemon=True)
            self._threads = [*(one for one in self._threads if one.is_alive()), thread]
            thread.start()

    def _serve(self, number: int, client: socket.socket) -> None:
        self._is_open.wait()
        try:
            broker = socket.create_connection(("127.0.0.1", self._broker_port))
        except OSError:
            _reset(client)
            client.close()
            return
        connection = _Connection(client, broker, self._is_open, _Tap(number, self._tell))
        self._connections.append(connection)
        if self._closed:
            connection.cut()
        connection.serve()
        self._connections.remove(connection)


class _Connection:
    """One client's way to the broker, until both sides have ended."""

    def __init__(self, client: socket.socket, broker: socket.socket, is_open: threading.Event, tap: "_Tap") -> None:
        self._client, self._broker, self._is_open, self._tap = client, broker, is_open, tap
        self._is_half_open = False
        for one in (client, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self) -> None:
        back = threading.Thread(target=self._pass_on, args=(self._broker, self._client), daemon=True)
        back.start()
        self._pass_on(self._client, self._broker)
        back.join()
        self._client.close()
        self._broker.close()

    def cut(self) -> None:
        self._is_half_open = False
        _reset(self._client)
        _reset(self._broker)

    def leave_half_open(self) -> None:
        self._is_half_open = True
        _reset(self._broker)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        from_broker = source is self._broker
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                _acknowledge_at_once(source)
                while not self._is_open.wait(_TURN_S):
                    pass
                if self._is_half_open:
                    continue  # what one side says goes nowhere
                self._tap.read(data, from_broker=from_broker)
                target.sendall(data)
        if not self._is_half_open:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                source.shutdown(socket.SHUT_RDWR)


def _reset(one: socket.socket) -> None:
    """Let the close that follows be an RST, and whoever waits in it go on."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)


def _acknowledge_at_once(one: socket.socket) -> None:
    """Else a broker with Nagle's algorithm waits 40 ms for this link; it lasts for one read, and only Linux has it."""
    quick = getattr(socket, "TCP_QUICKACK", None)
    if quick is not None:
        one.setsockopt(socket.IPPROTO_TCP, quick, 1)


class _Tap:
    """The packets of one connection, put together from pieces."""

    def __init__(self, connection: int, tell: Tell) -> None:
        self._connection, self._tell = connection, tell
        self._rest = {True: b"", False: b""}
        self._is_5 = False

    def read(self, data: bytes, *, from_broker: bool) -> None:
        """Tell of the packets that ``data`` completes."""
        data = self._rest[from_broker] + data
        whole = 0
        for first, begin, end in _packets(data):
            whole = end
            self._look(first, data[begin:end], from_broker=from_broker)
        self._rest[from_broker] = data[whole:]

    def _look(self, first: int, body: bytes, *, from_broker: bool) -> None:
        kind = first >> 4
        if kind == CONNECT:
            self._is_5 = body[6] == _VERSION_5
        elif kind == CONNACK:
            self._tell(Packet(self._connection, from_broker, kind, code=body[1]))
        elif kind == PUBACK:
            code = body[2] if len(body) > 2 else 0
            self._tell(Packet(self._connection, from_broker, kind, int.from_bytes(body[:2]), code=code))
        elif kind == PUBLISH:
            self._tell(self._publish(first, body, from_broker=from_broker))

    def _publish(self, first: int, body: bytes, *, from_broker: bool) -> Packet:
        at = 2 + int.from_bytes(body[:2])
        topic, packet_id = body[2:at].decode(), 0
        if first & 0x06:
            packet_id, at = int.from_bytes(body[at : at + 2]), at + 2
        if self._is_5:
            size, at = _number(body, at)
            at += size
        again = bool(first & 0x08)
        return Packet(self._connection, from_broker, PUBLISH, packet_id, topic, body[at:], again)


def _packets(data: bytes) -> Iterator[tuple[int, int, int]]:
    """First byte, begin and end of the body of each packet that is whole."""
    at = 0
    while True:
        try:
            size, begin = _number(data, at + 1)
        except IndexError:
            return
        if begin + size > len(data):
            return
        yield data[at], begin, begin + size
        at = begin + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length (MQTT 5, 1.5.5), and where what follows begins; raises IndexError."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at
