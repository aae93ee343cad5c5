"""Lines out of bytes: the same frames for any split, and a bound on what is held."""

from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.framing_lines import LineFramer, too_long
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.reading import Damaged

LineEnd = Literal["any", "lf", "cr"]

STREAMS = st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n", b"\0", b"\n\0", b"\xd8", b"0123456789"])).map(
    b"".join
)


def frames_of(framing: LineFramer, chunks: list[bytes]) -> list[bytes | Damaged]:
    frames = [frame for chunk in chunks for frame in framing.feed(chunk)]
    return frames + framing.flush()


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(STREAMS, st.sampled_from(["any", "lf", "cr"]), st.lists(st.integers(0, 1000)))
def test_any_split_gives_the_same_frames(data: bytes, line_end: LineEnd, cuts: list[int]) -> None:
    whole = frames_of(LineFramer(5, line_end), [data])
    assert frames_of(LineFramer(5, line_end), [data[i : i + 1] for i in range(len(data))]) == whole
    assert frames_of(LineFramer(5, line_end), split_at(data, cuts)) == whole


@given(STREAMS, st.sampled_from(["any", "lf", "cr"]), st.sampled_from(["little", "big"]), st.lists(st.integers(0, 99)))
def test_any_split_of_utf16_gives_the_same_frames(
    data: bytes, line_end: LineEnd, order: Literal["little", "big"], cuts: list[int]
) -> None:
    whole = frames_of(LineFramer(6, line_end, 2, order), [data])
    assert frames_of(LineFramer(6, line_end, 2, order), [data[i : i + 1] for i in range(len(data))]) == whole
    assert frames_of(LineFramer(6, line_end, 2, order), split_at(data, cuts)) == whole


@given(STREAMS)
def test_frames_are_what_a_plain_reading_of_the_bytes_says(data: bytes) -> None:
    lines = data.replace(b"\r", b"\n").split(b"\n")
    expected = [line if len(line) <= 5 else too_long(5, "any") for line in lines if line]
    assert frames_of(LineFramer(5, "any"), [data]) == expected


@pytest.mark.parametrize(
    ("line_end", "expected"),
    [("any", [b"a", b"b", b"c", b"d"]), ("lf", [b"a\r", b"b\rc", b"d"]), ("cr", [b"a", b"\nb", b"c\nd"])],
)
def test_line_ends(line_end: LineEnd, expected: list[bytes]) -> None:
    assert LineFramer(9, line_end).feed(b"a\r\nb\rc\nd" + (b"\r" if line_end == "cr" else b"\n")) == expected


def test_a_pair_of_line_ends_split_over_two_chunks_gives_no_extra_line() -> None:
    framing = LineFramer(9, "any")
    assert framing.feed(b"a\r") == [b"a"]
    assert framing.feed(b"\nb\r\n") == [b"b"]


def test_a_long_line_is_told_once_and_skipped_to_its_end() -> None:
    framing = LineFramer(4, "any")
    assert framing.feed(b"ok\n12345") == [b"ok", too_long(4, "any")]
    assert framing.discarding
    assert framing.pending_bytes == 0
    assert framing.feed(b"6789" * 1000) == []
    assert framing.feed(b"0\nnext\n1234") == [b"next"]
    assert not framing.discarding
    assert framing.pending_bytes == 4


def test_an_endless_line_is_never_held() -> None:
    framing = LineFramer(100, "any")
    told = [frame for _ in range(1000) for frame in framing.feed(b"x" * 70)]
    assert told == [too_long(100, "any")]
    assert framing.pending_bytes == 0


@given(STREAMS, st.lists(st.integers(0, 1000)))
def test_what_is_held_never_passes_the_limit(data: bytes, cuts: list[int]) -> None:
    framing = LineFramer(5, "any")
    for chunk in split_at(data, cuts):
        framing.feed(chunk)
        assert framing.pending_bytes <= 5


def test_a_stream_joined_in_the_middle_of_a_line_begins_with_the_next() -> None:
    framing = LineFramer(9, "any")
    framing.restore(discarding=True)
    assert framing.feed(b"1.5,3\r\n2.5,4\r\n") == [b"2.5,4"]
    framing.feed(b"left")
    framing.restore(discarding=False)
    assert framing.feed(b"over\n") == [b"over"]


def test_the_end_of_a_file_ends_its_last_line() -> None:
    framing = LineFramer(4, "any")
    framing.feed(b"a\nb")
    assert framing.flush() == [b"b"]
    assert framing.flush() == []
    framing.feed(b"123456")
    assert framing.flush() == []
    assert framing.feed(b"c\n") == [b"c"]


def test_utf16_is_cut_at_whole_units_only() -> None:
    little = make_framing(LinesFraming(), "utf-16-le")
    lines = ["21,5 \u0a00", "\u010a", "22"]
    text = f"{lines[0]}\r{lines[1]}\r\n{lines[2]}\n"
    assert little.feed(text.encode("utf-16-le")) == [
        part.encode("utf-16-le") for part in ("21,5 \u0a00", "\u010a", "22")
    ]
    big = make_framing(LinesFraming(line_end="cr"), "utf-16-be")
    assert big.feed("a\rb\r".encode("utf-16-be")) == ["a".encode("utf-16-be"), "b".encode("utf-16-be")]


def test_the_limit_of_the_configuration_is_the_limit() -> None:
    assert make_framing(LinesFraming(max_bytes=3), "utf-8").feed(b"abc\nabcd\n") == [b"abc", too_long(3, "any")]
