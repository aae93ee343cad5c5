"""A report is in place whole and readable, or the old one still is."""

import os
from pathlib import Path

import pytest

from edge_runtime.errors import DeviceError
from edge_runtime.run.whole_file import write_whole


def test_replaces_and_is_readable_for_all(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    before = os.umask(0o077)
    try:
        write_whole(path, "old\n")
        write_whole(path, "new ü\n")
    finally:
        os.umask(before)
    assert path.read_bytes() == "new ü\n".encode()
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_refuses_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    write_whole(path, "old\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DeviceError, match="No space left on device; expected a folder with room"):
        write_whole(path, "new\n")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="No such file or directory"):
        write_whole(tmp_path / "none" / "report.json", "x")
