"""A payload's own time -> Unix nanoseconds in whole numbers; it guesses no zone and reads no clock."""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal

from edge_runtime.flow.quoting import quote
from edge_runtime.spec.payload import DecimalMark, TimeField
from edge_runtime.spec.reading import Rejection

TimeReader = Callable[[object], int | Rejection | None]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DIGITS = {"unix_s": 9, "unix_ms": 6, "unix_us": 3, "unix_ns": 0}
_UNIX = re.compile(r"([+-]?+)([0-9]{1,20}+)(?:\.([0-9]*+))?+")
_BELOW_MICROSECONDS = re.compile(r"[T ][0-9:]++[.,][0-9]{6}([0-9]{1,3})")
_DATE_AND_TIME = re.compile(r"[-0-9W]{8,10}[T ][0-9]")
_LONGEST_TIME = 64
_EARLIEST_NS, _LATEST_NS = -(1 << 63), (1 << 63) - 1  # what 64 bits of a journal hold


def make_time_reader(time: TimeField, decimal: DecimalMark) -> TimeReader:
    """Give a reader of one time as the payload holds it: a text, a number, or ``None`` where it is absent.

    The reader never raises; what it cannot read is a Rejection ``bad_time``, or with ``when_bad = "arrival"`` None, no
    time of its own. Digits beyond the nanosecond are cut off.
    """
    read_time = _make_reader(time, decimal)
    if time.when_bad == "refuse":
        return read_time

    def read_or_arrival(value: object) -> int | None:
        time_ns = read_time(value)
        return time_ns if type(time_ns) is int else None

    return read_or_arrival


def _make_reader(time: TimeField, decimal: DecimalMark) -> Callable[[object], int | Rejection]:
    earliest_ns, outside = _EARLIEST_NS, "a time between 1677-09-21 and 2262-04-11"
    if time.not_before is not None:
        earliest_ns = _unix_ns(dt.datetime.combine(time.not_before, dt.time(), dt.UTC))
        outside = f"a time between {time.not_before} and 2262-04-11"
    subject = f"time field {time.field!r}"
    if time.format in _DIGITS:
        read = _make_unix(time.format, decimal)
        expected = f"a number of {time.format}, {outside}"
    elif time.format == "iso8601":
        read = _make_iso(time.utc_offset_minutes)
        expected = f"an ISO 8601 date and time, {outside}"
    else:
        read = _make_pattern(time.format, time.utc_offset_minutes)
        expected = f"a time written as {time.format!r}, {outside}"

    def read_time(value: object) -> int | Rejection:
        try:
            time_ns = read(value)
        except _NoZoneError:
            return Rejection(
                "bad_time", subject, f"{quote(value)}, which names no zone", "a time with its zone", _NO_ZONE_TODO
            )
        except (ValueError, OverflowError):
            if value is None:
                return Rejection("bad_time", subject, "nothing", expected, _ABSENT_TODO)
            return Rejection("bad_time", subject, quote(value), expected, "correct decode.time.format in device.toml")
        if earliest_ns <= time_ns <= _LATEST_NS:
            return time_ns
        is_early = time.not_before is not None and time_ns < earliest_ns
        todo = "the device does not know the time yet: let it ask for it" if is_early else ""
        return Rejection("bad_time", subject, quote(value), expected, todo)

    return read_time


_NO_ZONE_TODO = "let the sender add it, or set utc_offset_minutes in decode.time: 0 is UTC, 60 is UTC+1"
_ABSENT_TODO = (
    'correct decode.time.field in device.toml, or set decode.time.when_bad = "arrival": then the time of arrival counts'
)


class _NoZoneError(ValueError):
    """A time without a zone where none is configured."""


def _text(value: object) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST_TIME:
        return value.strip()
    raise ValueError


def _unix_ns(moment: dt.datetime) -> int:
    since = moment - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def _make_zone(utc_offset_minutes: int | None) -> dt.timezone | None:
    return None if utc_offset_minutes is None else dt.timezone(dt.timedelta(minutes=utc_offset_minutes))


def _make_iso(utc_offset_minutes: int | None) -> Callable[[object], int]:
    zone = _make_zone(utc_offset_minutes)
    parse = dt.datetime.fromisoformat
    without_fraction = len("2025-01-28T00:00:00Z")

    def read(value: object) -> int:
        # What most senders write, and nothing else is as long with these two in their places.
        if type(value) is str and len(value) == without_fraction and value[10] == "T" and value[-1] == "Z":
            return _unix_ns(parse(value))
        text = _text(value)
        if not _DATE_AND_TIME.match(text):
            text = text.upper()  # RFC 3339 allows "t" and "z"; fromisoformat alone would take any character for "T"
            if not _DATE_AND_TIME.match(text):
                raise ValueError
        elif text[-1] == "z":
            text = text.upper()
        moment = parse(text)
        if moment.tzinfo is None:
            if zone is None:
                raise _NoZoneError
            moment = moment.replace(tzinfo=zone)
        time_ns = _unix_ns(moment)
        if len(text) > without_fraction:  # fromisoformat cuts off at the microsecond
            below = _BELOW_MICROSECONDS.search(text)
            if below:
                time_ns += int(below[1].ljust(3, "0"))
        return time_ns

    return read


def _make_pattern(pattern: str, utc_offset_minutes: int | None) -> Callable[[object], int]:
    zone = _make_zone(utc_offset_minutes)

    def read(value: object) -> int:
        moment = dt.datetime.strptime(_text(value), pattern)  # noqa: DTZ007 (a missing zone is dealt with below)
        if moment.tzinfo is None:
            if zone is None:
                raise _NoZoneError
            moment = moment.replace(tzinfo=zone)
        return _unix_ns(moment)

    return read


def _make_unix(unit: str, decimal: DecimalMark) -> Callable[[object], int]:
    digits = _DIGITS[unit]
    scale: int = 10**digits

    def read(value: object) -> int:
        if type(value) is int:
            return value * scale
        if type(value) is float:
            # repr() is the shortest text of the number, so what the sender wrote, up to 16 digits, comes back.
            return int(Decimal(repr(value)).scaleb(digits))
        text = _text(value)
        if decimal == ",":
            if "." in text:
                raise ValueError
            text = text.replace(",", ".")
        found = _UNIX.fullmatch(text)
        if found is None:
            raise ValueError
        sign, whole, fraction = found.groups()
        size = int(whole) * scale
        if fraction:
            size += int(fraction[:digits].ljust(digits, "0") or "0")
        return -size if sign == "-" else size

    return read
