"""Lab PCs of 2008 and 2013, emulated: the shipped bundles pass, and int8 sums saturate only where an option is withheld."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from edge_runtime.author import build as author
from edge_runtime.author.emulation import PROGRAM, is_available
from edge_runtime.author.quantize import Quantized
from edge_runtime.author.recipes import CALIBRATORS, RECIPES, measure_ranges, prepare, quantized
from edge_runtime.bundle.write import write_directory
from tests.rig import emulated
from tests.rig.bundles import FROST, ROOT, manifest_of
from tests.rig.need import need

if TYPE_CHECKING:
    import subprocess

HASWELL, NEHALEM = "Haswell-noTSX", "Nehalem"
DIGITS = ROOT / "bundles" / "digits"
BUNDLES = sorted(path.parent for path in (ROOT / "bundles").glob("*/manifest.json"))
WORDS = "this x86-64 processor has no VNNI and session.x64quantprecision is off"
Trial = tuple[int, dict[str, dict[str, str]]]
Seen = dict[str, Trial]


def _eight_bit(folder: Path) -> Path:
    """The frost example as its author would build it without reduce_range: int8 per channel, weights of all 8 bits."""
    recipe = next(one for one in RECIPES if one.name == "u8s8_channel")

    def quantize(graph: Any, tensors: Any, *, subject: str, ranges: str | None = None, axes: Any = None) -> Quantized:
        assert ranges is None
        prepared = prepare(graph, subject=subject, axes=axes)
        found = measure_ranges(prepared, tensors, CALIBRATORS[0])
        return Quantized(quantized(prepared, found, recipe), found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(author, "quantize", quantize)
        patch.setattr(author, "RECIPE", author.RECIPE | {"reduce_range": False})
        made = author.build(ROOT / "examples/frost/contract.toml", None, lambda _: None, strengthens=False)
    assert made.failures == ()
    write_directory(dict(made.files), folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _qemu() -> None:
    if os.uname().machine != "x86_64":
        pytest.skip(f"NOT CHECKED: {PROGRAM} runs this interpreter on x86-64 alone")
    need(is_available(), PROGRAM)


def _asked(folder: Path, cpu: str, trials: Mapping[str, list[str]]) -> list[list[str]]:
    head = ["selftest", "--tier", "required", "--profile", "generic_x86"]
    return [[*head, *words, "--json", str(folder / f"{cpu}-{name}.json")] for name, words in trials.items()]


def _found(folder: Path, cpu: str, trials: Mapping[str, list[str]], program: "subprocess.Popen[str]") -> Seen:
    found = {}
    for name, code in zip(trials, emulated.codes(program), strict=True):
        (boot,) = json.loads((folder / f"{cpu}-{name}.json").read_text())["boots"]
        assert "vnni" not in boot["environment"]["features"], "the machine below shows through"
        found[name] = code, {check["id"]: check for check in boot["checks"]}
    return found


def _judge(cpu: str, name: str, bundle: Path, variant: int, trial: Trial) -> None:
    """It passes by its own class of tolerance, an int8 one to the bit."""
    code, checks = trial
    print(f"{cpu} {name}: {checks['golden_output']['measured']}")
    assert code == 0, [(one["id"], one["measured"]) for one in checks.values() if one["status"] == "fail"]
    assert {checks[one]["status"] for one in ("golden_output", "golden_batches")} == {"pass"}
    stated = manifest_of(bundle)["variants"][variant]
    assert f"variant {stated['name']}," in checks["compatibility"]["measured"]
    if stated["precision"] == "int8":
        assert stated["tolerances"]["CPUExecutionProvider"]["kind"] == "exact"
        assert checks["golden_output"]["measured"].startswith("0 ")


@pytest.fixture(scope="module")
def haswell(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The int8 bundles, and one of 8-bit weights with the option and without."""
    folder = tmp_path_factory.mktemp("haswell")
    wide = _eight_bit(folder / "wide")
    assert not manifest_of(wide)["variants"][0]["quantization"].get("seven_bit_weights")
    trials = {
        "frost": ["--bundle", str(FROST)],
        "digits": ["--bundle", str(DIGITS)],
        "wide": ["--bundle", str(wide)],
        "withheld": ["--bundle", str(wide), "--inject", "quant_precision"],
    }
    return _found(folder, HASWELL, trials, emulated.start(HASWELL, _asked(folder, HASWELL, trials), folder / "root"))


@pytest.mark.parametrize("bundle", [FROST, DIGITS], ids=lambda path: path.name)
def test_a_shipped_int8_bundle_passes(haswell: Seen, bundle: Path) -> None:
    _judge(HASWELL, bundle.name, bundle, 0, haswell[bundle.name])


def test_eight_bit_weights_pass_with_the_option(haswell: Seen) -> None:
    code, checks = haswell["wide"]
    assert code == 0
    assert checks["provider"]["measured"].endswith("with x64quantprecision")
    assert checks["golden_output"]["measured"].startswith("0 ")


def test_eight_bit_weights_fail_without_it_and_the_reason_is_said(haswell: Seen) -> None:
    code, checks = haswell["withheld"]
    assert code == 1
    failed = [name for name, check in checks.items() if check["status"] == "fail" and check["tier"] == "required"]
    assert failed == ["golden_output", "golden_batches"]
    assert all(checks[name]["hint"].startswith(f"{WORDS} (it is withheld): ") for name in failed)
    print(f"{HASWELL} withheld: {checks['golden_output']['measured']}")


@pytest.mark.long
def test_every_shipped_bundle_and_variant_passes(tmp_path: Path) -> None:
    """On both processors, side by side."""
    second = tmp_path / "second.toml"
    second.write_text(
        'name = "second"\nschema = "edge-runtime/profile/1"\ndescription = "a test"\ninherits = "generic_x86"\n'
        'variant = "cpu_int8"\n'
    )
    trials = {one.name: ["--bundle", str(one)] for one in BUNDLES}
    trials["tiny_pump, cpu_int8"] = ["--bundle", str(ROOT / "bundles/tiny_pump"), "--profile", str(second)]
    programs = {cpu: emulated.start(cpu, _asked(tmp_path, cpu, trials), tmp_path / cpu) for cpu in (HASWELL, NEHALEM)}
    for cpu, program in programs.items():
        for name, trial in _found(tmp_path, cpu, trials, program).items():
            bundle = ROOT / "bundles" / name.partition(",")[0]
            _judge(cpu, name, bundle, int("," in name), trial)
