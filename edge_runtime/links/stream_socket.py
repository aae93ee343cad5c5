"""One TCP or TLS connection that never blocks: looked up, connected, greeted, read, written; it knows no protocol above."""

import os
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

READ_BYTES = 262_144
"""A bound on one read: what comes in a turn at most."""

Address = tuple[Any, ...]


class StreamLost(Exception):
    """There is no connection, or no longer; one plain sentence says why."""


class Encryption(Protocol):
    """What makes a connected socket a TLS one, so that nobody loads a TLS library who has none."""

    def wrap(self, plain: socket.socket) -> socket.socket:
        """A socket whose first step is the handshake; ``plain`` is of no more use."""

    def shake_hands(self, wrapped: socket.socket) -> bool | None:
        """Go on with the handshake: True once done, False while it waits to read, None to write. Raises StreamLost."""

    def pending(self, wrapped: socket.socket) -> bool:
        """Whether decrypted bytes wait that no wait on the socket would tell of."""

    @property
    def again(self) -> tuple[type[OSError], ...]:
        """What its reads and writes raise where they would wait."""


# mosquitto leaves Nagle's algorithm on: it holds a confirmation back until TCP has confirmed the one before, which Linux
# delays by 40 ms. With ten messages in flight that was 220 messages a second, and some thousands without.
_QUICK_ACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_AGAIN: Final[tuple[type[OSError], ...]] = (BlockingIOError, InterruptedError)


class Lookup:
    """A host's addresses, asked for in a thread of its own: a name server that is away must not hold up the loop.

    The thread ends with the answer; one that never comes ends with the process. An address needs no thread.
    """

    def __init__(self, host: str, port: int, wake: Callable[[], None]) -> None:
        self.addresses: Sequence[Address] | None = None
        self.failure = ""
        self._host, self._port, self._wake = host, port, wake
        with suppress(OSError, UnicodeError):
            self.addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            return
        threading.Thread(target=self._run, name=f"look up {host}", daemon=True).start()

    def _run(self) -> None:
        try:
            self.addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # a label that IDNA rejects is a UnicodeError
            self.failure = f"no address for {self._host}: {getattr(error, 'strerror', None) or error}"
        self._wake()


class StreamSocket:
    """A connection under way to ``address``, an entry of getaddrinfo.

    ``silence_ms`` bounds how long sent data may go unconfirmed. Raises StreamLost where not even an attempt can be made.
    """

    def __init__(self, address: Address, tls: Encryption | None, silence_ms: int) -> None:
        family, kind, protocol, _, target = address
        self.wants_write = True
        self._tls = tls
        self._again = _AGAIN if tls is None else (*_AGAIN, *tls.again)
        self._is_connected = self._is_wrapped = self._is_open = False
        self._unsent = bytearray()
        try:
            self.socket: socket.socket = socket.socket(family, kind, protocol)
        except OSError as error:  # no file number left, or an address family this kernel does not have
            raise StreamLost(_why(error)) from error
        try:
            self.socket.settimeout(0)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if sys.platform == "linux":
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)
            self.socket.connect(target)
        except _AGAIN:
            pass
        except OSError as error:
            self.close()
            raise StreamLost(_why(error)) from error

    def open(self) -> bool:
        """Go on with connecting; whether it is done. Raises StreamLost."""
        if not self._is_connected and not self._connected():
            return False
        if self._is_open:
            return True
        if self._tls is not None and not self._shaken_hands(self._tls):
            return False
        self._is_open = True
        self.wants_write = False
        return True

    def receive(self) -> bytes:
        """All that waits, up to READ_BYTES, in one call; empty where nothing does. Raises StreamLost."""
        try:
            data = self.socket.recv(READ_BYTES)
        except self._again:
            return b""
        except OSError as error:
            raise StreamLost(_why(error)) from error
        if not data:
            raise StreamLost("the other side closed the connection")
        if _QUICK_ACK is not None:
            with suppress(OSError):  # it lasts for one read
                self.socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        return data

    @property
    def has_more(self) -> bool:
        """Whether TLS holds decrypted bytes that no wait on the socket would tell of."""
        return self._tls is not None and self._is_open and self._tls.pending(self.socket)

    def send(self, data: bytes) -> None:
        """Hand over ``data`` behind what is still here, in one call; what the system does not take goes next time."""
        if self._unsent:
            self._unsent += data
            data = bytes(self._unsent)
        try:
            sent = self.socket.send(data) if data else 0
        except self._again:
            sent = 0
        except OSError as error:
            raise StreamLost(_why(error)) from error
        self._unsent = bytearray(data[sent:])
        self.wants_write = bool(self._unsent)

    @property
    def unsent_bytes(self) -> int:
        """What the system has not taken yet."""
        return len(self._unsent)

    def wait(self, seconds: float) -> None:
        """Wait until something can be read, or written where that is wanted, ``seconds`` at most."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.wants_write else 0))
            selector.select(seconds)

    def close(self) -> None:
        """Let it go. Idempotent."""
        with suppress(OSError):
            self.socket.close()

    def _connected(self) -> bool:
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise StreamLost(os.strerror(error))
        try:
            self.socket.getpeername()
        except OSError:  # not yet
            return False
        self._is_connected = True
        return True

    def _shaken_hands(self, tls: Encryption) -> bool:
        try:
            if not self._is_wrapped:
                self.socket = tls.wrap(self.socket)
                self._is_wrapped = True
            done = tls.shake_hands(self.socket)
        except OSError as error:
            raise StreamLost(f"TLS: {_why(error)}") from error
        self.wants_write = done is None
        return bool(done)


def _why(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
