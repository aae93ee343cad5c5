"""Chooses a bundle's stored cases and gives each its own units; their answers come from the session handed in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError, InternalError
from edge_runtime.flow.postprocess import Postprocess, Unusable
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.spec.inputs import Channel, Window
from edge_runtime.spec.manifest import Manifest, NegativeGolden
from edge_runtime.spec.outputs import Threshold
from edge_runtime.spec.units import conversion, resolve, siblings

Infer = Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]

# How far a corner's every other sample steps inside the range: far enough not to be a stuck sensor.
_STEP_INSIDE = 1e-3
# A value converted to its case's unit and back, as a share of the channel's physical range.
_ROUND_TRIP = 1e-12
_NEAR_A_THRESHOLD = 4
_SIBLINGS = 3


class Cases(NamedTuple):
    """Chosen cases in contract units, float64 ``(cases, time, channels)``; ``origin`` is a reference case or -1."""

    raw: NDArray[np.float64]
    origin: tuple[int, ...]


def choose_cases(manifest: Manifest, reference: NDArray[np.float64], answers: NDArray[np.float64], count: int) -> Cases:
    """``count`` cases: the corners of the tolerated range, the rest from the author's reference.

    ``answers`` are the reference cases' answers in the output's unit: the extreme ones come first, then those nearest
    to each threshold, then an even spread.
    """
    channels = manifest.channels
    ends = corners(channels, reference.shape[1])
    flags = [flag for output in manifest.outputs for flag in output.flags]
    picked = _spread(answers, flags, min(count - len(ends), len(answers)))
    return Cases(np.concatenate([reference[picked], ends]), (*picked, *(-1 for _ in ends)))


def corners(channels: Sequence[Channel], length: int) -> NDArray[np.float64]:
    """Cases at the ends of the tolerated bands, ``(corners, length, channels)``.

    All at their lowest, all at their highest, and by the bits of a channel's number a mix and its opposite, so that
    any two channels meet at opposite ends. Every other sample steps a little inside.
    """
    numbers = np.arange(len(channels))
    bits = [(numbers >> bit) & 1 for bit in range((len(channels) - 1).bit_length())]
    patterns = [np.zeros_like(numbers), np.ones_like(numbers)]
    patterns += [pattern for mixed in bits for pattern in (mixed, 1 - mixed)]
    low = np.array([channel.bands[1].min for channel in channels])
    high = np.array([channel.bands[1].max for channel in channels])
    at_end = np.array([np.where(pattern == 1, high, low) for pattern in patterns])
    inward = np.array([np.where(pattern == 1, -1.0, 1.0) for pattern in patterns]) * (high - low) * _STEP_INSIDE
    odd = (np.arange(length) % 2)[np.newaxis, :, np.newaxis]
    ends: NDArray[np.float64] = at_end[:, np.newaxis, :] + odd * inward[:, np.newaxis, :]
    return ends


def make_goldens(
    manifest: Manifest, cases: Cases, infer: Infer, references: NDArray[Any], units: Mapping[str, Sequence[str]]
) -> Goldens:
    """Run the cases through all three stages.

    Case k has channel c in the k-th of that channel's ``units`` (by name; without: the contract's and its nearest
    siblings), and what the model is given comes from those values converted back, as it will on a device.
    ``references`` are the framework's outputs of the author's reference cases, by ``cases.origin``.
    """
    channels = manifest.channels
    choices = [tuple(units.get(channel.name, ())) or default_units(channel) for channel in channels]
    case_units = tuple(tuple(choice[case % len(choice)] for choice in choices) for case in range(len(cases.raw)))
    raw, back, case_units = _in_own_units(channels, cases.raw, case_units)
    tensor = first_input(manifest)(back)
    outputs = infer({manifest.inputs[0].tensor: tensor})
    answers, flags = answer_rows(manifest, outputs)
    name = manifest.outputs[0].tensor
    known = np.array(cases.origin) >= 0
    reference = np.full((len(known), *references.shape[1:]), np.nan, references.dtype)
    reference[known] = references[[at for at in cases.origin if at >= 0]]
    return Goldens(
        channels=tuple(channel.name for channel in channels),
        raw=raw,
        units=case_units,
        tensors={manifest.inputs[0].tensor: tensor},
        outputs=outputs,
        references={name: reference.reshape(outputs[name].shape)},
        answers=answers,
        answer_units={output.name: output.unit for output in manifest.outputs},
        flags=flags,
    )


def answer_rows(
    manifest: Manifest, outputs: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.bool_]]]:
    """Each row's answers by output and flags by ``output.flag``, every row with fresh hysteresis."""
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
        output.name: np.array([values[at].value for values, _ in rows], np.float64)
        for at, output in enumerate(manifest.outputs)
    }
    flags = {name: np.array([after[at] for _, after in rows], np.bool_) for at, name in enumerate(post.flag_names)}
    return answers, flags


