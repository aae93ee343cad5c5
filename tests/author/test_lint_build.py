"""Lints as a build uses them: refused although it loads and runs, waived in writing, told once."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edge_runtime.author.build import Build, build
from edge_runtime.author.contract import load_contract
from edge_runtime.author.lint_build import as_exported
from edge_runtime.author.record import read_record
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError, ConfigurationError
from tests.author.conftest import Pack, tiny_model

ROOT = Path(__file__).parents[2]
REASON = "the one station that feeds it is set to Celsius and sealed"


def _build(pack: Pack) -> Build:
    return build(pack.contract, None, lambda _: None, strengthens=False)


def _command(pack: Pack, out: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "edge_runtime", "build", str(pack.contract), "--out", str(out)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def over_the_batch() -> onnx.ModelProto:
    """The tiny model with a normalization by the batch's own mean in it, as an export in training mode writes it out."""
    model = tiny_model()
    model.graph.node[1].input[0] = "centred"
    nodes = [
        helper.make_node("ReduceMean", ["flat", "axes"], ["mean"], name="mean", keepdims=1),
        helper.make_node("Sub", ["flat", "mean"], ["centred"], name="centre"),
    ]
    for at, node in enumerate(nodes):
        model.graph.node.insert(1 + at, node)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "axes"))
    return model


def in_training_mode() -> onnx.ModelProto:
    """The tiny model with a BatchNormalization that torch exported where eval() was forgotten."""
    model = tiny_model()
    model.graph.node[1].input[0] = "normal"
    names = ["scale", "bias", "running_mean", "running_variance"]
    node = helper.make_node(
        "BatchNormalization", ["flat", *names], ["normal", "m", "v"], name="norm", training_mode=1
    )  # fmt: skip
    model.graph.node.insert(1, node)
    for name in names:
        model.graph.initializer.append(numpy_helper.from_array(np.ones(6, np.float32), name))
    return model


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [(over_the_batch(), 1, "[batch-dependent]"), (in_training_mode(), 65, "eval()")],
    ids=["written out", "by its operator"],
)
def test_an_export_in_training_mode_loads_and_runs_and_the_command_refuses_it(
    pack: Pack, tmp_path: Path, model: onnx.ModelProto, code: int, words: str
) -> None:
    data = model.SerializeToString()
    assert open_session(data)({"window": np.ones((2, 2, 3), np.float32)})["low"].shape == (2, 1)
    (pack.folder / "model.onnx").write_bytes(data)
    done = _command(pack, tmp_path / "made")
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_file_of_another_framework_is_named_with_the_way_to_onnx(pack: Pack, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("net/data.pkl", b"")
    (pack.folder / "model.onnx").write_bytes(stream.getvalue())
    with pytest.raises(BundleError, match=r"model.onnx: found a PyTorch checkpoint .*; expected ONNX; in PyTorch"):
        _build(pack)
    done = _command(pack, tmp_path / "made")
    assert (done.returncode, len(done.stderr.splitlines())) == (65, 1)


def test_an_assumed_unit_that_could_be_another_fails_the_build_unless_it_is_waived(pack: Pack) -> None:
    pack.edit('unit = "Cel"\n', 'unit = "Cel"\nwhen_undeclared = "assume"\n')
    (line,) = _build(pack).failures
    assert line.startswith("channel air_temperature in Cel: ")
    assert "[confusable-unit]" in line
    pack.edit("[goldens]", f'[waive]\nconfusable-unit = "{REASON}"\n\n[goldens]')
    made = _build(pack)
    assert made.failures == ()
    (waived,) = [one for one in made.record.warnings if one.startswith("waived: ")]
    assert waived.endswith(f"[confusable-unit]; reason: {REASON}")


def test_a_waiver_of_nothing_is_told(pack: Pack) -> None:
    pack.edit("[goldens]", f'[waive]\ndead-channel = "{REASON}"\n\n[goldens]')
    made = _build(pack)
    assert made.failures == ()
    told = "contract.toml, waive.dead-channel: nothing to waive was found; remove it"
    assert told in made.record.warnings  # no path: two builds have one record wherever they are made


@pytest.mark.parametrize(
    ("waiver", "words"),
    [(f'dead-chanel = "{REASON}"', "'dead-channel' perhaps"), ('dead-channel = "fine"', "waive.dead-channel")],
)
def test_a_waiver_that_cannot_be_is_refused(pack: Pack, waiver: str, words: str) -> None:
    pack.edit("[goldens]", f"[waive]\n{waiver}\n\n[goldens]")
    with pytest.raises(ConfigurationError, match=words):
        _build(pack)


def test_a_waiver_does_not_make_a_model_run(pack: Pack) -> None:
    (pack.folder / "model.onnx").write_bytes(in_training_mode().SerializeToString())
    pack.edit("[goldens]", f'[waive]\ntraining-mode = "{REASON}"\n\n[goldens]')
    with pytest.raises(BundleError, match=r"eval\(\)"):
        _build(pack)


@pytest.mark.parametrize("name", sorted(one.name for one in (ROOT / "bundles").iterdir() if one.is_dir()))
def test_the_examples_have_no_error_and_each_clip_is_told_once(name: str) -> None:
    folder = ROOT / "examples" / name.replace("tiny_", "tiny/")
    contract = load_contract(folder / "contract.toml")
    models = {file: (folder / file).read_bytes() for file in map(contract.model_of, contract.variants)}
    found = as_exported(contract, models, 1000, folder)
    assert [str(one) for one in found if one.severity == "error"] == []
    told = [
        line.partition(":")[0]
        for line in read_record(ROOT / "bundles" / f"{name}.build.json").warnings
        if "[clipped-range]" in line
    ]
    assert len(told) == len(set(told))
