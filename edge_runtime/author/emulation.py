"""Runs models on an emulated CPU of another instruction set, where QEMU's user mode is installed; it judges nothing."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import DeviceError

# AVX2 without VNNI, as most x86-64 machines of 2013 to 2019 are; the suffix leaves out an extension that QEMU lacks.
HASWELL = "Haswell-noTSX"
PROGRAM = "qemu-x86_64-static"
_SECONDS = 600
_CHILD = """
import sys
from pathlib import Path
import numpy as np
from edge_runtime.engine.session import open_session
folder = Path(sys.argv[1])
with np.load(folder / "feeds.npz") as archive:
    feeds = {name[1:]: archive[name] for name in archive.files}
for model in sorted(folder.glob("*.onnx")):
    found = open_session(model.read_bytes())(feeds)
    np.savez(model.with_suffix(".npz"), **{"=" + name: values for name, values in found.items()})
"""

Tensors = Mapping[str, NDArray[Any]]


def is_available() -> bool:
    """Whether QEMU's user mode is here and this machine's own programs are of x86-64."""
    return shutil.which(PROGRAM) is not None and os.uname().machine == "x86_64" and sys.platform == "linux"


def run_emulated(models: Mapping[str, bytes], feeds: Tensors, cpu: str = HASWELL) -> dict[str, dict[str, NDArray[Any]]]:
    """The outputs of each model, by its name, for these feeds, as that CPU computes them.

    Raises:
        DeviceError: QEMU is not here, or what ran in it failed.

    """
    if not is_available():
        raise DeviceError(
            subject=PROGRAM, found="not installed", expected="QEMU's user mode, on x86-64 Linux",
            todo="apt install qemu-user-static",
        )  # fmt: skip
    names = {f"{at:04}": name for at, name in enumerate(models)}
    with tempfile.TemporaryDirectory(prefix="edge-runtime-build-") as place:
        folder = Path(place)
        # A leading sign, because numpy.savez has a parameter called file.
        np.savez(folder / "feeds.npz", **_named(feeds))
        for short, name in names.items():
            (folder / f"{short}.onnx").write_bytes(models[name])
        _run([PROGRAM, "-cpu", cpu, sys.executable, "-c", _CHILD, place], cpu)
        return {name: _read((folder / f"{short}.npz").read_bytes()) for short, name in names.items()}


def _run(command: list[str], cpu: str) -> None:
    own = str(Path(__file__).parents[2])
    path = os.pathsep.join([own, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603 - our own command
        said, code = done.stderr.decode(errors="replace").strip().splitlines(), done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        said, code = [str(error)], 1
    if code:
        raise DeviceError(
            subject=f"{PROGRAM} -cpu {cpu}", found=f"exit {code}: {said[-1] if said else 'nothing said'}"[:200],
            expected="the models' outputs", todo="run it by hand, or build without it: it is then reported as not checked",
        )  # fmt: skip


def _named(feeds: Tensors) -> dict[str, Any]:
    return {"=" + name: values for name, values in feeds.items()}


def _read(data: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name[1:]: archive[name] for name in archive.files}
