"""CBOR as RFC 8949 shows it, and nothing but ValueError for all the rest."""

import struct
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.cbor import read_cbor


@pytest.mark.parametrize(
    ("data", "value"),
    [  # RFC 8949, appendix A
        ("00", 0), ("17", 23), ("1818", 24), ("1903e8", 1000), ("1a000f4240", 1_000_000),
        ("1bffffffffffffffff", 2**64 - 1), ("3bffffffffffffffff", -(2**64)), ("20", -1), ("3903e7", -1000),
        ("f90000", 0.0), ("f93e00", 1.5), ("f97bff", 65504.0), ("fa47c35000", 100000.0), ("fb3ff199999999999a", 1.1),
        ("f90001", 5.960464477539063e-8), ("f9c400", -4.0), ("f97c00", float("inf")), ("f4", False), ("f5", True),
        ("f6", None), ("40", b""), ("4401020304", b"\1\2\3\4"), ("60", ""), ("62c3bc", "ü"), ("6449455446", "IETF"),
        ("80", []), ("83010203", [1, 2, 3]), ("8301820203820405", [1, [2, 3], [4, 5]]), ("9fff", []),
        ("83018202039f0405ff", [1, [2, 3], [4, 5]]), ("a0", {}), ("a201020304", {1: 2, 3: 4}),
        ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}), ("c48221196ab3", Decimal("273.15")), ("d9d9f701", 1),
    ],
)  # fmt: skip
def test_the_examples_of_the_standard(data: str, value: Any) -> None:
    found = read_cbor(bytes.fromhex(data))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "0 bytes, of which byte 0 asks for 1 more"), ("18", "asks for 1 more"), ("6261", "asks for 2 more"),
        ("0001", "1 bytes after"), ("1c", "additional information 28"), ("ff", "simple value 31"),
        ("f7", "simple value 23"), ("f818", "simple value 24"), ("9f01", "asks for 1 more"), ("5f4101ff", "information 31"),
        ("c249010000000000000000", "tag 2"), ("d81c01", "tag 28"), ("a2010001ff", "twice"), ("a1f501", "twice"),
        ("a18001", "levels"), ("818181818181", "levels"), ("c4820101" + "00", "after"), ("c48201f93e00", "fraction"),
        ("c48219ffff01", "fraction"), ("c401", "fraction"), ("61ff", "utf-8"), ("9bffffffffffffffff", "asks for 1 more"),
        ("7bffffffffffffffff", "more"), ("bbffffffffffffffff", "asks for 1 more"),
    ],
)  # fmt: skip
def test_what_is_refused(data: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_cbor(bytes.fromhex(data))


def test_depth_and_claimed_lengths_cost_nothing() -> None:
    for attack in (b"\x81" * 1_000_000, b"\xa1\x00" * 1_000_000, b"\xc4" * 1_000_000, b"\x9a\xff\xff\xff\xff" * 9):
        with pytest.raises(ValueError, match=r"levels|tag|more"):
            read_cbor(attack)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with suppress(ValueError):
        read_cbor(data)


@given(st.floats(allow_nan=False))
def test_doubles_are_exact(value: float) -> None:
    assert read_cbor(b"\xfb" + struct.pack(">d", value)) == value
