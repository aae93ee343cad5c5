"""Only `bundle confirm` raises a floor, after a pass; older bundles are refused from then on, whatever was killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.run.memory import MEMORY_NAME
from tests.rig.bundles import DEWPOINT, write_with_manifest
from tests.rig.device_file import line, write_device_file
from tests.rig.program import environment, run_program
from tests.run.test_memory import locked

SAMPLE = '{"t": 68.0, "rh": 50.0, "p": 1013.25}\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A device file for a bundle of security_version 5 and a recording of one sample, its state folder ready."""
    (tmp_path / "sample.jsonl").write_text(SAMPLE)
    _bundle(tmp_path, 5)
    return write_device_file(tmp_path, _line(tmp_path / "dewpoint"))


def _line(bundle: Path, name: str = "roof") -> str:
    return line(name, bundle, source='kind = "replay"\npath = "sample.jsonl"')


def _bundle(folder: Path, version: int, name: str = "dewpoint") -> Path:
    return write_with_manifest(DEWPOINT, folder / name, lambda raw: raw.update(security_version=version))


def _run(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_program(*words, "--config", str(config), home=config.parent)


def _memory(config: Path) -> dict[str, Any]:
    path = config.parent / "state" / MEMORY_NAME
    return json.loads(path.read_text()) if path.exists() else {}


def _floors(config: Path) -> dict[str, int]:
    return _memory(config).get("floors", {})


def test_a_pass_raises_the_floor_and_older_ones_are_refused(config: Path) -> None:
    done = _run(config, "bundle", "confirm")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "PASSED: dewpoint 1.0.0; not checked: signature; it may serve",
        "dewpoint: a security_version below 5 is refused from now on (raised from 0)",
    ]
    assert _floors(config) == {"dewpoint": 5}
    assert "from now on (as before)" in _run(config, "bundle", "confirm").stderr
    assert _run(config, "run").returncode == 0, "what was confirmed serves"
    _bundle(config.parent, 4)
    said = "rollback_floor: bundle dewpoint, security_version: found 4; expected 5 or more, the floor of this device"
    for words, code in ((("selftest",), 1), (("run", "--exit-on-refusal"), 65), (("bundle", "confirm"), 1)):
        done = _run(config, *words)
        assert (done.returncode, done.stdout) == (code, "")
        assert said in done.stderr or words == ("selftest",)
    assert "FAIL  rollback_floor     bundle dewpoint, security_version: found 4" in _run(config, "selftest").stderr
    assert "no floor was raised: every bundle of the device file has to pass" in done.stderr
    assert _floors(config) == {"dewpoint": 5}


def test_nothing_else_raises_it(config: Path) -> None:
    bundle = str(config.parent / "dewpoint")
    for words in (
        ("selftest",),
        ("run",),
        ("doctor",),
        ("config", "show"),
        ("replay", str(config.parent / "sample.jsonl")),
    ):
        assert _run(config, *words).returncode == 0, words
    _run(config, "status")
    for words in (("verify", bundle), ("inspect", bundle), ("selftest", "--bundle", bundle)):
        assert run_program(*words, home=config.parent).returncode == 0
    assert _memory(config)["last_passes"], "the file was written, but"
    assert _floors(config) == {}
    _bundle(config.parent, 1)
    assert _run(config, "selftest").returncode == 0, "an older bundle still serves"


@pytest.mark.parametrize("damage", ["files", "goldens"])
def test_a_bundle_that_does_not_pass_raises_none(config: Path, damage: str) -> None:
    """Nor does it for the others of the device: what was confirmed is the device as it stands."""
    broken = _bundle(config.parent, 7, "broken")
    if damage == "files":
        (broken / "golden.npz").write_bytes(b"")
    else:
        write_with_manifest(broken, broken, lambda raw: raw.update(preprocess=[]))
    write_device_file(config.parent, _line(config.parent / "dewpoint"), _line(broken, "yard"))
    done = _run(config, "bundle", "confirm")
    assert done.returncode == 1
    assert "FAILED: " in done.stderr
    assert _memory(config) == {}


def test_two_bundles_of_one_id_are_both_left_to_serve(config: Path) -> None:
    other = _bundle(config.parent, 3, "other")
    write_device_file(config.parent, _line(config.parent / "dewpoint"), _line(other, "yard"))
    assert _run(config, "bundle", "confirm").returncode == 0
    assert _floors(config) == {"dewpoint": 3}
    assert _run(config, "selftest").returncode == 0


def test_without_a_state_folder(config: Path) -> None:
    (config.parent / "state").rmdir()
    done = _run(config, "bundle", "confirm")
    assert (done.returncode, done.stderr.count("\n")) == (78, 1)
    assert "state: no folder; expected that of the device that serves; start `edge-runtime run` once" in done.stderr


def test_while_another_process_writes(config: Path) -> None:
    with locked(config.parent / "state"):
        done = _run(config, "bundle", "confirm")
        assert done.returncode == 75
        assert "another process writing it" in done.stderr.splitlines()[-1]
        done = _run(config, "selftest")
        assert done.returncode == 0
        assert "this pass is not recorded" in done.stderr
        assert _run(config, "run").returncode == 0, "a memory that is busy keeps no device from serving"
    assert _memory(config) == {}


@pytest.mark.parametrize(
    ("last", "floor"), [("os.fsync", 3), ("pathlib.Path.replace", 3), ("whole_file._sync_folder", 5)]
)
def test_killed_in_the_middle_it_is_the_old_floor_or_the_new(config: Path, last: str, floor: int) -> None:
    _bundle(config.parent, 3)
    assert _run(config, "bundle", "confirm").returncode == 0
    before = _memory(config)
    _bundle(config.parent, 5)
    words = ["bundle", "confirm", "--config", str(config)]
    program = (
        "import os, pathlib, sys; from edge_runtime.run import whole_file; from edge_runtime.cli import main\n"
        f"{last} = lambda *_: os.kill(os.getpid(), 9)\n"
        f"main({words!r})"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, env=environment(config.parent)
    )
    assert killed.returncode == -9
    assert _memory(config) == before | {"floors": {"dewpoint": floor}}
    assert _run(config, "selftest").returncode == 0
    _bundle(config.parent, floor - 1)
    assert _run(config, "run", "--exit-on-refusal").returncode == 65
    _bundle(config.parent, 5)
    assert _run(config, "bundle", "confirm").returncode == 0, "what was left behind is in nobody's way"
    assert _floors(config) == {"dewpoint": 5}
