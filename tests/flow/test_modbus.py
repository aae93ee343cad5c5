"""Modbus numbers: every type, word order, bit and scale against struct; what is in no answer is refused."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.modbus import rtu_question, sample, tcp_question
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import MODBUS_FRAMING
from edge_runtime.spec.modbus import ModbusRead, ModbusRegister, reads_of
from edge_runtime.spec.payload import ModbusDecode
from edge_runtime.spec.reading import Reading, Rejection

CODES = {
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}


def register(**keys: Any) -> dict[str, Any]:
    return {"name": "x", "table": "holding", "address": 0} | keys


def read(decode: dict[str, Any], answers: dict[tuple[int, str, int, int], bytes], **channels: Any) -> Any:
    spec = ModbusDecode.model_validate({"format": "modbus"} | decode)
    bound = channels or {"x": ChannelBinding(field="x", unit="1")}
    reads = [
        (ModbusRead(slave=slave, table=table, address=at, count=count), data)  # type: ignore[arg-type] # a word of it
        for (slave, table, at, count), data in answers.items()
    ]
    (frame,) = make_framing(MODBUS_FRAMING, "latin-1").feed(sample(reads))
    return make_decoder(spec, bound).decode(frame)


@settings(deadline=None)
@given(st.sampled_from(sorted(CODES)), st.sampled_from(["big", "little"]), st.binary(min_size=8, max_size=8))
def test_each_type_in_each_order(kind: str, order: str, data: bytes) -> None:
    size = struct.calcsize(CODES[kind])
    words = data[:size]
    (value,) = struct.unpack(">" + CODES[kind], words)
    sent = words if order == "big" else b"".join(words[at : at + 2] for at in reversed(range(0, size, 2)))
    keys = {"type": kind} | ({"word_order": order} if size > 2 else {})
    reading = read({"registers": [register(**keys)]}, {(1, "holding", 0, size // 2): sent})
    assert isinstance(reading, Reading)
    assert struct.pack(">d", reading.values[0]) == struct.pack(">d", float(value))


def test_bits_scale_and_missing() -> None:
    registers = [
        register(name="b0", type="bool", bit=0), register(name="b15", type="bool", bit=15),
        register(name="t", address=1, type="int16", scale=0.1, missing=[-32768]),
        register(name="u", address=2, type="int16", missing=[7]),
        register(name="c", table="coil", address=19, type="bool", slave=9),
        register(name="d", table="discrete", address=1, type="bool"),
    ]  # fmt: skip
    answers = {
        (1, "holding", 0, 3): struct.pack(">Hhh", 0x8000, -215, 7),
        (9, "coil", 10, 12): b"\x00\x02", (1, "discrete", 1, 1): b"\x01",
    }  # fmt: skip
    channels = {name: ChannelBinding(field=name, unit="1") for name in ("b0", "b15", "t", "u", "c", "d")}
    assert read({"registers": registers}, answers, **channels) == Reading((0.0, 1.0, -21.5, None, 1.0, 1.0))
    answers[1, "holding", 0, 3] = struct.pack(">Hhh", 1, -32768, 8)
    assert read({"registers": registers}, answers, **channels) == Reading((1.0, 0.0, None, 8.0, 1.0, 1.0))


def test_a_state_is_a_word_and_may_be_carried() -> None:
    decode = {"registers": [register(type="uint16"), register(name="n", address=1, type="uint16")], "carry": ["n"]}
    state = {"state": ChannelBinding(field="x", read="text")}
    assert read(decode, {(1, "holding", 0, 2): b"\0\3\0\4"}, **state) == Reading(("3",), carry=(("n", 4),))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\1\3\0\0\0\1\0",
        b"\1\3\0\1\0\1\0\0",
        b"\2\3\0\0\0\1\0\0",
        b"\1\4\0\0\0\1\0\0",
        b"\1\x83\0\0\0\1\2",
        b"\1\3\0",
    ],
)
def test_a_frame_without_the_register_is_refused(frame: bytes) -> None:
    spec = ModbusDecode.model_validate({"format": "modbus", "registers": [register(type="uint16")]})
    refused = make_decoder(spec, {"x": ChannelBinding(field="x", unit="1")}).decode(frame)
    assert isinstance(refused, Rejection)
    assert refused.reason == "wrong_size"
    assert "no holding 0 of slave 1 in" in str(refused)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_it_raise(frame: bytes) -> None:
    spec = ModbusDecode.model_validate({"format": "modbus", "registers": [register(type="uint16")]})
    assert isinstance(make_decoder(spec, {"x": ChannelBinding(field="x", unit="1")}).decode(frame), Reading | Rejection)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"type": "int32"}, "word_order says how several registers stand: int32 has 2"),
        ({"type": "int16", "word_order": "big"}, "int16 has 1"),
        ({"type": "bool"}, "bit says which bit of a register a 'bool' is"),
        ({"type": "int16", "bit": 3}, "bit says which bit"),
        ({"type": "bool", "table": "coil", "bit": 3}, "bit says which bit"),
        ({"type": "int16", "table": "coil"}, "coil holds bits: type 'bool', not 'int16'"),
        (
            {"type": "float64", "word_order": "big", "address": 65_533},
            "a float64 at address 65533 goes on beyond 65535",
        ),
        ({"type": "int16", "scale": 0}, "scale = 0 would make every reading the same"),
        ({"type": "int16", "slave": 256}, "less than or equal to 255"),
    ],
)
def test_a_register_that_cannot_be_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ModbusRegister.model_validate(register(**keys))


def test_a_name_stands_once_and_a_bound_field_is_a_register() -> None:
    with pytest.raises(ValidationError, match="register 'x' stands twice"):
        ModbusDecode.model_validate({"format": "modbus", "registers": [register(type="int16")] * 2})
    with pytest.raises(ConfigurationError, match=r"found registers 'x'; expected it among decode.registers"):
        read({"registers": [register(type="int16")]}, {}, y=ChannelBinding(field="y", unit="1"))
    with pytest.raises(ConfigurationError, match="each register is a number of its own"):
        read({"registers": [register(type="int16")]}, {}, x=ChannelBinding(field="x", unit="1", read="list"))


def _registers(*spans: tuple[int, str, int, str]) -> list[ModbusRegister]:
    return [
        ModbusRegister.model_validate(
            {"name": str(at), "slave": slave, "table": table, "address": address, "type": kind}
            | ({"word_order": "big"} if kind == "float32" else {})
        )
        for at, (slave, table, address, kind) in enumerate(spans)
    ]


def test_neighbours_are_one_request_and_nothing_else_is_read() -> None:
    registers = _registers(
        (2, "input", 5, "int16"), (1, "holding", 3, "int16"), (1, "holding", 0, "float32"), (1, "holding", 2, "int16"),
        (1, "holding", 1, "int16"), (1, "input", 4, "int16"), (1, "holding", 5, "int16"), (1, "coil", 0, "bool"),
    )  # fmt: skip
    found = [(one.slave, one.table, one.address, one.count) for one in reads_of(registers)]
    assert found == [
        (1, "coil", 0, 1), (1, "holding", 0, 4), (1, "holding", 5, 1), (1, "input", 4, 1), (2, "input", 5, 1)
    ]  # fmt: skip


def test_a_request_asks_no_more_than_a_slave_gives() -> None:
    registers = _registers(*[(1, "holding", 2 * at, "float32") for at in range(100)])
    assert [(one.address, one.count) for one in reads_of(registers)] == [(0, 124), (124, 76)]


def test_questions_are_those_of_the_specification() -> None:
    """Application protocol V1.1b3, 6.3 and 6.4: registers 108 to 110; the CRC is the one of the serial line."""
    asked = ModbusRead(slave=17, table="holding", address=107, count=3)
    assert rtu_question(asked) == bytes.fromhex("11 03 00 6b 00 03 76 87")
    assert tcp_question(asked, 1) == bytes.fromhex("00 01 00 00 00 06 11 03 00 6b 00 03")


@pytest.mark.parametrize(
    ("scale", "raw", "value"),
    [(0.1, 272, 27.2), (0.01, 2135, 21.35), (1e-3, 1, 0.001), (2.5, 3, 7.5), (-0.1, 3, -0.3), (10, 4, 40.0)],
)
def test_a_scale_gives_the_decimal_number_that_was_meant(scale: float, raw: int, value: float) -> None:
    reading = read(
        {"registers": [register(type="uint16", scale=scale)]}, {(1, "holding", 0, 1): raw.to_bytes(2, "big")}
    )
    assert reading.values == (value,)
