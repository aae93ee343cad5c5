"""Files of numbers by their first bytes, and how a payload that names one is refused."""

import io
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.number_file import FileRefused, NumberFiles, file_numbers, most_bytes
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import CsvDecode, JsonDecode, PatternDecode
from edge_runtime.spec.reading import Gridded, Reading, Rejection

GREY = np.arange(6, dtype=np.uint8).reshape(2, 3)
COLOUR = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
DEEP = np.array([[1, 256, 65535], [2, 3, 4]], dtype="<u2")
JSON = JsonDecode(format="json")
BINDING = {"field": "v", "read": "file", "dtype": "uint8", "folder": "f"}


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def decoded(decode, frame, data=bytes(range(6)), **binding):
    """What one frame with a file name gives; the reader knows 'a.pgm' alone."""

    def read_file(name):
        if name == "a.pgm":
            return data
        raise FileRefused("no such file", "one in f", reason="missing_field")

    channels = {"c": ChannelBinding(**(BINDING | binding))}
    found = make_decoder(decode, channels, {"c": NumberFiles(read_file, (2, 3))}).decode(frame)
    return found.values[0] if isinstance(found, Reading) else found


@pytest.mark.parametrize(
    ("data", "array"),
    [
        (GREY.tobytes(), GREY), (npy(GREY), GREY), (npy(GREY.ravel()), GREY), (b"P5 3 2 255\n" + GREY.tobytes(), GREY),
        (b"P5\n# a camera\r3\t2\n#x\n255 " + GREY.tobytes(), GREY), (b"P6\n3 2\n255\n" + COLOUR.tobytes(), COLOUR),
        (DEEP.tobytes(), DEEP), (npy(DEEP), DEEP), (b"P5 3 2 65535\n" + DEEP.astype(">u2").tobytes(), DEEP),
        (npy(np.float32([[0.5]])), np.float32([[0.5]])), (np.float16([1.5, 2]).tobytes(), np.float16([1.5, 2])),
        (b"P5 3 2 255\n" + GREY.tobytes(), GREY[:, :, None]),
    ],
)  # fmt: skip
def test_each_format_gives_the_same_numbers(data, array):
    found = file_numbers(data, array.dtype.name, array.shape)
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()
    assert len(data) <= most_bytes(array.dtype.name, array.shape)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "0 bytes of numbers"), (bytes(5), "5 bytes of numbers"), (bytes(7), "7 bytes of numbers"),
        (b"P5 3 2 255\n" + bytes(5), "5 bytes of numbers"), (b"P5 3 2 255\n" + bytes(7), "7 bytes of numbers"),
        (b"P5 3 2 255", "a broken header"), (b"P5 3 2\n", "a broken header"), (b"P5 -3 2 255\n", "a broken header"),
        (b"P5 3 2 255#\n" + bytes(6), "a broken header"), (b"P5 3 " + b"#" * 5000 + b"\n2 255\n", "a broken header"),
        (b"P5 2 3 255\n" + bytes(6), r"shape \(3, 2\)"), (b"P6 3 2 255\n" + bytes(18), r"shape \(2, 3, 3\)"),
        (b"P5 6 1 255\n" + bytes(6), r"shape \(1, 6\)"), (b"P5 3 2 15\n" + bytes(6), "the largest value 15"),
        (b"P5 3 2 65535\n" + bytes(12), "the largest value 65535"), (b"P2 3 2 255\n", "Netpbm picture of kind P2"),
        (b"P7\nWIDTH 3", "Netpbm picture of kind P7"), (b"\x89PNG\r\n\x1a\n" + bytes(9), "a PNG"),
        (b"\xff\xd8\xff\xe0" + bytes(9), "a JPEG"), (b"\xff\xd8\xff\xe1ab", "a JPEG"),
        (npy(GREY)[:-1], "5 bytes of numbers"), (npy(GREY) + b"x", "7 bytes of numbers"), (npy(GREY)[:20], "unknown header"),
        (b"\x93NUMPY", "unknown header"), (npy(GREY).replace(b"\x01\x00", b"\x02\x00", 1), "unknown header"),
        (npy(GREY).replace(b"(2, 3)", b"(2,-3)"), "unknown header"), (npy(GREY.T), "shape|Fortran order"),
        (npy(np.asfortranarray(GREY)), "Fortran order"), (npy(GREY.astype("<i2")), "'<i2'"),
        (npy(np.array([[None] * 3] * 2)), r"'\|O'"), (npy(GREY.reshape(3, 2)), r"shape \(3, 2\)"),
        (npy(np.zeros((2, 3), [("a", "u1")])), "unknown header"),
    ],
)  # fmt: skip
def test_every_other_file_is_refused_with_what_was_found(data, says):
    with pytest.raises(FileRefused, match=says):
        file_numbers(data, "uint8", (2, 3))


