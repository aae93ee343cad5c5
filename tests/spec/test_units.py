"""Every unit of the table against pint, every refusal by its words, and the page that lists them against the code.

`python tests/spec/test_units.py` writes the table in docs/units.md anew.
"""

import math
import pickle
import re
import subprocess
import sys
from itertools import combinations, permutations
from pathlib import Path

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.spec.unit_table import EVERYDAY
from edge_runtime.spec.units import (
    VOCABULARIES,
    Affine,
    UnitMismatch,
    UnitUnknown,
    conversion,
    fitting,
    resolve,
    siblings,
    spellings,
    table,
)

PAGE = Path(__file__).parents[2] / "docs" / "units.md"
UNITS = {unit.code: unit for unit in table()}
PAIRS = [(have, want) for have, want in permutations(table(), 2) if have.dimension == want.dimension]
MAGNITUDES = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-12)  # subnormals lose digits
VALUES = (-40.0, 0.0, 1.0, 21.5, 1013.25)

# Written from pint's names alone, so that a slip in the table cannot repeat itself here.
PINT = {
    "Cel": "degC", "K": "kelvin", "[degF]": "degF", "[degR]": "degR",
    "[psi]": "psi", "[in_i'Hg]": "inHg", "mm[Hg]": "mmHg", "cm[H2O]": "cmH2O", "[in_i'H2O]": "test_inch_water",
    "Torr": "torr",
    "%": "percent", "1": "dimensionless", "[ppm]": "ppm", "[ppth]": "permille", "[ppb]": "test_ppb",
    "[pptr]": "test_pptr",
    "m/s2": "m/s**2", "[g]": "standard_gravity", "m[g]": "test_milligravity", "mm/s2": "mm/s**2", "Gal": "galileo",
    "[ft_i]/s2": "ft/s**2",
    "km/h": "km/hour", "[mi_i]/h": "mile/hour", "[kn_i]": "knot", "[ft_i]/s": "ft/s", "[in_i]/s": "inch/s",
    "mm/h": "mm/hour", "[in_i]/h": "inch/hour", "mm/d": "mm/day", "m/h": "m/hour",
    "[in_i]": "inch", "[ft_i]": "foot", "[yd_i]": "yard", "[mi_i]": "mile", "[nmi_i]": "nautical_mile",
    "m2": "m**2", "cm2": "cm**2", "mm2": "mm**2", "[sft_i]": "ft**2", "[sin_i]": "inch**2",
    "m3": "m**3", "[gal_us]": "US_liquid_gallon", "[gal_br]": "imperial_gallon", "[foz_us]": "US_fluid_ounce",
    "[cft_i]": "ft**3",
    "m3/h": "m**3/hour", "m3/s": "m**3/s", "L/h": "L/hour", "[gal_us]/min": "US_liquid_gallon/min",
    "[cft_i]/min": "ft**3/min",
    "t": "metric_ton", "[lb_av]": "pound", "[oz_av]": "ounce", "[gr]": "grain", "[car_m]": "carat",
    "kg/h": "kg/hour", "[lb_av]/h": "pound/hour",
    "ug/m3": "ug/m**3", "mg/m3": "mg/m**3", "kg/m3": "kg/m**3", "g/m3": "g/m**3", "g/cm3": "g/cm**3",
    "kgf": "kilogram_force", "[lbf_av]": "pound_force",
    "N.m": "N*m", "mN.m": "mN*m", "kN.m": "kN*m", "[ft_i].[lbf_av]": "foot*pound_force",
    "[in_i].[lbf_av]": "inch*pound_force",
    "mPa.s": "mPa*s", "Pa.s": "Pa*s", "mm2/s": "mm**2/s", "m2/s": "m**2/s",
    "h": "hour", "d": "day", "/min": "1/min", "deg": "degree", "circ": "turn", "circ/min": "turn/min",
    "deg/s": "degree/s", "circ/s": "turn/s",
    "Ohm": "ohm", "mOhm": "milliohm", "kOhm": "kiloohm", "MOhm": "megaohm",
    "A.h": "A*hour", "mA.h": "mA*hour", "A.s": "coulomb", "V.A": "V*A", "kV.A": "kV*A", "var": "V*A", "kvar": "kV*A",
    "kW.h": "kW*hour", "W.h": "W*hour", "MW.h": "MW*hour",
    "W/m2": "W/m**2", "kW/m2": "kW/m**2", "mW/cm2": "mW/cm**2",
    "MJ/m2": "MJ/m**2", "J/m2": "J/m**2", "W.h/m2": "W*hour/m**2", "kW.h/m2": "kW*hour/m**2", "cd/m2": "cd/m**2",
    "umol/m2/s": "umol/m**2/s", "lx": "lux", "klx": "kilolux", "G": "test_gauss",
    "uSv/h": "uSv/hour", "mSv/h": "mSv/hour", "nSv/h": "nSv/hour", "Bq/m3": "Bq/m**3",
    "By": "byte", "kBy": "kilobyte", "MBy": "megabyte", "GBy": "gigabyte", "KiBy": "kibibyte", "MiBy": "mebibyte",
    "By/s": "byte/s", "kBy/s": "kilobyte/s", "MBy/s": "megabyte/s",
}  # fmt: skip

