"""Rows to readings: columns by name, numbers as written, and a plain reason for what is neither."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import CsvDecode, StatusField, TimeField
from edge_runtime.spec.reading import Reading, Rejection

TIME = TimeField(field="time", format="iso8601")
CHANNELS = {"temperature": ChannelBinding(field="t"), "humidity": ChannelBinding(field="rh")}


def decoder(columns: Any = ("time", "t", "rh"), time: TimeField | None = TIME, **keys: Any) -> Decoder:
    return make_decoder(CsvDecode(format="csv", columns=columns, time=time, **keys), CHANNELS)


def refused(result: object, reason: str) -> Rejection:
    assert isinstance(result, Rejection), result
    assert result.reason == reason
    return result


def test_a_row_becomes_values_in_the_order_of_the_channels() -> None:
    assert decoder(("rh", "time", "t")).decode(b"71,2025-01-28T00:00:00Z,19.94") == Reading(
        (19.94, 71.0), 1_738_022_400_000_000_000
    )


def test_a_header_binds_by_name_and_may_come_again() -> None:
    csv = decoder("header", None)
    assert csv.columns is None
    assert csv.decode("\ufeffrh, t ,x".encode()) is None
    assert csv.columns == ("rh", "t", "x")
    assert csv.decode(b"1,2,3") == Reading((2.0, 1.0))
    assert csv.decode(b"rh, t ,x") is None
    assert csv.decode(b"rh,t,x\r") is None
    assert csv.decode(b"1,2,3") == Reading((2.0, 1.0))


def test_a_header_with_other_columns_is_bound_anew() -> None:
    csv = decoder("header", None)
    csv.decode(b"rh,t")
    assert csv.decode(b"t,rh") is None
    assert csv.decode(b"1,2") == Reading((1.0, 2.0))
    assert csv.decode(b"x,t,rh") is None
    assert csv.decode(b"0,1,2") == Reading((1.0, 2.0))


def test_nothing_is_read_before_a_header_that_has_every_field() -> None:
    csv = decoder("header", None)
    refused(csv.decode(b"1,2"), "wrong_columns")
    rejection = refused(csv.decode(b"t,rh_pct,speed"), "wrong_columns")
    assert str(rejection) == (
        "column 'rh' (channel 'humidity'): found columns 't', 'rh_pct', 'speed'; expected it among the columns;"
        " nearest: 'rh_pct'"
    )
    refused(csv.decode(b"1,2,3"), "wrong_columns")
    assert csv.decode(b"t,rh") is None
    assert csv.decode(b"1,2") == Reading((1.0, 2.0))


def test_a_header_that_lost_a_bound_column_stops_the_reading_of_rows() -> None:
    csv = decoder("header", None)
    csv.decode(b"t,rh")
    refused(csv.decode(b"t,humidity"), "wrong_columns")
    refused(csv.decode(b"1,2"), "wrong_columns")
    assert csv.columns is None


def test_a_header_with_a_bound_column_twice_is_refused() -> None:
    rejection = refused(decoder("header", None).decode(b"t,rh,t"), "wrong_columns")
    assert "it twice" in rejection.found


def test_a_repeated_header_whose_names_are_numbers_is_no_row() -> None:
    csv = make_decoder(CsvDecode(format="csv", columns="header"), {"a": ChannelBinding(field="400")})
    assert csv.decode(b"400,402") is None
    assert csv.decode(b"400,402") is None
    assert csv.decode(b"400,0.5") == Reading((400.0,))


def test_columns_are_restored_from_a_former_run() -> None:
    csv = decoder("header", None)
    csv.restore_columns(("rh", "t"))
    assert csv.decode(b"1,2") == Reading((2.0, 1.0))
    assert csv.decode(b"rh,t") is None
    csv.restore_columns(("rh", "other"))
    assert csv.columns is None
    fixed = decoder(("t", "rh"), None)
    fixed.restore_columns(("rh", "t"))
    assert fixed.decode(b"1,2") == Reading((1.0, 2.0))
    fixed.restore_columns(None)
    assert fixed.columns == ("t", "rh")


def test_a_fixed_list_without_a_bound_field_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigurationError) as caught:
        decoder(("time", "t", "RH%"))
    assert "column 'rh' (channel 'humidity')" in str(caught.value)
    assert "nearest: 'RH%'" in str(caught.value)


@pytest.mark.parametrize("row", [b"1", b"1,2,3", b"1,2,", b'1,"2,3",4', b"," * 50])
def test_a_row_of_another_length_is_refused(row: bytes) -> None:
    rejection = refused(decoder(("t", "rh"), None).decode(row), "wrong_columns")
    assert "expected 2 cells, separated by ','" in str(rejection)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("5", 5.0), (" -5.25 ", -5.25), ("1e5", 1e5), ("+.5", 0.5), ("", None), (" ", None), ("Infinity", float("inf"))],
)
def test_numbers_as_written(cell: str, value: float | None) -> None:
    assert decoder(("t", "rh"), None).decode(f"{cell},1".encode()) == Reading((value, 1.0))


def test_nan_is_a_value_for_the_contract_to_refuse() -> None:
    result = decoder(("t", "rh"), None).decode(b"nan,1")
    assert isinstance(result, Reading)
    assert str(result.values[0]) == "nan"


@pytest.mark.parametrize("cell", ["abc", "1_000", "0x1F", "\u0661\u0662", "1 000", "--", "1.2.3", "- 5", "19.9F"])
def test_what_is_no_number_is_quoted(cell: str) -> None:
    rejection = refused(decoder(("t", "rh"), None).decode(f"{cell},1".encode()), "not_a_number")
    assert str(rejection).startswith(f"column 't': found {cell!r}; expected a number")


def test_a_decimal_comma_is_read_only_where_it_is_declared() -> None:
    comma = decoder(("t", "rh"), None, separator=";", decimal=",")
    assert comma.decode(b"19,5;1e2") == Reading((19.5, 100.0))
    for cell in (b"19.5", b"1.234,5", b"1,2,3"):
        assert "decimal comma" in refused(comma.decode(cell + b";1"), "not_a_number").expected
    refused(decoder(("t", "rh"), None, separator=";").decode(b"19,5;1"), "not_a_number")


def test_texts_that_mean_missing() -> None:
    csv = decoder(("t", "rh"), None, missing=("NAN", "-7999"))
    assert csv.decode(b" NAN,-7999") == Reading((None, None))
    refused(csv.decode(b",1"), "not_a_number")


def test_blank_and_comment_lines_are_no_samples() -> None:
    csv = decoder(("t", "rh"), None, comment="#")
    for line in (b"", b"  \r", b"# 1,2", b"  #", "\ufeff".encode()):
        assert csv.decode(line) is None


def test_quoted_cells() -> None:
    csv = decoder(("x", "t", "rh"), None, carry=("x",))
    assert csv.decode(b'"a, ""b""","1.5", "2"') == Reading((1.5, 2.0), carry=(("x", 'a, "b"'),))
    assert "unexpected end" in refused(csv.decode(b'1,2,"3'), "wrong_columns").found
    refused(csv.decode(b'"1"2,2,3'), "wrong_columns")
    assert csv.decode(b'"x","t","rh"') is None


