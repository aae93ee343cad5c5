"""What ends a trial and how: each criterion by its figures, early only where there is enough to say, never without data."""

import pytest

from edge_runtime.flow.ledger import Ledger
from edge_runtime.run.trial import Counts, Trial, counts_of
from edge_runtime.spec.store import TrialConfig

SECOND = 1_000_000_000
BEFORE = Counts(1000, 500, 1000, 500, 1000, 500)


def trial(**criteria: float) -> Trial:
    return Trial("d" * 64, TrialConfig.model_validate({"seconds": 60, **criteria}), 5 * SECOND, BEFORE)


def counts(**more: int) -> Counts:
    return Counts(*(value + more.get(name, 0) for name, value in BEFORE._asdict().items()))


def verdict(one: Trial, seconds: float, found: Counts) -> str:
    now_ns = round((5 + seconds) * SECOND)
    return "passed" if one.is_passed(now_ns, found) else one.fault(now_ns, found)


def test_what_was_counted_before_is_another_bundle_s() -> None:
    assert verdict(trial(), 60, counts(received=5, due=5, calls=5)) == "passed"


def test_it_passes_no_sooner_than_asked_for() -> None:
    assert verdict(trial(), 59.9, counts(received=500, due=500, calls=500)) == ""


def test_without_an_answer_that_was_due_it_goes_on_for_ever() -> None:
    assert verdict(trial(), 1e6, counts()) == ""
    assert verdict(trial(answers=3), 1e6, counts(received=2, due=2)) == ""
    assert verdict(trial(answers=3), 60, counts(received=3, due=3)) == "passed"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"due": 20, "failed": 1}, "trial: found 1 answers that were none of 20; expected 1 % at most"),
        ({"due": 19, "failed": 19}, ""),
        ({"received": 20, "refused": 3}, "trial: found 3 refused samples of 20; expected 10 % at most"),
        ({"received": 20, "refused": 2}, ""),
        ({"received": 19, "refused": 19}, ""),
        ({"calls": 50, "slow": 2}, "trial: found 2 of 50 calls beyond the latency limit; expected 1 % at most"),
        ({"calls": 50, "slow": 1}, ""),
        ({"calls": 1000, "slow": 10}, ""),
        ({"calls": 1000, "slow": 11}, "trial: found 11 of 1000 calls beyond the latency limit; expected 1 % at most"),
    ],
)
def test_a_share_beyond_its_limit_ends_it_early_where_there_is_enough(found: dict[str, int], said: str) -> None:
    assert verdict(trial(), 1, counts(**found)) == said


def test_at_its_end_little_is_enough() -> None:
    assert verdict(trial(), 60, counts(received=2, due=2, failed=1)).startswith("trial: found 1 answers that were none")
    assert verdict(trial(), 60, counts(received=2, due=1, refused=1)).startswith("trial: found 1 refused samples of 2")


def test_the_limits_are_the_device_file_s() -> None:
    loose = trial(failed_percent=50, refused_percent=50)
    assert verdict(loose, 60, counts(received=2, due=2, failed=1, refused=1)) == "passed"
    assert verdict(trial(refused_percent=0), 1, counts(received=1000, refused=1)).startswith("trial: found 1 refused")


def test_counts_are_those_of_all_lines_and_of_what_is_no_answer() -> None:
    one, other = Ledger(), Ledger()
    one.received, one.due, other.received, other.due = 5, 4, 7, 6
    one.rejected["missing"], other.rejected["time_back"] = 1, 2
    one.refused["inference_failed"], other.refused["not_finite_output"], other.refused["gap"] = 1, 1, 9
    assert counts_of([one, other], 8, 3) == Counts(12, 3, 10, 2, 8, 3)
