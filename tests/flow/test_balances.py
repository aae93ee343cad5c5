"""Balances: the lines of their manuals, and what a technician is told where a line is no weight."""

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.balances import PRESETS
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decode_pattern import PatternDecoder
from edge_runtime.flow.pattern import compile_pattern
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import PatternDecode
from edge_runtime.spec.reading import Reading, Rejection

GRAMS = {"mass": ChannelBinding(field="mass", unit="g", unit_field="unit")}


def read(preset, line, channels=GRAMS):
    decode = PatternDecode(format="pattern", preset=preset, encoding="latin-1")
    return make_decoder(decode, channels).decode(line)


@pytest.mark.parametrize(
    ("preset", "line", "grams"),
    [
        ("mt-sics", b"S S     100.00 g", 100.0),
        ("mt-sics", b"S S      -0.12 g", -0.12),
        ("mt-sics", b"S S  12.3456 g ", 12.3456),
        ("sartorius-16", b"+   62.916 g  ", 62.916),
        ("sartorius-16", b"   111.255 g  ", 111.255),
        ("sartorius-16", b"-     0.12 g  ", -0.12),
        ("sartorius-16", b"+123.56  g  ", 123.56),
        ("sartorius-22", b"N     +   123.56 g  ", 123.56),
        ("sartorius-22", b"N         0.00 g  ", 0.0),
        ("a&d", b"ST,+00012.34  g", 12.34),
        ("a&d", b"ST,-00183.69  g", -183.69),
        ("a&d", b"ST,+00012.34g", 12.34),
    ],
)
def test_a_stable_weight_is_a_reading(preset: str, line: bytes, grams: float) -> None:
    assert read(preset, line) == Reading((grams,))


@pytest.mark.parametrize(
    ("preset", "line", "reason"),
    [
        ("mt-sics", b"S D     100.12 g", "unstable"),
        ("mt-sics", b"S +", "overload"),
        ("mt-sics", b"S -", "underload"),
        ("mt-sics", b"S I", "not_ready"),
        ("sartorius-16", b"+   62.916    ", "unstable"),
        ("sartorius-16", b"     High     ", "overload"),
        ("sartorius-16", b"      H       ", "overload"),
        ("sartorius-16", b"      Low     ", "underload"),
        ("sartorius-16", b"      L       ", "underload"),
        ("sartorius-16", b"   Err 101    ", "not_ready"),
        ("sartorius-16", b"   Cal.Int.   ", "not_ready"),
        ("sartorius-16", b"      --      ", "not_ready"),
        ("sartorius-22", b"N     +   123.56    ", "unstable"),
        ("sartorius-22", b"Stat        H       ", "overload"),
        ("sartorius-22", b"Stat        LL      ", "underload"),
        ("sartorius-22", b"Stat     Err 054    ", "not_ready"),
        ("sartorius-22", b"T     +   123.56 g  ", "no_match"),
        ("sartorius-22", b"G     +   123.56 g  ", "no_match"),
        ("a&d", b"US,-00183.69  g", "unstable"),
        ("a&d", b"US,-00183.69ozt", "unstable"),
        ("a&d", b"OL,+9999999E+19", "overload"),
        ("a&d", b"OL,-9999999E+19", "underload"),
        ("a&d", b"EC,E11", "not_ready"),
        ("a&d", b"ST,+00012.3", "no_match"),
    ],
)
def test_a_line_that_is_no_weight_is_refused_in_its_word(preset: str, line: bytes, reason: str) -> None:
    refused = read(preset, line)
    assert isinstance(refused, Rejection)
    assert refused.reason == reason
    if reason == "no_match":
        assert refused.todo == f"set the instrument as docs/device_toml.md says of {preset}"
    else:
        assert f"found {reason.replace('_', ' ')}: '{' '.join(line.decode().split())}'" in str(refused)


@pytest.mark.parametrize(
    ("preset", "line", "unit"),
    [
        ("mt-sics", b"S S      3.527 oz", "oz"),
        ("sartorius-16", b"+  1543.24 GN ", "GN"),
        ("sartorius-22", b"N     +   0.12356 kg ", "kg"),
        ("a&d", b"ST,+0000.397ozt", "ozt"),
        ("a&d", b"QT,+00000012 PC", "PC"),
    ],
)
def test_a_unit_switched_on_the_panel_is_refused_with_both_units(preset: str, line: bytes, unit: str) -> None:
    refused = read(preset, line)
    assert isinstance(refused, Rejection)
    assert refused.reason == "other_unit"
    assert str(refused) == (
        f"unit of channel 'mass': found '{unit}'; expected 'g'; set the instrument back to it on its panel, or leave unit "
        "out to have each unit converted"
    )


