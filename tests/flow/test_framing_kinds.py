"""Frames of sentences, stuffed bytes and packets: whole in any split, damage told, nothing wrong accepted."""

import random
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from edge_runtime.flow.framing import Framer, make_framing
from edge_runtime.spec.crc import CATALOGUE, crc_function
from edge_runtime.spec.framing import Framing
from edge_runtime.spec.reading import Damaged

FRAMING: TypeAdapter[Any] = TypeAdapter(Framing)
CRC32 = crc_function(CATALOGUE["crc-32"][0])
CRC = {"name": "crc-32", "byte_order": "little"}


class Kind(NamedTuple):
    """A framing and the sender that speaks it; ``payloads`` are what a sender may send."""

    name: str
    spec: dict[str, Any]
    send: Callable[[bytes], bytes]
    payloads: st.SearchStrategy[bytes]
    has_check: bool = True

    def framer(self) -> Framer:
        return make_framing(FRAMING.validate_python(self.spec), "utf-8")


def _nmea(body: bytes) -> bytes:
    checksum = 0
    for byte in body:
        checksum ^= byte
    return b"$%b*%02X\r\n" % (body, checksum)


def _with_crc(body: bytes) -> bytes:
    return body + CRC32(body).to_bytes(4, "little")


def _stuff_cobs(data: bytes) -> bytes:
    out = bytearray()
    for number, block in enumerate(blocks := data.split(b"\0")):
        rest = block
        while len(rest) >= 254:
            out += b"\xff" + rest[:254]
            rest = rest[254:]
            if not rest and number == len(blocks) - 1:
                return bytes(out)
        out += bytes([len(rest) + 1]) + rest
    return bytes(out)


def _cobs(body: bytes) -> bytes:
    return b"\0" + _stuff_cobs(_with_crc(body)) + b"\0"


def _slip(body: bytes) -> bytes:
    return b"\xc0" + _with_crc(body).replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"


def _packet(body: bytes) -> bytes:
    covered = len(body).to_bytes(2, "big") + body
    return b"\xaa\x55" + covered + CRC32(covered).to_bytes(4, "little")


def _fixed(body: bytes) -> bytes:
    return b"\x7e" + body + CRC32(b"\x7e" + body).to_bytes(4, "little")


def _block(body: bytes) -> bytes:
    size = b"%d" % len(body)
    return b"#%d%b%b\n" % (len(size), size, body)


def _line(body: bytes) -> bytes:
    return body + b"\r\n"


# Bytes that mean something to a framing come often.
_BYTES = st.lists(
    st.one_of(st.sampled_from([b"\0", b"\xc0", b"\xdb", b"\xdc", b"\xdd", b"\xaa\x55", b"\x7e", b"ab"]), st.binary(max_size=4)),
    max_size=12,
).map(b"".join)  # fmt: skip
_SENTENCES = st.tuples(
    st.sampled_from([b"GPGGA", b"WIMWV", b"PGRME", b"GNRMC"]),
    st.lists(st.integers(-9999, 9999).map(lambda n: b"%d" % n), max_size=6),
).map(lambda pair: b",".join([pair[0], *pair[1]]))
_TEXTS = st.text("0123456789.,;-+eE ", max_size=20).map(str.encode)
LENGTH = {"type": "uint16", "byte_order": "big"}
KINDS = [
    Kind("nmea", {"kind": "nmea", "max_bytes": 200}, _nmea, _SENTENCES),
    Kind("cobs", {"kind": "cobs", "max_bytes": 200, "crc": CRC}, _cobs, _BYTES),
    Kind("slip", {"kind": "slip", "max_bytes": 200, "crc": CRC}, _slip, _BYTES),
    Kind("packet", {"kind": "packet", "sync": "aa 55", "length": LENGTH, "max_bytes": 100, "crc": CRC,
                    "crc_covers": "after_sync"}, _packet, _BYTES),
    Kind("fixed", {"kind": "packet", "sync": "7e", "payload_bytes": 6, "crc": CRC, "crc_covers": "packet"}, _fixed,
         _BYTES.map(lambda data: (data + bytes(6))[:6])),
    # The data of a block have no check, so what is damaged within them comes through; a '#' among them could begin a false
    # block once a true one is damaged.
    Kind("block", {"kind": "block", "max_bytes": 100}, _block, _BYTES.map(lambda data: data.replace(b"#", b"")),
         has_check=False),
    Kind("lines", {"kind": "lines", "max_bytes": 100}, _line, _TEXTS, has_check=False),
]  # fmt: skip
EXAMPLES = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def read(framer: Framer, chunks: Sequence[bytes]) -> list[bytes | Damaged]:
    return [frame for chunk in chunks for frame in framer.feed(chunk)] + framer.flush()


