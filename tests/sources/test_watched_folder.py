"""A watched folder: which files are read, when, in which order, and what becomes of them; the clock is turned by hand."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError
from edge_runtime.sources import watched_folder
from edge_runtime.sources.file_list import FileList
from edge_runtime.sources.watched_folder import WatchedFolder
from edge_runtime.spec.source import FolderSource
from tests.rig.clock import HandClock


class Watch:
    """A source over ``folder``, looked at second by second."""

    def __init__(self, folder: Path, clock: HandClock | None = None, position: int = 0, **keys: object) -> None:
        self.folder = folder / "in"
        self.folder.mkdir(exist_ok=True)
        self.clock = clock or HandClock()
        spec = FolderSource.model_validate({"path": "in"} | keys)
        self.list = FileList(folder / "line.files")
        self.source = WatchedFolder(
            spec, self.folder, self.list, wall_ns=self.clock.wall_ns, mono_ns=self.clock.mono_ns
        )
        self.source.start(threading.Event(), position)

    def write(self, name: str, data: bytes = b"1,2\n", at: int = 1) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        os.utime(path, ns=(at, at))
        return path

    def take(self, seconds: float = 0.0, max_bytes: int = 65_536):
        """What comes within so many seconds, a look each."""
        chunks = self.source.take(max_bytes)
        while seconds > 0:
            self.clock.advance(1)
            seconds -= 1
            chunks += self.source.take(max_bytes)
        return chunks

    def given(self, seconds: float = 5.0) -> list[bytes]:
        return [one.data for one in self.take(seconds)]


def test_a_file_is_given_once_it_has_stood_still(tmp_path):
    watch = Watch(tmp_path)
    path = watch.write("a.csv", b"1")
    assert watch.given(1) == []
    path.write_bytes(b"1,2\n3")
    assert watch.given(2) == []
    (chunk,) = watch.take(1)
    assert (chunk.data, chunk.position, chunk.anew, chunk.ends, chunk.dropped) == (b"1,2\n3", 5, True, True, "")
    assert watch.source.status() == "1 file read"
    assert watch.given() == []
    assert path.exists()


def test_a_look_is_made_no_oftener_than_asked(tmp_path, monkeypatch):
    watch = Watch(tmp_path, poll_s=10, settle_s=0)
    assert watch.given(0) == []
    watch.write("a.csv")
    monkeypatch.setattr(os, "scandir", lambda _: pytest.fail("too soon"))
    assert watch.given(9) == []
    assert watch.source.due_ns() == 10_000_000_000
    monkeypatch.undo()
    assert watch.given(1) == [b"1,2\n"]


def test_a_look_that_takes_long_makes_the_next_one_later(tmp_path, monkeypatch):
    watch = Watch(tmp_path, settle_s=0)
    real = os.scandir

    def slow(path):
        watch.clock.advance(2)
        return real(path)

    monkeypatch.setattr(os, "scandir", slow)
    watch.take()
    assert watch.source.due_ns() == watch.clock.mono_ns() + 100_000_000_000


def test_renamed_into_place_is_complete_at_once(tmp_path):
    watch = Watch(tmp_path, settle_s=0, pattern="*.csv")
    path = watch.write("a.csv.part")
    watch.write(".hidden.csv")
    (watch.folder / "sub.csv").mkdir()
    assert watch.given() == []
    path.rename(watch.folder / "a.csv")
    assert watch.given(1) == [b"1,2\n"]


@pytest.mark.parametrize(
    ("order", "expected"), [("name", [b"x\n", b"y\n", b"z\n"]), ("time", [b"y\n", b"z\n", b"x\n"])]
)
def test_files_follow_each_other_in_order(tmp_path, order, expected):
    watch = Watch(tmp_path, order=order, settle_s=0)
    for name, data, at in (("b", b"y\n", 1), ("c", b"z\n", 2), ("a", b"x\n", 3)):
        watch.write(name, data, at)
    assert watch.given(1) == expected


def test_one_that_grows_holds_back_those_behind_it_and_an_empty_one_does_not(tmp_path):
    watch = Watch(tmp_path)
    watch.write("a", b"")
    watch.write("c")
    for size in range(1, 6):
        watch.write("b", b"x" * size)
        assert watch.given(1) == []
    assert watch.source.status() == "0 files read; waits for 'b' to be complete"
    assert watch.given(3) == [b"xxxxx", b"1,2\n"]
    watch.write("a", b"late\n")
    assert watch.given(4) == [b"late\n"]


def test_a_file_that_is_written_anew_is_another_file(tmp_path):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a", b"1\n", 1)
    assert watch.given(1) == [b"1\n"]
    watch.write("a", b"2\n", 2)
    assert watch.given(1) == [b"2\n"]


def test_one_that_grew_while_it_was_read_waits_and_holds_the_others_back(tmp_path, monkeypatch):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a")
    watch.write("b", b"5,6\n")
    real = watched_folder.read_named

    def read(folder, name, *, max_bytes):
        data = real(folder, name, max_bytes=max_bytes)
        if name == "a":
            watch.write("a", b"1,2\n3,4\n", 2)
        return data

    monkeypatch.setattr(watched_folder, "read_named", read)
    assert watch.given(0) == []
    monkeypatch.undo()
    assert watch.given(1) == [b"1,2\n3,4\n", b"5,6\n"]


def test_locked_by_its_writer_is_tried_again(tmp_path, monkeypatch):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a")
    watch.write("b", b"5,6\n")
    real = os.open

    def locked(path, *words, **keys):
        if path == "a":
            raise PermissionError(13, "Permission denied")
        return real(path, *words, **keys)

    monkeypatch.setattr(os, "open", locked)
    assert watch.given(1) == [b"5,6\n"]
    assert watch.source.status() == "1 file read; waits for 'a': Permission denied"
    monkeypatch.undo()
    monkeypatch.setattr(os, "supports_dir_fd", os.supports_dir_fd)
    assert watch.given(1) == [b"1,2\n"]


@pytest.mark.parametrize("after", ["keep", "move", "delete"])
def test_what_is_no_input_is_put_aside_with_its_reason(tmp_path, after):
    watch = Watch(tmp_path, settle_s=0, after=after, max_file_bytes=8)
    watch.write("a", b"123456789")
    (watch.folder / "b").symlink_to("/etc/hostname")
    os.mkfifo(watch.folder / "c")
    watch.write("d")
    chunks = watch.take(1)
    assert [(one.dropped, one.lost_before, one.position) for one in chunks[:-1]] == [
        ("bad_file", 1, 1), ("bad_file", 1, 2),
    ]  # fmt: skip
    assert chunks[-1].data == b"1,2\n"
    assert "last refused: 'b': a symbolic link" in watch.source.status()
    watch.source.acknowledge(chunks[-1].position)
    if after == "keep":
        assert {one.name for one in watch.folder.iterdir()} == {"a", "b", "c", "d"}
    else:
        assert {one.name for one in (watch.folder / "refused").iterdir()} == {
            "a", "a.reason.txt", "b", "b.reason.txt",
        }  # fmt: skip
        assert (watch.folder / "refused/a.reason.txt").read_text() == "9 bytes; expected at most 8\n"
        assert (watch.folder / "done/d").exists() == (after == "move")
    assert watch.given() == []


def test_nothing_is_taken_away_before_it_is_durable(tmp_path):
    watch = Watch(tmp_path, settle_s=0, after="move")
    watch.write("a")
    watch.write("b", b"3\n")
    assert watch.given(1) == [b"1,2\n", b"3\n"]
    watch.source.acknowledge(3)
    assert (watch.folder / "a").exists()
    watch.source.acknowledge(4)
    assert not (watch.folder / "a").exists()
    assert (watch.folder / "b").exists()
    watch.write("a", b"4\n", 9)
    watch.source.acknowledge(6)
    assert watch.given(1) == [b"4\n"]
    watch.source.acknowledge(8)
    assert sorted(one.name for one in (watch.folder / "done").iterdir()) == ["a", "a.9", "b"]


def test_a_file_written_anew_meanwhile_is_left_where_it_is(tmp_path):
    watch = Watch(tmp_path, settle_s=0, after="delete")
    watch.write("a")
    assert watch.given(1) == [b"1,2\n"]
    watch.write("a", b"other\n", 2)
    watch.source.acknowledge(4)
    assert watch.given(1) == [b"other\n"]


def test_one_that_cannot_be_taken_away_is_told_and_not_read_again(tmp_path):
    watch = Watch(tmp_path, settle_s=0, after="move", pattern="a")
    (watch.folder / "done").write_text("in the way")
    watch.write("a")
    given = watch.given(1)
    watch.source.acknowledge(100)
    assert given.count(b"1,2\n") == 1
    assert "'a' cannot be taken away (File exists) and is not read again" in watch.source.status()
    assert watch.given() == []


def test_a_large_file_is_given_in_pieces_and_resumed_in_any_of_them(tmp_path):
    data = bytes(range(256)) * 400
    first = Watch(tmp_path, settle_s=0)
    first.write("a", data)
    first.write("b", b"next\n")
    chunks = []
    while piece := first.source.take(1000):
        assert all(len(one.data) <= 1000 for one in piece)
        chunks += piece
    assert b"".join(one.data for one in chunks) == data + b"next\n"
    assert [one.ends for one in chunks].count(True) == 2
    for chunk in (chunks[0], chunks[50], chunks[-3], chunks[-2]):
        again = Watch(tmp_path, position=chunk.position, settle_s=0)
        rest = []
        while piece := again.source.take(5000):
            rest += piece
        assert b"".join(one.data for one in rest) == (data + b"next\n")[chunk.position :]
        assert rest[0].anew == (chunk.position == len(data))
    done = Watch(tmp_path, position=len(data) + 5, settle_s=0)
    assert done.given() == []


def test_a_restart_gives_again_what_was_not_journaled_and_nothing_twice(tmp_path):
    first = Watch(tmp_path, settle_s=0, after="move")
    for name in "abc":
        first.write(name, name.encode() * 3)
    assert first.given(1) == [b"aaa", b"bbb", b"ccc"]
    first.source.acknowledge(3)
    second = Watch(tmp_path, position=3, settle_s=0, after="move")
    second.write("0", b"early")
    assert second.given(1) == [b"bbb", b"ccc", b"early"]


def test_a_kill_before_the_file_was_taken_away_is_made_good(tmp_path):
    first = Watch(tmp_path, settle_s=0, after="delete")
    first.write("a")
    assert first.given(1) == [b"1,2\n"]
    second = Watch(tmp_path, position=4, settle_s=0, after="delete")
    assert not (second.folder / "a").exists()
    assert second.given() == []


def test_without_a_position_what_was_settled_is_not_read_again(tmp_path):
    first = Watch(tmp_path, settle_s=0)
    first.write("a")
    first.write("b", b"3\n")
    first.given(1)
    first.source.acknowledge(5)
    second = Watch(tmp_path, settle_s=0)
    assert second.given(1) == [b"3\n"]


def test_an_older_journal_than_the_list_has_its_files_again(tmp_path):
    """A power cut took the journal's last seconds; the list, on the disk for each file, knows them."""
    first = Watch(tmp_path, settle_s=0)
    first.write("a")
    first.write("b", b"3\n")
    first.given(1)
    first.source.acknowledge(6)
    second = Watch(tmp_path, position=4, settle_s=0, after="delete")
    assert second.given(1) == [b"3\n"]
    assert not (second.folder / "a").exists()


