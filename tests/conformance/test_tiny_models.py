"""MLPerf Tiny and micro_speech: int8 in, int8 out, as bundles, against the reference kernels of another runtime."""

import json
from base64 import b64encode
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import onnx
import pytest

import edge_runtime
from edge_runtime.author.exact import open_exact
from edge_runtime.author.graph import clean_graph
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import write_directory
from edge_runtime.device.probe import needs_x64_quant_precision, probe
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError, SampleRefused
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Model
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.payload import CsvDecode, JsonDecode
from edge_runtime.spec.providers import CPU
from tests.conformance.bundles import opaque_bundle
from tests.conformance.third_party import third_party


@dataclass(frozen=True, slots=True)
class _Case:
    """One model: how many steps of 255 it may be off the other runtime's answers, and its words, if it has some."""

    file: str
    steps: int
    labels: tuple[str, ...] = ()


CASES = (
    _Case("ad01_int8", 0),
    _Case("str_ww_ref_model", 1, ("silence", "wakeword", "unknown")),
    _Case("micro_speech", 7, ("silence", "unknown", "yes", "no")),
    _Case("kws_ref_model", 14),
    _Case("pretrainedResnet_quant", 48),
)


@cache
def _model(name: str) -> bytes:
    return third_party("mlperf-tiny", f"{name}.onnx").read_bytes()


