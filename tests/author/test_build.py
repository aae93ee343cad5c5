import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.author import build as building
from edge_runtime.author.build import Build, build
from edge_runtime.author.record import encode_record, read_record
from edge_runtime.bundle.golden import decode
from edge_runtime.bundle.write import sums
from edge_runtime.errors import BundleError, ConfigurationError, EdgeRuntimeError
from edge_runtime.spec.manifest import parse
from tests.author.conftest import Pack, tiny_model

ROOT = Path(__file__).parents[2]


def _build(path: Path, recorded: Path | None = None, *, strengthens: bool = False) -> Build:
    return build(path, read_record(recorded) if recorded else None, lambda _: None, strengthens=strengthens)


@pytest.mark.parametrize("name", sorted(one.name for one in (ROOT / "bundles").iterdir() if one.is_dir()))
def test_the_committed_bundles_are_what_a_build_gives(name: str) -> None:
    pack = ROOT / "examples" / name.replace("tiny_", "tiny/")
    made = _build(pack / "contract.toml", ROOT / "bundles" / f"{name}.build.json", strengthens=True)
    assert made.failures == ()
    assert made.record.mutation == read_record(ROOT / "bundles" / f"{name}.build.json").mutation
    folder = ROOT / "bundles" / name
    assert {**made.files, "SHA256SUMS": sums(made.files)} == {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "float32", "bundle", "furthest"), [("frost", 1.602, 1.588, 1.5), ("dewpoint", 0.127, 0.127, 0.0)]
)
def test_the_examples_errors(name: str, float32: float, bundle: float, furthest: float) -> None:
    record = read_record(ROOT / "bundles" / f"{name}.build.json")
    (metrics,) = (one for outputs in record.metrics.values() for one in outputs.values())
    assert metrics.mae_float32 == pytest.approx(float32, abs=5e-4)
    assert metrics.mae_bundle == pytest.approx(bundle, abs=5e-4)
    assert metrics.max_difference is not None
    assert metrics.max_difference <= furthest
    assert record.proof.tensor < 1e-5
    assert record.proof.float_output < 1e-5


@pytest.mark.parametrize("name", ["frost", "dewpoint"])
def test_trained_bands_hold_what_the_author_computed(name: str) -> None:
    manifest = parse((ROOT / "bundles" / name / "manifest.json").read_bytes())
    stated = json.loads((ROOT / "examples" / name / "constants.json").read_text())["channels"]
    for channel, one in zip(manifest.channels, stated, strict=True):
        assert channel.name == one["name"]
        assert channel.trained.min == pytest.approx(one["train_min"], rel=1e-7)
        assert channel.trained.max == pytest.approx(one["train_max"], rel=1e-7)
        assert [channel.tolerated.min, channel.tolerated.max] == one["tolerated"]
        assert [channel.physical.min, channel.physical.max] == one["physical"]
    assert list(manifest.inputs[0].steps[0].mean) == [one["mean"] for one in stated]  # type: ignore[union-attr]
    assert list(manifest.inputs[0].steps[0].std) == [one["std"] for one in stated]  # type: ignore[union-attr]


@pytest.mark.parametrize("precision", ["int8", "float32", "as_is"])
def test_two_builds_are_equal_wherever_they_are_made(pack: Pack, tmp_path: Path, precision: str) -> None:
    pack.edit('"int8"', f'"{precision}"')
    first = _build(pack.contract)
    assert first.failures == ()
    elsewhere = pack.folder.rename(tmp_path / "elsewhere")
    second = _build(elsewhere / "contract.toml")
    assert second.files == first.files
    assert second.record == first.record
    assert not any(str(tmp_path).encode() in data for data in first.files.values())


def test_the_manifest_says_what_was_built(pack: Pack) -> None:
    made = _build(pack.contract)
    manifest = parse(made.files["manifest.json"])
    variant = manifest.variants[0]
    assert manifest.files() | {"manifest.json"} == set(made.files)
    assert (variant.precision, variant.tolerances["CPUExecutionProvider"].kind) == ("int8", "exact")
    assert variant.quantization is not None
    assert variant.quantization.samples == 200
    assert variant.input_clip["window"].min < 0 < variant.input_clip["window"].max
    goldens = decode(made.files["golden.npz"], subject="golden.npz")
    assert len(goldens) == 24
    assert manifest.inputs[0].shape == ("batch", 2, 3)


def test_a_float_bundle_has_a_float_tolerance(pack: Pack) -> None:
    pack.edit('"int8"', '"float32"')
    variant = parse(_build(pack.contract).files["manifest.json"]).variants[0]
    tolerance = variant.tolerances["CPUExecutionProvider"]
    assert (tolerance.kind, tolerance.rtol, tolerance.atol) == ("float", 1e-5, 1e-5)
    assert variant.quantization is None
    assert (variant.input_clip, variant.output_scale) == ({}, {})


