"""The author's arrays, brought to rows of float64 as a device will have them; it changes no value and fits nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.contract import ArrayNames, Contract, ContractChannel, Split
from edge_runtime.author.contract_fit import is_stacked
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.outputs import Output

Arrays = Mapping[str, NDArray[Any]]

_ZIP = b"PK"
_NPY = b"\x93NUMPY"
_TABLES = (".csv", ".tsv", ".txt")


class Part(NamedTuple):
    """One split: ``raw`` is float64 ``(cases, samples, row)`` in contract units, a category as the place of its word.

    ``targets`` hold by output what was true: float64 ``(cases,)`` or ``(cases, numbers)``, or a label's text; those in
    ``by_place`` were given as places of the labels, and know nothing of the words.
    """

    raw: NDArray[np.float64]
    targets: Arrays
    by_place: frozenset[str] = frozenset()


class Asked(NamedTuple):
    """What the framework was asked and answered: ``raw`` as in Part; ``tensors``, ``outputs`` by name, as recorded."""

    raw: NDArray[np.float64]
    tensors: Arrays
    outputs: Arrays


def read_npz(data: bytes, path: Path) -> Arrays:
    """Read a .npz of plain arrays; pickled objects are refused.

    Raises:
        ConfigurationError: it is no such file; of a table as text, how to make one of it.

    """
    import io  # noqa: PLC0415 - beside its one use
    import zipfile  # noqa: PLC0415 - for its error alone

    if path.suffix.lower() in _TABLES and not data.startswith(_ZIP):
        raise _a_table(path)
    try:
        # What is no archive numpy takes for a pickle, and advises to unpickle it.
        with np.load(io.BytesIO(data if data.startswith(_ZIP) else b""), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigurationError(
            subject=str(path), found=f"no readable .npz ({_why(data, str(error))})",
            expected="plain arrays, as numpy.savez writes them", todo="write the file again",
        ) from error  # fmt: skip


def _why(data: bytes, error: str) -> str:
    if not data.startswith(_ZIP):
        kind = "a single array, as numpy.save writes it" if data.startswith(_NPY) else "another kind of file"
        return kind if data else "an empty file"
    return "an array of Python objects" if "pickle" in error else error


def _a_table(path: Path) -> ConfigurationError:
    comma = "\\t" if path.suffix.lower() == ".tsv" else ","
    return ConfigurationError(
        subject=str(path), found="a table as text", expected=".npz: CSV is what `init` reads, a build takes arrays",
        todo=f'convert it once: t = numpy.genfromtxt("{path.name}", delimiter="{comma}", names=True, dtype=None, '
        'encoding="utf-8"); '
        f'numpy.savez("{path.stem}.npz", train=numpy.stack([t[c] for c in ("CHANNEL", "CHANNEL")], axis=1), '
        'train_y=t["TARGET"]), the channels in the order of the model, the arrays called as [data] calls them',
    )  # fmt: skip


def take_part(arrays: Arrays, split: Split, contract: Contract, subject: str) -> Part:
    """The raw values and targets of one split.

    Raises:
        ConfigurationError: an array is missing, has the wrong shape, or holds NaN or infinity where none may be.

    """
    raw = take_raw(arrays, split.values, contract, subject)
    named = {contract.output[0].name: split.target} if isinstance(split.target, str) else split.target or {}
    outputs = {output.name: output for output in contract.output}
    targets = {name: _target(arrays, at, outputs[name], len(raw), subject) for name, at in named.items()}
    labels = {name: at for name, at in named.items() if outputs[name].form == "label"}
    return Part(raw, targets, frozenset(name for name, at in labels.items() if arrays[at].dtype.kind != "U"))


def take_reference(arrays: Arrays, contract: Contract, subject: str) -> Asked:
    """The framework's own cases; a tensor or output of one only is named None, for the build to name.

    Raises:
        ConfigurationError: as `take_part`; or the arrays differ in their number of cases.

    """
    named = contract.reference
    raw = take_raw(arrays, named.raw, contract, subject)
    passes = any(channel.when_missing == "pass" for channel in contract.channels)
    found: list[Arrays] = []
    for names, only in ((named.tensor, contract.input[0].tensor), (named.output, contract.output[0].tensor)):
        table = {only or "": names} if isinstance(names, str) else names
        texts = names is named.output
        found.append({tensor: _named(arrays, name, subject, texts=texts) for tensor, name in table.items()})
        for tensor, name in table.items():
            values = found[-1][tensor]
            if len(values) != len(raw):
                raise ConfigurationError(
                    subject=f"{subject}, {name}", found=f"{len(values)} cases",
                    expected=f"{len(raw)}, as {named.raw if isinstance(named.raw, str) else 'raw'} has",
                    todo="write the same cases to each array",
                )  # fmt: skip
            if values.dtype.kind == "f":
                _require_finite(values, f"{subject}, {name}", takes_nan=passes and names is named.tensor)
    return Asked(raw, *found)


def take_raw(arrays: Arrays, named: ArrayNames, contract: Contract, subject: str) -> NDArray[np.float64]:
    """Raw values as rows, ``(cases, samples, row)``, from one stacked array or one array for each channel.

    Raises:
        ConfigurationError: as `take_part`.

    """
    if isinstance(named, str) and is_stacked(contract, named):
        return _stacked(_named(arrays, named, subject), contract, f"{subject}, {named}")
    table = {contract.channels[0].name: named} if isinstance(named, str) else named
    columns = []
    for channel in contract.channels:
        name = table[channel.name]
        values = _named(arrays, name, subject, texts=channel.form == "category")
        columns.append(_column(values, channel, contract, f"{subject}, {name}"))
        if len(columns[-1]) != len(columns[0]):
            raise ConfigurationError(
                subject=f"{subject}, {name}", found=f"{len(columns[-1])} cases", expected=f"{len(columns[0])}",
                todo="write the same cases to each array",
            )  # fmt: skip
    return np.concatenate(columns, axis=2)


def longest_runs(raw: NDArray[np.float64]) -> tuple[int, ...]:
    """By channel the longest run of equal values in time.

    ``raw`` is ``(windows, time, channels)``; a run longer than a window is seen whole, where ``series`` joins windows.
    """
    longest = np.ones(raw.shape[2], int)
    for part in series(raw):
        run = np.ones(raw.shape[2], int)
        for same in part[1:] == part[:-1]:
            run = np.where(same, run + 1, 1)
            longest = np.maximum(longest, run)
    return tuple(int(length) for length in longest)


def series(raw: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """The samples in a row, ``(samples, row)`` each, that cases of ``(cases, samples, row)`` are pieces of.

    Where a case is the one before it moved on by one sample, both are one series; cases of one sample are all one, in
    their order.
    """
    moved_on = (raw[1:, :-1] == raw[:-1, 1:]).all(axis=(1, 2)) if len(raw) > 1 else np.zeros(0, bool)
    starts = [0, *(int(at) + 1 for at in np.flatnonzero(~moved_on))]
    for start, end in zip(starts, [*starts[1:], len(raw)], strict=True):
        yield np.concatenate([raw[start], raw[start + 1 : end, -1]])


def extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """The lowest and the highest value, widened to what float32 data was before it was rounded to float32.

    A reading of 35.6 was stored as 35.599998; a band that ends there would call the same reading extrapolation.
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return min(low, _shortest(low)), max(high, _shortest(high))


