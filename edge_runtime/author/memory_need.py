"""What a process that serves a bundle takes of memory, held against what its author states; it measures on Linux alone."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from edge_runtime.author.trial import failures_of, written
from edge_runtime.errors import DeviceError
from edge_runtime.spec.manifest import parse

_PATIENCE_S: Final = 600.0
"""What a boot in a process of its own may take; this one has done the same before."""


class Measured(NamedTuple):
    """By variant the most that a process which served it had resident, MB of 10^6 bytes; and what is wrong, a line each.

    A variant is missing where the system does not tell.
    """

    mb: dict[str, int]
    failures: tuple[str, ...]


def measure(files: Mapping[str, bytes], variants: Sequence[str]) -> Measured:
    """Boot each variant of the bundle of these files in a process of its own, where nothing else has taken memory.

    A device's process takes what that one does: Python, this program, onnxruntime, the session while it is loaded, and
    every batch size of the closed list, full. A statement below it is refused, since a boot asks for what is stated.

    Raises:
        DeviceError: such a process cannot be started, or ends otherwise than it should.

    """
    stated = parse(files["manifest.json"]).needs.memory_mb
    mb, failures = dict[str, int](), list[str]()
    with written(files) as folder:
        for name in variants:
            refused, peak = _in_a_process(folder, name)
            failures += refused
            if peak is None:
                continue
            mb[name] = math.ceil(peak)
            if mb[name] > stated:
                failures.append(
                    f"needs.memory_mb: found {stated:g}; expected {mb[name]} or more, which a process took here that booted "
                    f"{name} at every batch size; state that and some room beside it: a device asks for what is stated "
                    "before it loads the model"
                )
    return Measured(mb, tuple(failures))


def _in_a_process(folder: Path, variant: str) -> tuple[Sequence[str], float | None]:
    """What a boot there failed, and its peak."""
    places = os.pathsep.join(str(Path(place).absolute()) for place in sys.path)
    try:
        done = subprocess.run(  # noqa: S603 -- this program, and a folder of ours
            [sys.executable, "-P", "-m", __name__, str(folder), variant],
            env=os.environ | {"PYTHONPATH": places}, stdin=subprocess.DEVNULL, capture_output=True, check=True,
            timeout=_PATIENCE_S,
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        said = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip().splitlines()
        raise DeviceError(
            subject="a boot of the bundle in a process of its own", found=said[-1] if said else str(error),
            expected="the boot that has passed in this one", todo="free memory and processes, and build again",
        ) from error  # fmt: skip
    return found["failures"], found["peak_mb"]


def _peak_mb() -> float | None:
    """The most that this process has had resident. Not ru_maxrss, which begins with what the parent had."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


if __name__ == "__main__":
    refused = failures_of(Path(sys.argv[1]), sys.argv[2])
    sys.stdout.write(json.dumps({"failures": refused, "peak_mb": _peak_mb()}) + "\n")
