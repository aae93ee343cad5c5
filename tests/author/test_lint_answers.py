"""Answers against what was true: a forgotten destandardize, a model that quantizing has spoilt."""

import numpy as np
import pytest

from edge_runtime.author.build import Build, build
from edge_runtime.author.lint_answers import answers
from edge_runtime.author.record import Metrics
from tests.author.conftest import Pack

POSTPROCESS = 'postprocess = [{ step = "destandardize", mean = 10.0, std = 5.0 }]\n'
REASON = "a quantile near the upper end: its mean absolute error is not what it is judged by"
TARGET = {"low": np.array([0.0, 1.0, 2.0, 3.0])}  # always saying 1.5 is 1.0 off


def _build(pack: Pack) -> Build:
    return build(pack.contract, None, lambda _: None, strengthens=False)


def _metrics(bundle: float, float32: float) -> dict[str, Metrics]:
    return {"low": Metrics(unit="Cel", cases=4, mae_float32=float32, mae_bundle=bundle)}


def test_a_forgotten_destandardize_fails_the_build_unless_it_is_waived(pack: Pack) -> None:
    pack.edit(POSTPROCESS, "")
    (line,) = (one for one in _build(pack).failures if "no-better-than-mean" in one)
    assert line.startswith("output low: mean absolute error ")
    assert "no better than always saying the mean" in line
    assert 'is the model\'s output standardized? add { step = "destandardize", mean, std } to postprocess' in line
    pack.edit("[goldens]", f'[waive]\nno-better-than-mean = "{REASON}"\n\n[goldens]')
    made = _build(pack)
    assert made.failures == ()
    assert any(one.endswith(f"[no-better-than-mean]; reason: {REASON}") for one in made.record.warnings)


@pytest.mark.parametrize(
    ("bundle", "float32", "ids"),
    [
        (1.0, 1.0, ["no-better-than-mean"]), (0.99, 0.9, []), (0.9, 0.2, ["worse-than-float"]), (0.6, 0.2, []),
        (0.09, 0.001, []),
    ],
)  # fmt: skip
def test_each_limit(bundle: float, float32: float, ids: list[str]) -> None:
    assert [one.id for one in answers(_metrics(bundle, float32), TARGET, TARGET)] == ids


def test_without_a_target_or_with_one_that_never_changes_there_is_nothing_to_compare() -> None:
    assert [*answers(_metrics(9.0, 9.0), {}, {})] == []
    same = {"low": np.ones(4)}
    assert [*answers(_metrics(9.0, 9.0), same, same)] == []


def test_the_mean_is_the_tests_own_where_training_has_no_target() -> None:
    (one,) = answers(_metrics(2.0, 2.0), {}, TARGET)
    assert "mean 1.5, std 1.11803" in one.found


def test_a_vector_has_a_mean_for_each_number() -> None:
    target = {"low": np.array([[0.0, 10.0], [2.0, 10.0]])}
    (one,) = answers(_metrics(0.5, 0.5), target, target)
    assert "a mean each" in one.found
    assert [*answers(_metrics(0.4, 0.4), target, target)] == []
