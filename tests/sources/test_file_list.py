"""The list of files: what it keeps over a crash, and how far it may grow."""

import pytest

from edge_runtime.errors import DeviceError
from edge_runtime.sources import file_list
from edge_runtime.sources.file_list import FileEntry, FileList

ENTRIES = [
    FileEntry("a", 3, 1, 3),
    FileEntry("b", 9, 2, 4, "9 bytes"),
    FileEntry("a", 2, 5, 6),
    FileEntry("c", 1, 5, 7),
]


def made(path, entries=ENTRIES):
    one = FileList(path)
    one.load()
    for entry in entries:
        one.add(entry)
    return one


def loaded(path):
    one = FileList(path)
    one.load()
    return one


def test_it_is_read_again_as_it_was(tmp_path):
    first = made(tmp_path / "l")
    assert [one.name for one in first.settle(5)] == ["a", "b"]
    assert first.settle(5) == []
    for one in (first, loaded(tmp_path / "l")):
        assert list(one.known.values()) == [ENTRIES[1], ENTRIES[2], ENTRIES[3]]
        assert (list(one.open), one.settled, one.end) == (ENTRIES[2:], 4, 7)
    assert [one.start for one in ENTRIES] == [0, 3, 4, 6]


def test_a_torn_end_is_cut_off_wherever_it_was_torn(tmp_path):
    path = tmp_path / "l"
    made(path)
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        one = loaded(path)
        complete = sum(end <= cut for end in ends)
        assert one.end == ([0] + [entry.end for entry in ENTRIES])[complete]
        assert path.read_bytes() == whole[: max([0, *(end for end in ends if end <= cut)])]


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b'["a", 1]\n', b'[1, 1, 1, 1, ""]\n', b'["\\u4e00", 1, 1, 1, ""]\n', b"{}\n", b"1.5\n"]
)
def test_what_is_no_entry_ends_it(tmp_path, line):
    path = tmp_path / "l"
    made(path, ENTRIES[:1])
    good = path.read_bytes()
    path.write_bytes(good + line + good)
    assert loaded(path).end == 3
    assert path.read_bytes() == good


def test_one_that_cannot_be_read_is_a_plain_line(tmp_path):
    (tmp_path / "l").mkdir()
    with pytest.raises(
        DeviceError, match=r"list of files .*: found Is a directory; expected a file this user can read"
    ):
        loaded(tmp_path / "l")


def test_it_is_written_anew_before_it_grows_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(file_list, "_SPARE_LINES", 10)
    path = tmp_path / "l"
    one = made(path, [])
    for number in range(1000):
        one.add(FileEntry("log.csv", 1, number, number + 1))
        one.settle(number + 1)
        assert path.stat().st_size < 1000
    again = loaded(path)
    assert (again.settled, again.end, len(again.known), list(again.open)) == (1000, 1000, 1, [])


def test_what_is_gone_is_forgotten_once_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(file_list, "KNOWN_FILES", 2)
    one = made(tmp_path / "l")
    one.settle(6)
    one.forget(set())
    assert set(one.known) == {"a", "b", "c"}, "a mount is away"
    one.forget({"b"})
    assert set(one.known) == {"b", "c"}, "a is gone and settled"
    one.forget({"x"})
    assert set(one.known) == {"b", "c"}, "few enough"


def test_a_list_begun_at_a_position_has_open_what_comes_behind_it(tmp_path):
    one = made(tmp_path / "l")
    one.settle(7)
    one.begin(3)
    assert list(one.open) == [ENTRIES[1], ENTRIES[2], ENTRIES[3]]
    one.begin(100)
    assert (list(one.open), one.end) == ([], 100)
