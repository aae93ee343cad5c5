"""What a provider kept is used byte for byte or not at all, once made anew, and never believed before the goldens."""

import errno
import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_runtime.engine import session as engine
from edge_runtime.errors import DeviceError
from edge_runtime.run import golden_checks
from edge_runtime.run.boot import Booted, Setting, boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.report import REQUIRED, Check
from tests.rig.bundles import DEWPOINT, FROST, write_with_manifest
from tests.rig.caching_provider import BLOB, HEAD, OPENVINO, CachingProvider

GOOD = HEAD + b"0"
GIVE_IT_BACK = "give it to the user that serves (chown, chmod 700), or remove it; the next boot makes it anew"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> CachingProvider:
    made = CachingProvider()
    monkeypatch.setattr(engine, "_onnxruntime", lambda: made)
    return made


@pytest.fixture
def state(tmp_path: Path) -> Path:
    found = tmp_path / "state"
    found.mkdir(mode=0o700)
    return found


@pytest.fixture
def setting(provider: CachingProvider, state: Path) -> Setting:
    assert provider.compiled == 0
    return _with_providers(replace(make_setting(), state=state), ProviderChoice(name=OPENVINO, cache=True))


def _with_providers(setting: Setting, *choices: ProviderChoice) -> Setting:
    return replace(setting, profile=setting.profile.model_copy(update={"providers": choices}))


def _told(booted: Booted) -> Check:
    (found,) = [one for one in booted.report.checks if one.id == "provider_cache"]
    return found


def _folder(state: Path, bundle: str = "frost") -> Path:
    (found,) = [one for one in (state / "cache" / bundle / OPENVINO).iterdir() if one.is_dir()]
    return found


def _listing(state: Path, bundle: str = "frost") -> Path:
    return _folder(state, bundle).with_suffix(".json")


def _served_anew(booted: Booted, provider: CachingProvider, compiled: int) -> Check:
    """It serves, from nothing, says what was wrong as a wanted failure with what to do; and the next boot is whole again."""
    assert booted.ready is not None
    told = _told(booted)
    assert (told.tier, told.status) == ("wanted", "fail")
    again = "take `cache` off this provider in the profile" if "byte for byte" in told.measured else "test the disk"
    assert told.hint.startswith("nothing, it was dropped")
    assert told.hint.endswith(f"; if it comes again, {again}")
    assert provider.compiled == compiled
    return told


def test_what_was_compiled_once_is_used_by_the_next_boot(
    setting: Setting, provider: CachingProvider, state: Path
) -> None:
    cold = boot(FROST, setting)
    assert (_told(cold).status, _told(cold).measured) == (
        "pass",
        f"{OPENVINO}: kept for the next boot: 1 file, 1e-05 MB",
    )
    assert provider.compiled == 1
    for _ in range(2):
        warm = boot(FROST, setting)
        assert warm.ready is not None
        assert _told(warm).status == "pass"
        assert _told(warm).measured.startswith(f"{OPENVINO}: used: 1 file, 1e-05 MB, verified in ")
    assert provider.compiled == 1
    modes = [one.stat().st_mode & 0o777 for one in (state / "cache").rglob("*") if one.is_dir()]
    assert modes == [0o700] * 3
    assert _listing(state).stat().st_mode & 0o777 == 0o600
    assert {one.suffix for one in _folder(state).parent.iterdir()} == {"", ".json"}


def _cut(folder: Path) -> None:
    (folder / BLOB).write_bytes(GOOD[:-1])


def _flipped(folder: Path) -> None:
    (folder / BLOB).write_bytes(GOOD[:-1] + b"1")


def _linked(folder: Path) -> None:
    (folder / BLOB).rename(folder.parents[3] / BLOB)
    (folder / BLOB).symlink_to(folder.parents[3] / BLOB)


def _two_names(folder: Path) -> None:
    (folder.parents[3] / BLOB).hardlink_to(folder / BLOB)


def _folder_is_a_link(folder: Path) -> None:
    folder.rename(folder.parents[3] / "elsewhere")
    folder.symlink_to(folder.parents[3] / "elsewhere")


