"""Outputs that stand still while inputs change are suspect after some calls, and after a good probe after twice as many."""

from collections.abc import Iterable

import numpy as np

from edge_runtime.run.standstill import SUSPECT_CALLS, Standstill


def given(value: float, size: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.full((size, 3), value, np.float32)}


def made(value: float, size: int = 1) -> dict[str, np.ndarray]:
    return {"label": np.zeros(size, np.int64), "y": np.full((size, 1), value, np.float32)}


def suspect_after(watch: Standstill, calls: Iterable[tuple[float, float]]) -> int | None:
    for count, (x, y) in enumerate(calls):
        watch.take(given(x), made(y))
        if watch.is_suspect:
            return count
    return None


def test_outputs_that_move_are_never_suspect() -> None:
    assert suspect_after(Standstill(), ((n, n) for n in range(500))) is None
    # A label that stands is nothing, as long as the scores behind it move.
    assert suspect_after(Standstill(), ((n, n % 2) for n in range(500))) is None


def test_an_output_that_stands_while_inputs_change() -> None:
    assert suspect_after(Standstill(), ((n, 5) for n in range(500))) == SUSPECT_CALLS


def test_an_input_that_stands_gives_the_same_output_rightly() -> None:
    assert suspect_after(Standstill(), ((1, 5) for _ in range(500))) is None
    # What stands now and then counts only where it moves.
    assert suspect_after(Standstill(), ((n // 2, 5) for n in range(500))) == 2 * SUSPECT_CALLS - 2


def test_one_other_output_begins_anew() -> None:
    calls = [(n, 6.0 if n == SUSPECT_CALLS else 5.0) for n in range(2 * SUSPECT_CALLS + 1)]
    assert suspect_after(Standstill(), calls) is None


def test_after_a_good_probe_it_takes_twice_as_long_each_time_until_the_output_moves() -> None:
    watch, found = Standstill(), []
    for n in range(200):
        watch.take(given(n), made(5))
        if watch.is_suspect:
            found.append(n)
            watch.proven()
    assert found == [16, 32, 64, 128]
    watch.take(given(0), made(6))
    assert suspect_after(watch, ((n, 6) for n in range(1, 500))) == SUSPECT_CALLS - 1


def test_a_probe_before_it_is_suspect_changes_nothing() -> None:
    watch = Standstill()
    watch.take(given(0), made(5))
    watch.proven()
    assert suspect_after(watch, ((n, 5) for n in range(1, 500))) == SUSPECT_CALLS - 1


def test_the_size_of_the_batch_hides_nothing() -> None:
    watch = Standstill()
    for n in range(SUSPECT_CALLS + 1):
        watch.take(given(n, 1 + n % 4), made(5, 1 + n % 4))
    assert watch.is_suspect


def test_nan_stands_as_any_number_and_an_output_without_a_batch_stops_nothing() -> None:
    watch = Standstill()
    for n in range(SUSPECT_CALLS + 1):
        watch.take(given(n), {"y": np.array(np.nan)})
    assert watch.is_suspect
