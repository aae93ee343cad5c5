"""Self-tests on emulated processors: their command lines, their reports, and what a bundle that passes must show there."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.rig.bundles import ROOT, manifest_of

BUNDLES = sorted(path.parent for path in (ROOT / "bundles").glob("*/manifest.json"))


@dataclass(frozen=True, slots=True)
class Trial:
    """One self-test that ran there: its exit code, what it ran on, and its checks by their names."""

    code: int
    environment: dict[str, str]
    checks: dict[str, dict[str, str]]


def asked(folder: Path, trials: Mapping[str, Iterable[str]], profile: str) -> list[list[str]]:
    """The command line of each trial; its report goes to ``folder``."""
    head = ["selftest", "--tier", "required", "--profile", profile]
    return [[*head, *words, "--json", str(folder / f"{name}.json")] for name, words in trials.items()]


def found(folder: Path, trials: Iterable[str], codes: Iterable[int]) -> dict[str, Trial]:
    """What the reports in ``folder`` say, by the trials' names."""
    seen = {}
    for name, code in zip(trials, codes, strict=True):
        (boot,) = json.loads((folder / f"{name}.json").read_text())["boots"]
        seen[name] = Trial(code, boot["environment"], {check["id"]: check for check in boot["checks"]})
    return seen


def judge(where: str, bundle: Path, variant: int, trial: Trial) -> None:
    """It passes by its own class of tolerance, an int8 one to the bit."""
    checks = trial.checks
    print(f"{where} {bundle.name}: {checks['golden_output']['measured']}")
    failed = [(one["id"], one["measured"]) for one in checks.values() if one["status"] == "fail"]
    assert trial.code == 0, failed
    assert {checks[one]["status"] for one in ("golden_output", "golden_batches")} == {"pass"}
    stated = manifest_of(bundle)["variants"][variant]
    assert f"variant {stated['name']}," in checks["compatibility"]["measured"]
    if stated["precision"] == "int8":
        assert stated["tolerances"]["CPUExecutionProvider"]["kind"] == "exact"
        assert checks["golden_output"]["measured"].startswith("0 ")
