"""Answers against what was true: a forgotten destandardize, labels in another order, a model that quantizing has spoilt."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author.build import Build, build
from edge_runtime.author.lint_answers import answers
from edge_runtime.author.record import Metrics
from edge_runtime.errors import ConfigurationError
from tests.author.conftest import Pack

POSTPROCESS = 'postprocess = [{ step = "destandardize", mean = 10.0, std = 5.0 }]\n'
REASON = "a quantile near the upper end: its mean absolute error is not what it is judged by"
HONEST = "the rare word is what counts, and it is judged by its recall elsewhere"
TARGET = {"low": np.array([0.0, 1.0, 2.0, 3.0])}  # always saying 1.5 is 1.0 off
WORDS = ("calm", "gust", "rain", "snow")


def _build(pack: Pack) -> Build:
    return build(pack.contract, None, lambda _: None, strengthens=False)


def _ids(bundle: float, float32: float, target: dict[str, np.ndarray]) -> list[str]:
    off = bundle * np.array([1, -1, 1, -1])
    metrics = {"low": Metrics(unit="Cel", cases=4, mae_float32=float32, mae_bundle=bundle)}
    return [one.id for one in answers(metrics, {"low": TARGET["low"] + off}, target, target)]


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


@pytest.mark.parametrize("split", ["validation", "training"])
def test_where_the_test_data_have_no_target_another_split_judges(pack: Pack, split: str) -> None:
    pack.edit(POSTPROCESS, "")
    pack.edit(', target = "test_y"', "")
    if split == "validation":
        pack.edit('test = { values = "test" }', 'validation = { values = "test", target = "test_y" }')
        pack.edit(', target = "train_y"', "")
    made = _build(pack)
    (line,) = (one for one in made.failures if "no-better-than-mean" in one)
    assert f"on the {split} data" in line
    assert (made.record.metrics == {}) == (split == "validation")  # the record's errors are of the test split alone


@pytest.mark.parametrize(
    ("bundle", "float32", "ids"),
    [
        (1.0, 1.0, ["no-better-than-mean"]), (0.99, 0.9, []), (0.9, 0.2, ["worse-than-float"]), (0.6, 0.2, []),
        (0.09, 0.001, []),
    ],
)  # fmt: skip
def test_each_limit(bundle: float, float32: float, ids: list[str]) -> None:
    assert _ids(bundle, float32, TARGET) == ids


def test_without_a_target_or_with_one_that_never_changes_there_is_nothing_to_compare() -> None:
    assert _ids(9.0, 9.0, {}) == []
    assert _ids(9.0, 9.0, {"low": np.ones(4)}) == []


def test_the_mean_is_the_tests_own_where_training_has_no_target() -> None:
    metrics = {"low": Metrics(unit="Cel", cases=4, mae_float32=2.0, mae_bundle=2.0)}
    (one,) = answers(metrics, {"low": TARGET["low"] + 2}, TARGET, {})
    assert "mean 1.5, std 1.11803" in one.found


def test_a_constant_near_the_middle_is_no_answer_however_small_its_error() -> None:
    target = {"low": np.array([0.0, 0.0, 0.0, 0.0, 40.0])}  # always saying 0 is 8 off, the mean 12.8
    metrics = {"low": Metrics(unit="Cel", cases=5, mae_float32=8.0, mae_bundle=8.0)}
    (one,) = answers(metrics, {"low": np.array([0, 1e-3, 0, 0, 0])}, target, target)
    assert str(one).startswith("output low: answers from 0 to 0.001 Cel on the test data, where 0 to 40 Cel was true [")
    assert one.id == "always-the-same"
    assert [*answers(metrics, {"low": np.array([0.0, 0, 0, 0, 1])}, target, target)] == []


def test_of_a_vector_each_number_has_to_be_better_than_its_mean() -> None:
    target = {"bands": np.array([[0.0, 100.0, 5.0], [2.0, 300.0, 5.0], [4.0, 500.0, 5.0]])}
    metrics = {"bands": Metrics(unit="1", cases=3, mae_float32=1.0, mae_bundle=1.0)}
    good = target["bands"] + [[0.1, 1.0, 1.0]]
    assert [*answers(metrics, {"bands": good}, target, target)] == []
    bad = good.copy()
    bad[:, 0] = [4.0, 2.0, 0.0]  # nothing beside the error that the second number may have
    (one,) = answers(metrics, {"bands": bad}, target, target)
    assert one.found.startswith("number 0 of 3: mean absolute error 2.667 on the test data; always saying the mean")


def _label(right: float, float32: float | None = None) -> dict[str, Metrics]:
    return {"kind": Metrics(unit="1", cases=9, accuracy_float32=float32 or right, accuracy_bundle=right)}


def test_a_label_worse_than_the_commonest_than_float32_or_neither() -> None:
    true = {"kind": np.array(["dry"] * 6 + ["wet"] * 4)}

    def ids(right: int, float32: float | None = None) -> list[str]:
        said = np.where(np.arange(10) < right, true["kind"], "icy")
        return [one.id for one in answers(_label(right / 10, float32), {"kind": said}, true, {})]

    assert ids(6) == ["no-better-than-commonest"]
    assert ids(7) == []
    assert ids(7, 0.95) == ["worse-than-float"]
    assert ids(7, 0.85) == []


def test_a_test_of_one_word_alone_is_passed_by_who_is_always_right() -> None:
    true = {"kind": np.array(["dry"] * 9)}
    assert [*answers(_label(1.0), true, true, {})] == []
    (one,) = answers(_label(0.5), {"kind": np.array(["dry", "wet", "icy"] * 3)}, true, {})
    assert one.id == "no-better-than-commonest"


def test_a_long_ring_of_words_is_told_by_its_first_ones() -> None:
    true = np.array([f"w{at}" for at in range(9)]).repeat(9)
    found = [*answers(_label(0.0), {"kind": np.roll(true, 9)}, {"kind": true}, {})]
    assert [one.id for one in found] == ["no-better-than-commonest", "labels-swapped"]
    assert found[1].found.endswith("'w5' were 'w6', and so on for 3 more")


@pytest.fixture
def classifier(pack: Pack) -> Pack:
    """The tiny author's folder around a classifier of two readings into four words that is nearly always right."""
    weights = np.array([[5, 5, -5, -5], [1, -1, 1, -1]], np.float32)
    bias = -np.array([10, 50], np.float32) @ weights
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["scores"])], "four",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), pack.folder / "model.onnx"
    )
    text = pack.contract.read_text()
    text = re.sub(r"\[window\].*?\n\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\[\[input.preprocess\]\].*?\n\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\[\[output\]\].*?\n\n", "[[output]]\n" + LABEL + "\n", text, flags=re.DOTALL)
    text = text.replace(', "time"', "").replace('"int8"', '"float32"')
    pack.contract.write_text(text)
    random = np.random.default_rng(4)

    def split(cases: int) -> tuple[np.ndarray, np.ndarray]:
        raw = random.uniform((-20, 5), (40, 95), (cases, 2)).astype(np.float32)
        return raw, np.where(random.random(cases) < 0.02, 0, (raw @ weights + bias).argmax(axis=1))

    (train, train_y), (test, test_y), (asked, _) = split(100), split(400), split(60)
    np.savez(pack.folder / "data.npz", train=train, train_y=train_y, test=test, test_y=test_y)
    np.savez(pack.folder / "reference.npz", raw=asked, tensor=asked, answered=asked @ weights + bias)
    # What was true has the words in the order of training, whatever the contract calls them.
    pack.arrays(
        "data.npz", lambda found: found.update(train_y=np.array(WORDS)[train_y], test_y=np.array(WORDS)[test_y])
    )
    return pack


