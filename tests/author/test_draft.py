"""`init`: what can be seen is filled in, what cannot be known is TODO, and a filled-in draft builds."""

import re
import subprocess
import sys
import tomllib
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest

from edge_runtime.author.build import build
from edge_runtime.author.contract import load_contract
from edge_runtime.author.draft_text import channel_names
from edge_runtime.author.init_command import main
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError
from tests.author.conftest import tiny_model

EXAMPLES = Path(__file__).parents[2] / "examples"
DEWPOINT = EXAMPLES / "dewpoint"


def init(model: Path, data: Path, out: Path, target: str | None = None) -> str:
    assert main(Namespace(model=str(model), data=str(data), out=str(out), target=target)) == 0
    return out.read_text()


def fill(text: str, answers: list[tuple[str, str]]) -> str:
    """Answer TODOs as an author does: each pair is a text that must stand there, and what becomes of it, once."""
    for old, new in answers:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def windows_model(folder: Path, *, length: int = 3) -> Path:
    path = folder / "Tiny Model.onnx"
    onnx.save(tiny_model(length=length), path)
    return path


def csv_model(folder: Path, channels: int = 2) -> Path:
    from tests.author.test_lint import make

    path = folder / "model.onnx"
    onnx.save(make(x=("batch", channels)), path)
    return path


def test_a_filled_in_draft_builds(tmp_path: Path) -> None:
    out = tmp_path / "contract.toml"
    text = init(DEWPOINT / "model_fp32.onnx", DEWPOINT / "data.npz", out)
    with pytest.raises(ConfigurationError, match=r"description: found TODO"):
        load_contract(out)
    known = tomllib.loads((DEWPOINT / "contract.toml").read_text())
    step = known["input"][0]["preprocess"][0]
    filled = fill(text, [
        ('description = "TODO"', 'description = "one reading -> dew point"'),
        ('checkpoint = "TODO"', 'checkpoint = "dewpoint"'),
        ('checkpoint_sha256 = "TODO"', f'checkpoint_sha256 = "{"0" * 64}"'),
        ('framework = "TODO"', 'framework = "torch"'),
        ('training_data = "TODO"', 'training_data = "one station"'),
        ('licence = "TODO"', 'licence = "CC0-1.0"'), ('limits = "TODO"', 'limits = "a test"'),
        *(
            (old, new)
            for unit, band in (("Cel", "[-60, 60]"), ("%", "[0, 105]"), ("hPa", "[500, 1100]"))
            for old, new in (('unit = "TODO"', f'unit = "{unit}"'), ('physical = ["TODO", "TODO"]', f"physical = {band}"))
        ),
        ("# [[input.preprocess]]\n# step", "[[input.preprocess]]\nstep"),
        ("# mean = [", f"mean = {step['mean']} # ["), ("# std = [", f"std = {step['std']} # ["),
        ('meaning = "TODO"', 'meaning = "dew point"'), ('unit = "TODO"', 'unit = "Cel"'),
    ])  # fmt: skip
    assert '"TODO"' not in filled
    out.write_text(filled)
    built = build(out, None, lambda _: None, strengthens=False)
    assert built.failures == ()
    assert (
        built.record.metrics["cpu_float32"]["dew_point"].mae_bundle is not None
    )  # target and test split were found by themselves


