import errno
import os
import socket
import struct
import subprocess
import sys
import termios
import threading
from dataclasses import dataclass

import pytest
import serial

from edge_runtime.links import serial_port
from edge_runtime.links.serial_port import (
    LineErrors,
    LinkAbsent,
    LinkLost,
    SerialPort,
    describe,
    known_ports,
    open_port,
    resolve,
)
from edge_runtime.spec.source import SerialMatch, SerialSource
from tests.rig.pty_device import PtyDevice
from tests.rig.tcp_device import TcpDevice


@dataclass
class Port:
    device: str
    vid: int | None = None
    pid: int | None = None
    serial_number: str | None = None
    interface: str | None = None


PLAIN = Port("/dev/ttyS0")
FIRST = Port("/dev/ttyUSB0", 0x0403, 0x6001, "A1")
SECOND = Port("/dev/ttyUSB1", 0x0403, 0x6001, "B2")
LEFT = Port("/dev/ttyUSB2", 0x0403, 0x6011, "C3", "left")
RIGHT = Port("/dev/ttyUSB3", 0x0403, 0x6011, "C3", "right")
ALL = [PLAIN, FIRST, SECOND, LEFT, RIGHT]


@pytest.fixture
def device(tmp_path):
    with PtyDevice(tmp_path / "sensor") as device:
        yield device


def spec_of(device):
    return SerialSource(port=str(device.link))


def read_until(port, size):
    data = b""
    for _ in range(200):
        data += port.read()
        if len(data) >= size:
            break
    return data


@pytest.mark.parametrize(
    ("match", "device"),
    [
        (SerialMatch(serial_number="B2"), "/dev/ttyUSB1"),
        (SerialMatch(vid=0x0403, pid=0x6001, serial_number="A1"), "/dev/ttyUSB0"),
        (SerialMatch(serial_number="C3", interface="right"), "/dev/ttyUSB3"),
    ],
)
def test_identity_finds_the_one(match, device):
    assert resolve(match, ALL) == device


def test_two_matching_devices_are_both_named():
    with pytest.raises(LinkAbsent) as raised:
        resolve(SerialMatch(vid=0x0403, pid=0x6001), ALL)
    assert str(raised.value) == (
        "2 devices match vid=0x0403 pid=0x6001: /dev/ttyUSB0 vid=0x0403 pid=0x6001 serial_number=A1, "
        "/dev/ttyUSB1 vid=0x0403 pid=0x6001 serial_number=B2; add serial_number or interface"
    )


def test_no_matching_device_names_what_is_there():
    with pytest.raises(LinkAbsent, match=r"no device matches serial_number=Z9; found /dev/ttyS0, /dev/ttyUSB0 vid="):
        resolve(SerialMatch(serial_number="Z9"), ALL)
    with pytest.raises(LinkAbsent, match="found no serial port at all"):
        resolve(SerialMatch(vid=1), [])


def test_identity_is_resolved_at_each_open(device, monkeypatch):
    ports = [Port(str(device.link), serial_number="A1")]
    monkeypatch.setattr(serial_port.list_ports, "comports", lambda: ports)
    spec = SerialSource(match=SerialMatch(serial_number="A1"))
    port = open_port(spec)
    assert port.name == str(device.link)
    port.close()
    ports.clear()
    with pytest.raises(LinkAbsent, match="no device matches"):
        open_port(spec)


def test_known_ports_are_described(monkeypatch):
    monkeypatch.setattr(serial_port.list_ports, "comports", lambda: ALL[:1])
    assert known_ports() == ["/dev/ttyS0"]
    assert describe(RIGHT) == "/dev/ttyUSB3 vid=0x0403 pid=0x6011 serial_number=C3 interface=right"

    def fail():
        raise OSError(errno.ENODEV, "gone")

    monkeypatch.setattr(serial_port.list_ports, "comports", fail)
    with pytest.raises(LinkAbsent, match="could not be read"):
        known_ports()


def test_bytes_arrive_whole(device):
    port = open_port(spec_of(device))
    data = bytes(range(256)) * 40
    writer = threading.Thread(target=device.write, args=(data,))
    writer.start()
    assert read_until(port, len(data)) == data
    writer.join()
    assert port.read() == b""
    port.close()
    port.close()


def test_unplugged_while_reading(device):
    port = open_port(spec_of(device))
    device.unplug()
    with pytest.raises(LinkLost, match=r"sensor: the device is gone \(unplugged or switched off\)"):
        read_until(port, 1)
    port.close()


