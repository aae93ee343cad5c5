import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.author import assert_parity, build_bundle, record_reference
from edge_runtime.author.parity_rows import rows_of
from edge_runtime.author.source import read_source
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError
from edge_runtime.spec.manifest import parse
from tests.author.conftest import MEAN, STD, Pack
from tests.rig.bundles import FROST, ROOT, write_with

LIMITS = {"rtol": 0.0, "atol": 0.15}


def frost_network(raw: Any) -> tuple[Any, Any]:
    """What stands for the author's own network: standardized by hand, then the float32 model the bundle came from."""
    step = parse((FROST / "manifest.json").read_bytes()).inputs[0].steps[0]
    mean, std = (np.array(getattr(step, name))[:, None] for name in ("mean", "std"))
    tensor = ((np.asarray(raw, np.float64) - mean) / std).astype(np.float32)
    session = open_session((ROOT / "examples" / "frost" / "model_fp32.onnx").read_bytes())
    return session({"window": tensor})["low"], tensor


@pytest.fixture(scope="module")
def windows() -> Any:
    with np.load(ROOT / "examples" / "frost" / "data.npz") as data:
        return data["test_windows"][:40]


def tiny_network(pack: Pack) -> Any:
    session = open_session((pack.folder / "model.onnx").read_bytes())

    def answer(raw: Any) -> tuple[Any, Any]:
        mean, std = np.array(MEAN)[:, None], np.array(STD)[:, None]
        tensor = ((np.asarray(raw, np.float64) - mean) / std).astype(np.float32)
        return session({"window": tensor})["low"], tensor

    return answer


def asked(pack: Pack) -> Any:
    with np.load(pack.folder / "reference.npz") as found:
        return found["raw"]


def test_the_frost_bundle_is_its_network(windows: Any) -> None:
    assert_parity(frost_network, FROST, windows, **LIMITS)
    by_channel = {
        one.name: windows[:, at] for at, one in enumerate(parse((FROST / "manifest.json").read_bytes()).channels)
    }
    assert_parity(lambda _: frost_network(windows), FROST, by_channel, **LIMITS)
    assert_parity(lambda raw: {"low": frost_network(raw)[0]}, FROST, windows, **LIMITS)


PACKS = ["dewpoint", "digits", *(f"tiny/{one.name}" for one in sorted((ROOT / "examples" / "tiny").glob("*/")))]


@pytest.mark.parametrize("pack", PACKS)
def test_every_kind_of_bundle_is_what_its_framework_answered(pack: str) -> None:
    """Arrays, words, missing numbers, states, several inputs and outputs: by channel, from the recorded reference."""
    bundle = ROOT / "bundles" / pack.replace("/", "_")
    asked, raw, column = read_source(ROOT / "examples" / pack / "contract.toml").asked, {}, 0
    manifest = parse((bundle / "manifest.json").read_bytes())
    in_time = manifest.window is not None or manifest.state
    for one in manifest.channels:
        values = asked.raw[:, :, column : column + one.width]
        raw[one.name] = values.reshape(len(values), *(values.shape[1:2] if in_time else ()), *one.shape)
        column += one.width
    int8 = any(variant.precision == "int8" for variant in manifest.variants)
    answer = {"rtol": 1e-4, "atol": 1.5 if int8 else 1e-4}
    assert_parity(lambda _: (asked.outputs, asked.tensors), bundle, raw, **answer)
    spoilt = {name: values if values.dtype.kind == "U" else values + 2.0 for name, values in asked.outputs.items()}
    with pytest.raises(AssertionError, match="stage output"):
        assert_parity(lambda _: (spoilt, asked.tensors), bundle, raw, **answer)


def test_a_wrong_output_is_told_by_stage_output_case_and_distance(windows: Any) -> None:
    def wrong(raw: Any) -> Any:
        outputs = frost_network(raw)[0].copy()
        outputs[17] += 1.0
        return outputs

    with pytest.raises(AssertionError) as caught:
        assert_parity(wrong, FROST, windows, **LIMITS)
    head, line = str(caught.value).splitlines()
    assert head == f"{FROST}, variant cpu_int8: not what the framework answers"
    assert line.startswith("- stage output, low: case 17 is ")
    assert " Cel in the answer): bundle " in line
    assert line.endswith("allowed 0.15; beyond in 1 of 40 cases")


