"""A broker that does only what a test tells it, right or wrong, in the test's own thread; it keeps no session."""

import contextlib
import select
import socket
import struct
from typing import Any, Self

import mqtt5

PATIENCE_S = 20.0


class FakeBroker:
    """Listens on a free port of 127.0.0.1; one client at a time. To be used in a ``with`` block."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self.port = int(self._listener.getsockname()[1])
        self._peer: socket.socket | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._listener.close()

    def accept(self) -> None:
        """Take the connection that waits."""
        self.hang_up()
        self._peer, _ = self._listener.accept()
        self._peer.settimeout(PATIENCE_S)
        self._rest = b""

    @property
    def has_caller(self) -> bool:
        """Whether a connection waits to be taken."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def read(self) -> list[Any]:
        """The packets that have come; does not wait."""
        self._gather()
        packets = []
        with contextlib.suppress(IndexError):
            while self._rest:
                packet, size = mqtt5.read(memoryview(self._rest))
                self._rest = self._rest[size:]
                packets.append(packet)
        return packets

    def read_plain(self) -> list[tuple[int, int, bytes]]:
        """The packets that have come, of any version, as type, flags and body; does not wait."""
        self._gather()
        packets = []
        while len(self._rest) > 1:
            size = shift = 0
            at = 1
            while True:
                size |= (self._rest[at] & 0x7F) << shift
                shift += 7
                at += 1
                if not self._rest[at - 1] & 0x80:
                    break
            if len(self._rest) < at + size:
                break
            packets.append((self._rest[0] >> 4, self._rest[0] & 0x0F, self._rest[at : at + size]))
            self._rest = self._rest[at + size :]
        return packets

    def send(self, *packets: Any) -> None:
        """Send packets, or bytes as they are."""
        data = b"".join(one if isinstance(one, bytes) else one.write() for one in packets)
        self._connected().sendall(data)

    def hang_up(self, *, hard: bool = False) -> None:
        """End the connection, ``hard`` without a goodbye (RST). Idempotent."""
        if self._peer is None:
            return
        if hard:
            self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._peer.close()
        self._peer = None

    def _gather(self) -> None:
        peer = self._connected()
        while select.select([peer], [], [], 0)[0]:
            data = peer.recv(65_536)
            if not data:
                break
            self._rest += data

    def _connected(self) -> socket.socket:
        if self._peer is None:
            msg = "nobody is connected"
            raise RuntimeError(msg)
        return self._peer
