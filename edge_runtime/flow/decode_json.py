"""One line that is one JSON object -> one Reading; it takes no text for a number unasked, and no truth value ever."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf, isfinite
from operator import methodcaller

from pydantic_core import from_json, to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Conversions, Getter, Row, Scalar, bad_encoding, make_assemble
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import JsonDecode
from edge_runtime.spec.reading import Reading, Rejection

_BYTE_ORDER_MARK = "\ufeff"
_LONGEST_INTEGER_BITS = 64
_ESCAPE = re.compile(r"~(?![01])")
_NUMERIC = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMERIC = 64
_MOST_NAMES = 64
_AS_BYTES = "check decode.format, the baud rate and who else writes on the line; `edge-runtime record` shows its bytes"
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class JsonDecoder(Decoder):
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
        # By what a refusal is about: the field, and the key of the device file that names it.
        self._fields = {f"channel {name}": (one.field, f"channels.{name}.field") for name, one in channels.items()}
        if decode.time is not None:
            self._fields[f"time field {decode.time.field!r}"] = (decode.time.field, "decode.time.field")
        conversions = Conversions(
            "field", _number, _text, _carried, "a JSON number", _word, numeric_text=_numeric_text, hint=_hint, has=has
        )
        self._assemble = make_assemble(decode, channels, getter_of, conversions, files)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one object; ``None`` for a blank line."""
        try:
            data = frame if self._encoding == "utf-8" else frame.decode(self._encoding)
            # No cache of strings: a stream of ever new keys must not fill the memory.
            row = from_json(data, cache_strings="none")
        except ValueError:
            return self._read_slowly(frame)
        if type(row) is not dict:
            return _no_object(frame)
        item = self._assemble(row)
        return item if type(item) is not Rejection or item.reason != "bad_time" else self.explain_missing(frame, item)

    def explain_missing(self, frame: bytes, refused: Rejection) -> Rejection:
        """A field that the object does not have is most likely a name mistyped in the device file: say what it does have."""
        text = frame.decode(self._encoding).removeprefix(_BYTE_ORDER_MARK)
        row, (field, key) = from_json(text, cache_strings="none"), self._fields[refused.subject]
        if has(row, field):
            return refused
        near = like(field, list(names_in(row)))
        return refused._replace(
            found=f"no field {quote(field)} in the object",
            todo=f"correct {key} in device.toml ({near}); where it was right before, look at the sensor and its cable",
        )

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
            return Rejection("bad_json", "line", f"{quote(text)} ({quote(str(error))})", "one JSON object", _AS_BYTES)
        return self._assemble(row) if type(row) is dict else _no_object(frame)


def like(field: str, names: Sequence[str]) -> str:
    """Say which of ``names`` is perhaps meant by ``field``, or what there is."""
    wanted = field.rpartition("/")[2].casefold()
    # The same name elsewhere in the object comes before names that are only spelled alike.
    same = [name for name in names if name.rpartition("/")[2].casefold() == wanted]
    near = f"nearest: {quote_names(same[:3])}" if same else nearest(field, names)
    return near or f"it has {quote_names(names) or 'none'}"


def _no_object(frame: bytes) -> Rejection:
    todo = "let the sender write each sample as an object on a line of its own; check decode.format where it is no JSON"
    return Rejection("bad_json", "line", quote(frame), "one JSON object in braces", todo)


def _path(field: str) -> list[tuple[str, int | None]]:
    """The tokens of a pointer, each with the index it is in an array."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in field[1:].split("/")]
    return [(token, int(token) if _INDEX.fullmatch(token) else None) for token in tokens]


def has(row: Row, field: str) -> bool:
    """Whether a key or pointer leads to anything, be it null."""
    node = row
    for token, index in _path(field) if field.startswith("/") else [(field, None)]:
        if type(node) is dict and token in node:
            node = node[token]
        elif type(node) is list and index is not None and index < len(node):
            node = node[index]
        else:
            return False
    return True


def names_in(row: Row) -> Iterator[str]:
    """What a binding could name in an object: its keys, and pointers to what is deeper; the first few, outermost first."""
    nodes = deque([("", row)])
    found = 0
    while nodes and found < _MOST_NAMES:
        path, node = nodes.popleft()
        for key, value in islice(node.items() if type(node) is dict else enumerate(node), _MOST_NAMES):
            found += 1
            token = str(key).replace("~", "~0").replace("/", "~1")
            yield key if not path and not key.startswith("/") else f"{path}/{token}"
            if type(value) in {dict, list}:
                nodes.append((f"{path}/{token}", value))


def _hint(raw: object, expected: str) -> str:
    """What to do about a field that is not what was expected, for who wrote the device file and who set up the sender."""
    if type(raw) is dict:
        return 'name what is inside it by a pointer, e.g. field = "/reading/value"'
    if type(raw) is list:
        if "array" in expected:
            return "every element must be a number: no text, no null, no list"
        return 'name one of its elements by a pointer, e.g. field = "/reading/0"'
    if raw is None:
        return f"bind the field that holds {expected}"
    return "bind another field, or have the sender write null where it has no value"


def getter_of(field: str) -> Getter:
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
    path = _path(field)
    if len(path) == 1:
        return methodcaller("get", path[0][0])

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
