import errno
import json
import os
from pathlib import Path

import pytest

import edge_runtime.sinks.append as append_module
from edge_runtime.errors import ConfigurationError, TemporaryError
from edge_runtime.sinks import jsonl_file, make_sink
from edge_runtime.sinks.jsonl_file import JsonLinesSink
from edge_runtime.spec.sink import JsonLinesFile, StandardOutput

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def sink_of(path: Path, *, sync="never", id_key="id", clock=None) -> JsonLinesSink:
    return JsonLinesSink(path, "answers", sync=sync, id_key=id_key, mono_ns=clock or Clock())


def answers(first: int, last: int) -> list[tuple[str, bytes]]:
    return [(f"id{n}", json.dumps({"id": f"id{n}", "x": n / 7}).encode() + b"\n") for n in range(first, last)]


def text(first: int, last: int) -> bytes:
    return b"".join(line for _, line in answers(first, last))


def test_appends_whole_batches_and_knows_its_position(tmp_path):
    path = tmp_path / "deep" / "a.jsonl"
    sink = sink_of(path)
    assert sink.position() == 0
    assert sink.deliver(answers(0, 3)) == 3
    assert sink.deliver([]) == 0
    assert sink.deliver(answers(3, 4)) == 1
    assert path.read_bytes() == text(0, 4)
    assert sink.position() == len(text(0, 4))
    sink.close()
    sink.close()
    assert sink.position() is None


def test_after_a_kill_at_any_byte_no_answer_is_lost_or_doubled(tmp_path):
    path = tmp_path / "a.jsonl"
    recorded = len(text(0, 2))
    for id_key in ("id", None):
        for cut in range(recorded, len(text(0, 5)) + 1):
            path.write_bytes(text(0, 5)[:cut])
            sink = sink_of(path, id_key=id_key)
            pending = [f"id{n}" for n in range(2, 6)]
            taken = sink.recover(recorded, pending)
            whole = text(0, 5)[recorded:cut].count(b"\n")
            assert taken == set(pending[:whole]), cut
            sink.deliver([answer for answer in answers(2, 6) if answer[0] not in taken])
            assert path.read_bytes() == text(0, 6), cut
            sink.close()


def test_without_a_position_ids_are_looked_for_and_lines_not_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"null\n[1]\nno json\n" + text(0, 3))
    sink = sink_of(path)
    assert sink.recover(None, ["id2", "id3"]) == {"id2"}
    assert sink.recover(None, []) == set()
    sink.close()
    sink = sink_of(path, id_key=None)
    assert sink.recover(None, ["id2", "id3"]) == set()
    assert sink.recover(10_000, ["id2", "id3"]) == set()  # the file was replaced by a shorter one


def test_only_the_tail_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(text(0, 5000))
    sink = sink_of(path)
    read = os.read
    sizes = []
    monkeypatch.setattr(jsonl_file.os, "read", lambda file, size: sizes.append(size) or read(file, size))
    assert sink.recover(len(text(0, 4999)), ["id4998", "id4999"]) == {"id4999"}
    assert sum(sizes) == len(text(4999, 5000))


def test_a_torn_line_longer_than_a_chunk_is_cut(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(text(0, 1) + b'{"x":"' + b"y" * 200_000)
    sink = sink_of(path)
    assert path.read_bytes() == text(0, 1)
    assert sink.status() == "200006 bytes of an unfinished line were cut off."
    sink.close()
    path.write_bytes(b'{"x":"' + b"y" * 200_000)
    sink_of(path).close()
    assert path.read_bytes() == b""


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"first\nmy notes")
    with pytest.raises(ConfigurationError) as refused:
        sink_of(path)
    assert str(refused.value) == (
        f"sink answers: found {path}, whose last line begins with b'my notes'; expected a file of lines that "
        "begin with '{', or none yet; correct the sink's path"
    )
    assert path.read_bytes() == b"first\nmy notes"


def test_a_path_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="Is a directory"):
        sink_of(tmp_path)


def test_two_sinks_on_one_file_are_refused(tmp_path):
    sink = sink_of(tmp_path / "a.jsonl")
    with pytest.raises(TemporaryError, match=f"a lock held by process {os.getpid()}"):
        sink_of(tmp_path / "a.jsonl")
    sink.close()
    sink_of(tmp_path / "a.jsonl").close()


