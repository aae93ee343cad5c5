"""How good answers are, by the metrics of the field or the author's own function; it decides nothing."""

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ConfigurationError

Values = NDArray[Any]
Metric = Callable[[Values, Values], float]


def find_metric(name: str, subject: str) -> Metric:
    """The metric of that name, or the author's ``module:function``; it takes answers and what was true.

    Answers are float64 ``(cases,)``, for a vector ``(cases, numbers)``, for a label its texts ``(cases,)``; auroc takes
    scores instead, ``(cases,)`` or ``(cases, labels)``.

    Raises:
        ConfigurationError: there is no such function, or it gives no number.

    """
    if name in _METRICS:
        return _METRICS[name]
    module, _, function = name.partition(":")
    try:
        own = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            subject=subject, found=f"no {name} ({error})", expected="a function of a module that Python finds",
            todo="correct the name, or put its folder on PYTHONPATH",
        ) from error  # fmt: skip
    return lambda answers, targets: _number(own, name, answers, targets, subject)


def _number(own: Callable[[Values, Values], Any], name: str, answers: Values, targets: Values, subject: str) -> float:
    # The function is the author's: whatever it raises is said in one line and never taken for a fault of ours.
    try:
        value = float(own(answers, targets))
    except Exception as error:
        raise ConfigurationError(
            subject=f"{subject}, {name}", found=f"{type(error).__name__}: {error}"[:200], expected="one number",
            todo="correct the function; it takes answers and targets",
        ) from error  # fmt: skip
    if not math.isfinite(value):
        raise ConfigurationError(
            subject=f"{subject}, {name}", found=str(value), expected="a finite number", todo="correct the function"
        )
    return value


def _accuracy(answers: Values, targets: Values) -> float:
    return float((answers == targets).mean())


def _macro_f1(answers: Values, targets: Values) -> float:
    """The mean of each class's F1, over the classes that are true or answered anywhere."""
    found = []
    for label in np.unique(np.concatenate([answers, targets])):
        said, true = answers == label, targets == label
        found.append(2.0 * float((said & true).sum()) / float(said.sum() + true.sum()))
    return float(np.mean(found))


def _auroc(scores: Values, targets: Values) -> float:
    """Rank statistic (Hanley and McNeil 1982), ties counted half; of several labels the mean of one against the rest."""
    if scores.ndim == 1:
        return _ranked(scores, targets.astype(np.float64) > 0)
    present = [at for at in range(scores.shape[1]) if 0 < (targets == at).sum() < len(targets)]
    return float(np.mean([_ranked(scores[:, at], targets == at) for at in present])) if present else 0.5


def _ranked(scores: Values, positive: NDArray[np.bool_]) -> float:
    ups, downs = int(positive.sum()), int((~positive).sum())
    if not ups or not downs:
        return 0.5
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2.0)[place]
    return float((rank[positive].sum() - ups * (ups + 1) / 2.0) / (ups * downs))


def _mae(answers: Values, targets: Values) -> float:
    return float(np.abs(answers - targets).mean())


def _rmse(answers: Values, targets: Values) -> float:
    return float(np.sqrt(np.square(answers - targets).mean()))


def _r2(answers: Values, targets: Values) -> float:
    spread = float(np.square(targets - targets.mean(axis=0)).sum())
    return 1.0 - float(np.square(answers - targets).sum()) / spread if spread else 0.0


def _max_error(answers: Values, targets: Values) -> float:
    return float(np.abs(answers - targets).max())


_METRICS: Mapping[str, Metric] = {
    "accuracy": _accuracy, "macro_f1": _macro_f1, "auroc": _auroc, "mae": _mae, "rmse": _rmse, "r2": _r2,
    "max_error": _max_error,
}  # fmt: skip
