"""Hints alone: a number in another byte order, or converted once too often; nothing that fits is never guessed at."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.misreading import converted_twice, other_byte_order


@given(st.floats(200, 260, width=32), st.permutations([(1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)]))
def test_every_order_is_found(number: float, orders: list[tuple[int, ...]]) -> None:
    packed = struct.pack(">f", number)
    (sent,) = struct.unpack(">f", bytes(packed[at] for at in orders[0]))
    found = other_byte_order(sent, 1.0, 0.0, 199.9, 260.1)
    assert (
        math.isnan(sent) or found == pytest.approx(number, rel=1e-6) or (found is not None and 199.9 <= found <= 260.1)
    )


@given(st.floats(1, 1e6))
def test_an_ordinary_number_is_not_taken_for_a_turned_one(number: float) -> None:
    found = other_byte_order(float(round(number)), 1.0, 0.0, -50.0, 50.0)
    assert found is None or abs(found) >= 1e-2


@pytest.mark.parametrize("number", [1e300, -1e300])
def test_what_is_no_32_bit_float_has_no_order(number: float) -> None:
    assert other_byte_order(number, 1.0, 0.0, 0.0, 1.0) is None


@pytest.mark.parametrize(
    ("number", "declared", "a", "b", "found"),
    [(175.1, "[degF]", 5 / 9, -160 / 9, 79.5), (561.3, "K", 1.0, -273.15, 288.15), (5000.0, "K", 1.0, -273.15, None)],
)
def test_a_conversion_too_many(number: float, declared: str, a: float, b: float, found: float | None) -> None:
    once = converted_twice(number, declared, a, b, -30.0, 45.0, "point")
    assert once == (None if found is None else pytest.approx(found))