def test_without_unit_each_unit_is_handed_on_to_be_converted() -> None:
    channels = {"mass": ChannelBinding(field="mass", unit_field="unit")}
    assert read("mt-sics", b"S S 0.100 kg", channels) == Reading((0.1,), units=("kg",))


def test_a_preset_will_not_guess_the_unit() -> None:
    with pytest.raises(ConfigurationError, match='write unit_field = "unit" beside unit: its unit may be switched'):
        read("mt-sics", b"", {"mass": ChannelBinding(field="mass", unit="g")})


@pytest.mark.parametrize("preset", PRESETS)
def test_all_patterns_of_a_preset_give_the_same_fields(preset: str) -> None:
    fields = [list(compile_pattern(one, ".").fields) for one in PRESETS[preset].weight]
    assert fields == [["mass", "unit"]] * len(fields)
    assert isinstance(make_decoder(PatternDecode(format="pattern", preset=preset), GRAMS), PatternDecoder)


def test_an_instrument_of_ones_own() -> None:
    decode = PatternDecode(format="pattern", pattern="{m:number} mm", refuse={"overload": ("----", "OVER {n:int}")})
    decoder = make_decoder(decode, {"gap": ChannelBinding(field="m", unit="mm")})
    assert decoder.decode(b"1.5 mm") == Reading((1.5,))
    for line in (b"----", b"OVER 3"):
        assert str(decoder.decode(line)) == (
            f"instrument: found overload: '{line.decode()}'; expected a value within its range; take the load off"
        )
    assert "expected a line like '{m:number} mm'" in str(decoder.decode(b"-----"))


BRACKETS = [
    ("mt-sics", b"S S     100.0[5] g", 100.05, 100.0),
    ("sartorius-16", b"+   62.91[6] g  ", 62.916, 62.91),
    ("sartorius-22", b"N     +   123.5[6] g  ", 123.56, 123.5),
    ("a&d", b"ST,+00012.3[4]  g", 12.34, 12.3),
    ("a&d", b"ST,+00012.[34]g", 12.34, 12.0),
    ("a&d", b"QT,+0001[2] PC", 12, 1),
]


def read_brackets(preset, line, setting):
    keys = {} if setting is None else {"unverified_digits": setting}
    decode = PatternDecode(format="pattern", preset=preset, encoding="latin-1", **keys)
    unit = {"mass": ChannelBinding(field="mass", unit_field="unit")}
    return make_decoder(decode, unit).decode(line)


@pytest.mark.parametrize(("preset", "line", "kept", "dropped"), BRACKETS[:5])
def test_digits_in_brackets_are_as_the_setting_says(preset: str, line: bytes, kept: float, dropped: float) -> None:
    assert read_brackets(preset, line, "keep").values == (kept,)
    assert read_brackets(preset, line, "drop").values == (dropped,)
    refused = read_brackets(preset, line, None)
    assert refused.reason == "unverified"
    assert "digits in brackets" in str(refused)
    assert 'set decode.unverified_digits to "keep" or "drop" where that is allowed' in str(refused)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"S D     100.0[5] g", "unstable"),
        (b"S S     100.0[x] g", "no_match"),
        (b"S S     [5] g", "no_match"),
        (b"S S     100.0[5 g", "no_match"),
        (b"S S     100.0[] g", "no_match"),
        (b"S X     100.0[5] g", "no_match"),
    ],
)
@pytest.mark.parametrize("setting", ["refuse", "keep", "drop"])
def test_brackets_make_no_weight_of_what_is_none(line: bytes, reason: str, setting: str) -> None:
    assert read_brackets("mt-sics", line, setting).reason == reason


def test_a_pattern_may_have_brackets_of_its_own() -> None:
    decode = PatternDecode(format="pattern", pattern="T1[{place:int}] {mass:number}", unverified_digits="drop")
    channels = {"mass": ChannelBinding(field="mass", unit="g")}
    assert make_decoder(decode, channels).decode(b"T1[2] 5.5").values == (5.5,)


@pytest.mark.parametrize("line", [b"ES", b"ET\r", b"EL"])
def test_a_balance_that_did_not_understand_says_to_correct_the_question(line: bytes) -> None:
    refused = read("mt-sics", line)
    assert isinstance(refused, Rejection)
    assert (refused.reason, refused.todo) == (
        "no_match",
        "correct source.poll.send: the question, and the line end behind it",
    )
    assert refused.found.endswith("it did not understand what it was sent")
    other = read("sartorius-16", line)
    assert isinstance(other, Rejection)
    assert "understand" not in str(other)