def test_the_draft_of_the_frost_model_shows_what_the_data_says(tmp_path: Path) -> None:
    text = init(EXAMPLES / "frost" / "model_fp32.onnx", EXAMPLES / "frost" / "data.npz", tmp_path / "c.toml")
    raw = tomllib.loads(text)
    known = tomllib.loads((EXAMPLES / "frost" / "contract.toml").read_text())
    assert raw["data"]["axes"] == known["data"]["axes"]
    for role in ("train", "validation", "test"):
        assert raw["data"][role] == known["data"][role]
    assert raw["input"][0]["axes"] == known["input"][0]["axes"]
    assert raw["window"]["length"] == 24
    drafted, stated = (one["input"][0]["channel"] for one in (raw, known))
    runs = [one["stuck_after"] - 1 for one in stated]
    assert [one["stuck_after"] for one in drafted] == [run + (run + 1) // 2 for run in runs]
    assert not any("trained" in one for one in drafted)
    assert {one["unit"] for one in raw["input"][0]["channel"]} == {"TODO"}
    assert raw["input"][0]["channel"][0]["tolerated"] == pytest.approx([-10, 34.4], abs=8)
    assert '# flags = [{ name = "low", side = "below", on = 2.0, off = 2.5 }]' in text
    assert text.splitlines()[6].startswith('# For int8 write "int8": the build quantizes the model by data.train')
    assert "# 64 hex digits, for instance from: sha256sum checkpoint.pt" in text
    assert raw["output"][0]["tensor"] == known["output"][0]["tensor"]
    assert len(re.findall(r"^# lowest .*50 % .*highest ", text, re.MULTILINE)) == 5
    with pytest.raises(ConfigurationError, match="found TODO"):
        load_contract(tmp_path / "c.toml")


def test_a_csv_gives_names_rate_gaps_and_runs(tmp_path: Path) -> None:
    rows = ["Time (UTC);Air temp [°C];RH %;note"]
    rows += [f"2026-01-01T00:{at:02d}:00Z;{20 + at // 4},5;{'' if at == 3 else 50 + at};ok" for at in range(12)]
    (tmp_path / "log.csv").write_text("\n".join(rows), encoding="utf-8")
    text = init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    raw = tomllib.loads(text)
    assert [one["name"] for one in raw["input"][0]["channel"]] == ["air_temp_c", "rh"]
    assert raw["input"][0]["channel"][0]["tolerated"] == [20.5, 22.5]
    assert raw["data"]["file"] == "TODO"
    assert "12 cases, from log.csv; left out, not numbers: note." in text
    assert "one sample every 60 s" in text
    assert "# 1 are missing (NaN)" in text
    assert "in the order of the file: 4 samples" in text
    assert raw["model"] == "model.onnx"


def test_a_csv_without_heading_and_a_window(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("1,5\n1,6\n2,7\n")
    raw = tomllib.loads(init(windows_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml"))
    assert [one["name"] for one in raw["input"][0]["channel"]] == ["channel_0", "channel_1"]
    assert raw["window"] == {"length": 3, "hop": 1, "period_s": "TODO"}
    assert raw["id"] == "tiny-model"
    assert raw["input"][0]["axes"] == ["batch", "channel", "time"]


def test_npz_names_times_and_structured_arrays(tmp_path: Path) -> None:
    times = np.datetime64("2026-01-01") + np.arange(20) * np.timedelta64(10, "s")
    values = np.arange(40.0).reshape(20, 2)
    np.savez(tmp_path / "named.npz", x=values, columns=np.array(["A b", "C"]), when=times)
    text = init(csv_model(tmp_path), tmp_path / "named.npz", tmp_path / "one.toml")
    assert [one["name"] for one in tomllib.loads(text)["input"][0]["channel"]] == ["a_b", "c"]
    assert "every 10 s" in text
    np.savez(tmp_path / "fields.npz", x=np.array([(1.0, 2.0), (3.0, 5.0)], dtype=[("t_air", "f8"), ("rh", "f4")]))
    text = init(csv_model(tmp_path), tmp_path / "fields.npz", tmp_path / "two.toml")
    assert [one["name"] for one in tomllib.loads(text)["input"][0]["channel"]] == ["t_air", "rh"]


def test_parquet_needs_pyarrow_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DeviceError, match="no pyarrow to read Parquet with; expected CSV, NPZ, or pyarrow"):
        init(csv_model(tmp_path), tmp_path / "log.parquet", tmp_path / "contract.toml")


def test_parquet_is_read_through_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Table:
        column_names = ("a", "b")

        def column(self, at: int) -> "Table":
            self.at = at
            return self

        def to_pylist(self) -> list[float | None]:
            return [[1.0, 2.0, None], [4.0, 5.0, 6.0]][self.at]  # type: ignore[return-value]

    module = ModuleType("pyarrow.parquet")
    module.read_table = lambda _: Table()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    text = init(csv_model(tmp_path), tmp_path / "log.parquet", tmp_path / "contract.toml")
    assert [one["name"] for one in tomllib.loads(text)["input"][0]["channel"]] == ["a", "b"]
    assert "1 are missing" in text
    module.read_table = lambda _: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="no readable Parquet"):
        init(csv_model(tmp_path), tmp_path / "log.parquet", tmp_path / "other.toml")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "contract.toml"
    out.write_text("mine")
    with pytest.raises(ConfigurationError, match="found a file already there; expected a name that is free"):
        init(DEWPOINT / "model_fp32.onnx", DEWPOINT / "data.npz", out)
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("log.csv", b"\xff\xfe1", "no UTF-8"),
        ("log.csv", b"", "no rows"),
        ("log.csv", b"a,b\n1\n", "1 cells in row 2, 2 in the first"),
        ("log.csv", b"a,b\nx,y\n", "no column of numbers"),
        ("log.json", b"{}", "the ending '.json'"),
        ("log.npz", b"PK", "no readable .npz"),
    ],
)
def test_data_that_is_none(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigurationError) as caught:
        init(csv_model(tmp_path), tmp_path / name, tmp_path / "contract.toml")
    assert words in str(caught.value)
    assert not (tmp_path / "contract.toml").exists()


