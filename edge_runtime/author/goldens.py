"""Gives chosen cases units of their own and takes them through the line; what they answer comes from the model handed in."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.cases import Cases
from edge_runtime.author.passes import answer_rows
from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import InternalError
from edge_runtime.flow.model import Model
from edge_runtime.run.goldens import passage
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.result import Answer
from edge_runtime.spec.units import conversion, resolve, siblings

# A value converted to its case's unit and back, as a share of the channel's physical range.
_ROUND_TRIP = 1e-12
_SIBLINGS = 3


def make_goldens(
    model: Model, cases: Cases, references: Mapping[str, NDArray[Any]], units: Mapping[str, Sequence[str]]
) -> Goldens:
    """Run the cases through all three stages, one by one, through the line that serves on a device.

    Case k has channel c in the k-th of that channel's ``units`` (by name; without: the contract's and its nearest
    siblings). ``references`` are the framework's outputs of the author's reference cases, by tensor and
    ``cases.origin``. A case with a flag that an earlier answer of its own switched on is left out: the third stage
    knows the last answer alone.

    Raises:
        BundleError: the contract refuses one of the cases.

    """
    manifest = model.manifest
    raw, case_units = _in_own_units(manifest.channels, cases.raw, units)
    bare = Goldens(
        channels=tuple(channel.name for channel in manifest.channels), raw=raw, units=case_units,
        tensors={}, outputs={}, references={}, answers={}, answer_units={}, flags={},
    )  # fmt: skip
    passed = passage(model, bare, 1)
    outputs = {name: _plain(values) for name, values in passed.outputs.items()}
    answers, flags = answer_rows(manifest, outputs)
    told = [
        row for row, answer in enumerate(passed.answers) if _flags_of(answer) == [one[row] for one in flags.values()]
    ]
    if len(told) < len(cases.origin):
        kept = Cases(cases.raw[told], tuple(cases.origin[row] for row in told))
        return make_goldens(model, kept, references, units)
    return Goldens(
        channels=bare.channels,
        raw=raw,
        units=case_units,
        tensors=passed.tensors,
        outputs=outputs,
        references={name: _of_cases(values, cases, outputs[name]) for name, values in references.items()},
        answers=answers,
        answer_units={output.name: output.unit for output in manifest.outputs},
        flags=flags,
    )


def default_units(channel: Channel) -> tuple[str, ...]:
    """The contract's unit and the units one could take for it, the most common ones; '1' where there is none."""
    if channel.form != "number":
        return ("1",)
    return (channel.unit, *(unit.code for unit in siblings(resolve(channel.unit))[:_SIBLINGS]))


def _flags_of(answer: Answer) -> list[bool]:
    return [state for output in answer.outputs for _, state in output.flags]


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Texts as a container without pickles takes them."""
    return values.astype(str) if values.dtype.kind == "O" else values


def _of_cases(references: NDArray[Any], cases: Cases, outputs: NDArray[Any]) -> NDArray[Any]:
    """The framework's answer to each case, and none (NaN, or no text) where it was not asked."""
    if references.dtype.kind == "U":
        found = np.full((len(cases.origin), *references.shape[1:]), "", references.dtype)
    else:
        floats = references.dtype if references.dtype.kind == "f" else np.dtype(np.float64)
        found = np.full((len(cases.origin), *references.shape[1:]), np.nan, floats)
    found[np.array(cases.origin) >= 0] = references[[at for at in cases.origin if at >= 0]]
    return found.reshape(outputs.shape)


def _in_own_units(
    channels: Sequence[Channel], values: NDArray[np.float64], units: Mapping[str, Sequence[str]]
) -> tuple[NDArray[np.float64], tuple[tuple[str, ...], ...]]:
    """The values in each case's units, and the units.

    A corner on the very edge of the physical band may come back from its unit a rounding outside it, and would be
    refused: such a one stays in the contract's unit.
    """
    choices = [tuple(units.get(channel.name, ())) or default_units(channel) for channel in channels]
    kept = [[choice[case % len(choice)] for choice in choices] for case in range(len(values))]
    raw = values.copy()
    for case, row in enumerate(kept):
        column = 0
        for at, (channel, code) in enumerate(zip(channels, row, strict=True)):
            place = (case, slice(None), slice(column, column + channel.width))
            column += channel.width
            if channel.form != "number":
                continue
            there = _converted(channel, values[place], code, f"golden {case}, {channel.name}")
            if there is None:
                row[at] = channel.unit
            else:
                raw[place] = there
    return raw, tuple(tuple(row) for row in kept)


def _converted(channel: Channel, values: NDArray[np.float64], code: str, subject: str) -> NDArray[np.float64] | None:
    """Values in another unit; None where they come back from it outside the physical band."""
    want, have = resolve(channel.unit), resolve(code)
    to, fro = conversion(want, have, channel.kind), conversion(have, want, channel.kind)
    there = np.asarray(to.a * values + to.b)
    returned = fro.a * there + fro.b
    known = ~np.isnan(values)
    _, _, physical = channel.bands
    scale = max(abs(physical.min), abs(physical.max), float(np.abs(values[known]).max(initial=0.0)))
    if (np.abs(returned - values)[known] > _ROUND_TRIP * scale).any():
        raise InternalError(
            subject=subject, found=f"{code} and back off by more than {_ROUND_TRIP:g}",
            expected=f"the same value in {channel.unit}", todo="report it to the project",
        )  # fmt: skip
    back = returned[known]
    if back.size and not (physical.min <= back.min() and back.max() <= physical.max):
        return None
    return there
