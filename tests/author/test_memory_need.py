"""What build measures of memory: a process of its own, its peak at every batch size, held against what is stated."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edge_runtime.author import memory_need
from edge_runtime.author.build_command import main, record_path
from edge_runtime.author.memory_need import Measured, measure
from edge_runtime.errors import DeviceError
from tests.author.conftest import Pack
from tests.author.test_build_command import _arguments
from tests.rig.bundles import DEWPOINT, files_of, manifest_of

VARIANT = "cpu_float32"
BATCH = 64
"""The largest of its closed list."""


def _hungry(numbers: int) -> dict[str, bytes]:
    """dewpoint with ``numbers`` copies of each answer between the model and its output, of which the largest is taken."""
    files = files_of(DEWPOINT)
    model = onnx.load_from_string(files["model_float32.onnx"])
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["narrow" if name == output.name else name for name in node.output]
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, numbers], np.int64), "wide_shape"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "across"))
    model.graph.node.append(helper.make_node("Expand", ["narrow", "wide_shape"], ["wide"], name="wide"))
    model.graph.node.append(
        helper.make_node("ReduceMax", ["wide", "across"], [output.name], name="largest", keepdims=1)
    )
    return files | {"model_float32.onnx": model.SerializeToString()}


def test_a_process_of_its_own_is_measured_whatever_this_one_holds() -> None:
    held = np.ones(40_000_000)  # 320 MB, which a child's ru_maxrss would begin with
    found = measure(files_of(DEWPOINT), [VARIANT])
    assert held[-1] == 1
    assert found.failures == ()
    assert 50 < found.mb[VARIANT] < 150


def test_what_the_largest_batch_takes_is_in_it() -> None:
    """A file of 1 kB: 64 rows of 400,000 float32 are 102 MB, which no size of a file tells."""
    plain, hungry = measure(files_of(DEWPOINT), [VARIANT]), measure(_hungry(400_000), [VARIANT])
    assert len(_hungry(400_000)["model_float32.onnx"]) < 2000
    assert max(manifest_of(DEWPOINT)["batch_sizes"]) == BATCH
    assert 100 < hungry.mb[VARIANT] - plain.mb[VARIANT] < 300  # onnxruntime keeps what the smaller batches took
    (line,) = hungry.failures  # the bundle states 150 MB
    assert line.startswith(f"needs.memory_mb: found 150; expected {hungry.mb[VARIANT]} or more, which a process took ")
    assert line.endswith("that booted cpu_float32 at every batch size; state that and some room beside it: a device asks "
                         "for what is stated before it loads the model")  # fmt: skip


def test_what_is_stated_may_be_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for peak, fails in ((149.2, False), (150.0, False), (150.1, True)):
        monkeypatch.setattr(memory_need, "_in_a_process", lambda *_, peak=peak: ((), peak))
        assert bool(measure(files_of(DEWPOINT), [VARIANT]).failures) is fails


def test_every_variant_is_held_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {"a": 80.4, "b": 200.0, "c": None}
    monkeypatch.setattr(memory_need, "_in_a_process", lambda _, name: ((), peaks[name]))
    found = measure(files_of(DEWPOINT), list(peaks))
    assert found.mb == {"a": 81, "b": 200}
    (line,) = found.failures
    assert "booted b at every batch size" in line


def test_a_boot_that_fails_there_alone_is_a_failure() -> None:
    raw = manifest_of(DEWPOINT)
    raw["needs"]["memory_mb"] = 1e9
    found = measure(files_of(DEWPOINT) | {"manifest.json": json.dumps(raw).encode()}, [VARIANT])
    (line,) = found.failures
    assert line.startswith("boot of cpu_float32, headroom: memory this bundle still needs: found ")


@pytest.mark.parametrize(
    ("program", "found"), [("/bin/false", "returned non-zero exit status 1"), ("/nowhere", "No such file or directory")]
)
def test_a_process_that_does_not_boot_is_told(program: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(
        DeviceError, match=rf"a boot of the bundle in a process of its own: found .*{found}.*; expected"
    ):
        measure(files_of(DEWPOINT), [VARIANT])


def test_a_system_that_does_not_tell_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> str:
        raise FileNotFoundError

    assert (memory_need._peak_mb() or 0) > 10
    monkeypatch.setattr(Path, "read_text", none)
    assert memory_need._peak_mb() is None
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "VmRSS:\t 100 kB\n")
    assert memory_need._peak_mb() is None


def test_a_build_refuses_a_statement_that_is_too_small(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack.edit("memory_mb = 2000", "memory_mb = 40")
    assert main(_arguments(pack, tmp_path / "made")) == 1
    assert not (tmp_path / "made").exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("edge-runtime build: needs.memory_mb: found 40; expected ")


def test_the_figure_is_told_and_recorded_and_a_rebuild_keeps_it_without_measuring(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(_arguments(pack, tmp_path / "made")) == 0
    written = record_path(tmp_path / "made").read_bytes()
    ((variant, mb),) = json.loads(written)["memory"].items()
    assert variant == "cpu_int8"
    assert f"; a process that serves it takes {mb} MB, of the 2000 that are stated\n" in capsys.readouterr().err
    assert _on_the_page(tmp_path / "made") == f"{mb} MB"

    def run(*_: object, **__: object) -> Any:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "run", run)
    kept = tmp_path / "kept.json"
    kept.write_bytes(written.replace(f'"cpu_int8": {mb}\n'.encode(), b'"cpu_int8": 1999\n'))
    assert kept.read_bytes() != written
    assert main(_arguments(pack, tmp_path / "again", record=str(kept))) == 0
    assert record_path(tmp_path / "again").read_bytes() == kept.read_bytes()


def test_what_was_not_measured_is_said_so(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runtime.author.build.measure_memory", lambda *_: Measured({}, ()))
    assert main(_arguments(pack, tmp_path / "made")) == 0
    assert "; memory was not measured, 2000 MB are stated\n" in capsys.readouterr().err
    assert _on_the_page(tmp_path / "made") == "not measured"


def _on_the_page(out: Path) -> str:
    page = out.with_name(f"{out.name}.report.html").read_text(encoding="utf-8")
    (found,) = re.findall(r"memory that a process took when it was built</\w+><td[^>]*>([^<]*)</td>", page)
    return str(found)
