"""CRC parameters: each name against its catalogue's check value, and no wrong set can be loaded."""

import binascii
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from edge_runtime.spec.crc import CATALOGUE, CHECK_INPUT, SUMS, Crc, CrcName, Parameters, SumName, crc_function

MODBUS: dict[str, Any] = {
    "width": 16, "poly": 0x8005, "init": 0xFFFF, "refin": True, "refout": True, "xorout": 0, "check": 0x4B37,
    "byte_order": "little",
}  # fmt: skip


def _bit_by_bit(parameters: Parameters, data: bytes) -> int:
    """The definition, one bit at a time, for an oracle."""
    width, poly, register, refin, refout, xorout = parameters
    for byte in data:
        bits = f"{byte:08b}"
        for bit in bits[::-1] if refin else bits:
            top = register >> (width - 1)
            register = (register << 1) & ((1 << width) - 1)
            if top != int(bit):
                register ^= poly
    return (int(f"{register:0{width}b}"[::-1], 2) if refout else register) ^ xorout


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_name_gives_its_check_value(name: CrcName) -> None:
    parameters, check = CATALOGUE[name]
    assert crc_function(parameters)(CHECK_INPUT) == check


@settings(deadline=None)
@given(
    st.sampled_from([8, 16, 24, 32]).flatmap(
        lambda width: st.builds(
            Parameters, st.just(width), *[st.integers(0, (1 << width) - 1)] * 2, st.booleans(), st.booleans(),
            st.integers(0, (1 << width) - 1),
        )
    ),
    st.binary(max_size=40),
)  # fmt: skip
def test_any_parameters_give_what_the_definition_says(parameters: Parameters, data: bytes) -> None:
    assert crc_function(parameters)(data) == _bit_by_bit(parameters, data)


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_what_python_has_in_c_is_the_same(data: bytes, init: int, xorout: int) -> None:
    parameters = Parameters(16, 0x1021, init, refin=False, refout=False, xorout=xorout)
    assert crc_function(parameters)(data) == _bit_by_bit(parameters, data)
    assert crc_function(CATALOGUE["crc-32"][0])(data) == binascii.crc32(data)


def test_parameters_spelled_out_are_the_named_ones() -> None:
    assert Crc(**MODBUS).parameters == Crc(name="crc-16/modbus", byte_order="little").parameters
    assert Crc(name="crc-8").byte_order is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"check": 0x4B38}, "these parameters give 0x4B37"),
        ({"init": 0}, "check is 0x4B37, and these parameters give 0xBB3D"),
        ({"check": None}, "needs its name, or width"),
        ({"name": "crc-16/modbus"}, "keep one"),
        ({"byte_order": None}, "never guessed"),
        ({"poly": 0x18005}, "more than the 16 bits"),
        ({"width": 12}, "8, 16, 24 or 32"),
    ],
)
def test_a_wrong_set_is_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        Crc(**MODBUS | changes)


@pytest.mark.parametrize("name", SUMS)
def test_each_sum_gives_its_check_value(name: SumName) -> None:
    order = None if SUMS[name][0] == 8 else "big"
    sum_ = Crc(name=name, byte_order=order)
    assert sum_.size_bytes == SUMS[name][0] // 8
    assert sum_.function()(CHECK_INPUT) == SUMS[name][2]
    assert sum_.function()(b"") == 0


@settings(deadline=None)
@given(st.binary(max_size=600))
def test_sums_are_what_their_definitions_say(data: bytes) -> None:
    first = second = one = two = exclusive = 0
    for byte in data:
        first, exclusive = (first + byte) % 255, exclusive ^ byte
        second = (second + first) % 255
        one = (one + byte) & 0xFF
        two = (two + one) & 0xFF
    assert Crc(name="fletcher-16", byte_order="big").function()(data) == second * 256 + first
    assert Crc(name="ubx", byte_order="little").function()(data) == two * 256 + one
    assert Crc(name="xor-8").function()(data) == exclusive
    assert Crc(name="sum-8").function()(data) == sum(data) % 256
    assert Crc(name="sum-16", byte_order="big").function()(data) == sum(data) % 65536


def test_the_checksum_of_a_packet_of_ublox() -> None:
    # UBX-CFG-RATE poll: b5 62 06 08 00 00 0e 30, from u-blox's protocol description.
    assert Crc(name="ubx", byte_order="little").function()(bytes.fromhex("06080000")) == 0x300E


def test_a_sum_of_two_bytes_needs_their_order() -> None:
    with pytest.raises(ValidationError, match="byte_order says how"):
        Crc(name="fletcher-16")
