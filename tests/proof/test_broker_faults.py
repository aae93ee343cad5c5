"""A broker that stops, dies, hangs, forgets, and a link that breaks: everything acknowledged is answered, and counted."""

import random
import time

import pytest

from tests.proof.faults import OF_THE_BROKER
from tests.proof.field import Field

KINDS = ["windowed", "stateful", "stateless"]
RATE_HZ = 150


def endure(field, faults, seed):
    """Let these happen one after the other, each once all is well again; prints how soon it was back."""
    chance = random.Random(seed)
    for fault in faults:
        field.flows()
        whole = OF_THE_BROKER[fault](field, chance)
        if whole is not None:
            print(f"{fault}: back {field.back_s(whole):.2f} s after the broker")  # noqa: T201 -- the figure
    print(field.check(len(faults)))  # noqa: T201 -- the figures


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("fault", OF_THE_BROKER)
def test_nothing_is_lost_to(fault, protocol, tmp_path):
    with Field(tmp_path, KINDS, protocol=protocol, rate_hz=RATE_HZ) as field:
        endure(field, [fault], 1)
