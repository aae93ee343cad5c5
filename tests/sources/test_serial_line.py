import os
import threading
import time

import pytest

from edge_runtime.errors import InternalError
from edge_runtime.flow.gathering import IN_A_ROW, MAX_GATHER_NS
from edge_runtime.links.serial_port import LineErrors, LinkAbsent, LinkLost
from edge_runtime.sources.serial_line import SerialLine
from edge_runtime.spec.source import MIN_QUEUE_BYTES, SerialSource
from tests.rig.clock import HandClock
from tests.rig.pty_device import PtyDevice
from tests.rig.tcp_device import TcpDevice
from tests.rig.wait import until

LINES = b"".join(b"%d,21.5,1013\n" % at for at in range(300))


class Rig:
    """A started serial line, what it has given, and the event it wakes."""

    def __init__(self, spec, **options):
        self.clock = HandClock()
        self.wake = threading.Event()
        self.line = SerialLine(
            spec, wall_ns=self.clock.wall_ns, jitter=lambda: 0.1, **{"mono_ns": self.clock.mono_ns} | options
        )
        self.chunks = []
        self.line.start(self.wake)

    def until_open(self, times=0):
        until(lambda: "open since" in self.line.status() and self.line.reopened == times, self.wake, "an open port")

    def until_said(self, words):
        until(lambda: words in self.line.status(), self.wake, f"{words!r} (says {self.line.status()!r})")

    def until_bytes(self, size):
        def drained():
            self.chunks += self.line.take()
            return sum(len(chunk.data) for chunk in self.chunks) >= size

        until(drained, self.wake, f"{size} bytes")

    @property
    def data(self):
        return b"".join(chunk.data for chunk in self.chunks)


@pytest.fixture
def device(tmp_path):
    with PtyDevice(tmp_path / "sensor") as device:
        yield device


@pytest.fixture
def start():
    rigs = []

    def begin(spec, **options):
        rigs.append(Rig(spec, **options))
        return rigs[-1]

    yield begin
    for rig in rigs:
        rig.line.stop()


def spec_of(device, **keys):
    return SerialSource(port=str(device.link), reopen_max_s=0.05, **keys)


def test_bytes_come_through_any_split_with_positions(device, start):
    rig = start(spec_of(device))
    rig.until_open()
    device.play(LINES, range(1, 60))
    rig.until_bytes(len(LINES))
    assert rig.data == LINES
    assert rig.chunks[-1].position == len(LINES)
    assert rig.chunks[0].fresh
    assert not any(chunk.fresh or chunk.lost_before for chunk in rig.chunks[1:])
    assert {chunk.time_ns for chunk in rig.chunks} == {rig.clock.wall_ns()}
    assert not rig.line.resumable
    assert rig.line.live
    assert rig.line.due_ns() is None


def test_unplug_and_replug_lose_no_line_after_the_reopen(device, start):
    rig = start(spec_of(device))
    rig.until_open()
    total = b""
    for times in range(3):
        part = b"%d:" % times + LINES
        device.write(part)
        total += part
        rig.until_bytes(len(total))
        device.unplug()
        rig.until_said("no such device")
        device.replug()
        rig.until_open(times + 1)
    assert rig.data == total
    begun = [chunk for chunk in rig.chunks if chunk.fresh]
    assert [chunk.data[:1] for chunk in begun] == [b"0", b"1", b"2"]
    assert rig.line.reopened == 3


def test_the_name_may_move_to_another_device(device, start):
    """What was ttyUSB0 is now another pts behind the same name: it is resolved again, not held open."""
    first = os.path.realpath(device.link)
    keeper = os.openpty()
    rig = start(spec_of(device))
    rig.until_open()
    device.unplug()
    rig.until_said("no such device")
    other = os.openpty()
    device.replug()
    rig.until_open(1)
    assert os.path.realpath(device.link) != first
    device.write(b"here\n")
    rig.until_bytes(5)
    assert rig.data == b"here\n"
    for fd in (*keeper, *other):
        os.close(fd)


def test_a_port_that_is_absent_may_come(tmp_path, start):
    spec = SerialSource(port=str(tmp_path / "late"), reopen_max_s=0.05)
    rig = start(spec)
    rig.until_said("waiting: ")
    assert rig.line.status().endswith("late: no such device; plug it in or correct the name")
    assert not rig.line.ended
    with PtyDevice(tmp_path / "late") as device:
        rig.until_open()
        assert rig.line.reopened == 0
        device.write(b"1\n")
        rig.until_bytes(2)
    assert rig.data == b"1\n"


