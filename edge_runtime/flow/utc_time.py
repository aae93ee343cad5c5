"""Unix nanoseconds as ISO 8601 text in UTC, exact; it reads no clock."""

from datetime import date
from functools import lru_cache

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_NS = 86_400_000_000_000
_SECOND_NS = 1_000_000_000


def utc_text(time_ns: int) -> str:
    """``2025-01-28T23:00:00.25Z``: to the nanosecond, zeros at the fraction's end left out.

    Raises ValueError or OverflowError outside the years 1 to 9999.
    """
    day, rest = divmod(time_ns, _DAY_NS)
    second, fraction = divmod(rest, _SECOND_NS)
    text = f"{_day_text(day)}T{_CLOCK[second // 60]}:{second % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") + "Z" if fraction else text + "Z"


# A stream seldom leaves its day; the clock's 1440 minutes are written once.
_CLOCK = tuple(f"{minute // 60:02}:{minute % 60:02}" for minute in range(1440))


@lru_cache(maxsize=4)
def _day_text(day: int) -> str:
    return date.fromordinal(_EPOCH_DAY + day).isoformat()