def good(frames: Sequence[bytes | Damaged]) -> list[bytes]:
    return [frame for frame in frames if isinstance(frame, bytes)]


def told(frames: Sequence[bytes | Damaged]) -> list[str]:
    return [frame.rejection.reason for frame in frames if isinstance(frame, Damaged)]


def sent(kind: Kind, data: st.DataObject, least: int = 0) -> list[bytes]:
    # An empty COBS or SLIP frame is one that stood between two delimiters: no sample.
    return data.draw(st.lists(kind.payloads.filter(bool), min_size=least, max_size=5), label="payloads")


def is_subsequence(few: Sequence[bytes], many: Sequence[bytes]) -> bool:
    rest = iter(many)
    return all(one in rest for one in few)


@kinds
@EXAMPLES
@given(data=st.data())
def test_what_was_sent_comes_in_any_split(kind: Kind, data: st.DataObject) -> None:
    payloads = sent(kind, data)
    stream = b"".join(map(kind.send, payloads))
    assert read(kind.framer(), [stream]) == payloads
    assert read(kind.framer(), [stream[i : i + 1] for i in range(len(stream))]) == payloads
    cut = data.draw(st.integers(0, len(stream)), label="cut")
    assert read(kind.framer(), [stream[:cut], stream[cut:]]) == payloads


@kinds
@EXAMPLES
@given(data=st.data())
def test_any_split_of_any_bytes_gives_the_same(kind: Kind, data: st.DataObject) -> None:
    pieces = st.one_of(kind.payloads.map(kind.send), kind.payloads.map(lambda p: kind.send(p)[1:]), _BYTES,
                       st.just(b"$"), st.just(b"\n"), st.binary(max_size=300))  # fmt: skip
    stream = b"".join(data.draw(st.lists(pieces, max_size=8), label="pieces"))
    whole = read(kind.framer(), [stream])
    assert read(kind.framer(), [stream[i : i + 1] for i in range(len(stream))]) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5), label="cuts"))
    assert read(kind.framer(), [stream[a:b] for a, b in pairwise([0, *cuts, len(stream)])]) == whole


@kinds
@EXAMPLES
@given(data=st.data())
def test_garbage_before_costs_one_frame_at_most(kind: Kind, data: st.DataObject) -> None:
    payloads = sent(kind, data, least=2)
    garbage = data.draw(st.one_of(_BYTES, st.binary(max_size=60)), label="garbage")
    for discarding in (False, True):
        framer = kind.framer()
        framer.restore(discarding=discarding)
        frames = read(framer, [garbage, *map(kind.send, payloads)])
        assert good(frames)[-len(payloads) + 1 :] == payloads[1:]
        assert not kind.has_check or set(good(frames)) <= set(payloads)


@kinds
@pytest.mark.parametrize("fault", ["lost", "doubled", "stray", "flipped"])
@EXAMPLES
@given(data=st.data())
def test_one_byte_costs_one_frame_at_most_and_is_told(kind: Kind, fault: str, data: st.DataObject) -> None:
    payloads = sent(kind, data, least=1)
    stream = b"".join(map(kind.send, payloads))
    place = data.draw(st.integers(0, len(stream) - 1), label="place")
    byte = stream[place : place + 1]
    becomes = {
        "lost": b"",
        "doubled": byte * 2,
        "stray": byte + bytes([data.draw(st.integers(0, 255), label="stray")]),
        "flipped": bytes([byte[0] ^ (1 << data.draw(st.integers(0, 7), label="bit"))]),
    }
    frames = read(kind.framer(), [stream[:place] + becomes[fault] + stream[place + 1 :]])
    if not kind.has_check:
        assert any(is_subsequence(payloads[:at] + payloads[at + 1 :], good(frames)) for at in range(len(payloads)))
        return
    assert is_subsequence(good(frames), payloads)
    lost = len(payloads) - len(good(frames))
    assert lost <= 1
    assert lost <= len(told(frames))  # a frame that is missing was told of


