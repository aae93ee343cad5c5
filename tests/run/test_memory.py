"""boot.json: passes and floors side by side, written whole, by one process at a time; no floor ever falls."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError, DeviceError, TemporaryError
from edge_runtime.run import memory
from edge_runtime.run.boot import boot
from edge_runtime.run.memory import MEMORY_NAME, raise_floors, read_memory, remember_pass
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.report import Report
from tests.rig.bundles import DEWPOINT


@pytest.fixture(scope="module")
def report() -> Report:
    return boot(DEWPOINT, make_setting()).report


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def test_nothing_new_is_not_written(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_pass(tmp_path, report)
    assert (tmp_path / MEMORY_NAME).is_file()
    monkeypatch.delattr(memory, "write_whole")
    remember_pass(tmp_path, report)


def test_failures_are_not_remembered_and_no_folder_is_made(report: Report, tmp_path: Path) -> None:
    remember_pass(tmp_path, replace(report, state="ERROR"))
    remember_pass(tmp_path / "none", report)
    assert list(tmp_path.iterdir()) == []


def test_floors_rise_and_never_fall(tmp_path: Path) -> None:
    assert raise_floors(tmp_path, {"frost": 3, "dewpoint": 1}) == {"frost": (0, 3), "dewpoint": (0, 1)}
    assert raise_floors(tmp_path, {"frost": 2, "dewpoint": 2}) == {"frost": (3, 3), "dewpoint": (1, 2)}
    assert read_memory(tmp_path).floors == {"frost": 3, "dewpoint": 2}


def test_a_pass_leaves_floors_and_a_floor_leaves_passes(report: Report, tmp_path: Path) -> None:
    raise_floors(tmp_path, {"frost": 3})
    remember_pass(tmp_path, report)
    raise_floors(tmp_path, {"frost": 4})
    kept = json.loads((tmp_path / MEMORY_NAME).read_text())
    assert kept["floors"] == {"frost": 4}
    assert kept["last_passes"] == {"dewpoint": report.environment}


def test_one_writes_at_a_time(report: Report, tmp_path: Path) -> None:
    with locked(tmp_path):
        for write in (lambda: remember_pass(tmp_path, report), lambda: raise_floors(tmp_path, {"frost": 3})):
            with pytest.raises(TemporaryError, match=r"boot\.json: found another process writing it"):
                write()
    assert list(tmp_path.iterdir()) == []
    raise_floors(tmp_path, {"frost": 3})


def test_a_floor_raised_between_reading_and_writing_is_kept(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that took its time must not write back the floors it had read before."""
    alone = memory._alone

    @contextmanager
    def late(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(memory, "_alone", alone)
        raise_floors(folder, {"dewpoint": 9})
        with alone(folder):
            yield

    monkeypatch.setattr(memory, "_alone", late)
    remember_pass(tmp_path, report)
    found = read_memory(tmp_path)
    assert (found.floors, list(found.last_passes)) == ({"dewpoint": 9}, ["dewpoint"])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"none: found No such file or directory; expected a folder"):
        raise_floors(tmp_path / "none", {"frost": 1})


def test_a_fifo_in_its_place_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MEMORY_NAME)
    with pytest.raises(ConfigurationError, match="a fifo"):
        read_memory(tmp_path)


def test_a_memory_that_this_user_may_not_read_is_not_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(memory, "_read", refuse)
    with pytest.raises(ConfigurationError, match=r"found Permission denied; .*; run this as the user that serves$"):
        read_memory(tmp_path)
