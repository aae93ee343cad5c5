"""Named arrays in a .npz, read without trust and written the same twice; no pickle, no compression, no slack bytes.

Layout: PKWARE APPNOTE 6.3 (local header, central directory, end record) around NumPy's .npy format 1.0. What
`numpy.savez` writes is read too; `numpy.load` reads what is written here.
"""

import math
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from edge_runtime.errors import BundleError

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_ZIP64: Final = struct.Struct("<2H2Q")
_LOCAL_MAGIC: Final = b"PK\x03\x04"
_CENTRAL_MAGIC: Final = b"PK\x01\x02"
_END_MAGIC: Final = b"PK\x05\x06"
_IN_ZIP64: Final = 0xFFFFFFFF
_MAX_MEMBERS: Final = 0xFFFE
# Zip version 2.0, and 1980-01-01, the first day a zip can tell.
_VERSION: Final = 20
_DATE: Final = 0x21

_NPY_MAGIC: Final = b"\x93NUMPY\x01\x00"
_NPY_HEADER: Final = re.compile(
    r"\{'descr': '([^'\\]{1,40})', 'fortran_order': (True|False), "
    r"'shape': \(((?:[0-9]{1,12},|[0-9]{1,12}(?:, [0-9]{1,12})+)?)\), \} *\n"
)
_NPY_ALIGNMENT: Final = 64
_MAX_DIMENSIONS: Final = 16
_NAME: Final = re.compile(r"[!-\[\]-~]{1,200}")
_NUMBERS: Final = frozenset(
    ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"),
)
_TEXT: Final = re.compile(r"<U([1-9][0-9]{0,2})")
_MAX_TEXT: Final = 256
_MAX_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)


class _FormatError(Exception):
    """Why these bytes are no such file: what was found, what was expected."""


class _Member(NamedTuple):
    name: bytes
    crc: int
    start: int
    size: int
    offset: int


def read_arrays(data: bytes, *, subject: str, max_bytes: int) -> dict[str, np.ndarray]:
    """Return name -> read-only array of a .npz; `subject` names the file in errors.

    Types: bool, int8 to int64, uint8 to uint64, float16, float32, float64, text of up to 256 characters; little
    endian, C order. `max_bytes` bounds the arrays together and is checked before any of them takes memory.

    Raises
    ------
    BundleError
        for everything else: a pickle, another type or order, a compressed or encrypted member, a wrong CRC, a shape
        that does not fit its bytes, two members of one name, any byte that belongs to no member.

    """
    try:
        arrays: dict[str, np.ndarray] = {}
        left = max_bytes
        for member in _walk(data):
            name = _array_name(member.name, arrays)
            array = _read_array(data, member, name, left)
            left -= array.nbytes
            arrays[name] = array
    except _FormatError as fault:
        found, expected = fault.args
        raise BundleError(
            subject=subject, found=found, expected=expected, todo="build the bundle again, or fetch it again"
        ) from fault
    return arrays


