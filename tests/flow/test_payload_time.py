"""Times to whole nanoseconds, exactly, and a reason for each that is none."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.payload_time import make_time_reader
from edge_runtime.spec.payload import TimeField
from edge_runtime.spec.reading import Rejection

NOON = 1_738_065_600_000_000_000  # 2025-01-28T12:00:00Z


def read(value: object, time_format: str = "iso8601", offset: int | None = None, decimal: str = ".") -> object:
    time = TimeField(field="ts", format=time_format, utc_offset_minutes=offset)
    return make_time_reader(time, decimal)(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "after_noon_ns"),
    [
        ("2025-01-28T12:00:00Z", 0),
        (" 2025-01-28 12:00:00Z ", 0),
        ("2025-01-28t12:00:00z", 0),
        ("2025-01-28T12:00:00z", 0),
        ("20250128T120000Z", 0),
        ("2025-01-28T14:30:00+02:30", 0),
        ("2025-01-28T12:00Z", 0),
        ("2025-01-28T12:00:00.5Z", 500_000_000),
        ("2025-01-28T12:00:00,5Z", 500_000_000),
        ("2025-01-28T12:00:00.123456Z", 123_456_000),
        ("2025-01-28T12:00:00.1234567Z", 123_456_700),
        ("2025-01-28T12:00:00.123456789Z", 123_456_789),
        ("2025-01-28T12:00:00.123456789999Z", 123_456_789),
        ("2025-01-28T12:00:00.123456789+00:00", 123_456_789),
    ],
)
def test_iso_8601(text: str, after_noon_ns: int) -> None:
    assert read(text) == NOON + after_noon_ns


@pytest.mark.parametrize(
    ("value", "time_format", "expected"),
    [
        (1700000000, "unix_s", 1_700_000_000_000_000_000),
        (1700000000.123456, "unix_s", 1_700_000_000_123_456_000),
        ("1700000000.123456789", "unix_s", 1_700_000_000_123_456_789),
        ("1700000000.1234567899", "unix_s", 1_700_000_000_123_456_789),
        ("1700000000.", "unix_s", 1_700_000_000_000_000_000),
        ("-1.5", "unix_s", -1_500_000_000),
        ("1700000000123", "unix_ms", 1_700_000_000_123_000_000),
        ("1700000000123.25", "unix_ms", 1_700_000_000_123_250_000),
        (1700000000123456, "unix_us", 1_700_000_000_123_456_000),
        (1700000000123456789, "unix_ns", 1_700_000_000_123_456_789),
        ("1700000000123456789.9", "unix_ns", 1_700_000_000_123_456_789),
        (1.7e18, "unix_ns", 1_700_000_000_000_000_000),
        ("28.01.2025 12:00:00", "%d.%m.%Y %H:%M:%S", NOON - 3_600_000_000_000),
        ("2025-01-28 13:00+0100", "%Y-%m-%d %H:%M%z", NOON),
    ],
)
def test_numbers_and_patterns(value: object, time_format: str, expected: int) -> None:
    assert read(value, time_format, 60 if time_format[0] == "%" else None) == expected


def test_a_decimal_comma_counts_for_times_too() -> None:
    assert read("1700000000,5", "unix_s", decimal=",") == 1_700_000_000_500_000_000
    assert isinstance(read("1700000000.5", "unix_s", decimal=","), Rejection)
    assert isinstance(read("1700000000,5", "unix_s"), Rejection)


def test_a_time_without_zone_is_refused_unless_its_offset_is_declared() -> None:
    rejection = read("2025-01-28T12:00:00")
    assert str(rejection) == (
        "time field 'ts': found '2025-01-28T12:00:00', which names no zone; expected a time with its zone;"
        " let the sender add it, or set utc_offset_minutes in decode.time: 0 is UTC, 60 is UTC+1"
    )
    assert read("2025-01-28T07:00:00", offset=-300) == NOON
    assert read("2025-01-28T12:00:00Z", offset=-300) == NOON
    assert "names no zone" in str(read("28.01.2025", "%d.%m.%Y"))


def test_a_refused_time_says_which_key_to_correct() -> None:
    assert "found nothing; expected" in str(read(None))
    assert str(read(None)).endswith('or set decode.time.when_bad = "arrival": then the time of arrival counts')
    assert str(read(1700000000)).endswith("correct decode.time.format in device.toml")


@pytest.mark.parametrize(
    ("value", "time_format"),
    [
        (None, "iso8601"),
        (True, "unix_s"),
        (1700000000, "iso8601"),
        ("", "iso8601"),
        ("2025-01-28", "iso8601"),
        ("2025-01-28X12:00:00Z", "iso8601"),
        ("2025-13-28T12:00:00Z", "iso8601"),
        ("2025-01-28T12:00:60Z", "iso8601"),
        ("1500-01-28T12:00:00Z", "iso8601"),
        ("2262-04-12T00:00:00Z", "iso8601"),
        ("9999-12-31T23:59:59-23:00", "iso8601"),
        ("0001-01-01T00:00:00+23:00", "iso8601"),
        ("2025-01-28T12:00:00." + "0" * 500 + "Z", "iso8601"),
        ("nan", "unix_s"),
        ("1e9", "unix_s"),
        ("1_700_000_000", "unix_s"),
        ("9" * 5000, "unix_ns"),
        (10**4000, "unix_s"),
        (float("inf"), "unix_s"),
        (float("nan"), "unix_s"),
        (1e308, "unix_s"),
        (9223372037, "unix_s"),
        ([], "unix_s"),
        ("28.01.2025", "%Y-%m-%d"),
        (20250128, "%Y%m%d"),
    ],
)
def test_what_is_no_time(value: object, time_format: str) -> None:
    rejection = read(value, time_format, 0)
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "bad_time"
    assert len(str(rejection)) < 250


@given(st.datetimes(min_value=dt.datetime(1678, 1, 1), max_value=dt.datetime(2262, 1, 1), timezones=st.just(dt.UTC)))  # noqa: DTZ001
def test_iso_8601_agrees_with_whole_number_arithmetic(moment: dt.datetime) -> None:
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert read(moment.isoformat()) == since // dt.timedelta(microseconds=1) * 1000


@given(st.integers(-(2**63), 2**63 - 1))
def test_text_in_seconds_is_exact(time_ns: int) -> None:
    sign, size = ("-" if time_ns < 0 else ""), abs(time_ns)
    assert read(f"{sign}{size // 10**9}.{size % 10**9:09d}", "unix_s") == time_ns


@given(st.text(max_size=40))
def test_no_text_raises(text: str) -> None:
    for time_format in ("iso8601", "unix_s", "%d.%m.%Y %H:%M"):
        assert isinstance(read(text, time_format, 0), int | Rejection)


def test_a_clock_that_was_never_set_is_told_as_that() -> None:
    """arendst/Tasmota#2571, #4243: valid data stamped 1970 until the network time came."""
    time = TimeField(field="Time", format="iso8601", utc_offset_minutes=0, not_before=dt.date(2020, 1, 1))
    reader = make_time_reader(time, ".")
    found = reader("1970-01-01T00:00:03")
    assert isinstance(found, Rejection)
    assert str(found) == (
        "time field 'Time': found '1970-01-01T00:00:03'; expected an ISO 8601 date and time, a time between 2020-01-01"
        " and 2262-04-11; the device does not know the time yet: let it ask for it"
    )
    assert reader("2020-01-01T00:00:00") == 1_577_836_800_000_000_000
    assert isinstance(reader("2019-12-31T23:59:59.999999999"), Rejection)


@pytest.mark.parametrize("value", ["1970-01-01T00:00:03", "soon", None, 5])
def test_by_declared_policy_a_bad_time_is_that_of_arrival(value: object) -> None:
    time = TimeField(
        field="ts", format="iso8601", utc_offset_minutes=0, not_before=dt.date(2020, 1, 1), when_bad="arrival"
    )
    assert make_time_reader(time, ".")(value) is None
    assert make_time_reader(time, ".")("2025-01-28T12:00:00") == NOON


@given(
    st.from_regex(r"[-0-9W:]{10}T[0-9:.Z+-]{8}Z", fullmatch=True)
    | st.integers(-8_000_000_000, 9_000_000_000).map(
        lambda second: f"{dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}Z"
    )
)
def test_the_usual_spelling_is_read_as_the_others_are(text: str) -> None:
    read = make_time_reader(TimeField(field="t", format="iso8601"), ".")
    usual, other = read(text), read(f" {text}")
    assert usual == other or (isinstance(usual, Rejection) and isinstance(other, Rejection))
