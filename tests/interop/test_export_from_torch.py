"""examples/export_from_torch.py run for real, in an environment of its own that has torch; nothing of it enters uv.lock."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from edge_runtime import author
from tests.rig.need import need

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TORCH = "torch==2.13.0"
PATIENCE_S = 1800


@pytest.fixture(scope="module")
def python() -> Path:
    """The environment's own interpreter; kept for the next time, since torch takes a while."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-runtime" / TORCH.replace("==", "-")
    found = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not found.exists():
        venv.create(home, with_pip=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # Only pip looks where a machine may keep a file of torch's CPU build; anybody else's default is several GB.
    command = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", TORCH, "onnxscript"]
    command += [*project["dependencies"], *extras["cpu"], *extras["author"]]
    installed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    need(installed.returncode == 0, f"{TORCH}, which pip could not install: {installed.stderr[-500:]}")
    return found


def test_the_recipe_runs_as_it_stands(python: Path, tmp_path: Path) -> None:
    out = tmp_path / "pack"
    ran = subprocess.run(
        [python, ROOT / "examples" / "export_from_torch.py", out], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PATIENCE_S,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    assert said["in training mode, recorded"].startswith("refused. asked again, the callable, output: found ")
    assert "in training mode, its training_mode input is true" in said["in training mode, built"]
    assert "model_float32.onnx" in said["in evaluation mode, built"]
    assert "batches of 1, 7 and 64" in said["parity"]
    # The same pack without torch, by this environment: what was recorded there is proven here.
    again = author.build_bundle(out / "contract.toml")
    assert again == {path.name: path.read_bytes() for path in (out / "bundle").iterdir()}
    assert sys.modules.get("torch") is None
