"""Answers of SCPI instruments: numbers, words, lists, and the numbers that are no values."""

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import ScpiDecode
from edge_runtime.spec.reading import Reading, Rejection

CHANNELS = {"voltage": ChannelBinding(field="volt", unit="V"), "current": ChannelBinding(field="amp", unit="A")}


def read(frame, fields=("volt", "amp"), channels=CHANNELS, **keys):
    return make_decoder(ScpiDecode(format="scpi", fields=fields, **keys), channels).decode(frame)


def test_numbers_are_values_by_name() -> None:
    assert read(b"+1.50000000E+00,-2.5E-03") == Reading((1.5, -0.0025))
    assert read(b" 1.5 , 2 ") == Reading((1.5, 2.0))
    assert read(b'1.5,"CH1"', ("volt", "where"), {"voltage": CHANNELS["voltage"]}, carry=("where",)) == Reading(
        (1.5,), carry=(("where", "CH1"),)
    )
    assert read(b"") is None


@pytest.mark.parametrize(
    ("frame", "reason", "says"),
    [
        (b"1,9.9E37", "overload", "channel current: found 9.9e+37, SCPI's infinity; expected a value within its range"),
        (b"+9.90000000E+37,1", "overload", "channel voltage: found 9.9e+37"),
        (b"-9.9E37,1", "overload", "found -9.9e+37"),
        (
            b"1,9.91E37",
            "not_ready",
            "channel current: found 9.91e+37, SCPI's NaN; expected a value; it measured nothing",
        ),
        (b"9.910000E+37,9.9E37", "not_ready", "channel voltage"),
        (b"1", "wrong_columns", "found 1 cells"),
        (b"1,2,3", "wrong_columns", "found 3 cells"),
        (b"1,1.2.3", "not_a_number", "'1.2.3'"),
        (b'0,"No error"', "not_a_number", "No error"),
    ],
)
def test_what_is_no_value_is_refused_by_name(frame: bytes, reason: str, says: str) -> None:
    refused = read(frame)
    assert isinstance(refused, Rejection)
    assert refused.reason == reason
    assert says in str(refused)


def test_a_list_is_an_array_and_one_overload_in_it_refuses_it() -> None:
    trace = {"trace": ChannelBinding(field="y0", unit="V", read="columns", count=3)}
    fields = ("y0", "y1", "y2")
    assert read(b"1,2,-3", fields, trace) == Reading(([1.0, 2.0, -3.0],))
    assert read(b"1,-9.9E37,3", fields, trace).reason == "overload"
    assert read(b"1,9.91E37,3", fields, trace).reason == "not_ready"


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'amp'"):
        read(b"1", ("volt",))
