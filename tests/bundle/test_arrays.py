"""The .npz reader against numpy and against hostile containers; the writer against both."""

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst

from edge_runtime.bundle import arrays as module
from edge_runtime.bundle.arrays import read_arrays, write_arrays
from edge_runtime.errors import BundleError
from tests.rig.mutilate import flips

DTYPES = [
    *("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"),
    *("U1", "U7", "U256"),
]
ARRAYS = {
    "raw/x": np.arange(12, dtype=np.float64).reshape(3, 4) / 7,
    "tensors//Gemm_output_0": np.arange(24, dtype=np.int8).reshape(2, 3, 4),
    "scalar": np.array(2.5, np.float32),
    "none": np.zeros((0, 5), np.uint16),
    "flags": np.array([True, False]),
    "text": np.array(["Cel", "[degF]", "°", "𝄞", ""]),
    "special": np.array([np.nan, np.inf, -0.0], np.float16),
}


def read(data, max_bytes=1 << 20):
    return read_arrays(data, subject="golden.npz of b", max_bytes=max_bytes)


def refused(data, max_bytes=1 << 20):
    with pytest.raises(BundleError) as caught:
        read(data, max_bytes)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("golden.npz of b")
    return str(caught.value)


def same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.shape == other[name].shape
        assert array.tobytes() == other[name].tobytes()


def npy(descr="<f4", shape="(2,)", content=bytes(8), *, order="False", magic=b"\x93NUMPY\x01\x00", text=None, more=0):
    text = text or f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
    return magic + (len(text) + more).to_bytes(2, "little") + text.encode("latin-1") + content