def test_a_file_that_went_before_it_was_read_to_its_end_is_counted(tmp_path):
    first = Watch(tmp_path, settle_s=0)
    path = first.write("a")
    first.write("b", b"3\n")
    first.given(1)
    path.unlink()
    (again, rest) = Watch(tmp_path, position=2, settle_s=0).take(1)
    assert (again.dropped, again.lost_before, again.position) == ("file_gone", 1, 4)
    assert rest.data == b"3\n"


def test_a_folder_that_is_not_there_is_waited_for(tmp_path):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a")
    watch.folder.rename(tmp_path / "away")
    assert watch.given(1) == []
    assert watch.source.status() == "0 files read; waits: No such file or directory"
    (tmp_path / "away").rename(watch.folder)
    assert watch.given(1) == [b"1,2\n"]
    assert watch.source.status() == "1 file read"


def test_a_share_that_is_away_for_a_while_is_not_read_anew(tmp_path):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a")
    watch.given(1)
    watch.folder.rename(tmp_path / "away")
    watch.folder.mkdir()
    assert watch.given(3) == []
    watch.folder.rmdir()
    (tmp_path / "away").rename(watch.folder)
    assert watch.given() == []


def test_too_many_files_are_told_and_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(watched_folder, "MAX_FILES", 3)
    watch = Watch(tmp_path, settle_s=0, pattern="*.csv")
    for number in range(4):
        watch.write(f"{number}.csv")
        watch.write(f"{number}.txt")
    assert watch.given() == []
    assert "waits: more than 3 files in it" in watch.source.status()
    (watch.folder / "0.csv").unlink()
    assert len(watch.given()) == 3


