"""Which fields a payload has, by the names a binding can use; it reads no value and judges none."""

from collections.abc import Iterator
from itertools import islice

from pydantic_core import from_json

from edge_runtime.flow.decode_senml import SenmlDecoder
from edge_runtime.flow.quoting import nearest, quote, quote_names
from edge_runtime.spec.binding import Decode, JsonDecode, SenmlDecode

_DEEPEST = 8
_WIDEST = 64
_MOST = 512


def absent(decode: Decode, frame: bytes, fields: dict[str, str]) -> list[str]:
    """For each of ``fields`` (field -> what it is for) that this payload has not, a clause with the nearest it has.

    Only where each payload names its own fields, as JSON and SenML do; elsewhere, and for what cannot be read, none.
    """
    present = _present(decode, frame)
    if present is None:
        return []
    return [_clause(field, purpose, present) for field, purpose in fields.items() if present.get(field) is not True]


def _clause(field: str, purpose: str, present: dict[str, bool]) -> str:
    if field in present:
        return f"{purpose}: field {quote(field)} is null"
    names = [name for name in present if name.startswith("/") == field.startswith("/") or name.count("/") > 1]
    leaf = field.rpartition("/")[2].casefold()
    elsewhere = [name for name in names if name.rpartition("/")[2].casefold() == leaf]
    words = f"nearest: {quote_names(elsewhere)}" if elsewhere else nearest(field, names) or nearest(leaf, present)
    return f"{purpose}: no field {quote(field)}; " + (words or "none has a name like it")


def _present(decode: Decode, frame: bytes) -> dict[str, bool] | None:
    """Each field -> whether there is something in it."""
    if isinstance(decode, SenmlDecode):
        names = SenmlDecoder(decode, {}).names(frame)
        return dict.fromkeys(names, True) if names else None
    if not isinstance(decode, JsonDecode):
        return None
    try:
        row = from_json(frame.decode(decode.encoding).removeprefix("\ufeff"), cache_strings="none")
    except ValueError:
        return None
    if type(row) is not dict:
        return None
    plain = {name: value is not None for name, value in list(row.items())[:_WIDEST]}
    return plain | dict(islice(_pointers(row, "", _DEEPEST), _MOST))


def _pointers(node: object, path: str, depth: int) -> Iterator[tuple[str, bool]]:
    if path:
        yield path, node is not None
    if not depth:
        return
    if type(node) is dict:
        for name, inner in list(node.items())[:_WIDEST]:
            yield from _pointers(inner, f"{path}/{name.replace('~', '~0').replace('/', '~1')}", depth - 1)
    elif type(node) is list:
        for place, inner in enumerate(node[:_WIDEST]):
            yield from _pointers(inner, f"{path}/{place}", depth - 1)
