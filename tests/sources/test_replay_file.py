import threading
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.recording import MAGIC, encode_chunk
from edge_runtime.sources import make_source
from edge_runtime.sources.port import MAX_CHUNK_BYTES
from edge_runtime.sources.replay_file import LONGEST_GAP_NS, ReplayFile
from edge_runtime.spec.source import ReplaySource, SerialSource, StandardInput
from tests.rig.clock import HandClock

SECOND = 1_000_000_000
RECORDS = [
    (10 * SECOND, b""),
    (10 * SECOND, b"1,2\n3"),
    (11 * SECOND, b",4\n"),
    (12 * SECOND, b""),
    (14 * SECOND, b"5,6\n"),
]
PAYLOAD = b"1,2\n3,4\n5,6\n"


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "a.rec"
    path.write_bytes(MAGIC + b"".join(encode_chunk(*record) for record in RECORDS))
    return path


def started(path, clock, position=0, speed="max"):
    source = ReplayFile(path, speed, wall_ns=clock.wall_ns, mono_ns=clock.mono_ns)
    wake = threading.Event()
    source.start(wake, position)
    assert wake.is_set()
    return source


def drain(source, max_bytes=MAX_CHUNK_BYTES):
    chunks = []
    while not source.ended:
        assert source.waiting
        chunks += source.take(max_bytes)
    assert not source.waiting
    return chunks


def test_a_recording_gives_its_bytes_times_and_beginnings(recording, clock):
    chunks = drain(started(recording, clock))
    assert [(c.data, c.time_ns, c.position, c.fresh) for c in chunks] == [
        (b"1,2\n3", 10 * SECOND, 5, True),
        (b",4\n", 11 * SECOND, 8, False),
        (b"5,6\n", 14 * SECOND, 12, True),
    ]


def test_a_plain_file_gives_its_bytes_in_bounded_chunks(tmp_path, clock):
    path = tmp_path / "a.csv"
    data = bytes(range(256)) * 1000
    path.write_bytes(data)
    source = started(path, clock, speed=2.0)
    assert (source.resumable, source.live, source.due_ns(), source.reopened) == (True, False, None, 0)
    chunks = drain(source, 1 << 20)
    assert b"".join(chunk.data for chunk in chunks) == data
    assert max(len(chunk.data) for chunk in chunks) == MAX_CHUNK_BYTES
    assert chunks[-1].position == len(data)
    assert source.status() == "ended"


@pytest.mark.parametrize("max_bytes", [1, 3, MAX_CHUNK_BYTES])
def test_resuming_at_every_position_gives_the_same_bytes(recording, tmp_path, clock, max_bytes):
    plain = tmp_path / "a.csv"
    plain.write_bytes(PAYLOAD)
    for path in (recording, plain):
        whole = drain(started(path, clock), max_bytes)
        times = [chunk.time_ns for chunk in whole for _ in chunk.data]
        for position in range(len(PAYLOAD) + 1):
            chunks = drain(started(path, clock, position), max_bytes)
            assert b"".join(chunk.data for chunk in chunks) == PAYLOAD[position:]
            assert [chunk.time_ns for chunk in chunks for _ in chunk.data] == times[position:]
            assert not chunks or chunks[-1].position == len(PAYLOAD)


def test_a_beginning_is_kept_when_resumed_exactly_there(recording, clock):
    assert [started(recording, clock, at).take()[0].fresh for at in (0, 1, 5, 8, 9)] == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_a_paced_replay_gives_each_chunk_when_due(recording, clock):
    source = started(recording, clock, speed=2.0)
    assert source.waiting
    assert [chunk.data for chunk in source.take()] == [b"1,2\n3"]
    assert source.due_ns() == SECOND // 2
    assert not source.waiting
    assert source.take() == []
    clock.advance(0.5)
    assert source.waiting
    assert [chunk.data for chunk in source.take()] == [b",4\n"]
    assert source.due_ns() == 2 * SECOND
    clock.advance(100)
    assert [chunk.data for chunk in source.take()] == [b"5,6\n"]
    assert source.ended
    assert source.due_ns() is None


def test_a_chunk_taken_in_pieces_stays_due(recording, clock):
    source = started(recording, clock, speed=1.0)
    assert [chunk.data for chunk in source.take(2)] == [b"1,"]
    assert source.waiting
    assert [chunk.data for chunk in source.take(20)] == [b"2\n3"]
    assert not source.waiting
    source.stop()


def test_a_recorded_clock_that_was_set_holds_nothing_up(tmp_path, clock):
    path = tmp_path / "a.rec"
    times = [5 * SECOND, 1_700_000_000 * SECOND, 100 * SECOND, 101 * SECOND]
    path.write_bytes(MAGIC + b"".join(encode_chunk(time, b"x") for time in times))
    source = started(path, clock, speed=1.0)
    source.take()
    assert source.due_ns() == LONGEST_GAP_NS
    clock.advance(3600)
    assert len(source.take()) == 2
    assert source.due_ns() == LONGEST_GAP_NS + SECOND
    source.stop()


def test_a_cut_tail_is_left_out_and_told(recording, clock):
    recording.write_bytes(recording.read_bytes()[:-3])
    source = started(recording, clock)
    assert b"".join(chunk.data for chunk in drain(source)) == b"1,2\n3,4\n"
    assert source.status() == "ended; 16 bytes of an unfinished last record left out"


def test_damage_is_refused_after_what_came_before_it(recording, clock):
    data = recording.read_bytes()
    recording.write_bytes(data + b"junk\n")
    source = started(recording, clock)
    assert b"".join(chunk.data for chunk in source.take()) == PAYLOAD
    assert not source.ended
    with pytest.raises(ConfigurationError, match=rf"at byte {len(data)}: .*junk.*; expected a recording"):
        source.take()
    assert source.ended


def test_resuming_beyond_the_end_is_refused(recording, clock):
    with pytest.raises(ConfigurationError, match="found 12 bytes, fewer than the 13 already taken from it"):
        started(recording, clock, 13)
    recording.write_bytes(recording.read_bytes() + b"junk\n")
    with pytest.raises(ConfigurationError, match="junk"):
        started(recording, clock, 13)


def test_a_missing_file_is_refused(tmp_path, clock):
    with pytest.raises(ConfigurationError, match=r"replay file .*nothing: found No such file.*; correct the path"):
        started(tmp_path / "nothing", clock)
    with pytest.raises(ConfigurationError, match="Is a directory"):
        started(tmp_path, clock)


def test_an_empty_file_ends_at_once(tmp_path, clock):
    (tmp_path / "empty").write_bytes(b"")
    assert started(tmp_path / "empty", clock).ended
    (tmp_path / "magic").write_bytes(MAGIC)
    assert started(tmp_path / "magic", clock).ended


def test_stop_ends_it(recording, clock):
    source = started(recording, clock)
    source.stop()
    source.stop()
    assert source.ended
    assert source.take() == []
    assert source.status() == "stopped"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (SerialSource(port="COM3"), "serial COM3"),
        (StandardInput(), "standard input"),
        (ReplaySource(path="a.rec"), "replay of there/a.rec"),
    ],
)
def test_every_spec_has_its_source(spec, name, clock):
    source = make_source(spec, folder=Path("there"), wall_ns=clock.wall_ns, mono_ns=clock.mono_ns)
    assert source.name == name
    assert not source.ended
    assert source.status() == "not started"
