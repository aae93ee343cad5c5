"""The author's arrays, brought to (cases, time, channels) in float64; it changes no value and fits nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.contract import Contract, Split
from edge_runtime.errors import ConfigurationError

Arrays = Mapping[str, NDArray[Any]]


class Part(NamedTuple):
    """One split: ``raw`` is float64 ``(cases, time, channels)`` in contract units, ``target`` float64 ``(cases,)``."""

    raw: NDArray[np.float64]
    target: NDArray[np.float64] | None


class Asked(NamedTuple):
    """What the framework was asked and answered: ``raw`` as in Part, ``tensor`` and ``output`` as it recorded them."""

    raw: NDArray[np.float64]
    tensor: NDArray[Any]
    output: NDArray[Any]


def read_npz(data: bytes, path: Path) -> Arrays:
    """Read a .npz of plain arrays; pickled objects are refused.

    Raises:
        ConfigurationError: it is no such file.

    """
    import io  # noqa: PLC0415 - beside its one use
    import zipfile  # noqa: PLC0415 - for its error alone

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigurationError(
            subject=str(path), found=f"no readable .npz ({error})", expected="plain arrays, as numpy.savez writes them",
            todo="write the file again",
        ) from error  # fmt: skip


def take_part(arrays: Arrays, split: Split, contract: Contract, subject: str) -> Part:
    """The raw values and targets of one split.

    Raises:
        ConfigurationError: an array is missing, has the wrong shape, or holds NaN or infinity.

    """
    raw = _raw(_named(arrays, split.values, subject), contract, f"{subject}, {split.values}")
    if split.target is None:
        return Part(raw, None)
    target = _named(arrays, split.target, subject).astype(np.float64)
    if target.size != len(raw):
        raise ConfigurationError(
            subject=f"{subject}, {split.target}", found=f"shape {target.shape}", expected=f"{len(raw)} values",
            todo="write one target a case",
        )  # fmt: skip
    _require_finite(target, f"{subject}, {split.target}")
    return Part(raw, target.reshape(len(raw)))


def take_reference(arrays: Arrays, contract: Contract, subject: str) -> Asked:
    """The framework's own cases.

    Raises:
        ConfigurationError: as `take_part`; or the arrays differ in their number of cases.

    """
    named = contract.reference
    raw = _raw(_named(arrays, named.raw, subject), contract, f"{subject}, {named.raw}")
    tensor, output = _named(arrays, named.tensor, subject), _named(arrays, named.output, subject)
    for name, values in ((named.tensor, tensor), (named.output, output)):
        if len(values) != len(raw):
            raise ConfigurationError(
                subject=f"{subject}, {name}", found=f"{len(values)} cases", expected=f"{len(raw)}, as {named.raw} has",
                todo="write the same cases to each array",
            )  # fmt: skip
        _require_finite(values, f"{subject}, {name}")
    return Asked(raw, tensor, output)


def longest_runs(raw: NDArray[np.float64]) -> tuple[int, ...]:
    """By channel the longest run of equal values in time.

    ``raw`` is ``(windows, time, channels)``. Where a window is the one before it moved on by one sample, both are one
    series, so that a run longer than a window is seen whole.
    """
    moved_on = (raw[1:, :-1] == raw[:-1, 1:]).all(axis=(1, 2)) if len(raw) > 1 else np.zeros(0, bool)
    starts = [0, *(int(at) + 1 for at in np.flatnonzero(~moved_on))]
    longest = np.ones(raw.shape[2], int)
    for start, end in zip(starts, [*starts[1:], len(raw)], strict=True):
        series = np.concatenate([raw[start], raw[start + 1 : end, -1]])
        run = np.ones(raw.shape[2], int)
        for same in series[1:] == series[:-1]:
            run = np.where(same, run + 1, 1)
            longest = np.maximum(longest, run)
    return tuple(int(length) for length in longest)


def extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """The lowest and the highest value, widened to what float32 data was before it was rounded to float32.

    A reading of 35.6 was stored as 35.599998; a band that ends there would call the same reading extrapolation.
    """
    low, high = float(values.min()), float(values.max())
    return min(low, _shortest(low)), max(high, _shortest(high))


def _shortest(value: float) -> float:
    """The shortest decimal that float32 cannot tell from a float32 ``value``; any other value as it is."""
    narrow = np.float32(value)
    return float(str(narrow)) if float(narrow) == value else value


def _named(arrays: Arrays, name: str, subject: str) -> NDArray[Any]:
    if name not in arrays:
        raise ConfigurationError(
            subject=subject, found=f"no array {name!r}", todo="correct the name in the contract, or write the array",
            expected=f"one of {', '.join(sorted(arrays)) or 'none at all'}",
        )  # fmt: skip
    values = arrays[name]
    if values.dtype.kind not in "fiu" or values.ndim < 1 or not len(values):
        raise ConfigurationError(
            subject=f"{subject}, {name}", found=f"{values.dtype} of shape {values.shape}",
            expected="numbers, one case or more", todo="write plain numbers",
        )  # fmt: skip
    return values


def _raw(values: NDArray[Any], contract: Contract, subject: str) -> NDArray[np.float64]:
    axes = contract.data.axes
    sizes = {"channel": len(contract.channel), "time": contract.window.length if contract.window else 1}
    expected = tuple(sizes[axis] for axis in axes[1:])
    if values.shape[1:] != expected:
        named = ", ".join(f"{size} {axis}" for axis, size in zip(axes[1:], expected, strict=True))
        raise ConfigurationError(
            subject=subject, found=f"shape {values.shape}", expected=f"(cases, {named})",
            todo="correct data.axes, the channels or the window of the contract, or write the array so",
        )  # fmt: skip
    _require_finite(values, subject)
    wide = values.astype(np.float64)
    if "time" not in axes:
        return wide[:, np.newaxis, :]
    return np.ascontiguousarray(wide.transpose(0, axes.index("time"), axes.index("channel")))


def _require_finite(values: NDArray[Any], subject: str) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        where = ", ".join(str(int(index)) for index in bad[0])
        raise ConfigurationError(
            subject=subject, found=f"{len(bad)} NaN or infinite values, the first at [{where}]",
            expected="finite numbers", todo="leave those cases out: a model is not proven on what was not measured",
        )  # fmt: skip
