"""The scripts for Mender, RAUC, SWUpdate and greenboot, each under a host that treats it as its documentation says."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.proof.station import FROST, ROOT, device_file
from tests.rig import update_hosts
from tests.rig.broker import free_port
from tests.rig.update_hosts import COMMITTED, ROLLED_BACK, UPDATERS, Outcome

HOSTS = ("mender", "rauc", "swupdate", "greenboot")
SCRIPTS = sorted(path for path in UPDATERS.rglob("*") if path.is_file() and path.suffix != ".service")
Host = Callable[..., Outcome]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    run = getattr(update_hosts, request.param)
    return partial(run, folder=tmp_path) if request.param in ("rauc", "swupdate") else run


def _environment(folder: Path, program: Path, config: Path, **more: str) -> dict[str, str]:
    (folder / "uptime").write_text(f"{more.pop('up', '900')}.25 1700.00\n")
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder), "EDGE_RUNTIME": str(program), "EDGE_RUNTIME_CONFIG": str(config),
        "EDGE_RUNTIME_UPTIME": str(folder / "uptime"), "STATE_DIRECTORY": str(folder / "state"), "PYTHONPATH": str(ROOT),
    } | more  # fmt: skip


def _program(folder: Path) -> Path:
    """The real one, as a file that can be started."""
    path = folder / "edge-runtime"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m edge_runtime "$@"\n')
    path.chmod(0o755)
    return path


def _scripted(folder: Path, *codes: int | str) -> Path:
    """One that ends with these codes, one after the other, then always with the last; a text is run in its place."""
    for at, code in enumerate(codes):
        (folder / f"turn{at}").write_text(code if isinstance(code, str) else f"exit {code}")
    path = folder / "scripted"
    path.write_text(
        f"#!/bin/sh\nn=$(cat {folder}/n 2>/dev/null || echo 0)\n[ $n -ge {len(codes)} ] && n={len(codes) - 1}\n"
        f'echo $((n + 1)) > {folder}/n\necho "asked: $*" >&2\n. {folder}/turn$n\n'
    )
    path.chmod(0o755)
    return path


def _lives(pid: int) -> bool:
    """One that has ended, and that nobody has taken leave of yet, has no command line any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_a_system_on_which_the_bundles_pass_is_kept(host: Host, tmp_path: Path) -> None:
    found = host(_environment(tmp_path, _program(tmp_path), device_file(tmp_path)))
    assert (found.what, found.runs) == (COMMITTED, 1), found.log
    assert "PASSED: frost" in found.log


def test_a_system_with_a_changed_bundle_is_rolled_back(host: Host, tmp_path: Path) -> None:
    shutil.copytree(FROST, tmp_path / "bundle")
    model = next((tmp_path / "bundle").glob("*.onnx"))
    data = bytearray(model.read_bytes())
    data[1000] ^= 1
    model.write_bytes(data)
    found = host(_environment(tmp_path, _program(tmp_path), device_file(tmp_path, bundle=tmp_path / "bundle")))
    assert found.what == ROLLED_BACK
    assert "FAILED" in found.log


def test_a_broker_that_is_away_and_a_port_that_is_unplugged_roll_nothing_back(host: Host, tmp_path: Path) -> None:
    config = device_file(
        tmp_path, source='{ kind = "serial", port = "/dev/ttyNowhere" }', sinks=('{ kind = "mqtt", topic = "out" }',)
    )
    broker = f'[broker]\nhost = "127.0.0.1"\nport = {free_port()}\n'
    config.write_text(config.read_text().replace("[[line]]", f"{broker}[[line]]", 1))
    found = host(_environment(tmp_path, _program(tmp_path), config))
    assert (found.what, found.runs) == (COMMITTED, 1), found.log


def test_what_fails_once_is_asked_again(host: Host, tmp_path: Path) -> None:
    """By another boot; by Mender, which boots once, where a port has not come up yet."""
    codes = {update_hosts.mender: (0, 21, 0), update_hosts.greenboot: (1, 0, 0)}.get(host, (1, 0))
    program = _scripted(tmp_path, *codes)
    found = host(_environment(tmp_path, program, tmp_path / "device.toml", up="40"))
    assert (found.what, found.runs) == (COMMITTED, 2), found.log


def test_one_that_never_ends_is_ended_and_rolled_back(host: Host, tmp_path: Path) -> None:
    """By the host's own limit with all that it had started; greenboot has none, so its script brings one."""
    program = _scripted(tmp_path, f"echo $$ >> {tmp_path}/pids; trap '' TERM; sleep 1000")
    environment = _environment(tmp_path, program, tmp_path / "device.toml", EDGE_RUNTIME_TIMEOUT="0.5")
    limits = {update_hosts.mender: {"limit_s": 1.0}, update_hosts.greenboot: {"attempts": 1}}
    found = host(environment, **limits.get(host, {"attempts": 2, "limit_s": 1.0}))
    assert found.what == ROLLED_BACK
    pids = (tmp_path / "pids").read_text().split()
    assert pids
    assert not [pid for pid in pids if _lives(int(pid))]


@pytest.mark.parametrize("code", [1, 2, 65, 69, 70, 75, 78, 126, 127, 139])
def test_every_failure_is_one_that_the_host_knows(host: Host, code: int, tmp_path: Path) -> None:
    found = host(_environment(tmp_path, _scripted(tmp_path, code), tmp_path / "device.toml"))
    assert found.what == ROLLED_BACK


def test_a_program_that_is_not_there_is_a_failure(host: Host, tmp_path: Path) -> None:
    assert host(_environment(tmp_path, tmp_path / "nothing", tmp_path / "device.toml")).what == ROLLED_BACK


def test_mender_waits_for_a_port_for_five_minutes_and_then_commits(tmp_path: Path) -> None:
    young = _environment(tmp_path, _scripted(tmp_path, 0, 21, 0, 0), tmp_path / "device.toml", up="40")
    found = update_hosts.mender(young)
    assert (found.what, found.runs) == (COMMITTED, 2)
    assert "--tier wanted --retry-code 21" in found.log
    old = _environment(tmp_path, _scripted(tmp_path, 0, 21), tmp_path / "device.toml", up="301")
    (tmp_path / "n").unlink()
    assert update_hosts.mender(old)[:2] == (COMMITTED, 1)


def test_swupdate_without_a_system_under_test_asks_nobody(tmp_path: Path) -> None:
    environment = _environment(tmp_path, tmp_path / "nothing", tmp_path / "device.toml")
    assert update_hosts.swupdate(environment, tmp_path, ustate="0")[:2] == (COMMITTED, 1)
    assert (tmp_path / "ustate").read_text() == "0"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_short_plain_and_executable(script: Path) -> None:
    lines = script.read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.startswith("#")]
    assert lines[0] == "#!/bin/sh"
    assert len(code) <= 12
    assert os.access(script, os.X_OK)
    subprocess.run(["/bin/sh", "-n", script], check=True)


def test_the_page_names_every_script_and_where_it_goes() -> None:
    page = (ROOT / "docs" / "updaters.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`packaging/updaters/([^`]+)`", page))
    assert {str(path.relative_to(UPDATERS)) for path in UPDATERS.rglob("*") if path.is_file()} == named