def npz(*members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members or [("a.npy", npy())]:
            archive.writestr(name, content)
    return out.getvalue()


def saved(save=np.savez, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def test_the_round_trip_is_exact():
    same(read(write_arrays(ARRAYS)), ARRAYS)
    assert read(write_arrays({})) == {}


def test_numpy_reads_what_is_written():
    with np.load(io.BytesIO(write_arrays(ARRAYS)), allow_pickle=False) as loaded:
        same(dict(loaded), ARRAYS)


def test_what_numpy_writes_is_read():
    same(read(saved(**ARRAYS)), ARRAYS)
    same(read(npz()), {"a": np.zeros(2, np.float32)})


@pytest.mark.parametrize(("off_by", "fits"), [(0, True), (1, False)])
def test_sizes_stated_twice_must_agree(off_by, fits):
    """As zipfile before Python 3.11.4 wrote the header of every member of numpy.savez."""
    array = np.arange(3.0)
    data = bytearray(saved(a=array))
    size = zipfile.ZipFile(io.BytesIO(data)).getinfo("a.npy").file_size + off_by
    data[18:26] = struct.pack("<2I", size, size)
    if fits:
        same(read(bytes(data)), {"a": array})
    else:
        assert "sizes that do not fit" in refused(bytes(data))


def test_equal_arrays_give_equal_bytes():
    shuffled = dict(reversed(ARRAYS.items()))
    shuffled["raw/x"] = np.asfortranarray(ARRAYS["raw/x"]).astype(">f8")
    assert write_arrays(shuffled) == write_arrays(ARRAYS)
    assert zlib.crc32(write_arrays({"a": np.arange(3, dtype=np.int32)})) == 4032050444


def test_the_arrays_are_aligned_and_can_never_be_written():
    for array in read(write_arrays(ARRAYS)).values():
        assert array.flags.aligned
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)


@settings(deadline=None)
@given(st.data())
def test_any_array_of_a_listed_type_survives(data):
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=dtype.itemsize // 4)
    elements = text if dtype.kind == "U" else None
    array = data.draw(nst.arrays(dtype, nst.array_shapes(min_dims=0, min_side=0, max_side=4), elements=elements))
    same(read(write_arrays({"a": array})), {"a": array})


@pytest.mark.parametrize(
    "array",
    [
        *(np.array([object()]), np.zeros(1, "c8"), np.zeros(1, "S3"), np.zeros(1, "M8[ns]"), np.zeros(1, "U257")),
        *(np.zeros(1, [("a", "f4")]), np.zeros(1, "V4"), np.zeros((1,) * 17)),
    ],
    ids=lambda array: f"{array.dtype}-{array.ndim}",
)
def test_another_type_is_not_written(array):
    with pytest.raises(BundleError, match="array 'a'"):
        write_arrays({"a": array})


@pytest.mark.parametrize("name", ["", "a b", "é", "a\0", "a\\b", "a\n", "x" * 201])
def test_an_odd_name_is_neither_written_nor_read(name):
    with pytest.raises(BundleError):
        write_arrays({name: np.zeros(1)})
    if "\0" not in name:
        refused(npz((f"{name}.npy", npy())))


HOSTILE = {
    "pickle": saved(a=np.array([object], dtype=object)),
    "pickle named as float": npz(("a.npy", npy(content=b"cposix\nsystem\n"))),
    "object": npz(("a.npy", npy("|O"))),
    "structured": saved(a=np.zeros(1, [("a", "f4")])),
    "complex": saved(a=np.zeros(1, "c8")),
    "bytes": saved(a=np.zeros(1, "S3")),
    "dates": saved(a=np.zeros(1, "M8[s]")),
    "big endian": saved(a=np.zeros(1, ">f4")),
    "long text": saved(a=np.zeros(1, "U257")),
    "no text": npz(("a.npy", npy("<U0", "(2,)", b""))),
    "Fortran order": saved(a=np.asfortranarray(np.ones((2, 3)))),
    "compressed": saved(np.savez_compressed, a=np.zeros(9)),
    "bzip2": npz(compression=zipfile.ZIP_BZIP2),
    "lzma": npz(compression=zipfile.ZIP_LZMA),
    "duplicate": write_arrays({"a": np.zeros(1), "b": np.zeros(1)}).replace(b"b.npy", b"a.npy"),
    "not an array": npz(("readme.txt", b"x")),
    "folder": npz(("a/", b"")),
    "parent of none": npz((".npy", npy())),
    "too few bytes": npz(("a.npy", npy(content=bytes(7)))),
    "too many bytes": npz(("a.npy", npy(content=bytes(9)))),
    "negative shape": npz(("a.npy", npy(shape="(-2,)"))),
    "huge shape": npz(("a.npy", npy(shape="(999999999999, 999999999999)"))),
    "huge shape with a zero": npz(("a.npy", npy(shape="(0, 999999999999, 999999999999)", content=b""))),
    "overflowing shape": npz(("a.npy", npy(shape="(4294967296, 4294967296)", content=b""))),
    "many dimensions": npz(("a.npy", npy(shape=f"({', '.join('1' * 17)})", content=bytes(4)))),
    "shape without comma": npz(("a.npy", npy(shape="(2)"))),
    "shape is code": npz(("a.npy", npy(shape="(__import__('os').getpid(),)"))),
    "deep header": npz(("a.npy", npy(text="(" * 9000))),
    "header without end": npz(("a.npy", npy()[:40])),
    "header alone": npz(("a.npy", npy()[:9])),
    "empty member": npz(("a.npy", b"")),
    "extra key": npz(("a.npy", npy(text="{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1, }\n"))),
    "cut behind its header": npz(("a.npy", npy(shape="(0,)", content=b"", more=9))),
    "array by another name": npz(("a.npz", npy())),
    "npy 2.0": npz(("a.npy", npy(magic=b"\x93NUMPY\x02\x00"))),
    "npy 3.0": npz(("a.npy", npy(magic=b"\x93NUMPY\x03\x00"))),
    "a bool of 2": npz(("a.npy", npy("|b1", "(2,)", b"\1\2"))),
    "text beyond Unicode": npz(("a.npy", npy("<U1", "(1,)", struct.pack("<I", 0x110000)))),
    "a lone surrogate": npz(("a.npy", npy("<U1", "(1,)", struct.pack("<I", 0xD800)))),
    "leading garbage": b"#!/bin/sh\n" + npz(),
    "trailing garbage": npz() + b"x",
    "two archives": npz() + npz(),
    "garbage between": npz().replace(b"PK\1\2", b"xxPK\1\2"),
    "nothing": b"",
    "an .npy alone": npy(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_container_is_refused(name):
    refused(HOSTILE[name])


def test_a_comment_is_refused():
    data = npz()
    refused(data[:-2] + b"\2\0hi")
    refused(data[:-2] + b"\2\0")


def local(name, content, **fields):
    """A member alone, without a directory's entry; any field of its header may be replaced."""
    size = len(content)
    values = {"flags": 0, "method": 0, "crc": zlib.crc32(content), "packed": size, "size": size, "extra": b"", **fields}
    numbers = (values["flags"], values["method"], 0, 33, values["crc"], values["packed"], values["size"])
    front = struct.pack("<4s5H3I2H", b"PK\3\4", 20, *numbers, len(name), len(values["extra"]))
    return front + name + values["extra"] + content


def container(member, content, name=b"a.npy"):
    size = len(content)
    entry = struct.pack(
        "<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, zlib.crc32(content), size, size, 5, 0, 0, 0, 0, 0, 0
    )
    return member + entry + name + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(entry) + 5, len(member), 0)


SIZE = len(npy())
ZIP64 = struct.pack("<2H2Q", 1, 16, SIZE, SIZE)


def test_a_hand_made_container_is_read():
    content = npy()
    for fields in ({}, {"extra": ZIP64}, {"packed": 0xFFFFFFFF, "size": 0xFFFFFFFF, "extra": ZIP64}):
        assert list(read(container(local(b"a.npy", content, **fields), content))) == ["a"]


@pytest.mark.parametrize(
    "fields",
    [
        *({"flags": 1}, {"flags": 8}, {"flags": 0x800}, {"method": 8}, {"method": 99}, {"crc": 0}),
        *(
            {"packed": SIZE - 1},
            {"size": SIZE - 1},
            {"packed": SIZE - 1, "size": SIZE - 1},
            {"packed": 0xFFFFFFF0, "size": 0xFFFFFFF0},
        ),
        *({"extra": b"ux\0\0"}, {"extra": ZIP64[:-1] + b"\1"}, {"packed": 0xFFFFFFFF, "size": 0xFFFFFFFF}),
        {"packed": 0xFFFFFFFF, "size": 0xFFFFFFFF, "extra": ZIP64 + b"ux\0\0"},
        {"packed": 0xFFFFFFFF, "size": 0xFFFFFFFF, "extra": ZIP64[:1] + b"\1" + ZIP64[2:]},
        {"packed": 0xFFFFFFFF, "size": 0xFFFFFFFF, "extra": ZIP64[:-1] + b"\xff"},
    ],
)
def test_a_member_header_that_says_otherwise_is_refused(fields):
    content = npy()
    refused(container(local(b"a.npy", content, **fields), content))


def test_too_many_members_are_refused(monkeypatch):
    array = np.zeros(0, np.bool_)
    many = {f"{number}": array for number in range(65_535)}
    with pytest.raises(BundleError, match="65535"):
        write_arrays(many)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MAX_MEMBERS", 65_535)
        data = write_arrays(many)
    assert "65535 members" in refused(data)


def test_four_gibibytes_are_not_written(monkeypatch):
    monkeypatch.setattr(module, "_IN_ZIP64", 300)
    assert write_arrays({"a": np.zeros(2)})
    for size in (3, 100):
        with pytest.raises(BundleError, match="4 GiB"):
            write_arrays({"a": np.zeros(size), "b": np.zeros(1)})


def test_an_encrypted_or_streamed_member_is_refused():
    data = npz()
    for flags in (1, 8):
        refused(data[:6] + bytes([flags]) + data[7:])


def test_an_archive_cut_anywhere_is_refused():
    data = write_arrays(ARRAYS)
    for end in range(len(data)):
        refused(data[:end])


def test_a_changed_byte_of_an_array_is_refused():
    data = write_arrays(ARRAYS)
    whole = read(data)
    harmless = 0
    for changed in flips({"a": data}, per_file=len(data), seed=5):
        try:
            arrays = read(changed["a"])
        except BundleError:
            continue
        same(arrays, whole)
        harmless += 1
    # What the container says of its own version, times and attributes: 6 bytes locally and 14 in the directory.
    assert harmless == 20 * len(ARRAYS)


def test_the_bound_is_on_all_arrays_together_and_exact():
    data = write_arrays({"a": np.zeros(10), "b": np.zeros(5, np.int8)})
    assert len(read(data, 85)) == 2
    assert "array b" in refused(data, 84)
    refused(data, 79)


@settings(deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_random_bytes_are_refused(data, zipped):
    refused(npz(("a.npy", data)) if zipped else data)


@settings(deadline=None)
@given(
    st.text("<|>biufUOSV0123456789", max_size=6),
    st.text("(), 0123456789-", max_size=20),
    st.binary(max_size=20),
)
def test_likely_members_raise_nothing_else(descr, shape, content):
    try:
        arrays = read(npz(("a.npy", npy(descr, shape, content))))
    except BundleError:
        return
    assert arrays["a"].nbytes == len(content)