def test_models_that_are_none_or_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
    with pytest.raises(BundleError, match=r"found shape \(batch, 2\); expected \(batch, 6\)"):
        init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    (tmp_path / "net.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\0" * 32)
    with pytest.raises(BundleError, match=r"found a LiteRT .* model; expected ONNX; convert it with tf2onnx"):
        init(tmp_path / "net.tflite", tmp_path / "log.csv", tmp_path / "contract.toml")
    (tmp_path / "net.onnx").write_bytes(b"not a model")
    with pytest.raises(BundleError, match="no ONNX model"):
        init(tmp_path / "net.onnx", tmp_path / "log.csv", tmp_path / "contract.toml")
    with pytest.raises(ConfigurationError, match="No such file"):
        init(tmp_path / "absent.onnx", tmp_path / "log.csv", tmp_path / "contract.toml")


def test_a_column_too_many_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b,dew_point\n1,2,3\n")
    with pytest.raises(BundleError) as caught:
        init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    line = str(caught.value)
    assert line.startswith(
        "log.csv: found 3 channels, 1 too many (dew_point perhaps, the last, which may be what was true); expected 2, as "
        f"input x of {tmp_path}/model.onnx, shape (batch, 2) takes; for a target: --target dew_point; for neither: take the "
        "column out of log.csv"
    )