def write_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a .npz of `arrays`, sorted by name, without compression or times: equal arrays give equal bytes.

    Raises
    ------
    BundleError
        for a name or type that `read_arrays` would refuse, or 4 GiB and more.

    """
    front: list[bytes] = []
    central: list[bytes] = []
    offset = 0
    for name, array in sorted(arrays.items()):
        content = _npy(name, np.asarray(array))
        encoded = f"{name}.npy".encode("ascii")
        _require_room(name, offset + len(content))
        shared = (0, 0, 0, _DATE, zlib.crc32(content), len(content), len(content), len(encoded), 0)
        front += [_LOCAL.pack(_LOCAL_MAGIC, _VERSION, *shared), encoded, content]
        central += [_CENTRAL.pack(_CENTRAL_MAGIC, _VERSION, _VERSION, *shared, 0, 0, 0, 0, offset), encoded]
        offset += _LOCAL.size + len(encoded) + len(content)
    directory = b"".join(central)
    _require_room("all arrays", offset + len(directory))
    count = len(arrays)
    if count > _MAX_MEMBERS:
        raise BundleError(
            subject="all arrays", found=f"{count}", expected=f"at most {_MAX_MEMBERS}", todo="stack arrays of one shape"
        )
    return b"".join([*front, directory, _END.pack(_END_MAGIC, 0, 0, count, count, len(directory), offset, 0)])


def _walk(data: bytes) -> list[_Member]:
    """Return the members of a zip in which every byte has its place: members, directory, end, nothing between."""
    members: list[_Member] = []
    offset = 0
    while data.startswith(_LOCAL_MAGIC, offset):
        member = _local(data, offset)
        members.append(member)
        offset = member.start + member.size
    if len(members) > _MAX_MEMBERS:
        raise _FormatError(f"{len(members)} members", f"at most {_MAX_MEMBERS}")
    directory = offset
    for member in members:
        offset = _require_central(data, offset, member)
    count = len(members)
    end = _END.pack(_END_MAGIC, 0, 0, count, count, offset - directory, directory, 0)
    if data[offset : offset + len(end) + 1] != end:
        raise _FormatError(f"other bytes than the end record at byte {offset}", "a whole .npz, nothing added")
    return members


def _local(data: bytes, offset: int) -> _Member:
    body = offset + _LOCAL.size
    if body > len(data):
        raise _FormatError("a cut member header", "a whole .npz")
    _, _, flags, method, _, _, crc, packed, size, name_size, extra_size = _LOCAL.unpack_from(data, offset)
    name = data[body : body + name_size]
    extra = data[body + name_size : body + name_size + extra_size]
    if flags or method:
        raise _FormatError(f"member {name[:60]!r} compressed, encrypted or streamed", "as numpy.savez writes")
    if len(extra) == _ZIP64.size:
        tag, length, *sizes = _ZIP64.unpack(extra)
        # Before Python 3.11.4 zipfile left the sizes where they usually stand, as well as here.
        if (tag, length) == (1, 16) and (packed == size == _IN_ZIP64 or [size, packed] == sizes):
            (size, packed), extra = sizes, b""
    start = body + name_size + extra_size
    if extra or packed != size or size > len(data) - start:
        raise _FormatError(f"member {name[:60]!r} with sizes that do not fit", "as many bytes as stated")
    return _Member(name, crc, start, size, offset)


def _require_central(data: bytes, offset: int, member: _Member) -> int:
    """Check the directory's entry at `offset` against the member it stands for; return where the next one begins."""
    end = offset + _CENTRAL.size + len(member.name)
    if end > len(data):
        raise _FormatError("a cut directory", "a whole .npz")
    magic, _, _, flags, method, _, _, *fields = _CENTRAL.unpack_from(data, offset)
    crc, packed, size, name_size, extra_size, comment_size, disk, _, _, at = fields
    same = (magic, flags, method, crc, packed, size, name_size, extra_size, comment_size, disk, at) == (
        *(_CENTRAL_MAGIC, 0, 0, member.crc, member.size, member.size),
        *(len(member.name), 0, 0, 0, member.offset),
    )
    if not same or data[offset + _CENTRAL.size : end] != member.name:
        raise _FormatError(f"a directory that says otherwise about {member.name[:60]!r}", "one entry for each member")
    return end


def _array_name(member: bytes, taken: Mapping[str, np.ndarray]) -> str:
    name = member.decode("latin-1")
    if not name.endswith(".npy") or _NAME.fullmatch(name[:-4]) is None:
        raise _FormatError(f"a member {member[:60]!r}", "NAME.npy, printable ASCII, at most 200 characters")
    if name[:-4] in taken:
        raise _FormatError(f"array {name[:-4]} twice", "each array once")
    return name[:-4]


