"""Tensors as bytes between two processes of ours: a small fixed header before raw buffers; it takes no pickle and no object.

A frame is ``bytes of the whole, bytes of all heads, number, kind, count``, then for each tensor a head of ``bytes, place,
dtype, dimensions`` and its sizes, in this machine's byte order, then each tensor's own bytes, from a multiple of 16 on.
``place`` is a tensor's place in the list of names that both sides know.
"""

import os
import struct
from collections.abc import Iterable
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

OPEN: Final = 1
CALL: Final = 2
DONE: Final = 3
REFUSED: Final = 4
"""Kinds of frames: two are asked, two are answered."""
OUT_OF_MEMORY: Final = "OutOfMemory"
"""What a refusal is called that is for want of memory."""
MAX_FRAME_BYTES: Final = 1 << 30
"""Of one frame: a model of the largest size that is opened, and more than any batch."""
MAX_TENSORS: Final = 256
"""Of one frame; a single system call takes 1024 buffers, two for each."""
_MAX_HEADS_BYTES: Final = 1 << 16
_MAX_DIMENSIONS: Final = 32
_FRAME: Final = struct.Struct("=QIIHH4x")
_HEAD: Final = struct.Struct("=QHBB4x")
_DTYPES: Final = frozenset("?bBhHiIlLqQefd")
_ALIGNED: Final = 16
_FIRST_BYTES: Final = 1 << 16
_LAYOUTS: Final = 64
"""How many forms of frames are remembered: one for each batch size."""
_ZEROS: Final = bytes(_ALIGNED)


class BadFrame(Exception):
    """The bytes are no frame of this program."""


class Frame(NamedTuple):
    """One frame: each tensor with its place. The tensors look into the inbox's memory until its next ``take``."""

    kind: int
    number: int
    tensors: list[tuple[int, NDArray[Any]]]


class _Layout(NamedTuple):
    """Where the tensors of a frame are: place, dtype, shape and offset of each; ``total`` is the frame's length."""

    total: int
    parts: tuple[tuple[int, np.dtype[Any], tuple[int, ...], int], ...]


