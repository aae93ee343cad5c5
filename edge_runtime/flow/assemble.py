"""Named raw fields of one frame -> a Reading or why not, the same for every format; it knows no format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edge_runtime.flow.field_value import packed, row_list
from edge_runtime.flow.number_file import FileRefused, NumberFiles, named_file
from edge_runtime.flow.payload_time import make_time_reader
from edge_runtime.flow.quoting import quote
from edge_runtime.spec.binding import ChannelBinding, Read
from edge_runtime.spec.payload import CsvDecode, DecimalMark, Decode, PatternDecode
from edge_runtime.spec.reading import ABSENT, Gridded, Reading, Rejection, Value

Row = Any
"""One frame taken apart, as its format does it: a list of cells, an object, the groups of a match."""

Getter = Callable[[Row], Any]
"""Takes one field out of a row; ``None`` where it is absent."""

Assemble = Callable[[Row], Reading | Rejection]

_SINGLE: frozenset[Read] = frozenset({"number", "numeric_text"})

Scalar = str | float | int | bool | None


class Conversions(NamedTuple):
    """How one format reads a raw field.

    ``number`` gives a float, ``None`` for missing, or raises ValueError; ``text`` gives a text without blanks around
    it, ``None`` for absent or not a text; ``carried`` gives what passes through. ``place`` is what a person calls it.
    ``word`` gives a category's word, a base64 text or a file's name, ``None`` for missing, or raises ValueError;
    ``numeric_text`` gives the number that a text holds, ``None`` for missing, or raises ValueError, where the format tells
    numbers from texts;
    ``columns_of`` gives neighbouring cells from a field on, where the format has such; ``array`` reads a list of numbers;
    ``angle`` reads two neighbouring cells, degrees and minutes and a hemisphere, where the format has them;
    ``has`` tells a field that is not there from one without a value, where the format has such;
    ``hint`` says what to do about a raw field that is not what was expected, in words.
    """

    place: str
    number: Callable[[Any], float | None]
    text: Callable[[Any], str | None]
    carried: Callable[[Any], Scalar]
    number_expected: str
    word: Callable[[Any], str | None]
    columns_of: Callable[[str, int], Getter] | None = None
    numeric_text: Callable[[Any], float | None] | None = None
    array: Callable[[Any], Value] = row_list
    angle: Callable[[Sequence[Any]], float | None] | None = None
    hint: Callable[[Any, str], str] = lambda _raw, _expected: ""
    has: Callable[[Row, str], bool] | None = None


class _Part(NamedTuple):
    """One field that makes a channel's value, or its grid: how to get, read and show it, and what it should be.

    A file says itself what is wrong with it, and is never read again to find that out: it may be another by then.
    ``written`` is set for a single number.
    """

    field: str
    get: Getter
    read: Callable[[Any], Value]
    expected: str
    shown: Callable[[Any], str] = quote
    is_file: bool = False
    written: Read | None = None


def bound_fields(decode: Decode, channels: Mapping[str, ChannelBinding]) -> dict[str, str]:
    """Every field that has to be there -> what it is for; the first use of a field names it."""
    fields: dict[str, str] = {}
    for name, binding in channels.items():
        fields.setdefault(binding.field, f"channel {name!r}")
        if binding.unit_field is not None:
            fields.setdefault(binding.unit_field, f"the unit of channel {name!r}")
        if binding.grid_field is not None:
            fields.setdefault(binding.grid_field, f"the grid of channel {name!r}")
    if decode.time is not None:
        fields.setdefault(decode.time.field, "time")
    if decode.stream is not None:
        fields.setdefault(decode.stream, "stream")
    if decode.status is not None:
        fields.setdefault(decode.status.field, "status")
    for field in decode.carry:
        fields.setdefault(field, "carry")
    return fields


def make_assemble(
    decode: Decode,
    channels: Mapping[str, ChannelBinding],
    getter_of: Callable[[str], Getter],
    conversions: Conversions,
    files: Mapping[str, NumberFiles],
) -> Assemble:
    """Resolve every field once; the result takes one row, in the order status, values, time, stream, units, carry."""
    number, text, carried = conversions.number, conversions.text, conversions.carried
    getters = [getter_of(binding.field) for binding in channels.values()]
    # Plain numbers, as most are: one tight loop. Other single numbers have one a little less tight.
    tells_absent = conversions.has is not None and any(one.when_absent == "last" for one in channels.values())
    are_numbers = not tells_absent and all(one.read == "number" and not one.missing_values for one in channels.values())
    are_single = all(binding.read in _SINGLE for binding in channels.values())
    bound = [_parts(binding, getter_of, conversions, files.get(name)) for name, binding in channels.items()]
    parts = [(_or_absent(part, conversions), grid) for part, grid in bound] if tells_absent else bound
    singles = [(part.get, part.read) for part, _ in parts]
    read_units = _make_units(channels, getter_of, text)
    made = (_make_status(decode, getter_of, conversions), _make_unit_check(channels, getter_of, text))
    checks = [check for check in made if check is not None]
    get_time = None if decode.time is None else getter_of(decode.time.field)
    read_time = None if decode.time is None else make_time_reader(decode.time, _decimal(decode))
    get_stream = None if decode.stream is None else getter_of(decode.stream)
    carries = [(field, getter_of(field)) for field in decode.carry]

    def assemble(row: Row) -> Reading | Rejection:
        for check in checks:
            refused = check(row)
            if refused is not None:
                return refused
        try:
            values = tuple(
                [number(get(row)) for get in getters]
                if are_numbers
                else [read(get(row)) for get, read in singles]
                if are_single
                else [_read(row, *one) for one in parts]
            )
        except FileRefused as error:
            return Rejection(error.reason, error.subject, error.found, error.expected, error.todo)
        except ValueError:
            return _refuse_value(row, parts, conversions)
        time_ns: int | Rejection | None = None
        if read_time is not None and get_time is not None:
            time_ns = read_time(get_time(row))
            if type(time_ns) is Rejection:
                return time_ns
        stream: str | None = ""
        if get_stream is not None:
            stream = text(get_stream(row))
            if not stream:
                subject = f"{conversions.place} {decode.stream!r}"
                return Rejection("missing_field", subject, _found(get_stream(row)), "the name of the stream")
        units = None if read_units is None else read_units(row)
        carry = tuple([(field, carried(get(row))) for field, get in carries]) if carries else ()
        return Reading(values, time_ns, stream, units, carry)  # type: ignore[arg-type]  # a Rejection has left above

    return assemble


def _parts(
    binding: ChannelBinding, getter_of: Callable[[str], Getter], conversions: Conversions, files: NumberFiles | None
) -> tuple[_Part, _Part | None]:
    """The field of a channel's value and that of its grid, if it brings one."""
    field, get = binding.field, getter_of(binding.field)
    grid = None
    if binding.grid_field is not None:
        grid = _Part(binding.grid_field, getter_of(binding.grid_field), row_list, "an array of numbers, its grid")
    if binding.read == "text":
        return _Part(field, get, conversions.word, "a word"), grid
    if binding.read == "list":
        return _Part(field, get, conversions.array, "an array of numbers"), grid
    if binding.read == "base64" and binding.dtype is not None:
        expected = f"base64 of whole {binding.dtype} numbers"
        return _Part(field, get, packed(binding.dtype, conversions.word), expected), grid
    if binding.read == "file" and binding.dtype is not None:
        if files is None:
            raise TypeError(f"field {field!r} names files, and nobody reads them")
        read = named_file(f"{conversions.place} {field!r}", binding.dtype, files, conversions.word)
        return _Part(field, get, read, "the name of a file", is_file=True), grid
    if conversions.columns_of is not None and binding.read in {"columns", "degrees_minutes"}:
        return _of_neighbours(binding, conversions.columns_of, conversions), grid
    return _single(binding, get, conversions), grid


