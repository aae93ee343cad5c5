"""The store: each change whole or not at all, whatever the disk refuses and whenever the process dies; bounds and names."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.bundle import store_log
from edge_runtime.bundle.durable import locked
from edge_runtime.bundle.names import SUMS_NAME
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.store import Store
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import sums
from edge_runtime.errors import BundleError, DeviceError, TemporaryError, UsageError
from tests.rig.program import ROOT

NOW = "2026-12-01T08:00:00Z"


def _files(text: str) -> dict[str, bytes]:
    files = {"manifest.json": text.encode(), "model.onnx": b"m" * 100}
    return {**files, SUMS_NAME: sums(files)}


def _take_in(store: Store, text: str) -> str:
    files = _files(text)
    digest = verify(files, "a test").digest
    with store.command(), store.arriving(files) as arrived:
        store.take_in(arrived, digest, NOW, {"id": "frost"})
    return digest


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def pair(store: Store) -> tuple[str, str]:
    """Two bundles, the first confirmed, the second on trial."""
    first, second = _take_in(store, "one"), _take_in(store, "two")
    store.activate("frost", first, NOW)
    store.confirm("frost", first, NOW, {})
    store.activate("frost", second, NOW)
    return first, second


def _slot(store: Store) -> Any:
    return store.state().bundles["frost"]


def test_what_is_taken_in_stands_under_its_digest_byte_for_byte(store: Store) -> None:
    digest = _take_in(store, "one")
    assert read_files(store.path(digest)) == _files("one")
    assert verify(read_files(store.path(digest)), "x").digest == digest
    assert store.digests() == [digest]
    assert [one.name for one in (store.folder / "bundles").iterdir()] == [digest]


def test_what_was_not_taken_in_leaves_nothing(store: Store) -> None:
    with store.command(), pytest.raises(BundleError), store.arriving(_files("one")):
        raise BundleError(subject="a", found="b", expected="c", todo="d")
    assert list((store.folder / "bundles").iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "con", "a\0b", "a" * 101, "x\n"])
def test_no_odd_name_is_ever_written(store: Store, name: str) -> None:
    with store.command(), pytest.raises(BundleError, match="whose name"), store.arriving({name: b""}):
        raise AssertionError


@pytest.mark.parametrize("digest", ["..", "", "a" * 63, "A" * 64, "a" * 64 + "/..", "a" * 63 + "\n"])
def test_nothing_but_a_digest_becomes_a_path(store: Store, digest: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        store.path(digest)
    with pytest.raises(UsageError):
        store.find(digest)


def test_a_damaged_bundle_is_replaced_by_the_whole_one_and_a_whole_one_stays(store: Store) -> None:
    digest = _take_in(store, "one")
    inode = store.path(digest).stat().st_ino
    _take_in(store, "one")
    assert store.path(digest).stat().st_ino == inode
    (store.path(digest) / "model.onnx").write_bytes(b"x")
    _take_in(store, "one")
    assert read_files(store.path(digest)) == _files("one")


def test_a_bundle_that_was_signed_anew_brings_its_signature(store: Store) -> None:
    digest = _take_in(store, "one")
    with store.command(), store.arriving({**_files("one"), "model.sig": b"new"}) as arrived:
        assert not store.take_in(arrived, digest, NOW, {})
    assert (store.path(digest) / "model.sig").read_bytes() == b"new"


def test_digests_are_found_by_their_first_digits(store: Store) -> None:
    one, two = _take_in(store, "one"), _take_in(store, "two")
    assert store.find(one[:8]) == one
    assert store.find(two) == two
    with pytest.raises(UsageError, match=r"found '[0-9a-f]{7}', which none of the staged begin with"):
        store.find(one[:7])


def test_activating_again_what_is_active_changes_nothing(store: Store, pair: tuple[str, str]) -> None:
    before = (store.folder / "store.json").read_bytes()
    store.activate("frost", pair[1], NOW)
    assert (store.folder / "store.json").read_bytes() == before


def test_what_is_not_in_the_store_is_not_activated(store: Store, pair: tuple[str, str]) -> None:
    with pytest.raises(BundleError, match="none of that digest in the store"):
        store.activate("frost", "0" * 64, NOW)
    assert _slot(store).active == pair[1]


def test_a_crash_loop_is_rolled_back_at_the_start_after_the_last_that_is_allowed(
    store: Store, pair: tuple[str, str]
) -> None:
    for count in (1, 2, 3):
        slot = store.begin("frost", 3, NOW)
        assert (slot.active, slot.trial and slot.trial.starts) == (pair[1], count)
    slot = store.begin("frost", 3, NOW)
    assert (slot.active, slot.trial) == (pair[0], None)
    assert slot.rolled_back is not None
    assert slot.rolled_back.reason == "it was started 3 times and neither stopped in order nor passed its trial"
    assert list(store_log.events(store.folder))[-1].fields["event"] == "rolled_back"
    before = (store.folder / "store.json").read_bytes()
    assert store.begin("frost", 3, NOW).active == pair[0]
    assert (store.folder / "store.json").read_bytes() == before, "a start of a confirmed bundle writes nothing"


def test_a_start_that_ends_in_order_counts_no_more_and_a_passed_trial_forgives_all(
    store: Store, pair: tuple[str, str]
) -> None:
    for _ in range(10):
        store.begin("frost", 1, NOW)
        store.stopped("frost", pair[1])
    assert _slot(store).trial.starts == 0
    store.begin("frost", 1, NOW)
    store.passed("frost", pair[1], NOW)
    assert (_slot(store).trial.stage, _slot(store).trial.starts) == ("passed", 0)


def test_the_first_bundle_ever_has_none_to_go_back_to(store: Store) -> None:
    digest = _take_in(store, "one")
    store.activate("frost", digest, NOW)
    for _ in range(5):
        assert store.begin("frost", 1, NOW).active == digest
    assert store.fall_back("frost", digest, "why", NOW) is None
    with pytest.raises(BundleError, match="none to go back to"):
        store.put_back("frost", NOW)


def test_of_what_is_no_longer_on_trial_nothing_is_noted(store: Store, pair: tuple[str, str]) -> None:
    assert store.fall_back("frost", pair[0], "why", NOW) is None
    before = (store.folder / "store.json").read_bytes()
    store.passed("frost", pair[0], NOW)
    store.stopped("frost", pair[0])
    store.stopped("frost", pair[1])
    assert (store.folder / "store.json").read_bytes() == before
    with pytest.raises(BundleError, match="another one active than was tested"):
        store.confirm("frost", pair[0], NOW, {})


def test_nothing_active_is_a_reason_to_wait(store: Store) -> None:
    with pytest.raises(TemporaryError, match="none of that id active"):
        store.begin("frost", 3, NOW)


def test_nothing_that_is_pointed_to_is_ever_removed(store: Store, pair: tuple[str, str]) -> None:
    first, second = pair
    store.confirm("frost", second, NOW, {})
    third = _take_in(store, "three")
    store.activate("frost", third, NOW)
    loose = [_take_in(store, f"loose {number}") for number in range(3)]
    for age, digest in enumerate(loose):
        os.utime(store.path(digest), (age, age))
    assert store.collect(NOW, keep=1) == [loose[1], loose[0]]
    assert set(store.digests()) == {first, second, third, loose[2]}, "the previous, the confirmed, the one on trial"
    assert store.collect(NOW, keep=0) == [loose[2]]
    assert {one.name for one in (store.folder / "bundles").iterdir()} == {first, second, third}


def test_what_killed_commands_left_is_swept(store: Store, pair: tuple[str, str]) -> None:
    left = store.folder / "bundles" / ".0123.new"
    left.mkdir()
    (left / "model.onnx").write_bytes(b"x")
    (store.folder / ".store.json.0123.new").write_bytes(b"x")
    store.sweep()
    assert {one.name for one in (store.folder / "bundles").iterdir()} == set(pair)
    assert not list(store.folder.glob(".*"))


def test_two_commands_at_once_are_one_and_a_reason_to_wait(store: Store) -> None:
    with store.command(), pytest.raises(TemporaryError, match="another `edge-runtime bundle` command"), store.command():
        raise AssertionError
    with store.command():
        pass


def test_the_lock_goes_with_the_process_that_held_it(store: Store) -> None:
    _take_in(store, "one")
    program = (
        "import os, sys; from pathlib import Path; from edge_runtime.bundle.store import Store\n"
        "with Store(Path(sys.argv[1])).command(): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(store.folder)], check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == -9
    with store.command():
        pass


def test_a_change_waits_for_the_one_before(store: Store, pair: tuple[str, str]) -> None:
    done = threading.Event()

    def change() -> None:
        store.passed("frost", pair[1], NOW)
        done.set()

    with locked(store.folder / "store.lock", patience_s=0, busy=""):
        other = threading.Thread(target=change)
        other.start()
        assert _slot(store).trial.stage == "running"
        assert not done.is_set()
    other.join()
    assert _slot(store).trial.stage == "passed"


def test_a_lock_that_is_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    store.folder.mkdir()
    (store.folder / "command.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DeviceError), store.command():
        raise AssertionError
    assert not (tmp_path / "elsewhere").exists()


# Every step of every change, refused by the disk and cut off by a kill.

CHANGES: dict[str, Callable[[Store, str, str], object]] = {
    "take in": lambda store, _a, _b: _take_in(store, "new"),
    "take in again": lambda store, _a, _b: _take_in(store, "two"),
    "activate": lambda store, a, _b: store.activate("frost", a, NOW),
    "confirm": lambda store, _a, b: store.confirm("frost", b, NOW, {}),
    "begin": lambda store, _a, _b: store.begin("frost", 3, NOW),
    "begin once too often": lambda store, _a, _b: store.begin("frost", 0, NOW),
    "fall back": lambda store, _a, b: store.fall_back("frost", b, "why", NOW),
    "put back": lambda store, _a, _b: store.put_back("frost", NOW),
    "passed": lambda store, _a, b: store.passed("frost", b, NOW),
    "collect": lambda store, _a, _b: store.collect(NOW, keep=0),
    "note": lambda store, _a, _b: store.note("selftest", NOW, passed=True),
    "configuration": lambda store, _a, _b: store.note_configuration("new", NOW),
}
_CALLS = (
    (os, "open"), (os, "fsync"), (os, "write"), (Path, "mkdir"), (Path, "open"), (Path, "chmod"), (Path, "replace"),
    (Path, "rename"), (os, "utime"),
)  # fmt: skip


class _Steps:
    """Counts the calls to the disk, and does ``then`` in place of the one numbered ``at``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
        self.count, self.at, self._then = 0, -1, then
        for owner, name in _CALLS:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        is_sync = call is os.fsync

        def counted(*args: Any, **kwargs: Any) -> Any:
            if not _only_reads(args):
                self.count += 1
                if self.count == self.at:
                    self._then()
            return None if is_sync else call(*args, **kwargs)  # no power is cut here

        return counted


