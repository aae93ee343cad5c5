"""A file of numbers that a payload only names: raw, .npy, PGM or PPM by its first bytes; it opens none and unpacks none."""

import re
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.quoting import quote
from edge_runtime.spec.binding import PackedDtype

MOST_HEADER_BYTES = 4096
"""What may stand before the numbers: the header of a .npy, or of a PGM with the comments of a camera."""

_NPY_MAGIC = b"\x93NUMPY"
_NPY_FRONT = len(_NPY_MAGIC) + 4
_NPY_HEADER = re.compile(
    rb"\{'descr': '([^'\\]{1,40})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,9},|[0-9]{1,9}(?:, [0-9]{1,9}){1,3})?)\), \} *\n"
)
# Netpbm's pgm(5) and ppm(5): a comment may stand wherever white space may, but one white-space byte ends the header.
_GAP = rb"(?:[ \t\r\n]|#[^\r\n]*[\r\n])+"
_PNM_HEADER = re.compile(
    rb"P([56])" + _GAP + rb"([0-9]{1,9})" + _GAP + rb"([0-9]{1,9})" + _GAP + rb"([0-9]{1,9})[ \t\r\n]"
)
_PNM_NUMBERS = {255: "uint8", 65535: "uint16"}
_BINARY_PNM = re.compile(rb"P[56][ \t\r\n#]")
_OTHER_PNM = re.compile(rb"P[12347][ \t\r\n#]")
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_JPEG_MAGIC = re.compile(rb"\xff\xd8\xff[\xc0-\xfe]")
_CONVERT = "convert it to a binary PGM or PPM before it is named, e.g. let the camera's program write that"


class FileRefused(ValueError):
    """Why a named file gives no numbers, in a Rejection's words; it never leaves the decoder."""

    def __init__(
        self, found: str, expected: str, todo: str = "", reason: str = "not_a_number", subject: str = ""
    ) -> None:
        """``reason`` is missing_field where there is no such file; ``subject`` is the payload's field, once known."""
        super().__init__(found)
        self.subject = subject
        self.reason, self.found, self.expected, self.todo = reason, found, expected, todo


class NumberFiles(NamedTuple):
    """The files of one channel: ``read_file`` gives a name's bytes or raises FileRefused; ``shape`` is the channel's."""

    read_file: Callable[[str], bytes]
    shape: tuple[int, ...]


def most_bytes(dtype: PackedDtype, shape: tuple[int, ...]) -> int:
    """How large a file of an array of ``shape`` can be, whatever its format."""
    return np.dtype(dtype).itemsize * prod(shape) + MOST_HEADER_BYTES


def named_file(
    subject: str, dtype: PackedDtype, files: NumberFiles, word: Callable[[Any], str | None]
) -> Callable[[Any], NDArray[Any] | None]:
    """A function from a payload's file name to the array of ``files.shape`` in it; ``None`` where no file is named.

    ``word`` takes the name out of the raw field. The function raises nothing but FileRefused, which names ``subject`` and the file.
    """

    def read(raw: Any) -> NDArray[Any] | None:
        try:
            name = word(raw)
        except ValueError as error:
            raise FileRefused(quote(raw), "the name of a file", subject=subject) from error
        if name is None:
            return None
        try:
            return file_numbers(files.read_file(name), dtype, files.shape)
        except FileRefused as refused:
            found = f"file {quote(name)}: {refused.found}"
            raise FileRefused(found, refused.expected, refused.todo, refused.reason, subject) from refused

    return read


def file_numbers(data: bytes, dtype: PackedDtype, shape: tuple[int, ...]) -> NDArray[Any]:
    """Every number of a whole file, as an array of ``shape``; raises FileRefused for any other size, type or order.

    Raw numbers are little-endian and row by row. A .npy is of format 1.0, as `numpy.save` writes it, in C order, flat or
    of ``shape``. A PGM or PPM is binary with a largest value of 255 for uint8 or 65535, big-endian, for uint16; its shape
    is (height, width) or (height, width, 3). A length of 1 in either shape is as good as none.
    """
    if data.startswith(_NPY_MAGIC):
        return _npy(data, dtype, shape)
    if _BINARY_PNM.match(data) is not None:
        return _pnm(data, dtype, shape)
    _refuse_other_pictures(data)
    return _numbers(data, 0, np.dtype(dtype).newbyteorder("<"), shape)