def test_cancel_lets_a_waiting_read_return(device, monkeypatch):
    monkeypatch.setattr(serial_port, "READ_TIMEOUT_S", 60.0)
    port = open_port(spec_of(device))
    got = []
    reader = threading.Thread(target=lambda: got.append(port.read()))
    reader.start()
    port.cancel()
    reader.join(20)
    assert got == [b""]
    port.close()
    port.cancel()


def test_a_missing_device(tmp_path):
    with pytest.raises(LinkAbsent, match=r"nothing: no such device; plug it in or correct the name"):
        open_port(SerialSource(port=str(tmp_path / "nothing")))


def test_something_that_is_no_serial_port(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LinkAbsent, match=r"file: cannot be opened \(Could not configure port"):
        open_port(SerialSource(port=str(tmp_path / "file")))


def test_a_busy_port_names_its_holder(device):
    held = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); "
        "fcntl.flock(fd, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", held, str(device.link)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LinkAbsent, match=rf"sensor: in use by process {other.pid} \(.+\); stop it or"):
            open_port(spec_of(device))
        other.stdin.close()
    open_port(spec_of(device)).close()


class Scripted:
    """Stands in for pyserial's port: each call does what the script says."""

    def __init__(self, open_error=None, read_error=None, write_error=None):
        self.open_error = open_error
        self.read_error = read_error
        self.write_error = write_error
        self.order = []

    def __setattr__(self, key, value):
        if key in {"dtr", "rts"}:
            self.order.append((key, value))
        object.__setattr__(self, key, value)

    @property
    def in_waiting(self):
        return 0

    def open(self):
        self.order.append("open")
        if self.open_error:
            raise self.open_error

    def read(self, _size):
        raise self.read_error

    def write(self, _data):
        raise self.write_error

    def close(self):
        raise TypeError


def scripted(monkeypatch, port):
    seen = {}

    def serial_for_url(name, **options):
        seen.update(options, name=name)
        return port

    monkeypatch.setattr(serial_port.serial, "serial_for_url", serial_for_url)
    return seen


def test_permission_denied_names_the_group(monkeypatch, tmp_path):
    scripted(monkeypatch, Scripted(open_error=serial.SerialException(errno.EACCES, "could not open port")))
    with pytest.raises(LinkAbsent) as raised:
        open_port(SerialSource(port=str(tmp_path / "absent")))
    assert str(raised.value).endswith(
        "absent: permission denied; add this user to the group dialout (usermod -aG dialout USER), log in again"
    )


def test_permission_denied_asks_for_the_owning_group(monkeypatch, tmp_path):
    path = tmp_path / "port"
    path.write_bytes(b"")
    scripted(monkeypatch, Scripted(open_error=PermissionError(errno.EACCES, "no")))
    monkeypatch.setattr(serial_port, "_group_name", lambda gid: f"group{gid}")
    monkeypatch.setattr(serial_port.Path, "stat", lambda _: os.stat_result((0, 0, 0, 0, 0, 42, 0, 0, 0, 0)))
    with pytest.raises(LinkAbsent, match="add this user to the group group42"):
        open_port(SerialSource(port=str(path)))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "x"), TypeError("x"), ValueError("x"), termios.error(5, "x")])
def test_every_kind_of_failure_is_translated(monkeypatch, error):
    scripted(monkeypatch, Scripted(open_error=error))
    with pytest.raises(LinkAbsent, match="COM3: "):
        open_port(SerialSource(port="COM3"))
    scripted(monkeypatch, Scripted(read_error=error))
    port = open_port(SerialSource(port="COM3"))
    with pytest.raises(LinkLost, match="COM3: the device is gone"):
        port.read()
    port.close()


def test_lines_are_set_before_the_open_and_the_options_pass(monkeypatch):
    port = Scripted()
    seen = scripted(monkeypatch, port)
    open_port(
        SerialSource(
            port="COM3", baud=115200, parity="even", stopbits=2, bytesize=7, flow="xonxoff", dtr="low", rts="high"
        )
    )
    assert port.order == [("dtr", False), ("rts", True), "open"]
    assert seen == {
        "name": "COM3",
        "do_not_open": True,
        "baudrate": 115200,
        "bytesize": 7,
        "parity": "E",
        "stopbits": 2,
        "timeout": 0.1,
        "write_timeout": 2.0,
        "xonxoff": True,
        "rtscts": False,
        "exclusive": True,
    }
    kept = Scripted()
    scripted(monkeypatch, kept)
    open_port(SerialSource(port="COM3"))
    assert kept.order == ["open"]


def test_a_second_reader_is_named(device, monkeypatch):
    error = serial.SerialException("device reports readiness ... (device disconnected or multiple access on port?)")
    port = SerialPort(Scripted(read_error=error), str(device.link))
    monkeypatch.setattr(serial_port, "_holders", lambda _: "process 7 (minicom)")
    with pytest.raises(LinkLost, match=r"process 7 \(minicom\) reads from it too"):
        port.read()
    device.unplug()
    with pytest.raises(LinkLost, match="the device is gone"):
        port.read()


