"""Tells systemd how the service is, by datagram, without libsystemd; where nobody listens it does nothing."""

import os
import socket
from collections.abc import Mapping

_LONGEST_STATUS = 500


class ServiceNotice:
    """Messages of sd_notify(3) to ``$NOTIFY_SOCKET``; none is worth failing for, so none raises.

    ``watchdog_s`` is how often ``watchdog`` must be called, half of what systemd waits (sd_watchdog_enabled(3));
    None where it does not wait. It has to be called by the loop that does the work: a thread of its own would say
    "alive" for a loop that hangs.
    """

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # '@' stands for the zero byte of an abstract name (unix(7)).
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address[:1] in ("/", "@") and hasattr(socket, "AF_UNIX"):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(0)
        self.watchdog_s = _watchdog_s(environment, pid)

    @classmethod
    def of_this_process(cls) -> "ServiceNotice":
        """Take the address from this process's environment."""
        return cls(os.environ, os.getpid())

    def ready(self, status: str) -> None:
        """The goldens have passed and the lines are open."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, text: str) -> None:
        """One sentence for `systemctl status`."""
        self._send(f"STATUS={_one_line(text)}")

    def watchdog(self) -> None:
        """The loop has turned."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The lines are draining."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Let the socket go. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
        except OSError:
            # Gone or busy: systemd notices a missing word by its own clock, and there is nobody else to tell.
            return


def _watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    period = environment.get("WATCHDOG_USEC", "")
    meant = environment.get("WATCHDOG_PID", str(pid))
    if not period.isdecimal() or not int(period) or meant != str(pid):
        return None
    return int(period) / 2e6


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_STATUS]