class Outbox:
    """Makes frames; it keeps the heads of those it made last."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[Any, tuple[int, bytes]] = {}

    def pack(self, kind: int, number: int, tensors: Iterable[tuple[int, NDArray[Any]]]) -> tuple[int, list[Any]]:
        """The length of one frame, and the buffers that make it, to be written one after the other.

        Raises:
            ValueError: a tensor holds no plain numbers, or there are too many.

        """
        form: list[Any] = []
        buffers: list[Any] = [b""]
        for place, tensor in tensors:
            form.append((place, tensor.dtype, tensor.shape))
            buffers.append(tensor if tensor.flags.c_contiguous else np.ascontiguousarray(tensor))
            if tensor.nbytes % _ALIGNED:
                buffers.append(_ZEROS[: -tensor.nbytes % _ALIGNED])
        key = tuple(form)
        known = self._heads.get(key)
        if known is None:
            known = _heads_of(key)
            if len(self._heads) >= _LAYOUTS:
                self._heads.clear()
            self._heads[key] = known
        total, heads = known
        buffers[0] = _FRAME.pack(total, len(heads), number, kind, len(form)) + heads
        return total, buffers


def _heads_of(form: tuple[tuple[int, np.dtype[Any], tuple[int, ...]], ...]) -> tuple[int, bytes]:
    """The length of the frame, and all heads, up to where the first tensor begins."""
    if len(form) > MAX_TENSORS:
        raise ValueError(f"{len(form)} tensors; at most {MAX_TENSORS} are handed to another process")
    heads, size = b"", 0
    for place, dtype, shape in form:
        if dtype.char not in _DTYPES or not dtype.isnative:
            raise ValueError(f"a tensor of {dtype}; only plain numbers are handed to another process")
        nbytes = prod(shape) * dtype.itemsize
        heads += _HEAD.pack(nbytes, place, ord(dtype.char), len(shape)) + struct.pack(f"={len(shape)}q", *shape)
        size += nbytes + -nbytes % _ALIGNED
    heads += _ZEROS[: -(_FRAME.size + len(heads)) % _ALIGNED]
    return _FRAME.size + len(heads) + size, heads


def rest_of(buffers: list[Any], written: int) -> list[Any]:
    """What is still to be written of ``buffers``."""
    left = [memoryview(one).cast("B") if memoryview(one).nbytes else memoryview(b"") for one in buffers]
    while left and written >= len(left[0]):
        written -= len(left.pop(0))
    return [left[0][written:], *left[1:]] if left else []


class Inbox:
    """Where one frame at a time comes in, from a pipe; its memory is kept for the next."""

    __slots__ = ("_buffer", "_filled", "_layouts", "_total")

    def __init__(self) -> None:
        self._buffer = np.empty(_FIRST_BYTES, dtype=np.uint8)
        self._filled = 0
        self._total = 0
        self._layouts: dict[tuple[bytes, int], _Layout] = {}

    def take(self, pipe: int) -> bool:
        """Read once: whether a whole frame is there.

        Raises:
            EOFError: the other side has closed it.
            BadFrame: what comes is no frame.

        """
        count = os.readv(pipe, [self._buffer[self._filled :].data])
        if not count:
            raise EOFError
        self._filled += count
        if not self._total and self._filled >= _FRAME.size:
            self._total = _FRAME.unpack_from(self._buffer.data)[0]
            if not _FRAME.size <= self._total <= MAX_FRAME_BYTES:
                raise BadFrame(f"a length of {self._total} bytes")
            if self._total > len(self._buffer):
                larger = np.empty(self._total, dtype=np.uint8)
                larger[: self._filled] = self._buffer[: self._filled]
                self._buffer = larger
        if self._total and self._filled > self._total:
            raise BadFrame(f"{self._filled - self._total} bytes behind its end")
        return 0 < self._total == self._filled

    def frame(self) -> Frame:
        """The frame that is there, and room for the next.

        Raises:
            BadFrame: its parts do not add up.

        """
        self._filled = self._total = 0
        buffer = self._buffer
        total, size, number, kind, count = _FRAME.unpack_from(buffer.data)
        if size > min(_MAX_HEADS_BYTES, total - _FRAME.size):
            raise BadFrame(f"heads of {size} bytes")
        heads = buffer[_FRAME.size : _FRAME.size + size].tobytes()
        layout = self._layouts.get((heads, count))
        if layout is None:
            layout = _layout_of(heads, count)
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[heads, count] = layout
        if layout.total != total:
            raise BadFrame(f"{total} bytes, where its tensors make {layout.total}")
        return Frame(
            kind,
            number,
            [(place, np.ndarray(shape, dtype, buffer, offset)) for place, dtype, shape, offset in layout.parts],
        )

    def empty(self) -> None:
        """Give back the memory of a large frame."""
        self._buffer = np.empty(_FIRST_BYTES, dtype=np.uint8)


def _layout_of(heads: bytes, count: int) -> _Layout:
    offset, at, parts = _FRAME.size + len(heads), 0, []
    try:
        for _ in range(count):
            size, place, char, dimensions = _HEAD.unpack_from(heads, at)
            if chr(char) not in _DTYPES or dimensions > _MAX_DIMENSIONS:
                raise BadFrame(f"a tensor of type {char} with {dimensions} dimensions")
            shape = struct.unpack_from(f"={dimensions}q", heads, at + _HEAD.size)
            dtype = np.dtype(chr(char))
            if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != size:
                raise BadFrame(f"{size} bytes for a tensor of {shape}")
            parts.append((place, dtype, shape, offset))
            offset += size + -size % _ALIGNED
            at += _HEAD.size + 8 * dimensions
    except struct.error as error:
        raise BadFrame(str(error)) from error
    return _Layout(offset, tuple(parts))


def as_text(text: str) -> list[tuple[int, NDArray[Any]]]:
    """A text as the only tensor of a frame."""
    return [(0, np.frombuffer(text.encode("utf-8", "backslashreplace"), dtype=np.uint8))]


def text_of(frame: Frame) -> str:
    """The text that ``as_text`` made a tensor of. Raises BadFrame where there is none."""
    if not frame.tensors:
        raise BadFrame("no text")
    return frame.tensors[0][1].tobytes().decode("utf-8", "replace")
