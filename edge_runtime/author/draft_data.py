"""The data an author points `init` at (CSV, NPZ, Parquet) as channels over time; it converts no unit and fills no gap."""

import csv
import importlib
import io
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import Arrays, read_npz
from edge_runtime.errors import ConfigurationError, DeviceError

_TIME = re.compile(r"(?:^|[^a-z])(?:time|timestamp|date|datetime)(?:$|[^a-z])", re.IGNORECASE)
_ROLES = {"train": r"train", "validation": r"val(?:id)?", "test": r"test"}
# What people call a target where there is a single split, whose name then stands nowhere.
TARGET = re.compile(r"(?:^|[^a-z])(?:y|targets?|labels?|class|classes)(?:$|[^a-z])", re.IGNORECASE)
# Seconds since 1970 have 10 digits; more of them are thousandths, millionths, or billionths.
_EPOCHS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_WINDOWED = 3  # axes of an array of windows


class Part(NamedTuple):
    """One split by its role in the contract and its arrays' names."""

    role: str
    values: str
    target: str | None


class Target(NamedTuple):
    """What may have been predicted, by the name of its column or array: its distinct values, sorted, all ints or all texts."""

    name: str
    values: tuple[int, ...] | tuple[str, ...]


class Table(NamedTuple):
    """The training values: ``raw`` is float64 ``(windows, time, channels)``; a series is one window as long as it is.

    ``file`` is the name for the contract, None where a build cannot read the format; ``axes`` and ``parts`` are the
    contract's; ``period_s`` the median step, where the data has times; ``left_out`` columns that are no numbers;
    ``targets`` those targets that may be classes.
    """

    names: tuple[str, ...]
    raw: NDArray[np.float64]
    cases: int
    is_series: bool
    axes: tuple[str, ...]
    parts: tuple[Part, ...]
    file: str | None
    source: str
    period_s: float | None = None
    left_out: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()

    @property
    def layout(self) -> tuple[int, ...]:
        """The sizes of one case, by ``axes``."""
        sizes = {"time": self.raw.shape[1], "channel": self.raw.shape[2]}
        return tuple(sizes[axis] for axis in self.axes[1:])


def read_table(data: bytes, path: Path, *, file: str) -> Table:
    """Read the data; ``file`` is its path as the contract will write it. The ending says the format.

    Raises:
        ConfigurationError: another ending, or nothing in it that could be channels.
        DeviceError: Parquet, and no pyarrow.

    """
    match path.suffix.lower():
        case ".npz":
            return _of_arrays(read_npz(data, path), path, file)
        case ".csv" | ".tsv" | ".txt":
            return _of_columns(_csv_columns(data, path), path)
        case ".parquet" | ".pq":
            return _of_columns(_parquet_columns(data, path), path)
        case _:
            raise _refused(path, f"the ending {path.suffix!r}", "give .csv, .npz or .parquet")


def _csv_columns(data: bytes, path: Path) -> dict[str, Sequence[object]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, f"no UTF-8 ({error.reason} at byte {error.start})", "save it as UTF-8") from error
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(map(str.strip, row))]
    except csv.Error as error:
        raise _refused(path, f"no CSV ({error})", "write it again") from error
    if not rows:
        raise _refused(path, "no rows", "give the training data")
    if delimiter == ";":  # the comma is then a decimal point
        rows = [[re.sub(r"^(\s*-?\d+),(\d+\s*)$", r"\1.\2", cell) for cell in row] for row in rows]
    headed = any(_number(cell) is None and cell.strip() for cell in rows[0]) and len(rows) > 1
    width = len(rows[0])
    head = [cell.strip() or f"column {at + 1}" for at, cell in enumerate(rows[0])] if headed else []
    names = _distinct(head or [f"channel_{at}" for at in range(width)])
    body = rows[1:] if headed else rows
    for at, row in enumerate(body, 2 if headed else 1):
        if len(row) != width:
            raise _refused(path, f"{len(row)} cells in row {at}, {width} in the first", "write every row alike")
    return {name: [row[at] for row in body] for at, name in enumerate(names)}


