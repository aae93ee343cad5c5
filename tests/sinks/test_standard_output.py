import fcntl
import json
import os
import subprocess
import sys

import pytest

from edge_runtime.sinks import standard_output
from edge_runtime.sinks.port import SinkClosed
from edge_runtime.sinks.standard_output import StandardOutputSink


def answers(count: int, size: int = 100) -> list[tuple[str, bytes]]:
    return [(f"id{n}", json.dumps({"id": f"id{n}", "x": "y" * size}).encode() + b"\n") for n in range(count)]


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 8192)
    ends = [reader, writer]
    yield ends
    for end in ends:
        os.close(end)


def test_whole_lines_in_order(pipe):
    sink = StandardOutputSink("stdout", pipe[1])
    batch = answers(5)
    assert sink.deliver(batch) == 5
    assert os.read(pipe[0], 65536) == b"".join(line for _, line in batch)
    assert sink.status() == "It is taking answers."
    assert sink.deliver([]) == 0


def test_a_reader_that_stops_holds_answers_back_and_never_the_process(pipe):
    sink = StandardOutputSink("stdout", pipe[1])
    batch = answers(200)
    seen = b""
    first = 0
    stalls = 0
    while first < len(batch):
        taken = sink.deliver(batch[first:])
        first += taken
        if first < len(batch):
            stalls += 1
            assert sink.status() == "Its reader is not reading."
            assert sink.deliver(batch[first:]) == 0
            seen += os.read(pipe[0], 65536)
            assert seen.endswith(b"\n")
    seen += os.read(pipe[0], 65536)
    assert stalls > 1
    assert seen == b"".join(line for _, line in batch)


def test_a_reader_that_has_gone_is_told(pipe):
    sink = StandardOutputSink("stdout", pipe[1])
    os.close(pipe[0])
    pipe[0] = os.open(os.devnull, os.O_RDONLY)
    with pytest.raises(SinkClosed) as closed:
        sink.deliver(answers(1))
    assert str(closed.value).startswith("stdout: found a pipe whose reader has gone; expected")


def test_a_line_longer_than_a_non_blocking_pipe_is_finished_before_the_next(pipe):
    os.set_blocking(pipe[1], False)
    sink = StandardOutputSink("stdout", pipe[1])
    batch = answers(2, size=20_000)
    seen = b""
    first = 0
    for _ in range(20):
        first += sink.deliver(batch[first:])
        os.set_blocking(pipe[0], False)
        try:
            seen += os.read(pipe[0], 65536)
        except BlockingIOError:
            break
    assert first == 2
    assert seen == b"".join(line for _, line in batch)


def test_the_pipe_stays_as_it_was(pipe):
    before = fcntl.fcntl(pipe[1], fcntl.F_GETFL)
    sink = StandardOutputSink("stdout", pipe[1])
    sink.deliver(answers(3))
    sink.close()
    assert fcntl.fcntl(pipe[1], fcntl.F_GETFL) == before


def test_a_file_gets_a_batch_in_one_write(tmp_path, monkeypatch):
    with (tmp_path / "out").open("wb") as out:
        sink = StandardOutputSink("stdout", out.fileno())
        write = os.write
        calls = []
        monkeypatch.setattr(standard_output.os, "write", lambda fd, data: calls.append(len(data)) or write(fd, data))
        assert sink.deliver(answers(500)) == 500
    assert len(calls) == 1
    assert (tmp_path / "out").read_bytes() == b"".join(line for _, line in answers(500))


def test_a_full_disk_is_a_reason():
    with open("/dev/full", "wb") as full:  # noqa: PTH123 -- a device, not a path
        sink = StandardOutputSink("stdout", full.fileno())
        assert sink.deliver(answers(1)) == 0
    assert sink.status() == "It takes nothing: No space left on device."


def test_nothing_can_be_read_back(pipe):
    sink = StandardOutputSink("stdout", pipe[1])
    assert sink.position() is None
    assert sink.recover(None, ["id0"]) == set()


def test_nothing_stays_in_a_buffer():
    code = (
        "import os\nfrom edge_runtime.sinks.standard_output import StandardOutputSink\n"
        "StandardOutputSink('stdout').deliver([('a', b'{}\\n')])\nos._exit(0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"{}\n"
