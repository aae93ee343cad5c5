"""`edge-runtime bundle` as an updater calls it: what each word says and exits with, and that a failure changes nothing."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime import cli
from edge_runtime.bundle.store import Store
from edge_runtime.run import stage as stage_module
from tests.rig.bundles import DEWPOINT, FROST, write_with, write_with_manifest
from tests.rig.device_file import line, write_device_file

NOW = "2026-12-01T08:00:00Z"


class Site:
    """A device file with a line of the store, and the words of `edge-runtime bundle` on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.config = write_device_file(folder, line("dewpoint", Path("store:dewpoint")))
        self.store = Store(folder / "state" / "store")

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = cli.main(["bundle", *words, "--config", str(self.config)])
        told = self._capsys.readouterr()
        return code, told.out, told.err

    def staged(self, bundle: Path = DEWPOINT) -> str:
        code, out, err = self("stage", str(bundle))
        assert code == 0, err
        return out.strip()

    def bundle(self, version: int) -> Path:
        """A twin of the dewpoint bundle of this version and security_version."""
        path = self.folder / f"twin{version}"
        if not path.exists():
            write_with_manifest(
                DEWPOINT, path, lambda raw: raw.update(version=f"{version}.0.0", security_version=version)
            )
        return path

    def taken_in(self, version: int) -> str:
        """The same in the store, its self-test left out: it has its own tests."""
        from edge_runtime.bundle.read import read_files
        from edge_runtime.bundle.verify import verify

        bundle = verify(read_files(self.bundle(version)), "a test")
        with self.store.command(), self.store.arriving(bundle.signed_files) as arrived:
            self.store.take_in(arrived, bundle.digest, NOW, {})
        return bundle.digest

    def confirmed(self, version: int) -> str:
        digest = self.taken_in(version)
        self.store.activate("dewpoint", digest, NOW)
        self.store.passed("dewpoint", digest, NOW)
        assert self("confirm")[0] == 0
        return digest

    @property
    def slot(self) -> Any:
        return self.store.state().bundles["dewpoint"]


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(tmp_path, capsys)


def test_a_good_bundle_is_staged_and_its_digest_printed_alone(site: Site) -> None:
    code, out, err = site("stage", str(DEWPOINT))
    assert code == 0
    assert re.fullmatch(r"[0-9a-f]{64}\n", out)
    assert err == "staged dewpoint 1.0.0; it passed its self-test, and does not serve yet\n"
    assert site.store.digests() == [out.strip()]
    again, out_again, err_again = site("stage", str(DEWPOINT))
    assert (again, out_again) == (0, out)
    assert "which was there" in err_again


def _spoilt(files: Callable[[dict[str, Any]], object]) -> Callable[[Path], Path]:
    return lambda to: write_with_manifest(DEWPOINT, to, files)


def _torn(to: Path) -> Path:
    shutil.copytree(DEWPOINT, to)
    (to / "golden.npz").write_bytes(b"x")
    return to


