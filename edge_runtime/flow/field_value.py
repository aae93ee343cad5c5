"""Arrays out of a payload: JSON lists and packed base64 as numpy arrays of numbers; it knows no channel and no shape."""

from binascii import a2b_base64
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.spec.binding import PackedDtype

# As many as an array channel has; a payload of nothing but brackets must not be followed further.
_MOST_DIMENSIONS = 4


def row_list(raw: object) -> NDArray[np.float64] | None:
    """A JSON array of numbers, nested or not, as float64; ``None`` where there is none.

    Raises:
        ValueError: not an array, not all numbers (a null is none), rows of unequal length, or a number past float64.

    """
    if raw is None:
        return None
    _check(raw, _MOST_DIMENSIONS)
    try:
        return np.array(raw, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def packed(dtype: PackedDtype, word: Callable[[Any], str | None]) -> Callable[[Any], NDArray[Any] | None]:
    """A function from base64 (RFC 4648 section 4, padded, nothing between) to little-endian numbers; ``None`` for missing.

    ``word`` takes the text out of the raw field. The function raises ValueError for what is not base64, and where the
    bytes are no whole number of ``dtype``.
    """
    kind = np.dtype(dtype).newbyteorder("<")

    def read(raw: Any) -> NDArray[Any] | None:
        text = word(raw)
        if text is None:
            return None
        return np.frombuffer(a2b_base64(text, strict_mode=True), dtype=kind)

    return read


def _check(raw: object, dimensions: int) -> None:
    """Numbers all the way down: numpy would read true as 1, null as NaN and '5' as 5."""
    if type(raw) is not list or not dimensions:
        raise ValueError
    kinds = set(map(type, raw))
    if kinds <= {int, float}:
        return
    if kinds != {list}:
        raise ValueError
    for row in raw:
        _check(row, dimensions - 1)
