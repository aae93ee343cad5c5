"""Several TOML files as one: tables merged, the last word of each key, and which file said it; it opens none of them."""

from collections.abc import Iterable, Mapping
from typing import Any

Path = tuple[str | int, ...]
"""The keys that lead to a value, a line by its place among the lines."""

Origins = dict[Path, str]
"""Of every value that a file has written: which file had the last word."""


def merged(files: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[dict[str, Any], Origins]:
    """Put files, each a name and what TOML said, over each other in their order.

    Tables are merged key by key; any other value, arrays too, is replaced by a later one. Tables of ``line`` are the same
    line where they have one ``name``, and a line of a new name comes behind the others.
    """
    whole: dict[str, Any] = {}
    origins: Origins = {}
    for name, raw in files:
        _lay_over(whole, raw, (), name, origins)
    return whole, origins


def origin(origins: Mapping[Path, str], path: Path) -> str | None:
    """Which file has said the value at ``path``, or what it is a part of."""
    while path not in origins and path:
        path = path[:-1]
    return origins.get(path)


def _lay_over(whole: dict[str, Any], raw: Mapping[str, Any], path: Path, file: str, origins: Origins) -> None:
    for key, value in raw.items():
        here = (*path, key)
        if here == ("line",) and _is_tables(value):
            if not _is_tables(whole.get("line")):
                _forget(origins, here)
                whole["line"] = []
            _lay_lines(whole["line"], value, file, origins)
        elif isinstance(value, Mapping):
            if not isinstance(whole.get(key), dict):
                _forget(origins, here)
                whole[key] = {}
            origins.setdefault(here, file)
            _lay_over(whole[key], value, here, file, origins)
        else:
            _forget(origins, here)
            whole[key] = value
            origins[here] = file


def _lay_lines(lines: Any, tables: Iterable[Mapping[str, Any]], file: str, origins: Origins) -> None:
    before = len(lines)
    for table in tables:
        # Only those of earlier files: two of one name in one file are a mistake that the model tells.
        at = next(
            (at for at, line in enumerate(lines[:before]) if "name" in table and line.get("name") == table["name"]),
            None,
        )
        if at is None:
            at = len(lines)
            lines.append({})
            origins["line", at] = file
        _lay_over(lines[at], table, ("line", at), file, origins)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)


def _forget(origins: Origins, path: Path) -> None:
    """Take out what was said of the parts of a value that is replaced."""
    for one in [one for one in origins if one[: len(path)] == path]:
        del origins[one]