LEVELS = {"power level", "sound pressure level"}

EQUAL_ON_PURPOSE = {
    frozenset({"hPa", "mbar"}),
    frozenset({"mg/m3", "ug/L"}),
    frozenset({"mg/L", "g/m3"}),
    frozenset({"g/L", "kg/m3"}),
    frozenset({"mS/cm", "dS/m"}),
}


@pytest.fixture(scope="module")
def pints() -> pint.UnitRegistry:
    registry = pint.UnitRegistry(autoconvert_offset_to_baseunit=True)
    # What pint lacks, or knows only in a system of units that it cannot convert from.
    registry.define("test_inch_water = 2.54 * cmH2O")
    registry.define("test_milligravity = 1e-3 * standard_gravity")
    registry.define("test_ppb = 1e-9")
    registry.define("test_pptr = 1e-12")
    registry.define("test_gauss = 1e-4 * tesla")
    return registry


def linear_pairs():
    return [pair for pair in PAIRS if pair[0].dimension not in LEVELS]


def test_every_pair_agrees_with_pint_for_points(pints):
    for have, want in linear_pairs():
        a, b = conversion(have, want)
        source, target = (pints.Unit(PINT.get(unit.code, unit.code)) for unit in (have, want))
        for value in VALUES:
            expected = pints.Quantity(value, source).to(target).magnitude
            bound = 1e-12 * max(abs(expected), abs(a * value), abs(b))
            assert abs(a * value + b - expected) <= bound, (have.code, want.code, value)


def test_every_pair_agrees_with_pint_for_differences(pints):
    delta = {"degC": "delta_degC", "degF": "delta_degF"}
    for have, want in linear_pairs():
        a, b = conversion(have, want, "difference")
        names = [PINT.get(unit.code, unit.code) for unit in (have, want)]
        source, target = (pints.Unit(delta.get(name, name)) for name in names)
        expected = pints.Quantity(1.0, source).to(target).magnitude
        assert b == 0.0
        assert math.isclose(a, expected, rel_tol=1e-12), (have.code, want.code)


def test_power_levels_agree_with_pint_through_watts(pints):
    a, b = conversion(UNITS["dBm"], UNITS["dB[W]"])
    for value in (-110.0, -30.0, 0.0, 12.5):
        watts = pints.Quantity(value, "dBm").to("W").magnitude
        assert math.isclose(a * value + b, 10 * math.log10(watts), rel_tol=1e-12, abs_tol=1e-12)
    assert conversion(UNITS["dBm"], UNITS["dB[W]"], "difference") == Affine(1.0, 0.0)


def test_a_bel_is_ten_decibels():
    assert conversion(UNITS["B[SPL]"], UNITS["dB[SPL]"]) == Affine(10.0, 0.0)


