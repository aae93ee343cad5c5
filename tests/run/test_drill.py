"""A planted fault that no check notices has not passed, and what was noticed on one provider of a list was noticed."""

from collections.abc import Sequence

import pytest

from edge_runtime.errors import UsageError
from edge_runtime.run.drill import QUANT_PRECISION, Drill
from edge_runtime.spec.report import LEFT_OUT, Check

CHECKS = (
    Check("provider", "required", "pass", "made", ""),
    Check("golden_output", "required", "pass", "0 off", "equal"),
    Check("memory", "wanted", "skip", "not known", "", "this system does not tell"),
)


def failed(checks: Sequence[Check]) -> list[tuple[str, str, str]]:
    return [(one.id, one.measured, one.hint) for one in checks if one.status == "fail"]


def test_without_a_drill_nothing_is_changed() -> None:
    assert tuple(Drill(None).told(CHECKS)) == CHECKS


def test_no_check_of_that_name() -> None:
    with pytest.raises(UsageError, match="--inject: found 'ports'; expected one of"):
        Drill("ports")


@pytest.mark.parametrize(
    ("inject", "name", "measured", "hint"),
    [
        ("golden_output", "golden_output", "0 off", "this machine, or this bundle, cannot show what the drill is for"),
        (QUANT_PRECISION, "golden_output", "0 off", "this machine, or this bundle, cannot show what the drill is for"),
        ("memory", "memory", "not known", "this system does not tell"),
    ],
)
def test_what_nobody_noticed_has_not_passed(inject: str, name: str, measured: str, hint: str) -> None:
    assert failed(Drill(inject).told(CHECKS)) == [(name, f"planted, and not noticed: {measured}", hint)]


@pytest.mark.parametrize(
    ("inject", "name"), [("memory", "memory"), (QUANT_PRECISION, "golden_output"), (QUANT_PRECISION, "provider")]
)
def test_what_was_noticed_once_was_noticed(inject: str, name: str) -> None:
    """On a provider whose checks are no longer among those that are told, it may be."""
    drill = Drill(inject)
    drill.failed(name)
    assert tuple(drill.told(CHECKS)) == CHECKS


def test_the_failure_of_another_check_is_no_notice() -> None:
    drill = Drill("golden_output")
    drill.failed("provider")
    assert [name for name, _, _ in failed(drill.told(CHECKS))] == ["golden_output"]


def test_a_check_that_could_not_run_is_left_as_it_is() -> None:
    left_out = (Check("golden_output", "required", "skip", "not checked", "", LEFT_OUT),)
    assert tuple(Drill("golden_output").told(left_out)) == left_out
