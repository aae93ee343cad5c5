import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.recording import (
    MAGIC,
    MAX_MESSAGE_BYTES,
    MAX_RECORD_BYTES,
    MESSAGES_MAGIC,
    Record,
    RecordingError,
    RecordingReader,
    encode_chunk,
    encode_message,
)

CHUNKS = [(0, b"a"), (1_760_000_000_000_000_000, b""), (5, b"1 1\n\n"), ((1 << 63) - 1, MAGIC)]
RECORDS = [Record(*chunk) for chunk in CHUNKS]
FILE = MAGIC + b"".join(encode_chunk(*chunk) for chunk in CHUNKS)
MESSAGES = [
    Record(1, b"", topic="a"),
    Record(2, b"\0\n7 1\n", topic="plant/\u00fc\n/x", qos=1),
    Record(2, b"23.5", topic="12 3", qos=1, retained=True),
    Record(3, b""),
    Record(4, b"x" * 200, topic="b", again=True),
    Record(4, b"y", topic="b", qos=1, retained=True, again=True),
]


def encoded(record):
    return encode_message(record) if record.topic else encode_chunk(record.time_ns, record.data, anew=record.anew)


def test_the_format_is_exact():
    assert encode_chunk(12, b"ab\n") == b"12 3\nab\n\n"
    assert encode_chunk(12, b"", anew=True) == b"12 0 anew\n\n"
    assert encode_message(Record(12, b"ab", topic="x/y", qos=1, retained=True, again=True)) == b"12 2 1rd 3\nx/yab\n"
    assert encode_message(Record(12, b"", topic="x")) == b"12 0 0 1\nx\n"
    assert MESSAGES_MAGIC == b"edge-runtime-messages/1\n"
    assert MAGIC == b"edge-runtime-recording/1\n"


def test_whole_and_byte_by_byte_are_the_same():
    whole = RecordingReader()
    assert whole.feed(FILE) == RECORDS
    single = RecordingReader()
    assert [record for byte in FILE for record in single.feed(bytes([byte]))] == RECORDS
    assert whole.pending_bytes == single.pending_bytes == 0


@given(
    st.lists(st.tuples(st.integers(0, (1 << 63) - 1), st.binary(max_size=300)), max_size=20),
    st.lists(st.integers(0, 6000), max_size=10),
)
def test_any_records_come_back_from_any_split(records, cuts):
    data = MAGIC + b"".join(encode_chunk(*record) for record in records)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    reader = RecordingReader()
    got = [record for start, end in itertools.pairwise(edges) for record in reader.feed(data[start:end])]
    assert got == [Record(*record) for record in records]


def test_every_cut_tail_leaves_the_records_before_it():
    ends = [len(MAGIC)]
    for record in CHUNKS:
        ends.append(ends[-1] + len(encode_chunk(*record)))
    for cut in range(len(FILE) + 1):
        reader = RecordingReader()
        got = reader.feed(FILE[:cut])
        assert got == RECORDS[: len(got)]
        assert len(got) == sum(end <= cut for end in ends[1:])
        kept = max((end for end in ends if end <= cut), default=0)
        assert reader.pending_bytes == cut - kept


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        (b"edge-runtime-recording/2\n", 0),
        (b"time,temperature\n", 0),
        (MAGIC + b"12 1\nax", len(MAGIC) + 6),
        (MAGIC + b"012 1\na\n", len(MAGIC)),
        (MAGIC + b"-12 1\na\n", len(MAGIC)),
        (MAGIC + b"12 01\na\n", len(MAGIC)),
        (MAGIC + b"12  1\na\n", len(MAGIC)),
        (MAGIC + b"12 %d\n" % (MAX_RECORD_BYTES + 1), len(MAGIC)),
        (MAGIC + b"\n", len(MAGIC)),
        (MAGIC + b"\0" * 40, len(MAGIC)),
        (MAGIC + b"1" * 40, len(MAGIC)),
        (MAGIC + b"12 1 anew\na\n", len(MAGIC)),
        (MAGIC + b"%d 1\na\n" % (1 << 63), len(MAGIC)),
        (MAGIC + b"12 1 1 1\nta\n", len(MAGIC)),
        (MESSAGES_MAGIC + b"12 1\na\n", len(MESSAGES_MAGIC)),
        (MESSAGES_MAGIC + b"12 0 anew\n\n", len(MESSAGES_MAGIC)),
        (MESSAGES_MAGIC + b"12 1 2 1\nta\n", len(MESSAGES_MAGIC)),
        (MESSAGES_MAGIC + b"12 1 1dr 1\nta\n", len(MESSAGES_MAGIC)),
        (MESSAGES_MAGIC + b"12 1 1 0\na\n", len(MESSAGES_MAGIC)),
        (MESSAGES_MAGIC + b"12 1 1 1\n\xffa\n", len(MESSAGES_MAGIC) + 9),
        (MESSAGES_MAGIC + b"12 %d 1 1\n" % (MAX_MESSAGE_BYTES + 1), len(MESSAGES_MAGIC)),
    ],
)
def test_damage_is_named_with_its_offset(damaged, offset):
    with pytest.raises(RecordingError, match=f"at byte {offset}:") as raised:
        RecordingReader().feed(damaged)
    assert raised.value.offset == offset
    assert isinstance(raised.value, ValueError)


def test_records_before_damage_are_given_first():
    reader = RecordingReader()
    assert reader.feed(MAGIC + encode_chunk(1, b"a") + b"nonsense\n") == [Record(1, b"a")]
    with pytest.raises(RecordingError, match="nonsense"):
        reader.feed(b"")


@pytest.mark.parametrize("time_ns", [-1, 1 << 63])
def test_a_time_that_does_not_fit_is_refused(time_ns):
    with pytest.raises(ValueError, match=str(time_ns)):
        encode_chunk(time_ns, b"a")


def test_a_record_too_large_is_refused():
    with pytest.raises(ValueError, match="at most"):
        encode_chunk(0, bytes(MAX_RECORD_BYTES + 1))
    record = encode_chunk(0, bytes(MAX_RECORD_BYTES))
    assert RecordingReader().feed(MAGIC + record) == [Record(0, bytes(MAX_RECORD_BYTES))]
    with pytest.raises(ValueError, match="at most"):
        encode_message(Record(0, bytes(MAX_MESSAGE_BYTES + 1), topic="a"))
    with pytest.raises(ValueError, match="no bytes"):
        encode_chunk(0, b"a", anew=True)


@pytest.mark.parametrize("split", [1, 2, 7, 1000])
def test_messages_come_back_with_all_that_was_said_of_them(split):
    data = MESSAGES_MAGIC + b"".join(map(encoded, MESSAGES))
    reader = RecordingReader()
    got = [record for at in range(0, len(data), split) for record in reader.feed(data[at : at + split])]
    assert got == MESSAGES
    assert reader.has_messages
    assert reader.pending_bytes == 0
    assert MESSAGES_MAGIC + b"".join(map(encoded, got)) == data


def test_a_stream_anew_comes_back():
    records = [Record(1, b"a"), Record(2, b"", anew=True), Record(2, b"b")]
    assert RecordingReader().feed(MAGIC + b"".join(map(encoded, records))) == records
