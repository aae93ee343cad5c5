import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

import edge_runtime.sinks.append as append_module
import edge_runtime.sinks.journal as journal_module
from edge_runtime.errors import DeviceError, TemporaryError
from edge_runtime.sinks.append import open_for_append
from edge_runtime.sinks.journal import Journal, JournalFull

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 10 * SECOND

    def __call__(self) -> int:
        return self.now


def opened(path: Path, identity: str = "frost@1", *, sync_s: float = 3600.0, clock=None, max_bytes: int = 1 << 20):
    return Journal.open(path, identity=identity, sync_s=sync_s, mono_ns=clock or Clock(), max_bytes=max_bytes)


def filled(path: Path, records: list[dict]) -> bytes:
    journal = opened(path)
    for record in records:
        journal.commit(record)
    journal.close()
    return path.read_bytes()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    monkeypatch.setattr(journal_module, "sync_data", calls.append)
    return calls


def test_a_line_is_checksum_blank_compact_json_and_the_first_is_the_header(tmp_path):
    lines = filled(tmp_path / "a.journal", [{"n": 1, "x": [0.1, -0.0, 5e-324]}]).splitlines()
    assert [from_json(line[9:]) for line in lines] == [
        {"journal": 1, "identity": "frost@1"},
        {"n": 1, "x": [0.1, -0.0, 5e-324]},
    ]
    assert all(line[:9] == f"{crc32(line[9:]):08x} ".encode() for line in lines)
    assert lines[1][9:] == b'{"n":1,"x":[0.1,-0.0,5e-324]}'


def test_recovers_in_order_and_goes_on(tmp_path):
    path = tmp_path / "deep" / "a.journal"
    filled(path, [{"n": 1}, {"n": 2}])
    journal = opened(path)
    assert journal.recovered == [{"n": 1}, {"n": 2}]
    assert journal.notes == []
    journal.commit({"n": 3})
    journal.close()
    assert opened(path).recovered == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_cut_at_every_byte_it_recovers_exactly_the_records_whole_before(tmp_path):
    whole = filled(tmp_path / "a.journal", [{"n": n, "values": [n / 7] * n} for n in range(6)])
    path = tmp_path / "cut.journal"
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        journal = opened(path)
        complete = sum(end <= cut for end in ends)
        assert [record["n"] for record in journal.recovered] == list(range(max(0, complete - 1))), cut
        assert bool(journal.notes) == (cut not in (0, *ends)), cut
        journal.commit({"n": "next"})
        journal.close()
        again = opened(path)
        assert [record["n"] for record in again.recovered] == [*range(max(0, complete - 1)), "next"], cut
        assert again.notes == []
        again.close()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_byte_changed_drops_that_record_and_what_follows(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("journal")
    records = data.draw(
        st.lists(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False) | st.text(), max_size=3), max_size=5)
    )
    whole = filled(folder / "a.journal", records)
    place = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    (folder / "a.journal").write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
    journal = opened(folder / "a.journal")
    before = whole[:place].count(b"\n")
    assert journal.recovered == records[: max(0, before - 1)]
    assert len(journal.notes) == 1
    journal.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), st.floats() | st.integers() | st.none(), max_size=4), max_size=8))