def _listing_edit(change: dict[str, Any]):
    def edit(folder: Path) -> None:
        path = folder.with_suffix(".json")
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    return edit


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_cut, f"'{BLOB}' cut to 9 of 10 bytes"),
        (_flipped, f"'{BLOB}' changed"),
        (lambda folder: (folder / BLOB).write_bytes(GOOD + b"0"), f"'{BLOB}' changed"),
        (lambda folder: (folder / BLOB).unlink(), f"'{BLOB}' missing"),
        (lambda folder: (folder / "another.blob").write_bytes(b""), "'another.blob' added"),
        (_linked, f"'{BLOB}', which is no file of its own"),
        (_two_names, f"'{BLOB}', which is no file of its own"),
        (lambda folder: (folder / "sub").mkdir(), "'sub', which is no file of its own"),
        (_folder_is_a_link, "no folder that only this user may write to"),
        (lambda folder: folder.chmod(0o777), "no folder that only this user may write to"),
        (lambda folder: folder.chmod(0o770), "no folder that only this user may write to"),
        (lambda folder: folder.with_suffix(".json").write_bytes(b"{"), "a listing that cannot be read"),
        (lambda folder: folder.with_suffix(".json").write_bytes(b"0" * 100_000), "a listing that cannot be read"),
        (_listing_edit({"key": "f" * 64}), "foreign: kept for frost on OpenVINOExecutionProvider, fingerprint ffffffffffff"),
        (_listing_edit({"bundle": "dewpoint"}), "foreign: kept for dewpoint on OpenVINOExecutionProvider"),
        (_listing_edit({"more": 1}), "a listing that cannot be read"),
    ],
    ids=["cut", "one bit", "longer", "missing", "added", "a link", "two names", "a folder", "the folder a link", "open to all",
         "open to a group",
         "listing cut", "listing huge", "another fingerprint", "another bundle", "listing odd"],
)  # fmt: skip
def test_what_is_not_as_it_was_kept_is_dropped_and_made_anew(
    setting: Setting, provider: CachingProvider, state: Path, damage: Any, words: str
) -> None:
    boot(FROST, setting)
    damage(_folder(state))
    told = _served_anew(boot(FROST, setting), provider, compiled=2)
    assert words in told.measured
    assert (_folder(state) / BLOB).read_bytes() == GOOD
    assert _told(boot(FROST, setting)).measured.startswith(f"{OPENVINO}: used: ")
    assert provider.compiled == 2


def test_another_bundles_file_in_its_place(setting: Setting, provider: CachingProvider, state: Path) -> None:
    """A real foreign one: file and listing of another bundle, whole and with right sums."""
    boot(FROST, setting)
    boot(DEWPOINT, setting)
    shutil.copy(_folder(state, "dewpoint") / BLOB, _folder(state) / BLOB)
    shutil.copy(_listing(state, "dewpoint"), _listing(state))
    told = _served_anew(boot(FROST, setting), provider, compiled=3)
    assert "foreign: kept for dewpoint" in told.measured
    assert _told(boot(DEWPOINT, setting)).measured.startswith(f"{OPENVINO}: used: ")


def _poisoned(state: Path, data: bytes) -> None:
    """File and sum, both written by somebody who knows how."""
    import hashlib

    (_folder(state) / BLOB).write_bytes(data)
    listing = json.loads(_listing(state).read_text())
    listing["files"] = {BLOB: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    _listing(state).write_text(json.dumps(listing))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HEAD + b"3", "golden_output, model output: found "),
        (b"junk", "provider, provider OpenVINOExecutionProvider: found "),
    ],
    ids=["other numbers", "not to be read"],
)
def test_poisoned_with_right_sums_is_caught_by_the_goldens_and_made_anew_once(
    setting: Setting, provider: CachingProvider, state: Path, data: bytes, words: str
) -> None:
    boot(FROST, setting)
    _poisoned(state, data)
    booted = boot(FROST, setting)
    told = _served_anew(booted, provider, compiled=2)
    assert words in told.measured
    assert "with what an earlier boot had kept, byte for byte" in told.measured
    assert [one.id for one in booted.report.checks].count("golden_output") == 1
    assert _told(boot(FROST, setting)).measured.startswith(f"{OPENVINO}: used: ")


def test_wrong_without_it_too_is_refused_after_one_more_try(
    setting: Setting, provider: CachingProvider, state: Path
) -> None:
    boot(FROST, setting)
    provider.fault, provider.folders[:] = 3.0, []
    booted = boot(FROST, setting)
    assert booted.ready is None
    assert [one.id for one in booted.report.failures()] == ["golden_output", "golden_batches", "provider_cache"]
    assert len(provider.folders) == 2, "once with what was kept, once without, and no third time"
    assert list(_folder(state).iterdir()) == []
    provider.folders.clear()
    assert boot(FROST, setting).ready is None
    assert len(provider.folders) == 1, "there was nothing kept that could be at fault"
    assert list(_folder(state).iterdir()) == []
    provider.fault = 0.0
    assert boot(FROST, setting).ready is not None


