"""The column of a table that its name calls a target: no channel, but what was true; it guesses by no value."""

from collections.abc import Collection

import numpy as np

from edge_runtime.author.draft_data import TARGET, Table, Target
from edge_runtime.author.draft_text import channel_names


def with_target(table: Table, sizes: Collection[int], outputs: Collection[str]) -> Table:
    """The table with its one column that is called a target taken for that, where it was a channel or left out.

    ``sizes`` are those that the model's input may have; ``outputs`` are what its outputs are called, as a contract spells
    names. A column of numbers is taken out only where the model then has the data's number of channels.
    """
    called = [
        name for name in (*table.names, *table.left_out) if TARGET.search(name) or channel_names([name])[0] in outputs
    ]
    if table.file is not None or len(called) != 1:
        return table
    (name,) = called
    parts = (table.parts[0]._replace(target=f"train_{channel_names([name])[0]}"),)
    if name in table.left_out:
        return table._replace(parts=parts, left_out=tuple(one for one in table.left_out if one != name))
    if len(table.names) in sizes or len(table.names) - 1 not in sizes:
        return table
    at = table.names.index(name)
    values = table.raw[0, :, at]
    is_whole = bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    return table._replace(
        names=table.names[:at] + table.names[at + 1 :],
        raw=np.delete(table.raw, at, axis=2),
        parts=parts,
        targets=(*table.targets, *([Target(name, tuple(np.unique(values.astype(int)).tolist()))] if is_whole else [])),
    )
