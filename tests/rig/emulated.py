"""The whole program on an emulated processor, several calls in one: `python emulated.py CALLS.json`, a list of command lines.

The interpreter takes far longer to start there than a self-test does. Each call prints one line: its exit code.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from edge_runtime.__main__ import main
from edge_runtime.author.emulation import PROGRAM

ROOT = Path(__file__).parents[2]
PATIENCE_S = 900
# What these processors do not have; the kernel's list is of the machine below, which emulation does not hide.
_LACKS = {
    "Haswell-noTSX": r"(avx512\w*|avx_vnni\w*|amx\w*)",
    "Nehalem": r"(avx\w*|amx\w*|fma|f16c|bmi\d)",
}


def start(cpu: str, calls: list[list[str]], folder: Path) -> "subprocess.Popen[str]":
    """Make these calls of the program on an emulated ``cpu`` whose /proc/cpuinfo, under ``folder``, is true to it."""
    text = Path("/proc/cpuinfo").read_text()
    kept = re.sub(rf"(?m)(?<= ){_LACKS[cpu]}(?= |$)", "", text)
    (folder / "proc").mkdir(parents=True)
    (folder / "proc/cpuinfo").write_text(kept)
    (folder / "calls.json").write_text(json.dumps(calls))
    return subprocess.Popen(
        [PROGRAM, "-L", str(folder), "-cpu", cpu, sys.executable, "-m", "tests.rig.emulated", str(folder / "calls.json")],
        cwd=ROOT, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def codes(program: "subprocess.Popen[str]") -> list[int]:
    """The exit code of each call."""
    said, told = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, told[-3000:]
    return [int(line) for line in said.splitlines()]


if __name__ == "__main__":
    for call in json.loads(Path(sys.argv[1]).read_text()):
        sys.argv[1:] = call
        code = main()
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()