def test_pint_is_asked_about_known_units_only():
    assert {*PINT} <= {*UNITS}


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        ("Cel", "[degF]", Affine(1.8, 32.0)),
        ("K", "Cel", Affine(1.0, -273.15)),
        ("[degF]", "Cel", Affine(5 / 9, -160 / 9)),
        ("hPa", "mbar", Affine(1.0, 0.0)),
        ("km/h", "m/s", Affine(1 / 3.6, 0.0)),
        ("%", "1", Affine(0.01, 0.0)),
        ("[g]", "m/s2", Affine(9.80665, 0.0)),
        ("dBm", "dB[W]", Affine(1.0, -30.0)),
    ],
)
def test_factors_are_rounded_once(have, want, expected):
    assert conversion(UNITS[have], UNITS[want]) == expected


@pytest.mark.parametrize("kind", ["point", "difference"])
def test_a_unit_becomes_itself_exactly(kind):
    for unit in table():
        assert conversion(unit, unit, kind) == Affine(1.0, 0.0)


@given(pair=st.sampled_from(PAIRS), value=MAGNITUDES, kind=st.sampled_from(["point", "difference"]))
def test_there_and_back_is_the_same_value(pair, value, kind):
    there, back = conversion(*pair, kind), conversion(*pair[::-1], kind)
    middle = there.a * value + there.b
    bound = 1e-12 * max(abs(value), abs(back.b), abs(back.a * there.b))
    assert abs(back.a * middle + back.b - value) <= bound


@given(pair=st.sampled_from(PAIRS), value=MAGNITUDES)
def test_both_units_name_the_same_place_on_the_base_scale(pair, value):
    have, want = pair
    a, b = conversion(have, want)
    base = value * have.scale + have.offset
    assert abs((a * value + b) * want.scale + want.offset - base) <= 1e-12 * max(
        abs(base), abs(have.offset), abs(want.offset), abs(value * have.scale)
    )


def test_two_codes_are_equal_only_on_purpose():
    equal = {frozenset({x.code, y.code}) for x, y in combinations(table(), 2) if x[1:] == y[1:]}
    assert equal == EQUAL_ON_PURPOSE


def test_each_code_stands_once():
    assert len(UNITS) == len(table())
    assert all(unit.scale > 0 and math.isfinite(unit.offset) for unit in table())


@pytest.mark.parametrize(
    ("have", "want", "said"),
    [
        ("m", "Cel", "m measures length and cannot become Cel, which measures temperature"),
        ("%", "Pa", "% measures a plain ratio and cannot become Pa, which measures pressure"),
        ("N.m", "J", "N.m measures torque and cannot become J, which measures energy"),
        ("circ/min", "Hz", "circ/min measures rotation and cannot become Hz, which measures frequency"),
        ("dBm", "W", "dBm measures power level and cannot become W, which measures power"),
        ("g", "[g]", "g measures mass and cannot become [g], which measures acceleration"),
    ],
)
@pytest.mark.parametrize("kind", ["point", "difference"])
def test_another_dimension_is_refused(have, want, said, kind):
    with pytest.raises(UnitMismatch) as refusal:
        conversion(UNITS[have], UNITS[want], kind)
    assert str(refusal.value) == said
    assert (refusal.value.have.code, refusal.value.want.code) == (have, want)


@pytest.mark.parametrize(
    ("text", "vocabulary", "code"),
    [
        ("%", "ucum", "%"), ("%", "senml", "1"), ("%", "home-assistant", "%"), ("percent", "plain", "%"),
        ("%RH", "senml", "%"), ("/100", "senml", "%"), ("/", "senml", "1"), ("ratio", "plain", "1"),
        ("g", "ucum", "g"), ("g", "senml", "g"), ("g", "home-assistant", "g"), ("gram", "plain", "g"),
        ("[g]", "ucum", "[g]"), ("[g]", "plain", "[g]"), ("gravity", "plain", "[g]"),
        ("Cel", "ucum", "Cel"), ("Cel", "senml", "Cel"), ("°C", "home-assistant", "Cel"), ("degC", "plain", "Cel"),
        ("°F", "home-assistant", "[degF]"), ("degF", "plain", "[degF]"), ("inHg", "plain", "[in_i'Hg]"),
        ("mph", "home-assistant", "[mi_i]/h"),
        ("UV index", "home-assistant", "{UV_index}"), ("kn", "plain", "[kn_i]"), ("W/m²", "home-assistant", "W/m2"),
        ("µg/m³", "home-assistant", "ug/m3"), ("\N{GREEK SMALL LETTER MU}g/m³", "home-assistant", "ug/m3"),
        ("gal", "home-assistant", "[gal_us]"), ("ppt", "senml", "[pptr]"), ("ppt", "ucum", None),
        ("m/s2", "senml", "m/s2"), ("hPa", "senml", "hPa"), ("rpm", "plain", "circ/min"),
    ],
)  # fmt: skip
def test_a_spelling_means_what_its_vocabulary_says(text, vocabulary, code):
    if code is None:
        with pytest.raises(UnitUnknown):
            resolve(text, vocabulary)
    else:
        assert resolve(text, vocabulary) == UNITS[code]


