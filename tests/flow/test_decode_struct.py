"""Binary frames of a fixed layout: each type in both orders, sentinels, arrays, and what is refused."""

import math
import struct
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.spec.binding import ChannelBinding, PackedDtype
from edge_runtime.spec.framing import Framing
from edge_runtime.spec.payload import StructDecode
from edge_runtime.spec.reading import Reading, Rejection

FIELDS = [
    {"name": "node", "type": "uint16"},
    {"type": "uint8", "count": 3},
    {"name": "temperature", "type": "int16", "missing": [-32768]},
    {"name": "when", "type": "uint32"},
    {"name": "humidity", "type": "float32"},
]
CHANNELS = {
    "t": ChannelBinding(field="temperature", unit="Cel"),
    "rh": ChannelBinding(field="humidity", unit="%"),
}


def decoder(channels=CHANNELS, **changes):
    keys: dict[str, Any] = {"format": "struct", "byte_order": "little", "fields": FIELDS}
    return make_decoder(StructDecode.model_validate(keys | changes), channels)


def test_a_frame_is_a_reading() -> None:
    frame = struct.pack("<H3xhIf", 7, -1234, 1_700_000_000, 51.5)
    read = decoder(stream="node", time={"field": "when", "format": "unix_s"}, carry=["node", "when"]).decode(frame)
    assert read == Reading(
        (-1234.0, 51.5), 1_700_000_000_000_000_000, "7", None, (("node", 7), ("when", 1_700_000_000))
    )


def test_a_sentinel_is_missing_and_nan_is_nan() -> None:
    read = decoder(carry=["humidity"]).decode(struct.pack("<H3xhIf", 7, -32768, 0, math.nan))
    assert isinstance(read, Reading)
    assert read.values[0] is None
    assert math.isnan(read.values[1])
    assert read.carry == (("humidity", "nan"),)


def test_a_status_that_is_a_number() -> None:
    one = decoder(status={"field": "node", "accept": ["7"]})
    assert isinstance(one.decode(struct.pack("<H3xhIf", 7, 1, 0, 1.0)), Reading)
    refused = one.decode(struct.pack("<H3xhIf", 8, 1, 0, 1.0))
    assert isinstance(refused, Rejection)
    assert refused.reason == "bad_status"


@pytest.mark.parametrize("kind", get_args(PackedDtype))
@pytest.mark.parametrize("order", ["little", "big"])
@settings(deadline=None)
@given(data=st.data())
def test_each_type_in_both_orders_as_numpy_reads_it(kind: PackedDtype, order: str, data: st.DataObject) -> None:
    dtype = np.dtype(kind).newbyteorder("<" if order == "little" else ">")
    raw = data.draw(st.binary(min_size=4 * dtype.itemsize, max_size=4 * dtype.itemsize))
    channels = {"x": ChannelBinding(field="x"), "a": ChannelBinding(field="a", read="list")}
    fields = [{"name": "x", "type": kind}, {"name": "a", "type": kind, "count": 3}]
    read = decoder(channels, byte_order=order, fields=fields).decode(raw)
    assert isinstance(read, Reading)
    wanted = np.frombuffer(raw, dtype)
    np.testing.assert_array_equal(read.values[0], float(wanted[0]))
    np.testing.assert_array_equal(read.values[1], wanted[1:])
    assert read.values[1].dtype == np.dtype(kind)


@settings(deadline=None)
@given(st.binary(max_size=40).filter(lambda frame: len(frame) != 15))
def test_a_frame_of_another_size_is_refused(frame: bytes) -> None:
    refused = decoder().decode(frame)
    assert isinstance(refused, Rejection)
    assert refused.reason == "wrong_size"
    assert f"frame: found {len(frame)} bytes; expected 15, as decode.fields say" in str(refused)


@pytest.mark.parametrize(
    ("channels", "says"),
    [
        ({"t": ChannelBinding(field="temprature")}, "nearest: 'temperature'"),
        ({"t": ChannelBinding(field="temperature", read="list")}, "a single number"),
        ({"t": ChannelBinding(field="block")}, "2 numbers"),
        ({"t": ChannelBinding(field="temperature", read="base64", dtype="int8")}, "a struct holds numbers alone"),
    ],
)
def test_bindings_that_cannot_be(channels: dict[str, ChannelBinding], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        decoder(channels, fields=[*FIELDS, {"name": "block", "type": "int16", "count": 2}])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"byte_order": None}, "'little' or 'big'"),
        ({"fields": []}, "at least 1"),
        ({"fields": [{"name": "a", "type": "int16"}] * 2}, "'a' stands twice"),
        ({"fields": [{"name": "a", "type": "int16", "count": 2, "missing": [0]}]}, "belongs to a single number"),
        ({"fields": [{"name": "a", "type": "short"}]}, "'int16'"),
        ({"fields": [{"name": "a", "type": "int16", "scale": 0.1}]}, "Extra inputs"),
    ],
)
def test_layouts_that_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        decoder(**changes)


def test_a_block_of_a_curve_is_an_array() -> None:
    decode = StructDecode(format="struct", byte_order="big", fields=({"name": "trace", "type": "int16", "count": 4},))
    framing = TypeAdapter(Framing).validate_python({"kind": "block"})
    (frame,) = make_framing(framing, decode.encoding).feed(b"#18\x00\x01\xff\xfe\x00\x0a\x23\x31\n")
    reading = make_decoder(decode, {"a": ChannelBinding(field="trace", unit="V", read="list")}).decode(frame)
    assert reading.values[0].tolist() == [1, -2, 10, 0x2331]
