"""How a call is timed: at the pace of service, with other programs' share taken off, and again before it counts."""

import math
import os
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from edge_runtime.errors import DeviceError
from edge_runtime.run import latency
from edge_runtime.run.latency import CALLS, GAP_S, ROUNDS, Clock, fastest, in_turn, kernel_clock, paced


class Machine:
    """Time that goes on by what is asked of it: ``took`` says of each call how long it ran, and waited for a processor."""

    def __init__(self, took: Callable[[int], tuple[float, float]]) -> None:
        self._took, self._numbers = took, count()
        self.now = self.waited = 0.0
        self.pauses: list[float] = []
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        ran, waited = self._took(next(self._numbers))
        self.now += ran + waited
        self.waited += waited

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self._sleep, lambda: self.waited)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_calls_are_spaced_and_a_good_round_is_the_only_one() -> None:
    machine = Machine(lambda number: (0.001 * (number + 1), 0.0))
    found = paced(machine, 10.0, math.inf, machine.clock)
    assert found.own_ms == pytest.approx([1.0 * (number + 1) for number in range(CALLS)])
    assert (found.slowest_ms, found.median_ms, found.number) == pytest.approx((7.0, 4.0, 1))
    assert machine.pauses == [0.0, *[GAP_S] * CALLS]


def test_a_start_is_never_slowed_by_more_than_was_decided() -> None:
    machine = Machine(lambda _: (0.0, 0.0))
    paced(machine, 10.0, math.inf, machine.clock)
    assert sum(machine.pauses) <= 0.04


def test_time_that_other_programs_took_is_none_of_the_model_s() -> None:
    machine = Machine(lambda number: (0.001, 0.08 if number % 2 else 0.0))
    found = paced(machine, 10.0, math.inf, machine.clock)
    assert found.number == 1
    assert found.slowest_ms == pytest.approx(1.0)
    assert found.waited_ms == pytest.approx(80.0)


@pytest.mark.parametrize("bad_calls", [1, 3, 12])
def test_a_hiccup_refuses_nothing(bad_calls: int) -> None:
    """The kernel blames nobody for it, as where another machine on the same host took the processor."""
    machine = Machine(lambda number: (0.05 if number < bad_calls else 0.001, 0.0))
    found = paced(machine, 10.0, math.inf, machine.clock)
    # Each bad call ends a round; with one fewer than there are rounds the last is a good one.
    assert (found.slowest_ms <= 10.0) == (bad_calls < ROUNDS)


def test_a_slow_model_is_called_once_a_round() -> None:
    machine = Machine(lambda number: (0.06 - 0.001 * number, 0.0))
    found = paced(machine, 10.0, math.inf, machine.clock)
    assert machine.calls == ROUNDS
    assert found.slowest_ms == pytest.approx(56.0), "the quickest that was seen"
    assert 0.5 < sum(machine.pauses) < 1.0, "longer than a burst, shorter than anybody's patience"


def test_the_pace_is_held_against_the_middle_call() -> None:
    slow_once = Machine(lambda number: (0.009 if number == 0 else 0.001, 0.0))
    assert paced(slow_once, 10.0, 2.0, slow_once.clock).number == 1
    slow = Machine(lambda _: (0.003, 0.0))
    found = paced(slow, 10.0, 2.0, slow.clock)
    assert found.median_ms == pytest.approx(3.0)
    assert slow.calls == ROUNDS * CALLS


def test_a_clock_that_goes_back_on_what_it_counted_adds_nothing() -> None:
    machine = Machine(lambda _: (0.001, 0.0))
    numbers = count(10.0, -1.0)
    found = paced(machine, 10.0, math.inf, machine.clock._replace(waited=lambda: next(numbers)))
    assert found.slowest_ms == pytest.approx(1.0)


def test_in_turn_takes_the_least_median_of_each() -> None:
    now = [0.0]
    clock = Clock(lambda: now[0], lambda _: None, lambda: 0.0)
    turns: dict[str, list[float]] = {"a": [0.004, 0.002, 0.003], "b": [0.008, 0.009, 0.007]}
    seen: list[str] = []

    def of(name: str) -> Callable[[], None]:
        def call() -> None:
            now[0] += turns[name][seen.count(name) // CALLS]
            seen.append(name)

        return call

    assert in_turn([of("a"), of("b")], clock) == pytest.approx([2.0, 7.0])
    assert seen[:CALLS] == ["a"] * CALLS
    assert seen[CALLS : 2 * CALLS] == ["b"] * CALLS


def test_a_call_that_fails_is_infinitely_slow() -> None:
    numbers = count()
    clock = Clock(lambda: 0.0, lambda _: None, lambda: 0.0)

    def failing() -> None:
        if next(numbers) == CALLS + 1:
            raise DeviceError(subject="the model's run", found="a fault", expected="an answer", todo="mend it")

    assert in_turn([failing, lambda: None], clock) == [math.inf, 0.0]


@pytest.mark.parametrize(
    ("times_ms", "place"),
    [
        ([1.0], 0), ([1.0, 0.7], 0), ([1.0, 0.66], 1), ([0.7, 1.0], 0), ([1.0, 0.8, 0.6], 2), ([1.0, 0.6, 0.5], 1),
        ([math.inf, 5.0], 1), ([5.0, math.inf], 0),
    ],
)  # fmt: skip
def test_a_later_one_must_be_clearly_faster(times_ms: list[float], place: int) -> None:
    assert fastest(times_ms) == place


def test_the_kernel_s_clock_counts_this_thread_s_waiting() -> None:
    with kernel_clock() as clock:
        before, begun = clock.waited(), clock.now()
        assert clock.waited() >= before
        assert clock.now() >= begun


def test_a_kernel_that_does_not_count_takes_nothing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(latency.os, "open", none)
    with kernel_clock([1]) as clock:
        assert clock.waited() == 0.0


def test_what_a_session_s_own_process_waited_is_taken_off_with_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's files of this thread and of one process; it has none of a third."""
    for whose, waited_ns in (("thread-self", 1_000_000_000), ("7", 250_000_000)):
        (tmp_path / whose).mkdir()
        (tmp_path / whose / "schedstat").write_text(f"9 {waited_ns} 1\n")
    real = os.open
    monkeypatch.setattr(latency.os, "open", lambda path, flags: real(path.replace("/proc", str(tmp_path)), flags))
    with kernel_clock([7, 8]) as clock:
        assert clock.waited() == pytest.approx(1.25)
    with kernel_clock() as clock:
        assert clock.waited() == pytest.approx(1.0)


def test_a_process_that_ends_while_it_is_timed_takes_nothing_more_off() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process, kernel_clock([process.pid]) as clock:
        clock.waited()
        process.kill()
        process.wait()
        assert clock.waited() >= 0.0
