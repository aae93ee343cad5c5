"""The column of a table that was true, and no channel: known by its name, or by the only words that fit; it makes none up."""

from collections.abc import Collection
from difflib import get_close_matches

import numpy as np

from edge_runtime.author.draft_data import TARGET, Table, Target
from edge_runtime.author.draft_text import channel_names
from edge_runtime.errors import ConfigurationError


def with_target(table: Table, sizes: Collection[int], outputs: Collection[str], named: str | None = None) -> Table:
    """The table with its one column that is called a target taken for that, where it was a channel or left out.

    ``sizes`` are those that the model's input may have; ``outputs`` are what its outputs are called, as a contract spells
    names. A column of numbers is taken out only where the model then has the data's number of channels. ``named`` is
    the column that its author says it is, and is taken whatever it is called.

    Raises:
        ConfigurationError: there is no column ``named``, or the data are arrays, which have none.

    """
    if named is not None:
        return _taken(table, _column(table, named))
    called = [
        name for name in (*table.names, *table.left_out) if TARGET.search(name) or channel_names([name])[0] in outputs
    ]
    if table.file is not None or len(called) != 1:
        return table
    (name,) = called
    fits = len(table.names) not in sizes and len(table.names) - 1 in sizes
    return _taken(table, name) if fits or name in table.left_out else table


def _taken(table: Table, name: str) -> Table:
    if name in table.left_out:
        return _named(table, name)
    parts = (table.parts[0]._replace(target=array_of(name)),)
    at = table.names.index(name)
    values = table.raw[0, :, at]
    is_whole = bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    return table._replace(
        names=table.names[:at] + table.names[at + 1 :],
        raw=np.delete(table.raw, at, axis=2),
        parts=parts,
        targets=(*table.targets, *([Target(name, tuple(np.unique(values.astype(int)).tolist()))] if is_whole else [])),
    )


def _column(table: Table, named: str) -> str:
    columns = (*table.names, *table.left_out)
    if table.file is None and named in columns:
        return named
    if table.file is not None:
        raise ConfigurationError(
            subject="--target", found=named, expected="only with a table of columns (CSV, Parquet)",
            todo="leave it out: of arrays the draft's data.train = { values, target } names the target",
        )  # fmt: skip
    nearest = get_close_matches(named, columns, n=1, cutoff=0.5)
    raise ConfigurationError(
        subject="--target", found=f"no column {named!r} in {table.source}", todo="correct the name",
        expected=f"{nearest[0]!r} perhaps" if nearest else f"one of {', '.join(columns)}"[:200],
    )  # fmt: skip


def with_words(table: Table, classes: Collection[int], stated: Collection[str]) -> Table:
    """The table with its one column of words taken for the target, where none is and the model can mean these words.

    ``classes`` are how many numbers the model's outputs have, ``stated`` the classes that it names itself.
    """
    if table.file is not None or any(part.target for part in table.parts):
        return table
    fitting = [
        one.name
        for one in table.targets
        if one.name in table.left_out and (len(one.values) in classes or (stated and set(one.values) <= set(stated)))
    ]
    return _named(table, fitting[0]) if len(fitting) == 1 else table


def array_of(name: str) -> str:
    """What the array of a column's values is called in the .npz that a build reads."""
    return f"train_{channel_names([name])[0]}"


def names_target(table: Table, target: Target) -> bool:
    """Whether the draft's [data] names a target's values."""
    return any(part.target in (target.name, array_of(target.name)) for part in table.parts)


def _named(table: Table, name: str) -> Table:
    parts = (table.parts[0]._replace(target=array_of(name)),)
    return table._replace(parts=parts, left_out=tuple(one for one in table.left_out if one != name))
