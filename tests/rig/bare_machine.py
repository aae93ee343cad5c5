"""A machine that has nothing: a minimal Debian 12 without Python, network or init, in a folder; it installs nothing of ours."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SUITE: Final = "bookworm"
PATIENCE_S: Final = 300.0
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "edge-runtime-bare"
# Namespaces of its own: what is mounted goes with the last process, and no network is there at all.
_ENTER: Final = (
    "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec",
    (
        'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev";'
        ' exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 chroot "$0" "$@"'
    ),
)  # fmt: skip


def can_be_made() -> bool:
    """Whether this machine may have one: root, debootstrap, and namespaces that it may make."""
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], check=False).returncode == 0


class BareMachine:
    """A fresh copy of the base, under ``root``; `run` starts a program in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run(["cp", "-a", "--reflink=auto", f"{_base()}/.", str(root)], check=True)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program there to its end, both outputs as text."""
        return subprocess.run(
            [*_ENTER, str(self.root), *words], check=False, capture_output=True, text=True, input=stdin,
            timeout=PATIENCE_S,
        )  # fmt: skip


def _base() -> Path:
    """The base, made once: 70 s and 200 MB from Debian's mirror."""
    base = _CACHE / SUITE
    if not base.is_dir():
        _CACHE.mkdir(parents=True, exist_ok=True)
        new = _CACHE / f"{SUITE}.new-{os.getpid()}"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, str(new)], check=False, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stdout[-2000:]
        new.rename(base)
    return base


def programs(machine: BareMachine, names: Sequence[str]) -> list[str]:
    """Which of these programs it has."""
    return [name for name in names if machine.run("sh", "-c", f"command -v {name}").returncode == 0]
