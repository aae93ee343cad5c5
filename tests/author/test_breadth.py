"""Every kind of model builds from its pack, and what is wrong with one is a single plain line."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime import __version__
from edge_runtime.author import build as building
from edge_runtime.author.build import Build, build
from edge_runtime.author.record import read_record
from edge_runtime.bundle.golden import Goldens, decode
from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.errors import BundleError, ConfigurationError, EdgeRuntimeError
from edge_runtime.run.boot import Setting, boot
from edge_runtime.spec.manifest import Manifest, parse
from tests.author.conftest import Pack

ROOT = Path(__file__).parents[2]
TINY = ROOT / "examples" / "tiny"
BUNDLES = sorted(one.name for one in (ROOT / "bundles").iterdir() if one.is_dir())


def tiny_models() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiny_models", ROOT / "scripts" / "tiny_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Pack]:
    """One tiny pack in a folder of its own, to be built or broken."""

    def make(name: str) -> Pack:
        shutil.copytree(TINY / name, tmp_path / name)
        return Pack(tmp_path / name)

    return make


def _build(pack: Pack) -> Build:
    found = build(pack.contract, None, lambda _: None, strengthens=False)
    assert found.failures == ()
    return found


def _read(found: Build, goldens: str = "golden.npz") -> tuple[Manifest, Goldens]:
    return parse(found.files["manifest.json"]), decode(found.files[goldens], subject=goldens)


def test_the_committed_packs_are_what_the_script_makes(tmp_path: Path) -> None:
    tiny_models().write(tmp_path)
    fresh = {one.relative_to(tmp_path): one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    kept = {
        one.relative_to(TINY): one.read_bytes() for one in TINY.rglob("*") if one.suffix != ".toml" and one.is_file()
    }
    assert fresh == kept
    assert sorted(one.parent.name for one in TINY.rglob("contract.toml")) == sorted(tiny_models().PACKS)


@pytest.mark.parametrize("name", BUNDLES)
def test_every_bundle_boots_in_each_of_its_variants(name: str) -> None:
    machine = probe()
    profile = load_profile(None, machine, [data_folder("device_profiles")])
    folder = ROOT / "bundles" / name
    variants = [one.name for one in parse((folder / "manifest.json").read_bytes()).variants]
    for variant in variants:
        setting = Setting(machine, profile.model_copy(update={"variant": variant}), __version__)
        report = boot(folder, setting).report
        assert report.state == "OPERATIONAL", [one for one in report.checks if one.status == "fail"]
        assert any(variant in check.measured for check in report.checks if check.id == "compatibility")


@pytest.mark.parametrize("name", BUNDLES)
def test_every_bundle_passes_its_self_test_as_a_process(name: str) -> None:
    command = [sys.executable, "-m", "edge_runtime", "selftest", "--bundle", str(ROOT / "bundles" / name)]
    done = subprocess.run([*command, "--tier", "required"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_int8_digits_are_read_as_well_as_in_float32() -> None:
    (metrics,) = read_record(ROOT / "bundles" / "digits.build.json").metrics["cpu_int8"].values()
    assert metrics.accuracy_float32 == pytest.approx(0.983, abs=5e-4)
    assert metrics.accuracy_bundle is not None
    assert metrics.accuracy_float32 is not None
    assert abs(metrics.accuracy_bundle - metrics.accuracy_float32) <= 0.005


def test_a_state_goes_through_each_case_and_stands_in_its_goldens(made: Callable[[str], Pack]) -> None:
    manifest, goldens = _read(_build(made("gru")))
    (state,) = manifest.state
    assert (state.input, state.shape, state.batch_axis, state.dtype) == ("h", (1, 4), 1, "float32")
    assert goldens.raw.shape[1:] == (6, 2)
    assert goldens.tensors["h"].shape == goldens.outputs["h_next"].shape == (len(goldens), 1, 4)
    assert np.abs(goldens.tensors["h"]).min() > 0
    assert goldens.references.keys() == {"loss"}
    assert manifest.must_understand == ("state",)
    off = goldens.outputs["loss"] - goldens.references["loss"]
    assert np.nanmax(np.abs(off)) < 1e-5


def test_several_inputs_and_outputs_of_each_form(made: Callable[[str], Pack]) -> None:
    manifest, goldens = _read(_build(made("grain")))
    assert [channel.name for channel in manifest.channels] == ["spectrum", "temperature", "humidity"]
    assert goldens.raw.shape[1:] == (1, 18)
    assert {name: values.shape[1:] for name, values in goldens.tensors.items()} == {"spectrum": (16,), "ambient": (2,)}
    assert set(goldens.answers["kind"]) == {"wheat", "rye", "barley"}
    assert goldens.answers["parts"].shape == (len(goldens), 2)
    ends = goldens.raw[-4:, 0, 0]
    assert {round(float(end), 6) for end in ends} >= {0.1, 1.5} or len({row[0] for row in goldens.units}) > 1
    assert {one.fault for one in manifest.negative_goldens if one.channel == "spectrum"} != set()
    assert set(manifest.must_understand) == {"multiple_inputs", "multiple_outputs"}


def test_each_word_and_what_is_missing_are_goldens(made: Callable[[str], Pack]) -> None:
    manifest, goldens = _read(_build(made("mill")))
    mode, tool, speed = goldens.raw[:, 0].T
    assert set(mode) == set(tool) == {0.0, 1.0, 2.0}
    assert np.isnan(speed).any()
    assert np.isfinite(goldens.tensors["x"]).all()
    assert {row[:2] for row in goldens.units} == {("1", "1")}
    faults = {(one.channel, one.fault): one.expect for one in manifest.negative_goldens}
    assert faults["mode", "infinite"] == "unknown_category"
    assert ("tool", "infinite") not in faults  # another word is taken for steel
    assert ("speed", "missing") not in faults  # it is filled in
    assert faults["mode", "missing"] == "missing"
    assert manifest.channels[1].unknown == 0


def test_flags_of_two_outputs_and_two_variants_each_with_its_goldens(made: Callable[[str], Pack]) -> None:
    found = _build(made("pump"))
    manifest, goldens = _read(found)
    assert [one.name for one in manifest.variants] == ["cpu_float32", "cpu_int8"]
    _, quantized = _read(found, "golden_cpu_int8.npz")
    for stored in (goldens, quantized):
        for flag in ("heat.hot", "heat.cold", "noise.loud"):
            assert stored.flags[flag].any(), flag
            assert not stored.flags[flag].all(), flag
    assert not np.array_equal(goldens.outputs["y_heat"], quantized.outputs["y_heat"])
    assert manifest.variants[1].quantization is not None
    assert found.record.metrics.keys() == {"cpu_float32", "cpu_int8"}
    assert found.record.calibration.keys() == {"cpu_int8"}
    held = np.isnan(goldens.raw[:, -1, 0])
    assert held.any()
    assert not np.isnan(goldens.raw[:, 0]).any()


def test_half_precision_in_and_out(made: Callable[[str], Pack]) -> None:
    manifest, goldens = _read(_build(made("bearing")))
    assert manifest.inputs[0].dtype == "float16"
    assert manifest.inputs[0].shape == ("batch", 9, 3)
    assert goldens.tensors["x"].dtype == goldens.outputs["y"].dtype == np.float16
    assert manifest.variants[0].tolerances["CPUExecutionProvider"].rtol == 4e-3


def test_maps_are_a_tensor_and_labels_are_texts(made: Callable[[str], Pack]) -> None:
    found = _build(made("trees"))
    manifest, goldens = _read(found)
    assert manifest.variants[0].operators == ("ai.onnx.ml.TreeEnsembleClassifier",)
    assert goldens.outputs["label"].dtype.kind == "U"
    assert goldens.outputs["probability"].shape == (len(goldens), 3)
    assert set(goldens.answers["road"]) == {"dry", "wet", "frozen"}
    assert np.isnan(goldens.tensors["x"]).any()


def test_maps_that_are_not_their_tensor_fail_the_build(
    made: Callable[[str], Pack], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = building.maps_of

    def spoilt(*arguments: Any) -> Any:
        maps = whole(*arguments)
        maps[0][3] = {key: value + 0.5 for key, value in maps[0][3].items()}
        return maps

    monkeypatch.setattr(building, "maps_of", spoilt)
    failures = build(made("trees").contract, None, lambda _: None, strengthens=False).failures
    assert any("other numbers in output probability once its maps are a tensor" in line for line in failures)


def test_bytes_one_at_a_time_to_the_number_of_a_label(made: Callable[[str], Pack]) -> None:
    manifest, goldens = _read(_build(made("bits")))
    assert manifest.batch_sizes == (1,)
    assert manifest.must_understand == ("opaque",)
    assert goldens.tensors["picture"].dtype == np.uint8
    assert goldens.outputs["place"].dtype == np.int64
    assert {0, 255} <= set(goldens.raw[-2:].ravel())


def _prepared(pack: Pack) -> None:
    """Give the tiny pack's standardization as a model of the author's own: (batch, time, numbers) in, transposed out."""
    stored = {"mean": np.array([20.0, 50.0], np.float32), "std": np.array([10.0, 25.0], np.float32)}
    nodes = [
        helper.make_node("Sub", ["raw", "mean"], ["centred"], name="centred"),
        helper.make_node("Div", ["centred", "std"], ["scaled"], name="scaled"),
        helper.make_node("Transpose", ["scaled"], ["window"], name="moved", perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes, "own", [helper.make_tensor_value_info("raw", TensorProto.FLOAT, ["batch", 3, 2])],
        [helper.make_tensor_value_info("window", TensorProto.FLOAT, ["batch", 2, 3])],
        [onnx.numpy_helper.from_array(values, name) for name, values in stored.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (pack.folder / "prepare.onnx").write_bytes(model.SerializeToString())
    pack.edit(
        '[[input.preprocess]]\nstep = "standardize"\nmean = [20.0, 50.0]\nstd = [10.0, 25.0]\n',
        '[preprocess_onnx]\nfile = "prepare.onnx"\n',
    )


def test_the_authors_own_preprocessing(pack: Pack) -> None:
    plain = _build(pack)
    _prepared(pack)
    found = _build(pack)
    manifest, goldens = _read(found)
    assert manifest.preprocess_onnx is not None
    assert (manifest.preprocess_onnx.model, manifest.preprocess_onnx.input) == ("preprocess.onnx", "raw")
    assert "preprocess.onnx" in found.files
    assert np.allclose(goldens.tensors["window"], _read(plain)[1].tensors["window"], atol=1e-5)


def test_own_preprocessing_that_is_not_the_frameworks_fails_the_build(pack: Pack) -> None:
    _prepared(pack)
    model = onnx.load(pack.folder / "prepare.onnx")
    del model.graph.node[1].input[:]
    model.graph.node[1].input.extend(["centred", "mean"])
    onnx.save(model, pack.folder / "prepare.onnx")
    failures = build(pack.contract, None, lambda _: None, strengthens=False).failures
    assert any("preprocess: found a tensor" in line for line in failures)


def test_a_state_can_be_quantized(made: Callable[[str], Pack]) -> None:
    """The int8 scales of a state come from cases that the state has gone through."""
    pack = made("gru")
    pack.edit('precision = "float32"', 'precision = "int8"')
    manifest, goldens = _read(_build(pack))
    assert manifest.variants[0].quantization is not None
    assert np.abs(goldens.tensors["h"]).max() > 0


def test_one_array_a_channel_is_the_same_as_a_stacked_one(pack: Pack) -> None:
    stacked = _build(pack).files

    def apart(found: dict[str, Any]) -> None:
        for name in [one for one in ("train", "test", "raw") if one in found]:
            found |= {f"{name}_t": found[name][:, 0], f"{name}_h": found[name][:, 1]}

    for file in ("data.npz", "reference.npz"):
        pack.arrays(file, apart)
    for name, key in (("train", "values"), ("test", "values"), ("raw", "raw")):
        table = f'{{ air_temperature = "{name}_t", relative_humidity = "{name}_h" }}'
        pack.edit(f'{key} = "{name}"', f"{key} = {table}")
    pack.edit('axes = ["case", "channel", "time"]\n', "")
    assert _build(pack).files == stacked


MISTAKES: list[tuple[str, str, str, type[EdgeRuntimeError], str]] = [
    # the model's names, types and shapes
    ("gru", 'input = "h"', 'input = "hidden"', BundleError, "found no tensor 'hidden'; expected one of x, h, loss, h_next"),
    ("gru", 'output = "h_next"', 'output = "loss"\nreset = "never"', BundleError, "'loss' with a fixed batch of 1"),
    ("gru", "batch_axis = 1", "batch_axis = 0", BundleError, "'h' with a fixed batch of 1"),
    ("gru", "samples = 6", "samples = 7", ConfigurationError, "found shape (48, 6, 2); expected (cases, 7 time"),
    ("grain", 'tensor = "ambient"', 'tensor = "surroundings"', ConfigurationError, "expected 'spectrum' or 'ambient'"),
    ("grain", "shape = [16]", "shape = [15]", ConfigurationError, "found shape (40, 16); expected (cases, 15)"),
    ("grain", 'axes = ["batch", "point"]', 'axes = ["batch", "row"]', ConfigurationError, "found 'row'; expected time (1)"),
    ("grain", 'labels = ["wheat", "rye", "barley"]', 'labels = ["wheat", "rye"]', ConfigurationError, "found 'barley'; expected"),
    ("grain", 'form = "vector"', 'form = "number"', BundleError, "found shape (batch, 2); expected one number a case"),
    ("grain", 'ambient = "right"', 'ambience = "right"', ConfigurationError, "reference, tensor: found"),
    ("grain", 'parts = "p"', 'parts = "k"', ConfigurationError, "reference, output: found shape (40, 3)"),
    ("grain", 'humidity = "train_humidity"\n', "", ConfigurationError, "found no array for humidity"),
    ("grain", 'spectrum = "train_spectrum"', 'spectrum = "train_humidity"', ConfigurationError,
     "found shape (200,); expected (cases, 16)"),
    ("mill", '"finish"', '"polish"', ConfigurationError, "found 'finish'; expected one of idle, rough, polish"),
    ("mill", "count = 3", "count = 2", ConfigurationError, "step 3, standardize: found shape (1, 4)"),
    ("mill", 'when_missing = "fill"\nfill = 3000\n', "", ConfigurationError, "NaN or infinite values"),
    ("mill", "channel = 1\n", "channel = 5\n", ConfigurationError, "step 1, lookup: found shape (1, 3)"),
    ("mill", "keys = [0, 1, 2]", "keys = [0, 1, 5]", BundleError, "input x: found NaN or infinity after the steps"),
    ("mill", "fill = 3000", "fill = 1e300", BundleError, "input x: found NaN or infinity after the steps"),
    ("mill", 'mode = "train_mode"', 'mode = "train_speed"', ConfigurationError, "found float32; expected texts"),
    ("pump", "[[variant]]", '[[variant]]\nmodel = "other.onnx"', ConfigurationError, "variant.cpu_int8.model: found"),
    ("pump", "hold_s = 5\n", "", ConfigurationError, "hold needs hold_s"),
    ("bearing", "hop = 8", "hop = 8\nlength = 16", ConfigurationError, "no valid TOML"),
    ("bearing", "length = 16", "length = 32", ConfigurationError, "found shape (40, 16, 3); expected (cases, 32 time"),
    ("trees", '"wet", "frozen"]\n', '"wet"]\n', ConfigurationError, "found 'frozen'; expected one of dry, wet"),
    ("trees", 'when_missing = "pass"\n', "", ConfigurationError, "NaN or infinite values"),
    ("bits", "batch_sizes = [1]\n", "", BundleError, "fixed batch of 1"),
    ("bits", 'dtype = "uint8"', 'dtype = "int8"', ConfigurationError, "expected numbers of int8"),
    ("bits", "shape = [4, 3]", "shape = [3, 4]", ConfigurationError, "found shape (40, 4, 3); expected (cases, 3, 4)"),
    ("bits", 'dtype = "uint8"\n', "", ConfigurationError, "an opaque channel says its dtype"),
]  # fmt: skip


def test_a_text_of_the_model_that_is_no_label_is_one_line(made: Callable[[str], Pack]) -> None:
    pack = made("trees")
    pack.edit('"wet", "frozen"]\n', '"wet"]\n')
    pack.edit(', target = { road = "test_label" }', "")
    with pytest.raises(BundleError, match="found label 'frozen'; expected a value the contract knows"):
        _build(pack)


@pytest.mark.parametrize(("name", "old", "new", "kind", "words"), MISTAKES)
def test_what_is_wrong_is_one_line(
    made: Callable[[str], Pack], name: str, old: str, new: str, kind: type[EdgeRuntimeError], words: str
) -> None:
    pack = made(name)
    pack.edit(old, new)
    with pytest.raises(kind) as caught:
        _build(pack)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_flag_that_hangs_on_what_came_before_is_no_golden(made: Callable[[str], Pack]) -> None:
    """The third stage knows the last answer alone: a case whose flag was switched on earlier could not be told there."""
    pack = made("gru")
    pack.edit('precision = "float32"', 'precision = "int8"')
    flag = 'flags = [{ name = "high", side = "above", on = 10.9, off = 6.0 }]\n'
    pack.edit("\n[goldens]", f"{flag}\n[goldens]")
    _, goldens = _read(_build(pack))
    assert len(goldens) > 10
    answers = goldens.answers["loss"]
    assert np.array_equal(goldens.flags["loss.high"], answers > 10.9)
    assert ((answers > 6.0) & ~goldens.flags["loss.high"]).any()


def _text_tensor(found: dict[str, Any]) -> None:
    found["tensor"] = np.full(found["tensor"].shape, "abc")


def _no_answer(found: dict[str, Any]) -> None:
    found["tensor"] = np.where(np.isnan(found["raw"]), 0, found["raw"])


def _far(found: dict[str, Any]) -> None:
    found["raw"][:, -1, 1] = 6e4
    found["tensor"][:, 1] = (6e4 - 350) / 60


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("mill", _text_tensor, "tensor: found <U3 of shape (40, 5); expected numbers"),
        ("gru", _far, "refused: channel pressure: found 60000 (kPa); expected 0 to 2000 kPa"),
    ],
)
def test_a_wrong_reference_is_one_line(
    made: Callable[[str], Pack], name: str, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    pack = made(name)
    pack.arrays("reference.npz", change)
    with pytest.raises(EdgeRuntimeError) as caught:
        build(pack.contract, None, lambda _: None, strengthens=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_number_where_the_contract_passes_nan_on_fails_the_build(made: Callable[[str], Pack]) -> None:
    pack = made("trees")
    pack.arrays("reference.npz", _no_answer)
    assert any(
        "preprocess: found a tensor 1.8e+308 off" in line
        for line in build(pack.contract, None, print, strengthens=False).failures
    )


def test_a_word_that_no_reference_has_is_a_golden_all_the_same(made: Callable[[str], Pack]) -> None:
    pack = made("mill")
    pack.edit('"carbide", "ceramic"]', '"carbide", "ceramic", "diamond"]')
    pack.edit("keys = [0, 1, 2]\nvalues = [0.8, 1.6, 2.2]", "keys = [0, 1, 2, 3]\nvalues = [0.8, 1.6, 2.2, 3.0]")
    _, goldens = _read(_build(pack))
    assert 3.0 in goldens.raw[:, 0, 1]
    assert np.float32(3.0) in goldens.tensors["x"]
