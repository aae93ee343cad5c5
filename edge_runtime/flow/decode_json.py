"""One line that is one JSON object -> one Reading; it takes no text for a number unasked, and no truth value ever."""

import re
from collections.abc import Mapping
from math import inf, isfinite
from operator import methodcaller

from pydantic_core import from_json, to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Conversions, Getter, Row, Scalar, bad_encoding, make_assemble
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import quote
from edge_runtime.spec.binding import ChannelBinding, JsonDecode
from edge_runtime.spec.reading import Reading, Rejection

_BYTE_ORDER_MARK = "\ufeff"
_LONGEST_INTEGER_BITS = 64
_ESCAPE = re.compile(r"~(?![01])")
_NUMERIC = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMERIC = 64
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class JsonDecoder:
    """Reads one object per frame and remembers nothing."""

    def __init__(
        self, decode: JsonDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Resolve keys and pointers; raises ConfigurationError for a malformed pointer, or CSV's columns."""
        self._encoding = decode.encoding
        for name, binding in channels.items():
            if binding.read == "columns":
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found="'columns'", expected="'list', 'base64' or 'file' in JSON",
                    todo="only csv has columns",
                )  # fmt: skip
        conversions = Conversions("field", _number, _text, _carried, "a JSON number", _word, numeric_text=_numeric_text)
        self._assemble = make_assemble(decode, channels, _getter_of, conversions, files)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one object; ``None`` for a blank line."""
        try:
            data = frame if self._encoding == "utf-8" else frame.decode(self._encoding)
            # No cache of strings: a stream of ever new keys must not fill the memory.
            row = from_json(data, cache_strings="none")
        except ValueError:
            return self._read_slowly(frame)
        return self._assemble(row) if type(row) is dict else _no_object(frame)

    @property
    def columns(self) -> None:
        """JSON has no columns."""
        return None

    def restore_columns(self, columns: tuple[str, ...] | None) -> None:
        """Nothing to take up."""

    def _read_slowly(self, frame: bytes) -> Reading | Rejection | None:
        """Tell apart what the parser refuses: bytes of another encoding, a byte order mark, nothing, no JSON."""
        try:
            text = frame.decode(self._encoding).removeprefix(_BYTE_ORDER_MARK)
        except UnicodeDecodeError as error:
            return bad_encoding(frame, self._encoding, error)
        if not text or text.isspace():
            return None
        try:
            row = from_json(text, cache_strings="none")
        except ValueError as error:
            return Rejection("bad_json", "line", f"{quote(text)} ({quote(str(error))})", "one JSON object")
        return self._assemble(row) if type(row) is dict else _no_object(frame)


def _no_object(frame: bytes) -> Rejection:
    return Rejection("bad_json", "line", quote(frame), "one JSON object in braces")


def _getter_of(field: str) -> Getter:
    """Resolve a top-level key or, beginning with "/", a JSON Pointer (RFC 6901). What is not there is ``None``."""
    if not field.startswith("/"):
        return methodcaller("get", field)
    malformed = _ESCAPE.search(field)
    if malformed is not None:
        raise ConfigurationError(
            subject=f"JSON Pointer {field!r}",
            found=f"'~' at position {malformed.start()}",
            expected="'~0' for '~' and '~1' for '/'",
            todo="correct the binding",
        )
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in field[1:].split("/")]
    if len(tokens) == 1:
        return methodcaller("get", tokens[0])
    path = [(token, int(token) if _INDEX.fullmatch(token) else None) for token in tokens]

    def get(row: Row) -> object:
        node = row
        for token, index in path:
            if type(node) is dict:
                node = node.get(token)
            elif type(node) is list and index is not None and index < len(node):
                node = node[index]
            else:
                return None
        return node

    return get


def _number(raw: object) -> float | None:
    if type(raw) is float:
        return raw
    if type(raw) is int:
        try:
            return float(raw)
        except OverflowError:
            return inf if raw > 0 else -inf
    if raw is None:
        return None
    raise ValueError


def _numeric_text(raw: object) -> float | None:
    """Read what float() would, without its nan, infinity, underscores and digits of other scripts."""
    if raw is None:
        return None
    if type(raw) is str and len(raw) <= _LONGEST_NUMERIC and _NUMERIC.fullmatch(raw.strip()):
        return float(raw)
    raise ValueError


def _text(raw: object) -> str | None:
    if type(raw) is str:
        return raw.strip()
    return to_json(raw).decode() if type(raw) in {bool, int, float} else None


def _word(raw: object) -> str | None:
    text = _text(raw)
    if text is None and raw is not None:
        raise ValueError
    return text


def _carried(raw: object) -> Scalar:
    """Pass a scalar as it is; as text an array, an object, and a number that JSON or 64 bits cannot hold."""
    if raw is None or type(raw) in {str, bool}:
        return raw  # type: ignore[return-value]  # type() says it
    if type(raw) is int and raw.bit_length() < _LONGEST_INTEGER_BITS:
        return raw
    if type(raw) is float and isfinite(raw):
        return raw
    return to_json(raw, inf_nan_mode="constants").decode()
