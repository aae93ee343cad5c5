"""Words, lists, columns and base64 out of each format, and how each is refused."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.payload import CsvDecode, JsonDecode, PatternDecode
from edge_runtime.spec.reading import Gridded, Reading, Rejection

JSON = JsonDecode(format="json")


def one_value(decode, frame, **binding):
    """The single channel's value, or why not."""
    found = make_decoder(decode, {"c": ChannelBinding(**({"field": "v"} | binding))}).decode(frame)
    return found.values[0] if isinstance(found, Reading) else found


def from_json(raw, **binding):
    return one_value(JSON, json.dumps({"v": raw, "x": [1, 2]}).encode(), **binding)


@pytest.mark.parametrize("raw", [[], [1], [1, 2.5, -3e300], [[1, 2], [3, 4]], [[[1], [2]], [[3], [4]]], [[[[1]]]]])
def test_a_list_is_an_array_of_numbers_nested_or_not(raw):
    found = from_json(raw, read="list")
    assert found.dtype == np.float64
    assert found.tolist() == raw


@pytest.mark.parametrize(
    "raw",
    [
        5,
        "abc",
        True,
        {"a": 1},
        [True],
        ["1"],
        [1, None],
        [1, [2]],
        [[1], [2, 3]],
        [[[[[1]]]]],
        [{}],
        [10**400],
        [[], [1]],
    ],
)
def test_what_is_no_list_of_numbers_names_its_field(raw):
    found = from_json(raw, read="list")
    assert (found.reason, found.subject, found.expected) == ("not_a_number", "field 'v'", "an array of numbers")
    assert "\n" not in str(found)
    assert len(str(found)) < 200


def test_brackets_without_end_are_refused():
    found = one_value(JSON, b'{"v":' + b"[" * 150 + b"]" * 150 + b"}", read="list")
    assert found.reason == "not_a_number"
    assert one_value(JSON, b'{"v":' + b"[" * 3000 + b"]" * 3000 + b"}", read="list").reason == "bad_json"


