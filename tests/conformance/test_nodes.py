"""The single-node models that ONNX itself is tested by, as models nobody here has seen: each runs, or is refused in one line.

Child processes run them, so that a crash is seen, and named by the case that was under way.
"""

import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.rig.bundles import ROOT

BATCHES = 2
BEGUN, ENDED = "begin", "end"
SECONDS = 240
# Where onnxruntime itself gives other numbers than ONNX's reference, or there is nothing to agree on.
KNOWN = {
    "test_training_dropout": "drawn by chance",
    "test_training_dropout_default": "drawn by chance",
    "test_training_dropout_default_mask": "drawn by chance",
    "test_training_dropout_mask": "drawn by chance",
    "test_resize_downsample_scales_cubic_align_corners": "onnxruntime 1.32",
    "test_resize_downsample_scales_linear_align_corners": "onnxruntime 1.32",
    "test_maxunpool_export_with_output_shape": "onnxruntime 1.32",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal": "onnxruntime 1.32",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal": "onnxruntime 1.32",
}


def _child(*words, stdout=None):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.node_child", *map(str, words)], cwd=ROOT, stdout=stdout,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _batch(path: Path) -> list[dict]:
    """Every case of one batch with what came of it; where the process dies, the next one goes on behind that case."""
    ended, first = [], 0
    while True:
        child = _child("run", path, first, stdout=subprocess.PIPE)
        out, err = child.communicate(timeout=SECONDS)
        lines = [json.loads(line) for line in out.splitlines()]
        ended += [line for line in lines if ENDED in line]
        if child.returncode == 0:
            return ended
        begun = [line for line in lines if BEGUN in line]
        if not begun:
            pytest.fail(f"the child says nothing and ends with {child.returncode}: {err[-2000:]}")
        ended.append({"name": begun[-1]["name"], "said": "crash", "why": f"ended with {child.returncode}"})
        first = begun[-1][BEGUN] + 1


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """The pickles of all cases; collecting them takes seconds."""
    folder = tmp_path_factory.mktemp("nodes")
    collector = _child("collect", folder, BATCHES)
    _, err = collector.communicate(timeout=SECONDS)
    assert collector.returncode == 0, err[-2000:]
    return [folder / f"{batch}.pickle" for batch in range(BATCHES)]


def test_each_single_node_model_runs_or_is_refused_in_one_line(collected, tell):
    ended = [case for path in collected for case in _batch(path)]
    said = Counter(case["said"] for case in ended)
    wrong = {case["name"]: case["why"] for case in ended if case["said"] == "wrong"}
    tell(
        f"{said['yes']} of {len(ended)} single-node models of onnx run and agree, {said['no']} are refused in one line, "
        f"{said['empty']} need an input without numbers, which no contract has, {len(wrong)} differ as onnxruntime "
        f"does, {said['traceback']} another exception, {said['crash']} crash"
    )
    assert not [case for case in ended if case["said"] in {"traceback", "crash"}]
    assert {name: why for name, why in wrong.items() if name not in KNOWN} == {}
    assert len(ended) > 1500
    assert said["yes"] > 0.75 * len(ended)


@pytest.mark.parametrize(("deed", "named"), [
    ("os.kill(os.getpid(), 11)", "crash"), ("raise KeyError('x')", "traceback"),
])  # fmt: skip
def test_a_crash_and_a_foreign_exception_would_be_seen_and_named(collected, tmp_path, monkeypatch, deed, named):
    cases = pickle.loads(collected[0].read_bytes())[:9]  # noqa: S301 - written a moment ago
    few = tmp_path / "few.pickle"
    few.write_bytes(pickle.dumps(cases))
    site = tmp_path / "sitecustomize.py"
    site.write_text(
        "import os\nimport edge_runtime.engine.session as engine\nopened = engine.open_session\ncount = 0\n"
        "def spoilt(*a, **k):\n    global count\n    count += 1\n"
        f"    if count == 3:\n        {deed}\n    return opened(*a, **k)\nengine.open_session = spoilt\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    ended = _batch(few)
    assert ended[2] == {**ended[2], "name": cases[2][0], "said": named}
    assert [case["name"] for case in ended] == [case[0] for case in cases]
