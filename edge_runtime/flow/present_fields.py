"""Which bound fields a payload has not, and what it has instead; it is for a person, and judges no value."""

from collections.abc import Mapping

from pydantic_core import from_json

from edge_runtime.flow.decode_json import getter_of, has, like, names_in
from edge_runtime.flow.decode_senml import SenmlDecoder
from edge_runtime.flow.quoting import quote
from edge_runtime.spec.payload import Decode, JsonDecode, SenmlDecode


def absent(decode: Decode, frame: bytes, fields: Mapping[str, str]) -> list[str]:
    """For each of ``fields`` (field -> what it is for) that this payload has not, a clause with the nearest it has.

    Only where each payload names its own fields, as JSON and SenML do; elsewhere, and for what cannot be read, none.
    """
    if isinstance(decode, SenmlDecode):
        names = sorted(SenmlDecoder(decode, {}).names(frame))
        return [_absent(field, purpose, names) for field, purpose in fields.items() if names and field not in names]
    if not isinstance(decode, JsonDecode):
        return []
    try:
        row = from_json(frame.decode(decode.encoding).removeprefix("\ufeff"), cache_strings="none")
    except ValueError:
        return []
    if type(row) is not dict:
        return []
    empty = {field: purpose for field, purpose in fields.items() if getter_of(field)(row) is None}
    names = list(names_in(row))
    return [
        f"{purpose}: field {quote(field)} is null" if has(row, field) else _absent(field, purpose, names)
        for field, purpose in empty.items()
    ]


def _absent(field: str, purpose: str, names: list[str]) -> str:
    return f"{purpose}: no field {quote(field)}; {like(field, names)}"
