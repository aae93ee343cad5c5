"""The line on many cases at once, each of its steps open to one change; its stages are the runtime's own, it judges nothing.

What it leaves out is what a mutant is not judged by: bands, gaps, streams. A wrong unit that a band would refuse still
gives its number here, so that the number alone has to be noticed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.golden import Goldens
from edge_runtime.flow.batching import split
from edge_runtime.flow.model import Model
from edge_runtime.flow.postprocess import Labelled, Postprocess, Unusable
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.units import conversion, resolve

Tensors = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
Converted = Literal["twice", "never"]
_NS = 1e9
# Rows for one call of a model: a tensor of a few megabytes, however many cases there are.
_MAX_NUMBERS_A_RUN = 1 << 20


class Cases(NamedTuple):
    """Samples as a sender gives them.

    ``raw`` is float64 ``(cases, samples, numbers)``, its columns in the manifest's order; ``units`` has one text a
    channel for each case.
    """

    raw: Floats
    units: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Way:
    """One way from cases to answers: a model under its manifest, and at most one change to a step between.

    ``units`` names channels whose conversion runs twice or never; ``windows`` changes the rows in contract units
    ``(cases, time, numbers)``, ``tensors`` what the model is fed. ``carries`` is false where every call gets a fresh
    state; ``exchanged`` says which state tensor is fed with another's value.
    """

    model: Model
    units: Mapping[str, Converted] = field(default_factory=dict)
    windows: Callable[[Floats], Floats] | None = None
    tensors: Callable[[Tensors], Tensors] | None = None
    carries: bool = True
    exchanged: Mapping[str, str] = field(default_factory=dict)


class Seen(NamedTuple):
    """What went through at the last sample of every case: tensors and outputs by name, batch first.

    ``finite`` is false for a case the model was never asked for, since a number of its tensor is not finite.
    """

    tensors: Tensors
    outputs: Tensors
    finite: NDArray[np.bool_]


class Published(NamedTuple):
    """What a receiver gets, by case.

    ``values`` has one array an output: float64 ``(cases,)``, texts, or float64 ``(cases, k)``. ``flags`` are those of
    fresh hysteresis, ``running`` those of one stream that gets the cases one after another, both bool
    ``(cases, flags)``. ``scores`` is float64 ``(cases, outputs)``, NaN where an output has none. ``answered`` is false
    where no answer would come.
    """

    values: tuple[NDArray[Any], ...]
    flags: NDArray[np.bool_]
    running: NDArray[np.bool_]
    scores: Floats
    answered: NDArray[np.bool_]


def cases_of(goldens: Goldens, manifest: Manifest) -> Cases:
    """The stored cases, their columns brought into the manifest's order by name."""
    widths = {channel.name: channel.width for channel in manifest.channels}
    places, first = {}, 0
    for name in goldens.channels:
        places[name] = np.arange(first, first + widths[name])
        first += widths[name]
    order = np.concatenate([places[channel.name] for channel in manifest.channels])
    at = [goldens.channels.index(channel.name) for channel in manifest.channels]
    return Cases(goldens.raw[:, :, order], tuple(tuple(row[place] for place in at) for row in goldens.units))


def walk(way: Way, cases: Cases) -> Seen:
    """Take the cases through the way, each as a stream of its own, to their last sample."""
    manifest = way.model.manifest
    rows = contract_rows(manifest, cases, way.units)
    preprocess = way.model.preprocess()
    length, hop = manifest.length, manifest.window.hop if manifest.window else 1
    ends = range(length, rows.shape[1] + 1, hop) if manifest.state else [rows.shape[1]]
    fresh: Tensors = {
        one.input: np.full((len(rows), *one.shape), one.initial, dtype=one.dtype) for one in manifest.state
    }
    carried, seen = fresh, None
    for end in ends:
        tensors = _fed(way, rows[:, end - length : end], preprocess)
        states = {name: carried[way.exchanged.get(name, name)] for name in carried}
        tensors |= states if way.carries else fresh
        seen = _run(way.model, tensors)
        carried = {one.input: seen.outputs[one.output].reshape(fresh[one.input].shape) for one in manifest.state}
    if seen is None:
        raise ValueError(f"cases of {rows.shape[1]} samples for a window of {length}")
    return seen


def fed(way: Way, cases: Cases) -> Tensors:
    """The tensors a model without a state is fed at the cases' last sample, the model not run."""
    rows = contract_rows(way.model.manifest, cases, way.units)
    return _fed(way, rows[:, rows.shape[1] - way.model.manifest.length :], way.model.preprocess())


