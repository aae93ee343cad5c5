"""One line of separated cells -> one Reading; quotes as in RFC 4180, and it never guesses which column is which."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.assemble import Assemble, Conversions, bad_encoding, bound_fields, make_assemble
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import CsvDecode, DecimalMark
from edge_runtime.spec.reading import Reading, Rejection

_MOST_COLUMNS = 4096
"""Of a header; a wider one is no header but a flood of separators."""

# The framing bounds a line; a quoted cell beside a picture in base64 must not be stopped by csv's own 131,072 characters.
csv.field_size_limit(16_777_216)

_SEPARATORS = (",", ";", "\t", "|")
"""Those that senders use."""

_BYTE_ORDER_MARK = "\ufeff"


class CsvDecoder(Decoder):
    """Reads rows; in header mode the columns are those of the last header seen."""

    def __init__(
        self, decode: CsvDecode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles]
    ) -> None:
        """Bind fixed columns at once; raises ConfigurationError where a bound field is not among them."""
        self._decode = decode
        self._channels = channels
        self._files = files
        self._encoding = decode.encoding
        self._separator = decode.separator
        self._comment = decode.comment
        self._fields = bound_fields(decode, channels)
        for name, binding in channels.items():
            if binding.read == "list" or binding.grid_field is not None:
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found=f"{binding.read!r}", expected="no list and no grid in csv",
                    todo="read = 'columns' with count, or let the sender write JSON",
                )  # fmt: skip
            if binding.read == "numeric_text":
                raise ConfigurationError(
                    subject=f"channel {name!r}, read", found="'numeric_text'", expected="'number' in csv",
                    todo="leave it out: every cell is a text",
                )  # fmt: skip
        self._number = make_number(decode.missing, decode.decimal)
        self._columns: tuple[str, ...] | None = None
        self._count = 0
        self._assemble: Assemble | None = None
        self._assemble_plain: Assemble | None = None
        if decode.columns != "header":
            self._bind_fixed(decode.columns)

    def decode(self, frame: bytes) -> Reading | Rejection | None:  # noqa: PLR0911 (one exit per way to be no row)
        """Read one line; ``None`` for a header, a comment or a blank line."""
        try:
            text = frame.decode(self._encoding)
        except UnicodeDecodeError as error:
            return bad_encoding(frame, self._encoding, error)
        if text[:1] == _BYTE_ORDER_MARK:
            text = text[1:]
        if not text or text.isspace() or (self._comment is not None and text.lstrip().startswith(self._comment)):
            return None
        if self._assemble is None or self._columns is None:
            return self._seek_header(text)
        if '"' not in text:
            cells = text.split(self._separator, self._count)
        else:
            quoted = self._split_quoted(text)
            if isinstance(quoted, Rejection):
                return quoted
            cells = quoted
        if len(cells) != self._count:
            return self._not_a_row(text, self._wrong_count(text))
        if cells[0] == self._columns[0] and self._is_header(cells):  # the names of a spectrum's columns are numbers
            return None
        # What makes a cell no number although float() would take it is looked for once a row, not once a cell.
        is_plain = self._assemble_plain is not None and text.isascii() and "_" not in text
        result = self._assemble_plain(cells) if is_plain else self._assemble(cells)  # type: ignore[misc] # is_plain says it
        return result if type(result) is Reading else self._not_a_row(text, result)  # type: ignore[arg-type]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns in force, or ``None`` before a header."""
        return self._columns

    def restore_columns(self, columns: tuple[str, ...] | None) -> None:
        """Take up a header of a former run, or wait for one; with a fixed list nothing is done."""
        if self._decode.columns != "header":
            return
        if columns is None:
            self._columns = self._assemble = self._assemble_plain = None
        else:
            self._bind(columns)

    def _bind_fixed(self, columns: tuple[str, ...]) -> None:
        refused = self._bind(columns)
        if refused is not None:
            raise ConfigurationError(
                subject=refused.subject, found=refused.found, expected=refused.expected, todo=refused.todo
            )

    def _bind(self, columns: tuple[str, ...]) -> Rejection | None:
        """Bind by name, or say what is wrong and leave nothing bound: half a binding would mix up columns."""
        self._columns = self._assemble = self._assemble_plain = None
        index = {name: place for place, name in enumerate(columns)}
        for field, purpose in self._fields.items():
            if columns.count(field) == 1:
                continue
            subject = f"column {field!r} ({purpose})"
            found = f"columns {quote_names(columns)}"
            if field in index:
                return Rejection("wrong_columns", subject, f"it twice in {found}", "it once")
            return Rejection("wrong_columns", subject, found, "it among the columns", self._instead(field, columns))
        for binding in self._channels.values():
            behind = len(columns) - index[binding.field]
            if binding.count is not None and behind < binding.count:
                subject = f"column {binding.field!r}"
                return Rejection("wrong_columns", subject, f"{behind} columns from it on", f"{binding.count} of them")
        self._count = len(columns)
        conversions = Conversions(
            place="column",
            number=self._number,
            text=str.strip,
            carried=str.strip,
            number_expected="a number" if self._decode.decimal == "." else "a number with a decimal comma",
            word=make_word(self._decode.missing),
            columns_of=lambda field, count: itemgetter(slice(index[field], index[field] + count)),
            hint=_hint,
        )
        made_with = partial(make_assemble, self._decode, self._channels, lambda field: itemgetter(index[field]))
        self._assemble = made_with(conversions, self._files)
        if self._decode.decimal == ".":
            plain = conversions._replace(number=_make_plain_number(self._decode.missing))
            self._assemble_plain = made_with(plain, self._files)
        self._columns = columns
        return None

    def _instead(self, field: str, columns: tuple[str, ...]) -> str:
        """What to do about a header without ``field``."""
        if self._decode.columns != "header":
            return nearest(field, columns) or "add it to decode.columns, which name every cell of a row in order"
        other = _other_separator(self._separator.join(columns), self._separator, lambda cells: field in cells)
        if not other and not any(cell[:1].isalpha() for cell in columns):
            return "this line is no header: where the sender gives none, list the names in order in decode.columns"
        return other or nearest(field, columns) or "correct the field's name in the binding or the sender's header"

    def _seek_header(self, text: str) -> Rejection | None:
        cells = self._split_header(text)
        return cells if isinstance(cells, Rejection) else self._bind(cells)

    def _not_a_row(self, text: str, refused: Rejection) -> Rejection | None:
        """Take a line that is no row for a header: the same again, or one with other columns after a restart.

        It is one if at least half of the bound fields are among its cells.
        """
        cells = self._split_header(text)
        if isinstance(cells, Rejection):
            return refused
        if cells == self._columns:
            return None
        known = sum(field in self._fields for field in set(cells))
        if self._decode.columns == "header" and 2 * known >= len(self._fields):
            return self._bind(cells)
        return refused

    def _split_header(self, text: str) -> tuple[str, ...] | Rejection:
        cells = self._split_quoted(text) if '"' in text else text.split(self._separator, _MOST_COLUMNS)
        if isinstance(cells, Rejection):
            return cells
        if len(cells) > _MOST_COLUMNS:
            return Rejection("wrong_columns", "CSV header", quote(text), f"at most {_MOST_COLUMNS} columns")
        return _stripped(cells)

    def _is_header(self, cells: list[str]) -> bool:
        return _stripped(cells) == self._columns

    def _split_quoted(self, text: str) -> list[str] | Rejection:
        blank_after_separator = self._separator == ","
        try:
            rows = list(
                csv.reader([text], delimiter=self._separator, strict=True, skipinitialspace=blank_after_separator)
            )
        except csv.Error as error:
            return Rejection("wrong_columns", "CSV row", f"{quote(text)} ({error})", "cells quoted as RFC 4180 says")
        return rows[0] if rows else []

    def _wrong_count(self, text: str) -> Rejection:
        cells = self._split_quoted(text) if '"' in text else None
        count = len(cells) if isinstance(cells, list) else text.count(self._separator) + 1
        return Rejection(
            "wrong_columns",
            "CSV row",
            f"{count} cells in {quote(text)}",
            f"{self._count} cells, separated by {self._separator!r}",
            _other_separator(text, self._separator, lambda cells: len(cells) == self._count)
            or ("" if self._decode.columns == "header" else "decode.columns must name every cell, bound or not"),
        )