@kinds
def test_a_stream_joined_in_the_middle_begins_with_the_next_whole_frame(kind: Kind) -> None:
    payload = {"nmea": b"GPGGA,1,2"}.get(kind.name, b"abcdef")
    one = kind.send(payload)
    framer = kind.framer()
    framer.restore(discarding=True)
    assert framer.discarding
    assert framer.feed(one[3:] + one) == [payload]
    assert not framer.discarding
    assert framer.pending_bytes == 0
    framer.feed(one[:4])
    assert framer.pending_bytes
    framer.restore(discarding=False)
    assert framer.pending_bytes == 0
    assert framer.feed(one) == [payload]


@kinds
def test_memory_is_bounded_whatever_comes(kind: Kind) -> None:
    framer = kind.framer()
    chance = random.Random(7)
    noises: list[Callable[[], bytes]] = [
        lambda: chance.randbytes(1000), lambda: b"\xaa\x55\0\x64" * 250, lambda: b"x" * 1000, lambda: b"\x7e" * 1000,
        lambda: b"$GPGGA," * 150,
    ]  # fmt: skip
    tracemalloc.start()
    try:
        for noise in noises:
            for _ in range(100):
                framer.feed(noise())
                assert framer.pending_bytes <= 210
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000


@kinds
def test_a_sender_that_goes_on_for_ever_without_an_end_is_told(kind: Kind) -> None:
    framer = kind.framer()
    reasons = {reason for _ in range(100) for reason in told(framer.feed(b"x" * 70))}
    assert reasons == ({"bad_frame"} if kind.spec["kind"] in {"packet", "block"} else {"too_long"})


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        (
            b"$GPGGA,1,2*00\r\n",
            "bad_checksum",
            "found checksum *00 in b'$GPGGA,1,2*00'; expected *55; look at the cable",
        ),
        (b"$GPGGA,1,2\r\n", "bad_checksum", 'expected *55; set framing.checksum = "if_present" if the sender has none'),
        (
            b"GPGGA,1,2*55\r\n",
            "bad_frame",
            "sentence: found b'GPGGA,1,2*55'; expected NMEA 0183, such as $GPGGA,...*47",
        ),
        (b"$GPGGA,1\0,2*55\r\n", "bad_frame", "sentence: found b'$GPGGA,1\\x00,2*55'; expected NMEA 0183"),
    ],
)
def test_what_a_bad_sentence_says(line: bytes, reason: str, says: str) -> None:
    (frame,) = KINDS[0].framer().feed(line)
    assert isinstance(frame, Damaged)
    assert frame.rejection.reason == reason
    assert says in str(frame.rejection)
    assert frame.raw == line.strip()


def test_sentences() -> None:
    framer = make_framing(FRAMING.validate_python({"kind": "nmea", "checksum": "if_present"}), "utf-8")
    assert framer.feed(b"$GPGGA,1,2\r\n!AIVDM,1,1,,A,14eG;o@034o8sd<L9i:a;WF>062D,0*7D\n\r\n  \r\n") == [
        b"GPGGA,1,2", b"AIVDM,1,1,,A,14eG;o@034o8sd<L9i:a;WF>062D,0",
    ]  # fmt: skip
    assert told(framer.feed(b"$GPGGA,1,2*00\r\n")) == ["bad_checksum"]
    lower = _nmea(b"PGRME,15.0").replace(b"*7B", b"*7b")
    assert lower.endswith(b"*7b\r\n")
    assert framer.feed(lower) == [b"PGRME,15.0"]


def test_two_sentences_whose_line_end_was_lost_both_count() -> None:
    first, second = _nmea(b"GPGGA,1"), _nmea(b"GPGGA,2")
    assert KINDS[0].framer().feed(first.strip() + second) == [b"GPGGA,1", b"GPGGA,2"]


