"""TLS over a socket that never blocks: authorities, this device's certificate, the name to prove; it opens no connection."""

import socket
import ssl
from pathlib import Path

from edge_runtime.errors import ConfigurationError
from edge_runtime.links.stream_socket import StreamLost


class Tls:
    """How one broker is trusted; see ``stream_socket.Encryption`` for the methods.

    ``ca``, ``certificate`` and ``key`` are PEM files; without ``ca`` the system's authorities count. Raises
    ConfigurationError for a file that cannot be used.
    """

    again: tuple[type[OSError], ...] = (ssl.SSLWantReadError, ssl.SSLWantWriteError)

    def __init__(self, server_name: str, *, ca: Path | None, certificate: Path | None, key: Path | None) -> None:
        self._server_name = server_name
        try:
            self._context = ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise _unusable("broker.tls.ca", ca, error, "a PEM file of certificates") from error
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # A name that could stand in no certificate is told here, and not at each attempt to connect.
            self._context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=server_name)
        except ValueError as error:
            raise ConfigurationError(
                subject="broker.tls.server_name, or broker.host", found=f"{server_name!r}: {error}",
                expected="a host's name or address", todo="write the name that stands in the broker's certificate",
            ) from error  # fmt: skip
        if certificate is None:
            return
        try:
            # An encrypted key would make OpenSSL ask at the terminal: nobody is there.
            self._context.load_cert_chain(certificate, key, password=lambda: b"")
        except OSError as error:
            wanted = "a PEM certificate, and its private key without a passphrase"
            raise _unusable("broker.tls.certificate and key", f"{certificate}, {key}", error, wanted) from error

    def wrap(self, plain: socket.socket) -> socket.socket:
        """A socket whose first step is the handshake."""
        return self._context.wrap_socket(plain, server_hostname=self._server_name, do_handshake_on_connect=False)

    def shake_hands(self, wrapped: socket.socket) -> bool | None:
        """Go on with the handshake; see the protocol."""
        try:
            wrapped.do_handshake()  # type: ignore[attr-defined] # it came from wrap
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            return None
        except ssl.SSLCertVerificationError as error:
            raise StreamLost(_mistrust(error.verify_message or str(error))) from error
        except ssl.SSLError as error:
            raise StreamLost(f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}") from error
        return True

    def pending(self, wrapped: socket.socket) -> bool:
        """Whether decrypted bytes wait."""
        return wrapped.pending() > 0  # type: ignore[attr-defined, no-any-return] # it came from wrap


def _mistrust(told: str) -> str:
    words = told.rstrip(".")
    hint = "; is the clock of this machine right?" if "not yet valid" in words or "expired" in words else ""
    return f"the broker's certificate is not trusted: {words}{hint}"


def _unusable(subject: str, files: object, error: OSError, expected: str) -> ConfigurationError:
    found = error.strerror or getattr(error, "reason", None) or str(error)
    return ConfigurationError(
        subject=subject, found=f"{files}: {found}", expected=expected, todo="correct the path; see docs/mqtt.md"
    )
