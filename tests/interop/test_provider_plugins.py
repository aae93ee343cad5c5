"""Real provider libraries that find no device of theirs here: each is refused in one line, in an environment of its own."""

import json
import os
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest

from tests.rig.bundles import DEWPOINT, FROST, write_with_manifest
from tests.rig.device_file import line, write_device_file
from tests.rig.need import need

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PACKAGES = ("onnxruntime==1.32.0", "onnxruntime-ep-openvino==1.8.1", "onnxruntime-ep-webgpu==0.4.0")
PATIENCE_S = 1800
PLUGINS = {"OpenVINOExecutionProvider": "onnxruntime_ep_openvino", "WebGpuExecutionProvider": "onnxruntime_ep_webgpu"}
PROFILE = (
    'name = "odd"\nschema = "edge-runtime/profile/1"\ndescription = "a test"\ninherits = "generic_x86"\n'
    '[[providers]]\nname = "{}"\nlibrary = "{}"\n'
)
WHERE = "import {0}; print({0}.get_library_path())"


@pytest.fixture(scope="module")
def python() -> Path:
    """The environment's own interpreter; kept for the next time, since it is a quarter of a gigabyte."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-runtime" / "provider-plugins"
    found = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not found.exists():
        venv.create(home, with_pip=True)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    command = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES, *wanted]
    installed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    need(installed.returncode == 0, f"{PACKAGES}, which pip could not install: {installed.stderr[-500:]}")
    return found


def library(python: Path, provider: str) -> Path:
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    said = subprocess.run(
        [python, "-c", WHERE.format(PLUGINS[provider])],
        capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE_S,
    )  # fmt: skip
    return Path(said.stdout.strip()).resolve()


def run(python: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "edge_runtime", *words],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PATIENCE_S,
    )  # fmt: skip


@pytest.mark.parametrize("provider", PLUGINS)
def test_a_library_without_its_device_stops_the_boot(python: Path, tmp_path: Path, provider: str) -> None:
    def allow(raw: dict[str, object]) -> None:
        (variant,) = raw["variants"]  # type: ignore[misc]
        variant["tolerances"][provider] = variant["tolerances"]["CPUExecutionProvider"]

    bundle = write_with_manifest(FROST, tmp_path / "bundle", allow)
    path = library(python, provider)
    profile = tmp_path / "odd.toml"
    profile.write_text(PROFILE.format(provider, path))
    ran = run(python, "selftest", "--bundle", bundle, "--profile", profile, "--json", "-")
    assert ran.returncode == 1, ran.stderr
    (boot,) = json.loads(ran.stdout)["boots"]
    failed = {check["id"]: check for check in boot["checks"] if check["status"] == "fail"}
    if "provider" not in failed:
        pytest.skip(f"NOT CHECKED: {provider} has a device here")
    assert list(failed) == ["provider"]
    assert failed["provider"]["measured"] == f"provider's library {path}: found its library is there, but no device"
    assert boot["state"] == "ERROR"


def test_doctor_says_that_it_tried_it(python: Path, tmp_path: Path) -> None:
    path = library(python, "WebGpuExecutionProvider")
    (tmp_path / "odd.toml").write_text(PROFILE.format("WebGpuExecutionProvider", path))
    config = write_device_file(tmp_path, line("one", DEWPOINT))
    config.write_text(config.read_text().replace("state_dir", 'profile = "odd.toml"\nstate_dir'))
    ran = run(python, "doctor", "--config", config, "--json")
    findings = {one["subject"]: one for one in json.loads(ran.stdout)["findings"]}
    found = findings["provider WebGpuExecutionProvider"]
    assert found["status"] == "fail"
    assert found["text"].startswith("refused when tried: provider's library ")
