"""Chooses a bundle's stored cases, typical and cornered, and the faults that must be refused; it runs no model."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.spec.inputs import Channel, Window
from edge_runtime.spec.manifest import Manifest, NegativeGolden
from edge_runtime.spec.outputs import Output

# How far a corner's every other sample steps inside the range: far enough not to be a stuck sensor.
_STEP_INSIDE = 1e-3
_NEAR_A_THRESHOLD = 4
# Words of one category that get a case each; a longer list is a vocabulary, and every word of it no corner.
_MAX_WORDS = 32
# However many corners there are, so many cases are the author's own.
MIN_TYPICAL = 8
_INTEGERS = ("int8", "uint8")


class Cases(NamedTuple):
    """Chosen cases in contract units, float64 ``(cases, samples, row)``; ``origin`` is a reference case or -1."""

    raw: NDArray[np.float64]
    origin: tuple[int, ...]


def choose_cases(
    manifest: Manifest,
    reference: NDArray[np.float64],
    answers: Mapping[str, NDArray[Any]],
    count: int,
    corner_cases: NDArray[np.float64],
) -> Cases:
    """``count`` cases or more: the given corners, the rest from the author's reference.

    ``answers`` are the reference cases' answers by output: the extreme ones come first, then those nearest to each
    threshold, then an even spread; of labels, over all of them.
    """
    picked = _spread(manifest.outputs, answers, min(max(count - len(corner_cases), MIN_TYPICAL), len(reference)))
    return Cases(np.concatenate([reference[picked], corner_cases]), (*picked, *(-1 for _ in corner_cases)))


def corners(
    channels: Sequence[Channel], length: int, extents: Mapping[str, tuple[float, float]] | None = None
) -> NDArray[np.float64]:
    """Cases at the ends of what each channel may hold, ``(corners, length, row)``.

    All at their lowest, all at their highest, and by the bits of a channel's number a mix and its opposite, so that
    any two channels meet at opposite ends. Every other sample steps a little inside. The ends are the tolerated band;
    of a category its first and last word; of opaque numbers what 8 bits hold, or else the ``extents`` of training.
    """
    numbers = np.arange(len(channels))
    bits = [(numbers >> bit) & 1 for bit in range((len(channels) - 1).bit_length())]
    patterns = [np.zeros_like(numbers), np.ones_like(numbers)]
    patterns += [pattern for mixed in bits for pattern in (mixed, 1 - mixed)]
    ends_of = [_ends(channel, (extents or {}).get(channel.name, (0.0, 0.0))) for channel in channels]
    low, high = np.array([low for low, _ in ends_of]), np.array([high for _, high in ends_of])
    moves = np.array([channel.form == "number" for channel in channels])
    at_end = np.array([np.where(pattern == 1, high, low) for pattern in patterns])
    inward = np.array([np.where(pattern == 1, -1.0, 1.0) for pattern in patterns]) * (high - low) * _STEP_INSIDE * moves
    odd = (np.arange(length) % 2)[np.newaxis, :, np.newaxis]
    ends: NDArray[np.float64] = at_end[:, np.newaxis, :] + odd * inward[:, np.newaxis, :]
    return np.repeat(ends, [channel.width for channel in channels], axis=2)


def special_cases(manifest: Manifest, reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """One case for each word of a category and for each policy on a missing number, made from the reference's own."""
    found: list[NDArray[np.float64]] = []
    column = 0
    for channel in manifest.channels:
        base = reference[len(found) % len(reference)]
        if channel.form == "category":
            for place in range(min(len(channel.categories), _MAX_WORDS)):
                found.append(base.copy())
                found[-1][-1, column] = place
        if channel.when_missing != "refuse" and _can_be_missing(manifest, channel, base[:, column]):
            found.append(base.copy())
            found[-1][-1, column] = np.nan
        column += channel.width
    return np.array(found).reshape(len(found), *reference.shape[1:])


