"""Mutants of what the manifest says beside its constants: units, channels, steps, labels; it runs none of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import ValidationError

from edge_runtime.author.mutate_constants import MAX_OF_A_LIST, put
from edge_runtime.author.mutate_line import Floats, Way
from edge_runtime.author.mutate_subject import Subject
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.spec.inputs import Channel, Input
from edge_runtime.spec.steps import Log, Lookup, Scale
from edge_runtime.spec.units import resolve, siblings, table

Made = Iterator[tuple[str, Callable[[], Way]]]

# All pairs up to so many channels; beyond, neighbours and the two ends.
MAX_ALL_PAIRS = 16
_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "hann": ("periodic", "symmetric"), "output": ("magnitude", "power"), "ddof": (0, 1), "initial": ("zero", "steady"),
    "base": ("e", "2", "10"), "method": ("area", "bilinear"),
}  # fmt: skip


def swaps(subject: Subject) -> Made:
    """The columns of two channels exchanged behind their names; of arrays, two of one shape."""
    channels = subject.manifest.channels
    starts = np.cumsum([0, *(channel.width for channel in channels)]).tolist()
    for one, other in _pairs(len(channels)):
        if channels[one].shape == channels[other].shape:
            columns = np.arange(starts[-1])
            width = channels[one].width
            columns[starts[one] : starts[one] + width] = np.arange(starts[other], starts[other] + width)
            columns[starts[other] : starts[other] + width] = np.arange(starts[one], starts[one] + width)
            yield (
                f"{channels[one].name} and {channels[other].name}",
                partial(replace, subject.way, windows=partial(_columns, columns)),
            )


def sibling_units(subject: Subject) -> Made:
    """The contract's unit, or an output's, exchanged for each that one could take for it."""
    for at, place, channel in _numbers(subject):
        for sibling in siblings(resolve(channel.unit)):
            yield (
                f"{channel.name} in {sibling.code} for {channel.unit}",
                partial(_with_channel, subject, at, place, {"unit": sibling.code}),
            )
        # Another spelling of the same size, as mbar for hPa: equal, and found to be.
        for code in _alike(channel.unit):
            yield (
                f"{channel.name} in {code} for {channel.unit}",
                partial(_with_channel, subject, at, place, {"unit": code}),
            )
        other = "difference" if channel.kind == "point" else "point"
        yield f"{channel.name} as a {other}", partial(_with_channel, subject, at, place, {"kind": other})
    for at, output in enumerate(subject.manifest.outputs):
        if output.form != "label":
            for sibling in siblings(resolve(output.unit)):
                changed = output.model_copy(update={"unit": sibling.code})
                yield f"{output.name} called {sibling.code}", partial(subject.with_output, at, changed)


def unit_steps(subject: Subject) -> Made:
    """A channel's conversion run twice, or never."""
    for _, _, channel in _numbers(subject):
        yield f"{channel.name} twice", partial(replace, subject.way, units={channel.name: "twice"})
        yield f"{channel.name} never", partial(replace, subject.way, units={channel.name: "never"})


def windows(subject: Subject) -> Made:
    """The window one sample early or late, and each lag one off."""
    if subject.manifest.length > 1:
        last = subject.manifest.length - 1
        late = np.array([0, *range(last)])
        early = np.array([*range(1, last + 1), last])
        yield "the newest sample not yet in it", partial(replace, subject.way, windows=partial(_samples, late))
        yield "the oldest sample gone already", partial(replace, subject.way, windows=partial(_samples, early))
    for at, model_input in enumerate(subject.manifest.inputs):
        for number, step in enumerate(model_input.steps):
            for place, lag in enumerate(getattr(step, "lags", ())):
                for off in (1, -1):
                    yield from _with_step(
                        subject, at, number, {"lags": put(getattr(step, "lags", ()), place, lag + off)},
                        f"lag {lag} taken as {lag + off}",
                    )  # fmt: skip


def steps(subject: Subject) -> Made:
    """A step of an input left out, run twice, exchanged with the next, or with another choice it offers."""
    for at, model_input in enumerate(subject.manifest.inputs):
        every = model_input.steps
        for number, step in enumerate(every):
            named = f"{step.step} {number + 1}"
            yield from _with_steps(subject, at, (*every[:number], *every[number + 1 :]), f"{named} left out")
            yield from _with_steps(subject, at, (*every[: number + 1], *every[number:]), f"{named} twice")
            if number + 1 < len(every):
                turned = (*every[:number], every[number + 1], step, *every[number + 2 :])
                yield from _with_steps(subject, at, turned, f"{named} after {every[number + 1].step}")
            for field, choices in _OPTIONS.items():
                now = getattr(step, field, None)
                for choice in choices if now in choices else ():
                    if choice != now and (field != "base" or isinstance(step, Log)):
                        yield from _with_step(subject, at, number, {field: choice}, f"{named} with {field} {choice}")


def scale_steps(subject: Subject) -> Made:
    """A picture's own scale, such as 1/255: left out, or applied twice."""
    for at, model_input in enumerate(subject.manifest.inputs):
        for number, step in enumerate(model_input.steps):
            if isinstance(step, Scale) and len(model_input.sample_shape) > 1:
                every = model_input.steps
                yield from _with_steps(
                    subject, at, (*every[:number], *every[number + 1 :]), f"step {number + 1} left out"
                )
                yield from _with_steps(subject, at, (*every[: number + 1], *every[number:]), f"step {number + 1} twice")


