"""A bundle edited by hand and summed again fails at the stage that compares what was edited; survivors are listed."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from tests.proof.station import DEWPOINT, FROST, ROOT, edited

Change = Callable[[dict], None]
# Another size of the same quantity, for each unit the bundles use.
SIBLINGS = {
    "Cel": ("K", "[degF]"),
    "%": ("1", "[ppth]"),
    "hPa": ("Pa", "kPa", "bar", "[psi]", "[in_i'Hg]", "mm[Hg]"),
    "m/s": ("km/h", "[kn_i]", "[mi_i]/h", "[ft_i]/s"),
    "W/m2": ("kW/m2",),
}


def _channels(manifest: dict) -> list[dict]:
    return manifest["inputs"][0]["channels"]


def _constants(manifest: dict) -> Iterator[tuple[str, Change, str]]:
    names = [channel["name"] for channel in _channels(manifest)]
    for key in ("mean", "std"):
        for at, name in enumerate(names):

            def change(edit, key=key, at=at):
                edit["inputs"][0]["steps"][0][key][at] *= 1.05

            yield f"{key} of {name} by 5 %", change, "golden_tensor"


def _swaps(manifest: dict) -> Iterator[tuple[str, Change, str]]:
    for one, two in combinations(range(len(_channels(manifest))), 2):

        def channels(edit, one=one, two=two):
            listed = _channels(edit)
            listed[one], listed[two] = listed[two], listed[one]

        def with_constants(edit, one=one, two=two):
            channels(edit, one, two)
            for key in ("mean", "std"):
                row = edit["inputs"][0]["steps"][0][key]
                row[one], row[two] = row[two], row[one]

        def names(edit, one=one, two=two):
            first, second = _channels(edit)[one], _channels(edit)[two]
            first["name"], second["name"] = second["name"], first["name"]

        yield f"channels {one} and {two} swapped", channels, "golden_tensor"
        yield f"channels {one} and {two} swapped with their constants", with_constants, "golden_tensor"
        yield f"names of channels {one} and {two} swapped", names, "units"


def _units(manifest: dict) -> Iterator[tuple[str, Change, str]]:
    for at, channel in enumerate(_channels(manifest)):
        for unit in SIBLINGS[channel["unit"]]:

            def change(edit, at=at, unit=unit):
                _channels(edit)[at]["unit"] = unit

            yield f"{channel['name']} in {unit}", change, "golden_tensor"
    for unit in SIBLINGS["Cel"]:

        def answer(edit, unit=unit):
            edit["outputs"][0]["unit"] = unit

        yield f"the answer in {unit}", answer, "golden_answer"


def _order(manifest: dict) -> Iterator[tuple[str, Change, str]]:
    if not manifest.get("window"):
        return

    def change(edit):
        edit["window"]["order"] = "newest_first"

    yield "the window reversed", change, "golden_tensor"


def _answers(manifest: dict) -> Iterator[tuple[str, Change, str]]:
    def dropped(edit):
        edit["outputs"][0]["postprocess"] = []

    steps = manifest["outputs"][0].get("postprocess", [])
    if steps:
        yield "de-standardization dropped", dropped, "golden_answer"
    for key in ("mean", "std") if steps else ():

        def off(edit, key=key):
            edit["outputs"][0]["postprocess"][0][key] *= 1.05

        yield f"de-standardization, {key} by 5 %", off, "golden_answer"
    for flag in manifest["outputs"][0].get("flags", []):

        def moved(edit, flag=flag["name"]):
            (one,) = [one for one in edit["outputs"][0]["flags"] if one["name"] == flag]
            one["on"], one["off"] = one["on"] + 5, one["off"] + 5

        def turned(edit, flag=flag["name"]):
            (one,) = [one for one in edit["outputs"][0]["flags"] if one["name"] == flag]
            one["side"], one["on"], one["off"] = "above", one["off"], one["on"]

        yield f"threshold of {flag['name']} moved by 5 Cel", moved, "golden_answer"
        yield f"threshold of {flag['name']} turned round", turned, "golden_answer"


CLASSES = (_constants, _swaps, _units, _order, _answers)


def _edits(bundle: Path) -> list[tuple[str, Change, str]]:
    manifest = json.loads((bundle / "manifest.json").read_text())
    return [edit for each in CLASSES for edit in each(manifest)]


def _first_failure(path: Path) -> str | None:
    booted = boot(path, make_setting())
    failed = [check.id for check in booted.report.checks if check.status == "fail" and check.tier == "required"]
    assert (booted.ready is None) == bool(failed)
    return failed[0] if failed else None


EDITS = [(bundle, *edit) for bundle in (FROST, DEWPOINT) for edit in _edits(bundle)]


@pytest.mark.parametrize(
    ("bundle", "change", "stage"),
    [pytest.param(bundle, change, stage, id=f"{bundle.name}: {name}") for bundle, name, change, stage in EDITS],
)
def test_each_edit_fails_at_the_stage_that_compares_it(bundle, change, stage, tmp_path):
    before = json.loads((bundle / "manifest.json").read_text())
    path = edited(bundle, tmp_path / "mutant", change)
    assert json.loads((path / "manifest.json").read_text()) != before
    found = _first_failure(path)
    # Names swapped within one kind of unit convert, and then give other numbers.
    assert found == stage or (stage, found) == ("units", "golden_tensor")


def _other_weights(data: bytes) -> bytes:
    """The same graph with every weight matrix a little different, as another training would leave it."""
    model = onnx.load_from_string(data)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim >= 2:
            other = np.flip(values, axis=0).copy()
            tensor.CopyFrom(numpy_helper.from_array(other, tensor.name))
    return model.SerializeToString()


@pytest.mark.parametrize("bundle", [FROST, DEWPOINT], ids=lambda path: path.name)
def test_another_model_of_the_same_shape_fails_at_the_output(bundle, tmp_path):
    (name,) = [path.name for path in bundle.glob("*.onnx")]
    other = _other_weights((bundle / name).read_bytes())
    assert other != (bundle / name).read_bytes()
    assert _first_failure(edited(bundle, tmp_path / "mutant", lambda _edit: None, {name: other})) == "golden_output"


def test_the_float32_model_in_place_of_its_int8_fails_at_the_output(tmp_path):
    float32 = (ROOT / "examples" / "frost" / "model_fp32.onnx").read_bytes()
    path = edited(FROST, tmp_path / "mutant", lambda _edit: None, {"model_int8.onnx": float32})
    assert _first_failure(path) == "golden_output"


def test_a_bundle_summed_again_without_an_edit_passes(tmp_path):
    """Else the tests above would prove nothing."""
    assert _first_failure(edited(FROST, tmp_path / "same", lambda _edit: None)) is None


# What no golden can compare: promises about samples, or about time, that the goldens do not contain.
def _wider(edit):
    _channels(edit)[0]["tolerated"]["max"] += 1


def _physical(edit):
    _channels(edit)[0]["physical"]["max"] += 5


def _trained(edit):
    _channels(edit)[0]["trained"]["max"] += 1


def _stuck(edit):
    _channels(edit)[0]["stuck_after"] += 1


def _release(edit):
    edit["outputs"][0]["flags"][0]["off"] += 0.1


def _needs(edit):
    edit["needs"]["latency_p99_ms"] *= 2


def _words(edit):
    edit["description"] = edit["outputs"][0]["meaning"] = "something else"


def _on_by_little(edit):
    edit["outputs"][0]["flags"][0]["on"] += 1e-6


LIKELY_SURVIVORS = (_wider, _physical, _trained, _stuck, _release, _needs, _words, _on_by_little)


def test_the_survivors_are_these_and_no_more(tmp_path, capsys):
    """Whoever signs a bundle answers for them: a digest or a signature sees them, the self-test does not."""
    survivors = [
        change.__name__.strip("_")
        for change in LIKELY_SURVIVORS
        if _first_failure(edited(FROST, tmp_path / change.__name__, change)) is None
    ]
    with capsys.disabled():
        sys.stdout.write(f"\nsurvivors: {', '.join(survivors)}; caught: {len(EDITS) + 3} edits, each at its stage\n")
    assert survivors == ["wider", "physical", "trained", "stuck", "release", "needs", "words", "on_by_little"]