def test_status_stream_unit_and_carry() -> None:
    csv = make_decoder(
        CsvDecode(
            format="csv",
            columns=("id", "st", "m", "u", "who"),
            stream="id",
            status=StatusField(field="st", accept=("S", "SD")),
            carry=("who",),
        ),
        {"mass": ChannelBinding(field="m", unit_field="u"), "again": ChannelBinding(field="m", unit="g")},
    )
    assert csv.decode(b"7, SD ,1.5, kg ,Ann") == Reading((1.5, 1.5), None, "7", ("kg", None), (("who", "Ann"),))
    assert csv.decode(b"7,S,1.5,,Ann") == Reading((1.5, 1.5), None, "7", (None, None), (("who", "Ann"),))
    assert str(refused(csv.decode(b"7,D,x,g,Ann"), "bad_status")) == "column 'st': found 'D'; expected one of 'S', 'SD'"
    assert "name of the stream" in str(refused(csv.decode(b" ,S,1.5,g,Ann"), "missing_field"))


def test_bytes_of_another_encoding_are_refused_and_shown() -> None:
    rejection = refused(decoder(("t", "rh"), None).decode(b"1\xb0C,2"), "bad_encoding")
    assert "b'1\\xb0C,2' at byte 1" in rejection.found
    assert decoder(("t", "rh", "n"), None, encoding="latin-1", carry=("n",)).decode(b"1,2,\xb0C") == Reading(
        (1.0, 2.0), carry=(("n", "\u00b0C"),)
    )
    wide = decoder(("t", "rh"), None, encoding="utf-16-le")
    assert wide.decode("\ufeff1,2".encode("utf-16-le")) == Reading((1.0, 2.0))
    refused(wide.decode(b"1\x002"), "bad_encoding")
    refused(decoder(("t", "rh"), None, encoding="cp1252").decode(b"\x81,2"), "bad_encoding")


