"""A second provider for real: the shipped bundles on onnxruntime-openvino, in an environment of its own; never in uv.lock."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.rig.bundles import write_with_manifest
from tests.rig.device_file import line, write_device_file
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


NAME = "OpenVINOExecutionProvider"
KEEPING = f'[[providers]]\nname = "{NAME}"\noptions = {{ device_type = "CPU" }}\ncache = true\n'
# Another onnxruntime, as far as the program can see: what it says of its version.
OTHER_VERSION = (
    "import sys; from edge_runtime.engine import session; session.version = lambda: '1.24.2'; "
    "from edge_runtime.__main__ import main; sys.exit(main())"
)


class Keeping:
    """A device whose OpenVINO keeps what it has compiled, and its self-tests."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.config = write_device_file(folder, line("roof", ROOT / "bundles" / "dewpoint"))
        self.profile = folder / "keeping.toml"
        self.profile.write_text(ELSEWHERE.format("keeping") + KEEPING)

    def boot(
        self, bundle: str = "frost", *, program: tuple[str, ...] = ("-m", "edge_runtime"), python: Path | None = None
    ) -> tuple[int, dict[str, Any], dict[str, dict[str, Any]]]:
        """The exit code, the report, and by check what it says."""
        words = ["selftest", "--config", self.config, "--bundle", ROOT / "bundles" / bundle, "--profile", self.profile]
        ran = subprocess.run(
            [python or self.python, *program, *words, "--json", "-"],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PATIENCE_S,
        )  # fmt: skip
        (boot,) = json.loads(ran.stdout)["boots"]
        return ran.returncode, boot, {check["id"]: check for check in boot["checks"]}

    def told(self, bundle: str = "frost", **more: Any) -> str:
        """What the cache's check says of a boot that may serve; its figures for who runs it with -s."""
        _, boot, checks = self.boot(bundle, **more)
        assert boot["state"] == "OPERATIONAL", checks
        assert boot["provider"] == NAME
        told = checks["provider_cache"]
        print(f"{bundle}: session in {checks['provider']['ms']:.0f} ms; {told['measured']}")  # noqa: T201
        assert told["status"] == ("fail" if "had kept: found" in told["measured"] else "pass")
        return str(told["measured"])

    def files(self, bundle: str = "frost") -> tuple[Path, Path]:
        """Its one blob, and the listing."""
        (blob,) = (self.folder / "state/cache" / bundle / NAME).glob("*/*.blob")
        return blob, blob.parent.with_suffix(".json")


@pytest.fixture
def keeping(python: Path, tmp_path: Path) -> Keeping:
    return Keeping(python, tmp_path)


ANEW = "the provider has changed what was kept"


def test_a_kept_blob_is_offered_to_the_next_boot(keeping: Keeping) -> None:
    """The CPU device of this release writes a blob whose reader its wheel lacks: it takes it away and compiles again.

    That is said at every boot; a release that can read it will fail here, and may then be told to be worth it.
    """
    assert f"{NAME}: kept for the next boot: 1 file, " in keeping.told()
    readers = [one.name for one in keeping.python.parents[1].rglob("libopenvino_ir_frontend*")]
    assert readers == []
    for _ in range(3):
        assert keeping.told().endswith(ANEW)


def test_a_cut_or_foreign_blob_is_dropped_and_made_anew(keeping: Keeping) -> None:
    keeping.told()
    keeping.told("digits")
    blob, _ = keeping.files()
    whole = blob.read_bytes()
    blob.write_bytes(whole[: len(whole) // 2])
    assert f"{blob.name!r} cut to {len(whole) // 2} of {len(whole)} bytes" in keeping.told()
    foreign, listing = keeping.files("digits")
    shutil.copy(foreign, keeping.files()[0])
    assert f"{blob.name!r} c" in keeping.told()
    shutil.copy(foreign, keeping.files()[0])
    shutil.copy(listing, keeping.files()[1])
    assert "foreign: kept for digits on OpenVINOExecutionProvider" in keeping.told()
    assert keeping.told().endswith(ANEW)
    assert keeping.told("digits").endswith(ANEW)


@pytest.mark.parametrize("what", ["another model's", "half", "noise"])
def test_a_poisoned_blob_with_right_sums_never_serves(keeping: Keeping, what: str) -> None:
    """Blob and sum both written anew: what OpenVINO makes of it, or the goldens, must notice, whatever that is.

    As this release reads no blob, what a wrong one does to a session that takes it is in tests/run/test_kept_files.py.
    """
    keeping.told()
    keeping.told("digits")
    blob, listing = keeping.files()
    whole = blob.read_bytes()
    data = {
        "another model's": keeping.files("digits")[0].read_bytes(),
        "half": whole[: len(whole) // 2],
        "noise": whole[:2000] + bytes(byte ^ 0x55 for byte in whole[2000:]),
    }[what]
    blob.write_bytes(data)
    said = json.loads(listing.read_text())
    said["files"][blob.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    listing.write_text(json.dumps(said))
    print(what, keeping.told())  # noqa: T201
    assert keeping.files()[0].read_bytes() != data
    assert keeping.told().endswith(ANEW)


def test_another_version_drops_it_and_is_named(keeping: Keeping) -> None:
    keeping.told()
    blob, _ = keeping.files()
    _, boot, checks = keeping.boot(program=("-c", OTHER_VERSION))
    assert boot["state"] == "OPERATIONAL"
    assert boot["changed_since_last_pass"] == ["onnxruntime 1.24.1 -> 1.24.2"]
    assert "what was kept under another fingerprint was dropped" in checks["provider_cache"]["measured"]
    assert not blob.exists()


def test_only_onnxruntime_is_another_for_real(keeping: Keeping) -> None:
    """The CPU provider of two distributions, one after the other, on one state folder."""
    keeping.profile.write_text(ELSEWHERE.format("keeping") + '[[providers]]\nname = "CPUExecutionProvider"\n')
    _, before, _ = keeping.boot(python=Path(sys.executable))
    _, after, _ = keeping.boot()
    assert (before["state"], after["state"]) == ("OPERATIONAL", "OPERATIONAL")
    assert after["changed_since_last_pass"] == [f"onnxruntime {before['onnxruntime']} -> 1.24.1"]