def test_a_target_is_named_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,dew point,b\n1,2.5,3\n4,5.5,6\n")
    text = init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml", "dew point")
    raw = tomllib.loads(text)
    assert [one["name"] for one in raw["input"][0]["channel"]] == ["a", "b"]
    assert raw["data"]["train"] == {"values": "train", "target": "train_dew_point"}
    with pytest.raises(
        ConfigurationError, match=r"--target: found no column 'dew_pont' in log\.csv; expected 'dew point'"
    ):
        init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "other.toml", "dew_pont")
    np.savez(tmp_path / "log.npz", x=np.ones((9, 2)), y=np.ones(9))
    with pytest.raises(ConfigurationError, match="--target: found y; expected only with a table of columns"):
        init(csv_model(tmp_path), tmp_path / "log.npz", tmp_path / "other.toml", "y")
    np.savez(tmp_path / "log.npz", x=np.ones((9, 3)))
    with pytest.raises(BundleError, match=r"3 channels, 1 too many .* write it as an array of its own"):
        init(csv_model(tmp_path), tmp_path / "log.npz", tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("name", "cells"), [("label", "012"), ("Target class", "012"), ("logits", "210"), ("y", "135")]
)
def test_a_column_that_is_called_a_target_is_no_channel(tmp_path: Path, name: str, cells: str) -> None:
    rows = "".join(f"{at},{cell},{at * 2}\n" for at, cell in enumerate(cells * 2))
    (tmp_path / "log.csv").write_text(f"a,{name},b\n{rows}")
    text = init(scores_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    raw = tomllib.loads(text)
    assert [one["name"] for one in raw["input"][0]["channel"]] == ["a", "b"]
    target = f"train_{channel_names([name])[0]}"
    assert raw["data"]["train"] == {"values": "train", "target": target}
    assert f'numpy.savez("data.npz", train=..., {target}=...)' in text
    assert raw["output"][0].get("labels") == (None if name == "y" else ["0", "1", "2"])  # 1, 3, 5 are no places


def test_a_column_that_the_model_takes_stays_a_channel_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,class\n1,2\n3,4\n")
    raw = tomllib.loads(init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml"))
    assert [one["name"] for one in raw["input"][0]["channel"]] == ["a", "class"]
    assert raw["data"]["train"] == {"values": "train"}


def test_a_column_of_words_that_is_called_a_target_is_one(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b,class,note\n1,2,wet,x\n2,3,dry,x\n4,1,icy,x\n")
    text = init(scores_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    raw = tomllib.loads(text)
    assert raw["data"]["train"] == {"values": "train", "target": "train_class"}
    assert raw["output"][0]["labels"] == ["dry", "icy", "wet"]
    assert "left out, not numbers: note." in text


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            [1, 2, 3, 4, 5],
            "# stuck_after = 3  # a longest run of 1 says nothing of how long an honest sensor may stand still",
        ),
        ([1, 2, 2, 2, 3], "# stuck_after = 5  # a longest run of 3 says nothing"),
        ([1, 2, 2, 2, 2], "stuck_after = 6  # the longest equal run here is 4 samples, and half as many more"),
        ([7, 7, 7, 7, 7], "# stuck_after = 8  # it never changes here: who knows how long"),
    ],
)
def test_a_limit_on_equal_values_is_drafted_where_the_data_say_something(
    tmp_path: Path, values: list[int], line: str
) -> None:
    (tmp_path / "log.csv").write_text("".join(f"{one},{at % 3}\n" for at, one in enumerate(values)))
    text = init(windows_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    assert f"\n{line}" in text


@pytest.mark.parametrize(
    ("arrays", "reference"),
    [
        (("raw", "tensor", "output"), {"raw": "raw", "tensor": "tensor", "output": "output"}),
        (("raw/a", "raw/b", "output"), {"raw": {"a": "raw/a", "b": "raw/b"}, "tensor": "TODO", "output": "output"}),
        # What has the layout of the data and the shape of the model's input may be either.
        (("readings", "output"), {"raw": "TODO", "tensor": "TODO", "output": "output"}),
        (("readings", "tensor", "output"), {"raw": "readings", "tensor": "tensor", "output": "output"}),
        (("readings", "tensor"), {"raw": "TODO", "tensor": "tensor", "output": "TODO"}),
        (("other",), {"raw": "TODO", "tensor": "TODO", "output": "TODO"}),
    ],
)
def test_a_reference_beside_the_data_is_filled_in(
    tmp_path: Path, arrays: tuple[str, ...], reference: dict[str, object]
) -> None:
    (tmp_path / "log.csv").write_text("a,b\n1,2\n2,3\n")
    np.savez(tmp_path / "reference.npz", **{name: np.ones((2, 2)) for name in arrays})
    text = init(csv_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    found = tomllib.loads(text)["reference"]
    assert found.pop("file") == "reference.npz"
    assert found == reference
    assert ("guessed by its shape: check it" in text) == (reference["raw"] == "readings")
    assert ("# perhaps one of readings (2, 2)" in text) == ("readings" in arrays and "TODO" in reference.values())
    assert ("# perhaps one of other (2, 2)" in text) == (arrays == ("other",))


def test_a_reference_of_other_names_is_known_by_its_shapes(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b\n1,2\n2,3\n")
    np.savez(tmp_path / "reference.npz", asked=np.ones((9, 2)), scaled=np.ones((9, 2)), said=np.ones((9, 3)))
    found = tomllib.loads(init(scores_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml"))["reference"]
    assert found == {"file": "reference.npz", "raw": "TODO", "tensor": "TODO", "output": "said"}
    # Windows are drafted by the layout of the data, not by that of the model.
    np.savez(tmp_path / "d.npz", train=np.random.default_rng(2).normal(size=(8, 4, 2)))
    np.savez(tmp_path / "reference.npz", asked=np.ones((9, 4, 2)), scaled=np.ones((9, 2, 4)), said=np.ones((9, 1)))
    found = tomllib.loads(init(windows_model(tmp_path, length=4), tmp_path / "d.npz", tmp_path / "w.toml"))["reference"]
    assert found == {"file": "reference.npz", "raw": "asked", "tensor": "scaled", "output": "said"}
    # A series has yet to be cut into windows.
    found = tomllib.loads(init(windows_model(tmp_path, length=4), tmp_path / "log.csv", tmp_path / "s.toml"))[
        "reference"
    ]
    assert found == {"file": "reference.npz", "raw": "TODO", "tensor": "scaled", "output": "said"}


TREES = EXAMPLES / "tiny" / "trees"


def scores_model(folder: Path, classes: int = 3, dtype: int = onnx.TensorProto.FLOAT) -> Path:
    """Two channels in, ``classes`` numbers out."""
    weights = np.arange(2.0 * classes, dtype=np.float32).reshape(2, classes) / 7
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["logits"])], "scores",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2])],
        [onnx.helper.make_tensor_value_info("logits", dtype, ["batch", classes])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), folder / "scores.onnx")
    return folder / "scores.onnx"


