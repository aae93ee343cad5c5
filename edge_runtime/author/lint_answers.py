"""Lints of what a bundle answers to a split, against what was true and what float32 answered; it runs no model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.label_order import Exchange, exchanged
from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.record import Metrics
from edge_runtime.author.straight import Line, mending_line

NO_BETTER = Rule(
    "no-better-than-mean", "error",
    "answers whose mean absolute error on the test data is that of always saying the mean, or more; of a vector those of "
    "each of its numbers",
    "the answers are no better than always saying the mean: mostly they are still standardized, and read as if they "
    "were in the answer's unit",
    'is the model\'s output standardized? add { step = "destandardize", mean, std } to postprocess, with the mean and '
    "std of the target it was trained with; else the targets are of another unit or another order",
)  # fmt: skip
BY_CONSTANT = Rule(
    "off-by-a-constant", "error",
    "answers whose mean absolute error on the test data a constant, a factor or both would take more than half away from; "
    "of a vector those of any of its numbers",
    "the model knows the answer, and each is wrong by the same amount: a constant between the model and the answer is "
    "not the one it was trained with, or the answer is in another unit",
    "destandardize's mean and std must be those of the target of training; without that step, look at the unit of the "
    "output and of its target; a model that is off on purpose, as a quantile is, needs a waiver",
)  # fmt: skip
ALWAYS_SAME = Rule(
    "always-the-same", "error",
    "answers to the test data that spread less than a thousandth of what was true",
    "whatever comes in, the same comes out: a constant near the middle can have a small error, and has learnt nothing",
    "look at the export and at the preprocessing: a layer that is dead, an input that never changes, a scale that "
    "flattens it",
)  # fmt: skip
NO_BETTER_LABEL = Rule(
    "no-better-than-commonest", "error",
    "a label that is right in no more of the test data than always saying the commonest one",
    "the answers are no better than always the same word: mostly the labels are in another order than the model's "
    "classes, and each answer is another class's word, said with a high score",
    "write `labels` in the order of training, the class of index 0 first, and the target in the same words; a model that "
    "is honestly no better needs a waiver",
)  # fmt: skip
SWAPPED = Rule(
    "labels-swapped", "error",
    "labels of which the test data say that they stand in one another's place",
    "each of them is answered where another one is true: the model knows the classes, and the contract calls them by "
    "wrong words",
    "write `labels` in the order of training, the class of index 0 first; or correct the target, if that has them wrong",
)  # fmt: skip
BY_PLACE = Rule(
    "labels-unproven", "warning",
    "a label's words that neither the model nor any data speak of: its target is given by place, or there is none at all",
    "a place in the target is the same place in `labels`, whatever stands there: words in a wrong order would pass",
    "write the target as words, made by your training code's own table of classes; or read `labels` once more and waive "
    "this",
)  # fmt: skip
WORSE = Rule(
    "worse-than-float", "error",
    "answers whose mean absolute error on the test data, or share of wrong labels, is more than three times the float "
    "model's",
    "what ships is another model than the one that was judged: the quantization has lost what it had learnt",
    "calibrate on data as it will come, keep float32, or search for a recipe with [gates]",
)  # fmt: skip

RULES = (NO_BETTER, BY_CONSTANT, ALWAYS_SAME, NO_BETTER_LABEL, SWAPPED, BY_PLACE, WORSE)

_FACTOR = 3.0
# Below this share of the mean's own error (the commonest word's) a model is good whatever float32 may reach.
_GOOD = 0.1
_CONSTANT = 1e-3
# An error below this share of the mean's own is rounding, or int8's: whatever would mend it, nobody would notice.
_SMALL = 0.01
# Of an error that float32 has not half of, the quantization is the cause.
_OWN = 0.5
_SHOWN_WORDS = 6

Values = NDArray[Any]
Columns = NDArray[np.float64]


def answers(
    metrics: Mapping[str, Metrics], said: Mapping[str, Values], true: Mapping[str, Values],
    train: Mapping[str, Values], split: str = "test",
) -> Iterator[Finding]:  # fmt: skip
    """The findings of each output with a target; ``said`` and ``true`` are by output, over the cases of ``split``.

    Numbers are float64 ``(cases,)``, of a vector ``(cases, numbers)``; labels texts ``(cases,)``. ``train`` are the
    targets whose mean is taken, the split's own where training has none. A target that never changes says nothing of
    numbers.
    """
    for name, found in metrics.items():
        if name not in true:
            continue
        if found.accuracy_bundle is not None:
            yield from _of_label(name, found, said[name], true[name], split)
        else:
            yield from _of_numbers(name, found, said[name], true[name], train.get(name, true[name]), split)


def by_place(output: str) -> Finding:
    """What is to be said of a label whose target holds places."""
    return BY_PLACE.found_at(f"output {output}", "its target holds places, so nothing says that its words are in order")


def without_target(output: str, words: Sequence[str]) -> Finding:
    """What is to be said of a label that has no target in any split, and whose model does not name its classes."""
    found = BY_PLACE.found_at(
        f"output {output}", "no split has a target for it, so nothing at all proves that "
        f"{', '.join(map(repr, words[:_SHOWN_WORDS]))}{', ...' if len(words) > _SHOWN_WORDS else ''} is the model's order"
    )  # fmt: skip
    return replace(
        found,
        why="in a wrong order each answer is another class's word, said with a high score, and every check of this build passes",
        fix="give data.test (or data.train) a target of words, made by your training code's own table of classes",
    )


def _of_numbers(name: str, found: Metrics, said: Values, true: Values, train: Values, split: str) -> Iterator[Finding]:
    ours, target, known = (_columns(values) for values in (said, true, train))
    of_mean = np.abs(target - known.mean(axis=0)).mean(axis=0)
    off = np.abs(ours - target).mean(axis=0)
    moves = of_mean > 0
    bad = np.flatnonzero(moves & (off >= of_mean))
    flat = np.flatnonzero(moves & (ours.std(axis=0) < _CONSTANT * target.std(axis=0)))
    subject, unit = f"output {name}", "" if found.unit == "1" else f" {found.unit}"
    if len(bad):
        at = int(bad[np.argmax(off[bad] / of_mean[bad])])
        line = mending_line(ours[:, at], target[:, at])
        mended = f"; the answers {line.told(unit)} would have {line.error:.4g}{unit}" if line else ""
        yield NO_BETTER.found_at(
            subject, f"{_which(at, bad, target)}mean absolute error {off[at]:.4g}{unit} on the {split} data; always saying "
            f"the mean of the target ({_whose(known[:, at])}) has {of_mean[at]:.4g}{unit}{mended}"
        )  # fmt: skip
    elif len(flat):
        at = int(flat[0])
        yield ALWAYS_SAME.found_at(
            subject, f"{_which(at, flat, target)}answers from {ours[:, at].min():.6g} to {ours[:, at].max():.6g}{unit} on the "
            f"{split} data, where {target[:, at].min():.6g} to {target[:, at].max():.6g}{unit} was true"
        )  # fmt: skip
    elif moves.any() and _is_worse(found.mae_bundle, found.mae_float32, float(of_mean.mean())):
        yield WORSE.found_at(
            subject, f"mean absolute error {found.mae_bundle:.4g}{unit} on the {split} data, {found.mae_float32:.4g}"
            f"{unit} in float32"
        )  # fmt: skip
    elif found.mae_float32 is None or found.mae_float32 >= _OWN * (found.mae_bundle or 0.0):
        yield from _by_constant(subject, ours, target, known, _SMALL * of_mean, f"{split} data", unit)


def _by_constant(
    subject: str, ours: Columns, target: Columns, known: Columns, small: Columns, where: str, unit: str
) -> Iterator[Finding]:  # fmt: skip
    """The number, by the error it would lose the greatest share of, that a constant or a factor would mend."""
    off = np.abs(ours - target).mean(axis=0)
    lines: dict[int, Line] = {}
    for at in np.flatnonzero(off > small).tolist():
        line = mending_line(ours[:, at], target[:, at])
        if line is not None:
            lines[at] = line
    if lines:
        at = min(lines, key=lambda number: lines[number].error / off[number])
        line, which = lines[at], _which(at, np.array([*lines]), target)
        yield BY_CONSTANT.found_at(
            subject, f"{which}mean absolute error {off[at]:.4g}{unit} on the {where}, {line.error:.4g}{unit} if each answer were "
            f"taken {line.told(unit)} (the target has {_whose(known[:, at])})"
        )  # fmt: skip


def _whose(known: Columns) -> str:
    return f"mean {known.mean():.6g}, std {known.std():.6g}"


def _of_label(name: str, found: Metrics, said: Values, true: Values, split: str) -> Iterator[Finding]:
    words, counts = np.unique(true, return_counts=True)
    commonest, share = str(words[counts.argmax()]), float(counts.max()) / len(true)
    right, before = float(found.accuracy_bundle or 0.0), found.accuracy_float32
    subject, told = f"output {name}", f"right in {right:.3%} of {len(true)} {split} cases"
    if right <= share and right < 1:
        yield NO_BETTER_LABEL.found_at(
            subject, f"{told}; always saying {commonest!r}, the commonest, is right in {share:.3%}"
        )
    elif before is not None and _is_worse(1 - right, 1 - before, 1 - share):
        yield WORSE.found_at(subject, f"{told}, in {before:.3%} in float32")
    for ring in exchanged(said, true):
        better = right + (ring.would_be - ring.right) / len(true)
        yield SWAPPED.found_at(subject, f"{told}, and in {better:.3%} if {_in_words(ring)}")


def _in_words(ring: Exchange) -> str:
    if len(ring.words) == 2:  # noqa: PLR2004 - a plain swap
        return f"{ring.words[0]!r} and {ring.words[1]!r} changed places"
    pairs = [f"{one!r} were {other!r}" for one, other in zip(ring.words, ring.words[1:] + ring.words[:1], strict=True)]
    more = len(pairs) - _SHOWN_WORDS
    return ", ".join(pairs[:_SHOWN_WORDS]) + (f", and so on for {more} more" if more > 0 else "")


def _is_worse(ours: float | None, exact: float | None, trivial: float) -> bool:
    """Whether an error is far beyond float32's, and not small beside that of an answer which needs no model."""
    return ours is not None and exact is not None and ours > max(_FACTOR * exact, _GOOD * trivial)


def _columns(values: Values) -> Columns:
    return values.astype(np.float64).reshape(len(values), -1)


def _which(at: int, found: NDArray[np.int64], target: Columns) -> str:
    """Which number of a vector, counted from 0 as `column` is."""
    if target.shape[1] == 1:
        return ""
    alike = f" ({len(found)} of {target.shape[1]} alike)" if len(found) > 1 else f" of {target.shape[1]}"
    return f"number {at}{alike}: "
