"""TOML bytes to a checked value, every mistake as one ConfigurationError naming the key; it opens no file."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from edge_runtime.errors import ConfigurationError

MAX_TOML_BYTES = 1024 * 1024
"""Written by hand: a device file of a hundred lines is some 50 kB."""

MAX_DEPTH = 64
"""Tables and arrays within one another; no file of ours has ten."""

MAX_TOLD = 20
"""Mistakes that are told at once: a screen of them."""

# A mistyped key is also a missing one, and often the cause of what else is wrong, so it is told first.
# What a source is taken for: where its bytes come from, and how they are read, are two tables.
_SOURCE_HINTS = {
    word: f" ('replay' reads a file, 'stdin' a pipe; that it is {word} is said by decode.format)"
    for word in ("csv", "json")
} | dict.fromkeys(("file", "pipe"), " ('replay' reads a file, 'stdin' a pipe)")
_TOLD_FIRST = ("extra_forbidden", "union_tag_invalid", "union_tag_not_found", "missing")
# What those who do not write TOML every day overlook, by what the parser says first.
_RULES = {
    "invalid value": "a text stands between straight double quotes, true and false are lower case",
    "expected newline": "one key = value a line, and the decimal mark is a point",
    "expected '=' after": "write key = value, a key with blanks between double quotes",
    "unescaped": "write each \\ twice, or the text between single quotes",
}
_UNKNOWN_KEY = "an unknown key"
_NO_KEY = "no such key"
_NOTHING = "nothing"
_SHOWN_CHARACTERS = 60
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_QUERY_SECRET = re.compile(r"([?&][\w.-]*(?:password|passphrase|secret|token|key)=)[^&#\s]+", re.IGNORECASE)

_Model = TypeVar("_Model", bound=BaseModel)


def parse_toml(data: bytes, file: str) -> dict[str, Any]:
    """Read the bytes of a TOML file; ``file`` is its name for a person.

    Raises ConfigurationError, with the line where the text goes wrong.
    """
    if len(data) > MAX_TOML_BYTES:
        _refuse(file, f"{len(data)} bytes", f"at most {MAX_TOML_BYTES}", "give the file that was written by hand")
    try:
        read = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _refuse(f"{file}, line {line}", f"byte 0x{data[error.start]:02x}", "UTF-8 text", "save it as UTF-8", error)
    except tomllib.TOMLDecodeError as error:
        reason, where = _split_position(str(error))
        rule = next((f": {rule}" for begin, rule in _RULES.items() if reason.startswith(begin)), "")
        _refuse(f"{file}, {where}", reason, "TOML", f"correct that line{rule}", error)
    except RecursionError as error:
        _refuse_depth(file, error)
    if _is_deeper(read, MAX_DEPTH):  # keys with points between nest without end and without brackets
        _refuse_depth(file)
    if _holds_nul(read):  # only as an escape can it come this far; no path, name or text of ours may have one
        _refuse(file, r"the character \u0000 in a text", "texts without it", "take it out")
    return read


def _refuse_depth(file: str, cause: Exception | None = None) -> NoReturn:
    _refuse(file, "values nested too deeply", "TOML as the documentation shows it", "write it flat", cause)


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)


def _holds_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any("\0" in key or _holds_nul(one) for key, one in value.items())
    if isinstance(value, list):
        return any(_holds_nul(one) for one in value)
    return isinstance(value, str) and "\0" in value


def without_credentials(text: str) -> str:
    """``text`` with the user, password and tokens of a URL in it hidden: they have no place there, but are put there."""
    return _QUERY_SECRET.sub(r"\1***", _USER_INFO.sub("***@", text))


def validate(model: type[_Model], raw: Mapping[str, Any], file: str, todo: str) -> _Model:
    """Make a ``model`` of what TOML said. Raises ConfigurationError for the mistake that explains most.

    Its ``others`` are the further ones, at most ``MAX_TOLD`` in all. ``todo`` ends each message: where the keys are
    explained.
    """
    try:
        # As JSON, strictly: "9600" is no number, while an array is a tuple and a text a path.
        return model.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        told = list(_told([_explain(model, fault) for fault in error.errors(include_url=False)]))
        raise _refusal(told, file, todo) from error


class _Fault(NamedTuple):
    order: int
    place: str
    found: str
    expected: str
    meant: str = ""
    """Of a key that is not known: the place of the one that was perhaps meant."""


def _refusal(told: Sequence[_Fault], file: str, todo: str) -> ConfigurationError:
    """The first fault as an error that holds the others."""
    first, *others = [
        ConfigurationError(
            subject=f"{file}, {fault.place}" if fault.place else file, found=fault.found, expected=fault.expected,
            todo=todo,
        )
        for fault in told[:MAX_TOLD]
    ]  # fmt: skip
    if len(told) > MAX_TOLD:
        more = f"{len(told) - MAX_TOLD} more mistakes"
        others.append(ConfigurationError(subject=file, found=more, expected="none", todo="mend those above first"))
    first.others = tuple(others)
    return first


def _told(faults: Sequence[_Fault]) -> Iterator[_Fault]:
    """One fault a place, what explains most first; a key that is absent because another fault has it is not told."""
    meant = {fault.meant for fault in faults}
    places: dict[str, list[_Fault]] = {}
    for fault in sorted(faults, key=lambda fault: fault.order):
        places.setdefault(fault.place, []).append(fault)
    for place, here in places.items():
        if here[0].found == _NO_KEY and place in meant:
            continue
        # An array all of whose parts are wrong counts as an empty one.
        if here[0].found == _NOTHING and any(other.startswith(f"{place}[") for other in places):
            continue
        # A value that may be one of two things fails once for each.
        yield here[0]._replace(expected=" or ".join(dict.fromkeys(fault.expected for fault in here)))


def _explain(model: type[BaseModel], fault: Any) -> _Fault:
    """Say in words where the fault lies, as the file would write it, what was found and what was expected."""
    path: tuple[int | str, ...] = fault["loc"]
    owners, owner, kinds, place = _walk(model, path)
    kind, bounds = fault["type"], fault.get("ctx", {})
    found, expected, meant = _short(fault["input"]), _plain(fault["msg"]), ""
    match kind:
        case "extra_forbidden":
            found = _UNKNOWN_KEY
            expected, meant = _instead(str(path[-1]), owners, owner)
        case "missing":
            found, expected = _NO_KEY, f"it to be there{_purpose(owner, path[-1])}"
        case "union_tag_invalid":
            found = f"{bounds['discriminator'].strip(chr(39))} {_short(bounds['tag'])}"
            expected = f"one of {bounds['expected_tags']}{_SOURCE_HINTS.get(bounds['tag'], '') if path[-1:] == ('source',) else ''}"
        case "union_tag_not_found":
            key = bounds["discriminator"].strip("'")
            found, expected = f"no {key}", f"{key} = {' or '.join(repr(tag) for tag in _tags(kinds, key))}"
        case "too_short":
            found, expected = _NOTHING, f"at least {bounds['min_length']}"
        case "string_pattern_mismatch":
            expected = f"a text like {bounds['pattern']}{_purpose(owner, path[-1])}"
        case "model_type" | "model_attributes_type" | "dict_type":
            expected = f"a table, {{ {_first_key(kinds)} = ... }}"
        case "tuple_type" if isinstance(fault["input"], dict):
            begin = re.sub(r"\[\d+\]", "", place)
            expected = f"an array of tables, each begun with [[{begin}]]"
        case "value_error" if isinstance(fault["input"], dict):
            found, expected = f"a mistake ({expected})", "keys that agree"
    order = _TOLD_FIRST.index(kind) if kind in _TOLD_FIRST else len(_TOLD_FIRST)
    return _Fault(order, place, found, expected, meant)


class _Owner(NamedTuple):
    model: type[BaseModel]
    place: str


def _walk(model: type[BaseModel], path: tuple[int | str, ...]) -> tuple[list[_Owner], Any, Any, str]:
    """Return the tables around the end of ``path``, the type that owns its last key, the type there, the place in words.

    pydantic puts the chosen kind of a union, and the branch of a plain one, into its paths; a file has no such keys.
    """
    current: Any = model
    owner: Any = model
    place = ""
    owners = []
    for part in path:
        current = _bare(current)
        if isinstance(current, type) and issubclass(current, BaseModel):
            owners.append(_Owner(current, place))
            owner, current = current, _field(current, str(part))
            place += f".{part}" if place else str(part)
        elif get_origin(current) is tuple:
            place += f"[{part}]"
            current = get_args(current)[0]
        elif get_origin(current) is dict:
            place += f".{part}"
            current = get_args(current)[1]
        elif get_origin(current) in (Union, UnionType):
            current = next((one for one in get_args(current) if part in _tags(one, "kind", "format")), None)
            owner = current
        else:
            break
    return owners, owner, current, place


def _bare(kind: Any) -> Any:
    """Return ``kind`` without Annotated and without None beside it."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        members = [one for one in get_args(kind) if one is not type(None)]
        return _bare(members[0]) if len(members) == 1 else kind
    return kind