def _distinct(names: list[str]) -> list[str]:
    return [name if names.index(name) == at else f"{name} {at + 1}" for at, name in enumerate(names)]


def _parquet_columns(data: bytes, path: Path) -> dict[str, Sequence[object]]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DeviceError(
            subject=str(path), found="no pyarrow to read Parquet with", expected="CSV, NPZ, or pyarrow",
            todo="pip install pyarrow, or write the data as .npz or .csv",
        ) from error  # fmt: skip
    try:
        table = parquet.read_table(io.BytesIO(data))
        return {str(name): table.column(at).to_pylist() for at, name in enumerate(table.column_names)}
    except Exception as error:
        raise _refused(path, f"no readable Parquet ({str(error)[:80]})", "write it again") from error


def _of_columns(columns: dict[str, Sequence[object]], path: Path) -> Table:
    names, values, left_out = [], [], []
    period = None
    for name, cells in columns.items():
        times = _times(name, cells)
        if times is not None and period is None:
            period = _period(times)
            continue
        numbers = [_number(cell) for cell in cells]
        if sum(number is not None for number in numbers) * 2 < len(numbers) or not numbers:
            left_out.append(name)
            continue
        names.append(name)
        values.append([np.nan if number is None else number for number in numbers])
    if not values:
        raise _refused(path, "no column of numbers", "give one column a channel")
    raw = np.array(values, np.float64).T[np.newaxis]
    parts = (Part("train", "train", None),)
    axes = ("case", "channel")
    return Table(
        tuple(names), raw, raw.shape[1], True, axes, parts, None, path.name, period, tuple(left_out),  # noqa: FBT003 - a field
        targets=tuple(_text_target(name, columns[name]) for name in left_out),
    )  # fmt: skip


def _of_arrays(arrays: Arrays, path: Path, file: str) -> Table:
    plain = {name: _plain(values) for name, values in arrays.items()}
    valued = {name: values for name, values in plain.items() if values.ndim in (2, 3) and values.dtype.kind in "fiu"}
    if not valued:
        raise _refused(path, f"arrays {', '.join(arrays) or 'none'}", "save one of shape (cases, channels), or windows")
    train = next((name for name in valued if _is(name, "train")), max(valued, key=lambda name: valued[name].size))
    values = valued[train]
    windowed = values.ndim == _WINDOWED
    # Nothing in an array says which axis is which; channels are mostly fewer than samples. The draft shows the choice.
    channel_axis = 2 if windowed and values.shape[2] < values.shape[1] else 1
    channels = values.shape[channel_axis]
    series = np.moveaxis(values, channel_axis, -1) if windowed else values[np.newaxis]
    axes = ("case", "channel") if not windowed else _windowed_axes(channel_axis)
    period = next(
        (_period(t) for name, a in plain.items() if (t := _time_array(name, a, len(values))) is not None), None
    )
    parts = tuple(_parts(plain, train))
    return Table(
        names=_names(arrays, train, channels),
        raw=series.astype(np.float64),
        cases=len(values),
        is_series=not windowed,
        axes=axes,
        parts=parts,
        file=file,
        source=f"{path.name}, array {train!r}",
        period_s=period,
        targets=_targets(plain, parts),
    )


def _targets(arrays: Arrays, parts: Sequence[Part]) -> tuple[Target, ...]:
    """The values of every split's target together, where they are whole numbers or texts."""
    named = [(part.target, arrays[part.target]) for part in parts if part.target is not None]
    if not named or len({values.dtype.kind for _, values in named}) > 1 or named[0][1].dtype.kind not in "iuU":
        return ()
    return (Target(named[0][0], tuple(np.unique(np.concatenate([values.ravel() for _, values in named])).tolist())),)


