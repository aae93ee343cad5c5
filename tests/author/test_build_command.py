import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from edge_runtime.author.build_command import main, record_path, report_path
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import ConfigurationError, UsageError
from tests.author.conftest import Pack


def _arguments(
    pack: Pack, out: Path | None, *, record: str | None = None, json: bool = False, validate: list[str] | None = None
) -> Namespace:
    return Namespace(
        contract=str(pack.contract), out=str(out) if out else None, record=record, json=json, evidence=None,
        validate=validate,
    )  # fmt: skip


def test_a_build_writes_a_bundle_that_verifies_and_its_record(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made"
    assert main(_arguments(pack, out)) == 0
    said = capsys.readouterr()
    bundle = verify(read_files(out), str(out))
    record = json.loads(record_path(out).read_text())
    assert record["bundle"]["digest"] == bundle.digest
    assert record_path(out) == tmp_path / "made.build.json"
    assert said.out == ""
    line = said.err.splitlines()[-1]
    assert line.startswith(f"{out}: tiny 1.2.3, sha256 {bundle.digest}; mean absolute error on 50 test cases 0.")
    assert "..." not in said.err


def test_a_report_stands_beside_the_bundle_and_a_rebuild_writes_the_same(pack: Pack, tmp_path: Path) -> None:
    assert main(_arguments(pack, tmp_path / "made")) == 0
    page = report_path(tmp_path / "made").read_bytes()
    assert b"mistakes the goldens notice" in page
    record = str(record_path(tmp_path / "made"))
    assert main(_arguments(pack, tmp_path / "again", record=record)) == 0
    assert report_path(tmp_path / "again").read_bytes() == page


def test_a_model_with_its_steps_inside_has_a_report_too(pack: Pack, tmp_path: Path) -> None:
    pack.edit('precision = "int8"\n', 'precision = "int8"\npreprocessing = "graph"\n')
    assert main(_arguments(pack, tmp_path / "made")) == 0
    assert b"mistakes the goldens notice" in report_path(tmp_path / "made").read_bytes()


def test_json_prints_the_record(pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_arguments(pack, tmp_path / "made", json=True)) == 0
    assert capsys.readouterr().out == (tmp_path / "made.build.json").read_text()


def test_the_default_folder_is_named_after_the_contract(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(_arguments(pack, None)) == 0
    assert sorted(one.name for one in (tmp_path / "here").iterdir()) == ["tiny", "tiny.build.json", "tiny.report.html"]


def test_a_failed_gate_writes_nothing_and_gives_1(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack.edit("mean = [20.0, 50.0]", "mean = [21.0, 50.0]")
    assert main(_arguments(pack, tmp_path / "made")) == 1
    assert not (tmp_path / "made").exists()
    assert not record_path(tmp_path / "made").exists()
    assert not report_path(tmp_path / "made").exists()
    assert "preprocess: found a tensor 0.1 off" in capsys.readouterr().err


def test_a_rebuild_replaces_its_bundle_and_a_differing_one_does_not(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made"
    assert main(_arguments(pack, out)) == 0
    before = read_files(out)
    record = tmp_path / "kept.json"
    record.write_bytes(record_path(out).read_bytes())
    assert main(_arguments(pack, out, record=str(record))) == 0
    pack.edit('description = "two', 'description = "Two')
    assert main(_arguments(pack, out, record=str(record))) == 1
    assert dict(read_files(out)) == dict(before)
    assert "contract has changed" in capsys.readouterr().err


def test_a_folder_that_is_no_bundle_is_left_alone(pack: Pack, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="no bundle"):
        main(_arguments(pack, out))
    assert (out / "thesis.txt").read_text() == "years of work"


def test_a_missing_record_is_refused_before_any_work(pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        main(_arguments(pack, tmp_path / "made", record=str(tmp_path / "none.json")))


def test_without_onnx_one_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None; from edge_runtime.cli import main; sys.exit(main(['build', 'c.toml']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 69
    assert "onnx: found not installed" in done.stderr
    assert "install edge-runtime[author]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