def outputs_of(tmp_path: Path, model: Path, **arrays: object) -> tuple[list[dict[str, object]], str]:
    values = np.random.default_rng(3).normal(size=(12, 2))
    np.savez(tmp_path / "d.npz", train=values, **{name: np.array(one) for name, one in arrays.items()})
    (tmp_path / "c.toml").unlink(missing_ok=True)
    text = init(model, tmp_path / "d.npz", tmp_path / "c.toml")
    return tomllib.loads(text)["output"], text


def test_a_classifier_of_trees_is_drafted_with_its_labels_and_scores_and_builds(tmp_path: Path) -> None:
    np.savez(tmp_path / "reference.npz", **{
        {"label": "output/label", "probability": "output/probability"}.get(name, name): values
        for name, values in np.load(TREES / "reference.npz").items()
    })  # fmt: skip
    (tmp_path / "data.npz").write_bytes((TREES / "data.npz").read_bytes())
    out = tmp_path / "contract.toml"
    text = init(TREES / "model.onnx", tmp_path / "data.npz", out)
    drafted, known = (tomllib.loads(one)["output"] for one in (text, (TREES / "contract.toml").read_text()))
    for one, stated in zip(drafted, known, strict=True):
        assert {key: one.get(key) for key in ("tensor", "form", "labels")} == {
            key: stated.get(key) for key in ("tensor", "form", "labels")
        }
    filled = re.sub(r"physical = .*", "physical = [-90, 110]\nwhen_missing = 'pass'", text)
    filled = filled.replace('precision = "float32"', 'precision = "as_is"')
    filled = filled.replace('checkpoint_sha256 = "TODO"', f'checkpoint_sha256 = "{"0" * 64}"')
    out.write_text(filled.replace('unit = "TODO"', 'unit = "1"').replace('"TODO"', '"a test"'))
    built = build(out, None, lambda _: None)
    assert built.failures == ()
    (measured,) = built.record.metrics.values()
    assert measured["label"].accuracy_bundle == 1  # the target was found, and is the label's


@pytest.mark.parametrize("numbers", [True, False])
def test_the_maps_of_scikit_learn_are_drafted_as_their_tensor(tmp_path: Path, numbers: bool) -> None:
    from tests.author.test_rewrite import classifier

    onnx.save(classifier(numbers=numbers), tmp_path / "m.onnx")
    (label, scores), text = outputs_of(tmp_path, tmp_path / "m.onnx", train_y=[[7, 3, 11][at % 3] for at in range(12)])
    # The label's numbers are no places, so the scores tell it; a text is the label itself.
    assert label["tensor"] == ("probability" if numbers else "label")
    assert label["labels"] == (["7", "3", "11"] if numbers else ["a", "b", "c"])
    assert (scores["tensor"], scores["form"]) == ("probability", "vector")
    assert "# train_y has values that are none of these labels: write it as their words, or" in text


@pytest.mark.parametrize(
    ("target", "labels", "source"),
    [
        ([0, 1, 2] * 4, ["0", "1", "2"], "places, as train_y numbers the classes: write their words, if they have any"),
        (["wet", "dry", "icy"] * 4, ["dry", "icy", "wet"], "the words of train_y in sorted order: check it"),
    ],
)
def test_scores_beside_a_target_of_classes(
    tmp_path: Path, target: list[object], labels: list[str], source: str
) -> None:
    (label, scores), text = outputs_of(tmp_path, scores_model(tmp_path), train_y=target)
    assert (label["tensor"], label["form"], label["labels"]) == ("logits", "label", labels)
    assert (scores["tensor"], scores["form"]) == ("logits", "vector")
    assert source in text
    assert "none of these labels" not in text
    assert label["meaning"] == "TODO"


@pytest.mark.parametrize(("name", "is_found"), [("y", True), ("class_labels", True), ("station", False)])
def test_beside_values_of_one_split_the_target_is_known_by_its_name(tmp_path: Path, name: str, is_found: bool) -> None:
    np.savez(tmp_path / "d.npz", X=np.arange(24.0).reshape(12, 2), **{name: np.array([0, 1, 2] * 4)})
    raw = tomllib.loads(init(scores_model(tmp_path), tmp_path / "d.npz", tmp_path / "c.toml"))
    assert raw["data"]["train"] == ({"values": "X", "target": name} if is_found else {"values": "X"})
    assert ("labels" in raw["output"][0]) == is_found