def test_nothing_is_given_that_does_not_stand_in_the_list(tmp_path):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a")
    (tmp_path / "line.files").mkdir()
    assert watch.given(1) == []
    assert "its list of files cannot be written (Is a directory)" in watch.source.status()
    (tmp_path / "line.files").rmdir()
    assert watch.given(1) == [b"1,2\n"]


def test_a_whole_file_is_one_chunk(tmp_path):
    watch = Watch(tmp_path, settle_s=0, whole=True)
    watch.write("a", bytes(200_000))
    watch.write("b")
    assert [len(one) for one in watch.given(1)] == [200_000, 4]


def test_a_name_that_is_no_text_is_a_name_like_another(tmp_path):
    watch = Watch(tmp_path, settle_s=0, after="move")
    name = os.fsdecode(b"\xff\n.csv")
    watch.write(name)
    assert watch.given(1) == [b"1,2\n"]
    assert Watch(tmp_path, position=4, settle_s=0).given() == []
    watch.write(name, b"")
    watch.write(name, b"xx", 5)
    watch.list._path.unlink()
    watch.list._path.mkdir()
    watch.source.status().encode()


def test_after_a_stop_nothing_comes(tmp_path):
    watch = Watch(tmp_path, settle_s=0)
    watch.write("a")
    watch.source.stop()
    assert watch.given() == []
    assert not watch.source.waiting


