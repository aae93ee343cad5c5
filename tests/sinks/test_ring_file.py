"""Lines on disk within a bound: heads, torn ends, full disks; the bound itself is held by those who use it."""

import errno
from pathlib import Path

import pytest

from edge_runtime.sinks import ring_file
from edge_runtime.sinks.ring_file import RingFile


def test_each_file_begins_with_the_head_and_a_restart_writes_it_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    ring = RingFile(path, max_bytes=60, head=b"head\n")
    for number in range(9):
        ring.write([b"line %d\n" % number])
    ring.close()
    older, newer = (tmp_path / "a.jsonl.1").read_bytes(), path.read_bytes()
    assert older.startswith(b"head\nline ")
    assert newer.startswith(b"head\nline ")
    assert newer.endswith(b"line 8\n")
    assert len(older) <= 30
    assert len(newer) <= 30
    again = RingFile(path, max_bytes=2000, head=b"head\n")
    again.write([b"more\n"])
    assert path.read_bytes() == newer + b"head\nmore\n"
    assert (ring.written, again.written) == (9, 1)


def test_a_torn_end_is_ended_before_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"head\nwhole\nto")
    RingFile(path, max_bytes=2000, head=b"head\n").write([b"next\n"])
    assert path.read_bytes() == b"head\nwhole\nto\nhead\nnext\n"


def test_a_bound_of_nothing_keeps_nothing(tmp_path: Path) -> None:
    ring = RingFile(tmp_path / "a.jsonl", max_bytes=0)
    ring.write([b"line\n"])
    assert list(tmp_path.iterdir()) == []
    assert (ring.written, ring.lost) == (0, 0)


def test_a_full_disk_is_counted_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    ring = RingFile(path, max_bytes=2000)
    ring.write([b"one\n"])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ring_file, "append_whole", full)
        ring.write([b"two\n", b"three\n"])
    ring.write([b"four\n"])
    assert (ring.written, ring.lost, ring.why) == (2, 2, "No space left on device")
    assert path.read_bytes() == b"one\nfour\n"


def test_a_file_whose_first_line_found_no_room_begins_with_its_head_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = RingFile(tmp_path / "a.jsonl", max_bytes=40, head=b"head\n")
    ring.write([b"a line of 14 B\n"])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ring_file, "append_whole", full)
        ring.write([b"lost\n"])
    ring.write([b"next\n"])
    assert (ring.written, ring.lost) == (2, 1)
    assert (tmp_path / "a.jsonl").read_bytes() == b"head\nnext\n"