def _field(model: type[BaseModel], key: str) -> Any:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return field.annotation
    return None


def _tags(kind: Any, *keys: str) -> list[Any]:
    """Return the values that any of ``keys`` can have in a model, or in each member of a union."""
    kind = _bare(kind)
    if get_origin(kind) in (Union, UnionType):
        return [tag for member in get_args(kind) for tag in _tags(member, *keys)]
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return []
    return [tag for key in keys if get_origin(_field(kind, key)) is Literal for tag in get_args(_field(kind, key))]


def _instead(key: str, owners: Sequence[_Owner], owner: Any) -> tuple[str, str]:
    """Say what was expected instead of an unknown key, and return the place of the key that was perhaps meant.

    In TOML what stands below a [table] is that table's, so a key may belong to one further out.
    """
    *around, inner = owners
    outer = next((one for one in reversed(around) if _field(one.model, key) is not None), None)
    if outer is not None:
        table = re.sub(r"\[\d+\]", "", inner.place)
        return f"it in {outer.place or 'the file itself'}: write it above [{table}]", f"{outer.place}.{key}"
    near = _nearest(key, owner)
    return near, f"{inner.place}.{near}"


def _first_key(kind: Any) -> str:
    """Return the key that a table of this kind needs first, or one of any name."""
    kind = _bare(kind)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "NAME"
    names = {field.alias or name: field.is_required() for name, field in kind.model_fields.items()}
    return next((name for name, needed in names.items() if needed), next(iter(names)))