LABEL = """tensor = "scores"
name = "kind"
meaning = "what the weather does"
form = "label"
labels = ["calm", "gust", "rain", "snow"]
"""


def _rename(pack: Pack, *words: str) -> list[str]:
    pack.edit('labels = ["calm", "gust", "rain", "snow"]', f"labels = {list(words)}".replace("'", '"'))
    return list(_build(pack).failures)


def test_labels_in_the_order_of_training_build(classifier: Pack) -> None:
    made = _build(classifier)
    assert made.failures == ()
    accuracy = made.record.metrics["cpu_float32"]["kind"].accuracy_bundle
    assert accuracy is not None
    assert accuracy > 0.95


def test_rotated_labels_are_refused_with_the_commonest_word_and_its_share(classifier: Pack) -> None:
    first, second = _rename(classifier, "gust", "rain", "snow", "calm")
    assert re.match(
        r"output kind: right in [01]\.\d{3}% of 400 test cases; always saying '\w+', the commonest, is right in \d\d\.\d{3}% "
        r"\[no-better-than-commonest\]; .*write `labels` in the order of training", first,
    )  # fmt: skip
    assert re.search(r"in 9\d\.\d{3}% if 'calm' were 'snow', 'snow' were 'rain', .* \[labels-swapped\]", second)