def test_a_flood_drops_the_oldest_and_counts_every_byte(device, start):
    rig = start(spec_of(device, queue_bytes=MIN_QUEUE_BYTES))
    rig.until_open()
    sent = 0
    for _ in range(300):
        device.write(b"x" * 1024)
        sent += 1024
        rig.clock.advance(0.01)
    device.write(b"the end\n")
    sent += 8

    def drained():
        rig.chunks += rig.line.take()
        return rig.data.endswith(b"the end\n")

    until(drained, rig.wake, "the end")
    lost = sum(chunk.lost_before for chunk in rig.chunks)
    assert lost > 0
    assert lost + len(rig.data) == sent == rig.chunks[-1].position
    at = 0
    for chunk in rig.chunks:
        at += chunk.lost_before + len(chunk.data)
        assert chunk.position == at


def test_what_arrives_while_it_settles_is_thrown_away(device, start):
    reads = []
    rig = start(spec_of(device, settle_ms=500), open_link=lambda spec: Watched(spec, reads))
    rig.until_open()
    device.write(b"boot v1\nrea")
    until(lambda: b"".join(reads) == b"boot v1\nrea", rig.wake, "the banner")
    rig.clock.advance(0.5)
    device.write(b"dy\n1\n")
    rig.until_bytes(5)
    assert rig.data == b"dy\n1\n"
    assert rig.chunks[0].fresh


def Watched(spec, reads):  # noqa: N802 (stands where a class would)
    from edge_runtime.links.serial_port import open_port

    port = open_port(spec)
    read = port.read

    def watched():
        data = read()
        reads.append(data)
        return data

    port.read = watched
    return port


def test_stop_cancels_then_closes_in_the_reader(device, start):
    closed_in = []

    def open_link(spec):
        port = Watched(spec, [])
        close = port.close
        port.close = lambda: (closed_in.append(threading.current_thread().name), close())
        return port

    rig = start(spec_of(device), open_link=open_link)
    rig.until_open()
    device.write(b"x")
    until(lambda: rig.line.waiting, rig.wake, "bytes")
    rig.line.stop()
    rig.line.stop()
    assert closed_in == [f"serial {device.link}"]
    assert rig.line.status() == "stopped"
    assert not rig.line.ended
    assert rig.line.take()[0].data == b"x"
    assert rig.line.ended


def test_a_tcp_serial_server_that_hangs_up(start):
    with TcpDevice() as device:
        rig = start(SerialSource(port=device.url, reopen_max_s=0.05))
        device.accept()
        rig.until_open()
        device.write(b"one\n")
        rig.until_bytes(4)
        device.hang_up()
        device.accept()
        rig.until_open(1)
        device.write(b"two\n")
        rig.until_bytes(8)
        assert [(chunk.data, chunk.fresh) for chunk in rig.chunks] == [(b"one\n", True), (b"two\n", True)]
        rig.line.stop()


class FlakyLink:
    """A link that is absent, then lost at once, over and over."""

    name = "COM3"

    def read(self):
        msg = "COM3: the device is gone"
        raise LinkLost(msg)

    def line_errors(self):
        return None

    def cancel(self):
        pass

    def close(self):
        pass


class FastLink(FlakyLink):
    """A link whose every read brings a byte, until ``count`` have come; it tells how each was asked for."""

    def __init__(self, count, waiting=1):
        self.asked = []
        self._left, self._waiting = count, waiting

    def read(self):
        self.asked.append("read")
        return self._give(1) or super().read()

    def read_waiting(self):
        self.asked.append("waiting")
        return self._give(self._waiting)

    def write(self, data):
        pass

    def _give(self, size):
        given = min(size, self._left)
        self._left -= given
        return b"x" * given


def read_all(link, start, **keys):
    """Start a line on ``link`` and take what it brings until it is lost; each test gives it 50 bytes."""
    source = SerialSource(port="COM3", **keys)
    links = iter([link])

    def open_link(_spec):
        found = next(links, None)
        if found is None:
            msg = "COM3: no such device"
            raise LinkAbsent(msg)
        return found

    rig = start(source, open_link=open_link, gather_ns=MAX_GATHER_NS)
    rig.until_bytes(50)
    rig.until_said("waiting: ")
    assert rig.data == b"x" * 50


