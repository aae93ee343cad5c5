"""`edge-runtime bundle confirm`: proves the bundles of a device file once more, then forbids older ones; it serves none."""

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.errors import ConfigurationError, TemporaryError
from edge_runtime.run.boot import boot
from edge_runtime.run.config import LoadedConfig, load_config, slots_of, state_folder
from edge_runtime.run.memory import raise_floors
from edge_runtime.run.reports import line_of
from edge_runtime.run.setting import make_line_setting
from edge_runtime.spec.report import Report

if TYPE_CHECKING:
    from edge_runtime.bundle.store_state import Slot

_FAILED: Final = 1


def main(args: Namespace) -> int:
    """Raise the floors to the security_version of the bundles of ``args.config``: 0, or 1 where one does not pass.

    A bundle of the store must have passed its trial, and is what a later one falls back to from now on.

    Raises:
        ConfigurationError: the device file, its keys, its store or its state folder.
        DeviceError: the disk refuses, or the program's own files are missing.
        TemporaryError: a trial is still under way, or another process is writing the same memory.

    """
    loaded = load_config(Path(args.config))
    state = state_folder(loaded)
    if not state.is_dir():
        raise ConfigurationError(
            subject="state folder", found=f"{state}: no folder", expected="that of the device that serves",
            todo="start `edge-runtime run` once, which makes it, or correct state_dir",
        )  # fmt: skip
    if all(line.slot is None for line in loaded.config.line):
        return _confirm(loaded, state, {})
    from edge_runtime.run.store import store_of  # noqa: PLC0415 -- for those who have one

    store = store_of(loaded)
    with store.command():
        slots = store.state().bundles
        rolled_back = [name for name in slots_of(loaded) if name in slots and slots[name].rolled_back is not None]
        for name in rolled_back:
            _say(f"{name}: its last activation was rolled back; `edge-runtime bundle status` says why")
        if rolled_back:
            return _FAILED
        active = {name: slots[name] for name in slots_of(loaded) if name in slots}
        _require_passed(active)
        return _confirm(loaded, state, {name: slot.active for name, slot in active.items()})


def _confirm(loaded: LoadedConfig, state: Path, active: Mapping[str, str]) -> int:
    paths = dict.fromkeys(loaded.bundle(line) for line in loaded.config.line)
    reports = [boot(path, make_line_setting(loaded, path)).report for path in paths]
    for report in reports:
        _say(line_of(report))
    if any(report.state != "OPERATIONAL" for report in reports):
        _say("no floor was raised: every bundle of the device file has to pass")
        return _FAILED
    # First what a later bundle falls back to, then the floor: killed in between, nothing is refused that must serve.
    for name, digest in active.items():
        _confirm_in_store(loaded, name, digest)
    for name, (before, after) in raise_floors(state, _least(reports)).items():
        was = f"raised from {before}" if after > before else "as before"
        _say(f"{name}: a security_version below {after} is refused from now on ({was})")
    return 0


def _confirm_in_store(loaded: LoadedConfig, name: str, digest: str) -> None:
    from edge_runtime.run.store import store_of  # noqa: PLC0415 -- for those who have one
    from edge_runtime.run.supply import now  # noqa: PLC0415 -- the same

    if store_of(loaded).confirm(name, digest, now(), {}):
        _say(f"{name}: {digest[:12]} is confirmed")


def _require_passed(active: "Mapping[str, Slot]") -> None:
    for name, slot in active.items():
        if slot.trial is not None and slot.trial.stage != "passed":
            raise TemporaryError(
                subject=f"bundle store:{name}", found=f"{slot.active[:12]} still on trial, since {slot.trial.since}",
                expected="a trial that was passed, by a running service",
                todo="wait, and confirm again; `edge-runtime bundle status` tells, [store.trial] says what it takes",
            )  # fmt: skip


def _least(reports: Sequence[Report]) -> dict[str, int]:
    """By id the lowest security_version: of two lines with bundles of one id, confirming must not stop the older."""
    least: dict[str, int] = {}
    for report in reports:
        name, version = report.bundle["id"], report.bundle["security_version"]
        least[name] = min(least.get(name, version), version)
    return least


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
