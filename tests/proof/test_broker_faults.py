"""A broker that stops, dies, hangs, forgets, and a link that breaks: everything acknowledged is answered, and counted."""

import random
import time

import pytest

from tests.proof.faults import OF_THE_BROKER, inflict
from tests.proof.field import Field

LINES = ["windowed", "stateful", "stateless"]
RATE_HZ = 150
SHORT_KEEPALIVE_S = 2
LONG_KEEPALIVE_S = 5
RESTARTS = 50
MAX_GROWTH_BYTES = 2 << 20
BOTH = pytest.mark.parametrize("protocol", ["5", "3.1.1"])


def endure(field, faults, seed):
    """Let these happen one after the other, each once all is well again; prints how soon it was back."""
    chance = random.Random(seed)
    losses = 0
    for fault in faults:
        field.flows()
        back_s = inflict(field, fault, chance)
        if back_s is not None:
            losses += 1
            print(f"{fault}: back {back_s:.2f} s after the broker")
    print(field.check(losses))


@pytest.mark.parametrize("fault", OF_THE_BROKER)
def test_nothing_is_lost_to(fault, tmp_path):
    with Field(tmp_path, LINES, protocol="5", rate_hz=RATE_HZ, keepalive_s=SHORT_KEEPALIVE_S) as field:
        endure(field, [fault], 1)


def test_nothing_is_lost_to_what_is_over_soon_in_the_old_version(tmp_path):
    faults = ["stopped", "killed", "wiped", "frozen", "cut", "held"]
    with Field(tmp_path, LINES, protocol="3.1.1", rate_hz=RATE_HZ, keepalive_s=SHORT_KEEPALIVE_S) as field:
        endure(field, faults, 2)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("fault", OF_THE_BROKER)
def test_nothing_is_lost_to_it_again_and_again(fault, protocol, tmp_path):
    with Field(tmp_path, LINES, protocol=protocol, rate_hz=RATE_HZ, keepalive_s=LONG_KEEPALIVE_S) as field:
        endure(field, [fault] * 10, 3)


@BOTH
def test_what_a_full_queue_drops_is_the_broker_s_loss_alone(protocol, tmp_path):
    """It drops without a word; what it sends is answered, and windows with a hole are refused as such."""
    with Field(tmp_path, LINES, protocol=protocol, rate_hz=RATE_HZ, queue=40) as field:
        field.flows()
        field.proxy.hold()
        field.sends(400)
        field.proxy.cut()
        field.proxy.release()
        field.flows()
        print(field.check(1))
        assert all(len(field.witness.lines[name].given) < field.sent(name) for name in LINES)


def restarted(folder, protocol, times):
    """A broker that restarts again and again; what the program held at the first tenth, and at the end."""
    chance = random.Random(times)
    with Field(folder, LINES, protocol=protocol, rate_hz=RATE_HZ) as field:
        held = []
        for _ in range(times):
            field.flows()
            before = len(field.witness.welcomes)
            field.broker.term()
            time.sleep(chance.uniform(0.2, 0.8))
            field.broker.start()
            print(f"back {field.back_s(before, time.monotonic()):.2f} s after the broker")
            field.flows()
            held.append((field.descriptors, field.rss_bytes))
        print(field.check(times))
    return held[times // 10], held[-1]


@BOTH
def test_restarts_lose_nothing_and_leave_nothing_open(protocol, tmp_path):
    first, last = restarted(tmp_path, protocol, 4)
    assert last[0] <= first[0]


@pytest.mark.long
@BOTH
def test_fifty_restarts_lose_nothing_and_leave_nothing_behind(protocol, tmp_path):
    first, last = restarted(tmp_path, protocol, RESTARTS)
    assert last[0] <= first[0]
    assert last[1] < first[1] + MAX_GROWTH_BYTES