def test_ucum_is_assumed():
    assert resolve("[degF]").code == "[degF]"


@pytest.mark.parametrize(
    ("text", "vocabulary", "hint"),
    [
        ("C", "ucum", "it is read in more than one way: write Cel for degrees Celsius or A.s for coulombs"),
        ("C", "senml", "it is read in more than one way: write Cel for degrees Celsius"),
        ("C", "home-assistant", "it is read in more than one way: write °C for degrees Celsius"),
        ("C", "plain", "it is read in more than one way: write degC for degrees Celsius or coulomb for coulombs"),
        ("F", "ucum", "it is read in more than one way: write [degF] for degrees Fahrenheit or uF for microfarads"),
        ("F", "senml", "this vocabulary cannot say degrees Fahrenheit: declare vocabulary ucum and write [degF]"),
        ("F", "home-assistant", "it is read in more than one way: write °F for degrees Fahrenheit"),
        ("F", "plain", "it is read in more than one way: write degF for degrees Fahrenheit or uF for microfarads"),
        ("g", "plain", "it is read in more than one way: write gram for grams or [g] for standard gravity"),
        ("%", "plain", "it is read in more than one way: write percent for percent or ratio for a ratio of 1"),
        ("gal", "plain", "it is read in more than one way: write gal_us for US gallons or gal_uk for imperial gallons"),
        ("degC", "ucum", "write Cel"),
        ("Cel", "plain", "write degC"),
        ("inHg", "senml", "it is one in vocabulary home-assistant: declare that"),
        ("HPA", "ucum", "nearest: hPa"),
        ("degc", "plain", "nearest: degC, deg, degR"),
        ("furlong", "ucum", "docs/units.md lists those that are"),
        ("", "plain", "docs/units.md lists those that are"),
        (" hPa", "plain", "nearest: hPa, Pa"),
    ],
)
def test_an_unknown_unit_is_refused_with_what_to_write(text, vocabulary, hint):
    with pytest.raises(UnitUnknown) as refusal:
        resolve(text, vocabulary)
    assert (refusal.value.text, refusal.value.hint) == (text, hint)
    assert str(refusal.value) == f"{text!r} is not a unit in vocabulary {vocabulary}; {hint}"


def test_a_long_or_broken_unit_makes_a_short_line():
    with pytest.raises(UnitUnknown) as refusal:
        resolve("hPa\n" * 1_000_000, "plain")
    assert len(str(refusal.value)) < 300
    assert "\n" not in str(refusal.value)
    assert "3999960 characters more" in str(refusal.value)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_celsius_and_fahrenheit_need_more_than_a_letter(vocabulary):
    assert not {"C", "F"} & {*spellings(vocabulary)}


def test_vocabularies_do_not_leak():
    assert not {"Cel", "[degF]", "%", "g", "C", "F"} & {*spellings("plain")}
    assert not {"degC", "°C", "inHg", "%RH", "/100"} & {*spellings("ucum")}
    assert not {"[degF]", "degF", "°F", "percent", "[ppm]"} & {*spellings("senml")}
    assert not {"Cel", "degC", "[degF]", "/100", "m/s2"} & {*spellings("home-assistant")}


