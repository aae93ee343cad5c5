import os
import select
import threading

import pytest

from edge_runtime.sources.standard_input import StandardInputSource
from tests.rig.clock import HandClock
from tests.rig.wait import PATIENCE_S, until


@pytest.fixture
def pipe():
    read, write = os.pipe()
    ends = {"read": read, "write": write}
    yield ends
    for fd in ends.values():
        os.close(fd)


def started(fd, **options):
    clock = HandClock()
    wake = threading.Event()
    source = StandardInputSource(wall_ns=clock.wall_ns, mono_ns=clock.mono_ns, fd=fd, **options)
    source.start(wake)
    return source, wake


def test_the_end_of_the_pipe_ends_it_once_all_is_taken(pipe):
    source, wake = started(pipe["read"])
    assert not source.ended
    os.write(pipe["write"], b"1\n2\n")
    os.close(pipe.pop("write"))
    until(lambda: source.status() == "ended" and source.waiting, wake, "the end")
    assert not source.ended
    assert b"".join(chunk.data for chunk in source.take()) == b"1\n2\n"
    until(lambda: source.ended, wake, "the end")
    assert source.take() == []
    source.stop()


def test_its_first_chunk_begins_a_stream_anew_and_no_later_one(pipe):
    source, wake = started(pipe["read"])
    seen = []
    for row in (b"a,b\n", b"1,2\n"):
        os.write(pipe["write"], row)
        until(lambda: source.waiting, wake, "a row")
        seen += source.take()
    assert [(chunk.data, chunk.anew) for chunk in seen] == [(b"a,b\n", True), (b"1,2\n", False)]
    source.stop()


def test_a_full_queue_holds_the_writer_back_and_loses_nothing(pipe):
    source, wake = started(pipe["read"], queue_bytes=70_000)
    data = bytes(range(256)) * 4000

    def write():
        sent = 0
        while sent < len(data):
            sent += os.write(pipe["write"], data[sent:])
        os.close(pipe.pop("write"))

    writer = threading.Thread(target=write)
    writer.start()
    chunks = []

    def drained():
        chunks.extend(source.take(5000))
        return source.ended

    until(drained, wake, "everything")
    writer.join(PATIENCE_S)
    assert b"".join(chunk.data for chunk in chunks) == data
    assert not any(chunk.lost_before for chunk in chunks)
    assert chunks[-1].position == len(data)
    source.stop()


def test_stop_while_nothing_comes(pipe):
    source, wake = started(pipe["read"])
    source.stop()
    source.stop()
    assert source.ended
    assert source.status() == "stopped"
    assert wake.is_set()


def test_stop_while_the_writer_is_held_back(pipe):
    source, wake = started(pipe["read"], queue_bytes=1)
    os.write(pipe["write"], b"a" * 1000)
    until(lambda: source.waiting, wake, "bytes")
    os.write(pipe["write"], b"b" * 1000)
    until(lambda: not select.select([pipe["read"]], [], [], 0)[0], wake, "the reader to hold the second write")
    source.stop()
    assert source._thread.over


def test_a_descriptor_that_cannot_be_read_ends_with_a_reason(pipe):
    os.close(pipe.pop("read"))
    source, wake = started(pipe["write"])
    until(lambda: source.ended, wake, "the end")
    assert source.status() == "ended: cannot be read (Bad file descriptor)"
    source.stop()
