"""Captures of bytes with and without topics; the other kinds are told by the tests of `bind`."""

import io

import pytest

from edge_runtime.flow.captured_payloads import Payload, payloads
from edge_runtime.flow.framing import MessageFramer
from edge_runtime.spec.reading import Damaged


def taken(data: bytes, *, is_text: bool = False) -> list[Payload]:
    return list(payloads(io.BytesIO(data), MessageFramer(4096, is_text=is_text), is_text=is_text))


def test_hexadecimal_with_its_topic_is_one_message_a_line() -> None:
    captured = "spBv1.0/Sparkplug B Devices/NDATA/Raspberry Pi 0a00\nspBv1.0/ä/NDEATH/x \na/b FF\n".encode()
    assert taken(captured) == [
        Payload(b"\x0a\x00", "spBv1.0/Sparkplug B Devices/NDATA/Raspberry Pi"),
        Payload(b"", "spBv1.0/ä/NDEATH/x"),
        Payload(b"\xff", "a/b"),
    ]


def test_hexadecimal_alone_too() -> None:
    assert taken(b"0a00\n\n0b\n") == [Payload(b"\x0a\x00"), Payload(b"\x0b")]


def test_a_line_that_is_none_is_said_to_be() -> None:
    good, bad = taken(b"a/b 00\na/b zz\n")
    assert good == Payload(b"\0", "a/b")
    assert isinstance(bad.frame, Damaged)
    assert bad.frame.rejection.found == "a line that is not hexadecimal"
    assert bad.frame.raw == b"a/b zz\n"


def test_text_is_never_taken_for_hexadecimal() -> None:
    assert [one.frame for one in taken(b"T 20", is_text=True)] == [b"T 20"]


@pytest.mark.parametrize(
    ("tst", "arrival_ns"),
    [("5", 5_000_000_000), ('"1970-01-01T00:00:01Z+0000"', 1_000_000_000), ("-5", None), ("9" * 30, None), ("1e9", None),
     ('"0001-01-01T00:00:00Z+0000"', None), ('"2400-01-01T00:00:00Z+0000"', None), ("{}", None), ("null", None)],
)  # fmt: skip
def test_a_time_that_no_clock_of_ours_says_is_none(tst: str, arrival_ns: int | None) -> None:
    [one] = taken(f'{{"tst":{tst},"topic":"a","qos":0,"payload":"x"}}\n'.encode())
    assert one.arrival_ns == arrival_ns
