import pytest

from edge_runtime.author.lint import RULES
from edge_runtime.author.lint_finding import Waive, judge
from edge_runtime.errors import ConfigurationError

REASON = "pruned on purpose, the float model has them too"
ERROR = RULES["dead-channel"].found_at("Conv 'first'", "channel 3 of 8")
WARNING = RULES["dense-zeros"].found_at("the weights", "60% are zero")


def test_without_waivers_errors_and_warnings_stand_apart() -> None:
    verdict = judge([WARNING, ERROR], {}, RULES, "contract.toml")
    assert (verdict.errors, verdict.warnings, verdict.waived, verdict.unused) == ((ERROR,), (WARNING,), (), ())


def test_a_waiver_in_writing_turns_an_error_into_a_report() -> None:
    verdict = judge([ERROR], {"dead-channel": f"  {REASON} "}, RULES, "contract.toml")
    assert verdict.errors == ()
    assert str(verdict.waived[0]) == f"waived: Conv 'first': channel 3 of 8 [dead-channel]; reason: {REASON}"


def test_a_waiver_of_what_is_not_there_is_told() -> None:
    assert judge([WARNING], {"dead-channel": REASON}, RULES, "contract.toml").unused == ("dead-channel",)


@pytest.mark.parametrize(
    ("waive", "words"),
    [
        ({"dead-chanel": REASON}, "waive.dead-chanel: found an unknown id; expected 'dead-channel' perhaps"),
        ({"zzz": REASON}, "expected one of accumulator-overflow,"),
        ({"dead-channel": "because"}, "waive.dead-channel: found 'because'; expected a reason of 20 characters"),
        ({"dead-channel": "because" + " " * 40}, "expected a reason of 20 characters"),
    ],
)
def test_a_waiver_that_says_too_little_is_refused(waive: Waive, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        judge([ERROR], waive, RULES, "contract.toml")
    assert words in str(caught.value)


def test_a_finding_is_one_line_with_its_reason_and_cure() -> None:
    line = str(ERROR)
    assert line.startswith("Conv 'first': channel 3 of 8 [dead-channel]; ")
    assert RULES["dead-channel"].why in line
    assert line.endswith(RULES["dead-channel"].fix)
    assert "\n" not in line
