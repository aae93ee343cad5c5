"""Lints of what a bundle answers to the test split, against what was true and what float32 answered; it runs no model."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.record import Metrics

NO_BETTER = Rule(
    "no-better-than-mean", "error",
    "answers whose mean absolute error on the test data is that of always saying the mean, or more",
    "the answers are no better than always saying the mean: mostly they are still standardized, and read as if they "
    "were in the answer's unit",
    'is the model\'s output standardized? add { step = "destandardize", mean, std } to postprocess, with the mean and '
    "std of the target it was trained with; else the targets are of another unit or another order",
)  # fmt: skip
WORSE = Rule(
    "worse-than-float", "error",
    "answers whose mean absolute error on the test data is more than three times the float model's",
    "what ships is another model than the one that was judged: the quantization has lost what it had learnt",
    "calibrate on data as it will come, keep float32, or search for a recipe with [gates]",
)  # fmt: skip

RULES = (NO_BETTER, WORSE)

_FACTOR = 3.0
# Below this share of the mean's own error a model is good whatever float32 may reach.
_GOOD = 0.1


def answers(
    metrics: Mapping[str, Metrics], train: Mapping[str, NDArray[Any]], test: Mapping[str, NDArray[Any]]
) -> Iterator[Finding]:
    """The findings of each output of numbers with a target; ``train`` and ``test`` are the targets by output.

    The mean is that of the training target, of the test target where training has none. A target that never changes
    says nothing.
    """
    for name, found in metrics.items():
        if name not in test or found.mae_bundle is None or found.mae_float32 is None:
            continue
        known = train.get(name, test[name]).astype(np.float64)
        mean = float(np.abs(test[name] - known.mean(axis=0)).mean())
        if mean == 0.0:
            continue
        subject, unit = f"output {name}", "" if found.unit == "1" else f" {found.unit}"
        if found.mae_bundle >= mean:
            whose = f"mean {known.mean():.6g}, std {known.std():.6g}" if known.ndim == 1 else "a mean each"
            yield NO_BETTER.found_at(
                subject, f"mean absolute error {found.mae_bundle:.4g}{unit} on the test data; always saying the mean of "
                f"the target ({whose}) has {mean:.4g}{unit}"
            )  # fmt: skip
        elif found.mae_bundle > max(_FACTOR * found.mae_float32, _GOOD * mean):
            yield WORSE.found_at(
                subject, f"mean absolute error {found.mae_bundle:.4g}{unit} on the test data, {found.mae_float32:.4g}"
                f"{unit} in float32"
            )  # fmt: skip