REFUSED = {
    "damaged": (_torn, "golden.npz with other content"),
    "not there": (lambda to: to, "unreadable"),
    "another id": (lambda _: FROST, "found frost; expected dewpoint: what the lines of"),
    "no manifest": (_spoilt(lambda raw: raw.clear()), "manifest.json"),
    "wrong goldens": (
        lambda to: write_with(DEWPOINT, to, {"golden.npz": (FROST / "golden.npz").read_bytes()}), "self-test, golden",
    ),
    "another processor": (
        _spoilt(lambda raw: raw["variants"][0].update(opsets={"": 999})), "self-test, compatibility",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_bundle_is_refused_and_leaves_nothing(site: Site, what: str) -> None:
    make, said = REFUSED[what]
    code, out, err = site("stage", str(make(site.folder / "bad")))
    assert (code, out) == (65, "")
    assert said in err
    assert err.count("\n") == 1
    assert site.store.digests() == []
    assert list((site.store.folder / "bundles").iterdir()) == []


def test_a_self_test_that_dies_or_hangs_is_no_pass(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module.sys, "executable", "/bin/false")
    code, _, err = site("stage", str(DEWPOINT))
    assert code == 65
    assert "a self-test that ended with exit code 1 and no report: it said nothing" in err
    sleeper = site.folder / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 100\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(stage_module.sys, "executable", str(sleeper))
    monkeypatch.setattr(stage_module, "SELFTEST_S", 0.2)
    code, _, err = site("stage", str(DEWPOINT))
    assert code == 65
    assert "a self-test that was not done after 0.2 s" in err
    killer = site.folder / "killer"
    killer.write_text("#!/bin/sh\necho it broke >&2\nkill -11 $$\n")
    killer.chmod(0o755)
    monkeypatch.setattr(stage_module.sys, "executable", str(killer))
    monkeypatch.setattr(stage_module, "SELFTEST_S", 60)
    code, _, err = site("stage", str(DEWPOINT))
    assert code == 65
    assert "ended with signal 11 and no report: it broke" in err
    assert site.store.digests() == []


def test_an_unsigned_bundle_is_not_staged_where_signatures_are_required(site: Site) -> None:
    (site.folder / "keys").mkdir()
    text = site.config.read_text().replace("[[line]]", '[signature]\npolicy = "required"\nkeys = "keys"\n[[line]]', 1)
    site.config.write_text(text)
    code, _, err = site("stage", str(DEWPOINT))
    assert code == 65
    assert "expected a model.sig by a trusted key" in err


def test_while_one_command_is_at_work_others_are_told_to_wait(site: Site) -> None:
    digest = site.taken_in(1)
    with site.store.command():
        for words in (("stage", str(DEWPOINT)), ("activate", digest), ("rollback",), ("confirm",), ("gc",)):
            code, _, err = site(*words)
            assert code == 75, words
            assert "another `edge-runtime bundle` command at work on it" in err
        assert site("list")[0] == site("status")[0] == site("log")[0] == 0


def test_the_way_of_a_bundle(site: Site) -> None:
    first, second = site.confirmed(1), site.taken_in(2)
    code, _, err = site("activate", second[:8])
    assert code == 0
    assert f"dewpoint: {second[:12]} is active, it is on trial since" in err
    code, _, err = site("confirm")
    assert code == 75
    assert f"found {second[:12]} still on trial" in err
    code, _, err = site("rollback")
    assert (code, err) == (0, f"dewpoint: {first[:12]} serves from now on\n")
    assert site("rollback")[0] == 0
    assert (site.slot.active, site.slot.trial, site.slot.rolled_back) == (first, None, None)
    assert site("confirm")[0] == 0, "what serves is the confirmed one"


def test_what_was_rolled_back_by_itself_is_not_confirmed(site: Site) -> None:
    first, second = site.confirmed(1), site.taken_in(2)
    site("activate", second)
    site.store.fall_back("dewpoint", second, "trial: found 3 refused samples of 20", NOW)
    code, _, err = site("confirm")
    assert code == 1
    assert "its last activation was rolled back" in err
    assert f"{second[:12]} was rolled back at {NOW}: trial: found 3 refused samples of 20" in site("status")[1]
    assert site("rollback")[0] == 0, "an updater that is told rolls back, which is done already"
    assert site.slot.active == first
    assert site("confirm")[0] == 0


def test_the_floor_rises_on_confirm_alone_and_then_forbids_the_way_back(site: Site) -> None:
    first, second = site.confirmed(1), site.taken_in(2)
    site("activate", second)
    floors = json.loads((site.folder / "state/boot.json").read_text())["floors"]
    assert floors == {"dewpoint": 1}
    site.store.passed("dewpoint", second, NOW)
    assert site("confirm")[0] == 0
    assert json.loads((site.folder / "state/boot.json").read_text())["floors"] == {"dewpoint": 2}
    assert (site.slot.confirmed, site.slot.previous) == (second, first)
    code, _, err = site("activate", first)
    assert code == 65
    assert "found 1; expected 2 or more, the floor of this device" in err
    assert site.slot.active == second


def test_words_that_mean_nothing_are_told_what_there_is(site: Site) -> None:
    assert site("activate", "00000000")[0] == 2
    code, _, err = site("rollback")
    assert code == 75
    assert "none of that id active in the store" in err
    code, _, err = site("rollback", "frost")
    assert code == 2
    assert "found 'frost'; expected dewpoint" in err
    site("activate", site.taken_in(1))
    code, _, err = site("rollback")
    assert code == 65
    assert "none to go back to" in err
    site.config.write_text(site.config.read_text().replace("store:dewpoint", "store:other"))
    code, _, err = site("activate", site.store.digests()[0])
    assert code == 2
    assert 'write bundle = "store:dewpoint" in a line' in err


def test_a_bundle_damaged_in_the_store_is_not_activated(site: Site) -> None:
    digest = site.taken_in(1)
    (site.store.path(digest) / "golden.npz").write_bytes(b"x")
    assert site("activate", digest)[0] == 65
    assert not site.store.state().bundles
    assert "unreadable  staged" in site("list")[1]


def test_lists_say_what_each_bundle_is(site: Site) -> None:
    first, second = site.confirmed(1), site.taken_in(2)
    site("activate", second)
    assert f"{first[:12]}  dewpoint  confirmed" in site("list")[1]
    rows = json.loads(site("list", "--json")[1])
    assert {row["digest"]: row["is"] for row in rows} == {second: ["active"], first: ["confirmed"]}
    told = json.loads(site("status", "--json")[1])["dewpoint"]
    assert (told["active"], told["confirmed"], told["trial"]["stage"]) == (second, first, "running")


def test_an_empty_store_says_so(site: Site) -> None:
    assert site("status")[1] == "dewpoint: none is active\n"
    assert site("list") == (0, "", "")
    assert site("log", "--verify")[1].endswith("no event yet\n")


def test_a_line_of_the_log_that_was_changed_is_told_and_exits_1(site: Site) -> None:
    site.confirmed(1)
    assert "  confirmed  id=" in site("log")[1]
    assert json.loads(site("log", "--json")[1].splitlines()[0])["event"] == "staged"
    assert site("log", "--verify")[0] == 0
    log = site.store.folder / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"confirmed"', b'"cOnfirmed"'))
    code, out, err = site("log", "--verify")
    assert (code, out) == (1, "")
    assert "is not as it was when" in err or "is not as it was written" in err


def test_gc_removes_what_nothing_points_to(site: Site) -> None:
    first, loose = site.confirmed(1), site.taken_in(2)
    code, _, err = site("gc")
    assert (code, err) == (0, f"removed {loose[:12]}, which nothing points to\n1 removed, 1 kept\n")
    assert site.store.digests() == [first]


def test_a_store_that_says_something_else_stops_every_word(site: Site) -> None:
    site.confirmed(1)
    (site.store.folder / "store.json").write_text("{")
    for words in (("status",), ("list",), ("rollback",), ("confirm",), ("gc",)):
        assert site(*words)[0] == 78


def test_other_commands_take_the_active_bundle(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", str(site.config)]
    assert cli.main(["selftest", *config]) == 75
    assert cli.main(["run", *config]) == 75
    assert cli.main(["config", "show", *config]) == 0
    assert "store:dewpoint" in capsys.readouterr().out
    digest = site.confirmed(1)
    assert cli.main(["selftest", *config]) == 0
    # What stands under a digest has to be of that digest, however whole it is.
    other = site.bundle(3)
    shutil.rmtree(site.store.path(digest))
    shutil.copytree(other, site.store.path(digest))
    capsys.readouterr()
    assert cli.main(["selftest", *config]) == 1
    assert "stage it again: what stands in the store was changed" in capsys.readouterr().err