@cache
def _asked(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(third_party("mlperf-tiny", f"{name}.npz"), allow_pickle=False) as arrays:
        return arrays["X"], arrays["Y"]


def _written(case: _Case, to: Path, *, labels: bool = False) -> Path:
    asked, wanted = _asked(case.file)
    graph = clean_graph(_model(case.file), subject=case.file, one_by_one=True)
    words = {graph.outputs[0].name: case.labels} if labels else None
    files = opaque_bundle(
        case.file, _model(case.file), {graph.inputs[0].name: asked}, labels=words,
        references={graph.outputs[0].name: wanted},
    )  # fmt: skip
    verify(files, case.file)
    write_directory(files, to)
    return to


def _cleaned(case: _Case) -> bytes:
    return clean_graph(_model(case.file), subject=case.file, one_by_one=True).data


def _run(model: bytes, rows: np.ndarray, *, open_model=open_exact, size: int = 1) -> np.ndarray:
    session = open_model(model)
    name = session.inputs[0][0]
    parts = [session({name: rows[at : at + size]}) for at in range(0, len(rows), size)]
    return np.concatenate([next(iter(part.values())) for part in parts])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_as_a_bundle_it_is_operational_and_near_the_other_runtime(case, tmp_path, tell):
    path = _written(case, tmp_path / "bundle")
    report = boot(path, make_setting()).report
    assert report.state == "OPERATIONAL", [c for c in report.checks if c.status == "fail"]
    asked, wanted = _asked(case.file)
    model = edge_runtime.open(path)
    (channel,) = model.manifest.channels
    outcome = model.feed_many({channel.name: row} for row in asked)
    assert not outcome.refused
    found = np.array([answer.outputs[0].value for _, answer in outcome.answers])
    off = int(np.abs(found - wanted.reshape(found.shape)).max())
    share = float((np.abs(found - wanted.reshape(found.shape)) > 0).mean())
    tell(f"{case.file}: at most {off} of 255 steps from TFLite (allowed {case.steps}), {share:.2%} of numbers differ")
    assert off <= case.steps
    assert model.manifest.variants[0].tolerances[CPU].kind == "exact"


def _fed_line(model: Model, channel: str, way: str, rows: np.ndarray) -> Line:
    """A line that has taken the rows as a sender would write them."""
    reads = {"list": {"read": "list"}, "base64": {"read": "base64", "dtype": "int8"}, "columns": {"read": "columns"}}
    columns = tuple(f"v{place}" for place in range(rows[0].size))
    count = {"count": len(columns)} if way == "columns" else {}
    bound = {channel: ChannelBinding(field="v0" if way == "columns" else "x", **reads[way], **count)}
    decode = CsvDecode(format="csv", columns=columns) if way == "columns" else JsonDecode(format="json")
    line = Line(
        name="l", model=model, contract=Contract(model.manifest.channels, bound),
        framing=make_framing(LinesFraming(max_bytes=100_000), decode.encoding), decoder=make_decoder(decode, bound),
    )  # fmt: skip
    for at, row in enumerate(rows):
        if way == "columns":
            text = ",".join(map(str, row.ravel().tolist()))
        else:
            text = json.dumps({"x": row.tolist() if way == "list" else b64encode(row.tobytes()).decode()})
        line.feed(text.encode() + b"\n", at + 1)
    line.run()
    return line


@pytest.mark.parametrize("way", ["list", "base64", "columns"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_api_line_and_bare_session_give_the_same_bytes(case, way, tmp_path):
    path = _written(case, tmp_path / "bundle")
    asked, _ = _asked(case.file)
    bare = _run(_cleaned(case), asked)
    model = edge_runtime.open(path)
    (channel,) = model.manifest.channels
    one_by_one = [model.feed({channel.name: row})[0].outputs[0].value for row in asked[:16]]
    line = _fed_line(boot(path, make_setting()).ready.model, channel.name, way, asked)
    assert line.take_refused() == []
    together = [answer.outputs[0].value for answer in line.take_answers()]
    assert np.array(together, dtype=np.int8).tobytes() == bare.tobytes()
    assert one_by_one == together[:16]


@pytest.mark.parametrize("case", [case for case in CASES if case.labels], ids=lambda case: case.file)
def test_as_labels_it_says_the_highest_score(case, tmp_path):
    path = _written(case, tmp_path / "bundle", labels=True)
    assert boot(path, make_setting()).report.state == "OPERATIONAL"
    asked, _ = _asked(case.file)
    bare = _run(_cleaned(case), asked)
    model = edge_runtime.open(path)
    (channel,) = model.manifest.channels
    found = [model.feed({channel.name: row})[0].outputs[0] for row in asked]
    assert [one.value for one in found] == [case.labels[int(place)] for place in bare.argmax(axis=1)]
    assert [one.score for one in found] == bare.max(axis=1).astype(float).tolist()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_unshared_initializers_and_exact_kernels_change_no_step(case):
    asked, _ = _asked(case.file)
    cleaned = _cleaned(case)
    bare = _run(cleaned, asked)
    used = [name for node in onnx.load_model_from_string(cleaned).graph.node for name in set(node.input)]
    shared = {
        tensor.name for tensor in onnx.load_model_from_string(cleaned).graph.initializer if used.count(tensor.name) > 1
    }
    assert not shared
    precise = partial(open_session, quant_precision=True)
    assert (_run(cleaned, asked, open_model=precise) == bare).all()
    if case.file != "micro_speech":  # whose batch is fixed at 1
        assert (_run(cleaned, asked, open_model=precise, size=8) == bare).all()
    if not needs_x64_quant_precision(probe(), seven_bit_weights=False):  # elsewhere its sums would saturate without it
        for data in (_model(case.file), cleaned):
            assert (_run(data, asked, open_model=open_session) == bare).all()


def test_shared_initializers_are_why_they_are_unshared(tell):
    refused = {}
    for case in CASES:
        try:
            open_session(_model(case.file), quant_precision=True)
        except BundleError as refusal:
            refused[case.file] = str(refusal)
    assert not [words for words in refused.values() if "\n" in words]
    tell(
        f"{len(refused)} of {len(CASES)} int8 models load under x64quantprecision only once clean: {', '.join(refused)}"
    )


def test_a_number_that_is_no_int8_and_a_wrong_shape_are_refused(tmp_path):
    case = CASES[0]
    model = edge_runtime.open(_written(case, tmp_path / "bundle"))
    (channel,) = model.manifest.channels
    row = _asked(case.file)[0][0]
    for bad, reason in (
        (row.astype(float) + 0.5, "beyond_dtype"), (np.full(640, 128), "beyond_dtype"), (row[:-1], "wrong_shape"),
        (np.full(640, np.nan), "not_finite"), (["x"] * 640, "not_a_number"), (None, "missing"), (7, "wrong_shape"),
    ):  # fmt: skip
        with pytest.raises(SampleRefused) as caught:
            model.feed({channel.name: bad})
        assert caught.value.reason == reason
    assert model.ledger.adds_up(pending_samples=0, pending_answers=0)


def test_one_flipped_byte_of_the_weights_is_seen_by_the_goldens_alone(tmp_path):
    case = CASES[3]
    path = _written(case, tmp_path / "bundle")
    files = dict(read_files(path))
    model = onnx.load_model_from_string(files["model.onnx"])
    weights = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    weights.raw_data = bytes(byte ^ 0x80 for byte in weights.raw_data)
    write_directory(files | {"model.onnx": model.SerializeToString()}, tmp_path / "other")
    report = boot(tmp_path / "other", make_setting()).report
    assert report.state == "ERROR"
    assert {check.id for check in report.checks if check.status == "fail"} >= {"golden_output"}
