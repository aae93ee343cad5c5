"""The pattern language of printed lines, compiled so that matching is linear in the line; it is no regular expression.

Every repeat of the compiled expression is possessive and no two parts may claim the same character, so the matcher
never goes back: a hostile line costs what its length costs.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.quoting import nearest, quote
from edge_runtime.spec.payload import DecimalMark

FieldKind = Literal["number", "int", "word", "text"]

_KINDS: tuple[FieldKind, ...] = ("number", "int", "word", "text")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NEVER_AFTER_A_NUMBER = ".,'_0123456789"
_SIGN = r"(?:[+-]\ *+)?+"


class CompiledPattern(NamedTuple):
    """``expression`` matches a whole line without the blanks at its ends; group n + 1 is the nth of ``fields``."""

    expression: re.Pattern[str]
    fields: dict[str, FieldKind]


class _Part(NamedTuple):
    kind: Literal["literal", "blank", "number", "int", "word", "text"]
    text: str
    position: int


def compile_pattern(pattern: str, decimal: DecimalMark) -> CompiledPattern:
    """Compile ``pattern``; raises ConfigurationError that names the position, counted from 1."""
    compiled = compile_line(pattern, decimal)
    if not compiled.fields:
        raise _refusal(pattern, 1, "no field", "at least one field such as {mass:number}")
    return compiled


def compile_line(pattern: str, decimal: DecimalMark) -> CompiledPattern:
    """Compile ``pattern``, which may be without fields; raises as ``compile_pattern`` does."""
    parts = list(_parse(pattern))
    while parts and parts[0].kind == "blank":
        del parts[0]
    while parts and parts[-1].kind == "blank":
        parts.pop()
    fields: dict[str, FieldKind] = {}
    expression = ""
    for part, after in zip(parts, [*parts, None][1:], strict=True):
        if part.kind == "literal":
            expression += re.escape(part.text)
        elif part.kind == "blank":
            expression += r"\s++"
        else:
            if part.text in fields:
                raise _refusal(pattern, part.position, f"field {part.text!r} twice", "each name once")
            _check_neighbour(pattern, part, after)
            fields[part.text] = part.kind
            expression += _express(part.kind, after, decimal)
    return CompiledPattern(re.compile(expression, re.DOTALL), fields)


def _parse(pattern: str) -> Iterator[_Part]:
    place = 0
    literal = ""
    while place < len(pattern):
        start, char = place, pattern[place]
        if pattern.startswith(("{{", "}}"), place):
            literal += char
            place += 2
            continue
        if char not in "{}" and not char.isspace():
            literal += char
            place += 1
            continue
        if literal:
            yield _Part("literal", literal, start)
            literal = ""
        if char.isspace():
            while place < len(pattern) and pattern[place].isspace():
                place += 1
            yield _Part("blank", " ", start + 1)
        else:
            place, part = _parse_field(pattern, start)
            yield part
    if literal:
        yield _Part("literal", literal, place)


def _parse_field(pattern: str, start: int) -> tuple[int, _Part]:
    end = pattern.find("}", start)
    if pattern[start] == "}" or end < 0:
        raise _refusal(pattern, start + 1, f"a single {pattern[start]!r}", "{name:kind}, or '{{' and '}}' for braces")
    name, colon, kind = pattern[start + 1 : end].partition(":")
    if not _NAME.fullmatch(name):
        raise _refusal(pattern, start + 1, f"field name {quote(name)}", "letters, digits and '_' (at most 64)")
    for known in _KINDS:
        if colon and kind == known:
            return end + 1, _Part(known, name, start + 1)
    todo = nearest(kind, _KINDS)
    raise _refusal(pattern, start + 1, f"field kind {quote(kind)}", "one of number, int, word, text", todo)


def _check_neighbour(pattern: str, part: _Part, after: _Part | None) -> None:
    """Refuse two neighbours that could claim the same character: where one ends would be a guess."""
    if after is None:
        return
    if part.kind == "text":
        raise _refusal(
            pattern, part.position, f"text field {part.text!r} before the end", "text only as the last field"
        )
    if after.kind in {"literal", "blank"} or (part.kind in {"number", "int"} and after.kind == "word"):
        return
    expected = f"a blank or literal text between {part.text!r} and {after.text!r}"
    raise _refusal(pattern, after.position, f"field {after.text!r} right after {part.text!r}", expected)


def _express(kind: Literal["number", "int", "word", "text"], after: _Part | None, decimal: DecimalMark) -> str:
    following = after.text[0] if after is not None and after.kind == "literal" else ""
    if kind == "text":
        return r"(\S.*+)"
    if kind == "word":
        return rf"([^\s{re.escape(following)}]++)"
    digits = r"[0-9]++"
    if kind == "number":
        mark = re.escape(decimal)
        decimals = "++" if following == decimal else "*+"  # "5." is a number, unless the mark is the pattern's own
        # Nothing as a branch, not "(?:...)?+": before 3.11.5 CPython did not go back from one that failed halfway.
        mantissa = rf"(?>[0-9]++(?>{mark}[0-9]{decimals}|)|{mark}[0-9]++)"
        digits = rf"{mantissa}(?>[eE][+-]?+[0-9]++|)"
    # "1,234.5" must not be read as 1 with something after it: what could go on a number may not follow one.
    forbidden = re.escape("".join(char for char in _NEVER_AFTER_A_NUMBER if char != following))
    return rf"({_SIGN}{digits})(?![{forbidden}])"


def _refusal(pattern: str, position: int, found: str, expected: str, todo: str = "") -> ConfigurationError:
    return ConfigurationError(
        subject=f"pattern {quote(pattern)} at position {position}",
        found=found,
        expected=expected,
        todo=todo or "correct the pattern",
    )