def test_the_bytes_of_a_fast_line_are_read_together_and_none_is_lost(start):
    link = FastLink(50, waiting=10)
    read_all(link, start)
    # The clock stands still, so all reads are close together; once nothing waits, it is waited for as ever.
    assert link.asked == ["read"] * IN_A_ROW + ["waiting", "waiting", "waiting", "read"]


def test_a_fast_line_that_falls_silent_is_waited_for(start):
    link = FastLink(50, waiting=0)
    read_all(link, start)
    assert link.asked[IN_A_ROW : IN_A_ROW + 4] == ["waiting", "read", "waiting", "read"]


def test_an_answer_to_a_question_is_never_left_to_gather(start):
    link = FastLink(50)
    read_all(link, start, poll={"send": "?", "every_s": 0.1})
    assert set(link.asked) == {"read"}


def test_only_the_instrument_that_answers_as_expected_is_read(device, start):
    rig = start(spec_of(device, identify={"expect": "34461A,MY5"}))
    for answer, found in (
        (b"HP,3458A\r\n", "'HP,3458A'"),
        (b"KEYSIGHT,34461A,MY5", "'KEYSIGHT,34461A,MY5'"),
        (b"", "nothing"),
    ):
        assert device.read() == b"*IDN?\n"
        if answer:
            device.write(answer)
        told = f"waiting: {device.link}: answers {found} to '*IDN?', not '34461A,MY5'; plug in that instrument"
        until(lambda told=told: rig.clock.advance(0.5) or rig.line.status() == told, rig.wake, told)
    assert device.read() == b"*IDN?\n"
    device.write(b"KEYSIGHT,34461A,MY5,3\n")
    rig.until_open()
    device.write(b"+1.5E0\n")
    rig.until_bytes(7)
    assert rig.data == b"+1.5E0\n"
    assert rig.line.reopened == 0


def test_a_port_that_is_lost_while_it_is_asked_is_opened_again(device, start):
    rig = start(spec_of(device, identify={"expect": "34461A"}))
    device.read()
    device.unplug()
    rig.until_said("waiting: ")
    device.replug()
    assert device.read() == b"*IDN?\n"
    device.write(b"KEYSIGHT,34461A\n")
    rig.until_open()


def test_a_question_is_asked_again_and_again(device, start):
    reads, asked = [], []

    def open_link(spec):
        port = Watched(spec, reads)
        write = port.write
        port.write = lambda data: (asked.append(data), write(data))
        return port

    rig = start(spec_of(device, settle_ms=500, poll={"send": "READ?\r\n", "every_s": 60}), open_link=open_link)
    rig.until_open()
    for times, after_s in enumerate((0.5, 60, 600, 60)):  # what was missed is not made up for
        turns = len(reads)
        until(lambda turns=turns: len(reads) > turns + 2, rig.wake, "turns without a question")
        assert asked == [b"READ?\r\n"] * times
        rig.clock.advance(after_s)
        assert device.read() == b"READ?\r\n"
        device.write(b"%d\n" % times)
        rig.until_bytes(2 * times + 2)
    assert rig.data == b"0\n1\n2\n3\n"
    device.write(b"more\n")
    rig.until_bytes(13)
    assert "; asked 4 times, answered 4 times" in rig.line.status()  # twice to one question is once
    rig.clock.advance(60)
    assert device.read() == b"READ?\r\n"
    rig.until_said("; asked 5 times, answered 4 times")


def test_errors_on_the_line_are_told_from_the_open_on(device, start):
    counts = [LineErrors(7, 0, 5, 0, 0)]

    def open_link(spec):
        port = Watched(spec, [])
        port.line_errors = lambda: counts[-1]
        return port

    rig = start(spec_of(device), open_link=open_link)
    rig.until_open()
    assert "Errors" not in rig.line.status()
    counts.append(LineErrors(9, 0, 5, 0, 1))
    rig.clock.advance(1)
    rig.until_said(" Errors on the line since then: 2 framing, 1 buffer overrun; check baud rate, parity, flow control")


