"""One printed line that follows a pattern -> one Reading; a line that does not follow it is never half read."""

import re
from collections.abc import Mapping
from operator import itemgetter

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Conversions, Getter, bad_encoding, bound_fields, make_assemble
from edge_runtime.flow.balances import PRESETS, BalanceLines
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.pattern import compile_line, compile_pattern
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import NoValue, PatternDecode
from edge_runtime.spec.reading import Reading, Rejection

_BYTE_ORDER_MARK = "\ufeff"
# OIML R 76-1 has a scale with d < e mark the digit that is not verified: makers print it in brackets, at the number's end.
_UNVERIFIED = re.compile(r"(?<=[0-9.,])\[([0-9]++)\]")
_CORRECT_QUESTION = "correct source.poll.send: the question, and the line end behind it"
# A word may look like a number, so a category may be read from any field.
_KINDS = {
    "number": {"number", "int"},
    "text": {"number", "int", "word", "text"},
    "base64": {"word", "text"},
    "file": {"word", "text"},
}

_NO_VALUE: dict[NoValue, Rejection] = {
    "unstable": Rejection(
        "unstable",
        "instrument",
        "unstable",
        "a stable value",
        "draughts, vibration, an open door? Wait until it stands",
    ),
    "overload": Rejection("overload", "instrument", "overload", "a value within its range", "take the load off"),
    "underload": Rejection(
        "underload", "instrument", "underload", "a value within its range", "put the pan on, or tare with the pan on"
    ),
    "not_ready": Rejection(
        "not_ready",
        "instrument",
        "not ready",
        "a value",
        "it adjusts itself, tares or shows an error: look at its display",
    ),
}


class PatternDecoder(Decoder):
    """Matches one line per frame and remembers nothing."""

    def __init__(
        self, decode: PatternDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Compile; raises ConfigurationError for a malformed pattern or a bound field that is not in it."""
        lines = BalanceLines((decode.pattern or "",), decode.refuse)
        pictures, refuse, self._not_understood = lines if decode.preset is None else PRESETS[decode.preset]
        compiled = compile_pattern(pictures[0], decode.decimal)
        self._encoding = decode.encoding
        self._match = compiled.expression.fullmatch
        self._unverified = decode.unverified_digits
        self._looks_for_brackets = "[" not in (decode.pattern or "")  # there they are the pattern's own
        self._others = [compile_pattern(one, decode.decimal).expression.fullmatch for one in pictures[1:]]
        self._no_values = [
            (compile_line(one, decode.decimal).expression.fullmatch, _NO_VALUE[why])
            for why, patterns in refuse.items()
            for one in patterns
        ]
        self._expected = f"a line like {quote(pictures[0])}"
        self._todo = "correct decode.pattern, or what the sender writes"
        if decode.preset is not None:
            self._todo = f"set the instrument as docs/device_toml.md says of {decode.preset}"
        names = list(compiled.fields)
        for field, purpose in bound_fields(decode, channels).items():
            if field not in compiled.fields:
                raise _refusal(field, purpose, f"fields {quote_names(names)} in the pattern", nearest(field, names))
        for name, binding in channels.items():
            if decode.preset is not None and binding.field == "mass" and binding.unit_field != "unit":
                raise ConfigurationError(
                    subject=f"channel {name!r}, unit_field", found=repr(binding.unit_field), expected="'unit'",
                    todo='write unit_field = "unit" beside unit: its unit may be switched on the panel',
                )  # fmt: skip
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
        if "[" in text and self._looks_for_brackets:
            whole = _UNVERIFIED.sub("" if self._unverified == "drop" else r"\1", text)
            if whole != text:
                return self._read_whole(whole, text)
        return self._read(text)

    def _read(self, text: str) -> Reading | Rejection:
        match = self._match(text)
        if match is None:
            for other in self._others:
                match = other(text)
                if match is not None:
                    return self._assemble(match.groups())
            return self._refuse(text)
        return self._assemble(match.groups())

    def _read_whole(self, whole: str, text: str) -> Reading | Rejection:
        """Read a line whose brackets were taken away; without them it may also say that there is no weight."""
        read = self._read(whole)
        if self._unverified != "refuse" or type(read) is Rejection:
            return read
        return Rejection(
            "unverified", "instrument", f"digits in brackets: {quote(text)}", "a value that is verified as a whole",
            'set decode.unverified_digits to "keep" or "drop" where that is allowed',
        )  # fmt: skip

    def _refuse(self, text: str) -> Rejection:
        for match, why in self._no_values:
            if match(text) is not None:
                return why._replace(found=f"{why.found}: {quote(text)}")
        if text in self._not_understood:
            found = f"{quote(text)}: it did not understand what it was sent"
            return Rejection("no_match", "line", found, self._expected, _CORRECT_QUESTION)
        return Rejection("no_match", "line", quote(text), self._expected, self._todo)


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
