"""Questions in text: whole answers in any split, and one that is late, damaged or missing costs one sample at most."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.sources.asking import NoAnswer, TextQuestions, Wire
from edge_runtime.spec.source import Poll
from tests.rig.instrument import Instrument, pieces

ERROR = b'-113,"Undefined header"\n'


def asking(send: str | list[str] = "READ?\n", *, max_bytes: int = 1000, **keys: object) -> TextQuestions:
    poll = Poll.model_validate({"send": send, "every_s": 1, "timeout_s": 1} | keys)
    return TextQuestions(poll, max_bytes)


def at_wire(answer: Callable[[bytes], list[bytes | float]]) -> tuple[Instrument, Wire]:
    instrument = Instrument(answer)
    return instrument, Wire(instrument, instrument.clock.mono_ns, instrument.stopping, 2000)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40)), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.sampled_from([b"", b"\r\n"]))
def test_an_answer_is_whole_in_any_split(cuts: list[int], end: bytes, before: bytes) -> None:
    _, wire = at_wire(lambda _: pieces(before + b"+1.5E0,2" + end, cuts))
    questions = asking()
    assert [questions.ask(wire) for _ in range(3)] == [b"+1.5E0,2\r\n"] * 3
    assert wire.stray_bytes == 0


def test_several_questions_are_one_sample() -> None:
    answers = {b"VOLT?\n": b"1.5\n", b"CURR?\n": b"0.2\r\n"}
    instrument, wire = at_wire(lambda asked: [answers[asked]])
    assert asking(["VOLT?\n", "CURR?\n"]).ask(wire) == b"1.5,0.2\r\n"
    assert instrument.asked == [b"VOLT?\n", b"CURR?\n"]


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300), st.lists(st.integers(0, 320)))
def test_a_block_is_whole_in_any_split(data: bytes, cuts: list[int]) -> None:
    size = b"%d" % len(data)
    block = b"#%d%b%b" % (len(size), size, data)
    _, wire = at_wire(lambda _: pieces(block + b"\r\n", cuts))
    assert asking("CURV?\n").ask(wire) == block + b"\n"


@pytest.mark.parametrize(
    ("answer", "reason", "says"),
    [
        (b"", "no_answer", "no answer to 'READ?' within 1 s"),
        (b"+1.5", "no_answer", "only 2b 31 2e 35 without its end in answer to 'READ?' within 1 s"),
        (b"x" * 1001, "too_long", "answer to 'READ?': found more than 1000 bytes; expected a shorter one"),
        (b"#41001", "bad_frame", "found a length of 1001; expected 1000 at most"),
        (b"#0abc\n", "bad_frame", "found #0, a block of unknown length"),
        (b"#13abcd\n", "bad_frame", "found 64 behind its 6 bytes; expected a line end: a byte of the block was lost"),
        (b"#14abc\n", "no_answer", "without its end in answer"),
    ],
)
def test_what_is_no_answer_is_said(answer: bytes, reason: str, says: str) -> None:
    _, wire = at_wire(lambda _: [answer] if answer else [])
    got = asking().ask(wire)
    assert isinstance(got, NoAnswer)
    assert got.reason == reason
    assert says in got.words


def test_the_instrument_is_asked_what_was_wrong() -> None:
    _, wire = at_wire(lambda asked: [ERROR] if asked == b"SYST:ERR?\n" else [])
    got = asking(ask_error="SYST:ERR?\n").ask(wire)
    assert got == NoAnswer("no_answer", "no answer to 'READ?' within 1 s; 'SYST:ERR?' says '-113,\"Undefined header\"'")


def test_an_instrument_that_is_off_is_asked_nothing_else_until_it_answers() -> None:
    is_on = False
    instrument, wire = at_wire(lambda asked: [ERROR if asked == b"SYST:ERR?\n" else b"7\n"] if is_on else [])
    questions = asking(ask_error="SYST:ERR?\n")
    for _ in range(3):
        got = questions.ask(wire)
        assert isinstance(got, NoAnswer)
        assert "none to 'SYST:ERR?' either; is it on, and set to this port?" in got.words
    assert instrument.asked == [b"READ?\n", *[b"SYST:ERR?\n"] * 3]
    is_on = True
    assert questions.ask(wire) == b"7\r\n"


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 0.95, 1.05, 1.5, 1.95, 2.5, 3.7]), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_late_answer_is_never_taken_for_the_next_one(delays: list[float], asks_error: bool) -> None:
    """Each answer is the number of its question; without ask_error the silence of a timeout must be enough."""
    count = 0

    def answer(asked: bytes) -> list[bytes | float]:
        nonlocal count
        if asked == b"SYST:ERR?\n":
            return [0.01, b'0,"No error"\n']
        delay = delays[count] if count < len(delays) else 0.0
        count += 1
        return [min(delay, 1.9) if not asks_error else delay, b"%d\n" % (count - 1)]

    instrument, wire = at_wire(answer)
    questions = asking(ask_error="SYST:ERR?\n") if asks_error else asking()
    good = 0
    for _ in range(len(delays) + 12):
        asked = instrument.asked.count(b"READ?\n")
        got = questions.ask(wire)
        instrument.clock.advance(0.3)
        if isinstance(got, bytes):
            assert got == b"%d\r\n" % asked
            good += 1
        else:
            assert got.reason == "no_answer"
    assert good >= 1


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(["lost", "flipped", "garbage"]), st.integers(0, 200), st.integers(0, 7), st.binary(max_size=30))
def test_a_fault_costs_one_sample_at_most(fault: str, place: int, bit: int, garbage: bytes) -> None:
    sent = 0

    def answer(_: bytes) -> list[bytes | float]:
        nonlocal sent
        sent += 1
        data = b"%d.25,1\n" % sent
        if sent != 3:
            return [data]
        at = place % len(data)
        if fault == "garbage":
            return [garbage + data]
        byte = b"" if fault == "lost" else bytes([data[at] ^ 1 << bit])
        return [data[:at] + byte + data[at + 1 :]]

    _, wire = at_wire(answer)
    questions = asking()
    got = [questions.ask(wire) for _ in range(6)]
    assert [got[at] for at in (0, 1, 3, 4, 5)] == [b"%d.25,1\r\n" % (at + 1) for at in (0, 1, 3, 4, 5)]


def test_a_port_that_is_never_silent_is_said_to_be_one() -> None:
    instrument, wire = at_wire(lambda _: [0.5, b"x"] * 200)
    questions = asking()
    assert isinstance(questions.ask(wire), NoAnswer)
    got = questions.ask(wire)
    assert got == NoAnswer("no_answer", "it sends without being asked, so an answer could not be told from the rest")
    assert len(instrument.asked) == 1
    assert wire.stray_bytes


def test_what_waits_before_a_question_is_no_answer_to_it() -> None:
    instrument, wire = at_wire(lambda _: [b"2\n", 0.3, b"late\n"])
    questions = asking()
    assert questions.ask(wire) == b"2\r\n"
    instrument.clock.advance(1)
    assert questions.ask(wire) == b"2\r\n"
    assert wire.stray_bytes == 4
