"""A TCP serial server (as ser2net is) on the loopback interface, for one connection at a time."""

import socket
import struct
from typing import Self

PATIENCE_S = 20.0


class TcpDevice:
    """Listens on a free port; ``url`` is what the runtime opens."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self._peer: socket.socket | None = None
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._listener.close()

    def accept(self) -> None:
        """Wait for the runtime to connect."""
        self._peer, _ = self._listener.accept()
        self._peer.settimeout(PATIENCE_S)

    def read(self, size: int = 4096) -> bytes:
        """What the runtime sent, up to ``size`` bytes; waits for at least one. Raises TimeoutError."""
        if self._peer is None:
            msg = "nobody is connected"
            raise RuntimeError(msg)
        return self._peer.recv(size)

    def write(self, data: bytes) -> None:
        """Send all of ``data`` to whoever is connected."""
        if self._peer is None:
            msg = "nobody is connected"
            raise RuntimeError(msg)
        self._peer.sendall(data)

    def reset(self) -> None:
        """End the connection without a goodbye (RST), as a server that restarted does."""
        if self._peer is not None:
            self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection; the next may come."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None