def test_two_of_four_labels_swapped_are_refused_by_name(classifier: Pack) -> None:
    (line,) = _rename(classifier, "calm", "rain", "gust", "snow")
    assert re.match(
        r"output kind: right in \d\d\.\d{3}% of 400 test cases, and in 9\d\.\d{3}% if 'gust' and 'rain' changed places "
        r"\[labels-swapped\]", line,
    )  # fmt: skip


def test_a_target_of_places_says_nothing_of_the_words_and_is_told_to(classifier: Pack) -> None:
    def numbered(found: dict[str, np.ndarray]) -> None:
        found.update({name: np.array([WORDS.index(word) for word in found[name]]) for name in ("train_y", "test_y")})

    classifier.arrays("data.npz", numbered)
    assert _rename(classifier, "gust", "rain", "snow", "calm") == []
    (line,) = (one for one in _build(classifier).record.warnings if "[labels-unproven]" in one)
    assert line.startswith("output kind: its target holds places, so nothing says that its words are in order")
    classifier.edit('"gust", "rain", "snow", "calm"', '"0", "1", "2", "3"')
    assert not any("[labels-unproven]" in one for one in _build(classifier).record.warnings)


def test_a_label_without_any_target_is_told_that_nothing_proves_its_words(classifier: Pack) -> None:
    classifier.edit(', target = "train_y"', "")
    classifier.edit(', target = "test_y"', "")
    assert _rename(classifier, "gust", "rain", "snow", "calm") == []
    (line,) = (one for one in _build(classifier).record.warnings if "[labels-unproven]" in one)
    assert line.startswith("output kind: no split has a target for it, so nothing at all proves that 'gust', 'rain', ")
    assert "give data.test (or data.train) a target of words" in line
    classifier.edit('"gust", "rain", "snow", "calm"', '"0", "1", "2", "3"')
    assert not any("[labels-unproven]" in one for one in _build(classifier).record.warnings)


def test_one_label_too_few_is_said_once_with_how_many_it_takes(classifier: Pack) -> None:
    def numbered(found: dict[str, np.ndarray]) -> None:
        found.update({name: np.array([WORDS.index(word) for word in found[name]]) for name in ("train_y", "test_y")})

    classifier.arrays("data.npz", numbered)
    with pytest.raises(ConfigurationError) as caught:
        _rename(classifier, "calm", "gust", "rain")
    assert str(caught.value).startswith(
        "output kind, labels: found 3 labels, and places up to 3 in its target; expected 4"
    )
    assert caught.value.others == ()


def test_a_target_in_other_words_is_refused_before_anything_is_counted(classifier: Pack) -> None:
    with pytest.raises(
        ConfigurationError, match="found 'calm'; expected one of Calm, gust, rain, snow; write the labels of"
    ):
        _rename(classifier, "Calm", "gust", "rain", "snow")


def test_rotated_labels_are_refused_by_the_validation_data_too(classifier: Pack) -> None:
    classifier.edit(', target = "train_y"', "")
    classifier.edit("test = {", "validation = {")
    first, _ = _rename(classifier, "gust", "rain", "snow", "calm")
    assert "of 400 validation cases" in first


