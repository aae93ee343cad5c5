"""One answer as one JSON line, in the default shape or as device.toml maps it; it writes nothing anywhere."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import isfinite
from operator import itemgetter
from typing import Any

from pydantic_core import to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.encode_flat import check_names, influx_line, thingsboard_line
from edge_runtime.flow.utc_time import utc_text
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import Answer, flag_names
from edge_runtime.spec.sink import Sink, SparkplugDevice

Encode = Callable[[Answer], bytes]

ALWAYS = ("time", "stream", "seq", "id", "flags", "run")
SOMETIMES = ("stuck", "age_s", "carry")
"""Keys that stand in an answer only where it has them; under a map they are null then."""

_flag_list = cache(flag_names)  # 524288 sets of bits at most, and few of them ever come


def make_encoder(sink: Sink, run_id: str, outputs: Sequence[Output], carry: Sequence[str] = ()) -> Encode:
    """A function from an answer to its line, newline included; ``outputs`` are the manifest's, ``carry`` the binding's.

    The default shape::

        {"time":"2025-01-28T23:00:00Z","stream":"","seq":0,"id":"...",
         "low":{"value":-1.25,"unit":"Cel","frost":true},"flags":["converted"],"run":"..."}

    in JSON, with ``stuck`` (channels), ``age_s`` and ``carry`` before ``run`` where there are any. A value is written so that it
    reads back as the same float64; a carried NaN or infinity becomes null. The function raises ValueError for an
    output that is not finite: the line refuses those before.

    Raises:
        ConfigurationError: a pointer of ``sink.map`` can match no answer; two parts of an answer have one flat name.

    """
    if isinstance(sink, SparkplugDevice):
        from edge_runtime.flow.encode_sparkplug import answer_line  # noqa: PLC0415 -- for who has such hosts

        return answer_line
    if sink.encoding != "json":
        check_names(outputs)
        write = influx_line if sink.encoding == "influx" else thingsboard_line
        return lambda answer: write(answer, run_id)
    if sink.map is None:
        return _shape_encoder(run_id)
    return _map_encoder(run_id, sink.map, _known_pointers(outputs, carry))


def _shape_encoder(run_id: str) -> Encode:
    def encode(answer: Answer) -> bytes:
        return to_json(_shape(answer, run_id), inf_nan_mode="null") + b"\n"

    return encode


def _map_encoder(run_id: str, pointers: Mapping[str, str], known: Mapping[str, tuple[str, ...]]) -> Encode:
    getters = [(name, _getter(name, pointer, known)) for name, pointer in pointers.items()]

    def encode(answer: Answer) -> bytes:
        shape = _shape(answer, run_id)
        return to_json({name: get(shape) for name, get in getters}, inf_nan_mode="null") + b"\n"

    return encode


def _shape(answer: Answer, run_id: str) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "time": utc_text(answer.time_ns),
        "stream": answer.stream,
        "seq": answer.seq,
        "id": answer.id,
    }
    for name, value, unit, switches, score in answer.outputs:
        if not (isfinite(value) if type(value) is float else _is_finite(value, score)):
            raise ValueError(f"answer {answer.id}: output {name} is {value}, which no line may publish")
        shape[name] = {"value": value, "unit": unit, **dict(switches)} if switches else {"value": value, "unit": unit}
        if score is not None:
            shape[name]["score"] = score
    shape["flags"] = _flag_list(answer.flags)
    if answer.stuck:
        shape["stuck"] = answer.stuck
    if answer.age_ns is not None:
        shape["age_s"] = answer.age_ns / 1e9
    if answer.carry:
        shape["carry"] = dict(answer.carry)
    shape["run"] = run_id
    return shape


def _is_finite(value: Any, score: float | None) -> bool:
    """Whether a vector, or a label's score, has finite numbers only."""
    numbers = value if type(value) is tuple else (score,)
    return all(isfinite(one) for one in numbers if type(one) is float)


def _known_pointers(outputs: Sequence[Output], carry: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Every pointer that can match, with its steps. A place in a list is none: which flag stands there changes."""
    steps: list[tuple[str, ...]] = [(key,) for key in ALWAYS + SOMETIMES]
    for output in outputs:
        steps += [(output.name,), (output.name, "value"), (output.name, "unit")]
        steps += [(output.name, "score")] if output.form == "label" else []
        steps += [(output.name, flag.name) for flag in output.flags]
    steps += [("carry", name) for name in carry]
    return {"".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path): path for path in steps}


def _getter(name: str, pointer: str, known: Mapping[str, tuple[str, ...]]) -> Callable[[dict[str, Any]], Any]:
    steps = known.get(pointer)
    if steps is None:
        from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

        near = get_close_matches(pointer, known, n=3, cutoff=0.5)
        listed = near or [each for each in known if each.count("/") == 1]
        raise ConfigurationError(
            subject=f"sink.map, {name}", found=repr(pointer), expected=" or ".join(map(repr, listed)),
            todo="correct the pointer; `edge-runtime inspect BUNDLE` lists the outputs and their flags",
        )  # fmt: skip
    if len(steps) == 2:  # noqa: PLR2004 -- the shape is two deep
        outer, inner = steps
        return lambda shape: shape.get(outer, _NOTHING).get(inner)
    key = steps[0]
    return itemgetter(key) if key not in SOMETIMES else lambda shape: shape.get(key)


_NOTHING: Mapping[str, Any] = {}
