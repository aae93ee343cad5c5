"""One frozen folder for all tests of it, and bare machines to put it on."""

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig import bare_machine
from tests.rig.bare_machine import BareMachine
from tests.rig.program import ROOT


def freeze(out: Path) -> Path:
    """Freeze into ``out``: the archive."""
    made = subprocess.run([ROOT / "scripts/freeze", "--out", out], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    (archive,) = out.glob("*.tar.xz")
    return archive


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the frozen folder and its archive."""
    return freeze(tmp_path_factory.mktemp("frozen")).parent


@pytest.fixture(scope="module")
def machine(frozen: Path, tmp_path_factory: pytest.TempPathFactory) -> BareMachine:
    """A bare machine with the archive unpacked in /opt, and nothing else done to it."""
    bare = BareMachine(tmp_path_factory.mktemp("bare"))
    (archive,) = frozen.glob("*.tar.xz")
    with tarfile.open(archive) as tar:
        tar.extractall(bare.root / "opt", filter="tar")
    return bare


@pytest.fixture(autouse=True)
def _needs_a_bare_machine(request: pytest.FixtureRequest, need: Callable[[object, str], None]) -> None:
    if "machine" in request.fixturenames:
        need(bare_machine.can_be_made(), "root, debootstrap and namespaces, to make a bare machine")