def test_a_stated_tolerance_is_taken(pack: Pack) -> None:
    tolerance = '[tolerance]\nkind = "steps"\nsteps = 2\nevidence = "measured elsewhere"\n'
    pack.edit("[goldens]", f"{tolerance}\n[goldens]")
    stated = parse(_build(pack.contract).files["manifest.json"]).variants[0].tolerances["CPUExecutionProvider"]
    assert (stated.kind, stated.steps, stated.evidence) == ("steps", 2, "measured elsewhere")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mean = [20.0, 50.0]", "mean = [20.2, 50.0]", "preprocess: found a tensor 0.02 off tensor of reference.npz"),
        ("std = [10.0, 25.0]", "std = [25.0, 10.0]", "preprocess: found a tensor"),
        ("length = 3", 'length = 3\norder = "newest_first"', "preprocess: found a tensor"),
    ],
)
def test_a_constant_that_is_not_the_authors_fails_the_build(pack: Pack, old: str, new: str, words: str) -> None:
    pack.edit(old, new)
    failures = _build(pack.contract).failures
    assert any(words in line for line in failures)


def test_the_channels_that_are_off_are_named_the_worst_first(pack: Pack) -> None:
    pack.edit("mean = [20.0, 50.0]", "mean = [20.0, 55.0]")
    (line,) = _build(pack.contract).failures
    assert "found a tensor 0.2 off tensor of reference.npz; in relative_humidity 0.2; expected" in line
    pack.edit("mean = [20.0, 55.0]", "mean = [21.0, 55.0]")
    (line,) = _build(pack.contract).failures
    assert "; in relative_humidity 0.2, air_temperature 0.1; expected" in line


def test_a_contract_without_steps_is_told_so_and_nothing_that_follows_from_it(pack: Pack) -> None:
    """The answers to the test data are then those of another model: no better than the mean, which says nothing more."""
    pack.edit("[[input.preprocess]]", "[annotations]")
    pack.edit('step = "standardize"\nmean = [20.0, 50.0]\nstd = [10.0, 25.0]', 'by = "a test"')
    pack.edit('"int8"', '"float32"')
    (line,) = _build(pack.contract).failures
    assert line.endswith("the contract has no preprocess steps: add what your training code did to the raw values")


def test_a_failed_proof_stands_before_every_lint(pack: Pack) -> None:
    pack.edit("mean = [20.0, 50.0]", "mean = [40.0, 50.0]")
    pack.edit("tolerated = [-30, 50]", "tolerated = [40, 50]")
    first, *rest = _build(pack.contract).failures
    assert "preprocess: found a tensor" in first
    assert any("[trained-mostly-beyond]" in line for line in rest)


def test_two_channels_swapped_fail_the_build(pack: Pack) -> None:
    text = pack.contract.read_text()
    text = text.replace('"air_temperature"', '"x"').replace('"relative_humidity"', '"air_temperature"')
    pack.contract.write_text(text.replace('"x"', '"relative_humidity"').replace("[20.0, 50.0]", "[50.0, 20.0]"))
    assert any("preprocess: found a tensor" in line for line in _build(pack.contract).failures)


def test_another_model_of_the_same_shape_fails_the_build(pack: Pack) -> None:
    model = tiny_model()
    weight = numpy_helper.to_array(model.graph.initializer[0]) * np.float32(1.001)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w1"))
    (pack.folder / "model.onnx").write_bytes(model.SerializeToString())
    assert any("model.onnx: found an output" in line for line in _build(pack.contract).failures)


def test_answers_that_depend_on_their_batch_fail_the_build(pack: Pack) -> None:
    """Centring on the batch's own mean is what a normalization in training mode does."""
    model = tiny_model()
    model.graph.node[3].output[0] = "raw_low"
    nodes = [
        onnx.helper.make_node("ReduceMean", ["raw_low"], ["mean"], name="mean", keepdims=0),
        onnx.helper.make_node("Mul", ["mean", "tiny"], ["small"], name="small"),
        onnx.helper.make_node("Add", ["raw_low", "small"], ["low"], name="shift"),
    ]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(5e-5), "tiny"))
    (pack.folder / "model.onnx").write_bytes(model.SerializeToString())
    pack.edit('"int8"', '"float32"')
    failures = _build(pack.contract).failures
    assert any("between batch sizes" in line for line in failures)


def _no_array(found: dict[str, Any]) -> None:
    found["training"] = found.pop("train")


def _nan(found: dict[str, Any]) -> None:
    found["train"][3, 1, 2] = np.nan