def test_every_record_reads_back_as_it_was(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("journal") / "a.journal"
    filled(path, records)
    assert repr(opened(path).recovered) == repr(records)  # repr: NaN equals NaN, -0.0 is not 0.0


def test_damage_in_the_middle_is_said(tmp_path):
    path = tmp_path / "a.journal"
    whole = bytearray(filled(path, [{"n": n} for n in range(5)]))
    second = whole.index(b'{"n":2}')
    whole[second + 5] ^= 1
    path.write_bytes(whole)
    journal = opened(path)
    assert journal.recovered == [{"n": 0}, {"n": 1}]
    said = f"a.journal is damaged at byte {second - 9}: that record and everything after it, 51 bytes, is dropped; "
    assert journal.notes == [said + "the 2 before it are whole."]
    assert path.stat().st_size == second - 9


def test_a_torn_tail_is_said(tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(filled(path, [{"n": 0}, {"n": 1}])[:-3])
    assert opened(path).notes == [
        "The last 14 bytes of a.journal were an unfinished record and are cut off; the 1 before it are whole."
    ]


def test_another_identity_is_put_aside_once(tmp_path):
    path = tmp_path / "a.journal"
    filled(path, [{"n": 0}])
    for identity, before in (("frost@2", "frost@1"), ("frost@3", "frost@2")):
        journal = opened(path, identity)
        assert journal.recovered == []
        [note] = journal.notes
        assert note.startswith("a.journal is of another bundle or binding: one of them was changed since, so")
        assert note.endswith("a new one begun: windows, hysteresis, held values and counts begin anew.")
        assert before.encode() in (tmp_path / "a.journal.other").read_bytes()
        journal.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.journal", "a.journal.lock", "a.journal.other"]
    assert b"frost@2" in (tmp_path / "a.journal.other").read_bytes()


def test_a_file_of_something_else_is_put_aside(tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(b"precious\nnotes\n")
    assert "has no readable header" in opened(path).notes[0]
    assert (tmp_path / "a.journal.other").read_bytes() == b"precious\nnotes\n"


def test_a_second_opener_is_refused_naming_the_holder(tmp_path):
    journal = opened(tmp_path / "a.journal")
    with pytest.raises(TemporaryError) as refused:
        opened(tmp_path / "a.journal")
    assert f"found a lock held by process {os.getpid()};" in str(refused.value)
    journal.close()
    opened(tmp_path / "a.journal").close()


def test_a_folder_that_cannot_be_is_the_devices_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match=r"found (File exists|Not a directory)"):
        opened(tmp_path / "file" / "a.journal")


def test_a_short_write_is_finished(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    journal = opened(path)
    write = os.write
    monkeypatch.setattr(append_module.os, "write", lambda file, data: write(file, bytes(data)[:7]))
    journal.commit({"n": "a longer record"})
    journal.close()
    assert opened(path).recovered == [{"n": "a longer record"}]


@pytest.fixture
def disk_full_after(monkeypatch: pytest.MonkeyPatch):
    """The next write takes so many bytes, the one after it fails; later ones work."""
    write = os.write

    def arm(taken: int) -> None:
        steps = iter([taken, None])

        def failing(file: int, data: bytes) -> int:
            step = next(steps, -1)
            if step is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, bytes(data) if step < 0 else bytes(data)[:step])

        monkeypatch.setattr(append_module.os, "write", failing)

    return arm


def test_a_full_disk_leaves_the_log_as_it_was_and_later_commits_work(tmp_path, disk_full_after):
    path = tmp_path / "a.journal"
    journal = opened(path)
    journal.commit({"n": 0})
    before = path.read_bytes()
    disk_full_after(5)
    with pytest.raises(JournalFull) as full:
        journal.commit({"n": 1})
    assert str(full.value) == (
        f"{path}: found No space left on device; expected room for the line's state; free the disk; the line goes on "
        "from memory and tries again with the next sample"
    )
    assert path.read_bytes() == before
    assert journal.size_bytes == len(before)
    journal.commit({"n": 2})
    journal.close()
    assert opened(path).recovered == [{"n": 0}, {"n": 2}]


def test_half_a_record_that_could_not_be_cut_is_cut_by_the_next_commit(tmp_path, disk_full_after, monkeypatch):
    path = tmp_path / "a.journal"
    journal = opened(path)
    disk_full_after(5)

    def refuse(_file: int, _size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", refuse)
        with pytest.raises(JournalFull):
            journal.commit({"n": 1})
    assert path.stat().st_size == journal.size_bytes + 5
    journal.commit({"n": 2})
    journal.close()
    assert opened(path).recovered == [{"n": 2}]


def test_a_sync_that_fails_takes_the_record_back_and_asks_for_a_new_log(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    journal = opened(path, sync_s=0)

    def refuse(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(journal_module, "sync_data", refuse)
        with pytest.raises(JournalFull, match="Input/output error"):
            journal.commit({"n": 1})
    assert journal.wants_compaction
    journal.compact({"n": 1})
    assert not journal.wants_compaction
    journal.close()
    assert opened(path).recovered == [{"snapshot": {"n": 1}}]


def test_syncs_at_most_every_sync_s_and_says_when_one_is_owed(tmp_path, syncs):
    clock = Clock()
    journal = opened(tmp_path / "a.journal", sync_s=5.0, clock=clock)
    assert journal.due_ns() is None
    start = clock.now
    for step in range(5):
        clock.now = start + step * SECOND
        journal.commit({"n": step})
        assert syncs == []
        assert journal.due_ns() == start + 5 * SECOND
    clock.now = start + 5 * SECOND
    journal.sync()
    assert len(syncs) == 1
    assert journal.due_ns() is None
    journal.sync()
    assert len(syncs) == 1
    clock.now += 3600 * SECOND
    journal.commit({"n": 6})  # the last sync is long ago: no wait
    assert len(syncs) == 2
    assert journal.due_ns() is None


def test_sync_s_0_syncs_each_commit(tmp_path, syncs):
    journal = opened(tmp_path / "a.journal", sync_s=0)
    for n in range(3):
        journal.commit({"n": n})
    assert len(syncs) == 3


def test_closing_syncs_what_is_owed(tmp_path, syncs):
    journal = opened(tmp_path / "a.journal")
    journal.commit({"n": 0})
    journal.close()
    journal.close()
    assert len(syncs) == 1


def test_compaction_puts_a_snapshot_first_and_goes_on(tmp_path):
    path = tmp_path / "a.journal"
    journal = opened(path, max_bytes=2000)
    n = 0
    while not journal.wants_compaction:
        journal.commit({"n": n})
        n += 1
    assert journal.size_bytes > 2000
    journal.compact({"window": [1.5] * 200})  # a snapshot of its own weight
    assert not journal.wants_compaction
    journal.commit({"n": n})
    assert path.stat().st_size == journal.size_bytes
    while not journal.wants_compaction:
        journal.commit({"n": n})
    assert journal.size_bytes > 4 * 800
    journal.close()
    recovered = opened(path).recovered
    assert recovered[:2] == [{"snapshot": {"window": [1.5] * 200}}, {"n": n}]


def test_a_compaction_without_room_leaves_the_old_log_and_rests_a_minute(tmp_path, disk_full_after):
    clock = Clock()
    path = tmp_path / "a.journal"
    journal = opened(path, max_bytes=10, clock=clock)
    journal.commit({"n": 0})
    assert journal.wants_compaction
    disk_full_after(3)
    with pytest.raises(JournalFull):
        journal.compact({"big": 1})
    assert not (tmp_path / "a.journal.new").exists()
    assert not journal.wants_compaction
    clock.now += 60 * SECOND
    assert journal.wants_compaction
    journal.commit({"n": 1})
    journal.close()
    assert opened(path).recovered == [{"n": 0}, {"n": 1}]


def test_overwriting_leaves_the_snapshot_alone_and_goes_on(tmp_path):
    path = tmp_path / "a.journal"
    journal = opened(path)
    journal.commit({"n": 0})
    journal.overwrite({"n": 1})
    journal.commit({"n": 2})
    assert journal.size_bytes == path.stat().st_size
    journal.close()
    again = opened(path)
    assert (again.recovered, again.notes) == ([{"snapshot": {"n": 1}}, {"n": 2}], [])


def test_overwriting_without_room_leaves_a_log_as_new_that_later_commits_go_on_with(tmp_path, disk_full_after):
    path = tmp_path / "a.journal"
    journal = opened(path)
    journal.commit({"n": 0})
    disk_full_after(3)
    with pytest.raises(JournalFull, match="until then a restart begins the line anew"):
        journal.overwrite({"n": 1})
    assert journal.size_bytes == path.stat().st_size
    journal.commit({"n": 2})
    journal.close()
    again = opened(path)
    assert (again.recovered, again.notes) == ([{"n": 2}], [])


def test_overwriting_what_cannot_be_cut_says_that_it_is_still_there(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    journal = opened(path)
    journal.commit({"n": 0})

    def refuse(_file: int, _size: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", refuse)
        with pytest.raises(JournalFull, match="until then a restart goes on with what was to be gone"):
            journal.overwrite({"n": 1})
    journal.close()
    assert opened(path).recovered == [{"n": 0}]


def test_a_compaction_killed_before_its_rename_changes_nothing(tmp_path):
    path = tmp_path / "a.journal"
    filled(path, [{"n": 0}])
    (tmp_path / "a.journal.new").write_bytes(b"half a snapsh")
    journal = opened(path)
    assert journal.recovered == [{"n": 0}]
    assert not (tmp_path / "a.journal.new").exists()
    journal.compact({"n": 0})
    journal.close()
    assert opened(path).recovered == [{"snapshot": {"n": 0}}]


_CHILD = """
import sys, time
from pathlib import Path
from edge_runtime.sinks.journal import Journal
journal = Journal.open(Path(sys.argv[1]), identity="i", sync_s=0.01, mono_ns=time.monotonic_ns, max_bytes=20_000)
last = journal.recovered[-1] if journal.recovered else {"n": -1}
n = last.get("snapshot", last)["n"] + 1
while True:
    journal.commit({"n": n, "values": [n / 3] * 20})
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
    if journal.wants_compaction:
        journal.compact({"n": n})
    n += 1
"""


def test_a_killed_process_loses_nothing_it_said_was_committed(tmp_path):
    path = tmp_path / "a.journal"
    for lines in (1, 40, 97, 150, 333):
        with subprocess.Popen([sys.executable, "-c", _CHILD, str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(lines):
                said = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            said = int((child.stdout.read().split() or [said])[-1])
        journal = opened(path, "i")
        numbers = [record.get("snapshot", record)["n"] for record in journal.recovered]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert numbers[-1] in (said, said + 1)
        journal.close()


def test_a_fifo_in_the_journal_s_place_is_refused_and_never_waited_for(tmp_path):
    path = tmp_path / "frost.journal"
    os.mkfifo(path)
    with pytest.raises(DeviceError, match="a fifo"):
        opened(path)
    with pytest.raises(OSError, match="a fifo"):
        open_for_append(path)
