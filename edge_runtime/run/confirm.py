"""`edge-runtime bundle confirm`: proves the bundles of a device file once more, then forbids older ones; it serves none."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import boot
from edge_runtime.run.config import load_config, state_folder
from edge_runtime.run.memory import raise_floors
from edge_runtime.run.reports import line_of
from edge_runtime.run.setting import make_line_setting
from edge_runtime.spec.report import Report

_FAILED: Final = 1


def main(args: Namespace) -> int:
    """Raise the floors to the security_version of the bundles of ``args.config``: 0, or 1 where one does not pass.

    Raises:
        ConfigurationError: the device file, its keys or its state folder.
        DeviceError: the disk refuses, or the program's own files are missing.
        TemporaryError: another process is writing the same memory.

    """
    loaded = load_config(Path(args.config))
    state = state_folder(loaded)
    if not state.is_dir():
        raise ConfigurationError(
            subject="state folder", found=f"{state}: no folder", expected="that of the device that serves",
            todo="start `edge-runtime run` once, which makes it, or correct state_dir",
        )  # fmt: skip
    paths = dict.fromkeys(loaded.resolve(line.bundle) for line in loaded.config.line)
    reports = [boot(path, make_line_setting(loaded, path)).report for path in paths]
    for report in reports:
        _say(line_of(report))
    if any(report.state != "OPERATIONAL" for report in reports):
        _say("no floor was raised: every bundle of the device file has to pass")
        return _FAILED
    for name, (before, after) in raise_floors(state, _least(reports)).items():
        was = f"raised from {before}" if after > before else "as before"
        _say(f"{name}: a security_version below {after} is refused from now on ({was})")
    return 0


def _least(reports: Sequence[Report]) -> dict[str, int]:
    """By id the lowest security_version: of two lines with bundles of one id, confirming must not stop the older."""
    least: dict[str, int] = {}
    for report in reports:
        name, version = report.bundle["id"], report.bundle["security_version"]
        least[name] = min(least.get(name, version), version)
    return least


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
