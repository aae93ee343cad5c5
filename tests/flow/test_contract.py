import datetime as dt
import math

import pytest
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.contract import MAX_REMEMBERED_UNITS, Contract, Judged
from edge_runtime.flow.window import NS, Stream, WindowRule
from edge_runtime.spec.binding import ChannelBinding, Correction
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.reading import Reading, Rejection
from edge_runtime.spec.result import ASSUMED_UNIT, BEYOND_TOLERATED, CONVERTED, EXTRAPOLATING, FILLED, HELD, MISSING
from tests.rig import kinds


def band(low, high):
    return Band(min=low, max=high)


def temperature(when_undeclared="refuse", kind="point"):
    return Channel(
        name="air", unit="Cel", kind=kind, trained=band(-10, 30), tolerated=band(-20, 40), physical=band(-60, 60),
        when_undeclared=when_undeclared,
    )  # fmt: skip


def contract(unit=None, when_undeclared="refuse", *, kind="point", **binding):
    return Contract([temperature(when_undeclared, kind)], {"air": ChannelBinding(field="t", unit=unit, **binding)})


def judged(one, value, units=None):
    return one.judge(Reading((value,), units=units))


def test_a_value_in_the_contract_unit_passes_unchanged_and_unflagged():
    assert judged(contract("Cel"), 21.5) == Judged((21.5,), 0)


@pytest.mark.parametrize(("unit", "value", "celsius"), [("[degF]", 68.0, 20.0), ("K", 293.15, 20.0)])
def test_a_declared_unit_is_converted_and_flagged(unit, value, celsius):
    one = judged(contract(unit), value)
    assert one.values[0] == pytest.approx(celsius, rel=1e-12)
    assert one.flags == CONVERTED