def test_a_text_of_two_meanings_is_known_to_be_one():
    meanings: dict[str, set[str]] = {}
    for vocabulary in VOCABULARIES:
        for text, code in spellings(vocabulary).items():
            meanings.setdefault(text, set()).add(code)
    assert {text: codes for text, codes in meanings.items() if len(codes) > 1} == {"%": {"%", "1"}}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_each_spelling_resolves(vocabulary):
    for text, code in spellings(vocabulary).items():
        assert resolve(text, vocabulary) == UNITS[code]


def test_each_code_is_a_ucum_spelling():
    assert {*UNITS} <= {*spellings("ucum")}


def test_siblings_are_of_another_size():
    assert [unit.code for unit in siblings(UNITS["Cel"])] == ["K", "[degF]", "[degR]"]
    assert "mbar" not in {unit.code for unit in siblings(UNITS["hPa"])}
    assert siblings(UNITS["[pH]"]) == ()


@pytest.mark.parametrize(
    ("unit", "values", "low", "high", "kind", "codes"),
    [
        ("Cel", [290.0, 294.5], -20, 60, "point", ("K",)),
        ("Cel", [55.0, 68.0, 104.0], -20, 45, "point", ("[degF]",)),
        ("Cel", [290.0, 1.0], -20, 60, "point", ()),
        ("Cel", [290.0, math.nan], -20, 60, "point", ()),
        ("Cel", [], -20, 60, "point", ()),
        ("Cel", [9.0], 4, 6, "difference", ("[degF]",)),
        ("hPa", [101_325.0], 900, 1100, "point", ("Pa",)),
        ("%", [101.5], 1, 100, "point", ()),
        ("hPa", [29.92], 900, 1100, "point", ("[in_i'Hg]",)),
        ("m/s2", [1.0, -0.98], -20, 20, "point", ("[g]", "m[g]", "mm/s2", "Gal", "[ft_i]/s2")),
        ("1", [45.0], 0, 1, "point", ("%", "[ppm]", "[ppb]")),
    ],
)
def test_values_tell_which_sibling_they_fit(unit, values, low, high, kind, codes):
    assert fitting(UNITS[unit], values, low, high, kind) == codes


def test_a_difference_in_kelvin_is_one_in_celsius():
    assert "K" not in fitting(UNITS["Cel"], [5.0], 4, 6, "difference")


def test_refusals_travel_between_processes():
    unknown = pickle.loads(pickle.dumps(UnitUnknown("C", "plain")))  # noqa: S301
    mismatch = pickle.loads(pickle.dumps(UnitMismatch(UNITS["m"], UNITS["K"])))  # noqa: S301
    assert "degC" in str(unknown)
    assert mismatch.want == UNITS["K"]


def test_import_loads_nothing_heavy():
    heavy = "{'numpy', 'fractions', 'decimal', 'difflib', 'pydantic'}"
    code = f"import sys, edge_runtime.spec.units; print({{*sys.modules}} & {heavy})"
    run = [sys.executable, "-S", "-c", code]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=PAGE.parents[1])
    assert said.stdout.strip() == "set()"


def page_rows() -> str:
    spelled = {v: {} for v in VOCABULARIES[1:]}
    for vocabulary, codes in spelled.items():
        for text, code in spellings(vocabulary).items():
            if "\N{GREEK SMALL LETTER MU}" not in text:
                codes.setdefault(code, []).append(f"`{text}`")
    lines = [
        "| dimension | code (ucum) | scale | offset | senml | home-assistant | plain |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {unit.dimension} | `{unit.code}` | {unit.scale:.12g} | {unit.offset:.12g} | "
        + " | ".join(" ".join(codes.get(unit.code, [])) for codes in spelled.values())
        + " |"
        for unit in table()
    ]
    return "\n".join(lines) + "\n"


def test_the_page_lists_what_the_code_knows():
    assert PAGE.read_text(encoding="utf-8").endswith("\n" + page_rows())


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index("| dimension |")] + page_rows(), encoding="utf-8")


@pytest.mark.parametrize("word", EVERYDAY)
def test_everyday_words_lead_on_and_are_no_units(word: str) -> None:
    for text in (word, word.upper(), f"{word} "):
        with pytest.raises(UnitUnknown, match=re.escape(f"write {EVERYDAY[word]}")):
            resolve(text)
    assert resolve(EVERYDAY[word]).code == EVERYDAY[word]