def test_then_the_next_of_the_list_serves(setting: Setting, provider: CachingProvider, state: Path) -> None:
    both = _with_providers(
        setting, ProviderChoice(name=OPENVINO, cache=True), ProviderChoice(name="CPUExecutionProvider")
    )
    boot(FROST, both)
    provider.fault = 3.0
    booted = boot(FROST, both)
    assert booted.ready is not None
    assert booted.ready.provider == "CPUExecutionProvider"
    assert [one.id for one in booted.report.failures()] == ["provider_choice", "provider_cache"]
    told = _told(boot(FROST, both))
    assert (told.status, told.hint) == ("skip", f"{OPENVINO} does not serve, or may not")
    assert list(_folder(state).iterdir()) == []


def test_a_boot_that_is_killed_by_what_it_reads_does_not_read_it_again(
    setting: Setting, provider: CachingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(FROST, setting)

    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("edge_runtime.run.golden_checks.golden_output", killed)
        with pytest.raises(SystemExit):
            boot(FROST, setting)
    after = boot(FROST, setting)
    assert _told(after).status == "pass"
    assert _told(after).measured.endswith("what a boot that did not pass had left was dropped")
    assert provider.compiled == 2


def test_a_mistake_in_the_device_file_costs_no_engine(setting: Setting, provider: CachingProvider) -> None:
    boot(FROST, setting)
    refused = boot(FROST, replace(setting, bindings={"roof": {}}))
    assert [one.id for one in refused.report.failures()] == ["bindings"]
    assert not refused.report.passed()
    assert _told(boot(FROST, replace(setting, config_digest="another"))).measured.startswith(f"{OPENVINO}: used: ")
    assert provider.compiled == 1


def test_another_fingerprint_drops_what_was_kept(
    setting: Setting, provider: CachingProvider, state: Path, tmp_path: Path
) -> None:
    boot(FROST, setting)
    boot(DEWPOINT, setting)
    before = _folder(state)
    newer = replace(setting, machine=replace(setting.machine, driver="nvidia 570.86.10"))
    told = _told(boot(FROST, newer))
    assert (told.status, provider.compiled) == ("pass", 3)
    assert told.measured.endswith("what was kept under another fingerprint was dropped")
    assert not before.exists()
    other = write_with_manifest(FROST, tmp_path / "other", lambda raw: raw.update(version="9.9.9"))
    assert "another fingerprint" in _told(boot(other, newer)).measured
    # A second bundle has a place of its own, or the two would drop each other's at every boot.
    assert _told(boot(DEWPOINT, setting)).measured.startswith(f"{OPENVINO}: used: ")


def test_without_a_state_folder_nothing_is_kept_and_that_is_said(
    setting: Setting, provider: CachingProvider, tmp_path: Path
) -> None:
    for state in (None, tmp_path / "none"):
        booted = boot(FROST, replace(setting, state=state))
        told = _told(booted)
        assert booted.ready is not None
        assert (told.status, told.measured) == ("skip", "nothing kept")
        assert "no state folder" in told.hint
        assert provider.folders[-1] is None
        assert booted.report.passed()


def test_another_boot_at_work_is_left_alone(setting: Setting, provider: CachingProvider, state: Path) -> None:
    from edge_runtime.device.provider_cache import ProviderCache

    boot(FROST, setting)
    at_work = ProviderCache(state, bundle="frost", provider=OPENVINO, key="a" * 64)
    told = _told(boot(FROST, setting))
    assert (told.status, told.hint) == ("skip", "another boot of this bundle is using it: none is needed")
    assert provider.folders[-1] is None
    at_work.close()
    assert _told(boot(FROST, setting)).status == "pass"


@pytest.mark.parametrize("name", ["cache", "cache/frost", f"cache/frost/{OPENVINO}"])
@pytest.mark.parametrize("odd", ["link", "file", "open"])
def test_something_else_in_the_folders_place_is_not_touched(
    setting: Setting, provider: CachingProvider, state: Path, tmp_path: Path, name: str, odd: str
) -> None:
    place = state / name
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("keep me")
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if odd == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif odd == "file":
        place.write_text("odd")
    else:
        place.mkdir()
        place.chmod(0o777)
    booted = boot(FROST, setting)
    told = _told(booted)
    assert booted.ready is not None
    assert (told.tier, told.status, provider.folders[-1]) == ("wanted", "fail", None)
    assert told.measured.startswith(f"cache {place}: found ")
    assert told.hint == (GIVE_IT_BACK if odd == "open" else "remove it; the next boot makes it anew")
    assert [one.name for one in (tmp_path / "elsewhere").iterdir()] == ["mine"]


def test_a_provider_that_keeps_nothing(setting: Setting, provider: CachingProvider) -> None:
    provider.writes = False
    assert _told(boot(FROST, setting)).measured == f"{OPENVINO}: the provider wrote nothing to keep"


def test_a_drill_leaves_it_alone(setting: Setting, provider: CachingProvider) -> None:
    boot(FROST, setting)
    drill = boot(FROST, setting, inject="golden_output")
    assert _told(drill).status == "skip"
    assert provider.folders[-1] is None
    drill = boot(FROST, setting, inject="provider_cache")
    assert [one.id for one in drill.report.failures()] == ["provider_cache"]
    assert "'injected' changed" in _told(drill).measured
    assert drill.ready is not None
    assert _told(boot(FROST, setting)).measured.startswith(f"{OPENVINO}: used: ")


def test_more_than_may_be_kept_is_not(setting: Setting, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, words in (("MAX_FILES", "more than 0 files"), ("MAX_BYTES", "more than 0 MiB")):
        with monkeypatch.context() as patch:
            patch.setattr(f"edge_runtime.device.file_sums.{name}", 0)
            booted = boot(FROST, setting)
        assert booted.ready is not None
        told = _told(booted)
        assert (told.tier, told.status, told.hint) == (
            "wanted",
            "fail",
            "take `cache` off this provider in the profile",
        )
        assert f"{words}, which is not kept" in told.measured
        assert list(_folder(state).iterdir()) == []


def test_what_was_longest_unused_makes_room(setting: Setting, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot(DEWPOINT, setting)
    monkeypatch.setattr("edge_runtime.device.own_folder.MAX_ALL_BYTES", len(GOOD))
    assert _told(boot(FROST, setting)).measured.endswith("; 1 of other bundles dropped, over 0 MiB in all")
    assert [one.name for one in (state / "cache").glob("*/*")] == [OPENVINO]
    assert _folder(state).is_dir()


def test_without_room_nothing_is_kept(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_runtime.device.own_folder.MIN_FREE_BYTES", 1 << 62)
    told = _told(boot(FROST, setting))
    assert told.status == "skip"
    assert "MiB free for " in told.hint


def test_another_users_state_is_left_alone(setting: Setting, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: state.stat().st_uid + 1)
    told = _told(boot(FROST, setting))
    assert told.status == "skip"
    assert told.hint.endswith("is another user's: run this as the user that serves")
    assert not (state / "cache").exists()


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (errno.EIO, "test the disk"),
        (errno.EROFS, "mount the disk to be written to"),
        (errno.ENOSPC, "free the disk: it has no room, or no place for another file"),
        (errno.EDQUOT, "raise this user's quota, or free what it uses"),
        (errno.EACCES, GIVE_IT_BACK),
        (errno.EPERM, GIVE_IT_BACK),
        (errno.ENOTDIR, "remove it; the next boot makes it anew"),
    ],
)
def test_a_disk_that_refuses_is_no_reason_not_to_serve_and_its_reason_says_what_to_do(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, number: int, todo: str
) -> None:
    boot(FROST, setting)

    def failing(_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("edge_runtime.device.provider_cache.removed", failing)
    booted = boot(FROST, replace(setting, machine=replace(setting.machine, kernel="another")))
    assert booted.ready is not None
    assert f"found {os.strerror(number)}" in _told(booted).measured
    assert _told(booted).hint == todo


def test_on_a_disk_that_may_only_be_read_nothing_is_kept(
    setting: Setting, provider: CachingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(FROST, setting)
    real = os.fstatvfs

    def read_only(descriptor: int) -> SimpleNamespace:
        room = real(descriptor)
        return SimpleNamespace(f_flag=room.f_flag | os.ST_RDONLY, f_bavail=room.f_bavail, f_frsize=room.f_frsize)

    monkeypatch.setattr("os.fstatvfs", read_only)
    booted = boot(FROST, setting)
    told = _told(booted)
    assert booted.ready is not None
    assert booted.report.passed()
    assert (told.status, provider.folders[-1]) == ("skip", None)
    assert told.hint.endswith("lies on a disk that may only be read: mount it to be written to")


def test_a_state_that_everybody_may_write_to_keeps_nothing(setting: Setting, state: Path) -> None:
    state.chmod(0o777)
    told = _told(boot(FROST, setting))
    assert (told.status, told.hint) == ("skip", f"everybody may write to state folder {state}: chmod o-w {state}")
    assert not (state / "cache").exists()
    state.chmod(0o1777)  # nobody can put something else in the place of what is ours
    assert _told(boot(FROST, setting)).status == "pass"


def test_another_users_file_is_dropped_though_its_sum_is_right(
    setting: Setting, provider: CachingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may write to it after we have looked."""
    boot(FROST, setting)
    real = os.geteuid
    looks = iter([False, True])  # at the folder before the provider, and after it

    class AnotherUser:
        def geteuid(self) -> int:
            return real() if next(looks) else real() + 1

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

    monkeypatch.setattr("edge_runtime.device.file_sums.os", AnotherUser())
    told = _served_anew(boot(FROST, setting), provider, compiled=2)
    assert f"'{BLOB}', which is another user's" in told.measured


def test_a_kept_engine_that_is_too_slow_is_made_anew_once(
    setting: Setting, provider: CachingProvider, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What compiles by trial keeps what was the fastest in a hot moment: it would be refused at every boot."""
    boot(FROST, setting)
    real = golden_checks.latency

    def slow_below(compiled: int) -> None:
        def measured(*args: Any, inject: bool) -> tuple[bool, str, str]:
            if provider.compiled < compiled:
                raise DeviceError(subject="latency of one inference", found="70 ms", expected="50 ms", todo="cool it")
            return real(*args, inject=inject)

        monkeypatch.setattr(golden_checks, "latency", measured)

    slow_below(2)
    told = _served_anew(boot(FROST, setting), provider, compiled=2)
    assert "found latency, latency of one inference: found 70 ms; with what an earlier boot had kept" in told.measured
    assert _told(boot(FROST, setting)).measured.startswith(f"{OPENVINO}: used: ")
    slow_below(9)
    booted = boot(FROST, setting)
    assert [one.id for one in booted.report.failures(REQUIRED)] == ["latency"]
    assert provider.compiled == 3, "once more from nothing, and no third time"
    assert list(_folder(state).iterdir()) == []


@pytest.mark.parametrize("other_ms", [1.0, math.inf], ids=["another serves", "none serves"])
def test_what_fails_after_all_while_it_is_measured_keeps_nothing(
    setting: Setting, state: Path, monkeypatch: pytest.MonkeyPatch, other_ms: float
) -> None:
    both = (ProviderChoice(name=OPENVINO, cache=True), ProviderChoice(name="CPUExecutionProvider"))
    profile = setting.profile.model_copy(update={"providers": both, "choose": "fastest"})
    setting = replace(setting, profile=profile)
    boot(FROST, setting)
    assert len(list(_folder(state).iterdir())) == 1
    monkeypatch.setattr("edge_runtime.run.latency.in_turn", lambda *_: [math.inf, other_ms])
    booted = boot(FROST, setting)
    assert (booted.ready is not None) == (other_ms < math.inf)
    told = _told(booted)
    assert (told.status, told.hint.startswith("nothing, it was dropped; ")) == ("fail", True)
    assert "found a call failed while it was measured; with what an earlier boot had kept" in told.measured
    assert list(_folder(state).iterdir()) == []
    assert not _listing(state).exists()


def test_a_provider_that_cannot_read_what_it_wrote_is_told(setting: Setting, provider: CachingProvider) -> None:
    boot(FROST, setting)
    provider.reads = False
    for count in (2, 3):
        told = _told(boot(FROST, setting))
        assert told.status == "pass"
        assert told.measured.endswith(", the provider has changed what was kept")
        assert provider.compiled == count
    provider.reads = True
    assert _told(boot(FROST, setting)).measured.startswith(f"{OPENVINO}: used: ")


def test_a_disk_without_locks_keeps_nothing(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlocked(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", unlocked)
    booted = boot(FROST, setting)
    assert booted.ready is not None
    assert (_told(booted).status, "No locks available" in _told(booted).hint) == ("skip", True)