def _short(found: dict[str, Any]) -> None:
    found["train"] = found["train"][:, :, :2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_no_array, "no array 'train'; expected one of test, test_y, train_y, training"),
        (_nan, "1 NaN or infinite values, the first at [3, 1, 2]"),
        (_short, "found shape (200, 2, 2); expected (cases, 2 channel, 3 time)"),
    ],
)
def test_wrong_data_is_one_line(pack: Pack, change: Callable[[dict[str, Any]], None], words: str) -> None:
    pack.arrays("data.npz", change)
    _refused(pack, ConfigurationError, words)


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ('model = "model.onnx"', 'model = "modell.onnx"', ConfigurationError, "modell.onnx: No such file"),
        ('tensor = "low"', 'tensor = "high"', ConfigurationError, "'high'; expected an output of the model: low"),
        ("tolerated = [-30, 50]", "tolerated = [-70, 50]", ConfigurationError,
         "channel air_temperature, tolerated: found -70 to 50 Cel; expected within physical, -60 to 60 Cel; narrow"),
        ("physical = [-60, 60]", "physical = [-60, 60]\ntrained = [-70, 40]", ConfigurationError,
         "channel air_temperature, trained: found -70 to 40 Cel, stated; expected within physical, -60 to 60 Cel; widen"),
        ("tolerated = [-30, 50]", "tolerated = [50, -30]", ConfigurationError, "min 50 must be below max -30"),
        ("count = 24", "count = 60", ConfigurationError, "found 40 cases; expected 56 for 60 goldens"),
        ("batch_sizes = [1, 2, 4]", "batch_sizes = [2, 4]", ConfigurationError, "batch_sizes must ascend"),
        ('limits = "a test"', f'limits = "a test"\nmodel_sha256 = "{"0" * 64}"', ConfigurationError, "the model's own"),
        ('axes = ["batch", "channel", "time"]', 'axes = ["batch", "time", "channel"]', BundleError,
         "found shape (batch, 2, 3); expected (batch, 3, 2)"),
        ('axes = ["batch", "channel", "time"]', 'axes = ["batch", "channel", "time"]\ntensor = "windows"',
         ConfigurationError, "found 'windows'; expected 'window', as the model has"),
        ("mean = [20.0, 50.0]", "mean = [20.0]", ConfigurationError, "1 mean, but 2 std"),
    ],
)  # fmt: skip
def test_a_wrong_contract_is_one_line(pack: Pack, old: str, new: str, kind: type[EdgeRuntimeError], words: str) -> None:
    pack.edit(old, new)
    _refused(pack, kind, words)


def test_a_stuck_limit_that_training_itself_reached_is_refused(pack: Pack) -> None:
    pack.arrays("data.npz", lambda found: found["train"].__setitem__((0, 0), 7.0))
    pack.edit("physical = [-60, 60]", "stuck_after = 3\nphysical = [-60, 60]")
    words = "stuck_after: found 3; expected more than 3, the longest equal run in the training data; set 4"
    _refused(pack, ConfigurationError, words)
    pack.edit("stuck_after = 3", "stuck_after = 4")
    assert _build(pack.contract).failures == ()


def test_a_model_of_another_shape_is_one_line(pack: Pack) -> None:
    (pack.folder / "model.onnx").write_bytes(tiny_model(length=4).SerializeToString())
    _refused(pack, BundleError, "input window: found shape (batch, 2, 4); expected (batch, 2, 3)")
    (pack.folder / "model.onnx").write_bytes(tiny_model(batch=1).SerializeToString())
    _refused(pack, BundleError, "fixed batch of 1")


def test_a_model_with_another_input_type_is_one_line(pack: Pack) -> None:
    model = tiny_model()
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    model.graph.node[0].input[0] = "narrow"
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["window"], ["narrow"], name="cast", to=1))
    (pack.folder / "model.onnx").write_bytes(model.SerializeToString())
    _refused(pack, BundleError, "input window: found int32; expected float32")


def test_a_model_with_two_inputs_is_one_line(pack: Pack) -> None:
    model = tiny_model()
    model.graph.input.append(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ["batch", 1]))
    (pack.folder / "model.onnx").write_bytes(model.SerializeToString())
    _refused(pack, BundleError, "found 2 (window, more); expected one")


def test_a_reference_of_another_shape_is_one_line(pack: Pack) -> None:
    pack.arrays("reference.npz", lambda found: found.update(tensor=found["tensor"].transpose(0, 2, 1)))
    _refused(pack, ConfigurationError, "reference, tensor: found shape (40, 3, 2); expected (40, 2, 3)")


