"""The log of the store: a line cut off, changed or taken out is found, also over a rotation and after a kill."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.bundle import store_log
from edge_runtime.bundle.store_log import HEAD_NAME, LOG_NAME, OLD_NAME, append, events, verify
from edge_runtime.errors import ConfigurationError, DeviceError

NOW = "2026-12-01T08:00:00Z"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for number in range(1, 7):
        append(tmp_path, "activated", NOW, digest=f"{number}" * 64)
    assert verify(tmp_path) == []
    return tmp_path


def _lines(folder: Path) -> list[bytes]:
    return (folder / LOG_NAME).read_bytes().splitlines(keepends=True)


def _put(folder: Path, lines: list[bytes]) -> None:
    (folder / LOG_NAME).write_bytes(b"".join(lines))


def test_each_line_has_the_hash_of_the_one_before(log: Path) -> None:
    found = list(events(log))
    assert [one.number for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one.fields["prev"] for one in found[1:]] == [one.hash for one in found[:-1]]


@pytest.mark.parametrize("at", range(6))
def test_a_line_that_was_changed_is_found(log: Path, at: int) -> None:
    lines = _lines(log)
    lines[at] = lines[at].replace(b'"activated"', b'"confirmed"')
    _put(log, lines)
    assert f"number {at + 1}" in verify(log)[0]
    append(log, "later", NOW)
    assert verify(log), "what comes later does not heal it"


@pytest.mark.parametrize("at", range(6))
def test_a_line_that_was_taken_out_is_found(log: Path, at: int) -> None:
    lines = _lines(log)
    del lines[at]
    _put(log, lines)
    assert len(verify(log)) == 1


def test_lines_cut_off_at_the_end_are_found_and_counted(log: Path) -> None:
    _put(log, _lines(log)[:2])
    assert verify(log) == ["the log ends with number 2, and 6 was written: 4 lines were cut off"]
    _put(log, [])
    assert verify(log) == ["the log ends with number 0, and 6 was written: 6 lines were cut off"]
    (log / LOG_NAME).unlink()
    assert verify(log) == ["the log ends with number 0, and 6 was written: 6 lines were cut off"]


def test_lines_swapped_doubled_or_of_no_json_are_found(log: Path) -> None:
    lines = _lines(log)
    for wrong in (
        [lines[0], lines[2], lines[1], *lines[3:]],
        [lines[0], *lines],
        [*lines[:3], b"not json\n", *lines[3:]],
        [*lines[:3], b"[]\n", *lines[3:]],
        [*lines, lines[-1]],
    ):
        _put(log, wrong)
        assert verify(log)


def test_a_head_that_was_changed_or_removed_is_found(log: Path) -> None:
    head = json.loads((log / HEAD_NAME).read_text())
    for wrong in ({"n": 6, "hash": "0" * 64}, {"n": 3, "hash": head["hash"]}, {}, [], {"n": "x", "hash": ""}):
        (log / HEAD_NAME).write_text(json.dumps(wrong))
        assert len(verify(log)) == 1
    (log / HEAD_NAME).unlink()
    assert "is missing" in verify(log)[0]


def test_an_event_whose_head_a_kill_prevented_is_no_fault(log: Path) -> None:
    before = (log / HEAD_NAME).read_bytes()
    append(log, "later", NOW)
    (log / HEAD_NAME).write_bytes(before)
    assert verify(log) == []
    append(log, "still later", NOW)
    assert verify(log) == []
    (log / HEAD_NAME).write_bytes(before)
    assert verify(log) == ["the log ends with number 8, and 6 was the last to be written"]


def test_half_a_line_of_a_killed_process_is_cut_off_before_the_next(log: Path) -> None:
    with (log / LOG_NAME).open("ab") as stream:
        stream.write(b'{"n":7,"time":"20')
    assert verify(log) == []
    append(log, "later", NOW)
    assert verify(log) == []
    assert [one.number for one in events(log)] == [1, 2, 3, 4, 5, 6, 7]


def test_the_chain_goes_on_over_a_rotation_and_two_files_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_log, "MAX_BYTES", 1000)
    for number in range(40):
        append(tmp_path, "activated", NOW, digest=f"{number:064x}")
        assert verify(tmp_path) == []
    numbers = [one.number for one in events(tmp_path)]
    assert numbers == list(range(numbers[0], 41))
    assert numbers[0] > 1
    assert {one.name for one in tmp_path.iterdir()} == {LOG_NAME, OLD_NAME, HEAD_NAME}
    assert all((tmp_path / name).stat().st_size <= 1000 for name in (LOG_NAME, OLD_NAME))
    (tmp_path / OLD_NAME).rename(tmp_path / "aside")
    assert "are missing" in verify(tmp_path)[0]
    (tmp_path / "aside").rename(tmp_path / OLD_NAME)
    (tmp_path / LOG_NAME).rename(tmp_path / OLD_NAME)  # killed between the rotation and the first line of the new file
    append(tmp_path, "later", NOW)
    assert verify(tmp_path) == []


def test_a_disk_that_refuses_leaves_the_log_as_it_was(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (log / LOG_NAME).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DeviceError, match="the disk refusing: No space left on device"):
        append(log, "later", NOW)
    assert (log / LOG_NAME).read_bytes() == before


def test_a_write_that_is_cut_short_is_none(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (log / LOG_NAME).read_bytes()
    write: Any = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:-1]))
    with pytest.raises(DeviceError, match="no room for a whole line"):
        append(log, "later", NOW)
    assert (log / LOG_NAME).read_bytes() == before


def test_a_log_that_cannot_be_read_is_said(log: Path) -> None:
    (log / LOG_NAME).unlink()
    (log / LOG_NAME).mkdir()
    with pytest.raises(ConfigurationError, match="run this as the user that serves"):
        verify(log)
