"""One CBOR item (RFC 8949) -> plain values, of the few kinds that measurements need; it writes none and follows no depth."""

from decimal import Decimal
from struct import unpack_from
from typing import Any, Final

_DEEPEST: Final = 4
"""A pack, a record in it, a decimal fraction in that; deeper nesting is an attack on the stack."""
_LARGEST_EXPONENT: Final = 400
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_SIMPLE: Final = {20: False, 21: True, 22: None}
_DECIMAL_FRACTION, _SELF_DESCRIBED = 4, 55799
_NESTED: Final = (4, 5)
_SIMPLE_OR_FLOAT = 7
_INDEFINITE, _BREAK = 31, 0xFF
_LONGEST_ARGUMENT = 27


def read_cbor(data: bytes) -> Any:
    """Read ``data``, which is one item as a whole: a number, text, bytes, truth value, None, list or dict.

    A decimal fraction (tag 4) comes as a Decimal. Memory and time are bounded by the length of ``data``.

    Raises:
        ValueError: cut short or too long; another kind, tag or key; a key twice; nested too deeply.

    """
    reader = _Reader(data)
    value = reader.item(_DEEPEST)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes after the item's end")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def item(self, depth: int) -> Any:
        major, info = divmod(self._byte(), 32)
        if major == _SIMPLE_OR_FLOAT:
            return self._simple(info)
        if info == _INDEFINITE and major in _NESTED:
            return self._list(None, depth) if major == _NESTED[0] else self._map(None, depth)
        readers = (_same, _negative, self._bytes, self._text, self._list, self._map, self._tagged)
        return readers[major](self._argument(info), depth)

    def _bytes(self, count: int, _: int) -> bytes:
        return self._take(count)

    def _text(self, count: int, _: int) -> str:
        return self._take(count).decode()

    def _simple(self, info: int) -> Any:
        if info in _FLOATS:
            size = 1 << (info - 24)
            return unpack_from(_FLOATS[info], self._take(size))[0]
        if info in _SIMPLE:
            return _SIMPLE[info]
        raise ValueError(f"simple value {info} before byte {self.at}")

    def _list(self, count: int | None, depth: int) -> list[Any]:
        values: list[Any] = []
        while not self._is_over(count, len(values), depth):
            values.append(self.item(depth - 1))
        return values

    def _map(self, count: int | None, depth: int) -> dict[int | str, Any]:
        values: dict[int | str, Any] = {}
        while not self._is_over(count, len(values), depth):
            key = self.item(0)
            if type(key) not in (int, str) or key in values:
                raise ValueError(f"the key {key!r}, which is twice there or neither number nor text")
            values[key] = self.item(depth - 1)
        return values

    def _is_over(self, count: int | None, done: int, depth: int) -> bool:
        if depth <= 0:
            raise ValueError(f"more than {_DEEPEST} levels")
        if count is not None:
            return done >= count
        if self.at < len(self._data) and self._data[self.at] == _BREAK:
            self.at += 1
            return True
        return False

    def _tagged(self, tag: int, depth: int) -> Any:
        if depth <= 0 or tag not in (_DECIMAL_FRACTION, _SELF_DESCRIBED):
            raise ValueError(f"tag {tag} before byte {self.at}")
        value = self.item(depth - 1)
        if tag == _SELF_DESCRIBED:
            return value
        if type(value) is not list or [type(one) for one in value] != [int, int] or abs(value[0]) > _LARGEST_EXPONENT:
            raise ValueError("a decimal fraction that is not [exponent, mantissa] of a double's size")
        return Decimal(value[1]).scaleb(value[0])

    def _argument(self, info: int) -> int:
        if info < 24:  # noqa: PLR2004 -- the numbers of RFC 8949, section 3
            return info
        if info > _LONGEST_ARGUMENT:
            raise ValueError(f"additional information {info} before byte {self.at}")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            raise ValueError(f"{len(self._data)} bytes, of which byte {self.at} asks for {count} more")
        taken = self._data[self.at : end]
        self.at = end
        return taken


def _same(argument: int, _: int) -> int:
    return argument


def _negative(argument: int, _: int) -> int:
    return -1 - argument