@pytest.mark.parametrize(
    ("name", "data", "reason", "says"),
    [
        ("cobs", b"\x05ab\0", "bad_frame", "a block of 4 bytes with 2 left in 05 61 62; expected whole COBS blocks"),
        ("cobs", _stuff_cobs(b"abcd1234") + b"\0", "bad_checksum", "found a CRC of 31 32 33 34; expected 11 cd 82 ed over its 4"),
        ("cobs", b"\x02a\0", "bad_checksum", "found a CRC of 61"),
        ("slip", b"a\xdbb\xc0", "bad_frame", "ESC before 62 in 61 db 62; expected ESC only before 0xdc or 0xdd"),
        ("slip", b"a\xdb\xc0", "bad_frame", "ESC before nothing"),
        ("packet", b"\xaa\x55\x00\x65", "bad_frame", "found a length of 101; expected 0 to 100; if every packet says so"),
        ("packet", b"\xaa\x55\0\0abcd", "bad_checksum", "found a CRC of 61 62 63 64; expected ff 12 d9 41 over its 2 bytes"),
        ("block", b"#3101", "bad_frame", "block: found a length of 101; expected 100 at most; if every block says so, raise"),
        ("block", b"#0abc", "bad_frame", "found #0, a block of unknown length; expected a definite one, such as #3100; set the"),
        ("block", b"#Habc", "bad_frame", "found # and 48; expected # and a digit from 1 to 9"),
        ("block", b"#2x5", "bad_frame", "found a length of 78 35; expected 2 digits"),
        ("block", b"#13abcd", "bad_frame", "found 64 behind 6 bytes; expected its terminator 0a; if every block says so, correct"),
        ("packet", b"x", "bad_frame", "packet: found the byte 78; expected the sync bytes aa 55; a rare one is"),
    ],
)  # fmt: skip
def test_what_a_bad_frame_says(name: str, data: bytes, reason: str, says: str) -> None:
    (kind,) = (one for one in KINDS if one.name == name)
    (frame,) = kind.framer().feed(data)
    assert isinstance(frame, Damaged)
    assert frame.rejection.reason == reason
    assert says in str(frame.rejection)


def test_a_long_packet_in_small_chunks_costs_what_its_length_costs() -> None:
    spec = KINDS[3].spec | {"length": LENGTH | {"type": "uint32"}, "max_bytes": 16_000_000}
    framer = make_framing(FRAMING.validate_python(spec), "utf-8")
    body = bytes(4_000_000)
    covered = len(body).to_bytes(4, "big") + body
    packet = b"\xaa\x55" + covered + CRC32(covered).to_bytes(4, "little")
    tracemalloc.start()
    try:
        for at in range(0, len(packet) - 1000, 1000):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            assert framer.feed(packet[at : at + 1000]) == []
            _, most = tracemalloc.get_traced_memory()
            assert most - before < 1_000_000  # what is pending is not copied
    finally:
        tracemalloc.stop()
    assert framer.feed(packet[at + 1000 :] + packet) == [body, body]


@pytest.mark.parametrize(("terminator", "end"), [("lf", b"\n"), ("crlf", b"\r\n"), ("cr", b"\r"), ("none", b"")])
def test_what_may_follow_a_block(terminator: str, end: bytes) -> None:
    framer = make_framing(FRAMING.validate_python({"kind": "block", "terminator": terminator}), "latin-1")
    assert framer.feed(b"#15\r\n\0#1" + end + b"#9000000003abc" + end + b"#10" + end) == [b"\r\n\0#1", b"abc", b""]


def test_a_length_beyond_the_limit_is_not_waited_for() -> None:
    framer = KINDS[3].framer()
    frames = framer.feed(b"\xaa\x55\xff\xff" + _packet(b"next"))
    assert good(frames) == [b"next"]
    assert told(frames) == ["bad_frame"]


def test_a_packet_inside_a_false_one_is_found_once_the_false_one_is_whole() -> None:
    framer = KINDS[3].framer()
    stream = b"\xaa\x55\x00\x60" + b"".join(_packet(b"%d" % n) for n in range(20))
    frames = framer.feed(stream)
    assert good(frames) == [b"%d" % n for n in range(20)]
    assert told(frames) == ["bad_checksum"]


