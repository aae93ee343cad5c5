"""Takes many cases at once through steps, model and postprocessing, sample by sample where there is a state; it judges none."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import BundleError
from edge_runtime.flow.model import Model
from edge_runtime.flow.postprocess import Postprocess, Unusable
from edge_runtime.spec.manifest import Manifest

Tensors = Mapping[str, NDArray[Any]]

_ROWS_A_RUN = 256


class Pass(NamedTuple):
    """Input and output tensors of all cases at their last sample, by name, batch first; states among them."""

    tensors: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]


def through(model: Model, raw: NDArray[np.float64]) -> Pass:
    """All cases from fresh states on; ``raw`` is ``(cases, samples, row)`` in contract units, NaN where missing.

    Raises:
        BundleError: the steps give no finite tensor.

    """
    rows = 1 if model.manifest.batch_sizes == (1,) else _ROWS_A_RUN
    values = filled(model.manifest, raw)
    parts = [_part(model, values[first : first + rows]) for first in range(0, len(values), rows)]
    return Pass(joined([part.tensors for part in parts]), joined([part.outputs for part in parts]))


def outputs_for(model: Model, tensors: Tensors, size: int) -> dict[str, NDArray[Any]]:
    """What the model makes of tensors as `through` gives them, ``size`` at a time; the last batch begins again at case 0."""
    cases = len(next(iter(tensors.values())))
    axes = batch_axes(model.manifest)
    parts = []
    for first in range(0, cases, size):
        rows = np.arange(first, first + size) % cases
        feeds = {name: _moved(values[rows], axes.get(name, 0)) for name, values in tensors.items()}
        parts.append(_batch_first(model.infer(feeds), axes))
    return {name: values[:cases] for name, values in joined(parts).items()}


def answer_rows(manifest: Manifest, outputs: Tensors) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]]]:
    """Each row's answers by output and flags by ``output.flag``, every row with fresh hysteresis.

    Raises:
        BundleError: the model gave what no device would publish.

    """
    post = Postprocess(manifest)
    made = post.make(outputs)
    rows = []
    for row in range(len(next(iter(outputs.values())))):
        answered = post.answer(made, row, post.fresh)
        if isinstance(answered, Unusable):
            raise BundleError(
                subject=f"the model's answer to case {row}", found=answered.found, expected="a value the contract knows",
                todo="look at the model and its preprocessing; no device would publish this",
            )  # fmt: skip
        rows.append(answered)
    answers = {
        output.name: np.array([values[at].value for values, _ in rows], str if output.form == "label" else np.float64)
        for at, output in enumerate(manifest.outputs)
    }
    flags = {name: np.array([after[at] for _, after in rows], np.bool_) for at, name in enumerate(post.flag_names)}
    return answers, flags


def filled(manifest: Manifest, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows as the contract leaves them: a missing number held, filled in or passed on as NaN."""
    if not np.isnan(raw).any():
        return raw
    values = raw.copy()
    column = 0
    for channel in manifest.channels:
        part = values[:, :, column : column + channel.width]
        if channel.when_missing == "fill":
            part[np.isnan(part)] = channel.fill
        elif channel.when_missing == "hold":
            for at in range(1, part.shape[1]):
                part[:, at] = np.where(np.isnan(part[:, at]), part[:, at - 1], part[:, at])
        column += channel.width
    return values


def batch_axes(manifest: Manifest) -> dict[str, int]:
    """Where a state has its batch dimension, by tensor name; any other tensor has it first."""
    return {name: one.batch_axis for one in manifest.state for name in (one.input, one.output)}


def joined(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """The rows of several batches, by tensor name."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _part(model: Model, raw: NDArray[np.float64]) -> Pass:
    manifest, axes = model.manifest, batch_axes(model.manifest)
    states = {
        one.input: np.full(_inserted(one.shape, one.batch_axis, len(raw)), one.initial, one.dtype)
        for one in manifest.state
    }
    preprocess = model.preprocess()
    feeds: Tensors = {}
    outputs: Tensors = {}
    for window in _windows(manifest, raw):
        with np.errstate(over="ignore"):  # what a cast cannot hold is infinite, and refused by name
            tensors = preprocess(window)
        _require_finite(manifest, tensors)
        feeds = {**tensors, **states}
        outputs = model.infer(feeds)
        states = {one.input: outputs[one.output] for one in manifest.state}
    return Pass(_batch_first(feeds, axes), _batch_first(outputs, axes))


def _require_finite(manifest: Manifest, tensors: Tensors) -> None:
    passes = any(channel.when_missing == "pass" for channel in manifest.channels)
    for name, values in tensors.items():
        bad = np.argwhere(np.isinf(values) if passes else ~np.isfinite(values)) if values.dtype.kind == "f" else ()
        if len(bad):
            raise BundleError(
                subject=f"input {name}", found="NaN or infinity after the steps in one of the author's own cases",
                expected="finite numbers", todo="look at the constants: a key no lookup has, a logarithm, a flat spectrum",
            )  # fmt: skip


def _windows(manifest: Manifest, raw: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    length, hop = manifest.length, manifest.window.hop if manifest.window else 1
    for end in range(length, raw.shape[1] + 1):
        if (end - length) % hop == 0:
            yield raw[:, end - length : end]


def _inserted(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis:])


def _batch_first(tensors: Tensors, axes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    return {name: np.moveaxis(values, axes.get(name, 0), 0) for name, values in tensors.items()}


def _moved(values: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(values, 0, axis))
