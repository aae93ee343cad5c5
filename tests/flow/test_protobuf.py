"""The wire format against Google's protobuf, and against bytes that are none."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.protobuf import BYTES, VARINT, bytes_field, read_fields, varint_field
from tests.rig import sparkplug_pb


@given(st.integers(0, (1 << 64) - 1), st.text(max_size=300))
def test_what_we_write_google_reads_and_we_read_what_google_writes(number: int, text: str) -> None:
    ours = varint_field(1, number) + bytes_field(4, text)
    theirs = sparkplug_pb.Payload(timestamp=number, uuid=text).SerializeToString()
    assert ours == theirs
    assert list(read_fields(theirs)) == [(1, VARINT, number), (4, BYTES, text.encode())]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert sum(1 for _ in read_fields(data)) <= len(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x08", "a number that is cut short"),
        (b"\x08" + b"\x80" * 20, "a number that is cut short or beyond 64 bits at byte 1"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "beyond 64 bits"),
        (b"\x0a\x05abc", "asks for 5 more"),
        (b"\x0d\x00\x00", "asks for 4 more"),
        (b"\x0b", "wire type 3"),
        (b"\x02\x00", "field number 0"),
        (b"\x0a\xff\xff\xff\xff\x7f", "asks for"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(read_fields(data))
