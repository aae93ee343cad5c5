"""`build --validate`: what a new bundle answers to captured samples, told against what was answered then."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.author.build_command import main
from edge_runtime.author.validate import Captures, read_captures, validate
from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.spec.capture_file import CaptureHead
from tests.author.conftest import Pack
from tests.author.test_build_command import _arguments
from tests.rig import kinds, tiny

HEAD = json.loads(CaptureHead.of("tiny", tiny.manifest(), "d" * 64).model_dump_json(by_alias=True))


def _line(
    number: int, window: Sequence[Sequence[float]], answer: Mapping[str, Any], why: Sequence[str] = ("nth",)
) -> dict[str, Any]:
    data = b64encode(np.array(window, "<f8").tobytes()).decode()
    return {"why": why, "raw": "", "window": data, "answer": {"id": f"a{number}", "flags": [], **answer}}


def _mean(value: float, *, cold: bool = False, unit: str = "Cel") -> dict[str, Any]:
    return {"mean": {"value": value, "unit": unit, "cold": cold}}


def _captures(folder: Path, *lines: Mapping[str, Any], head: Mapping[str, Any] = HEAD) -> Captures:
    path = folder / "tiny.capture.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (head, *lines)))
    return read_captures([path])


def _told(
    folder: Path, *lines: Mapping[str, Any], model: Model | None = None, head: Mapping[str, Any] = HEAD
) -> list[str]:
    return list(validate(model or tiny.model(), _captures(folder, *lines, head=head)))


def test_numbers_flags_and_extrapolation_are_told(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        _line(1, [[0.0, 1.0], [1.0, 1.0]], _mean(0.5, cold=True)),
        _line(2, [[9.0, 1.0], [9.0, 1.0]], _mean(8.0), why=("nth", "low_margin")),
        _line(3, [[60.0, 1.0], [60.0, 1.0]], _mean(60.0) | {"flags": ["extrapolating"]}, why=("extrapolating",)),
        _line(4, [[1.0, 1.0], [1.0, 1.0]], _mean(5.0)),
    )
    assert told == [
        "captured: 4 answers of 4 tiny 1.0.0 (dddddddddddd)",
        "  kept for: 3 nth, 1 low_margin, 1 extrapolating",
        "  the new bundle answers 4 of 4",
        "  it extrapolates on 1 of 4; then it was 1 of 4",
        "  mean: 1.25 Cel apart in the mean of 4, 4 Cel at most (answer a4)",
        "  mean, cold: 3 of 4 agree",
        "    then \\ now         off          on",
        "           off           2           1",
        "            on           0           1",
    ]


def test_a_flag_with_hysteresis_begins_as_the_old_answer_left_it(tmp_path: Path) -> None:
    """Between its levels, 2 and 4, a flag is what it was."""
    window = [[3.0, 1.0], [3.0, 1.0]]
    told = _told(tmp_path, _line(1, window, _mean(3.0, cold=True)), _line(2, window, _mean(3.0)))
    assert "  mean, cold: 2 of 2 agree" in told


def test_windows_come_in_the_new_order_units_and_length(tmp_path: Path) -> None:
    head = HEAD | {"length": 3, "channels": [
        {**HEAD["channels"][1]}, {"name": "x", "form": "number", "unit": "1", "kind": "point", "width": 2},
        {**HEAD["channels"][0], "unit": "[degF]"},
    ]}  # fmt: skip
    line = _line(1, [[9, 9, 9, 212.0], [1, 9, 9, 50.0], [1, 9, 9, 68.0]], _mean(59.0, unit="[degF]"))
    assert "  mean: 3.553e-15 Cel apart" not in (told := _told(tmp_path, line, head=head))[4]
    assert told[4].startswith("  mean: ")
    assert float(told[4].split()[1]) < 1e-5


def test_what_the_new_contract_refuses_is_counted(tmp_path: Path) -> None:
    nan = float("nan")
    told = _told(
        tmp_path, _line(1, [[0.0, 1.0], [nan, 1.0]], _mean(0.0)), _line(2, [[0.0, 1.0], [200.0, 1.0]], _mean(0.0)),
        _line(3, [[0.0, 1.0], [0.0, 1.0]], _mean(0.0, cold=True)),
    )  # fmt: skip
    assert "  the new bundle answers 1 of 3, refuses 1 missing, 1 beyond_physical" in told


def test_labels_are_told_as_a_table(tmp_path: Path) -> None:
    manifest = kinds.manifest(
        [{"tensor": "x", "dtype": "float32", "shape": ["batch", 1], "axes": ["batch", "channel"],
          "channels": [kinds.number("a")], "steps": []}],
        [{"tensor": "y", "name": "kind", "meaning": "m", "form": "label", "labels": ["flat", "round"]}],
    )  # fmt: skip

    def infer(feeds: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": np.concatenate([-feeds["x"], feeds["x"]], axis=1)}

    model = tiny.model(manifest, infer)
    head = json.loads(CaptureHead.of("tiny", manifest, "d" * 64).model_dump_json(by_alias=True))
    lines = [_line(at, [[a]], {"kind": {"value": old, "unit": "1"}}) for at, (a, old) in enumerate(
        [(1.0, "round"), (2.0, "round"), (-1.0, "round"), (-2.0, "flat"), (3.0, "flat"), (4.0, "flat")]
    )]  # fmt: skip
    told = _told(tmp_path, *lines, model=model, head=head)
    assert told[-4:] == [
        "  kind: 3 of 6 agree",
        "    then \\ now        flat       round",
        "          flat           1           2",
        "         round           1           2",
    ]


def test_an_output_that_is_new_or_in_another_quantity_is_said(tmp_path: Path) -> None:
    window = [[0.0, 1.0], [1.0, 1.0]]
    assert _told(tmp_path, _line(1, window, {}))[-1] == "  mean: nothing to compare with, no old answer has it"
    told = _told(tmp_path, _line(1, window, _mean(0.5, unit="hPa")))
    assert told[-1] == "  mean: the old answers are in hPa, the new in Cel: not comparable"


def test_torn_lines_twice_kept_answers_and_refused_samples_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "tiny.capture.jsonl"
    one = json.dumps(_line(1, [[0.0, 1.0], [1.0, 1.0]], _mean(0.5, cold=True)))
    refused = json.dumps({"why": ["refused"], "raw": "", "time": "t", "stream": "", "reason": "missing"})
    (tmp_path / "tiny.capture.jsonl.1").write_text(f"{json.dumps(HEAD)}\n{one}\n")
    path.write_text(f"{json.dumps(HEAD)}\n{one}\n{refused}\n\n" + one[:40] + "\n")
    told = list(validate(tiny.model(), read_captures([path])))
    assert told[:4] == [
        "captured: 1 answers of 1 tiny 1.0.0 (dddddddddddd)", "  kept for: 1 nth",
        "  refused samples, not asked again: 1 missing", "  lines that are not whole: 1",
    ]  # fmt: skip


def test_a_capture_of_refused_samples_alone_is_told(tmp_path: Path) -> None:
    told = _told(tmp_path, {"why": ["refused"], "raw": "", "time": "t", "stream": "", "reason": "missing"})
    assert told == ["captured: 0 answers", "  refused samples, not asked again: 1 missing"]


GOOD = _line(1, [[0.0, 1.0], [1.0, 1.0]], _mean(0.5))


@pytest.mark.parametrize(("head", "line", "words"), [
    ({"channels": HEAD["channels"][:1]}, _line(1, [[0.0], [1.0]], _mean(1.0)), "channel b: found none; there are a; expected"),
    ({"channels": [HEAD["channels"][0] | {"unit": "hPa"}, HEAD["channels"][1]]}, GOOD, "channel a: found one in hPa; expected num"),
    ({"channels": [HEAD["channels"][0] | {"form": "opaque"}, HEAD["channels"][1]]}, GOOD, "channel a: found a opaque of 1"),
    ({"length": 1}, _line(1, [[0.0, 1.0]], _mean(1.0)), "found windows of 1 samples; expected 2, as the new bundle takes"),
    ({}, _line(1, [[0.0, 1.0]], _mean(1.0)), "answer a1: found a window of 16 bytes; expected 32"),
    ({}, GOOD | {"window": "?"}, "answer a1: found a window of 0 bytes; expected 32"),
])  # fmt: skip
def test_captures_that_do_not_fit_are_refused_in_one_line(
    tmp_path: Path, head: dict[str, Any], line: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _told(tmp_path, line, head=HEAD | head)
    assert words in str(refused.value)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_captures([tmp_path / "absent.jsonl"])
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n\xff\n', encoding="latin-1")
    with pytest.raises(ConfigurationError, match="found no line that begins a capture"):
        read_captures([tmp_path / "other.jsonl"])


def test_a_model_with_a_state_is_refused(tmp_path: Path) -> None:
    state = [{"input": "s", "output": "t", "dtype": "float32", "shape": [2]}]
    inputs = [
        {"tensor": "x", "dtype": "float32", "shape": ["batch", 1], "axes": ["batch", "channel"],
         "channels": [kinds.number("a")], "steps": []}
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"found a model with a \[\[state\]\]"):
        list(validate(tiny.model(kinds.manifest(inputs, state=state)), _captures(tmp_path, GOOD)))


def test_the_command_tells_it_and_a_capture_that_does_not_fit_keeps_the_bundle_from_being_written(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channels = [
        {"name": name, "form": "number", "unit": unit, "kind": "point", "width": 1}
        for name, unit in (("air_temperature", "Cel"), ("relative_humidity", "%"))
    ]
    line = _line(1, [[20.0, 50.0], [21.0, 50.0], [22.0, 50.0]], {"low": {"value": 5.0, "unit": "Cel", "frost": False}})
    path = tmp_path / "a.capture.jsonl"
    path.write_text(json.dumps(HEAD | {"length": 3, "channels": channels}) + "\n" + json.dumps(line) + "\n")
    assert main(_arguments(pack, tmp_path / "made", validate=[str(path)])) == 0
    said = capsys.readouterr().err
    assert "\ncaptured: 1 answers of 1 tiny 1.0.0 (dddddddddddd)\n" in said
    assert "\n  low: " in said
    path.write_text(json.dumps(HEAD | {"length": 3, "channels": channels[:1]}) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(ConfigurationError):
        main(_arguments(pack, tmp_path / "again", validate=[str(path)]))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("answer", [{"flags": 5}, {"flags": None}, {"mean": {"value": [[1], [1, 2]], "unit": "Cel"}}])
def test_an_answer_of_another_make_is_told_and_breaks_nothing(tmp_path: Path, answer: dict[str, Any]) -> None:
    told = "\n".join(_told(tmp_path, _line(1, [[0.0, 1.0], [1.0, 1.0]], _mean(0.5) | answer)))
    assert "lines that are not whole: 1" in told or "of another kind: not comparable" in told


def test_a_file_without_line_ends_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_runtime.author.validate.MAX_LINE_BYTES", 1 << 10)
    (tmp_path / "a").write_bytes(json.dumps(HEAD).encode() + b"\n" + b"x" * 5000)
    assert read_captures([tmp_path / "a"]).torn == 5
