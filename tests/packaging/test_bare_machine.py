"""The frozen folder on a Debian without Python and without a network: it demonstrates, proves, serves and refuses."""

import json
import shutil
from pathlib import Path

import pytest

from edge_runtime.commands import COMMANDS, Command
from tests.rig.bare_machine import BareMachine, programs
from tests.rig.bundles import ROOT
from tests.rig.signing import make_key, sign_with, trust

pytestmark = pytest.mark.long

PROGRAM = "/opt/edge-runtime/edge-runtime"
BUNDLES = "/opt/edge-runtime/_internal/bundles"
ANSWERS = 169
AUTHORS = [command for command in COMMANDS if command.handler.startswith("edge_runtime.author")]


def test_there_is_no_python(machine: BareMachine) -> None:
    assert programs(machine, ["python", "python3", "perl", "sh"]) == ["perl", "sh"]
    assert list(machine.root.glob("usr/bin/python*")) == []


def test_demo(machine: BareMachine) -> None:
    done = machine.run(PROGRAM, "demo")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, len(answers)) == (0, ANSWERS), done.stderr
    assert sum(answer["low"]["frost"] for answer in answers) == 115
    assert done.stderr.splitlines()[-1].startswith("done: 169 answers, 115 of them with a frost warning")


@pytest.mark.parametrize("bundle", sorted(path.name for path in (ROOT / "bundles").iterdir() if path.is_dir()))
def test_selftest(machine: BareMachine, bundle: str) -> None:
    done = machine.run(PROGRAM, "selftest", "--bundle", f"{BUNDLES}/{bundle}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nPASSED: " in done.stderr


def test_a_tampered_bundle_is_refused_and_never_answers(machine: BareMachine) -> None:
    shutil.copytree(machine.root / "opt/edge-runtime/_internal", machine.root / "srv/copy", symlinks=True)
    model = machine.root / "srv/copy/bundles/frost/model_int8.onnx"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    done = machine.run(PROGRAM, "selftest", "--bundle", "/srv/copy/bundles/frost")
    assert done.returncode == 1
    assert "FAILED: /srv/copy/bundles/frost: files; it must not serve" in done.stderr
    assert machine.run(PROGRAM, "verify", "/srv/copy/bundles/frost").returncode == 65
    frost = "/srv/copy/examples/frost"
    run = machine.run(PROGRAM, "replay", f"{frost}/station_us_units.csv", "--config", f"{frost}/device.toml")
    assert (run.returncode, run.stdout) == (65, "")
    assert "model_int8.onnx" in run.stderr


def test_a_signature_is_checked(machine: BareMachine, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bundles/frost", machine.root / "srv/signed")
    key, other = make_key(tmp_path / "maker"), make_key(tmp_path / "other")
    sign_with(key, machine.root / "srv/signed")
    trust(machine.root / "srv/right", key)
    trust(machine.root / "srv/wrong", other)
    right = machine.run(PROGRAM, "verify", "/srv/signed", "--keys", "/srv/right")
    wrong = machine.run(PROGRAM, "verify", "/srv/signed", "--keys", "/srv/wrong")
    assert (right.returncode, wrong.returncode) == (0, 65), right.stderr + wrong.stderr


def test_a_session_has_a_process_of_its_own(machine: BareMachine) -> None:
    profile = machine.root / "srv/apart.toml"
    profile.write_text(
        'schema = "edge-runtime/profile/1"\nname = "apart"\ndescription = "isolated"\ninherits = "generic_x86"\n'
        "[isolation]\nmemory_mb = 256\ntimeout_s = 5.0\n"
    )
    done = machine.run(PROGRAM, "selftest", "--bundle", f"{BUNDLES}/frost", "--profile", "/srv/apart.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CPUExecutionProvider, 1 thread, in a process of its own" in done.stderr


@pytest.mark.parametrize("command", AUTHORS, ids=lambda one: one.name)
def test_the_author_s_half_is_elsewhere(machine: BareMachine, command: Command) -> None:
    done = machine.run("sh", "-c", command.example.replace("edge-runtime", PROGRAM, 1))
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == (
        f"edge-runtime: `edge-runtime {command.name}`: found the device's half of edge-runtime alone, as it is frozen;"
        " expected a workstation with the author's half; install edge-runtime[cpu,author,signing] there with pip\n"
    )


def test_nothing_was_left_behind_but_what_was_asked_for(machine: BareMachine) -> None:
    """Nothing into the program's own folder, which may be on a root that cannot be written."""
    assert list((machine.root / "opt/edge-runtime").rglob("*.pyc")) == []
    assert sorted(path.name for path in (machine.root / "opt/edge-runtime").iterdir()) == [
        "LICENSE", "NOTICE", "_internal", "edge-runtime", "licenses", "sbom.cdx.json",
    ]  # fmt: skip