def test_a_difference_drops_the_offset():
    assert judged(contract("[degF]", kind="difference"), 18.0).values[0] == pytest.approx(10.0, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (-10, 0), (30, 0), (30.1, EXTRAPOLATING), (-10.1, EXTRAPOLATING), (40, EXTRAPOLATING),
        (40.1, EXTRAPOLATING | BEYOND_TOLERATED), (60, EXTRAPOLATING | BEYOND_TOLERATED), (-60, EXTRAPOLATING | BEYOND_TOLERATED),
    ],
)  # fmt: skip
def test_each_band_has_its_flag_and_both_ends_belong_to_it(value, flags):
    assert judged(contract("Cel"), value) == Judged((float(value),), flags)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (60.001, "beyond_physical"), (-60.001, "beyond_physical"), (math.nan, "not_finite"), (math.inf, "not_finite"),
        (-math.inf, "not_finite"), (None, "missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_reason(value, reason):
    one = judged(contract("Cel"), value)
    assert isinstance(one, Rejection)
    assert one.reason == reason
    assert "air" in str(one)


def test_a_huge_finite_value_whose_conversion_overflows_is_refused():
    assert judged(contract("[degF]"), 1.7e308).reason == "beyond_physical"
    assert judged(contract("[degF]"), -1.7e308).reason == "beyond_physical"


def test_an_undeclared_unit_is_refused_even_where_the_value_is_missing_or_absurd():
    for value in (20.0, None, math.nan, 1e9):
        one = judged(contract(), value)
        assert one.reason == "undeclared_unit"
        assert 'channels.air.unit = "Cel"' in one.todo


def test_an_assumed_unit_is_flagged_and_a_kelvin_value_is_refused_with_the_hint():
    one = contract(when_undeclared="assume")
    assert judged(one, 20.0) == Judged((20.0,), ASSUMED_UNIT)
    refused = judged(one, 293.15)
    assert refused.reason == "beyond_physical"
    assert "(assumed Cel)" in refused.found
    assert 'channels.air.unit = "K"' in refused.todo


@pytest.mark.parametrize(("beyond", "near"), [(0.5, True), (60.0, False)])
def test_a_number_little_beyond_its_band_is_first_a_sensor_that_is_off(beyond, near):
    refused = judged(contract("Cel"), 60.0 + beyond)
    assert refused.reason == "beyond_physical"
    assert refused.todo.startswith("little beyond the end of the band: check the sensor's calibration") == near
    assert ("fits [degF]" in refused.todo) == near


def test_a_wrongly_declared_unit_is_refused_with_the_unit_that_fits():
    refused = judged(contract("K"), 68.0)
    assert refused.reason == "beyond_physical"
    assert "[degF]" in refused.todo or "Cel" in refused.todo
    assert "68 (K)" in refused.found


def test_a_wrong_dimension_or_unknown_unit_is_refused_when_made():
    for unit in ("Pa", "furlong", "C"):
        with pytest.raises(ConfigurationError, match="channel air, unit"):
            contract(unit)


def test_the_unit_of_the_payload_counts_and_is_learned_once():
    one = contract(unit_field="u")
    assert judged(one, 68.0, ("[degF]",)).values[0] == pytest.approx(20.0, rel=1e-12)
    assert judged(one, 20.0, ("Cel",)) == Judged((20.0,), 0)
    assert judged(one, 20.0, (None,)).reason == "undeclared_unit"
    assert judged(one, None, (None,)).reason == "undeclared_unit"
    missing = judged(contract(unit_field="u", vocabulary="senml"), None, (None,))
    assert (missing.reason, missing.expected) == ("missing", "a number in Cel")
    assert judged(one, 20.0, ("Pa",)).reason == "wrong_dimension"
    assert judged(one, 20.0, ("furlong",)).reason == "unknown_unit"
    assert judged(one, 20.0, ("furlong",)).reason == "unknown_unit"
    told = judged(one, 20.0, ("F",)).todo
    assert told.endswith("; or say what the sender means by 'F' in channels.air.unit_map")


def test_a_stream_that_invents_units_cannot_fill_the_memory():
    one = contract(unit_field="u")
    for number in range(3 * MAX_REMEMBERED_UNITS):
        judged(one, 1.0, (f"x{number}",))
    assert len(one._remembered) == MAX_REMEMBERED_UNITS
    assert judged(one, 20.0, ("K",)).reason == "beyond_physical"


def test_a_correction_comes_before_the_conversion_and_stands_in_the_words():
    correction = Correction(a=1.0, b=-2.0, date=dt.date(2026, 1, 2), expires=dt.date(2027, 1, 2))
    one = contract("[degF]", correction=correction)
    assert judged(one, 70.0).values[0] == pytest.approx(20.0, rel=1e-12)
    assert "correction" in one.conversions[0]
    assert "2026-01-02" in one.conversions[0]
    assert "expires 2027-01-02" in one.conversions[0]


def test_the_first_bad_channel_decides():
    channels = [temperature(), temperature().model_copy(update={"name": "soil"})]
    bindings = {"air": ChannelBinding(field="a", unit="Cel"), "soil": ChannelBinding(field="s", unit="Cel")}
    one = Contract(channels, bindings).judge(Reading((None, 99.0)))
    assert (one.reason, one.subject) == ("missing", "channel air")


def stream_of(*channels, pushed=()):
    """A contract of several channels and its stream, through which ``pushed`` (seconds, values) has gone."""
    made = kinds.manifest([kinds.taking(*channels)])
    one, stream = Contract(made.channels, kinds.bindings(made)), Stream(WindowRule(made), ())
    for seconds, values in pushed:
        sample = one.judge(Reading(values), stream, seconds * NS)
        assert stream.push(seconds * NS, *sample) is True
    return one, stream


def test_a_missing_number_is_held_until_it_is_too_old_and_its_age_counts_from_the_real_one():
    one, stream = stream_of(
        kinds.number(when_missing="hold", hold_s=20.0), kinds.number("b"), pushed=[(0, (5.0, 1.0)), (10, (None, 2.0))]
    )
    held = one.judge(Reading((None, 3.0)), stream, 20 * NS)
    assert held == Judged((5.0, 3.0), HELD, (0,))
    late = one.judge(Reading((None, 3.0)), stream, 20 * NS + 1)
    assert (late.reason, late.subject) == ("missing", "channel a")
    assert one.judge(Reading((7.0, 3.0)), stream, 20 * NS + 1) == Judged((7.0, 3.0), 0)


def test_nothing_is_held_before_a_first_number_or_from_another_stream():
    channel = kinds.number(when_missing="hold", hold_s=20.0)
    one, stream = stream_of(channel)
    assert one.judge(Reading((None,)), stream, 0).reason == "missing"
    assert one.judge(Reading((None,)), None, 0).reason == "missing"


def test_a_held_number_is_the_converted_one_and_a_held_word_stays_a_word():
    one, stream = stream_of(
        kinds.number(when_missing="hold", hold_s=5.0), kinds.category(when_missing="hold", hold_s=5.0),
        pushed=[(0, (5.0, "green"))],
    )  # fmt: skip
    assert one.judge(Reading((None, None)), stream, 5 * NS) == Judged((5.0, 1.0), HELD, (0, 1))
    assert one.judge(Reading((None, None)), stream, 5 * NS + 1).reason == "missing"


def test_a_missing_number_is_filled_or_passed_on_as_nan_and_flagged():
    one, _ = stream_of(kinds.number(when_missing="fill", fill=-5.0), kinds.number("b", when_missing="pass"))
    found = one.judge(Reading((None, None)))
    assert found.flags == FILLED | MISSING
    assert found.values[0] == -5.0
    assert math.isnan(found.values[1])
    assert one.judge(Reading((1.0, 2.0))) == Judged((1.0, 2.0), 0)


@pytest.mark.parametrize("policy", [{"when_missing": "fill", "fill": 0.0}, {"when_missing": "pass"}])
def test_a_policy_for_missing_numbers_excuses_no_other_fault(policy):
    one, _ = stream_of(kinds.number(**policy))
    for value, reason in (
        (math.nan, "not_finite"),
        (101.0, "beyond_physical"),
        ("5", "not_a_number"),
        (True, "not_a_number"),
    ):
        assert one.judge(Reading((value,))).reason == reason
    undeclared = Contract([kinds.channel(kinds.number(**policy))], {"a": ChannelBinding(field="a")})
    assert undeclared.judge(Reading((None,))).reason == "undeclared_unit"


@pytest.mark.parametrize(
    ("policy", "flag"), [({"fill": 0.0, "when_missing": "fill"}, FILLED), ({"when_missing": "pass"}, MISSING)]
)
def test_a_record_that_is_not_there_brings_no_unit_either(policy, flag):
    one = Contract(
        [kinds.channel(kinds.number(**policy))], {"a": ChannelBinding(field="a", unit_field="u", vocabulary="senml")}
    )
    assert one.judge(Reading((None,), units=(None,))).flags == flag
    assert one.judge(Reading((1.0,), units=(None,))).reason == "undeclared_unit"


def test_a_category_may_be_filled_with_the_place_of_one_of_its_words_only():
    one, _ = stream_of(kinds.category(when_missing="fill", fill=2))
    assert one.judge(Reading((None,))) == Judged((2.0,), FILLED)
    for fill in (3, -1, 0.5):
        with pytest.raises(ValidationError, match="fill must be the place of one of its categories"):
            kinds.channel(kinds.category(when_missing="fill", fill=fill))


def test_forms_stand_side_by_side_in_the_order_of_the_inputs():
    made = kinds.manifest([
        kinds.taking(kinds.number(), kinds.category(unknown=0)),
        kinds.taking(kinds.opaque(shape=[3]), tensor="z", shape=["batch", 3], axes=["batch", "point"], dtype="uint8"),
    ])  # fmt: skip
    one = Contract(made.channels, kinds.bindings(made))
    assert one.judge(Reading((51.0, "blue", [7, 8, 9]))).values.tolist() == [51.0, 2.0, 7.0, 8.0, 9.0]
    assert one.judge(Reading((51.0, "blue", [7, 8, 9]))).flags == EXTRAPOLATING
    assert one.judge(Reading((101.0, "blue", [7, 8]))).subject == "channel a"
    assert one.judge(Reading((1.0, "blue", [7, 8]))).subject == "channel raw"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_an_integer_has_no_nan_to_pass_on(dtype):
    with pytest.raises(ValidationError, match="has no NaN"):
        kinds.channel(kinds.opaque(dtype=dtype, when_missing="pass"))
    with pytest.raises(ValidationError, match="fill must be whole"):
        kinds.channel(kinds.opaque(dtype=dtype, when_missing="fill", fill=0.5))


def test_texts_that_are_no_units_mean_what_the_binding_says():
    one = contract(unit_field="TempUnit", unit_map={"C": "Cel", "F": "[degF]"})
    assert judged(one, 68.0, ("F",)).values[0] == pytest.approx(20.0)
    assert judged(one, 20.0, ("C",)) == Judged((20.0,), 0)
    for text in ("K", "Cel", "c"):
        found = judged(one, 20.0, (text,))
        assert (found.reason, found.expected) == ("unknown_unit", "'C' or 'F'")
    assert judged(one, 20.0, (None,)).reason == "undeclared_unit"


@pytest.mark.parametrize(("unit", "says"), [("furlong", "unit_map: found 'furlong'"), ("hPa", "unit_map: found 'hPa'")])
def test_a_meaning_that_does_not_convert_is_refused_at_boot(unit, says):
    with pytest.raises(ConfigurationError, match=says):
        contract(unit_field="u", unit_map={"C": "Cel", "X": unit})


def test_the_conversion_of_a_reading_is_that_which_judges_it():
    one = contract("[degF]", correction=Correction(a=2.0, b=1.0, date=dt.date(2026, 1, 1)))
    [(unit, a, b)] = one.conversions_of(None)
    assert unit == "[degF]"
    assert a * 30.0 + b == judged(one, 30.0).values[0]
    assert contract(unit_field="u").conversions_of((None,)) == (None,)
    assert contract(unit_field="u").conversions_of(("hPa",)) == (None,)
    assert contract(unit_field="u").conversions_of(("K",))[0][0] == "K"
