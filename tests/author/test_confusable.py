import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.author.confusable import Quantity, Range, as_text, confusable, judge_units, unseen_share
from edge_runtime.spec.units import conversion, resolve, siblings, table


@pytest.mark.parametrize(
    ("band", "unit", "sibling", "share"),
    [
        ((15, 45), "Cel", "K", 0),
        ((15, 45), "Cel", "[degF]", 0),
        ((-20, 60), "Cel", "[degF]", 0.44),
        ((-20, 60), "Cel", "K", 0),
        ((-40, 125), "Cel", "[degF]", 0.56),
        ((-40, 125), "Cel", "K", 0),
        ((900, 1100), "hPa", "Pa", 0),
        ((900, 1100), "hPa", "bar", 0),
        ((900, 1100), "hPa", "[psi]", 0),
        ((-20, 20), "m/s2", "[g]", 1.0),
        ((-4, 4), "[g]", "m/s2", 0.10),
        ((250, 350), "K", "Cel", 0),
        ((250, 350), "K", "[degF]", 0),
    ],
)
def test_the_published_table(band: Range, unit: str, sibling: str, share: float) -> None:
    """Ranges of ordinary sensors, where the same range is the band that a reading is held to."""
    assert sibling in {other.code for other in siblings(resolve(unit))}
    assert unseen_share(unit, sibling, band, band) == pytest.approx(share, abs=0.005)


AIR = Quantity("air", "Cel", tolerated=(-30, 45), trained=(-10, 37), physical=(-60, 60))


def test_both_ranges_are_held_against_the_physical_band() -> None:
    rows = {row.sibling: row for row in confusable([AIR])}
    # -60..60 degF is -51.1..15.56 Cel.
    assert rows["[degF]"].tolerated == pytest.approx((15.5556 + 30) / 75, abs=1e-4)
    assert rows["[degF]"].trained == pytest.approx((15.5556 + 10) / 47, abs=1e-4)
    assert (rows["K"].tolerated, rows["K"].trained) == (0, 0)


def test_a_difference_keeps_its_zero() -> None:
    (row,) = (r for r in confusable([AIR._replace(kind="difference")]) if r.sibling == "[degF]")
    assert row.tolerated == pytest.approx((60 / 1.8 + 30) / 75)
    assert "K" not in {r.sibling for r in confusable([AIR._replace(kind="difference")])}


def test_assume_needs_a_waiver_and_refuse_does_not() -> None:
    assert list(judge_units([AIR])) == []
    (finding,) = judge_units([AIR._replace(assumed=True)])
    assert (finding.id, finding.severity) == ("confusable-unit", "error")
    assert "channel air in Cel" in finding.subject
    assert "61% in [degF] (54% of trained)" in finding.found
    narrow = AIR._replace(tolerated=(20, 45), trained=(20, 40), physical=(16, 60), assumed=True)
    assert list(judge_units([narrow])) == []


def test_a_rate_of_events_is_asked_what_it_counts() -> None:
    (other,) = judge_units([AIR._replace(name="speed", unit="1/min", physical=(0, 20000))])
    (finding,) = judge_units([AIR._replace(name="speed", unit="/min", physical=(0, 20000))])
    assert other.id == finding.id
    assert (finding.id, finding.severity) == ("events-per-minute", "warning")
    assert str(finding).startswith("channel speed in /min: counts events a minute, not turns [events-per-minute];")
    assert list(judge_units([AIR._replace(unit="circ/min"), AIR._replace(unit="Hz")])) == []


def test_a_trained_range_alone_is_enough() -> None:
    wide = AIR._replace(tolerated=(20, 45), trained=(-5, 40), physical=(-60, 60), assumed=True)
    assert len(list(judge_units([wide]))) == 1


def test_the_table_as_text() -> None:
    lines = as_text(confusable([AIR])).splitlines()
    assert lines[0].split() == ["channel", "unit", "read", "in", "tolerated", "trained"]
    assert "air      Cel   [degF]" in "\n".join(lines)


BAND = st.tuples(st.floats(-1e3, 1e3), st.floats(0.1, 1e3)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.sampled_from(table()), BAND, BAND, st.data())
def test_the_share_is_what_counting_gives(unit, inner, band, data) -> None:
    others = siblings(unit)
    if not others:
        return
    sibling = data.draw(st.sampled_from(others))
    a, b = conversion(unit, sibling)
    assert a > 0
    steps = [inner[0] + (at + 0.5) / 2000 * (inner[1] - inner[0]) for at in range(2000)]
    counted = sum(band[0] <= a * value + b <= band[1] for value in steps) / len(steps)
    assert unseen_share(unit.code, sibling.code, inner, band) == pytest.approx(counted, abs=2e-3)


def test_a_range_of_one_value_passes_whole_or_not_at_all() -> None:
    assert unseen_share("Cel", "[degF]", (0, 0), (-60, 60)) == 1
    assert unseen_share("Cel", "[degF]", (50, 50), (-60, 60)) == 0