def test_another_preprocessing_is_told_at_its_own_stage(windows: Any) -> None:
    def wrong(raw: Any) -> Any:
        shifted = np.array(raw)
        shifted[5, 2, 3] += 6.378639698028564  # one standard deviation of the pressure
        return frost_network(raw)[0], frost_network(shifted)[1]

    with pytest.raises(AssertionError, match=r"stage tensor, input window\[2, 3\]: case 5 is 1 off: bundle ") as caught:
        assert_parity(wrong, FROST, windows, **LIMITS)
    assert "stage output" not in str(caught.value)


def test_a_case_the_contract_refuses_is_told(windows: Any) -> None:
    broken = np.array(windows)
    broken[3, 0, 7] = 400.0
    with pytest.raises(AssertionError, match=r"stage contract: case 3 is refused: .*air_temperature"):
        assert_parity(frost_network, FROST, broken, **LIMITS)


def test_nan_from_the_framework_is_no_parity(windows: Any) -> None:
    with pytest.raises(AssertionError, match=r"case 0 is nan off.*framework nan.*beyond in 40 of 40 cases"):
        assert_parity(lambda raw: frost_network(raw)[0] * np.nan, FROST, windows, **LIMITS)


def test_a_bundle_that_fails_its_self_test_is_refused(windows: Any, tmp_path: Path) -> None:
    golden = bytearray((FROST / "golden.npz").read_bytes())
    golden[len(golden) // 2] ^= 1
    broken = write_with(FROST, tmp_path / "broken", {"golden.npz": bytes(golden)})
    with pytest.raises(BundleError, match="goldens failed"):
        assert_parity(frost_network, broken, windows, **LIMITS)


def test_names_and_shapes_that_do_not_fit_are_refused(windows: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"outputs: found high; expected low"):
        assert_parity(lambda raw: {"high": frost_network(raw)[0]}, FROST, windows, **LIMITS)
    with pytest.raises(AssertionError, match=r"the callable gave shape \(39, 1\), the bundle has \(40, 1\)"):
        assert_parity(lambda raw: frost_network(raw)[0][1:], FROST, windows, **LIMITS)
    with pytest.raises(ConfigurationError, match="cases first, 5 channels, 24 samples"):
        assert_parity(frost_network, FROST, windows[:, :4], **LIMITS)


class Torchlike:
    """A tensor on a graph and a device, which numpy cannot take as it is."""

    def __init__(self, values: Any, steps: tuple[str, ...] = ()) -> None:
        self.values, self.steps = values, steps

    def detach(self) -> "Torchlike":
        return Torchlike(self.values, (*self.steps, "detach"))

    def cpu(self) -> "Torchlike":
        return Torchlike(self.values, (*self.steps, "cpu"))

    def numpy(self) -> Any:
        assert self.steps == ("detach", "cpu")
        return self.values

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a tensor that requires grad")


def test_what_is_recorded_builds_and_passes(pack: Pack, tmp_path: Path) -> None:
    pack.edit('"int8"', '"float32"')
    answer, raw = tiny_network(pack), asked(pack)

    def torchlike(values: Any) -> Any:
        outputs, tensor = answer(values)
        return Torchlike(outputs), Torchlike(tensor)

    table = record_reference(torchlike, raw, pack.folder / "fresh.npz")
    assert tomllib.loads(table) == {
        "reference": {"file": "fresh.npz", "raw": "raw", "tensor": "tensor", "output": "output"}
    }
    text = pack.contract.read_text()
    before, _, after = text.partition("[reference]")
    pack.contract.write_text(before + table + after[after.index("\n[[input]]") :])
    build_bundle(pack.contract, out=tmp_path / "tiny_bundle")
    assert_parity(torchlike, tmp_path / "tiny_bundle", raw, rtol=1e-5, atol=1e-5)


def test_equal_answers_are_equal_bytes(pack: Pack) -> None:
    answer, raw = tiny_network(pack), asked(pack)
    for name in ("one", "two"):
        record_reference(answer, raw, pack.folder / f"{name}.npz")
    assert (pack.folder / "one.npz").read_bytes() == (pack.folder / "two.npz").read_bytes()
    with np.load(pack.folder / "one.npz") as found:
        assert found["raw"].dtype == raw.dtype
        assert (found["tensor"] == answer(raw)[1]).all()


def test_arrays_by_name_are_named_so(tmp_path: Path) -> None:
    raw = {"a": np.arange(6.0).reshape(3, 2), "word": np.array(["x", "y", "x"])}

    def answer(values: Mapping[str, Any]) -> Any:
        return {"first": values["a"][:, :1], "second": values["a"].sum(axis=1)}

    table = record_reference(answer, raw, tmp_path / "r.npz")
    assert tomllib.loads(table)["reference"] == {
        "file": "r.npz",
        "raw": {"a": "raw/a", "word": "raw/word"},
        "tensor": "TODO",
        "output": {"first": "output/first", "second": "output/second"},
    }
    assert "lambda raw: (predict(raw), tensor(raw))" in table
    with np.load(tmp_path / "r.npz") as found:
        assert sorted(found.files) == ["output/first", "output/second", "raw/a", "raw/word"]


def test_a_network_in_training_mode_is_refused(tmp_path: Path) -> None:
    raw = np.random.default_rng(1).normal(size=(8, 3))
    dice = np.random.default_rng(2)
    with pytest.raises(ConfigurationError, match=r"asked again, the callable, output: found .*model\.eval"):
        record_reference(lambda values: values * (dice.random(3) > 0.5), raw, tmp_path / "r.npz")
    with pytest.raises(ConfigurationError, match=r"asked for case 0 alone, the callable, output: found .*its batch"):
        record_reference(lambda values: values - values.mean(axis=0), raw, tmp_path / "r.npz")
    with pytest.raises(ConfigurationError, match="asked again, the callable, output: found"):
        record_reference(lambda values: (values * (dice.random(3) > 0.5), values), raw, tmp_path / "r.npz")
    with pytest.raises(ConfigurationError, match="asked again, the callable, tensor: found"):
        record_reference(lambda values: (values, values * (dice.random(3) > 0.5)), raw, tmp_path / "r.npz")
    assert not (tmp_path / "r.npz").exists()


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda raw: raw[1:], "7, 3"),
        (lambda raw: raw * np.inf, "infinite"),
        (lambda _: 3.0, r"shape \(\)"),
        (lambda raw: raw.astype(object), "object"),
    ],
)
def test_what_cannot_be_recorded_is_refused(answer: Any, found: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=found):
        record_reference(answer, np.ones((8, 3)), tmp_path / "r.npz")


