import threading

import pytest

from edge_runtime.errors import InternalError
from edge_runtime.sources.reader import CHUNK_COST_BYTES, JOIN_NS, ChunkQueue, ReaderThread
from tests.rig.wait import PATIENCE_S, until

LATER = JOIN_NS


def test_positions_count_every_byte():
    queue = ChunkQueue(1 << 20)
    queue.put_dropping(b"ab", 10, 0, fresh=True)
    queue.put_dropping(b"cde", 20, LATER, fresh=False)
    assert [tuple(chunk)[:6] for chunk in queue.take(100)] == [
        (b"ab", 10, 0, 2, 0, True),
        (b"cde", 20, LATER, 5, 0, False),
    ]
    assert queue.empty


def test_bytes_close_together_join_the_chunk_that_waits():
    queue = ChunkQueue(1 << 20)
    queue.put_dropping(b"a", 10, 0, fresh=True)
    queue.put_dropping(b"b", 11, JOIN_NS - 1, fresh=False)
    queue.put_dropping(b"c", 12, JOIN_NS, fresh=False)
    queue.put_dropping(b"d", 13, JOIN_NS, fresh=True)
    assert [(chunk.data, chunk.time_ns, chunk.position) for chunk in queue.take(100)] == [
        (b"ab", 10, 2),
        (b"c", 12, 3),
        (b"d", 13, 4),
    ]


def test_take_keeps_to_its_limit_but_gives_one():
    queue = ChunkQueue(1 << 20)
    for at in range(3):
        queue.put_dropping(b"abc", 0, at * LATER, fresh=False)
    assert [chunk.position for chunk in queue.take(6)] == [3, 6]
    assert [chunk.position for chunk in queue.take(1)] == [9]
    assert queue.take(1) == []


def test_a_full_queue_drops_the_oldest_and_counts_every_byte():
    queue = ChunkQueue(3 * (10 + CHUNK_COST_BYTES))
    for at in range(10):
        queue.put_dropping(b"%010d" % at, 0, at * LATER, fresh=at == 0)
    taken = queue.take(1000)
    assert [chunk.data for chunk in taken] == [b"%010d" % at for at in (7, 8, 9)]
    assert [chunk.lost_before for chunk in taken] == [70, 0, 0]
    assert [chunk.fresh for chunk in taken] == [True, False, False]
    queue.put_dropping(b"x", 0, 11 * LATER, fresh=False)
    assert queue.take(1000)[0][3:5] == (101, 0)


def test_one_chunk_over_the_limit_is_kept():
    queue = ChunkQueue(10)
    queue.put_dropping(b"a" * 20, 0, 0, fresh=False)
    queue.put_dropping(b"b" * 20, 0, LATER, fresh=False)
    [chunk] = queue.take(100)
    assert (chunk.data, chunk.lost_before) == (b"b" * 20, 20)


def test_a_waiting_writer_goes_on_when_there_is_room_and_when_closed():
    queue = ChunkQueue(CHUNK_COST_BYTES + 10)
    wake = threading.Event()
    done = []

    def write():
        for at in range(4):
            queue.put_waiting(b"0123456789", 0, at * LATER, fresh=False)
            done.append(at)
            wake.set()

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: done == [0], wake, "the first write")
    assert len(queue.take(100)) == 1
    until(lambda: done == [0, 1], wake, "the second write")
    queue.close()
    writer.join(PATIENCE_S)
    assert done == [0, 1, 2, 3]
    assert [chunk.position for chunk in queue.take(100)] == [20]


def test_a_reader_that_fails_is_told():
    def body():
        msg = "unforeseen"
        raise RuntimeError(msg)

    wake = threading.Event()
    thread = ReaderThread("serial COM3", body)
    thread.check()
    thread.start(wake)
    assert wake.wait(PATIENCE_S)
    assert thread.over
    with pytest.raises(
        InternalError, match="serial COM3: found its reader thread failed with RuntimeError: unforeseen"
    ):
        thread.check()
    thread.join()
    thread.join()


def test_what_was_given_up_is_counted_beside_the_bytes():
    queue = ChunkQueue(1 << 20)
    queue.put_dropping(b"ab", 10, 0, fresh=True)
    queue.take(100)
    queue.give_up("no_answer")
    queue.give_up("exception")
    assert not queue.empty
    queue.put_dropping(b"cde", 20, LATER, fresh=False)
    queue.give_up("no_answer")
    taken = queue.take(100)
    assert [(chunk.data, chunk.position, chunk.lost_before, chunk.dropped) for chunk in taken] == [
        (b"", 2, 2, "no_answer"), (b"", 2, 1, "exception"), (b"cde", 5, 0, ""),
    ]  # fmt: skip
    assert queue.empty
