"""`explain` on a workstation: which bundle is held against which, and what is told where there is nothing to hold."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edge_runtime import cli
from edge_runtime.author.bisect_command import main
from edge_runtime.commands import COMMANDS
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.report import BOTH_TIERS, Report
from edge_runtime.spec.report_file import report_file
from tests.author.bisect_trial import miscomputing
from tests.rig.bundles import DEWPOINT, FROST, write_with, write_with_manifest

OTHER = "OpenVINOExecutionProvider"


def _told(capsys: pytest.CaptureFixture[str], **given: object) -> str:
    blank = {"report": None, "bundle": None, "config": None, "profile": None, "inject": None, "against": None}
    assert main(Namespace(**(blank | {key: value and str(value) for key, value in given.items()}))) == 0
    return capsys.readouterr().out


def _wrong(to: Path) -> Path:
    """The dew point with the bias of its last node off."""
    model = onnx.load_model_from_string((DEWPOINT / "model_float32.onnx").read_bytes())
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "2.bias")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.5), "2.bias"))
    return write_with(DEWPOINT, to, {"model_float32.onnx": model.SerializeToString()})


def _report(report: Report, to: Path) -> Path:
    to.write_text(report_file([report], BOTH_TIERS).model_dump_json(by_alias=True))
    return to


def test_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = _wrong(tmp_path / "b")
    report = _report(boot(wrong, make_setting()).report, tmp_path / "report.json")
    for given in ({"bundle": wrong, "against": DEWPOINT}, {"report": report, "bundle": wrong, "against": DEWPOINT}):
        told = _told(capsys, **given)
        assert "  first wrong  stage two of three, the model: node_linear_1 (Gemm)\n" in told
        assert "what differs: constant 2.bias\n" in told
        assert "; 2 outputs before it agree\n" in told
        assert f"  compared     with {DEWPOINT} on CPUExecutionProvider, itself on CPUExecutionProvider" in told
        assert "beware" not in told


def test_only_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _report(boot(_wrong(tmp_path / "b"), make_setting()).report, tmp_path / "report.json")
    assert "first wrong  not looked for: give --bundle, the bundle that was tested, and --against" in _told(
        capsys, report=report
    )


def test_the_delivered_bundle_alone_is_not_what_was_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = _wrong(tmp_path / "b")
    report = _report(boot(wrong, make_setting()).report, tmp_path / "report.json")
    told = _told(capsys, report=report, bundle=DEWPOINT)
    assert f"  beware       {DEWPOINT} is not what was tested: digest " in told
    assert f"  first wrong  not looked for: copy {wrong} from the device" in told


def test_a_bundle_that_is_wrong_here_too_and_nothing_to_hold_it_against(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _told(capsys, bundle=_wrong(tmp_path / "b"))
    assert "first wrong  not looked for: it fails here as well (cpu_float32: " in told
    assert "give --against, the bundle that was delivered" in told


def test_rows_that_depend_on_their_batch_need_no_other_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load_model_from_string((DEWPOINT / "model_float32.onnx").read_bytes())
    mean = helper.make_node("ReduceMean", ["tanh"], ["mean"], name="mean", keepdims=1)
    less = helper.make_node("Sub", ["tanh", "mean"], ["less"], name="less")
    model.graph.node[2].input[0] = "less"
    nodes = [*model.graph.node[:2], mean, less, model.graph.node[2]]
    kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    bundle = write_with(DEWPOINT, tmp_path / "b", {"model_float32.onnx": model.SerializeToString()})
    told = _told(capsys, bundle=bundle)
    assert "  first wrong  stage two of three, the model: less (Sub)\n" in told
    assert "its rows depend on the batch they stand in" in told


@pytest.mark.parametrize("against", [None, FROST])
def test_a_fault_of_the_device(against: Path | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report that fails of bytes that pass here: the planted failure's mark is taken off, as a broken memory has none."""
    report = boot(FROST, make_setting(), inject="golden_output").report
    path = _report(report, tmp_path / "report.json")
    path.write_text(path.read_text().replace('"injected":"golden_output"', '"injected":null'))
    told = _told(capsys, report=path, bundle=FROST, against=against)
    assert "  first wrong  none here: " in told
    assert "memory" in told.partition("first wrong")[2].partition("Likely")[0]