def test_a_system_that_cannot_open_safely_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", frozenset())
    with pytest.raises(ConfigurationError, match="expected Linux or macOS; let a program pipe the files in"):
        Watch(tmp_path)


class Line:
    """What a line makes of a folder: at a kill it falls back to what its journal had, which is the position."""

    def __init__(self, folder: Path, after: str) -> None:
        self.folder, self.after, self.clock = folder, after, HandClock()
        self.written: list[bytes] = []
        self.taken: list[tuple[int, bytes]] = []
        self.journaled = 0
        self.kill()

    def kill(self) -> None:
        self.taken = [one for one in self.taken if one[0] <= self.journaled]
        self.watch = Watch(self.folder, self.clock, position=self.journaled, settle_s=0, after=self.after)

    def tear(self) -> None:
        path = self.folder / "line.files"
        if path.exists():
            path.write_bytes(path.read_bytes() + b'["f1", 3')
        self.kill()

    def look(self) -> None:
        self.clock.advance(1)

    def take(self, max_bytes: int = 65_536) -> None:
        for one in self.watch.source.take(max_bytes):
            assert not one.dropped
            self.taken.append((one.position, one.data))

    def journal(self) -> None:
        self.journaled = self.taken[-1][0] if self.taken else self.journaled

    def commit(self) -> None:
        self.journal()
        self.watch.source.acknowledge(self.journaled)

    def settle(self) -> None:
        self.look()
        for _ in range(20):
            self.take()
        self.commit()

    def write(self, number: int, size: int) -> None:
        if (self.watch.folder / f"f{number}").exists():
            self.settle()  # one that is not read yet must not be replaced: that loses it, and is told
        data = f"{len(self.written):03}".encode() + b"x" * size
        self.watch.write(f"f{number}", data, len(self.written) + 1)
        self.written.append(data)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 5), st.integers(1, 40)),
            st.tuples(st.just("take"), st.integers(1, 60)),
            st.tuples(st.sampled_from(["commit", "journal", "kill", "tear", "look"])),
        ),
        max_size=40,
    ),
    st.sampled_from(["keep", "move", "delete"]),
)
def test_whatever_is_killed_when_every_file_is_read_once(tmp_path_factory, steps, after):
    line = Line(tmp_path_factory.mktemp("watch"), after)
    for step, *numbers in steps:
        getattr(line, step)(*numbers)
    line.settle()
    text = b"".join(data for _, data in line.taken)
    assert [text.count(one) for one in line.written] == [1] * len(line.written)
    assert len(text) == sum(map(len, line.written))