def _shortest(value: float) -> float:
    """The shortest decimal that float32 cannot tell from a float32 ``value``; any other value as it is."""
    narrow = np.float32(value)
    return float(str(narrow)) if float(narrow) == value else value


def _named(arrays: Arrays, name: str, subject: str, *, texts: bool = False) -> NDArray[Any]:
    if name not in arrays:
        raise ConfigurationError(
            subject=subject, found=f"no array {name!r}", todo="correct the name in the contract, or write the array",
            expected=f"one of {', '.join(sorted(arrays)) or 'none at all'}",
        )  # fmt: skip
    values = arrays[name]
    if values.dtype.kind not in ("fiuU" if texts else "fiu") or values.ndim < 1 or not len(values):
        raise ConfigurationError(
            subject=f"{subject}, {name}", found=f"{values.dtype} of shape {values.shape}",
            expected=f"numbers{' or texts' if texts else ''}, one case or more", todo="write plain numbers",
        )  # fmt: skip
    return values


def _stacked(values: NDArray[Any], contract: Contract, subject: str) -> NDArray[np.float64]:
    """One array with an axis of channels, each of them a single number."""
    wide = next((one.name for one in contract.channels if one.shape or one.form == "category"), None)
    if wide is not None:
        raise ConfigurationError(
            subject=subject, found=f"one array for all channels, {wide} among them",
            expected="one array a channel, since not each is a single number", todo="name them in a table by channel",
        )  # fmt: skip
    axes = contract.data.axes
    sizes = {"channel": len(contract.channels), "time": contract.samples}
    expected = tuple(sizes[axis] for axis in axes[1:])
    if values.shape[1:] != expected:
        named = ", ".join(f"{size} {axis}" for axis, size in zip(axes[1:], expected, strict=True))
        raise ConfigurationError(
            subject=subject, found=f"shape {values.shape}", expected=f"(cases, {named})",
            todo="correct data.axes, the channels or the window of the contract, or write the array so",
        )  # fmt: skip
    whole = all(channel.when_missing == "refuse" for channel in contract.channels)
    if whole:
        _require_finite(values, subject)
    wide_values = values.astype(np.float64)
    if "time" not in axes:
        rows = wide_values[:, np.newaxis, :]
    else:
        rows = np.ascontiguousarray(wide_values.transpose(0, axes.index("time"), axes.index("channel")))
    for at, channel in enumerate(contract.channels):
        _require_allowed(rows[:, :, at], channel, f"{subject}, channel {channel.name}")
    return rows