def test_an_honest_model_no_better_than_the_commonest_word_is_waived_in_writing(classifier: Pack) -> None:
    def rare(found: dict[str, np.ndarray]) -> None:
        keep = np.flatnonzero(found["test_y"] == "gust")
        found["test"], found["test_y"] = found["test"][keep], np.where(np.arange(len(keep)) % 9, "gust", "rain")

    classifier.arrays("data.npz", rare)
    (line,) = _build(classifier).failures
    assert "[no-better-than-commonest]" in line
    classifier.edit("[goldens]", f'[waive]\nno-better-than-commonest = "{HONEST}"\n\n[goldens]')
    made = _build(classifier)
    assert made.failures == ()
    assert any(one.endswith(f"[no-better-than-commonest]; reason: {HONEST}") for one in made.record.warnings)


def test_a_wrong_constant_of_destandardize_is_refused_with_error_and_shift(pack: Pack) -> None:
    pack.edit("mean = 10.0, std = 5.0", "mean = 10.8, std = 5.0")
    (line,) = _build(pack).failures
    assert re.match(
        r"output low: mean absolute error 0\.8\d* Cel on the test data, [0-9.e-]+ Cel if each answer were taken minus "
        r"0\.8\d* Cel \(the target has mean [\d.-]+, std [\d.]+\) \[off-by-a-constant\]; .*destandardize's mean and std "
        r"must be those of the target of training", line,
    )  # fmt: skip
    pack.edit("[goldens]", f'[waive]\noff-by-a-constant = "{REASON}"\n\n[goldens]')
    assert _build(pack).failures == ()


def _of_line(factor: float, shift: float, noise: float, cases: int = 200, float32: float | None = None) -> list[str]:
    random = np.random.default_rng(5)
    true = random.normal(50, 10, cases)
    said = (true + random.normal(0, noise, cases)) * factor + shift
    off = float(np.abs(said - true).mean())
    metrics = {"low": Metrics(unit="Cel", cases=cases, mae_float32=off if float32 is None else float32, mae_bundle=off)}
    return [str(one) for one in answers(metrics, {"low": said}, {"low": true}, {"low": true})]


@pytest.mark.parametrize(
    ("factor", "shift", "told"),
    [
        (1.0, 4.0, r"taken minus (4\.0|3\.9)\d* Cel \("), (1 / 1.1, 0.0, r"taken times 1\.(1|09)\d* \("),
        (0.8, 14.0, r"taken times 1\.2\d* minus 1[67]\.\d* Cel \("),
    ],
)  # fmt: skip
def test_the_simplest_way_is_named(factor: float, shift: float, told: str) -> None:
    (line,) = _of_line(factor, shift, 0.5)
    assert "[off-by-a-constant]" in line
    assert re.search(told, line)


def test_an_honest_error_chance_and_what_quantizing_did_are_no_constant() -> None:
    assert _of_line(1.0, 0.0, 3.0) == []
    assert _of_line(1.0, 1.0, 1.0) == []  # less than half
    assert _of_line(1.0, 0.01, 0.0) == []  # nobody would notice
    assert _of_line(1.0, 4.0, 0.5, cases=19) == []
    assert _of_line(1.0, 4.0, 0.5, float32=1.5) == []


def test_answers_far_off_are_told_what_would_mend_them_beside_the_mean() -> None:
    (line,) = _of_line(1.0, 40.0, 0.5)
    assert "[no-better-than-mean]" in line
    assert re.search(r"; the answers minus (39|40)[.\d]* Cel would have 0\.\d+ Cel \[", line)


def test_of_a_vector_the_number_that_is_off_is_named() -> None:
    random = np.random.default_rng(6)
    true = random.normal(50, 10, (100, 3))
    said = true + random.normal(0, 0.5, true.shape)
    metrics = {"bands": Metrics(unit="1", cases=100, mae_float32=1.0, mae_bundle=1.0)}
    assert [*answers(metrics, {"bands": said}, {"bands": true}, {})] == []
    said[:, 1] += 3
    (one,) = answers(metrics, {"bands": said}, {"bands": true}, {})
    assert one.id == "off-by-a-constant"
    assert one.found.startswith("number 1 of 3: mean absolute error 2.9")
