import json
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.author.build_command import main, record_path, report_path
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.cli import main as cli
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
    line, written, further = said.err.splitlines()[-3:]
    assert line.startswith(f"{out}: tiny 1.2.3, sha256 {bundle.digest}; mean absolute error on 50 test cases 0.")
    assert "..." not in said.err
    assert written == f"written: the bundle {out}, and beside it made.build.json and made.report.html"
    assert further.startswith(f"next: edge-runtime selftest --bundle {out}; then docs/device_toml.md ")


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        (
            [(', target = "test_y"', ""), ('test = { values = "test" }', 'validation = { values = "test", target = "test_y" }')],
            r"; mean absolute error on 50 validation cases 0\.\d+ Cel \(float32 0\.\d+\); largest distance to float32 0\.\d+ Cel;",
        ),
        (
            [('test = { values = "test", target = "test_y" }\n', "")],
            r"; mean absolute error on 200 training cases 0\.\d+ Cel \(float32 0\.\d+\); largest distance to float32 0\.\d+ Cel;",
        ),
        (
            [('test = { values = "test", target = "test_y" }\n', ""), (', target = "train_y"', "")],
            r"; largest distance to float32 on 200 training cases, of which nobody said what was true 0\.\d+ Cel;",
        ),
    ],
    ids=["validation", "training", "no target"],
)  # fmt: skip
def test_without_test_data_the_line_tells_of_what_there_is(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str], edits: list[tuple[str, str]], told: str
) -> None:
    for old, new in edits:
        pack.edit(old, new)
    assert main(_arguments(pack, tmp_path / "made")) == 0
    assert re.search(told, capsys.readouterr().err)


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


def test_another_bundle_in_its_place_is_told(pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made"

    def said() -> list[str]:
        assert main(_arguments(pack, out)) == 0
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("replaced")]

    assert said() == said() == []  # the same bundle again is none
    pack.edit('description = "two', 'description = "Two')
    (line,) = said()
    assert line.startswith(
        f"replaced: {out} was tiny 1.2.3, with other content, and is tiny 1.2.3 now: two bundles of "
    )
    pack.edit('version = "1.2.3"', 'version = "1.10.0"')
    assert said() == [f"replaced: {out} was tiny 1.2.3, with other content"]


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


def test_every_mistake_is_a_line_of_one_run(pack: Pack, capsys: pytest.CaptureFixture[str]) -> None:
    pack.edit('licence = "CC0-1.0"', 'licence = "TODO"')
    pack.edit('version = "1.2.3"', 'version = "1"')
    assert cli(["build", str(pack.contract)]) == 78
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"edge-runtime: {pack.contract}, provenance.licence: found TODO;")
    assert second.startswith(f"edge-runtime: {pack.contract}, version: found '1';")


def test_a_stuck_limit_that_is_too_low_is_told_of_every_channel(pack: Pack) -> None:
    pack.arrays("data.npz", lambda found: found.update(train=np.repeat(found["train"][:, :, :1], 3, axis=2)))
    pack.edit("physical = [-60, 60]", "physical = [-60, 60]\nstuck_after = 2")
    pack.edit("physical = [0, 105]", "physical = [110, 105]\nstuck_after = 3")
    with pytest.raises(
        ConfigurationError, match="channel air_temperature, stuck_after: found 2; expected more than 3"
    ) as caught:
        main(_arguments(pack, None))
    stuck, band = map(str, caught.value.others)
    assert "channel relative_humidity, stuck_after: found 3; expected more than 3" in stuck
    assert "channel relative_humidity, physical" in band


def test_every_file_and_every_array_that_is_not_there_is_told(pack: Pack, capsys: pytest.CaptureFixture[str]) -> None:
    for old, new in (('"train"', '"trains"'), ('"test_y"', '"tests_y"'), ('output = "answered"', 'output = "said"')):
        pack.edit(old, new)
    assert cli(["build", str(pack.contract)]) == 78
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("found ")[2].partition(";")[0] for line in lines] == [
        "no array 'said'", "no array 'trains'", "no array 'tests_y'",
    ]  # fmt: skip
    pack.edit('"model.onnx"', '"models.onnx"')
    pack.edit('"data.npz"', '"dates.npz"')
    assert cli(["build", str(pack.contract)]) == 78
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": found")[0].rpartition(", ")[2] for line in lines] == ["model", "data"]