def test_a_full_disk_takes_nothing_leaves_no_torn_line_and_works_again(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    sink = sink_of(path)
    sink.deliver(answers(0, 1))
    write = os.write
    steps = iter([50])

    def failing(file: int, data: bytes) -> int:
        size = next(steps, None)
        if size is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[:size])

    with monkeypatch.context() as full:
        full.setattr(append_module.os, "write", failing)
        assert sink.deliver(answers(1, 4)) == 0
    assert path.read_bytes() == text(0, 1)
    assert sink.status() == f"{path} takes nothing: No space left on device."
    assert sink.deliver(answers(1, 4)) == 3
    assert sink.status() == "It is taking answers."
    assert path.read_bytes() == text(0, 4)


def test_a_sync_that_fails_takes_the_batch_back(tmp_path, monkeypatch):
    def refuse(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "a.jsonl"
    sink = sink_of(path, sync="each")
    with monkeypatch.context() as broken:
        broken.setattr(jsonl_file, "sync_data", refuse)
        assert sink.deliver(answers(0, 1)) == 0
    assert path.read_bytes() == b""
    assert sink.deliver(answers(0, 1)) == 1


@pytest.mark.parametrize(("sync", "expected"), [("each", 4), ("interval", 3), ("never", 0)])
def test_syncs_as_told(tmp_path, monkeypatch, sync, expected):
    calls = []
    monkeypatch.setattr(jsonl_file, "sync_data", calls.append)
    clock = Clock()
    sink = sink_of(tmp_path / "a.jsonl", sync=sync, clock=clock)
    for second in (0, 4, 5, 9):
        clock.now = second * SECOND
        sink.deliver(answers(second, second + 1))
    sink.close()
    assert len(calls) == expected


@pytest.mark.parametrize("how", ["renamed", "removed"])
def test_a_rotated_file_is_begun_anew(tmp_path, how):
    path = tmp_path / "a.jsonl"
    sink = sink_of(path)
    sink.deliver(answers(0, 1))
    path.rename(tmp_path / "a.jsonl.1") if how == "renamed" else path.unlink()
    assert sink.deliver(answers(1, 2)) == 1
    assert path.read_bytes() == text(1, 2)
    assert sink.position() == len(text(1, 2))


def test_a_file_put_in_its_place_that_cannot_be_ours_is_a_reason(tmp_path):
    path = tmp_path / "a.jsonl"
    sink = sink_of(path)
    path.unlink()
    path.write_bytes(b"notes")
    assert sink.deliver(answers(0, 1)) == 0
    assert "whose last line begins with b'notes'" in sink.status()
    path.unlink()
    assert sink.deliver(answers(0, 1)) == 1


def test_make_sink_follows_the_spec(tmp_path):
    assert make_sink(StandardOutput(), tmp_path, mono_ns=Clock()).name == "stdout"
    mapped = JsonLinesFile(path="a.jsonl", map={"t": "/low/value", "sample": "/id"})
    sink = make_sink(mapped, tmp_path, mono_ns=Clock())
    assert sink.name == "jsonl a.jsonl"
    sink.deliver([("i1", b'{"t":1.0,"sample":"i1"}\n')])
    assert sink.recover(0, ["i0", "i1"]) == {"i1"}
    without = make_sink(JsonLinesFile(path="b.jsonl", name="b", map={"t": "/low/value"}), tmp_path, mono_ns=Clock())
    assert without.name == "b"
    without.deliver([("i1", b'{"t":1.0}\n')])
    assert without.recover(0, ["i1", "i2"]) == {"i1"}
    sink.close()
    without.close()


@pytest.mark.parametrize("torn", [b"edge_runtime,str", b"edge_run", b"edge_runtime,stream=frost low=-1.2"])
def test_a_torn_line_of_another_encoding_is_cut_too(tmp_path, torn):
    path = tmp_path / "answers"
    path.write_bytes(b"edge_runtime,stream=a low=1 1\n" + torn)
    spec = JsonLinesFile(path=str(path), encoding="influx")
    make_sink(spec, tmp_path, mono_ns=lambda: 0).close()
    assert path.read_bytes() == b"edge_runtime,stream=a low=1 1\n"