def _column(values: NDArray[Any], channel: ContractChannel, contract: Contract, subject: str) -> NDArray[np.float64]:
    """One channel's own array as its places of the row, ``(cases, samples, width)``."""
    expected = (*((contract.samples,) if contract.has_time else ()), *channel.shape)
    if values.shape[1:] != expected:
        raise ConfigurationError(
            subject=subject, found=f"shape {values.shape}",
            expected=f"({', '.join(['cases', *map(str, expected)])}){', time first' if contract.has_time else ''}",
            todo="correct the channel's shape or the window of the contract, or write the array so",
        )  # fmt: skip
    if channel.form == "category":
        values = _places(values, channel, subject)
    rows = values.astype(np.float64).reshape(len(values), contract.samples, -1)
    _require_allowed(rows, channel, subject)
    return rows


def _places(values: NDArray[Any], channel: ContractChannel, subject: str) -> NDArray[np.float64]:
    words = {word: float(at) for at, word in enumerate(channel.categories)}
    otherwise = words.get(channel.unknown or "")
    if values.dtype.kind != "U":
        raise ConfigurationError(
            subject=subject, found=str(values.dtype), expected="texts, the channel's categories", todo="write its words"
        )
    unknown = sorted(set(values.ravel().tolist()) - set(words))
    if unknown and otherwise is None:
        raise ConfigurationError(
            subject=subject, found=repr(unknown[0])[:60], expected=f"one of {', '.join(words)}"[:200],
            todo="add it to the categories, or say which one an unknown word is taken for",
        )  # fmt: skip
    return np.array([words.get(word, otherwise) for word in values.ravel().tolist()], float).reshape(values.shape)


def _require_allowed(rows: NDArray[np.float64], channel: ContractChannel, subject: str) -> None:
    """No infinity; NaN only where a policy takes it, and none to hold before the first number; what the dtype holds."""
    if channel.when_missing == "refuse":
        _require_finite(rows, subject)
    elif channel.when_missing == "hold":
        _require_finite(rows[:, 0], f"{subject}, first sample")
    _require_finite(rows, subject, takes_nan=True)
    if channel.dtype is not None:
        known = rows[np.isfinite(rows)]
        # A float64 that a float32 rounds is still that float32's; a fraction or an overflow of an integer is neither.
        if channel.dtype in ("int8", "uint8", "int64"):
            limits = np.iinfo(channel.dtype)
            bad = (known != np.rint(known)) | (known < limits.min) | (known > limits.max)
        else:
            bad = np.abs(known) > float(np.finfo(channel.dtype).max)
        if bad.any():
            raise ConfigurationError(
                subject=subject, found=f"{known[bad][0]:g}", expected=f"numbers of {channel.dtype}",
                todo="correct the array, or the channel's dtype",
            )  # fmt: skip


def _target(arrays: Arrays, name: str, output: Output, cases: int, subject: str) -> NDArray[Any]:
    """What was true: a number, a vector, or a label by its text or its place."""
    values = _named(arrays, name, subject, texts=output.form == "label")
    good = len(values) == cases and (output.form == "vector" or values.size == cases)
    if not good:
        raise ConfigurationError(
            subject=f"{subject}, {name}", found=f"shape {values.shape}", expected=f"{cases} values",
            todo="write one target a case",
        )  # fmt: skip
    if output.form != "label":
        wide = values.astype(np.float64)
        _require_finite(wide, f"{subject}, {name}")
        return wide.reshape(cases) if output.form == "number" else wide.reshape(cases, -1)
    if values.dtype.kind == "U":
        other = sorted(set(values.ravel().tolist()) - set(output.labels))
        if other:
            raise ConfigurationError(
                subject=f"{subject}, {name}", found=repr(other[0])[:60], expected=f"one of {', '.join(output.labels)}"[:200],
                todo=f"write the labels of output {output.name} and its target in the same words",
            )  # fmt: skip
        return values.reshape(cases)
    _require_finite(values.astype(np.float64), f"{subject}, {name}")
    needed, stated = int(values.max()) + 1, len(output.labels)
    if values.min() >= 0 and needed > stated:
        raise ConfigurationError(  # of the contract, not of an array: every split says the same, and once is enough
            subject=f"output {output.name}, labels", found=f"{stated} labels, and places up to {needed - 1} in its target",
            expected=f"{needed} labels, one for each place from 0 on",
            todo="add the one that is missing, in the order of training; or write the target's places from 0 on",
        )  # fmt: skip
    if values.min() < 0 or values.max() >= len(output.labels) or (values != np.rint(values)).any():
        raise ConfigurationError(
            subject=f"{subject}, {name}", found=f"{values.min():g} to {values.max():g}",
            expected=f"0 to {len(output.labels) - 1}, places of its labels, or the labels", todo="correct the array",
        )  # fmt: skip
    return np.asarray(np.array(output.labels)[values.reshape(cases).astype(int)])


def _require_finite(values: NDArray[Any], subject: str, *, takes_nan: bool = False) -> None:
    bad = np.argwhere(np.isinf(values) if takes_nan else ~np.isfinite(values))
    if len(bad):
        where = ", ".join(str(int(index)) for index in bad[0])
        raise ConfigurationError(
            subject=subject, found=f"{len(bad)} NaN or infinite values, the first at [{where}]",
            expected="finite numbers", todo="leave those cases out: a model is not proven on what was not measured",
        )  # fmt: skip