def lookups(subject: Subject) -> Made:
    """A lookup's values, or a category's places, moved round by one."""
    for at, model_input in enumerate(subject.manifest.inputs):
        for number, step in enumerate(model_input.steps):
            if isinstance(step, Lookup):
                for off in (1, -1):
                    yield from _with_step(
                        subject,
                        at,
                        number,
                        {"values": _rolled(step.values, off)},
                        f"lookup {number + 1} moved {off:+d}",
                    )
    starts = np.cumsum([0, *(channel.width for channel in subject.manifest.channels)]).tolist()
    for start, channel in zip(starts, subject.manifest.channels, strict=False):
        for off in (1, -1) if channel.form == "category" else ():
            yield (
                f"{channel.name} moved {off:+d}",
                partial(replace, subject.way, windows=partial(_moved, start, len(channel.categories), off)),
            )


def labels(subject: Subject) -> Made:
    """An output's labels moved round by one or two neighbours exchanged; a number taken from the column beside."""
    for at, output in enumerate(subject.manifest.outputs):
        for off in (1, -1) if output.form == "label" else ():
            changed = output.model_copy(update={"labels": _rolled(output.labels, off)})
            yield f"{output.name}, labels moved {off:+d}", partial(subject.with_output, at, changed)
        for place in range(min(len(output.labels) - 1, MAX_OF_A_LIST)):
            turned = list(output.labels)
            turned[place : place + 2] = turned[place + 1], turned[place]
            changed = output.model_copy(update={"labels": tuple(turned)})
            yield (
                f"{output.name}, {output.labels[place]} and {output.labels[place + 1]}",
                partial(subject.with_output, at, changed),
            )
        if output.form == "number":
            stored = subject.goldens.outputs[output.tensor]
            for column in (output.column - 1, output.column + 1):
                if 0 <= column < stored.size // len(stored):
                    changed = output.model_copy(update={"column": column})
                    yield f"{output.name} from column {column}", partial(subject.with_output, at, changed)


def post_steps(subject: Subject) -> Made:
    """A step of an output left out, run twice, or exchanged with the next."""
    for at, output in enumerate(subject.manifest.outputs):
        every = output.postprocess
        for number, step in enumerate(every):
            left, twice = (*every[:number], *every[number + 1 :]), (*every[: number + 1], *every[number:])
            variants = [(left, "left out"), (twice, "twice")]
            if number + 1 < len(every):
                turned = (*every[:number], every[number + 1], step, *every[number + 2 :])
                variants.append((turned, f"after {every[number + 1].step}"))
            for changed, how in variants:
                made = output.model_copy(update={"postprocess": changed})
                yield f"{output.name}, {step.step} {number + 1} {how}", partial(subject.with_output, at, made)


def states(subject: Subject) -> Made:
    """The state begun anew at every call, or two of one shape exchanged."""
    known = subject.manifest.state
    if known:
        yield "begun anew at every sample", partial(replace, subject.way, carries=False)
    for one, other in combinations(known, 2):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            exchanged = {one.input: other.input, other.input: one.input}
            yield f"{one.input} and {other.input} exchanged", partial(replace, subject.way, exchanged=exchanged)


def _pairs(count: int) -> list[tuple[int, int]]:
    if count <= MAX_ALL_PAIRS:
        return list(combinations(range(count), 2))
    return [*((at, at + 1) for at in range(count - 1)), (0, count - 1)]


def _numbers(subject: Subject) -> Iterator[tuple[int, int, Channel]]:
    for at, model_input in enumerate(subject.manifest.inputs):
        for place, channel in enumerate(model_input.channels):
            if channel.form == "number":
                yield at, place, channel


def _alike(text: str) -> list[str]:
    """The units of the same dimension, size and zero under another name."""
    unit = resolve(text)
    return [one.code for one in table() if one[1:] == unit[1:] and one.code != unit.code]


def _with_channel(subject: Subject, at: int, place: int, update: Mapping[str, Any]) -> Way:
    model_input = subject.manifest.inputs[at]
    channel = model_input.channels[place].model_copy(update=dict(update))
    return subject.with_input(
        at, model_input.model_copy(update={"channels": put(model_input.channels, place, channel)})
    )


def _with_step(subject: Subject, at: int, number: int, update: Mapping[str, Any], name: str) -> Made:
    every = subject.manifest.inputs[at].steps
    try:
        changed = type(every[number]).model_validate(every[number].model_dump() | dict(update))
    except ValidationError:
        return
    yield from _with_steps(subject, at, put(every, number, changed), name)


def _with_steps(subject: Subject, at: int, changed: Sequence[Any], name: str) -> Made:
    """The input with other steps, if those can be planned at all: a shape that fits nowhere is refused at boot."""
    model_input: Input = subject.manifest.inputs[at].model_copy(update={"steps": tuple(changed)})
    way = subject.with_input(at, model_input)
    try:
        make_preprocess(way.model.manifest)
    except ValueError:
        return
    yield f"{model_input.tensor}, {name}", lambda: way


def _rolled(values: Sequence[Any], off: int) -> tuple[Any, ...]:
    return (*values[-off:], *values[:-off])


def _columns(columns: Any, rows: Floats) -> Floats:
    return rows[:, :, columns]


def _samples(samples: Any, rows: Floats) -> Floats:
    return rows[:, samples]


def _moved(column: int, count: int, off: int, rows: Floats) -> Floats:
    moved = rows.copy()
    moved[:, :, column] = (moved[:, :, column] + off) % count
    return moved
