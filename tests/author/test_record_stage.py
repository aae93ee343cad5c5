"""A record that is not the model's own output: after postprocess, before it, a label; told as that, not as another checkpoint."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from edge_runtime.author.build import build
from edge_runtime.author.record_stage import stage_of
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.outputs import Output
from tests.author.conftest import Pack

if TYPE_CHECKING:
    from edge_runtime.flow.model import Model

SCORES = np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
WORDS = ("calm", "gust", "rain")
POSTPROCESS = 'postprocess = [{ step = "destandardize", mean = 10.0, std = 5.0 }]\n'


def _record(pack: Pack, change: Callable[[np.ndarray], np.ndarray]) -> list[str]:
    pack.arrays("reference.npz", lambda found: found.update(answered=change(found["answered"])))
    return [one for one in build(pack.contract, None, lambda _: None, strengthens=False).failures if "answered" in one]


@pytest.mark.parametrize("flat", [False, True])
def test_a_record_in_the_answers_unit_is_told_as_that_alone(pack: Pack, flat: bool) -> None:
    (line,) = _record(pack, lambda found: (found * 5 + 10).reshape(-1) if flat else found * 5 + 10)
    assert line == (
        "reference.npz, answered: found the answer, after postprocess (destandardize); [reference] wants the model's own "
        "output, before postprocess; record what the model gave before destandardize, or export it with destandardize "
        "inside and take that out of postprocess"
    )
    failures = build(pack.contract, None, lambda _: None, strengthens=False).failures
    assert not any("reference-apart" in one for one in failures)


def test_a_model_that_does_the_step_itself_is_told(pack: Pack) -> None:
    (line,) = _record(pack, lambda found: (found - 10) / 5)
    assert "found what the model's output is made of by destandardize: the model has destandardize inside" in line
    assert "record the exported model's own output, and take destandardize out of postprocess" in line


def test_without_a_step_a_factor_and_a_constant_are_told(pack: Pack) -> None:
    pack.edit(POSTPROCESS, "")
    (line,) = _record(pack, lambda found: found * 5 + 10)
    assert "found the model's output times 5 plus 10 in every case: the answer in its unit, it seems" in line
    assert '[{ step = "destandardize", mean = 10, std = 5 }] make the answer' in line


def test_another_checkpoint_is_still_called_one(pack: Pack) -> None:
    line, _ = _record(pack, lambda found: found + np.random.default_rng(1).normal(0, 0.1, found.shape))
    assert "expected at most 0.0001; export the checkpoint that answered" in line


def _shown(pack: Pack, *outputs: Output) -> "Model":
    """As much of a model as a stage is told by."""
    manifest = parse(build(pack.contract, None, lambda _: None, strengthens=False).files["manifest.json"])
    return cast("Model", SimpleNamespace(manifest=manifest.model_copy(update={"outputs": outputs})))


def _softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


LABEL = Output(tensor="s", name="kind", meaning="weather", form="label", labels=WORDS)


@pytest.mark.parametrize(
    ("made", "record", "found"),
    [
        (SCORES, np.array(WORDS)[SCORES.argmax(axis=1)], "the labels, after postprocess"),
        (SCORES, SCORES.argmax(axis=1), "the places of the labels, after postprocess"),
        (SCORES.argmax(axis=1), np.array(WORDS)[SCORES.argmax(axis=1)], "the labels, after postprocess"),
        (SCORES, _softmax(SCORES), "the softmax of the model's output"),
        (_softmax(SCORES), SCORES, "what the model's output is made of by softmax"),
        (SCORES, 1 / (1 + np.exp(-SCORES)), "the sigmoid of the model's output"),
        (SCORES, SCORES[::-1], None), (SCORES, SCORES[:4], None), (SCORES, SCORES * 1.0001, None),
    ],
)  # fmt: skip
def test_a_classifiers_record(pack: Pack, made: np.ndarray, record: np.ndarray, found: str | None) -> None:
    stage = stage_of(_shown(pack, LABEL), "s", made, record)
    assert (None if stage is None else stage.found[: len(found or "")]) == found


def test_numbers_of_one_row_each_have_their_own_steps(pack: Pack) -> None:
    steps = [({"step": "destandardize", "mean": 3.0, "std": 2.0},), (), ({"step": "exponential"},)]
    outputs = [
        Output.model_validate({"tensor": "s", "name": f"n{at}", "meaning": "m", "column": at, "postprocess": some})
        for at, some in enumerate(steps)
    ]
    record = np.stack([SCORES[:, 0] * 2 + 3, SCORES[:, 1], np.exp(SCORES[:, 2])], axis=1)
    stage = stage_of(_shown(pack, *outputs), "s", SCORES, record)
    assert stage is not None
    assert stage.found == "the answer, after postprocess (destandardize, exponential)"


def test_a_record_of_another_size_that_is_a_label_is_told_as_that(pack: Pack) -> None:
    pack.edit(POSTPROCESS, "")
    pack.edit('unit = "Cel"\nflags = [{ name = "frost", side = "below", on = 2.0, off = 2.5 }]', 'form = "vector"')
    pack.arrays("reference.npz", lambda found: found.update(answered=np.repeat(found["answered"], 2, axis=1)))
    with pytest.raises(ConfigurationError, match=re.escape("reference, output: found shape (40, 2); expected (40, 1)")):
        build(pack.contract, None, lambda _: None, strengthens=False)
