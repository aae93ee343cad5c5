"""The program as a user starts it: a real process with the interpreter of the tests; it knows no module of ours."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


def command(*words: str) -> list[str]:
    """The command line of `edge-runtime` with these words."""
    return [sys.executable, "-m", "edge_runtime", *words]


def environment(home: Path) -> dict[str, str]:
    """This process's own, with ``home`` as the user's folder and state, and warnings as errors."""
    return os.environ | {
        "RUNTIME_DIRECTORY": str(home / "run"),
        "HOME": str(home),
        "STATE_DIRECTORY": str(home / "state"),
        "TMPDIR": str(home),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
    }


def run_program(
    *words: str, home: Path, cwd: Path | None = None, stdin: IO[bytes] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, both outputs as text."""
    return subprocess.run(
        command(*words),
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=environment(home),
        cwd=cwd,
        timeout=PATIENCE_S,
    )


def start_program(*words: str, home: Path, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start it with a pipe on both outputs; whoever starts it ends it.

    Unbuffered here: ``communicate`` would lose what a ``readline`` before it had read ahead.
    """
    return subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home), cwd=cwd, bufsize=0
    )