def _text_target(name: str, cells: Sequence[object]) -> Target:
    return Target(name, tuple(sorted({str(cell).strip() for cell in cells})))


def _windowed_axes(channel_axis: int) -> tuple[str, ...]:
    return ("case", "channel", "time") if channel_axis == 1 else ("case", "time", "channel")


def _parts(arrays: Arrays, train: str) -> list[Part]:
    inner = arrays[train].shape[1:]
    found = [Part("train", train, _target(arrays, train, "train"))]
    for role in ("validation", "test"):
        name = next(
            (n for n, a in arrays.items() if _is(n, role) and a.shape[1:] == inner and a.ndim > 1 and n != train), None
        )
        if name is not None:
            found.append(Part(role, name, _target(arrays, name, role)))
    return found


def _target(arrays: Arrays, values: str, role: str) -> str | None:
    """The one array of a number or text a case with the split's word in its name; none where there are several.

    Where the values' own name has no such word, as in ``X`` and ``y``, one that is called a target.
    """
    split = _is(values, role)
    fitting = [
        name
        for name, array in arrays.items()
        if name != values and array.shape in ((len(arrays[values]),), (len(arrays[values]), 1))
        and array.dtype.kind in "fiuU" and (_is(name, role) if split else bool(TARGET.search(name))) and not _TIME.search(name)
    ]  # fmt: skip
    return fitting[0] if len(fitting) == 1 else None


def _is(name: str, role: str) -> bool:
    return re.search(rf"(?:^|[^a-z]){_ROLES[role]}", name.lower()) is not None


def _names(arrays: Arrays, train: str, channels: int) -> tuple[str, ...]:
    """From the fields of a structured array, or an array of texts as long as there are channels."""
    fields = arrays[train].dtype.names
    if fields:
        return tuple(fields)
    texts = next((a for a in arrays.values() if a.dtype.kind in "US" and a.shape == (channels,)), None)
    if texts is None:
        return tuple(f"channel_{at}" for at in range(channels))
    return tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in texts.tolist())


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """A structured array as (cases, fields)."""
    fields = values.dtype.names
    if not fields or values.ndim != 1:
        return values
    return np.stack([values[name].astype(np.float64) for name in fields], axis=1)


def _time_array(name: str, values: NDArray[Any], cases: int) -> NDArray[np.float64] | None:
    if values.shape != (cases,):
        return None
    if values.dtype.kind == "M":
        return values.astype("datetime64[ns]").astype(np.int64).astype(np.float64) / 1e9
    return _seconds(values.astype(np.float64)) if values.dtype.kind in "fiu" and _TIME.search(name) else None


def _times(name: str, cells: Sequence[object]) -> NDArray[np.float64] | None:
    """A column's times in seconds: date-times, their ISO texts, or numbers under a heading that says so."""
    if not cells:
        return None
    if _TIME.search(name) and all(_number(cell) is not None for cell in cells):
        return _seconds(np.array([_number(cell) for cell in cells], np.float64))
    try:
        moments = [cell if isinstance(cell, datetime) else datetime.fromisoformat(str(cell).strip()) for cell in cells]
        return np.array([moment.timestamp() for moment in moments])
    except (ValueError, OverflowError, OSError):
        return None


def _seconds(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = float(np.abs(numbers).max(initial=0))
    return numbers / next((divisor for above, divisor in _EPOCHS if largest > above), 1.0)


def _period(seconds: NDArray[np.float64]) -> float | None:
    steps = np.diff(seconds)
    steps = steps[steps > 0]
    return float(np.round(np.median(steps), 9)) if steps.size else None


def _number(cell: object) -> float | None:
    """A cell's number; None for a text or nothing. A cell of NaN is no number either."""
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _refused(path: Path, found: str, todo: str) -> ConfigurationError:
    return ConfigurationError(
        subject=str(path), found=found, expected="the training data: CSV, NPZ or Parquet, a column or place a channel",
        todo=todo,
    )  # fmt: skip