@pytest.mark.parametrize("read", ["list", "text", "base64"])
def test_null_and_an_absent_field_are_missing(read):
    extra = {"dtype": "uint8"} if read == "base64" else {}
    assert from_json(None, read=read, **extra) is None
    assert one_value(JSON, b"{}", read=read, **extra) is None


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("uint8", [0, 255]), ("int8", [-128, 127]), ("uint16", [1, 65535]), ("int16", [-2, 300]), ("uint32", [2**32 - 1]),
        ("int32", [-(2**31)]), ("int64", [2**53]), ("float16", [0.5]), ("float32", [1.5, -2.0]), ("float64", [0.1]),
    ],
)  # fmt: skip
def test_base64_is_little_endian_numbers_of_its_dtype(dtype, values):
    packed = np.array(values, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
    text = base64.b64encode(packed).decode()
    for found in (
        from_json(text, read="base64", dtype=dtype),
        one_value(CsvDecode(format="csv", columns=("v", "w")), f"{text},1".encode(), read="base64", dtype=dtype),
        one_value(CsvDecode(format="csv", columns=("v", "w")), f'"{text}","a,b"'.encode(), read="base64", dtype=dtype),
        one_value(
            PatternDecode(format="pattern", pattern="V {v:word}"), f"V {text}".encode(), read="base64", dtype=dtype
        ),
    ):
        assert found.tolist() == values


@pytest.mark.parametrize(
    "text",
    ["AAA", "AAAA=", "A===", "AA=A", "AAAA AAAA", "AAAA\nAAAA", "AA==AAAA", "_-AA", "ä===", "AAA=", 5, True, [1], {}],
)
def test_bad_padding_foreign_signs_and_half_numbers_are_refused_naming_the_field(text):
    found = from_json(text, read="base64", dtype="uint32")
    assert found == Rejection("not_a_number", "field 'v'", found.found, "base64 of whole uint32 numbers", found.todo)
    assert found.todo


def test_a_picture_longer_than_csv_s_own_limit_passes_beside_a_quoted_cell():
    packed = bytes(range(256)) * 1024
    frame = base64.b64encode(packed) + b',"a,b"'
    found = one_value(CsvDecode(format="csv", columns=("v", "w")), frame, read="base64", dtype="uint8")
    assert found.tobytes() == packed


@pytest.mark.parametrize(
    ("raw", "word"), [("red", "red"), (" red ", "red"), ("", ""), (1, "1"), (True, "true"), (0.5, "0.5")]
)
def test_a_text_is_a_word_and_a_number_as_it_is_written(raw, word):
    assert from_json(raw, read="text") == word


def test_no_word_is_in_an_array_or_an_object():
    for raw in ([], ["red"], {"a": 1}):
        assert from_json(raw, read="text").expected == "a word"


def test_a_text_of_csv_and_pattern():
    decode = CsvDecode(format="csv", columns=("v", "w"), missing=("", "NA"))
    assert one_value(decode, b" red ,1", read="text") == "red"
    assert one_value(decode, b"NA,1", read="text") is None
    pattern = PatternDecode(format="pattern", pattern="V {v:word} W {w:number}")
    assert one_value(pattern, b"V red W 5", read="text") == "red"
    assert one_value(pattern, b"V red W 5", field="w", read="text") == "5"


def test_columns_are_the_neighbours_from_the_field_on():
    fixed = CsvDecode(format="csv", columns=("t", "v", "w", "x"), decimal=",", separator=";")
    assert one_value(fixed, b"1;2,5;3;4", read="columns", count=3) == [2.5, 3.0, 4.0]
    assert one_value(fixed, b"1;2,5;3;4", read="columns", count=1) == [2.5]
    assert one_value(fixed, b"1;2,5;;4", read="columns", count=3) is None
    refused = one_value(fixed, b"1;2,5;abc;4", read="columns", count=3)
    assert (refused.reason, refused.subject) == ("not_a_number", "column 'v'")
    assert "'2,5,abc,4'" in refused.found
    assert refused.expected == "a number with a decimal comma in each of 3 columns"


def test_columns_that_are_not_there_are_refused_at_boot_or_at_the_header():
    with pytest.raises(ConfigurationError, match="2 columns from it on"):
        one_value(CsvDecode(format="csv", columns=("t", "v", "w")), b"1,2,3", read="columns", count=3)
    decoder = make_decoder(
        CsvDecode(format="csv", columns="header"), {"c": ChannelBinding(field="400", read="columns", count=3)}
    )
    assert decoder.decode(b"t,400,410").reason == "wrong_columns"
    assert decoder.decode(b"t,400,410,420") is None
    assert decoder.decode(b"1,2,3,4").values == ([2.0, 3.0, 4.0],)


def test_a_grid_comes_with_its_values():
    binding = {"read": "list", "grid_field": "x", "grid_unit": "nm"}
    found = from_json([3, 4], **binding)
    assert isinstance(found, Gridded)
    assert (found.values.tolist(), found.grid.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    assert from_json(None, **binding) is None
    packed = from_json("AwQ=", **(binding | {"read": "base64", "dtype": "uint8"}))
    assert (packed.values.tolist(), packed.grid.tolist()) == ([3, 4], [1.0, 2.0])


@pytest.mark.parametrize("grid", [b"null", b"5", b'"x"', b"[1,null]"])
def test_a_spectrum_without_its_grid_is_refused_naming_the_grid(grid):
    binding = {"read": "list", "grid_field": "/g/x", "grid_unit": "nm"}
    found = one_value(JSON, b'{"v":[1,2],"g":{"x":' + grid + b"}}", **binding)
    assert (found.reason, found.subject) == ("not_a_number", "field '/g/x'")
    assert found.expected == "an array of numbers, its grid"


@pytest.mark.parametrize(
    ("decode", "binding"),
    [
        (JSON, {"read": "columns", "count": 2}),
        (CsvDecode(format="csv", columns=("v",)), {"read": "list"}),
        (
            CsvDecode(format="csv", columns=("v", "x")),
            {"read": "base64", "dtype": "uint8", "grid_field": "x", "grid_unit": "nm"},
        ),
        (PatternDecode(format="pattern", pattern="{v:word}"), {"read": "list"}),
        (PatternDecode(format="pattern", pattern="{v:word}"), {"read": "columns", "count": 2}),
        (PatternDecode(format="pattern", pattern="{v:number}"), {"read": "base64", "dtype": "uint8"}),
        (PatternDecode(format="pattern", pattern="{v:word}"), {"read": "number"}),
    ],
)  # fmt: skip
def test_a_way_of_reading_that_a_format_does_not_have_is_refused_at_boot(decode, binding):
    with pytest.raises(ConfigurationError) as refused:
        one_value(decode, b"", **binding)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"read": "columns"}, "count says how many columns"), ({"count": 3}, "count says how many columns"),
        ({"read": "base64"}, "dtype says what base64 holds"), ({"read": "list", "dtype": "uint8"}, "dtype says"),
        ({"read": "list", "grid_field": "x"}, "belong together"), ({"read": "list", "grid_unit": "nm"}, "belong together"),
        ({"grid_field": "x", "grid_unit": "nm"}, "belongs to an array"), ({"read": "picture"}, "base64"),
        ({"read": "base64", "dtype": "float8"}, "float64"),
    ],
)  # fmt: skip
def test_a_binding_is_whole(keys, says):
    with pytest.raises(ValidationError, match=says):
        ChannelBinding(field="v", **keys)


def test_a_line_may_be_as_long_as_a_picture():
    assert LinesFraming(max_bytes=16 * 1024 * 1024).max_bytes == 16_777_216
    assert LinesFraming().max_bytes == 4096


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["v", "x", "y"]), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=200)
@given(
    row=st.dictionaries(st.sampled_from(["v", "x"]), ANY_JSON), read=st.sampled_from(["text", "list", "base64", "grid"])
)
def test_no_json_of_any_shape_makes_a_traceback(row, read):
    keys = {"read": read, "dtype": "int16" if read == "base64" else None}
    if read == "grid":
        keys = {"read": "list", "grid_field": "x", "grid_unit": "nm"}
    found = make_decoder(JSON, {"c": ChannelBinding(field="v", **keys)}).decode(json.dumps(row).encode())
    assert isinstance(found, Reading | Rejection)