def publish(way: Way, seen: Seen) -> Published:
    """The answers to what the model gave."""
    post = Postprocess(way.model.manifest)
    made = post.make(seen.outputs)
    rows = len(seen.finite)
    outputs = way.model.manifest.outputs
    values: list[list[Any]] = [[] for _ in outputs]
    flags = np.zeros((rows, len(post.flag_names)), bool)
    running, state = flags.copy(), post.fresh
    scores = np.full((rows, len(outputs)), np.nan)
    answered = seen.finite.copy()
    nothing = [_nothing([row for row in one if not isinstance(row, Unusable)]) for one in made]
    for row in range(rows):
        alone = post.answer(made, row, post.fresh) if answered[row] else Unusable("not_finite", "")
        if isinstance(alone, Unusable):
            answered[row] = False
            for at, one in enumerate(values):
                one.append(nothing[at])
            continue
        given, flags[row] = alone
        following = post.answer(made, row, state)
        if not isinstance(following, Unusable):
            state = following[1]
            running[row] = state
        for at, value in enumerate(given):
            values[at].append(value.value)
            scores[row, at] = np.nan if value.score is None else value.score
    kinds = [str if output.form == "label" else np.float64 for output in outputs]
    arrays = tuple(np.array(one, dtype=kind) for one, kind in zip(values, kinds, strict=True))
    return Published(arrays, flags, running, scores, answered)


def contract_rows(manifest: Manifest, cases: Cases, changed: Mapping[str, Converted]) -> Floats:
    """The samples in contract units, float64 ``(cases, samples, numbers)``, missing ones by their channel's policy."""
    rows = cases.raw.copy()
    first = 0
    for at, channel in enumerate(manifest.channels):
        part = rows[:, :, first : first + channel.width]
        first += channel.width
        if channel.form != "number":
            continue
        by_text = {text: _affine(channel, text, changed.get(channel.name)) for text in {u[at] for u in cases.units}}
        factors = np.array([by_text[row[at]] for row in cases.units]).reshape(-1, 2, 1, 1)
        part[:] = factors[:, 0] * part + factors[:, 1]
        _fill(part, channel, manifest)
    return rows


def _fed(way: Way, windows: Floats, preprocess: Callable[[Floats], Mapping[str, NDArray[Any]]]) -> Tensors:
    if way.windows is not None:
        windows = way.windows(windows)
    with np.errstate(all="ignore"):  # what is not finite gets no answer
        tensors = dict(preprocess(windows))
        return tensors if way.tensors is None else way.tensors(tensors)


def _affine(channel: Channel, text: str, changed: Converted | None) -> tuple[float, float]:
    if changed == "never":
        return 1.0, 0.0
    a, b = conversion(resolve(text), resolve(channel.unit), channel.kind)
    return (a * a, a * b + b) if changed == "twice" else (a, b)


def _fill(part: Floats, channel: Channel, manifest: Manifest) -> None:
    missing = np.isnan(part)
    if not missing.any():
        return
    if channel.when_missing == "fill":
        part[missing] = channel.fill
    elif channel.when_missing == "hold":
        period = (manifest.window.period_s if manifest.window else None) or 1.0
        age = np.zeros(part[:, 0].shape)
        for sample in range(1, part.shape[1]):
            age = np.where(missing[:, sample], age + period, 0.0)
            held = missing[:, sample] & (age <= (channel.hold_s or 0.0) + 1 / _NS)
            part[:, sample] = np.where(held, part[:, sample - 1], part[:, sample])


def _run(model: Model, tensors: Tensors) -> Seen:
    """The model's outputs in batches it may have; what is not finite is not asked."""
    manifest = model.manifest
    count = len(next(iter(tensors.values())))
    finite = np.ones(count, bool)
    if not any(channel.when_missing == "pass" for channel in manifest.channels):
        for values in tensors.values():
            if values.dtype.kind == "f":
                finite &= np.isfinite(values.reshape(count, -1)).all(axis=1)
    asked = {name: values if finite.all() else _without(values, finite) for name, values in tensors.items()}
    into = {one.input: one.batch_axis for one in manifest.state}
    out = {one.output: one.batch_axis for one in manifest.state}
    parts, first = [], 0
    for size in split(count, _sizes(manifest, asked)):
        feeds = {
            name: np.ascontiguousarray(np.moveaxis(values[first : first + size], 0, into.get(name, 0)))
            for name, values in asked.items()
        }
        parts.append(model.infer(feeds))
        first += size
    outputs = {
        name: np.concatenate([np.moveaxis(part[name], out.get(name, 0), 0) for part in parts]) for name in parts[0]
    }
    return Seen(tensors, outputs, finite)


def _sizes(manifest: Manifest, tensors: Tensors) -> tuple[int, ...]:
    a_row = sum(values.size for values in tensors.values()) // max(len(next(iter(tensors.values()))), 1)
    return tuple(size for size in manifest.batch_sizes if size == 1 or size * a_row <= _MAX_NUMBERS_A_RUN)


def _without(values: NDArray[Any], finite: NDArray[np.bool_]) -> NDArray[Any]:
    kept = values.copy()
    kept[~finite] = 0
    return kept


def _nothing(rows: Sequence[Any]) -> Any:
    """What fills the place of an answer that never comes, of the shape its neighbours have."""
    if rows and isinstance(rows[0], Labelled):
        return ""
    return (np.nan,) * len(rows[0]) if rows and isinstance(rows[0], tuple) else np.nan
