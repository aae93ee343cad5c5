"""Tells a mistake in a contract as one line, with the nearest key where one is misspelt; it decides on no rule itself."""

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.fault import expected_by, is_missing

_SHOWN = 80
_TODO = "correct it; docs/contract.md lists every key"


def told(
    error: ValidationError, *, subject: str, model: type[BaseModel], ways: Mapping[str, str] | None = None
) -> ConfigurationError:
    """The first fault of a validation as one line; an unknown key names the nearest that ``model`` has there.

    ``ways`` says by key, of those that are not there, what to do instead of reading the documentation.
    """
    errors = error.errors(include_url=False)
    # A misspelt key is missing under its right name too: the misspelling is what the author has to see.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    loc = first["loc"]
    if not loc:  # a rule over several keys: its message names them, and the whole text would only bury it
        return ConfigurationError(
            subject=subject, found="keys that do not fit together", expected=expected_by(first), todo=_TODO,
        )  # fmt: skip
    key = ".".join(str(part) for part in loc)
    if first["type"] == "extra_forbidden":
        return unknown_key(f"{subject}, {key}", str(loc[-1]), _keys_at(model, loc[:-1]))
    found = "nothing" if is_missing(first) else " ".join(repr(first["input"]).split())
    return ConfigurationError(
        subject=f"{subject}, {key}",
        found=found if len(found) <= _SHOWN else f"{found[:_SHOWN]}...",
        expected=expected_by(first),
        todo=(ways or {}).get(key, _TODO) if is_missing(first) else _TODO,
    )


def unknown_key(subject: str, key: str, known: set[str]) -> ConfigurationError:
    """A key that ``known`` does not have, with the nearest that it has."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    nearest = get_close_matches(key, sorted(known), n=1, cutoff=0.5)
    return ConfigurationError(
        subject=subject,
        found=f"unknown key {key[:40]!r}",
        expected=f"{nearest[0]!r} perhaps" if nearest else f"one of {', '.join(sorted(known))}",
        todo="correct or remove it",
    )


def models_in(field: Any) -> list[type[BaseModel]]:
    """Every model in an annotation, through unions, tuples and Annotated."""
    annotation = getattr(field, "annotation", field)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple, dict):
        return [one for argument in get_args(annotation) for one in models_in(argument)]
    return []


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> set[str]:
    """The keys that the table at ``loc`` may have; within a union the member is told by its ``step``."""
    here = [model]
    for part in loc:
        if isinstance(part, int):
            continue
        inner = [one for each in here if part in each.model_fields for one in models_in(each.model_fields[part])]
        here = inner or [
            one for one in here if "step" in one.model_fields and part in get_args(one.model_fields["step"].annotation)
        ]
    return {key for one in here for key in one.model_fields}
