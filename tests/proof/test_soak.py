"""The soak, short enough for every day and, in its long form, half an hour for each version of MQTT."""

import pytest

from tests.proof.soak import soak


def test_a_few_faults(tmp_path):
    soak(tmp_path / "field", minutes=0.1, seed=11, every_s=1, keepalive_s=2)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_half_an_hour(protocol, tmp_path):
    soak(tmp_path / "field", minutes=30, seed=12, protocol=protocol)