@pytest.mark.parametrize(
    "target", [[0.5, 1.5, 2.5] * 4, [0, 1, 7] * 4, [1, 1, 1] * 4, ["dry", "wet", "dry"] * 4], ids=str
)
def test_what_is_no_class_stays_a_number(tmp_path: Path, target: list[object]) -> None:
    (number,), text = outputs_of(tmp_path, scores_model(tmp_path), train_y=target)
    assert number["tensor"] == "logits"
    assert "form" not in number
    assert '# 3 numbers a case: one of them by its `column`, or form = "vector"' in text


def test_a_label_that_nobody_names_is_todo(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0)], "place",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2])],
        [onnx.helper.make_tensor_value_info("place", onnx.TensorProto.INT64, ["batch"])],
    )  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    (label,), text = outputs_of(tmp_path, tmp_path / "m.onnx")
    assert label["labels"] == ["TODO"]
    assert 'its words, by place; or form = "number", where it counts something' in text


def test_a_column_of_words_in_a_csv_names_the_classes_and_is_the_target(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b,road,note\n1,2,wet,x\n2,3,dry,x\n4,1,icy,x\n")
    text = init(scores_model(tmp_path), tmp_path / "log.csv", tmp_path / "contract.toml")
    raw = tomllib.loads(text)
    assert raw["output"][0]["labels"] == ["dry", "icy", "wet"]
    assert "the words of road in sorted order" in text
    assert raw["data"]["train"] == {"values": "train", "target": "train_road"}
    assert 'numpy.savez("data.npz", train=..., train_road=...); train_road: the words of road, one a case' in text
    assert "left out, not numbers: note." in text


def test_words_that_no_target_proves_are_left_to_the_author(tmp_path: Path) -> None:
    """Two columns could be the classes: which, and in what order, only the author knows."""
    (tmp_path / "log.csv").write_text("a,b,road,sky\n1,2,wet,grey\n2,3,dry,blue\n4,1,icy,red\n")
    out = tmp_path / "contract.toml"
    text = init(scores_model(tmp_path), tmp_path / "log.csv", out)
    raw = tomllib.loads(text)
    assert raw["output"][0]["labels"] == ["TODO"]
    assert raw["data"]["train"] == {"values": "train"}
    assert "perhaps the words of road (dry, icy, wet): no target proves their order" in text


@pytest.mark.parametrize("operator", ["Softmax", "Sigmoid", None])
def test_no_softmax_is_offered_where_the_model_has_done_it(tmp_path: Path, operator: str | None) -> None:
    model = onnx.load(scores_model(tmp_path))
    if operator:
        model.graph.node[0].output[0] = "before"
        model.graph.node.append(onnx.helper.make_node(operator, ["before"], ["logits"]))
        onnx.save(model, tmp_path / "scores.onnx")
    _, text = outputs_of(tmp_path, tmp_path / "scores.onnx", train_y=[0, 1, 2] * 4)
    assert ("if these are logits" in text) == (operator is None)
    assert ("the model's own last node has done it" in text) == (operator is not None)


@pytest.mark.parametrize("kind", ["window", "classes"])
def test_init_counts_the_todos_that_build_tells(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text("a,b,road,sky\n1,2,wet,grey\n2,3,dry,blue\n4,1,icy,red\n")
    out = tmp_path / "contract.toml"
    init(windows_model(tmp_path) if kind == "window" else scores_model(tmp_path), tmp_path / "log.csv", out)
    count = int(re.search(r"(\d+) TODOs", capsys.readouterr().err)[1])  # type: ignore[index]
    with pytest.raises(ConfigurationError) as caught:
        load_contract(out)
    lines = [str(caught.value), *map(str, caught.value.others)]
    assert sum("found TODO" in line for line in lines) == count == len(lines)


def test_headings_become_names() -> None:
    assert channel_names(["Air temp [°C]", "air_temp C", "1st", "", "°"]) == (
        "air_temp_c", "air_temp_c_2", "channel_1st", "channel_3", "channel_4",
    )  # fmt: skip


def test_odd_headings_and_paths_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" \\ é \U0001f600'
    folder.mkdir()
    (folder / "log.csv").write_text('"x""\nunit = 1",\x7fy\n1,2\n2,3\n', encoding="utf-8")
    text = init(csv_model(folder), folder / "log.csv", tmp_path / "contract.toml")
    assert tomllib.loads(text)["model"] == f"{folder.name}/model.onnx"


def test_without_onnx_it_is_one_line() -> None:
    script = "import sys; sys.modules['onnx'] = None\nimport edge_runtime.author.init_command"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "onnx: found not installed; expected the package that builds need and devices do not; install edge-runtime[author]"
    )