def _other_separator(text: str, separator: str, fits: Callable[[tuple[str, ...]], bool]) -> str:
    """Say by which other separator ``text`` would fall into cells that fit, or nothing."""
    for other in _SEPARATORS:
        if other != separator and fits(_stripped(text.split(other, _MOST_COLUMNS))):
            return f"its cells seem to stand between {other!r}: set decode.separator = {json.dumps(other)}"
    return ""


def _stripped(cells: list[str]) -> tuple[str, ...]:
    # From a list: one made from a generator is cut to size, and CPython keeps up to 2000 such scraps of each length.
    return tuple([cell.strip() for cell in cells])


def make_word(missing_texts: Sequence[str]) -> Callable[[str], str | None]:
    """Give the reader of a cell that holds a word; ``None`` for one of ``missing_texts``."""
    missing = frozenset(text.strip() for text in missing_texts)

    def word(raw: str) -> str | None:
        cell = raw.strip()
        return None if cell in missing else cell

    return word


def make_number(missing_texts: Sequence[str], decimal: DecimalMark) -> Callable[[str], float | None]:
    """Give the reader of a cell that holds a number: ``None`` for one of ``missing_texts``, ValueError for no number."""
    missing = frozenset(text.strip() for text in missing_texts)
    comma = decimal == ","

    def number(raw: str) -> float | None:
        cell = raw.strip()
        if cell in missing:
            return None
        # float() also takes "1_000" and digits of other scripts, which no instrument means as numbers.
        if "_" in cell or not cell.isascii():
            raise ValueError
        if comma:
            if "." in cell:
                raise ValueError
            cell = cell.replace(",", ".")
        return float(cell)

    return number


def _make_plain_number(missing_texts: Sequence[str]) -> Callable[[str], float | None]:
    """Do the same for a cell in ASCII without an underscore, with a decimal point."""
    missing = frozenset(text.strip() for text in missing_texts)

    def number(raw: str) -> float | None:
        cell = raw.strip()
        return None if cell in missing else float(cell)

    return number


def _hint(raw: object, expected: str) -> str:
    """What to do about a cell that is no number, for who wrote the device file."""
    if not isinstance(raw, str):
        return ""
    if not any(one.isdigit() for one in raw):
        return "if it means that there is no value, list it in decode.missing"
    if "," in raw and "comma" not in expected:
        return 'if its comma is the decimal mark, set decode.decimal = ","'
    return "look at what the sender writes there: a number alone, its unit stands in device.toml"