def _npy(data: bytes, dtype: PackedDtype, shape: tuple[int, ...]) -> NDArray[Any]:
    kind = np.dtype(dtype).newbyteorder("<")
    end = _NPY_FRONT + int.from_bytes(data[_NPY_FRONT - 2 : _NPY_FRONT], "little")
    match = _NPY_HEADER.fullmatch(data[_NPY_FRONT:end])
    if data[len(_NPY_MAGIC) : _NPY_FRONT - 2] != b"\x01\x00" or match is None or end > MOST_HEADER_BYTES:
        raise FileRefused("a .npy with an unknown header", ".npy of format 1.0, as numpy.save writes it")
    descr, fortran, lengths = match.groups()
    if descr != kind.str.encode():
        raise FileRefused(f"a .npy of type {quote(descr.decode('latin-1'))}", f"{kind.str!r}, as its dtype is {dtype}")
    if fortran == b"True":
        raise FileRefused("a .npy in Fortran order", "C order", "save numpy.ascontiguousarray of it")
    stated = tuple(int(length) for length in lengths.split(b",") if length)
    _require_shape(stated, shape)
    return _numbers(data, end, kind, shape)


def _pnm(data: bytes, dtype: PackedDtype, shape: tuple[int, ...]) -> NDArray[Any]:
    match = _PNM_HEADER.match(data, 0, MOST_HEADER_BYTES)
    if match is None:
        raise FileRefused("a PGM or PPM with a broken header", "width, height and largest value behind P5 or P6")
    magic, width, height, largest = (int(group) for group in match.groups())
    if _PNM_NUMBERS.get(largest) != dtype:
        known = {"uint8": "255", "uint16": "65535"}.get(dtype, "none: a PGM or PPM holds uint8 or uint16")
        raise FileRefused(f"a PGM or PPM with the largest value {largest}", f"{known}, as its dtype is {dtype}")
    _require_shape((height, width) if magic == 5 else (height, width, 3), shape)  # noqa: PLR2004 (P5 is grey, P6 colour)
    return _numbers(data, match.end(), np.dtype(dtype).newbyteorder(">"), shape)


def _refuse_other_pictures(data: bytes) -> None:
    kind = ""
    if data.startswith(_PNG_MAGIC):
        kind = "PNG"
    elif _JPEG_MAGIC.match(data) is not None:
        kind = "JPEG"
    elif _OTHER_PNM.match(data) is not None:
        kind = f"Netpbm picture of kind {data[:2].decode()}"
    if kind:
        raise FileRefused(f"a {kind}", "raw numbers, .npy, or binary PGM or PPM (P5, P6)", _CONVERT)


def _require_shape(stated: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Refuse a picture that lies the other way round, though it has as many numbers; a .npy may also be flat."""
    if stated == (prod(shape),):
        return
    if [length for length in stated if length != 1] != [length for length in shape if length != 1]:
        raise FileRefused(f"numbers of shape {stated}", f"shape {shape}")


def _numbers(data: bytes, start: int, kind: "np.dtype[Any]", shape: tuple[int, ...]) -> NDArray[Any]:
    size = kind.itemsize * prod(shape)
    if len(data) - start != size:
        todo = "let the sender write the file under another name, rename it, and only then name it"
        raise FileRefused(
            f"{len(data) - start} bytes of numbers", f"{size} for shape {shape} of {kind.name}",
            todo if len(data) - start < size else "correct the dtype, or what the sender writes",
        )  # fmt: skip
    return np.frombuffer(data, dtype=kind, offset=start).reshape(shape)
