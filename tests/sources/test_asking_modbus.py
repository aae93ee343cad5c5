"""Rounds through Modbus slaves: every fault is said and costs one sample at most, and a late answer is never the next one."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.modbus import fence
from edge_runtime.sources.asking import NoAnswer, Wire
from edge_runtime.sources.asking_modbus import RegisterQuestions
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import MODBUS_FRAMING
from edge_runtime.spec.modbus import Modbus, ModbusRead, reads_of
from edge_runtime.spec.payload import ModbusDecode
from edge_runtime.spec.reading import Reading
from tests.rig.instrument import Instrument, pieces
from tests.rig.modbus_slave import Slave, crc16, rtu_answer, tcp_answer

REGISTERS = [
    {"name": "flow", "slave": 1, "table": "input", "address": 100, "type": "float32", "word_order": "big"},
    {"name": "count", "slave": 1, "table": "input", "address": 102, "type": "uint16"},
    {"name": "level", "slave": 1, "table": "holding", "address": 7, "type": "int16", "scale": 0.1},
    {"name": "valve", "slave": 2, "table": "coil", "address": 3, "type": "bool"},
]
DECODE = ModbusDecode.model_validate({"format": "modbus", "registers": REGISTERS})
NAMES = ("flow", "count", "level", "valve")
CHANNELS = {name: ChannelBinding(field=name, unit="1") for name in NAMES}
MODES: list[str] = ["rtu", "tcp"]
Answer = Callable[[dict[int, Slave], bytes], bytes]
ANSWERS: dict[str, Answer] = {"rtu": rtu_answer, "tcp": tcp_answer}
modes = pytest.mark.parametrize("mode", MODES)


def slaves(count: int = 5) -> dict[int, Slave]:
    high, low = struct.unpack(">HH", struct.pack(">f", 1.5))
    first = Slave(holding={7: 0x10000 - 25, 8: 0}, inputs={100: high, 101: low, 102: count, 103: 0})
    return {1: first, 2: Slave(coils=dict.fromkeys(range(40), 0) | {3: 1})}


def questions(mode: str, timeout_s: float = 1.0) -> RegisterQuestions:
    modbus = Modbus.model_validate({"mode": mode, "every_s": 1, "timeout_s": timeout_s})
    return RegisterQuestions(modbus.model_copy(update={"read": reads_of(DECODE.registers)}), 115_200)


def at_wire(answer: Callable[[bytes], list[bytes | float]]) -> tuple[Instrument, Wire]:
    instrument = Instrument(answer)
    return instrument, Wire(instrument, instrument.clock.mono_ns, instrument.stopping, 2000)


def values(got: bytes | NoAnswer) -> tuple[float, ...]:
    assert isinstance(got, bytes), got
    (frame,) = make_framing(MODBUS_FRAMING, "latin-1").feed(got)
    assert isinstance(frame, bytes), frame
    reading = make_decoder(DECODE, CHANNELS).decode(frame)
    assert isinstance(reading, Reading), reading
    return reading.values


def says(got: bytes | NoAnswer) -> tuple[str, str]:
    assert isinstance(got, NoAnswer)
    return got


@modes
@settings(deadline=None, max_examples=50)
@given(cuts=st.lists(st.integers(0, 30)))
def test_a_round_is_a_sample_in_any_split(mode: str, cuts: list[int]) -> None:
    instrument, wire = at_wire(lambda asked: pieces(ANSWERS[mode](slaves(), asked), cuts))
    assert values(questions(mode).ask(wire)) == (1.5, 5.0, -2.5, 1.0)
    assert len(instrument.asked) == 3  # flow and count are neighbours


@modes
def test_a_slave_that_refuses_is_said_in_words(mode: str) -> None:
    bus = slaves()
    del bus[1].inputs[102]
    _, wire = at_wire(lambda asked: [ANSWERS[mode](bus, asked)])
    asker = questions(mode)
    for _ in range(2):
        reason, words = says(asker.ask(wire))
        assert reason == "exception"
        assert words == (
            "slave 1 refuses 3 of input from 100 on with exception 2: it has no such register: check table, address and type"
        )
    bus[1].inputs[102] = 9
    assert values(asker.ask(wire))[1] == 9.0


@modes
def test_a_slave_that_is_away_is_said_and_asked_again(mode: str) -> None:
    bus = slaves()
    away = bus.pop(2)
    _, wire = at_wire(lambda asked: [data] if (data := ANSWERS[mode](bus, asked)) else [])
    asker = questions(mode)
    for _ in range(3):
        assert says(asker.ask(wire)) == (
            "no_answer",
            "no answer of slave 2: is it on, its address right, baud and parity too?"
            if mode == "rtu"
            else "no answer of unit 2: is it there behind this address?",
        )
    bus[2] = away
    assert values(asker.ask(wire)) == (1.5, 5.0, -2.5, 1.0)


def _as_slave_9(answer: bytes) -> bytes:
    body = b"\x09" + answer[1:-2]
    return body + crc16(body)


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (_as_slave_9, "wrong_sender", "slave 9 answered a question to slave 1: two with one address?"),
        (lambda answer: answer[:-1] + bytes([answer[-1] ^ 1]), "bad_checksum", "the CRC of the answer of slave 1 does not hold"),
        (lambda answer: answer[:5] + bytes([answer[5] ^ 4]) + answer[6:], "bad_checksum", "look at the cable"),
        (lambda answer: answer[:-3], "no_answer", "slave 1 gave 4 of 7 bytes: look at the cable"),
        (lambda _: b"\xf8\x80\xf8", "bad_frame", "3 bytes that are no answer of slave 1, f8 80 f8: check baud, parity"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said(change: Callable[[bytes], bytes], reason: str, words: str) -> None:
    _, wire = at_wire(lambda asked: [change(rtu_answer(slaves(), asked))])
    got = says(questions("rtu").ask(wire))
    assert got[0] == reason
    assert words in got[1]


def test_an_echo_is_passed_over_and_said_where_it_is_all() -> None:
    _, wire = at_wire(lambda asked: [asked + rtu_answer(slaves(), asked)])
    assert values(questions("rtu").ask(wire)) == (1.5, 5.0, -2.5, 1.0)
    _, wire = at_wire(lambda asked: [asked])
    reason, words = says(questions("rtu").ask(wire))
    assert (reason, words[:34]) == ("no_answer", "only our own question came back, t")


def test_another_unit_over_tcp_is_said() -> None:
    def answer(asked: bytes) -> list[bytes | float]:
        sent = tcp_answer(slaves(), asked)
        return [sent[:6] + b"\xff" + sent[7:]]

    _, wire = at_wire(answer)
    assert says(questions("tcp").ask(wire)) == (
        "wrong_sender", "unit 255 answered a question to unit 1: write slave = 255 if it is meant"
    )  # fmt: skip


def test_an_old_transaction_over_tcp_is_no_answer() -> None:
    _, wire = at_wire(lambda asked: [tcp_answer(slaves(), b"\x77\x77" + asked[2:])])
    reason, words = says(questions("tcp").ask(wire))
    assert reason == "bad_frame"
    assert "bytes that are no answer to 1 of holding from 7 on" in words


@modes
@settings(deadline=None, max_examples=150)
@given(
    fault=st.sampled_from(["lost", "flipped", "garbage", "doubled", "nothing"]),
    place=st.integers(0, 40),
    bit=st.integers(0, 7),
    garbage=st.binary(max_size=30),
    nth=st.integers(0, 2),
)
def test_a_fault_costs_one_sample_at_most(
    mode: str, fault: str, place: int, bit: int, garbage: bytes, nth: int
) -> None:
    """Of five rounds the second is disturbed: all others are right, and it is right or said."""
    round_, asked_in_round = 0, 0

    def answer(asked: bytes) -> list[bytes | float]:
        nonlocal asked_in_round
        data = ANSWERS[mode](slaves(round_), asked)
        asked_in_round += 1
        if round_ != 1 or asked_in_round != nth + 1:
            return [data]
        at = place % len(data)
        changed = {
            "lost": data[:at] + data[at + 1 :],
            "flipped": data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :],
            "garbage": garbage + data,
            "doubled": data + data,
            "nothing": b"",
        }[fault]
        return [changed] if changed else []

    _, wire = at_wire(answer)
    asker = questions(mode)
    for round_ in range(5):
        asked_in_round = 0
        got = asker.ask(wire)
        if round_ != 1 or (isinstance(got, bytes) and not (mode == "tcp" and fault == "flipped")):
            assert values(got) == (1.5, round_, -2.5, 1.0)
        if fault in {"garbage", "doubled"}:
            assert isinstance(got, bytes)


@modes
@settings(deadline=None, max_examples=200)
@given(delays=st.lists(st.sampled_from([0.0, 0.5, 0.95, 1.05, 1.5, 2.5, 3.7, 7.0]), min_size=1, max_size=12))
def test_a_late_answer_is_never_taken_for_a_later_one(mode: str, delays: list[float]) -> None:
    """Each slave counts the questions it was asked: a round's numbers are those of its own questions."""
    round_, asked = 0, 0

    def answer(question: bytes) -> list[bytes | float]:
        nonlocal asked
        asked += 1
        delay = delays[asked - 1] if asked <= len(delays) else 0.0
        return [delay, ANSWERS[mode](slaves(round_), question)]

    instrument, wire = at_wire(answer)
    asker = questions(mode)
    good = 0
    for round_ in range(200):
        got = asker.ask(wire)
        instrument.clock.advance(0.2)
        if isinstance(got, bytes):
            good += 1
            assert values(got)[1] == round_
            if good > 5 and asked > len(delays):
                return
    raise AssertionError("it never came back")


