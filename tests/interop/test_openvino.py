"""A second provider for real: the shipped bundles on onnxruntime-openvino, in an environment of its own; never in uv.lock."""

import json
import os
import re
import subprocess
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.rig.bundles import write_with_manifest
from tests.rig.need import need

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
OPENVINO = "onnxruntime-openvino==1.24.1"
PATIENCE_S = 1800
BUNDLES = sorted(path.parent for path in (ROOT / "bundles").glob("*/manifest.json"))
ELSEWHERE = 'name = "{}"\nschema = "edge-runtime/profile/1"\ndescription = "a test"\ninherits = "lab_pc"\n'


@pytest.fixture(scope="module")
def python() -> Path:
    """The environment's own interpreter; kept for the next time, since it is a quarter of a gigabyte."""
    home = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-runtime" / OPENVINO.replace("==", "-")
    )
    found = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not found.exists():
        venv.create(home, with_pip=True)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    command = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", OPENVINO, *wanted]
    installed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    need(installed.returncode == 0, f"{OPENVINO}, which pip could not install: {installed.stderr[-500:]}")
    return found


def selftest(python: Path, bundle: Path, profile: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and by check what the report says of it."""
    ran = subprocess.run(
        [python, "-m", "edge_runtime", "selftest", "--bundle", bundle, "--profile", profile, "--json", "-"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PATIENCE_S,
    )  # fmt: skip
    # Machine output and nothing else, also where OpenVINO would like to tell something.
    (boot,) = json.loads(ran.stdout)["boots"]
    return ran.returncode, {check["id"]: check for check in boot["checks"]}


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_a_bundle_on_openvino(python: Path, bundle: Path) -> None:
    """With its own class of tolerance, every node there; what is not for it is served by the CPU, and that is said."""
    code, checks = selftest(python, bundle, "lab_pc")
    for name in ("provider", "placement", "golden_output", "golden_batches", "provider_choice"):
        print(f"{bundle.name} {name}: {checks[name]['measured']}")  # noqa: T201 -- the shares, for who runs it with -s
    is_for_it = "OpenVINOExecutionProvider" in (bundle / "manifest.json").read_text()
    assert is_for_it == (bundle.name != "tiny_trees")
    assert code == (0 if is_for_it else 1)
    served = "OpenVINOExecutionProvider" if is_for_it else "CPUExecutionProvider"
    assert checks["provider"]["measured"].startswith(served)
    placed, _, nodes, *_ = checks["placement"]["measured"].split()
    assert placed == nodes
    assert checks["golden_output"]["status"] == "pass"
    assert checks["provider_choice"]["status"] == ("pass" if is_for_it else "fail")


@pytest.mark.parametrize(
    ("providers", "words"),
    [
        (
            '[[providers]]\nname = "OpenVINOExecutionProvider"\noptions = { device_type = "GPU" }\n',
            "provider OpenVINOExecutionProvider: found it runs nothing here",
        ),
        ('[[providers]]\nname = "CUDAExecutionProvider"\n', "provider: found CUDAExecutionProvider"),
    ],
    ids=["no such device", "not in this onnxruntime"],
)  # fmt: skip
def test_what_is_not_there_stops_the_boot(python: Path, tmp_path: Path, providers: str, words: str) -> None:
    profile = tmp_path / "odd.toml"
    profile.write_text(ELSEWHERE.format("odd") + providers)
    code, checks = selftest(python, ROOT / "bundles" / "frost", str(profile))
    assert code == 1
    (failed,) = [one["measured"] for one in checks.values() if one["status"] == "fail"]
    assert words in failed


def test_of_two_that_pass_the_fastest_serves(python: Path, tmp_path: Path) -> None:
    """Which one that is belongs to the machine; the figures of both stand there, and the choice is theirs."""
    profile = tmp_path / "quick.toml"
    profile.write_text(ELSEWHERE.format("quick") + 'choose = "fastest"\n')
    code, checks = selftest(python, ROOT / "bundles" / "frost", str(profile))
    told = checks["provider_choice"]
    print(f"frost provider_choice: {told['measured']}")  # noqa: T201 -- the figures, for who runs it with -s
    assert (code, told["status"], told["limit"]) == (0, "pass", "the fastest of the profile's list")
    number = r"([\d.e-]+) ms"
    found = re.fullmatch(
        rf"(\w+) \(OpenVINOExecutionProvider {number}; CPUExecutionProvider {number}\)", told["measured"]
    )  # fmt: skip
    assert found
    openvino_ms, cpu_ms = float(found[2]), float(found[3])
    assert found[1] == ("CPUExecutionProvider" if cpu_ms <= openvino_ms * 2 / 3 else "OpenVINOExecutionProvider")
    assert checks["provider"]["measured"].startswith(found[1])


def test_what_openvino_does_not_take_is_a_fallback_beyond_the_share(python: Path, tmp_path: Path) -> None:
    """Trees, with a tolerance for OpenVINO that their author never gave: without a share no session, with one too small no boot."""
    bundle = write_with_manifest(ROOT / "bundles" / "tiny_trees", tmp_path / "trees", _tolerated)
    for share, check in ((0.0, "provider"), (0.4, "placement")):
        profile = tmp_path / "share.toml"
        profile.write_text(
            ELSEWHERE.format("share")
            + f'[[providers]]\nname = "OpenVINOExecutionProvider"\nallowed_elsewhere = {share}\n'
        )
        code, checks = selftest(python, bundle, str(profile))
        assert code == 1
        assert next(name for name, one in checks.items() if one["status"] == "fail") == check
    assert "on CPUExecutionProvider" in checks["placement"]["measured"]
    assert checks["placement"]["limit"] == "OpenVINOExecutionProvider, at most 40% elsewhere"


def _tolerated(raw: dict[str, Any]) -> None:
    for variant in raw["variants"]:
        variant["tolerances"]["OpenVINOExecutionProvider"] = variant["tolerances"]["CPUExecutionProvider"]
