"""What else a number out of its band may have been: for the hint in a refusal alone, it is never converted so."""

import struct

from edge_runtime.spec.units import Kind, conversion, resolve, siblings

# Of a 32-bit float whose bytes came in another order: the places its bytes are to be taken from.
_ORDERS = ((1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))
# Exchanged bytes of an ordinary number make a tiny one as a rule, and that would fit any band around zero.
_LEAST = 1e-2


def other_byte_order(number: float, a: float, b: float, low: float, high: float) -> float | None:
    """The number with its bytes in the first other order that brings ``a * x + b`` within ``low..high``; None for none.

    Registers of 16 bits hold a 32-bit float in one of four orders, and no standard says which.
    """
    try:
        packed = struct.pack(">f", number)
    except OverflowError:
        return None
    for order in _ORDERS:
        (found,) = struct.unpack(">f", bytes(packed[at] for at in order))
        if abs(found) >= _LEAST and low <= a * found + b <= high:
            return float(f"{found:.7g}")
    return None


def converted_twice(
    number: float, declared: str, a: float, b: float, low: float, high: float, kind: Kind
) -> float | None:
    """The number in ``declared`` before a conversion into that unit too many, if ``a * x + b`` then fits; else None."""
    unit = resolve(declared)
    for other in siblings(unit):
        c, d = conversion(other, unit, kind)
        found = (number - d) / c
        if (c, d) != (1.0, 0.0) and low <= a * found + b <= high:
            return float(f"{found:.7g}")
    return None