def test_a_late_refusal_hides_no_answer_that_is_still_to_come() -> None:
    round_ = 0
    refusal = bytes((1, 0x83, 6))
    refusal += crc16(refusal)
    holding_7, fence_7 = b"\x01\x03\x00\x07\x00\x01", b"\x01\x03\x00\x07\x00\x02"
    late = [1.5, 0.2, 0.5]  # of the first three that ask for holding registers

    def answer(asked: bytes) -> list[bytes | float]:
        is_first = not any(one.startswith(holding_7) for one in instrument.asked[:-1])
        if asked.startswith(fence_7) or (asked.startswith(holding_7) and is_first):
            return [late.pop(0) if late else 0.0, refusal]
        if asked.startswith(holding_7):
            body = bytes((1, 3, 2, 0, 10 * round_))
            return [late.pop(0) if late else 0.0, body + crc16(body)]
        return [rtu_answer(slaves(), asked)]

    instrument, wire = at_wire(answer)
    asker = questions("rtu")
    got = []
    for round_ in range(6):
        got.append(asker.ask(wire))
        if isinstance(got[-1], bytes):
            assert values(got[-1])[2] == round_
    assert isinstance(got[-1], bytes)


def test_a_fence_is_told_from_every_answer() -> None:
    for count in (1, 2, 7, 125):
        reads = [ModbusRead(slave=1, table="holding", address=at, count=at + 1) for at in range(count)]
        assert fence(reads[-1], reads).size_bytes not in {one.size_bytes for one in reads}
    coils = [
        ModbusRead(slave=1, table="coil", address=0, count=8),
        ModbusRead(slave=1, table="coil", address=0, count=9),
    ]
    assert fence(coils[0], coils).count == 17


def test_a_flood_is_not_kept() -> None:
    _, wire = at_wire(lambda _: [b"x" * 1000] * 1000)
    reason, words = says(questions("rtu").ask(wire))
    assert reason == "bad_frame"
    assert len(wire.heard) <= 3000
    assert len(words) < 400