def test_noise_is_told_once_for_as_many_bytes_as_the_longest_packet_has() -> None:
    for discarding, expected in ((True, 9), (False, 10)):
        framer = KINDS[3].framer()
        framer.restore(discarding=discarding)
        longest = 2 + 2 + 100 + 4
        frames = framer.feed(b"x" * (10 * longest)) + framer.feed(_packet(b"a") + b"xx" + _packet(b"b"))
        assert told(frames) == ["bad_frame"] * (expected + 1)
        assert good(frames) == [b"a", b"b"]


def test_sync_bytes_within_a_damaged_packet_are_not_told_again() -> None:
    broken = bytearray(_packet(b"\xaa\x55\0\x01" * 5))
    broken[-1] ^= 1
    frames = KINDS[3].framer().feed(_packet(b"a") + broken + _packet(b"b"))
    assert good(frames) == [b"a", b"b"]
    assert told(frames) == ["bad_checksum"]


def test_an_input_that_ends_in_a_packet_is_told() -> None:
    framer = KINDS[3].framer()
    framer.feed(_packet(b"whole") + b"\xaa\x55\x00\x60" + _packet(b"inside"))
    frames = framer.flush()
    assert good(frames) == [b"inside"]
    assert told(frames) == ["bad_frame"]
    assert "at the end of the input" in str(frames[0])


@pytest.mark.parametrize("counts", ["payload", "payload_and_crc", "packet"])
def test_what_a_length_may_count(counts: str) -> None:
    length = {"type": "uint8", "after_bytes": 2, "counts": counts}
    spec = {"kind": "packet", "sync": "b562", "length": length, "crc": {"name": "crc-8"}, "crc_covers": "payload"}
    framer = make_framing(FRAMING.validate_python(spec), "utf-8")
    value = {"payload": 4, "payload_and_crc": 5, "packet": 10}[counts]
    crc = crc_function(CATALOGUE["crc-8"][0])(b"data")
    assert framer.feed(b"\xb5\x62\x01\x07" + bytes([value]) + b"data" + bytes([crc])) == [b"\x01\x07data"]


@EXAMPLES
@given(st.binary(max_size=600))
def test_the_sender_of_these_tests_stuffs_as_the_paper_says(data: bytes) -> None:
    stuffed = _stuff_cobs(data)
    assert 0 not in stuffed
    assert len(stuffed) <= len(data) + 1 + len(data) // 254
    framer = make_framing(FRAMING.validate_python({"kind": "cobs"}), "utf-8")
    assert framer.feed(stuffed + b"\0") == [data]


def test_known_cobs_frames() -> None:
    """From the paper's table, and the boundary of a whole block."""
    framer = make_framing(FRAMING.validate_python({"kind": "cobs"}), "utf-8")
    long = bytes(range(1, 255))
    for stuffed, data in [
        (b"\x01\x01", b"\0"), (b"\x03\x11\x22\x02\x33", b"\x11\x22\0\x33"), (b"\xff" + long, long),
        (b"\xff" + long + b"\x01\x01", long + b"\0"), (b"\xff" + long + b"\x02\xff", long + b"\xff"),
    ]:  # fmt: skip
        assert framer.feed(stuffed + b"\0") == [data]


@kinds
def test_what_is_passed_over_at_the_start_is_known(kind: Kind) -> None:
    one = kind.send({"nmea": b"GPGGA,1,2"}.get(kind.name, b"abcdef"))
    framer = kind.framer()
    for first, passed_over in ((one[3:], True), (b"", False)):
        framer.restore(discarding=True)
        assert not framer.passed_over
        for at in range(len(first)):
            framer.feed(first[at : at + 1])
        framer.feed(one)
        if kind.name in {"lines", "nmea"} and not first:  # that it was whole nobody can know
            passed_over = True  # noqa: PLW2901
        assert framer.passed_over == passed_over
        framer.feed(one)
        assert framer.passed_over == passed_over
    framer.restore(discarding=False)
    framer.feed(one[3:] + one)
    assert not framer.passed_over
