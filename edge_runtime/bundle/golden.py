"""The stored cases of one variant and their container; it compares nothing and runs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.arrays import read_arrays, write_arrays
from edge_runtime.errors import BundleError

MAX_GOLDEN_BYTES = 64 * 1024 * 1024
_GROUPS = ("tensors", "outputs", "references", "answers", "flags")


@dataclass(frozen=True, slots=True)
class Goldens:
    """N cases in three stages: raw values with their own units -> tensor -> model output -> answer.

    ``raw`` is float64 ``(cases, samples, numbers)``, in ``units[case][channel]``; ``channels`` names what stands in a
    row, an array channel taking as many numbers as it has, so that a case is bound by name and never by position.
    ``tensors``, ``outputs`` and ``references`` are by tensor name, ``(cases, ...)``; ``references`` holds the source
    framework's own outputs, NaN where it was not asked. ``answers`` is by output name float64 ``(cases,)`` for a
    number, text ``(cases,)`` for a label, float64 ``(cases, k)`` for a vector, and ``answer_units`` its unit, so that no
    number changes its unit unseen; ``flags`` is bool ``(cases,)`` by ``output.flag``.
    """

    channels: tuple[str, ...]
    raw: NDArray[np.float64]
    units: tuple[tuple[str, ...], ...]
    tensors: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]]
    references: Mapping[str, NDArray[Any]]
    answers: Mapping[str, NDArray[Any]]
    answer_units: Mapping[str, str]
    flags: Mapping[str, NDArray[np.bool_]]

    def __len__(self) -> int:
        """The number of cases."""
        return len(self.raw)


def encode(goldens: Goldens) -> bytes:
    """The bytes of ``golden.npz``; equal goldens give equal bytes."""
    arrays: dict[str, NDArray[Any]] = {
        "channels": np.array(goldens.channels),
        "raw": goldens.raw,
        "units": np.array(goldens.units),
    }
    arrays |= {f"answer_units/{name}": np.array([unit]) for name, unit in goldens.answer_units.items()}
    for group in _GROUPS:
        arrays |= {f"{group}/{name}": values for name, values in getattr(goldens, group).items()}
    return write_arrays(arrays)


def decode(data: bytes, *, subject: str) -> Goldens:
    """Read ``golden.npz``'s bytes.

    Raises:
        BundleError: the container is not as docs/bundle_format.md says, or its parts do not fit together.

    """
    arrays = read_arrays(data, subject=subject, max_bytes=MAX_GOLDEN_BYTES)
    try:
        raw, channels, units = arrays.pop("raw"), arrays.pop("channels"), arrays.pop("units")
    except KeyError as error:
        raise _unfit(subject, f"no array {error}", "raw, channels and units") from error
    groups: dict[str, dict[str, NDArray[Any]]] = {group: {} for group in _GROUPS}
    answer_units: dict[str, str] = {}
    for key, values in arrays.items():
        group, _, name = key.partition("/")
        if group == "answer_units" and name and values.dtype.kind == "U" and values.shape == (1,):
            answer_units[name] = str(values[0])
            continue
        if group not in groups or not name:
            raise _unfit(subject, f"an array {key[:60]!r}", "only the arrays of docs/bundle_format.md")
        if values.ndim < 1 or len(values) != len(raw):
            raise _unfit(subject, f"{key[:60]!r} of shape {values.shape}", f"{len(raw)} cases first")
        groups[group][name] = values
    _require_comparable(groups, subject)
    good = (
        raw.ndim == 3  # noqa: PLR2004 - cases, samples, the numbers of a row
        and raw.dtype == np.float64
        and channels.dtype.kind == units.dtype.kind == "U"
        and channels.ndim == 1
        and len(channels) <= raw.shape[2]
        and units.shape == (len(raw), len(channels))
        and all(_is_answer(values) for values in groups["answers"].values())
        and all(values.dtype == np.bool_ and values.ndim == 1 for values in groups["flags"].values())
    )
    if not good:
        raise _unfit(subject, f"raw {raw.dtype} {raw.shape}, channels {channels.shape}, units {units.shape}", "fitting")
    return Goldens(
        channels=tuple(str(name) for name in channels),
        raw=raw,
        units=tuple(tuple(str(unit) for unit in row) for row in units),
        answer_units=answer_units,
        **groups,
    )


def _is_answer(values: NDArray[Any]) -> bool:
    """Whether it can be what an output gave: a number or a label for each case, or a vector of numbers."""
    if values.dtype.kind == "U":
        return values.ndim == 1
    return values.dtype == np.float64 and values.ndim in (1, 2)


def _require_comparable(groups: Mapping[str, Mapping[str, NDArray[Any]]], subject: str) -> None:
    """Numbers only, finite where a session takes or gives them, and a reference of its output's shape."""
    for group in ("tensors", "outputs", "references"):
        for name, values in groups[group].items():
            if values.dtype.kind == "U" and group != "tensors":
                continue  # a model may answer with a label's text
            if values.dtype.kind not in "biuf":
                raise _unfit(subject, f"{group}/{name[:60]} of type {values.dtype}", "numbers")
            # A tensor may hold NaN: a missing number that the contract passes on. A session refuses it where not.
            if group != "references" and (np.isinf(values).any() or (group == "outputs" and np.isnan(values).any())):
                raise _unfit(subject, f"a number in {group}/{name[:60]} that is not finite", "finite ones")
            twin = groups["outputs"].get(name, values) if group == "references" else values
            if values.shape != twin.shape:
                raise _unfit(subject, f"{group}/{name[:60]} of shape {values.shape}", f"{twin.shape}, as the output's")


def _unfit(subject: str, found: str, expected: str) -> BundleError:
    return BundleError(subject=subject, found=found, expected=expected, todo="have the author build the bundle again")