def _refused(pack: Pack, kind: type[EdgeRuntimeError], words: str) -> None:
    with pytest.raises(kind) as caught:
        _build(pack.contract)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rebuild_by_its_record_gives_the_same_bytes(pack: Pack, tmp_path: Path) -> None:
    first = _build(pack.contract)
    path = tmp_path / "build.json"
    path.write_bytes(encode_record(first.record))
    again = _build(pack.contract, path)
    assert again.failures == ()
    assert again.files == first.files


def test_goldens_are_added_until_the_mutants_are_noticed_and_a_rebuild_adds_the_same(
    pack: Pack, tmp_path: Path
) -> None:
    plain, first = _build(pack.contract), _build(pack.contract, strengthens=True)
    assert (plain.failures, first.failures) == ((), ())
    (score,) = first.record.mutation.values()
    counts = [len(decode(made.files["golden.npz"], subject="golden.npz")) for made in (plain, first)]
    assert counts == [24, score.cases]
    assert score.cases > 24
    assert score.survivors == ()
    assert plain.record.mutation == {}
    path = tmp_path / "build.json"
    path.write_bytes(encode_record(first.record))
    again = _build(pack.contract, path, strengthens=True)
    assert again.failures == ()
    assert again.files == first.files
    assert again.record == first.record


def test_goldens_below_the_bar_fail_the_build_and_the_survivors_are_named(pack: Pack) -> None:
    tolerance = '[tolerance]\nkind = "float"\nrtol = 0.0\natol = 0.5\nevidence = "far too wide"\n'
    pack.edit("[goldens]", f"{tolerance}\n[goldens]")
    failures = _build(pack.contract, strengthens=True).failures
    assert any(line.startswith("cpu_int8, goldens: ") and "not noticed" in line for line in failures)


def test_a_flags_level_within_the_tolerance_is_noticed_by_a_stage_then(pack: Pack) -> None:
    tolerance = '[tolerance]\nkind = "steps"\nsteps = 1\nevidence = "one step"\n'
    pack.edit("[goldens]", f"{tolerance}\n[goldens]")
    (score,) = _build(pack.contract, strengthens=True).scores.values()
    assert "constant-2: low, frost 1, on +2%" in score.tolerated
    assert not any("frost" in name for name in score.unseen)


def test_mutants_there_was_no_time_for_fail_the_build(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_MUTANTS_S", 0.0)
    (line,) = _build(pack.contract, strengthens=True).failures
    assert line.startswith("cpu_int8, goldens: no time for ")


def test_a_rebuild_takes_the_recorded_ranges(pack: Pack, tmp_path: Path) -> None:
    """So that the model's bytes do not hang on how this CPU rounds the float model."""
    record = _build(pack.contract).record
    calibration = record.calibration["cpu_int8"]
    ranges = json.loads(calibration.ranges)
    ranges["data"]["low"]["highest"]["data"][0] += 10
    other = {"cpu_int8": calibration.model_copy(update={"ranges": json.dumps(ranges)})}
    path = tmp_path / "build.json"
    path.write_bytes(encode_record(record.model_copy(update={"calibration": other})))
    (line,) = _build(pack.contract, path).failures
    assert "model_int8.onnx" in line
    assert "another kind of CPU, perhaps" in line


def test_a_rebuild_that_differs_names_the_file_and_the_cause(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "build.json"
    path.write_bytes(encode_record(_build(pack.contract).record))
    pack.edit('description = "two', 'description = "Two')
    now = building.tool_versions()
    monkeypatch.setattr(building, "tool_versions", lambda: now | {"onnxruntime": "9.9.9"})
    (line,) = _build(pack.contract, path).failures
    assert line.startswith("rebuild: found other bytes in manifest.json; expected those of the record; ")
    assert f"onnxruntime is 9.9.9, was {now['onnxruntime']}" in line
    assert "contract has changed" in line


def test_a_bundle_that_does_not_boot_fails_the_build(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = building.make_goldens

    def spoilt(*arguments: Any) -> Any:
        goldens = whole(*arguments)
        goldens.answers["low"][3] += 0.5
        return goldens

    monkeypatch.setattr(building, "make_goldens", spoilt)
    failures = _build(pack.contract).failures
    assert any(line.startswith("boot, golden_answer: ") for line in failures)


def test_a_clip_inside_the_tolerated_band_is_warned_of() -> None:
    record = read_record(ROOT / "bundles" / "frost.build.json")
    assert any("wind_speed: its tolerated range is -1.58 to 14 in the tensor" in line for line in record.warnings)


@pytest.mark.parametrize(
    ("text", "words"), [(None, "No such file"), ("{", "Invalid JSON"), ('{"bundles": 1}', "unknown key 'bundles'")]
)
def test_no_record_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "build.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        read_record(path)