def negative_goldens(channels: Sequence[Channel], window: Window | None) -> tuple[NegativeGolden, ...]:
    """One of each fault that applies to each form, the channels taking turns; on case 0, which is in contract units.

    Time can go back only between the samples of a window, and there is a gap only where the contract states a period.
    """
    found = list(_faults_of_forms(channels))
    refusing = next((one.name for one in channels if one.form == "number" and one.when_undeclared == "refuse"), None)
    if refusing:
        found.append(
            NegativeGolden(name="undeclared", case=0, channel=refusing, fault="undeclared", expect="undeclared_unit")
        )
    if window is not None and window.length > 1:
        if window.period_s is not None:
            found.append(NegativeGolden(name="gap", case=0, fault="gap", expect="gap"))
        found.append(NegativeGolden(name="back", case=0, fault="back", expect="time_back"))
    return tuple(found)


_FAULTS = {
    "number": (
        ("not_a_number", "not_finite"),
        ("infinite", "not_finite"),
        ("missing", "missing"),
        ("dimension", "wrong_dimension"),
        ("unknown_unit", "unknown_unit"),
        ("beyond", "beyond_physical"),
    ),
    "category": (("missing", "missing"), ("infinite", "unknown_category")),
    "opaque": (("not_a_number", "not_finite"), ("infinite", "not_finite"), ("missing", "missing")),
}


def _faults_of_forms(channels: Sequence[Channel]) -> Iterator[NegativeGolden]:
    for form, faults in _FAULTS.items():
        for turn, (fault, reason) in enumerate(faults):
            able = [channel for channel in channels if channel.form == form and _is_refused(channel, fault)]
            if able:
                name = able[turn % len(able)].name
                yield NegativeGolden.model_validate(
                    {"name": f"{fault}_{name}"[:64], "case": 0, "channel": name, "fault": fault, "expect": reason}
                )


def _is_refused(channel: Channel, fault: str) -> bool:
    if fault == "missing":
        return channel.when_missing == "refuse"
    return channel.form != "category" or channel.unknown is None


def _ends(channel: Channel, extent: tuple[float, float]) -> tuple[float, float]:
    if channel.form == "number":
        _, tolerated, _ = channel.bands
        return tolerated.min, tolerated.max
    if channel.form == "category":
        return 0.0, float(len(channel.categories) - 1)
    if channel.dtype in _INTEGERS:
        held = np.iinfo(channel.dtype)
        return float(held.min), float(held.max)
    return extent


def _can_be_missing(manifest: Manifest, channel: Channel, column: NDArray[np.float64]) -> bool:
    """Whether its last number may be missing: what is held must have come before, and not too long ago."""
    if channel.when_missing != "hold":
        return True
    period_s = manifest.window.period_s if manifest.window and manifest.window.period_s else 1.0
    return len(column) > 1 and bool(np.isfinite(column[-2])) and (channel.hold_s or 0.0) >= period_s


def _spread(outputs: Sequence[Output], answers: Mapping[str, NDArray[Any]], count: int) -> list[int]:
    orders = [_order(output, answers[output.name]) for output in outputs]
    wanted = [at for by_size in orders for at in (by_size[0], by_size[-1])]
    for output in outputs:
        for flag in output.flags:
            for level in (flag.on, flag.off):
                off = np.abs(answers[output.name] - level)
                wanted += [int(at) for at in np.argsort(off, kind="stable")[:_NEAR_A_THRESHOLD]]
    for parts in range(2, len(orders[0]) + 1):
        wanted += [by_size[int(at)] for by_size in orders for at in np.linspace(0, len(by_size) - 1, parts).round()]
        if len(set(wanted)) >= count:
            break
    return sorted(list(dict.fromkeys(wanted))[:count])


def _order(output: Output, answers: NDArray[Any]) -> list[int]:
    """The cases by the size of their answer: a number's own, a vector's mean, the place of a label."""
    if output.form == "label":
        sizes = np.array([output.labels.index(str(label)) for label in answers], float)
    else:
        sizes = answers if answers.ndim == 1 else answers.mean(axis=1)
    return [int(at) for at in np.argsort(sizes, kind="stable")]
