import pytest

from edge_runtime.flow.gathering import ENOUGH_BYTES, IN_A_ROW, MAX_GATHER_NS, Gathering, gather_ns
from tests.rig import kinds

MS = 1_000_000


def contract(latency_p99_ms=50.0, **window):
    """A contract with this window and this need."""
    made = kinds.manifest(
        [kinds.taking(kinds.number(), length=3 if window else None)],
        **({"window": {"length": 3} | window} if window else {}),
    )
    return made.model_copy(update={"needs": made.needs.model_copy(update={"latency_p99_ms": latency_p99_ms})})


@pytest.mark.parametrize(
    ("latency_p99_ms", "period_s", "timed_by_arrival", "pause_ms"),
    [
        (50.0, None, True, 8),
        (1000.0, None, True, 8),
        (20.0, None, True, 4),
        (5.0, None, True, 1),
        (4.9, None, True, 0),
        (50.0, 3600.0, True, 8),
        # 5 % of 0.2 s is 10 ms, and half of that is the sender's.
        (50.0, 0.2, True, 5),
        (50.0, 0.01, True, 0),
        (50.0, 0.001, True, 0),
        # Samples that bring their times do not mind when they are read.
        (50.0, 0.001, False, 8),
    ],
)
def test_a_pause_takes_what_the_contract_leaves(latency_p99_ms, period_s, timed_by_arrival, pause_ms):
    one = contract(latency_p99_ms) if period_s is None else contract(latency_p99_ms, period_s=period_s)
    assert gather_ns(one, timed_by_arrival=timed_by_arrival) == pause_ms * MS


def test_the_tolerance_of_the_pace_is_the_contracts():
    assert gather_ns(contract(period_s=0.02, rate_tolerance=0.4), timed_by_arrival=True) == 4 * MS


def read(gathering, at_ms, count, every_ms, size=100):
    """Read ``count`` times, as one who waits for data and pauses as told: the pauses, in ms, and when it ended."""
    pauses, free_ms = [], at_ms
    for _ in range(count):
        at_ms += every_ms
        if at_ms < free_ms:
            continue  # what comes during a pause is read with what comes after it
        pauses.append(gathering.pause_ns(round(max(at_ms, free_ms) * MS), size) / MS)
        free_ms = max(at_ms, free_ms) + pauses[-1]
    return pauses, at_ms


def test_a_line_of_1_khz_is_paused_once_it_has_shown_its_pace():
    pauses, _ = read(Gathering(8 * MS), 0.0, 1000, 1.0)
    assert pauses.index(8) < 2 * IN_A_ROW
    assert set(pauses[pauses.index(8) :]) == {8}
    assert sum(pauses) > 900  # of 1000 ms


@pytest.mark.parametrize("every_ms", [8.0, 10.0, 1000.0])
def test_a_line_whose_frames_are_further_apart_than_a_pause_is_never_held_up(every_ms):
    pauses, _ = read(Gathering(8 * MS), 0.0, 500, every_ms)
    assert set(pauses) == {0}


def test_one_frame_in_many_pieces_is_no_fast_line():
    gathering, at_ms = Gathering(8 * MS), 0.0
    for _ in range(100):
        pauses, at_ms = read(gathering, at_ms, 9, 1.0)
        assert set(pauses) == {0}
        at_ms += 90.0


def test_a_fast_line_that_stalls_once_goes_on_as_it_was_and_one_that_turned_slow_is_let_go():
    gathering = Gathering(8 * MS)
    _, at_ms = read(gathering, 0.0, 1000, 1.0)
    pauses, at_ms = read(gathering, at_ms + 50.0, 100, 1.0)
    assert pauses[0] == 8
    pauses, _ = read(gathering, at_ms + 50.0, 10, 100.0)
    assert pauses[-1] == 0


def test_a_read_that_is_a_batch_already_is_not_paused():
    gathering = Gathering(MAX_GATHER_NS)
    _, at_ms = read(gathering, 0.0, 1000, 1.0)
    now_ns = round((at_ms + 8.0) * MS)
    assert gathering.pause_ns(now_ns, ENOUGH_BYTES) == 0
    assert gathering.pause_ns(now_ns + 1, ENOUGH_BYTES - 1) == MAX_GATHER_NS


def test_without_room_there_is_no_pause():
    pauses, _ = read(Gathering(0), 0.0, 1000, 0.01)
    assert set(pauses) == {0}
