"""Printed lines to readings, in time that follows the length of the line."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.pattern import compile_pattern
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import PatternDecode, StatusField, TimeField
from edge_runtime.spec.reading import Reading, Rejection

BALANCE = "S {state:word} {m:number} {unit:word}"


def decoder(pattern: str, **keys: Any) -> Decoder:
    return make_decoder(PatternDecode(format="pattern", pattern=pattern, **keys), {"mass": ChannelBinding(field="m")})


def groups(pattern: str, line: str, decimal: Any = ".") -> tuple[str, ...] | None:
    match = compile_pattern(pattern, decimal).expression.fullmatch(line)
    return None if match is None else match.groups()


@pytest.mark.parametrize(
    ("pattern", "line", "decimal", "expected"),
    [
        (BALANCE, "S D     12.345 g", ".", ("D", "12.345", "g")),
        ("{m:number} {unit:word}", "+ 62.916 GN", ".", ("+ 62.916", "GN")),
        ("ID:{id:int} T={m:number}C {note:text}", "ID:7 T=21,5C OL and on", ",", ("7", "21,5", "OL and on")),
        ("{m:number}{unit:word}", "-.5kg", ".", ("-.5", "kg")),
        ("{m:number}{unit:word}", "1e5eV", ".", ("1e5", "eV")),
        ("{m:number}{unit:word}", "5.e", ".", ("5.", "e")),
        ("{a:number},{m:number}", "1,2.5", ".", ("1", "2.5")),
        ("{a:word},{m:number}", "abc,2.5", ".", ("abc", "2.5")),
        ("{{{m:number}}}", "{3}", ".", ("3",)),
        ("  {m:number}  ", "3", ".", ("3",)),
        ("at {m:number}.", "at 5.", ".", ("5",)),
        ("at {m:number}.", "at 5.2.", ".", ("5.2",)),
        ("a.b {m:number}", "a.b\t 3", ".", ("3",)),
    ],
)
def test_lines_that_follow(pattern: str, line: str, decimal: str, expected: tuple[str, ...]) -> None:
    assert groups(pattern, line, decimal) == expected


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (BALANCE, "S D 12.345"),
        (BALANCE, "S D 12.345 g more"),
        (BALANCE, "SD 12.345 g"),
        ("{m:number}{unit:word}", "1,234.5"),
        ("{m:number}{unit:word}", "1.2.3"),
        ("{m:number}{unit:word}", "1'234"),
        ("{m:number} {unit:word}", "1 234 g"),
        ("{m:int}{unit:word}", "12.5C"),
        ("{m:number}", "nan"),
        ("{m:number}", "\u0661"),
        ("{m:number}", "-"),
        ("a.b {m:number}", "aXb 3"),
        ("{m:number}g", "3 g"),
        ("{m:number} {note:text}", "3"),
    ],
)
def test_lines_that_do_not_follow(pattern: str, line: str) -> None:
    assert groups(pattern, line) is None


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (
            "S {m:nummer}",
            "position 3: found field kind 'nummer'; expected one of number, int, word, text; nearest: 'nu",
        ),
        ("S {m}", "position 3: found field kind ''"),
        ("S {m:number", "position 3: found a single '{'"),
        ("S } {m:number}", "position 3: found a single '}'"),
        ("{1m:number}", "position 1: found field name '1m'"),
        ("{m:number} {m:word}", "position 12: found field 'm' twice"),
        ("{t:text} {m:number}", "position 1: found text field 't' before the end"),
        ("{a:word}{m:number}", "position 9: found field 'm' right after 'a'"),
        ("{a:number}{m:number}", "position 11: found field 'm' right after 'a'"),
        ("{a:number}{m:text}", "position 11: found field 'm' right after 'a'"),
        ("no field", "position 1: found no field"),
    ],
)
def test_malformed_patterns_are_refused_at_their_position(pattern: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        compile_pattern(pattern, ".")
    assert says in str(caught.value)


def test_a_line_becomes_a_reading() -> None:
    balance = make_decoder(
        PatternDecode(
            format="pattern",
            pattern="{id:int} {state:word} {m:number} {unit:word} @{ts:number} {who:text}",
            decimal=",",
            stream="id",
            status=StatusField(field="state", accept=("S",)),
            time=TimeField(field="ts", format="unix_s"),
            carry=("who",),
        ),
        {"mass": ChannelBinding(field="m", unit_field="unit")},
    )
    line = b"\xef\xbb\xbf  7 S - 12,345 g @1700000000,5 Ann B.  "
    assert balance.decode(line) == Reading((-12.345,), 1_700_000_000_500_000_000, "7", ("g",), (("who", "Ann B."),))
    unstable = balance.decode(line.replace(b" S ", b" D "))
    assert str(unstable) == "field 'state': found 'D'; expected one of 'S'"


def test_a_line_that_does_not_follow_is_quoted_short_and_escaped() -> None:
    result = decoder(BALANCE).decode(b"\x1b[2J" + b"x" * 500)
    assert isinstance(result, Rejection)
    assert result.reason == "no_match"
    assert result.found == repr("\x1b[2J" + "x" * 56) + "..."
    assert repr(BALANCE) in result.expected
    assert result.todo == "correct decode.pattern, or what the sender writes"


def test_blank_lines_and_foreign_bytes() -> None:
    assert decoder("{m:number}").decode(b"  ") is None
    result = decoder("{m:number}").decode(b"\xff")
    assert isinstance(result, Rejection)
    assert result.reason == "bad_encoding"
    assert decoder("{m:number} \u00b0C", encoding="cp1252").decode(b"5 \xb0C") == Reading((5.0,))
    decoder("{m:number}").restore_columns(("a",))
    assert decoder("{m:number}").columns is None


def test_digits_without_end_become_infinite_not_a_failure() -> None:
    assert decoder("{m:int}").decode(b"9" * 10_000) == Reading((float("inf"),))


@pytest.mark.parametrize(
    ("pattern", "keys", "says"),
    [
        ("{mass:number}", {}, "field 'm' (channel 'mass')"),
        ("{m:word}", {}, "make it a number"),
        ("{m:number}", {"carry": ("n",)}, "field 'n' (carry)"),
        ("{m:number}", {"time": TimeField(field="ts", format="unix_s")}, "field 'ts' (time)"),
        ("{m:number} {state:word}", {"status": StatusField(field="stat", accept=("S",))}, "nearest: 'state'"),
    ],
)
def test_a_bound_field_that_the_pattern_lacks_is_refused(pattern: str, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        decoder(pattern, **keys)
    assert says in str(caught.value)


ALL_PARTS = "a*b+ {i:int};{n:number}{u:word} {w:word}](x {last:text}"


def test_matching_never_goes_back() -> None:
    """Every repeat is possessive and each alternation atomic, so the matcher has no choice to return to."""
    expression = compile_pattern(ALL_PARTS, ",").expression.pattern
    bare = re.sub(r"\[(?:\\.|[^\]\\])*\]", "C", re.sub(r"\\(?!s)[^s]", "L", expression))
    repeats = re.findall(r"(?<!\()[*+?](\+?)", bare.replace("(?:", "(").replace("(?!", "(").replace("(?>", "("))
    assert len(repeats) > 10
    assert set(repeats) == {"+"}
    assert "{" not in bare
    assert bare.count("|") == bare.count("(?>")


@pytest.mark.parametrize("filling", ["1", " ", "1 ", "a", "a ", "+ ", "1.", "1e", ";", "1;1", "](x ", "\t", "x1 "])
def test_a_hostile_line_is_answered(filling: str) -> None:
    line = ("a*b+ 1;1,5kg w](x " + filling * 100_000)[:100_000] + "\x00"
    result = compile_pattern(ALL_PARTS, ",").expression.fullmatch(line)
    assert result is None or result.group(5).endswith("\x00")
    assert compile_pattern(BALANCE, ".").expression.fullmatch(filling * 50_000) is None


@given(st.one_of(st.binary(max_size=40), st.text("S+-.,0123456789eE gD=", max_size=30).map(str.encode)))
def test_no_bytes_raise(frame: bytes) -> None:
    for pattern in (BALANCE, "{m:number}", "S{m:int}{u:word}", "{m:number} {t:text}"):
        assert isinstance(decoder(pattern).decode(frame), Reading | Rejection | None)


@given(st.text("ab {}:wordnumbertextint+.", max_size=40))
def test_no_pattern_fails_in_another_way(pattern: str) -> None:
    try:
        compile_pattern(pattern, ".")
    except ConfigurationError as error:
        assert "position" in error.subject  # noqa: PT017 (most patterns are malformed, a few are not)


def test_sentinels_of_a_pattern_are_no_values() -> None:
    channels = {"mass": ChannelBinding(field="m", missing_values=[-9999])}
    pattern = make_decoder(PatternDecode(format="pattern", pattern="m={m:number}"), channels)
    assert pattern.decode(b"m=-9999.0") == Reading((None,))
    assert pattern.decode(b"m=-9998") == Reading((-9998.0,))
    with pytest.raises(ConfigurationError, match="its numbers are texts already"):
        make_decoder(
            PatternDecode(format="pattern", pattern="{m:number}"), {"m": ChannelBinding(field="m", read="numeric_text")}
        )