def test_a_disk_that_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="a place to write the reference to"):
        record_reference(lambda raw: raw, np.ones((8, 3)), tmp_path / "none" / "r.npz")


def manifest_with(length: int) -> Any:
    manifest = parse((FROST / "manifest.json").read_bytes())
    return manifest.model_copy(update={"window": manifest.window.model_copy(update={"length": length})})


def test_an_order_that_the_sizes_leave_open_must_be_said() -> None:
    manifest = manifest_with(5)
    raw = np.arange(2 * 5 * 5, dtype=float).reshape(2, 5, 5)
    with pytest.raises(ConfigurationError, match="say which is which"):
        rows_of(raw, manifest, None)
    assert (rows_of(raw, manifest, ("case", "time", "channel")) == raw).all()
    assert (rows_of(raw, manifest, ("case", "channel", "time")) == raw.transpose(0, 2, 1)).all()
    with pytest.raises(ConfigurationError, match="under the axes case, channel"):
        rows_of(raw, manifest, ("case", "channel"))


def test_channels_by_name_must_all_be_there_and_of_one_length() -> None:
    manifest = manifest_with(4)
    raw = {channel.name: np.ones((2, 4)) for channel in manifest.channels}
    assert rows_of(raw, manifest, None).shape == (2, 4, 5)
    with pytest.raises(ConfigurationError, match="raw, channels"):
        rows_of({**raw, "more": np.ones((2, 4))}, manifest, None)
    with pytest.raises(ConfigurationError, match="the same of each channel"):
        rows_of(raw | {"wind_speed": np.ones((3, 4))}, manifest, None)
    with pytest.raises(ConfigurationError, match=r"shape \(2,\)"):
        rows_of(raw | {"wind_speed": np.ones(2)}, manifest, None)


def test_words_become_their_places() -> None:
    manifest = manifest_with(2)
    first = manifest.inputs[0]
    word = first.channels[0].model_copy(
        update={"name": "word", "form": "category", "categories": ("dry", "wet"), "unknown": None}
    )
    manifest = manifest.model_copy(update={"inputs": (first.model_copy(update={"channels": (word,)}),)})
    raw = {"word": np.array([["wet", "dry"]])}
    assert rows_of(raw, manifest, None).tolist() == [[[1.0], [0.0]]]
    with pytest.raises(ConfigurationError, match="'damp'"):
        rows_of({"word": np.array([["wet", "damp"]])}, manifest, None)
    with pytest.raises(ConfigurationError, match="arrays by channel"):
        rows_of(np.ones((1, 2, 1)), manifest, None)