def test_hostile_text_is_quoted_short_and_escaped() -> None:
    rejection = refused(decoder(("t", "rh"), None).decode(b"\x1b[31m" + b"x" * 3000 + b",1"), "not_a_number")
    assert rejection.found.startswith("'\\x1b[31mxxx")
    assert len(rejection.found) < 80
    wide = refused(decoder("header").decode(b"a," * 100_000), "wrong_columns")
    assert len(str(wide)) < 300


ROWS = st.lists(st.sampled_from(["1", "-2.5", "abc", "", '"', "t", "rh", "time", "2025-01-28T00:00:00Z", "#", "1_0"]))


@given(st.lists(st.one_of(st.binary(max_size=40), ROWS.map(lambda cells: ",".join(cells).encode()))))
def test_no_bytes_raise(frames: list[bytes]) -> None:
    for csv in (decoder(), decoder("header"), decoder("header", None, comment="#"), decoder(encoding="utf-16-be")):
        for frame in frames:
            assert isinstance(csv.decode(frame), Reading | Rejection | None)


@pytest.mark.parametrize(
    ("cell", "word"), [("---", "decode.missing"), ("20.5 °C", "a number alone"), ('"20,5"', "decode.decimal")]
)
def test_what_is_no_number_says_which_key_would_help(cell, word):
    rejection = refused(decoder(("t", "rh"), None).decode(f"{cell},1".encode()), "not_a_number")
    assert word in rejection.todo


def test_sentinels_and_the_texts_that_mean_nothing_stand_side_by_side() -> None:
    csv = make_decoder(
        CsvDecode(format="csv", columns=("t", "rh"), missing=("", "NAN")),
        {"t": ChannelBinding(field="t", missing_values=[-7999]), "rh": ChannelBinding(field="rh")},
    )
    assert csv.decode(b"-7999.00,-7999") == Reading((None, -7999.0))
    assert csv.decode(b"NAN,1") == Reading((None, 1.0))


def test_a_cell_is_a_text_anyway() -> None:
    with pytest.raises(ConfigurationError, match=r"'numeric_text'; expected 'number' in csv"):
        make_decoder(CsvDecode(format="csv", columns=("t",)), {"t": ChannelBinding(field="t", read="numeric_text")})


@given(st.text(st.sampled_from("0123456789.eE+-_ naifINFty٣½\xa0"), max_size=8))
def test_a_plain_row_is_read_as_a_row_with_an_underscore_is(cell: str) -> None:
    """A row without one takes the short way, in which underscore and other scripts are not looked for in each cell."""
    decode = CsvDecode(format="csv", columns=("a", "note"), missing=("", "nan", "-99"), carry=("note",))
    decoder = make_decoder(decode, {"a": ChannelBinding(field="a")})
    found = [decoder.decode(f"{cell},{note}".encode()) for note in ("x", "_")]
    values = [one.values[0] if isinstance(one, Reading) else type(one) for one in found]
    assert repr(values[0]) == repr(values[1])


@pytest.mark.parametrize(("line", "written"), [("t;rh", '";"'), ("t\trh", r'"\t"'), ("t | rh", '"|"')])
def test_a_header_with_another_separator_names_it(line: str, written: str) -> None:
    rejection = refused(decoder("header", None).decode(line.encode()), "wrong_columns")
    assert rejection.todo.endswith(f": set decode.separator = {written}")


def test_a_row_with_another_separator_names_it() -> None:
    assert refused(decoder().decode(b"1;2;3"), "wrong_columns").todo.endswith(': set decode.separator = ";"')
    assert (
        refused(decoder().decode(b"1;2"), "wrong_columns").todo == "decode.columns must name every cell, bound or not"
    )
    semicolons = decoder("header", None, separator=";")
    assert refused(semicolons.decode(b"t,rh"), "wrong_columns").todo.endswith(': set decode.separator = ","')


def test_a_stream_without_a_header_is_told_to_be_one() -> None:
    for line in (b"21.5,40", b"2026-01-01T00:00:00Z,21.5,-40", b",,"):
        assert (
            "list the names in order in decode.columns"
            in refused(decoder("header", None).decode(line), "wrong_columns").todo
        )
    assert "decode.columns" not in refused(decoder("header", None).decode(b"21.5,x"), "wrong_columns").todo


def test_a_bound_column_that_the_list_lacks_is_to_be_added() -> None:
    with pytest.raises(ConfigurationError, match=r"expected it among the columns; add it to decode\.columns"):
        decoder(("time", "t", "p"))