def test_a_provider(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = tmp_path / "other.toml"
    profile.write_text(
        'schema = "edge-runtime/profile/1"\nname = "other"\ndescription = "a test"\narchitectures = ["x86_64", "aarch64"]\n'
        f'intra_threads = 1\nonnxruntime = "the tests"\n[[providers]]\nname = "{OTHER}"\n'
    )

    def corrupt(model: Any) -> None:
        for node in model.graph.node:
            if node.op_type == "Tanh":
                node.op_type = "Sigmoid"

    with miscomputing(corrupt):
        told = _told(capsys, bundle=DEWPOINT, profile=profile)
    assert "  first wrong  stage two of three, the model: node_tanh (Tanh)\n" in told
    assert f"  compared     with {DEWPOINT} on CPUExecutionProvider, itself on {OTHER}" in told
    # The same report where there is no such provider.
    with miscomputing(corrupt):
        report = _report(boot(DEWPOINT, make_setting(str(profile))).report, tmp_path / "report.json")
    told = _told(capsys, report=report, bundle=DEWPOINT)
    assert f"  first wrong  not found: provider {OTHER}: found not in this onnxruntime" in told


def test_a_reference_that_is_wrong_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["steps"][0]["mean"][0] += 1.0

    tested = write_with_manifest(DEWPOINT, tmp_path / "tested", change)
    told = _told(capsys, bundle=tested, against=_wrong(tmp_path / "wrong"))
    assert "first wrong  not found: reference " in told
    assert "its own goldens fail here" in told


def test_another_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _told(capsys, bundle=_wrong(tmp_path / "b"), against=FROST)
    assert f"first wrong  not looked for: {FROST} is a bundle frost, and dewpoint was tested\n" in told


def test_bundles_that_were_mixed_up_say_nothing_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two that agree with each other, of which none was tested, would else put the blame on what was."""
    wrong = _wrong(tmp_path / "b")
    report = _report(boot(wrong, make_setting()).report, tmp_path / "report.json")
    for bundle, against, words in (
        (DEWPOINT, wrong, f"the two are exchanged: {wrong} is what was tested"),
        (DEWPOINT, DEWPOINT, "--bundle and --against are one and the same, and not what was tested"),
        (FROST, FROST, f"{FROST} is a bundle frost, and dewpoint was tested"),
        (wrong, FROST, f"{FROST} is a bundle frost, and dewpoint was tested"),
        (FROST, None, f"{FROST} is a bundle frost, and dewpoint was tested"),
    ):
        told = _told(capsys, report=report, bundle=bundle, against=against)
        assert f"  first wrong  not looked for: {words}" in told
        assert "machine that was tested" not in told


def test_two_that_compute_alike_and_were_not_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _report(boot(_wrong(tmp_path / "b"), make_setting()).report, tmp_path / "report.json")
    alike = write_with_manifest(DEWPOINT, tmp_path / "alike", lambda raw: raw.update(version="1.0.1"))
    told = _told(capsys, report=report, bundle=alike, against=DEWPOINT)
    assert "  beware       " in told
    assert f"  first wrong  none here: {alike} computes on this machine what {DEWPOINT} does, so\n" in told
    assert "nothing is known of what was tested: copy " in told
    assert "machine that was tested" not in told


def test_a_device_needs_no_module_of_a_workstation(monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = [one for one in COMMANDS if one.name == "explain"]
    assert cli._module(command) == "edge_runtime.author.bisect_command"
    monkeypatch.setattr(cli, "find_spec", lambda _: None)
    assert cli._module(command) == "edge_runtime.run.explain"