def first_input(manifest: Manifest) -> Callable[[NDArray[np.float64]], NDArray[Any]]:
    """From windows in contract units to the tensor of the model's first input."""
    preprocess, name = make_preprocess(manifest), manifest.inputs[0].tensor
    return lambda windows: preprocess(windows)[name]


def default_units(channel: Channel) -> tuple[str, ...]:
    """The contract's unit and the units one could take for it, the most common ones."""
    return (channel.unit, *(unit.code for unit in siblings(resolve(channel.unit))[:_SIBLINGS]))


def negative_goldens(channels: Sequence[Channel], window: Window | None) -> tuple[NegativeGolden, ...]:
    """One of each fault that applies, the channels taking turns; each on case 0, which is in contract units.

    Time can go back only between samples, and there is a gap only where the contract states a period.
    """
    refusing = next((channel.name for channel in channels if channel.when_undeclared == "refuse"), None)
    turn = [channels[at % len(channels)].name for at in range(len(_FAULTS))]
    found = [
        NegativeGolden(name=f"{fault}_{name}"[:64], case=0, channel=name, fault=fault, expect=reason)
        for (fault, reason), name in zip(_FAULTS, turn, strict=True)
    ]
    if refusing:
        found.append(
            NegativeGolden(name="undeclared", case=0, channel=refusing, fault="undeclared", expect="undeclared_unit")
        )
    if window is not None and window.length > 1:
        if window.period_s is not None:
            found.append(NegativeGolden(name="gap", case=0, fault="gap", expect="gap"))
        found.append(NegativeGolden(name="back", case=0, fault="back", expect="time_back"))
    return tuple(found)


_FAULTS = (
    ("not_a_number", "not_finite"),
    ("infinite", "not_finite"),
    ("missing", "missing"),
    ("dimension", "wrong_dimension"),
    ("unknown_unit", "unknown_unit"),
    ("beyond", "beyond_physical"),
)


def _spread(answers: NDArray[np.float64], flags: Sequence[Threshold], count: int) -> list[int]:
    by_size = [int(at) for at in np.argsort(answers, kind="stable")]
    wanted = [by_size[0], by_size[-1]]
    for flag in flags:
        for level in (flag.on, flag.off):
            wanted += [int(at) for at in np.argsort(np.abs(answers - level), kind="stable")[:_NEAR_A_THRESHOLD]]
    for parts in range(2, len(by_size) + 1):
        wanted += [by_size[int(at)] for at in np.linspace(0, len(by_size) - 1, parts).round()]
        if len(set(wanted)) >= count:
            break
    return sorted(list(dict.fromkeys(wanted))[:count])


def _in_own_units(
    channels: Sequence[Channel], values: NDArray[np.float64], units: tuple[tuple[str, ...], ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[tuple[str, ...], ...]]:
    """The values in each case's units, what they convert back to, and the units.

    A corner on the very edge of the physical band may come back from its unit a rounding outside it, and would be
    refused: such a one stays in the contract's unit.
    """
    raw, back = values.copy(), values.copy()
    kept = [list(row) for row in units]
    for case, row in enumerate(kept):
        for at, (channel, code) in enumerate(zip(channels, row, strict=True)):
            want, have = resolve(channel.unit), resolve(code)
            to, fro = conversion(want, have, channel.kind), conversion(have, want, channel.kind)
            there = to.a * values[case, :, at] + to.b
            returned = fro.a * there + fro.b
            _, _, physical = channel.bands
            scale = max(abs(physical.min), abs(physical.max))
            if np.abs(returned - values[case, :, at]).max() > _ROUND_TRIP * scale:
                raise InternalError(
                    subject=f"golden {case}, {channel.name}", found=f"{code} and back off by more than {_ROUND_TRIP:g}",
                    expected=f"the same value in {channel.unit}", todo="report it to the project",
                )  # fmt: skip
            if physical.min <= returned.min() and returned.max() <= physical.max:
                raw[case, :, at], back[case, :, at] = there, returned
            else:
                row[at] = channel.unit
    return raw, back, tuple(tuple(row) for row in kept)
