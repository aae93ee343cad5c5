"""Tells mistakes in a contract, each as one line, with the nearest key where one is misspelt; it decides on no rule itself."""

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from edge_runtime.author.fault_words import words_of
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.fault import expected_by, is_missing

_SHOWN = 80
_Made = TypeVar("_Made")
_TODO = "correct it; docs/contract.md lists every key"


def told(
    error: ValidationError, *, subject: str, model: type[BaseModel], ways: Mapping[str, str] | None = None
) -> ConfigurationError:
    """The faults of a validation as one error: the first of them, with its ``others``.

    ``ways`` says by key, of those that are not there, what to do instead of reading the documentation.
    """
    return together(faults(error, subject=subject, model=model, ways=ways))


def together(errors: Sequence[ConfigurationError]) -> ConfigurationError:
    """Several errors, at least one, as one to raise: the first, with the others, each line once, as its ``others``."""
    every = {str(one): one for error in errors for one in (error, *error.others)}
    errors[0].others = tuple(every.values())[1:]
    return errors[0]


def gathered(makes: Mapping[str, Callable[[], _Made]]) -> tuple[dict[str, _Made], list[ConfigurationError]]:
    """What each call makes, by name, and the errors of those that make nothing: none hides the next."""
    made, wrong = {}, []
    for name, make in makes.items():
        try:
            made[name] = make()
        except ConfigurationError as error:
            wrong.append(error)
    return made, wrong


def faults(
    error: ValidationError, *, subject: str, model: type[BaseModel], ways: Mapping[str, str] | None = None
) -> list[ConfigurationError]:
    """Each fault of a validation; an unknown key names the nearest that ``model`` has there, and stands first.

    A misspelt key is missing under its right name too, and a value that is none of several kinds is so many faults: of
    both one is told.
    """
    every = error.errors(include_url=False)
    # A list is too short to pydantic where its items are wrong: their own faults say it better.
    around = {one["loc"][:end] for one in every for end in range(len(one["loc"]))}
    found: dict[object, ConfigurationError] = {}
    renamed = set()
    for one in (fault for fault in every if fault["type"] == "extra_forbidden"):
        loc = one["loc"]
        known = _keys_at(model, loc[:-1])
        renamed.add((*loc[:-1], _nearest(str(loc[-1]), known)))
        found[loc] = unknown_key(f"{subject}, {_key(loc)}", str(loc[-1]), known)
    for one in every:
        loc = one["loc"]
        if loc in around or one["type"] == "extra_forbidden" or (is_missing(one) and loc in renamed):
            continue
        is_kind = bool(loc) and not isinstance(loc[-1], int) and loc[-1] not in _keys_at(model, loc[:-1])
        found.setdefault((loc[:-1], id(one["input"])) if is_kind else loc, _line(one, subject, ways or {}))
    return list(found.values())


def unknown_key(subject: str, key: str, known: set[str]) -> ConfigurationError:
    """A key that ``known`` does not have, with the nearest that it has."""
    nearest = _nearest(key, known)
    return ConfigurationError(
        subject=subject,
        found=f"unknown key {key[:40]!r}",
        expected=f"{nearest!r} perhaps" if nearest else f"one of {', '.join(sorted(known))}",
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


def _line(fault: Mapping[str, Any], subject: str, ways: Mapping[str, str]) -> ConfigurationError:
    if not fault["loc"]:  # a rule over several keys: its message names them, and the whole text would only bury it
        return ConfigurationError(
            subject=subject, found="keys that do not fit together", expected=expected_by(fault), todo=_TODO,
        )  # fmt: skip
    words = words_of(fault)
    key = _key([*fault["loc"], *([words.key] if words.key else [])])
    found = words.found or ("nothing" if is_missing(fault) else " ".join(repr(fault["input"]).split()))
    return ConfigurationError(
        subject=f"{subject}, {key}",
        found=found if len(found) <= _SHOWN else f"{found[:_SHOWN]}...",
        expected=words.expected,
        todo=ways.get(key, _TODO) if is_missing(fault) else _TODO,
    )


def _key(loc: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in loc)


def _nearest(key: str, known: set[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    return next(iter(get_close_matches(key, sorted(known), n=1, cutoff=0.5)), None)


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
