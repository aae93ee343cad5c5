"""The one door to pyserial: opens, reads, cancels, closes; it neither waits for a device nor looks into its bytes.

One event (a pulled plug) comes out of pyserial 3.5 as SerialException, OSError, TypeError or termios.error depending
on the call it meets, so every call here catches them all and says one plain sentence instead.
"""

import contextlib
import errno
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import serial  # type: ignore[import-untyped]
from serial.tools import list_ports  # type: ignore[import-untyped]

from edge_runtime.spec.source import SerialMatch, SerialSource

try:
    import fcntl
    import grp
    import termios
except ImportError:  # Windows has none of them
    _TERMINAL_ERRORS: tuple[type[Exception], ...] = ()
    _group_name: Callable[[int], str] | None = None
else:
    _TERMINAL_ERRORS = (termios.error,)

    def _group_name(gid: int) -> str:
        return str(grp.getgrgid(gid).gr_name)


MAX_READ_BYTES = 65_536
"""A bound on one read; a tty holds 4 KiB, a TCP serial server may hold more."""
READ_TIMEOUT_S = 0.1
"""How long a read waits: short enough that a stop is prompt where a read cannot be cancelled."""
WRITE_TIMEOUT_S = 2.0
"""How long a command waits for a flow control that never lets it out."""
_TIOCGICOUNT = 0x545D  # Linux, include/uapi/asm-generic/ioctls.h; Python has no name for it

_FAILURES: tuple[type[Exception], ...] = (OSError, TypeError, ValueError, *_TERMINAL_ERRORS)
_PARITY = {"none": serial.PARITY_NONE, "even": serial.PARITY_EVEN, "odd": serial.PARITY_ODD}


class LinkAbsent(Exception):
    """The port could not be opened; one plain sentence says why. It may come: try again."""


class LinkLost(Exception):
    """The port was open and is gone; one plain sentence says how. Close it and open anew."""


class KnownPort(Protocol):
    """What pyserial tells of a port it found."""

    device: str
    vid: int | None
    pid: int | None
    serial_number: str | None
    interface: str | None


class PortState(NamedTuple):
    """One port the system shows: may this user open it, which group may, and who else has it open (empty: nobody)."""

    device: str
    description: str
    permitted: bool
    group: str
    holders: str


class LineErrors(NamedTuple):
    """What the driver counted on the line: the fields of Linux's serial_icounter_struct that tell of trouble."""

    framing: int
    overrun: int
    parity: int
    breaks: int
    buffer_overrun: int


