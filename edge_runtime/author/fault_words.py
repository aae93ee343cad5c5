"""What pydantic found and expected in an author's words, with the nearest right value; what it cannot say better stays as it is."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from edge_runtime.author.draft_text import channel_names
from edge_runtime.spec.fault import expected_by, is_missing

_PATTERNS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    r"^[a-z][a-z0-9_]{0,63}$": (
        "lower case, digits and underscores, a letter first", lambda text: channel_names([text])[0],
    ),
    r"^[a-z0-9][a-z0-9-]{0,63}$": (
        "lower case, digits and hyphens", lambda text: re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64],
    ),
    r"^\d+\.\d+\.\d+$": (
        "three numbers, major.minor.patch",
        lambda text: ".".join([*re.findall(r"\d+", text), "0", "0", "0"][:3]),
    ),
}  # fmt: skip
_KINDS = {
    "string_type": "a text, in quotes",
    "float_type": "a number, without quotes", "float_parsing": "a number, without quotes",
    "int_type": "a whole number, without quotes", "int_parsing": "a whole number, without quotes",
    "int_from_float": "a whole number", "bool_type": "true or false", "bool_parsing": "true or false",
    "tuple_type": "a list, in [ ]", "list_type": "a list, in [ ]", "dict_type": "a table", "model_type": "a table",
    "finite_number": "a finite number",
}  # fmt: skip


class Words(NamedTuple):
    """What stands there, what belongs there, and what to add to the key's place; all empty but ``expected`` as a rule."""

    expected: str
    found: str = ""
    key: str = ""


def words_of(fault: Mapping[str, Any]) -> Words:
    """The words for one entry of ``ValidationError.errors``."""
    kind, ctx = str(fault["type"]), fault.get("ctx", {})
    if kind == "union_tag_invalid":
        return Words(_one_of(ctx["tag"], ctx["expected_tags"]), repr(ctx["tag"]), _discriminator(ctx))
    if kind == "union_tag_not_found":
        return Words("which of its kinds this is; docs/steps.md has the list", "nothing", _discriminator(ctx))
    return Words(expected_by(fault) if is_missing(fault) else _expected(kind, ctx, fault))


def _expected(kind: str, ctx: Mapping[str, Any], fault: Mapping[str, Any]) -> str:
    if kind == "literal_error":
        return _one_of(fault["input"], ctx["expected"])
    if kind == "string_pattern_mismatch" and ctx["pattern"] in _PATTERNS:
        rule, mend = _PATTERNS[ctx["pattern"]]
        mended = mend(fault["input"])
        return f"{rule}: {mended!r} perhaps" if re.fullmatch(ctx["pattern"], mended) else rule
    if kind in ("too_short", "too_long"):
        at_least = kind == "too_short"
        return f"at {'least' if at_least else 'most'} {ctx['min_length' if at_least else 'max_length']} in the list"
    return _KINDS.get(kind) or expected_by(fault).removeprefix("Input should be ")


def _discriminator(ctx: Mapping[str, Any]) -> str:
    return str(ctx["discriminator"]).strip("'")


def _one_of(value: object, known: str) -> str:
    """``known`` is a list in words, each in quotes."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    nearest = get_close_matches(str(value).lower(), re.findall(r"'([^']*)'", known), n=1, cutoff=0.5)
    return f"{nearest[0]!r} perhaps; it may be {known}" if nearest else f"one of {known}"
