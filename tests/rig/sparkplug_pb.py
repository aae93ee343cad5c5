"""Sparkplug B through Google's own protobuf, from the field numbers of the published schema: nothing of ours reads or writes."""

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_KINDS = {
    "uint32": 13, "uint64": 4, "float": 2, "double": 1, "bool": 8, "string": 9, "bytes": 12,
}  # fmt: skip
# Message -> (field, number, kind or message, repeated, in the oneof "value").
_SCHEMA: dict[str, list[tuple[str, int, str, bool, bool]]] = {
    "PropertyValue": [
        ("type", 1, "uint32", False, False), ("is_null", 2, "bool", False, False),
        ("int_value", 3, "uint32", False, True), ("long_value", 4, "uint64", False, True),
        ("float_value", 5, "float", False, True), ("double_value", 6, "double", False, True),
        ("boolean_value", 7, "bool", False, True), ("string_value", 8, "string", False, True),
    ],
    "PropertySet": [("keys", 1, "string", True, False), ("values", 2, "PropertyValue", True, False)],
    "Metric": [
        ("name", 1, "string", False, False), ("alias", 2, "uint64", False, False), ("timestamp", 3, "uint64", False, False),
        ("datatype", 4, "uint32", False, False), ("is_historical", 5, "bool", False, False),
        ("is_transient", 6, "bool", False, False), ("is_null", 7, "bool", False, False),
        ("properties", 9, "PropertySet", False, False),
        ("int_value", 10, "uint32", False, True), ("long_value", 11, "uint64", False, True),
        ("float_value", 12, "float", False, True), ("double_value", 13, "double", False, True),
        ("boolean_value", 14, "bool", False, True), ("string_value", 15, "string", False, True),
        ("bytes_value", 16, "bytes", False, True),
    ],
    "Payload": [
        ("timestamp", 1, "uint64", False, False), ("metrics", 2, "Metric", True, False), ("seq", 3, "uint64", False, False),
        ("uuid", 4, "string", False, False), ("body", 5, "bytes", False, False),
    ],
}  # fmt: skip
INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT, DOUBLE, BOOLEAN, STRING, DATETIME = range(1, 14)
_FIELD_OF = {
    INT8: "int_value", INT16: "int_value", INT32: "int_value", INT64: "long_value", UINT8: "int_value",
    UINT16: "int_value", UINT32: "int_value", UINT64: "long_value", FLOAT: "float_value", DOUBLE: "double_value",
    BOOLEAN: "boolean_value", STRING: "string_value", DATETIME: "long_value",
}  # fmt: skip


def _made() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="sparkplug_test.proto", package="sp", syntax="proto2")
    for message, fields in _SCHEMA.items():
        made = file.message_type.add(name=message)
        if any(one[4] for one in fields):
            made.oneof_decl.add(name="value")
        for name, number, kind, is_repeated, is_value in fields:
            field = made.field.add(name=name, number=number, label=3 if is_repeated else 1, type=_KINDS.get(kind, 11))
            if kind not in _KINDS:
                field.type_name = f".sp.{kind}"
            if is_value:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sp.Payload"))


Payload = _made()


def metric(
    value: Any = None,
    datatype: int = DOUBLE,
    *,
    name: str | None = None,
    alias: int | None = None,
    at: int | None = None,
    tell_type: bool = True,
    quality: int | None = None,
    unit: str | None = None,
    historical: bool = False,
) -> dict[str, Any]:
    """The keywords of one metric; ``value`` None is null, ``at`` its time in ms."""
    made: dict[str, Any] = {"name": name, "alias": alias, "timestamp": at, "is_historical": historical or None}
    if tell_type:
        made["datatype"] = datatype
    if value is None:
        made["is_null"] = True
    else:
        bits = 64 if datatype == INT64 else 32
        made[_FIELD_OF[datatype]] = value % (1 << bits) if datatype <= INT64 else value
    properties: list[tuple[str, dict[str, Any]]] = []
    if quality is not None:
        properties.append(("Quality", {"type": INT32, "int_value": quality}))
    if unit is not None:
        properties.append(("engUnit", {"type": STRING, "string_value": unit}))
    if properties:
        made["properties"] = {"keys": [key for key, _ in properties], "values": [one for _, one in properties]}
    return {key: one for key, one in made.items() if one is not None}


def payload(metrics: Sequence[dict[str, Any]] = (), *, seq: int | None = None, at: int | None = None) -> bytes:
    """One payload, written by protobuf."""
    made = Payload(metrics=[*metrics])
    if seq is not None:
        made.seq = seq
    if at is not None:
        made.timestamp = at
    return bytes(made.SerializeToString())


def parsed(data: bytes) -> Any:
    """One payload, read by protobuf."""
    made = Payload()
    made.ParseFromString(data)
    return made
