"""Lab PCs of 2008 and 2013, emulated: the shipped bundles pass, and int8 sums saturate only where an option is withheld."""

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
from tests.proof.emulated_selftests import BUNDLES, Trial, asked, found, judge
from tests.rig import emulated
from tests.rig.bundles import FROST, ROOT, manifest_of
from tests.rig.need import need

if TYPE_CHECKING:
    import subprocess

HASWELL, NEHALEM = "Haswell-noTSX", "Nehalem"
DIGITS = ROOT / "bundles" / "digits"
WORDS = "this x86-64 processor has no VNNI and session.x64quantprecision is off"
PROFILE = "generic_x86"


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


def _found(folder: Path, trials: Mapping[str, list[str]], program: "subprocess.Popen[str]") -> dict[str, Trial]:
    seen = found(folder, trials, emulated.codes(program))
    for trial in seen.values():
        assert "vnni" not in trial.environment["features"], "the machine below shows through"
    return seen


@pytest.fixture(scope="module")
def haswell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trial]:
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
    return _found(folder, trials, emulated.start(HASWELL, asked(folder, trials, PROFILE), folder / "root"))


@pytest.mark.parametrize("bundle", [FROST, DIGITS], ids=lambda path: path.name)
def test_a_shipped_int8_bundle_passes(haswell: dict[str, Trial], bundle: Path) -> None:
    judge(HASWELL, bundle, 0, haswell[bundle.name])


def test_eight_bit_weights_pass_with_the_option(haswell: dict[str, Trial]) -> None:
    checks = haswell["wide"].checks
    assert haswell["wide"].code == 0
    assert checks["provider"]["measured"].endswith("with x64quantprecision")
    assert checks["golden_output"]["measured"].startswith("0 ")


def test_eight_bit_weights_fail_without_it_and_the_reason_is_said(haswell: dict[str, Trial]) -> None:
    checks = haswell["withheld"].checks
    assert haswell["withheld"].code == 1
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
    places = {cpu: tmp_path / cpu for cpu in (HASWELL, NEHALEM)}
    for place in places.values():
        place.mkdir()
    programs = {
        cpu: emulated.start(cpu, asked(place, trials, PROFILE), place / "root") for cpu, place in places.items()
    }
    for cpu, program in programs.items():
        for name, trial in _found(places[cpu], trials, program).items():
            judge(cpu, ROOT / "bundles" / name.partition(",")[0], int("," in name), trial)
