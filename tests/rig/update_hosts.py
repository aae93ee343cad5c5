"""Hosts of over-the-air updates as their documentation says they treat a script; none of them is the project itself.

Sources: Mender, "State scripts" (exit codes, retry, time limit, process group, standard error alone); greenboot's README
(required.d, wanted.d, attempts); RAUC, "Integration" (mark-good, the bootloader's attempts); SWUpdate, "Best practice"
(ustate, boot counter).
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

UPDATERS = Path(__file__).parents[2] / "packaging" / "updaters"
COMMITTED, ROLLED_BACK = "committed", "rolled back"


class Outcome(NamedTuple):
    """What became of a new system, after how many runs of the script, and what the host's log has of it."""

    what: str
    runs: int
    log: str


def _run(script: Path, environment: Mapping[str, str], limit_s: float) -> tuple[int | None, bytes, bytes]:
    """The exit code, None where the host's own limit ended it and all that it had started."""
    with subprocess.Popen(
        [str(script)], env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, told = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, told = process.communicate()
            return None, said, told
        return process.returncode, said, told


def mender(environment: Mapping[str, str], *, limit_s: float = 60, retries: int = 3) -> Outcome:
    """Run the state script before the commit: 0 goes on, 1 rolls back, 21 is asked again, any other is reserved."""
    (script,) = (UPDATERS / "mender").iterdir()
    log = b""
    for run in range(1, retries + 2):
        code, _, told = _run(script, environment, limit_s)
        log += told
        assert code in (None, 0, 1, 21), f"{code} is reserved"
        if code != 21:
            return Outcome(COMMITTED if code == 0 else ROLLED_BACK, run, log.decode())
    return Outcome(ROLLED_BACK, run, log.decode())  # its time for asking again is used up


def greenboot(environment: Mapping[str, str], *, attempts: int = 3, **_: object) -> Outcome:
    """Boot until the required scripts pass, and roll back once the attempts are used up; wanted ones may fail."""
    log = b""
    for boot in range(1, attempts + 1):
        codes = []
        for script in sorted((UPDATERS / "greenboot/required.d").iterdir()):
            code, said, told = _run(script, environment, 60)
            log += said + told
            codes.append(code)
        for script in sorted((UPDATERS / "greenboot/wanted.d").iterdir()):
            code, said, told = _run(script, environment, 60)
            log += said + told + f"wanted: {code}\n".encode()
        if not any(codes):
            return Outcome(COMMITTED, boot, log.decode())
    return Outcome(ROLLED_BACK, boot, log.decode())


def _stub(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def _boots(
    script: Path, environment: Mapping[str, str], is_confirmed: Callable[[], bool], attempts: int, limit_s: float
) -> Outcome:
    """A bootloader that counts the starts of a slot: confirmed it stays, else the other slot is started in the end.

    The unit reboots where the script fails, or takes longer than its TimeoutStartSec, here ``limit_s``.
    """
    unit = script.with_suffix(".service").read_text()
    assert "FailureAction=reboot" in unit
    assert "TimeoutStartSec=" in unit
    log = b""
    for boot in range(1, attempts + 1):
        code, said, told = _run(script, environment, limit_s)
        log += said + told
        if is_confirmed():
            assert code == 0
            return Outcome(COMMITTED, boot, log.decode())
        assert code in (None, 1), "the unit would not reboot"
    return Outcome(ROLLED_BACK, boot, log.decode())


def rauc(environment: Mapping[str, str], folder: Path, *, attempts: int = 3, limit_s: float = 60) -> Outcome:
    """Boot a new slot until `rauc status mark-good` was called, as its bootloader's attempts allow."""
    marked = folder / "marked"
    _stub(folder, "rauc", f'echo "$@" >> {marked}')
    found = _boots(
        UPDATERS / "rauc/edge-runtime-mark-good", {**environment, "PATH": f"{folder}:{environment['PATH']}"},
        marked.exists, attempts, limit_s,
    )  # fmt: skip
    assert not marked.exists() or marked.read_text() == "status mark-good\n"
    return found


def swupdate(
    environment: Mapping[str, str], folder: Path, *, attempts: int = 3, limit_s: float = 60, ustate: str = "1"
) -> Outcome:
    """Boot a new system until ``ustate`` was set to 0, as its bootloader's counter allows."""
    state = folder / "ustate"
    state.write_text(ustate)
    _stub(folder, "fw_printenv", f'[ "$*" = "-n ustate" ] && cat {state}')
    _stub(folder, "fw_setenv", f'[ "$1" = ustate ] && printf %s "$2" > {state}')
    return _boots(
        UPDATERS / "swupdate/edge-runtime-confirm", {**environment, "PATH": f"{folder}:{environment['PATH']}"},
        lambda: state.read_text() != "1", attempts, limit_s,
    )  # fmt: skip