def test_a_tcp_serial_server():
    with TcpDevice() as device:
        port = open_port(SerialSource(port=device.url))
        device.accept()
        data = bytes(range(256)) * 2000
        writer = threading.Thread(target=device.write, args=(data,))
        writer.start()
        reads = 0
        got = b""
        while len(got) < len(data):
            got += port.read()
            reads += 1
        writer.join()
        assert got == data
        assert reads < len(data) / 20  # not one byte per call
        device.write(b"last")
        device.hang_up()
        assert read_until(port, 4) == b"last"
        with pytest.raises(LinkLost, match="the connection was closed by the other side"):
            read_until(port, 1)
        port.close()


def test_a_tcp_serial_server_that_is_not_there():
    with TcpDevice() as device:
        url = device.url
    with pytest.raises(LinkAbsent, match=r"socket://127.0.0.1:\d+: cannot be opened \(.*refused"):
        open_port(SerialSource(port=url))


def test_a_reset_connection_leaves_no_open_socket():
    with TcpDevice() as device:
        port = open_port(SerialSource(port=device.url))
        device.accept()
        device.reset()
        with pytest.raises(LinkLost, match="closed by the other side"):
            read_until(port, 1)
        port.close()
        assert port._socket.fileno() == -1


def test_what_came_just_before_the_end_still_counts():
    class Ending:
        """Gives one byte, then the end."""

        def __init__(self):
            self._socket = socket.socket()
            self.first = True

        def read(self, _size):
            if not self.first:
                msg = "socket disconnected"
                raise serial.SerialException(msg)
            self.first = False
            return b"x"

        def close(self):
            pass

    port = SerialPort(Ending(), "socket://server:1")
    assert port.read() == b"x"
    with pytest.raises(LinkLost, match="socket://server:1: the connection was closed"):
        port.read()
    port.close()


def test_an_unknown_url():
    with pytest.raises(LinkAbsent, match="protocol 'nonsense' not known"):
        open_port(SerialSource(port="nonsense://x"))


class _GoneAfterOneByte:
    """What pyserial does when the plug is pulled between its first byte and the question how many more wait."""

    def read(self, size: int) -> bytes:
        assert size == 1
        return b"x"

    @property
    def in_waiting(self) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_the_byte_that_came_before_the_end_is_given_and_then_the_loss():
    port = SerialPort(_GoneAfterOneByte(), "/dev/ttyUSB9")
    assert port.read() == b"x"
    for _ in range(2):
        with pytest.raises(LinkLost, match="the device is gone"):
            port.read()


def test_one_write_is_one_read(device):
    port = open_port(spec_of(device))
    device.write(b"0123456789" * 10)
    assert port.read() == b"0123456789" * 10
    port.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the counters are Linux's")
def test_the_drivers_counters(device, monkeypatch):
    port = open_port(spec_of(device))
    assert port.line_errors() is None  # a pseudo-terminal has none
    # cts, dsr, rng, dcd, rx, tx, frame, overrun, parity, brk, buf_overrun, nine reserved
    counters = struct.pack("20i", 1, 2, 3, 4, 5, 6, 70, 80, 90, 100, 110, *range(9))
    monkeypatch.setattr(serial_port.fcntl, "ioctl", lambda *_: counters)
    assert port.line_errors() == LineErrors(framing=70, overrun=80, parity=90, breaks=100, buffer_overrun=110)
    port.close()
    assert port.line_errors() is None


def test_what_is_written_arrives(device):
    port = open_port(spec_of(device))
    port.write(b"*IDN?\n")
    assert device.read() == b"*IDN?\n"
    device.unplug()
    with pytest.raises(LinkLost, match="the device is gone"):
        port.write(b"*IDN?\n")
    port.close()


def test_a_write_that_flow_control_holds_back_is_a_lost_link(device):
    port = SerialPort(Scripted(write_error=serial.SerialTimeoutException("Write timeout")), str(device.link))
    with pytest.raises(LinkLost, match="takes nothing for 2 s; check flow control and the cable"):
        port.write(b"x")


def test_a_trace_of_every_byte(device, tmp_path):
    trace = tmp_path / "trace.txt"
    port = open_port(SerialSource(port=f"spy://{device.link}?file={trace}"))
    device.write(b"21.5\n")
    assert port.read() == b"21.5\n"
    port.close()
    port._port.formatter.output.close()  # pyserial leaves it to the end of the process
    assert "31 2E 35 0A" in trace.read_text()