def _only_reads(args: tuple[Any, ...]) -> bool:
    """Of `os.open` and `Path.open`, which need no room then."""
    how = args[1] if len(args) > 1 else None
    return how == "rb" or (isinstance(how, int) and args[0] != how and not how & (os.O_WRONLY | os.O_RDWR))


def _refuse() -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture
def kept(store: Store, pair: tuple[str, str], tmp_path: Path) -> Callable[[], None]:
    """Puts the store of ``pair``, with a bundle more that nothing points to, back as it was."""
    assert pair
    _take_in(store, "loose")
    shutil.copytree(store.folder, tmp_path / "kept")

    def restore() -> None:
        shutil.rmtree(store.folder)
        shutil.copytree(tmp_path / "kept", store.folder)

    return restore


@pytest.mark.parametrize("change", CHANGES)
def test_a_disk_that_is_full_at_any_step_leaves_a_store_that_serves(
    store: Store, pair: tuple[str, str], kept: Callable[[], None], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    steps = _Steps(monkeypatch, _refuse)
    refused = 0
    for number in range(1, 200):
        kept()
        steps.count, steps.at = 0, number
        try:
            CHANGES[change](store, *pair)
        except DeviceError:
            refused += 1
        if steps.count < number:
            break
        steps.at = -1
        _require_valid(store)
        CHANGES[change](store, *pair)  # with room again, the same goes through
        _require_valid(store)
    assert refused > 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
@pytest.mark.parametrize("change", CHANGES)
def test_a_kill_at_any_step_leaves_a_store_that_serves(
    store: Store, pair: tuple[str, str], kept: Callable[[], None], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    steps = _Steps(monkeypatch, lambda: os._exit(9))
    killed = 0
    for number in range(1, 200):
        kept()
        child = os.fork()
        if not child:
            steps.count, steps.at = 0, number
            CHANGES[change](store, *pair)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        _require_valid(store)
        CHANGES[change](store, *pair)
        _require_valid(store)
        killed += code == 9
        if code == 0:
            break
    assert killed > 3


def _require_valid(store: Store) -> None:
    """What serves, and what it goes back to, is there whole; so is all that has a name; and the log holds together."""
    for slot in store.state().bundles.values():
        for digest in slot.held:
            assert verify(read_files(store.path(digest)), "x").digest == digest
    for digest in store.digests():
        assert verify(read_files(store.path(digest)), "x").digest == digest
    assert store_log.verify(store.folder) == []