def _of_neighbours(
    binding: ChannelBinding, columns_of: Callable[[str, int], Getter], conversions: Conversions
) -> _Part:
    """A value that neighbouring cells make: an array, or an angle and its hemisphere."""
    count = binding.count or 2
    expected = f"{conversions.number_expected} in each of {count} columns"
    read: Callable[[Any], Value] = _cells(conversions.number)
    if binding.read == "degrees_minutes" and conversions.angle is not None:
        expected, read = "ddmm.mmmm,N or dddmm.mmmm,E, or S or W", conversions.angle
    return _Part(binding.field, columns_of(binding.field, count), read, expected, lambda raw: quote(",".join(raw)))


def _single(binding: ChannelBinding, get: Getter, conversions: Conversions) -> _Part:
    number, expected = conversions.number, conversions.number_expected
    if binding.read == "numeric_text" and conversions.numeric_text is not None:
        number, expected = conversions.numeric_text, "a number written as text"
    return _Part(binding.field, get, _without(binding.missing_values, number), expected, written=binding.read)


def _without(missing: Sequence[float], number: Callable[[Any], float | None]) -> Callable[[Any], float | None]:
    """Read as ``number`` does, but nothing where it reads one of ``missing``."""
    if not missing:
        return number
    nothing = frozenset(missing)

    def read(raw: Any) -> float | None:
        value = number(raw)
        return None if value in nothing else value

    return read


def _or_absent(part: _Part, conversions: Conversions) -> _Part:
    """The same, but ABSENT where a row does not have the field."""
    get, read, field, has = part.get, part.read, part.field, conversions.has

    def get_or_absent(row: Row) -> Any:
        raw = get(row)
        return ABSENT if raw is None and has is not None and not has(row, field) else raw

    return part._replace(get=get_or_absent, read=lambda raw: raw if raw is ABSENT else read(raw))