def _nearest(key: str, owner: Any) -> str:
    if not (isinstance(owner, type) and issubclass(owner, BaseModel)):
        return "no key here"
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    known = [field.alias or name for name, field in owner.model_fields.items()]
    near = get_close_matches(key, known, n=1, cutoff=0.6)
    return near[0] if near else f"one of {', '.join(known)}"


def _purpose(owner: Any, key: int | str) -> str:
    """Return the first clause of what the model says of its key, in brackets."""
    if isinstance(owner, type) and issubclass(owner, BaseModel):
        for name, field in owner.model_fields.items():
            if key in (name, field.alias) and field.description:
                clause = re.split(r"[.;:](?:\s|$)", field.description)[0]
                return f" ({clause[:1].lower()}{clause[1:]})"
    return ""


def _split_position(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", text, flags=re.DOTALL)
    if match is None:
        return text, "somewhere"
    reason, line, column = match.groups()
    reason = reason[:1].lower() + reason[1:]
    return reason, f"line {line}, column {column}" if line else "its end"


def _plain(message: str) -> str:
    text = message.removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("String should ")
    return re.sub(r"^a valid (?=[aeiou])", "an ", text).replace("a valid ", "a ")


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(without_credentials(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def _refuse(
    subject: str, found: str, expected: str, todo: str, cause: Exception | None = None
) -> NoReturn:  # fmt: skip
    raise ConfigurationError(subject=subject, found=found, expected=expected, todo=todo) from cause