def _read_array(data: bytes, member: _Member, name: str, max_bytes: int) -> np.ndarray:
    view = memoryview(data)[member.start : member.start + member.size]
    if zlib.crc32(view) != member.crc:
        raise _FormatError(f"array {name} with a wrong checksum", "the bytes that were written")
    dtype, shape, header_size = _npy_header(view, name)
    # A zero in the shape must not let the other lengths grow beyond what numpy can count.
    if math.prod(length or 1 for length in shape) * dtype.itemsize > max_bytes:
        raise _FormatError(f"array {name} of shape {shape} past the limit", f"at most {max_bytes} bytes more")
    content = bytes(view[header_size:])
    if math.prod(shape) * dtype.itemsize != len(content):
        raise _FormatError(f"array {name} as {shape} {dtype} in {len(content)} bytes", "as many as it needs")
    # Backed by its own bytes object, the array is aligned and can never be made writable.
    array = np.ndarray(shape, dtype, buffer=content)
    _require_values(array, name)
    return array


def _npy_header(view: memoryview, name: str) -> tuple[np.dtype[np.generic], tuple[int, ...], int]:
    front = len(_NPY_MAGIC) + 2
    if bytes(view[: len(_NPY_MAGIC)]) != _NPY_MAGIC:
        raise _FormatError(f"array {name} that is no .npy of format 1.0", "as numpy.save writes it")
    size = front + int.from_bytes(view[len(_NPY_MAGIC) : front], "little")
    match = _NPY_HEADER.fullmatch(str(view[front:size], "latin-1"))
    if match is None or len(view) < size:
        raise _FormatError(f"array {name} with an unknown header", "as numpy.save writes it")
    descr, fortran, lengths = match.groups()
    if not _known(descr):
        raise _FormatError(f"array {name} of type {descr!r}", "bool, integers, floats or text up to 256, little endian")
    if fortran == "True":
        raise _FormatError(f"array {name} in Fortran order", "C order")
    shape = tuple(int(length) for length in lengths.split(",") if length)
    if len(shape) > _MAX_DIMENSIONS:
        raise _FormatError(f"array {name} of {len(shape)} dimensions", f"at most {_MAX_DIMENSIONS}")
    return np.dtype(descr), shape, size


def _known(descr: str) -> bool:
    text = _TEXT.fullmatch(descr)
    return descr in _NUMBERS or (text is not None and int(text[1]) <= _MAX_TEXT)


def _require_values(array: np.ndarray, name: str) -> None:
    """Refuse bytes that have no value in their type; numpy would trip over them later, far from their cause."""
    if array.dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        raise _FormatError(f"array {name} with a bool that is neither 0 nor 1", "0 or 1")
    if array.dtype.kind == "U":
        points = np.frombuffer(array.data.tobytes(), np.uint32) if array.size else np.zeros(0, np.uint32)
        low, high = _SURROGATES
        if np.any((points > _MAX_CODE_POINT) | ((points >= low) & (points <= high))):
            raise _FormatError(f"array {name} with a number that is no Unicode character", "text")


def _npy(name: str, array: np.ndarray) -> bytes:
    little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    descr = little.dtype.str
    if not _known(descr) or _NAME.fullmatch(name) is None or little.ndim > _MAX_DIMENSIONS:
        raise BundleError(
            subject=f"array {name!a}",
            found=f"type {array.dtype} in {array.ndim} dimensions",
            expected="a printable name; bool, integers, floats or text up to 256 characters",
            todo="convert or rename it before it is stored",
        )
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {little.shape}, }}"
    front = len(_NPY_MAGIC) + 2
    padded = text + " " * (-(front + len(text) + 1) % _NPY_ALIGNMENT) + "\n"
    return b"".join([_NPY_MAGIC, len(padded).to_bytes(2, "little"), padded.encode("ascii"), little.tobytes()])


def _require_room(name: str, size: int) -> None:
    if size >= _IN_ZIP64:
        raise BundleError(
            subject=name,
            found=f"{size} bytes of arrays",
            expected="less than 4 GiB",
            todo="store fewer or smaller cases",
        )
