"""A checked device file as TOML again, with the file that each value came from; what is no file's is a comment."""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from edge_runtime.spec.drop_in import Origins, Path, origin
from edge_runtime.spec.toml_text import without_credentials

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
# Passwords stand in files of their own; this is for what somebody has put under a name of such, or into a URL.
_SECRET: Final = re.compile(r"(?:^|_)(?:password|passphrase|secret|token)$")
_HIDDEN: Final = "***"


def resolved(raw: Mapping[str, Any], checked: BaseModel, origins: Origins) -> Iterator[str]:
    """The lines of one TOML file that says what ``raw`` says; ``checked`` has the defaults, which come as comments."""
    yield from _table(raw, checked, (), origins, "")


def masked(value: Any) -> Any:
    """What a JSON file would say of ``value``, secrets hidden as in the lines of ``resolved``."""
    if isinstance(value, Mapping):
        return {key: _HIDDEN if _is_hidden(key, one) else masked(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [masked(one) for one in value]
    return without_credentials(value) if isinstance(value, str) else value


def _is_hidden(key: str, value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping) and _SECRET.search(key) is not None


def _table(raw: Mapping[str, Any], checked: Any, path: Path, origins: Origins, header: str) -> Iterator[str]:
    inner = []
    for key, value in raw.items():
        if isinstance(value, Mapping) or _is_tables(value):
            inner.append((key, value))
        else:
            yield f"{_key(key)} = {_value(masked({key: value})[key])}  # {origin(origins, (*path, key))}"
    for key, value in _defaults(raw, checked):
        yield f"# {_key(key)} = {_value(value)}  # default"
    for key, value in inner:
        name, here = f"{header}{_key(key)}", (*path, key)
        child = _child(checked, key)
        if isinstance(value, Mapping):
            yield from ("", f"[{name}]  # {origin(origins, here)}")
            yield from _table(value, child, here, origins, f"{name}.")
            continue
        for at, one in enumerate(value):
            yield from ("", f"[[{name}]]  # {origin(origins, (*here, at))}")
            yield from _table(one, child[at], (*here, at), origins, f"{name}.")


def _defaults(raw: Mapping[str, Any], checked: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(checked, BaseModel):
        return
    written = checked.model_dump(mode="json", by_alias=True, exclude_none=True)
    yield from ((key, value) for key, value in written.items() if key not in raw)


def _child(checked: Any, key: str) -> Any:
    return getattr(checked, key) if isinstance(checked, BaseModel) else checked[key]


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(one)}' for key, one in value.items())} }}" if value else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return _text(without_credentials(value)) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    """A basic string of TOML, which is one of JSON but for the character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
