"""Answers and the births before them as payloads of Sparkplug B 3.0; it counts no message and sends none."""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any, Final

from pydantic_core import to_json

from edge_runtime.flow.protobuf import bytes_field, double_field, varint_field
from edge_runtime.flow.sparkplug import BD_SEQ, REBIRTH
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import Answer, flag_names

UNIT: Final = "engUnit"
_INT64, _DOUBLE, _BOOLEAN, _STRING, _DOUBLES = 4, 10, 11, 12, 30
_FORMS: Final = {"number": _DOUBLE, "label": _STRING, "vector": _DOUBLES}
_ALWAYS: Final = (("flags", _STRING, ""), ("stream", _STRING, ""), ("seq", _INT64, ""), ("id", _STRING, ""))

Shape = tuple[tuple[str, int, str], ...]
"""Every metric of a device: its name, its data type, and its unit, which may be empty."""


def shape_of(outputs: Sequence[Output]) -> Shape:
    """What a bundle's answers have: ``low``, ``low/frost`` for a flag, ``kind/score`` of a label, and four of every answer."""
    metrics: list[tuple[str, int, str]] = []
    for output in outputs:
        metrics.append((output.name, _FORMS[output.form], "" if output.form == "label" else output.unit))
        if output.form == "label":
            metrics.append((f"{output.name}/score", _DOUBLE, ""))
        metrics += [(f"{output.name}/{flag.name}", _BOOLEAN, "") for flag in output.flags]
    return (*metrics, *_ALWAYS)


def fits(shape: Shape, values: Mapping[str, Any]) -> bool:
    """Whether these are values of such a device: answers of a bundle that was replaced may be of another."""
    types = {name: datatype for name, datatype, _ in shape}
    return all(name in types and (value is None or _is_a(types[name], value)) for name, value in values.items())


def _is_a(datatype: int, value: Any) -> bool:
    if datatype in (_STRING, _BOOLEAN):
        return isinstance(value, str if datatype == _STRING else bool)
    return isinstance(value, list if datatype == _DOUBLES else int | float) and not isinstance(value, bool)


def answer_line(answer: Answer) -> bytes:
    """An answer's stream, time and metrics as a line of JSON, as an outbox keeps it until there is a node to send it."""
    values: dict[str, Any] = {}
    for name, value, _, switches, score in answer.outputs:
        values[name] = value
        values |= {f"{name}/{flag}": is_on for flag, is_on in switches}
        if score is not None:
            values[f"{name}/score"] = score
    values |= {"flags": ",".join(flag_names(answer.flags)), "stream": answer.stream, "seq": answer.seq, "id": answer.id}
    return to_json([answer.stream, answer.time_ns // 1_000_000, values]) + b"\n"


def metrics_of(
    shape: Shape, values: Mapping[str, Any], time_ms: int, *, birth: bool, historical: bool = False
) -> bytes:
    """The metrics of one payload. A birth names types and units, and says null of what has no value yet."""
    written = []
    for name, datatype, unit in shape:
        value = values.get(name)
        if value is None and not birth:
            continue
        metric = bytes_field(1, name) + varint_field(3, time_ms)
        if birth:
            metric += varint_field(4, datatype) + (_properties(unit) if unit else b"")
        if historical:
            metric += varint_field(5, 1)
        written.append(bytes_field(2, metric + (varint_field(7, 1) if value is None else _value(datatype, value))))
    return b"".join(written)


def node_metrics(bd_seq: int, run_id: str, time_ms: int) -> bytes:
    """What a node is born with: the number of its connection, the command that it takes, and which run it is."""
    shape = ((BD_SEQ, _INT64, ""), (REBIRTH, _BOOLEAN, ""), ("Properties/run", _STRING, ""))
    values = {BD_SEQ: bd_seq, REBIRTH: False, "Properties/run": run_id}
    return metrics_of(shape, values, time_ms, birth=True)


def death(bd_seq: int, time_ms: int) -> bytes:
    """The payload of an NDEATH, which has no place in the count."""
    return stamped(metrics_of(((BD_SEQ, _INT64, ""),), {BD_SEQ: bd_seq}, time_ms, birth=True), time_ms)


def stamped(metrics: bytes, time_ms: int, seq: int | None = None) -> bytes:
    """A whole payload."""
    return varint_field(1, time_ms) + metrics + (b"" if seq is None else varint_field(3, seq))


def _properties(unit: str) -> bytes:
    value = varint_field(1, _STRING) + bytes_field(8, unit)
    return bytes_field(9, bytes_field(1, UNIT) + bytes_field(2, value))


def _value(datatype: int, value: Any) -> bytes:
    if datatype == _DOUBLE:
        return double_field(13, value)
    if datatype == _STRING:
        return bytes_field(15, str(value))
    if datatype == _DOUBLES:
        return bytes_field(16, pack(f"<{len(value)}d", *value))
    return varint_field(14 if datatype == _BOOLEAN else 11, int(value))
