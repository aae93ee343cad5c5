"""Brings a bundle into the store once it has passed its self-test there, in a process of its own; it activates nothing."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from edge_runtime.bundle.names import SIGNATURE_NAME
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.store import Store
from edge_runtime.bundle.verify import VerifiedBundle, verify
from edge_runtime.errors import BundleError
from edge_runtime.run.config import LoadedConfig, slots_of
from edge_runtime.run.supply import now
from edge_runtime.run.trust import read_trust, who_signed
from edge_runtime.spec.manifest import Manifest, parse

SELFTEST_S: Final = 300
"""What a self-test may take: the largest bundle on the smallest device takes a minute."""
_MAX_REPORT: Final = 4 * 1024 * 1024
_TOLD_BYTES: Final = 4096
_TOLD_CHARACTERS: Final = 300


class Staged(NamedTuple):
    """What was brought in."""

    digest: str
    manifest: Manifest
    is_new: bool
    removed: list[str]


def stage(path: Path, loaded: LoadedConfig, store: Store) -> Staged:
    """Verify the bundle at ``path``, copy it into the store and have the copy test itself; what fails is removed again.

    Raises:
        BundleError: it is damaged, not signed as the device asks, no line takes its id, or it fails its self-test.
        ConfigurationError: the trusted keys, or the store.
        DeviceError: the disk refuses.
        TemporaryError: another command is at work.

    """
    with store.command():
        store.sweep()
        bundle = verify(read_files(path), str(path))
        who_signed(bundle, bundle.signature, read_trust(loaded))
        manifest = parse(bundle.files.get("manifest.json", b""))
        _require_taken(manifest, loaded)
        everything = dict(bundle.signed_files)
        if bundle.signature is not None:
            everything[SIGNATURE_NAME] = bundle.signature
        told = {"id": manifest.id, "version": manifest.version}
        with store.arriving(everything) as arrived:
            found = _self_tested(arrived, loaded, bundle)
            is_new = store.take_in(arrived, bundle.digest, now(), told | {"checks": found})
        return Staged(bundle.digest, manifest, is_new, store.collect(now()))


def _require_taken(manifest: Manifest, loaded: LoadedConfig) -> None:
    slots = slots_of(loaded)
    if manifest.id not in slots:
        raise BundleError(
            subject="manifest.json, id", found=manifest.id,
            expected=f"{' or '.join(slots) or 'none'}: what the lines of {loaded.path} take from the store",
            todo=f'write bundle = "store:{manifest.id}" in a line, or stage the bundle that one takes',
        )  # fmt: skip


def _self_tested(arrived: Path, loaded: LoadedConfig, bundle: VerifiedBundle) -> int:
    """How many checks it passed, as the lines of the device file that take its id would boot it."""
    words = ["selftest", "--bundle", str(arrived), "--config", str(loaded.path), "--tier", "required", "--json", "-"]
    with tempfile.TemporaryFile() as report, tempfile.TemporaryFile() as told:
        code = _run(words, report, told, bundle.origin)
        report.seek(0)
        text = report.read(_MAX_REPORT)
        last = _last_line(told)
    found = _first(text)
    if code == 0 and found is not None and found["state"] == "OPERATIONAL":
        return sum(check["status"] == "pass" for check in found["checks"])
    checks = [] if found is None else found["checks"]
    failed = next((one for one in checks if one["status"] == "fail" and one["tier"] == "required"), None)
    if failed is None:
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise BundleError(
            subject=f"bundle {bundle.origin}", found=f"a self-test that ended with {ended} and no report: {last}",
            expected="one that passes", todo="run edge-runtime selftest on it: it may crash its provider",
        )  # fmt: skip
    raise BundleError(
        subject=f"self-test, {failed['id']}", found=failed["measured"], expected=failed["limit"], todo=failed["hint"]
    )


def _last_line(told: IO[bytes]) -> str:
    told.seek(0, os.SEEK_END)
    told.seek(max(0, told.tell() - _TOLD_BYTES))
    return (told.read().decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1][:_TOLD_CHARACTERS]


def _run(words: list[str], report: IO[bytes], told: IO[bytes], origin: str) -> int:
    own = [] if getattr(sys, "frozen", False) else ["-P", "-m", "edge_runtime"]
    try:
        done = subprocess.run(  # noqa: S603 -- this very program
            [sys.executable, *own, *words], stdin=subprocess.DEVNULL, stdout=report, stderr=told,
            timeout=SELFTEST_S, check=False, env=os.environ,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BundleError(
            subject=f"bundle {origin}", found=f"a self-test that was not done after {SELFTEST_S} s",
            expected="a report by then", todo="run edge-runtime selftest on it, and look where it hangs",
        ) from error  # fmt: skip
    return done.returncode


def _first(text: bytes) -> dict[str, Any] | None:
    """The report of the one bundle."""
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return next(iter(found["boots"]), None)
