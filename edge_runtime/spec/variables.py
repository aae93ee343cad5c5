"""The `[variables]` of a device file, put into its names, topics and paths; nothing is looked up outside the file."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.toml_text import without_credentials

VariableName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
# A value may stand in a topic: no wildcard, no further level, nothing that the broker keeps for itself.
VariableValue = Annotated[str, Field(max_length=128, pattern=r"^[^+#/{}$\\\x00-\x1f\x7f-\x9f]+$")]
Variables = Annotated[dict[VariableName, VariableValue], Field(max_length=64)]

OWN: Final = ("device", "line")
"""Those that every file has, in topics alone."""
TAKES: Final = frozenset({
    "bundle", "ca", "certificate", "client_id", "device", "folder", "host", "key", "keys", "name", "password_file",
    "path", "port", "profile", "server_name", "state_dir", "status_topic", "topic", "topics", "user",
})  # fmt: skip
"""The keys in whose texts a variable may stand."""
# What stands in these is a payload's own, where braces mean something else.
_APART: Final = frozenset({"decode", "framing", "identify", "map", "poll", "variables"})
_TODO: Final = "see [variables] in docs/device_toml.md"
_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(raw: Mapping[str, Any], file: str) -> dict[str, Any]:
    """What TOML said in ``file`` with its variables put in, for the model to check.

    ``{device}`` and ``{line}`` stay in topics, where they are filled in later, and are refused elsewhere. Raises
    ConfigurationError for a variable that is not there, with the nearest, and for one that has a meaning of its own.
    """
    values = raw.get("variables")
    try:
        known = {} if values is None else TypeAdapter(Variables).validate_python(values)
    except ValidationError:
        return dict(raw)  # the model says what is wrong with it
    taken = sorted(set(known) & set(OWN))
    if taken:
        raise ConfigurationError(
            subject=f"{file}, variables.{taken[0]}", found=f"{{{taken[0]}}}, which has a meaning of its own",
            expected="another name", todo=_TODO,
        )  # fmt: skip
    return {key: _filled(value, key, _Known(known, file)) for key, value in raw.items()}


class _Known(NamedTuple):
    """The variables of one file, and its name for a person."""

    values: Mapping[str, str]
    file: str


def _filled(value: Any, key: str, known: _Known) -> Any:
    if key in _APART:
        return value
    if isinstance(value, Mapping):
        # A channel may be called as a key is.
        return {inner: _filled(one, "" if key == "channels" else inner, known) for inner, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, key, known) for one in value]
    if isinstance(value, str) and key in TAKES and "{" in value:
        return _VARIABLE.sub(lambda found: _value(found, value, key, known), value)
    return value


def _value(found: re.Match[str], text: str, key: str, known: _Known) -> str:
    name = found[1]
    if name in known.values:
        return known.values[name]
    if name in OWN and "topic" in key:
        return found[0]
    names = [*known.values, *(OWN if "topic" in key else ())]
    raise ConfigurationError(
        subject=f"{known.file}, {key}", found=f"{found[0]} in {without_credentials(text)[:60]!r}, "
        + ("which stands in topics alone" if name in OWN else "and no such variable"),
        expected=", ".join(f"{{{one}}}" for one in _likely(name, names)) or "one of [variables], which has none",
        todo=_TODO,
    )  # fmt: skip


def _likely(name: str, names: Sequence[str]) -> Sequence[str]:
    """Those of ``names`` that ``name`` perhaps means, or all."""
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    return get_close_matches(name, names, n=2, cutoff=0.5) or names
