"""A door of websockets before a broker's TCP port (RFC 6455, as much of it as MQTT needs), for brokers built without one."""

import base64
import hashlib
import os
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from typing import Self

PATIENCE_S = 20.0
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebsocketDoor:
    """Listens on a free port of 127.0.0.1 and carries each connection to ``behind``. To be used in a ``with`` block.

    ``requests`` are the heads of the upgrades it was asked for; it answers only those for ``path``.
    ``frame_bytes`` cuts what it sends into frames, whatever the packets in it.
    """

    def __init__(
        self, behind: int, *, path: str = "/mqtt", frame_bytes: int = 1000, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[str] = []
        self._behind, self._path, self._frame_bytes, self._tls = behind, path, frame_bytes, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(peer,), daemon=True).start()

    def _carry(self, plain: socket.socket) -> None:
        with plain, suppress(OSError), self._wrap(plain) as peer, ExitStack() as ends:
            broker = ends.enter_context(socket.create_connection(("127.0.0.1", self._behind)))
            ends.callback(_shut, broker)  # closing alone would leave it open while the other thread reads it
            if not self._upgrade(peer):
                return
            threading.Thread(target=self._frames, args=(broker, peer), daemon=True).start()
            stream = peer.makefile("rb")
            while True:
                head = _exactly(stream, 2)
                length = head[1] & 0x7F
                if length >= 126:
                    length = int.from_bytes(_exactly(stream, 2 if length == 126 else 8), "big")
                # paho answers a ping without a mask, which RFC 6455 forbids and servers let pass.
                mask = _exactly(stream, 4) if head[1] & 0x80 else bytes(4)
                body = bytes(one ^ mask[at % 4] for at, one in enumerate(_exactly(stream, length)))
                if head[0] & 0x0F == 8:
                    return
                if head[0] & 0x0F in {0, 2}:
                    broker.sendall(body)

    def _wrap(self, plain: socket.socket) -> socket.socket:
        return plain if self._tls is None else self._tls.wrap_socket(plain, server_side=True)

    def _upgrade(self, peer: socket.socket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            data = peer.recv(1)
            if not data:
                return False
            head += data
        lines = head.decode().split("\r\n")
        self.requests.append(head.decode())
        if lines[0] != f"GET {self._path} HTTP/1.1":
            peer.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return False
        key = next(one.split(": ", 1)[1] for one in lines if one.startswith("Sec-WebSocket-Key: "))
        answer = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()  # noqa: S324 -- the RFC's
        peer.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Accept: " + answer.encode() + b"\r\n\r\n"
        )
        return True

    def _frames(self, broker: socket.socket, peer: socket.socket) -> None:
        with suppress(OSError):
            while data := broker.recv(65_536):
                for start in range(0, len(data), self._frame_bytes):
                    part = data[start : start + self._frame_bytes]
                    size = len(part)
                    head = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
                    peer.sendall(b"\x82" + head + part)
                peer.sendall(b"\x89\x04" + os.urandom(4))  # a ping in between
        _shut(peer)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _exactly(stream: object, size: int) -> bytes:
    data: bytes = stream.read(size)  # type: ignore[attr-defined] # a file of bytes
    if len(data) < size:
        raise OSError("closed")
    return data