def test_waits_grow_while_nothing_is_heard():
    waits = []

    def open_link(_spec):
        if len(waits) % 2:
            return FlakyLink()
        msg = "COM3: no such device"
        raise LinkAbsent(msg)

    line = SerialLine(
        SerialSource(port="COM3", reopen_max_s=1.0),
        wall_ns=lambda: 0,
        mono_ns=lambda: 0,
        open_link=open_link,
        jitter=lambda: 0.5,
    )

    class Stopping(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            if len(waits) == 7:
                self.set()
            return self.is_set()

    line._thread.stopping = Stopping()
    wake = threading.Event()
    line.start(wake)
    until(lambda: line.ended, wake, "the end")
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5]


def test_an_unforeseen_failure_is_not_silent():
    def open_link(_spec):
        raise ZeroDivisionError

    line = SerialLine(SerialSource(port="COM3"), wall_ns=lambda: 0, mono_ns=lambda: 0, open_link=open_link)
    wake = threading.Event()
    line.start(wake)
    until(lambda: line._thread.over, wake, "the failure")
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        line.take()
    line.stop()


POLL = {"send": "READ?\n", "every_s": 10, "timeout_s": 1, "ask_error": "SYST:ERR?\n"}


def given_up(rig):
    return [(chunk.dropped, chunk.lost_before) for chunk in rig.chunks if chunk.dropped]


def test_answers_that_are_waited_for_are_whole_and_none_is_passed_over(device, start):
    rig = start(spec_of(device, poll=POLL))
    for reading in (b"+1.5\n", b"+2.5\r\n"):
        assert device.read() == b"READ?\n"
        device.write(reading[:2])
        device.write(reading[2:])
        rig.until_bytes(len(rig.data) + 6)
        device.write(b"stray")
        rig.clock.advance(10)
    assert rig.data == b"+1.5\r\n+2.5\r\n"
    assert not any(chunk.fresh for chunk in rig.chunks)
    assert not given_up(rig)


def test_a_sample_that_did_not_come_is_counted_and_said(device, start):
    rig = start(spec_of(device, poll=POLL))
    assert device.read() == b"READ?\n"
    rig.clock.advance(1)
    assert device.read() == b"SYST:ERR?\n"
    device.write(b'-410,"Query INTERRUPTED"\n')
    rig.until_said("; asked 1 times, answered 0 times; the last sample that did not come, at "
                   "2025-10-09T08:53:21Z: no answer to 'READ?' within 1 s; "
                   "'SYST:ERR?' says '-410,\"Query INTERRUPTED\"'")  # fmt: skip
    rig.chunks += rig.line.take()
    assert given_up(rig) == [("no_answer", 1)]
    assert not rig.line.waiting
    rig.clock.advance(10)
    assert device.read() == b"READ?\n"
    device.unplug()
    rig.until_said("no such device")
    rig.chunks += rig.line.take()
    assert given_up(rig) == [("no_answer", 1)] * 2


def test_a_tcp_server_that_says_no_word_is_connected_to_again(start):
    with TcpDevice() as device:
        rig = start(
            SerialSource(port=device.url, poll={"send": "READ?\n", "every_s": 0.1, "timeout_s": 0.2}),
            mono_ns=time.monotonic_ns,
        )
        device.accept()
        while device.read():  # until it closes its side
            pass
        device.hang_up()
        device.accept()
        while not rig.data:  # an answer that this test is too slow to give in time is asked for again
            device.read()
            device.write(b"+1.5\n")
            rig.chunks += rig.line.take()
        assert rig.data == b"+1.5\r\n" * (len(rig.data) // 6)
        rig.line.stop()


def test_a_question_over_tcp(start):
    with TcpDevice() as device:
        rig = start(SerialSource(port=device.url, identify={"expect": "SCOPE"}, poll={**POLL, "send": "CURV?\n"}))
        device.accept()
        assert device.read() == b"*IDN?\n"
        device.write(b"ACME,SCOPE,1\n")
        assert device.read() == b"CURV?\n"
        curve = b"#6200000" + bytes(range(250)) * 800
        device.write(curve + b"\n")
        rig.until_bytes(len(curve) + 1)
        assert rig.data == curve + b"\n"
        assert max(len(chunk.data) for chunk in rig.chunks) == 65_536
        rig.line.stop()