def test_a_picture_that_must_be_unpacked_says_what_to_do():
    with pytest.raises(FileRefused) as caught:
        file_numbers(b"\x89PNG\r\n\x1a\n", "uint8", (2, 3))
    assert caught.value.todo.startswith("convert it to a binary PGM or PPM")


@example(b"P5 3 2 255\n" + bytes(6))
@given(
    st.sampled_from(
        [b"", b"P5", b"P6 ", b"P5 3 2 255\n", b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', ", b"\x93NUMPY"]
    ).flatmap(lambda head: st.binary(max_size=40).map(lambda tail: head + tail))
)
def test_any_bytes_are_six_numbers_or_refused(data):
    found = decoded(JSON, b'{"v":"a.pgm"}', data=data)
    if isinstance(found, Rejection):
        assert found.found.startswith("file 'a.pgm': ")
        assert "\n" not in str(found)
    else:
        assert found.shape == (2, 3)


@pytest.mark.parametrize(
    ("decode", "frame"),
    [
        (JSON, b'{"v":"a.pgm"}'), (JSON, b'{"v":" a.pgm "}'), (CsvDecode(format="csv", columns=("v", "w")), b"a.pgm,1"),
        (PatternDecode(format="pattern", pattern="V {v:word}"), b"V a.pgm"),
    ],
)  # fmt: skip
def test_every_format_of_payload_can_name_a_file(decode, frame):
    assert decoded(decode, frame).tolist() == GREY.tolist()


def test_no_name_is_a_missing_value():
    for frame in (b'{"v":null}', b"{}"):
        assert decoded(JSON, frame) is None
    assert decoded(CsvDecode(format="csv", columns=("v", "w")), b",1") is None


def test_a_file_that_is_not_there_is_named():
    assert decoded(JSON, b'{"v":"b.pgm"}') == Rejection(
        "missing_field", "field 'v'", "file 'b.pgm': no such file", "one in f"
    )


def test_a_file_that_is_no_picture_is_named():
    found = decoded(JSON, b'{"v":"a.pgm"}', data=bytes(4))
    assert (found.reason, found.subject) == ("not_a_number", "field 'v'")
    assert found.found == "file 'a.pgm': 4 bytes of numbers"


@pytest.mark.parametrize("raw", [{}, [], ["a.pgm"]])
def test_what_is_no_name_is_refused(raw):
    found = decoded(JSON, json.dumps({"v": raw}).encode())
    assert (found.reason, found.subject, found.expected) == ("not_a_number", "field 'v'", "the name of a file")


def test_a_file_brings_its_grid_from_the_payload():
    keys = {"grid_field": "x", "grid_unit": "nm"}
    found = decoded(JSON, b'{"v":"a.pgm","x":[1,2]}', **keys)
    assert isinstance(found, Gridded)
    refused = decoded(JSON, b'{"v":"a.pgm","x":"no"}', **keys)
    assert (refused.reason, refused.subject) == ("not_a_number", "field 'x'")


def test_a_file_is_read_once_though_another_field_is_refused():
    read = []
    files = {"c": NumberFiles(lambda name: read.append(name) or GREY.tobytes(), (2, 3))}
    channels = {"c": ChannelBinding(**BINDING), "d": ChannelBinding(field="d")}
    found = make_decoder(JSON, channels, files).decode(b'{"v":"a.pgm","d":"cold"}')
    assert (found.reason, found.subject, read) == ("not_a_number", "field 'd'", ["a.pgm"])


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"folder": None}, "folder says where"), ({"dtype": None}, "dtype says"), ({"folder": ""}, "at least 1 character"),
        ({"read": "base64"}, "folder says where"), ({"read": "number", "dtype": None}, "folder says where"),
    ],
)  # fmt: skip
def test_a_binding_to_files_is_whole(keys, says):
    with pytest.raises(ValidationError, match=says):
        ChannelBinding(**(BINDING | keys))


def test_a_pattern_s_number_is_no_name():
    with pytest.raises(ConfigurationError, match="make it a word"):
        decoded(PatternDecode(format="pattern", pattern="V {v:number}"), b"V 1")