def _cells(number: Callable[[Any], float | None]) -> Callable[[Sequence[Any]], list[float] | None]:
    def read(cells: Sequence[Any]) -> list[float] | None:
        numbers = [one for one in map(number, cells) if one is not None]
        return numbers if len(numbers) == len(cells) else None  # an array is there as a whole or not at all

    return read


def _read(row: Row, part: _Part, grid: _Part | None) -> Value:
    value = part.read(part.get(row))
    if grid is None or value is None or value is ABSENT:
        return value
    places = grid.read(grid.get(row))
    if places is None:
        raise ValueError
    return Gridded(value, places)


def _refuse_value(row: Row, parts: Sequence[tuple[_Part, _Part | None]], conversions: Conversions) -> Rejection:
    """Find the field that cannot be read; one of them was refused a moment ago."""
    judged = [(one, pair[1]) for pair in parts for one in pair if one is not None and not one.is_file]
    refused = [one for one, grid in judged if not _is_readable(row, one, grid)]
    part = refused[0]
    raw = part.get(row)
    subject = f"{conversions.place} {part.field!r}"
    if part.written == "numeric_text" and type(raw) in {int, float}:
        return Rejection(
            "type_changed", subject, f"the number {quote(raw)}", part.expected,
            'if the sender now writes numbers as such, leave read = "numeric_text" out',
        )  # fmt: skip
    if part.written == "number" and _holds_number(raw, conversions):
        return Rejection(
            "type_changed", subject, f"{quote(raw)}, a number written as text", part.expected,
            'let the sender write it without quotes or, where it never will, set read = "numeric_text"',
        )  # fmt: skip
    return Rejection("not_a_number", subject, part.shown(raw), part.expected, conversions.hint(raw, part.expected))


def _holds_number(raw: Any, conversions: Conversions) -> bool:
    try:
        return type(raw) is str and conversions.numeric_text is not None and conversions.numeric_text(raw) is not None
    except ValueError:
        return False


def _is_readable(row: Row, part: _Part, grid: _Part | None) -> bool:
    try:
        return part.read(part.get(row)) is not None or part is not grid
    except ValueError:
        return False


def _found(raw: object) -> str:
    return "nothing" if raw is None else quote(raw)


def bad_encoding(frame: bytes, encoding: str, error: UnicodeDecodeError) -> Rejection:
    """Say where ``frame`` stops being text."""
    found = f"{quote(frame[max(0, error.start - 20) :])} at byte {error.start}"
    todo = "check the line's speed and parity, or set encoding"
    return Rejection("bad_encoding", "line", found, f"text in {encoding}", todo)


def _decimal(decode: Decode) -> DecimalMark:
    return decode.decimal if isinstance(decode, CsvDecode | PatternDecode) else "."


def _make_units(
    channels: Mapping[str, ChannelBinding], getter_of: Callable[[str], Getter], text: Callable[[Any], str | None]
) -> Callable[[Row], tuple[str | None, ...]] | None:
    fields = [None if binding.unit is not None else binding.unit_field for binding in channels.values()]
    if not any(fields):
        return None
    getters = [None if field is None else getter_of(field) for field in fields]

    def read_units(row: Row) -> tuple[str | None, ...]:
        return tuple([None if get is None else text(get(row)) or None for get in getters])

    return read_units


def _make_unit_check(
    channels: Mapping[str, ChannelBinding], getter_of: Callable[[str], Getter], text: Callable[[Any], str | None]
) -> Callable[[Row], Rejection | None] | None:
    """Where a binding has both unit and unit_field, they must say the same in the same spelling."""
    checks = [
        (name, getter_of(one.unit_field), one.unit)
        for name, one in channels.items()
        if one.unit is not None and one.unit_field is not None
    ]
    if not checks:
        return None

    def check_units(row: Row) -> Rejection | None:
        for name, get, unit in checks:
            raw = get(row)
            if text(raw) != unit:
                todo = "set the instrument back to it on its panel, or leave unit out to have each unit converted"
                return Rejection("other_unit", f"unit of channel {name!r}", _found(raw), quote(unit), todo)
        return None

    return check_units


def _make_status(
    decode: Decode, getter_of: Callable[[str], Getter], conversions: Conversions
) -> Callable[[Row], Rejection | None] | None:
    status = decode.status
    if status is None:
        return None
    get, text = getter_of(status.field), conversions.text
    accept = frozenset(word.strip() for word in status.accept)
    subject = f"{conversions.place} {status.field!r}"
    expected = "one of " + ", ".join(repr(word) for word in status.accept)

    def check_status(row: Row) -> Rejection | None:
        raw = get(row)
        if text(raw) in accept:
            return None
        return Rejection("bad_status", subject, _found(raw), expected)

    return check_status