class SerialPort:
    """An open port. ``read`` and ``close`` belong to one thread; only ``cancel`` may be called from another."""

    def __init__(self, port: Any, name: str) -> None:
        self._port = port
        self._lost: str | None = None
        self.name = name
        self.tap: Callable[[str, bytes], None] | None = None
        """Told what was read, '<', and is to be written, '>'; it must not raise."""
        # A TCP serial server answers "how many wait" with 0 or 1 only, so it is read in two steps.
        self._socket: socket.socket | None = getattr(port, "_socket", None)
        if self._socket is not None:
            _watch_for_silence(self._socket)

    def read(self) -> bytes:
        """Return what has arrived, at least one byte; ``b""`` when READ_TIMEOUT_S passed or ``cancel`` was called.

        Raises LinkLost.
        """
        data = self._read_some()
        if self.tap is not None and data:
            self.tap("<", data)
        return data

    def _read_some(self) -> bytes:
        if self._lost is not None:
            raise LinkLost(self._lost)
        try:
            if self._socket is not None:
                return self._read_socket()
            first = bytes(self._port.read(1))
        except _FAILURES as error:
            raise LinkLost(self._sentence(error)) from error
        if not first:
            return b""
        try:  # the rest of what came with it: in one piece, a frame costs its reader one turn and not two
            return first + bytes(self._port.read(min(self._port.in_waiting, MAX_READ_BYTES - 1)))
        except _FAILURES as error:
            return self._lose_after(first, error)

    def read_waiting(self) -> bytes:
        """Return what is there already, without waiting. Raises LinkLost."""
        data = self._read_what_waits()
        if self.tap is not None and data:
            self.tap("<", data)
        return data

    def _read_what_waits(self) -> bytes:
        if self._lost is not None:
            raise LinkLost(self._lost)
        try:
            if self._socket is None:
                return bytes(self._port.read(min(self._port.in_waiting, MAX_READ_BYTES)))
            self._port.timeout = 0
            try:
                return bytes(self._port.read(MAX_READ_BYTES))
            finally:
                self._port.timeout = READ_TIMEOUT_S
        except _FAILURES as error:
            raise LinkLost(self._sentence(error)) from error

    def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises LinkLost."""
        if self._lost is not None:
            raise LinkLost(self._lost)
        if self.tap is not None:
            self.tap(">", data)
        try:
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            msg = f"{self.name}: takes nothing for {WRITE_TIMEOUT_S:g} s; check flow control and the cable"
            raise LinkLost(msg) from error
        except _FAILURES as error:
            raise LinkLost(self._sentence(error)) from error

    def line_errors(self) -> LineErrors | None:
        """What the driver counted since it was loaded; ``None`` where there is no UART, or no such count."""
        if sys.platform != "linux":
            return None
        # ENOTTY comes from a pseudo-terminal, a TCP server, a driver without counters.
        with contextlib.suppress(*_FAILURES, AttributeError):
            counters = struct.unpack("20i", fcntl.ioctl(self._port.fileno(), _TIOCGICOUNT, bytes(80)))
            return LineErrors(*counters[6:11])
        return None

    def cancel(self) -> None:
        """Let a waiting ``read`` return at once."""
        with contextlib.suppress(*_FAILURES, AttributeError):  # a TCP port has no cancel; its read ends by itself
            self._port.cancel_read()

    def close(self) -> None:
        """Close; never raises. Only from the thread that reads: elsewhere pyserial fails in the middle of a read."""
        with contextlib.suppress(*_FAILURES):
            self._port.close()
        if self._socket is not None:  # pyserial forgets the socket of a peer that has gone
            self._socket.close()

    def _read_socket(self) -> bytes:
        first = bytes(self._port.read(1))
        if not first:
            return b""
        self._port.timeout = 0
        try:
            return first + bytes(self._port.read(MAX_READ_BYTES - 1))
        except _FAILURES as error:
            return self._lose_after(first, error)
        finally:
            self._port.timeout = READ_TIMEOUT_S

    def _lose_after(self, data: bytes, error: Exception) -> bytes:
        """The port is gone, which the next read says: what came before its end still counts."""
        self._lost = self._sentence(error)
        return data

    def _sentence(self, error: Exception) -> str:
        if self._socket is not None:
            return f"{self.name}: the connection was closed by the other side"
        if "multiple access" in str(error) and Path(self.name).exists():
            others = _holders(self.name)
            if others:
                return f"{self.name}: {others} reads from it too; stop one of the two"
        return f"{self.name}: the device is gone (unplugged or switched off)"


def open_port(spec: SerialSource) -> SerialPort:
    """Find the port anew, set its lines, open it exclusively. Raises LinkAbsent."""
    name = _name(spec)
    try:
        port = serial.serial_for_url(
            name,
            do_not_open=True,  # DTR and RTS must be known before the open that sets them
            baudrate=spec.baud,
            bytesize=spec.bytesize,
            parity=_PARITY[spec.parity],
            stopbits=spec.stopbits,
            timeout=READ_TIMEOUT_S,
            write_timeout=WRITE_TIMEOUT_S,
            xonxoff=spec.flow == "xonxoff",
            rtscts=spec.flow == "rtscts",
            exclusive=True,
        )
        if spec.dtr != "keep":
            port.dtr = spec.dtr == "high"
        if spec.rts != "keep":
            port.rts = spec.rts == "high"
        port.open()
    except _FAILURES as error:
        raise LinkAbsent(_absence(name, error)) from error
    # FTDI adapters hold bytes for 16 ms otherwise; it needs rights and a driver that knows it, so it is only tried.
    with contextlib.suppress(*_FAILURES, AttributeError, NotImplementedError):
        port.set_low_latency_mode(True)
    return SerialPort(port, name)


def find_port(spec: SerialSource) -> str:
    """Name the device, without opening it; a port behind a URL is taken at its word. Raises LinkAbsent."""
    name = _name(spec)
    # Windows has no files for its ports.
    if "://" not in name and os.name == "posix" and not Path(name).exists():
        msg = f"{name}: no such device; plug it in or correct the name"
        raise LinkAbsent(msg)
    return name


def resolve(match: SerialMatch, ports: Iterable[KnownPort]) -> str:
    """Name the device of the one port that matches. Raises LinkAbsent for none or several, naming what was found."""
    known = list(ports)
    found = [port for port in known if _matches(match, port)]
    if len(found) == 1:
        return found[0].device
    if found:
        msg = f"{len(found)} devices match {_wanted(match)}: {_listing(found)}; add serial_number or interface"
        raise LinkAbsent(msg)
    msg = f"no device matches {_wanted(match)}; found {_listing(known) or 'no serial port at all'}"
    raise LinkAbsent(msg)


def describe(port: KnownPort) -> str:
    """One port for a person: device, USB ids, serial number, interface."""
    words = [port.device]
    if port.vid is not None and port.pid is not None:
        words.append(f"vid=0x{port.vid:04x} pid=0x{port.pid:04x}")
    if port.serial_number:
        words.append(f"serial_number={port.serial_number}")
    if port.interface:
        words.append(f"interface={port.interface}")
    return " ".join(words)


def known_ports() -> list[str]:
    """Every serial port the system shows now, described for a person."""
    return [describe(port) for port in _comports()]


def port_states() -> list[PortState]:
    """Every serial port the system shows now, with what stands in the way of opening it. Raises LinkAbsent.

    None is opened: that alone would restart many a board.
    """
    return [
        PortState(
            device=port.device,
            description=describe(port),
            permitted=os.name != "posix" or os.access(port.device, os.R_OK | os.W_OK),
            group=_owner_group(port.device),
            holders=_holders(port.device),
        )
        for port in _comports()
    ]


def _name(spec: SerialSource) -> str:
    name = spec.port if spec.match is None else resolve(spec.match, _comports())
    if name is None:
        msg = "neither port nor match is given"
        raise LinkAbsent(msg)
    return name


def _comports() -> list[KnownPort]:
    try:
        return sorted(list_ports.comports())
    except _FAILURES as error:  # an adapter pulled while its entries were read
        msg = f"the list of serial ports could not be read: {error}"
        raise LinkAbsent(msg) from error


def _matches(match: SerialMatch, port: KnownPort) -> bool:
    return all(
        wanted is None or wanted == found
        for wanted, found in (
            (match.vid, port.vid),
            (match.pid, port.pid),
            (match.serial_number, port.serial_number),
            (match.interface, port.interface),
        )
    )


def _wanted(match: SerialMatch) -> str:
    ids = [f"{key}=0x{value:04x}" for key, value in (("vid", match.vid), ("pid", match.pid)) if value is not None]
    names = [("serial_number", match.serial_number), ("interface", match.interface)]
    return " ".join([*ids, *(f"{key}={value}" for key, value in names if value is not None)])


def _listing(ports: list[KnownPort]) -> str:
    return ", ".join(describe(port) for port in ports)


def _absence(name: str, error: Exception) -> str:
    code = getattr(error, "errno", None)
    if code in {errno.EACCES, errno.EPERM}:
        group = _owner_group(name)
        return f"{name}: permission denied; add this user to the group {group} (usermod -aG {group} USER), log in again"
    if code in {errno.EAGAIN, errno.EBUSY}:
        return f"{name}: in use by {_holders(name) or 'another process'}; stop it or choose another port"
    if code in {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EIO}:
        return f"{name}: no such device; plug it in or correct the name"
    reason = " ".join(str(error).split())
    # On Windows pyserial tells no number, and the system's error only in words around it.
    if "FileNotFoundError(" in reason:
        return f"{name}: no such port; plug it in or correct the name"
    if "PermissionError(" in reason:
        return f"{name}: in use by another program; stop it or choose another port"
    return f"{name}: cannot be opened ({reason})"


def _owner_group(name: str) -> str:
    """Name the group that may use the device; ``dialout`` (Debian's) where the file does not tell."""
    with contextlib.suppress(OSError, KeyError):
        gid = Path(name).stat().st_gid
        if gid and _group_name is not None:
            return _group_name(gid)
    return "dialout"


def _holders(name: str) -> str:
    """Which other processes have the device open, as far as this user may see; empty if none shows."""
    target = os.path.realpath(name)
    holders: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):
            if any(os.path.realpath(entry) == target for entry in (process / "fd").iterdir()):
                holders.append(f"process {process.name} ({(process / 'comm').read_text().strip()})")
    return " and ".join(holders)


def _watch_for_silence(link: socket.socket) -> None:
    """Have the kernel ask a quiet TCP serial server whether it still lives: one without power never says goodbye."""
    with contextlib.suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
