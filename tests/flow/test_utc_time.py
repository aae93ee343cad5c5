import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.utc_time import utc_text

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_738_105_200 * SECOND + 250_000_000, "2025-01-28T23:00:00.25Z"),
        (1_738_105_199 * SECOND, "2025-01-28T22:59:59Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
        (-62_135_596_800 * SECOND, "0001-01-01T00:00:00Z"),
    ],
)
def test_writes_the_time_exactly(time_ns, text):
    assert utc_text(time_ns) == text


@given(st.integers(-(2**63), 2**63))
def test_reads_back_to_the_nanosecond(time_ns):
    text = utc_text(time_ns)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z", text)
    whole, _, fraction = text[:-1].partition(".")
    seconds = (datetime.fromisoformat(whole + "Z") - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    assert seconds * SECOND + int(fraction.ljust(9, "0")) == time_ns


def test_a_year_beyond_9999_is_refused():
    with pytest.raises((ValueError, OverflowError)):
        utc_text(400_000_000_000 * SECOND)
