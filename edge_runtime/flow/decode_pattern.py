"""One printed line that follows a pattern -> one Reading; a line that does not follow it is never half read."""

from collections.abc import Mapping
from operator import itemgetter

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Conversions, Getter, bad_encoding, bound_fields, make_assemble
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.pattern import compile_pattern
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.spec.binding import ChannelBinding, PatternDecode
from edge_runtime.spec.reading import Reading, Rejection

_BYTE_ORDER_MARK = "\ufeff"
# A word may look like a number, so a category may be read from any field.
_KINDS = {
    "number": {"number", "int"},
    "text": {"number", "int", "word", "text"},
    "base64": {"word", "text"},
    "file": {"word", "text"},
}


class PatternDecoder:
    """Matches one line per frame and remembers nothing."""

    def __init__(
        self, decode: PatternDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Compile; raises ConfigurationError for a malformed pattern or a bound field that is not in it."""
        compiled = compile_pattern(decode.pattern, decode.decimal)
        self._encoding = decode.encoding
        self._match = compiled.expression.fullmatch
        self._expected = f"a line like {quote(decode.pattern)}"
        names = list(compiled.fields)
        for field, purpose in bound_fields(decode, channels).items():
            if field not in compiled.fields:
                raise _refusal(field, purpose, f"fields {quote_names(names)} in the pattern", nearest(field, names))
        for name, binding in channels.items():
            kind = compiled.fields[binding.field]
            if binding.read not in _KINDS or binding.grid_field is not None:
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found=repr(binding.read), expected="'number', 'text', 'base64' or 'file'",
                    todo="a pattern has no lists and no grids, and its numbers are texts already",
                )  # fmt: skip
            if kind not in _KINDS[binding.read]:
                wanted = "number" if binding.read == "number" else "word"
                raise _refusal(binding.field, f"channel {name!r}", f"{{{binding.field}:{kind}}}", f"make it a {wanted}")

        def getter_of(field: str) -> Getter:
            return itemgetter(names.index(field))

        number = _number if decode.decimal == "." else _number_with_comma
        conversions = Conversions("field", number, str.strip, str.strip, "a number", str.strip)
        self._assemble = make_assemble(decode, channels, getter_of, conversions, files)

    def decode(self, frame: bytes) -> Reading | Rejection | None:
        """Read one line; ``None`` for a blank one."""
        try:
            text = frame.decode(self._encoding)
        except UnicodeDecodeError as error:
            return bad_encoding(frame, self._encoding, error)
        text = text.removeprefix(_BYTE_ORDER_MARK).strip()
        if not text:
            return None
        match = self._match(text)
        if match is None:
            return Rejection("no_match", "line", quote(text), self._expected)
        return self._assemble(match.groups())

    @property
    def columns(self) -> None:
        """A pattern has no columns."""
        return None

    def restore_columns(self, columns: tuple[str, ...] | None) -> None:
        """Nothing to take up."""


def _number(raw: str) -> float:
    return float(raw.replace(" ", ""))


def _number_with_comma(raw: str) -> float:
    return float(raw.replace(" ", "").replace(",", "."))


def _refusal(field: str, purpose: str, found: str, todo: str) -> ConfigurationError:
    return ConfigurationError(
        subject=f"field {field!r} ({purpose})",
        found=found,
        expected="it in the pattern, of the kind its reading needs",
        todo=todo or "correct the pattern or the binding",
    )
