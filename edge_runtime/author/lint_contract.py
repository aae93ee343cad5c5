"""Lints of what a contract says beside its data and its model: bands, pace, a step done twice; it opens no session."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.lint_nodes import made_by
from edge_runtime.spec.inputs import Channel, Window
from edge_runtime.spec.outputs import Output

BEYOND = Rule(
    "trained-beyond-tolerated", "warning", "training data outside the band that the contract vouches for",
    "the model has learnt from values that its device flags as not vouched for: either the band is too narrow, or the data "
    "are of another unit or another channel",
    "widen `tolerated` to what you vouch for, or leave such cases out of training; look whether unit and order of the "
    "channels are those of the data",
)  # fmt: skip
MOSTLY_BEYOND = Rule(
    "trained-mostly-beyond", "error", "training data of which more than half lie outside the band that is vouched for",
    "mostly two channels have changed places, or the data are in another unit: a device then feeds the model what it has "
    "never seen, and calls it good",
    "put the channels in the order of the data's columns, each with its own unit and bands; or widen `tolerated`",
)  # fmt: skip
NO_PACE = Rule(
    "no-pace", "warning", "a window of several samples without `period_s`",
    "neither the pace of the samples nor a gap is checked: a sensor that sends twice as often, or stops for a day, fills "
    "the window all the same",
    "state window.period_s, the seconds between samples of the training data; or waive this where the pace means nothing",
)  # fmt: skip
TWICE = Rule(
    "postprocess-twice", "error", "a softmax or sigmoid in postprocess over what the model has already put through one",
    "done twice it flattens every answer towards the middle: still in order, still between 0 and 1, and no probability",
    "take the step out of postprocess; only logits need it",
)  # fmt: skip

RULES = (BEYOND, MOSTLY_BEYOND, NO_PACE, TWICE)

_MOST = 0.5
# Probabilities of float16, summed up, are no nearer to 1.
_SUM_LIMIT = 1e-3
_OPERATORS = {"softmax": "Softmax", "sigmoid": "Sigmoid"}


def bands(channels: Sequence[Channel], train: NDArray[np.float64]) -> Iterator[Finding]:
    """A finding for each channel whose training leaves what is tolerated; ``train`` is ``(cases, samples, row)``."""
    first = 0
    for channel in channels:
        values = train[:, :, first : first + channel.width]
        first += channel.width
        if channel.form != "number":
            continue
        trained, tolerated, _ = channel.bands
        if tolerated.holds(trained):
            continue
        outside = (values < tolerated.min) | (values > tolerated.max)
        share = float(outside.any(axis=(1, 2)).mean())
        rule = MOSTLY_BEYOND if share > _MOST else BEYOND
        yield rule.found_at(
            f"channel {channel.name}",
            f"trained {trained.min:g} to {trained.max:g} {channel.unit}, tolerated {tolerated.min:g} to {tolerated.max:g}: "
            f"{share:.1%} of the training cases are outside",
        )


def pace(window: Window | None) -> Iterator[Finding]:
    """A finding where nothing says how far apart the samples of a window are."""
    if window is not None and window.length > 1 and window.period_s is None:
        yield NO_PACE.found_at("window", f"{window.length} samples, and no period_s")


def twice(model: ModelProto, outputs: Sequence[Output], answered: Mapping[str, NDArray[Any]]) -> Iterator[Finding]:
    """A finding for each output whose first step the model has done; ``answered`` is by tensor what the framework gave."""
    for output in outputs:
        step = output.postprocess[0].step if output.postprocess else None
        operator = _OPERATORS.get(step or "")
        if operator is None:
            continue
        subject = f"output {output.name}, postprocess"
        if made_by(model, output.tensor) == operator:
            yield TWICE.found_at(subject, f"{step} over {output.tensor}, which the model's own last {operator} gives")
        elif step == "softmax" and _are_probabilities(answered.get(output.tensor)):
            yield TWICE.found_at(
                subject, f"softmax over {output.tensor}, which in every case of the reference is nowhere below 0 and adds up to 1"
            )  # fmt: skip


def _are_probabilities(values: NDArray[Any] | None) -> bool:
    """Whether each case is several numbers of 0 or more that add up to 1."""
    if values is None or values.dtype.kind != "f" or not len(values):
        return False
    rows = values.reshape(len(values), -1).astype(np.float64)
    return bool(rows.shape[1] > 1 and (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= _SUM_LIMIT).all())
