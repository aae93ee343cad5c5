"""scripts/gpu-check as far as it goes without a GPU: it says that nothing was checked, and its parts do what they say."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from edge_runtime.device.probe import Machine
from edge_runtime.device.profiles import load_profile
from tests.rig.bundles import DEWPOINT, FROST, ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_check", ROOT / "scripts/gpu_check.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_without_a_gpu_nothing_was_checked(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert script.main(["--report", str(report)], root=tmp_path) == 77
    assert capsys.readouterr().out == "no GPU here: nothing was checked\n"
    assert not report.exists()


def test_the_command_hands_its_exit_code_on() -> None:
    if any((Path("/") / name).exists() for name in ("dev/nvidia0", "dev/nvgpu/igpu0/ctrl", "dev/nvhost-gpu")):
        pytest.skip("there is a GPU here, so scripts/gpu-check would check it")
    done = subprocess.run([ROOT / "scripts/gpu-check"], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (77, "no GPU here: nothing was checked\n")


def test_what_it_would_run_is_run_here_on_the_cpu(script: ModuleType, tmp_path: Path) -> None:
    found = {one["subject"]: one for one in script.everything(tmp_path, 0.5, [DEWPOINT, FROST], [script.CPU])}
    cold, warm = (found[f"dewpoint on {script.CPU}, {state}"] for state in ("cold", "warm"))
    assert {cold["status"], warm["status"]} == {"pass"}
    assert " ms, " in cold["latency"]
    assert " ms, " in cold["cpu"]
    assert cold["placement"].endswith(" nodes on CPUExecutionProvider")
    assert found[f"frost on {script.CPU}"]["said"] == "no variant of it is for this provider: not checked"
    # Here the first drill is refused for another reason than it must be, and that counts as failed.
    drills = [one["status"] for subject, one in found.items() if subject.startswith("drill")]
    assert drills == ["fail", "pass", "pass"]


@pytest.mark.parametrize("provider", ["CUDAExecutionProvider", "TensorrtExecutionProvider"])
def test_the_profile_it_writes_is_one(script: ModuleType, tmp_path: Path, provider: str) -> None:
    path = tmp_path / "gpu_check.toml"
    path.write_text(script.PROFILE.format(provider=provider, options=script.caches(provider)))
    assert load_profile(str(path), Machine(architecture="x86_64"), []).providers[0].name == provider
