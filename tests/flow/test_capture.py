"""Which answers are kept with their samples: the nth, the near ones, those beyond training; and what a line hands out."""

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.capture import make_choose
from edge_runtime.spec.capture import CaptureConfig
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import CONVERTED, EXTRAPOLATING, Answer, OutputValue
from tests.rig import tiny

NUMBER = Output.model_validate({
    "tensor": "y", "name": "low", "meaning": "m", "unit": "Cel",
    "flags": [{"name": "frost", "side": "below", "on": 2.0, "off": 4.0}],
})  # fmt: skip
LABEL = Output(tensor="k", name="kind", meaning="m", form="label", labels=("a", "b"))
VECTOR = Output(tensor="v", name="bands", meaning="m", form="vector")


def answer(value: float = 20.0, score: float | None = 0.9, seq: int = 1, flags: int = CONVERTED) -> Answer:
    outputs = (
        OutputValue("low", value, "Cel"),
        OutputValue("kind", "a", "1", (), score),
        OutputValue("bands", (1.0,), "1"),
    )
    return Answer("s", seq, 0, "id", outputs, flags)


@pytest.mark.parametrize(("config", "one", "why"), [
    ({}, answer(), ()),
    ({}, answer(flags=EXTRAPOLATING), ("extrapolating",)),
    ({"extrapolating": False}, answer(flags=EXTRAPOLATING), ()),
    ({"every": 10}, answer(seq=20), ("nth",)),
    ({"every": 10}, answer(seq=21), ()),
    ({"every": 1}, answer(flags=EXTRAPOLATING), ("nth", "extrapolating")),
    ({"margin": {"low": 0.5}}, answer(value=2.4), ("low_margin",)),
    ({"margin": {"low": 0.5}}, answer(value=3.6), ("low_margin",)),
    ({"margin": {"low": 0.5}}, answer(value=2.5), ()),
    ({"margin": {"kind": 0.6}}, answer(score=0.59), ("low_margin",)),
    ({"margin": {"kind": 0.6}}, answer(score=0.6), ()),
    ({"margin": {"kind": 0.6}}, answer(score=None), ()),
])  # fmt: skip
def test_the_reasons(config: dict[str, object], one: Answer, why: tuple[str, ...]) -> None:
    choose = make_choose(CaptureConfig.model_validate(config), (NUMBER, LABEL, VECTOR))
    assert choose(one) == why


@pytest.mark.parametrize(("name", "outputs", "words"), [
    ("bands", (NUMBER, LABEL, VECTOR), "found 'bands'; expected 'low' or 'kind'"),
    ("hi", (NUMBER,), "found 'hi'; expected 'low'"),
    ("bands", (VECTOR,), "expected none: the bundle has no label, and no number with a flag"),
])  # fmt: skip
def test_a_margin_of_what_has_none_is_refused(name: str, outputs: tuple[Output, ...], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make_choose(CaptureConfig(margin={name: 1.0}), outputs)


def _rows(count: int) -> bytes:
    return b"".join(b"%d,%d,1\n" % (1000 + 10 * place, place % 60) for place in range(count))


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_a_line_hands_out_the_window_and_the_newest_frame_however_its_bytes_came(chunk: int) -> None:
    line = tiny.line(choose=make_choose(CaptureConfig(every=5), ()))
    data, answers, captured = _rows(30), [], []
    for at in range(0, len(data), chunk):
        line.feed(data[at : at + chunk], 0)
        line.run()
        answers += line.take_answers()
        captured += line.take_captured()
    assert [one.answer for one in captured] == [one for one in answers if one.seq % 5 == 0]
    for one in captured:
        place = one.answer.seq + 1
        assert one.window.tolist() == [[place - 1, 1.0], [place, 1.0]]
        assert one.raw == b"%d,%d,1" % (1000 + 10 * place, place)
    assert line.take_captured() == []


def test_a_line_that_keeps_none_has_none() -> None:
    line = tiny.line()
    line.feed(_rows(5), 0)
    line.run()
    assert line.take_captured() == []
