"""One answer as one flat set of numbers, texts and truth values: a line for Telegraf and InfluxDB, or for ThingsBoard."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from pydantic_core import to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import ANSWER_KEYS
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import Answer, flag_names

MEASUREMENT: Final = "edge_runtime"
_NAME: Final = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ ", "\\": "/"})
_TEXT: Final = str.maketrans({'"': r"\"", "\\": r"\\"})


def check_names(outputs: Sequence[Output]) -> None:
    """Raise ConfigurationError where two parts of an answer would have one flat name."""
    names = [name for output in outputs for name in _names(output)]
    twice = next((name for name in names if names.count(name) > 1 or name in ANSWER_KEYS), None)
    if twice is not None:
        raise ConfigurationError(
            subject="sink.encoding", found=f"two values of the answer that would both be called {twice!r}",
            expected="a bundle whose flat names are apart", todo='use encoding = "json"',
        )  # fmt: skip


def _names(output: Output) -> list[str]:
    value = f"{output.name}_0" if output.form == "vector" else output.name
    more = [f"{output.name}_score"] if output.form == "label" else []
    return [value, f"{output.name}_unit", *more, *(f"{output.name}_{flag.name}" for flag in output.flags)]


def influx_line(answer: Answer, run_id: str) -> bytes:
    """InfluxDB's line protocol, time in ns: ``edge_runtime,stream=frost low=-1.25,low_unit="Cel",seq=0i 1738105200...``.

    In a name a backslash becomes a slash: the protocol cannot say one at a name's end.
    Raises ValueError for an output that is not finite: the line refuses those before.
    """
    fields = ",".join(f"{_name(key)}={_field(value)}" for key, value in flat(answer, run_id).items())
    return f"{MEASUREMENT},stream={_name(answer.stream)} {fields} {answer.time_ns}\n".encode()


def thingsboard_line(answer: Answer, run_id: str) -> bytes:
    """ThingsBoard's telemetry of a device, time in ms: ``{"ts":1738105200000,"values":{"low":-1.25,"low_unit":"Cel",...}}``.

    Raises ValueError for an output that is not finite: the line refuses those before.
    """
    values = flat(answer, run_id) | {"stream": answer.stream}
    return to_json({"ts": answer.time_ns // 1_000_000, "values": values}) + b"\n"


def flat(answer: Answer, run_id: str) -> dict[str, str | float | int | bool]:
    """Every part of the answer but its time and stream under a name of its own.

    ``low``, ``low_unit``, ``low_frost``; ``kind_score`` of a label; ``bands_0``, ``bands_1`` of a vector; ``flags`` and
    ``stuck`` as words with commas between, only where there are any; ``seq``, ``id``, ``run``, ``age_s``; a carried
    field under ``carry_`` and its name, unless it is null or not finite.
    """
    values: dict[str, Any] = {}
    for output in answer.outputs:
        values |= dict(_output(output.name, output.value)) | {f"{output.name}_unit": output.unit}
        values |= {f"{output.name}_{name}": is_on for name, is_on in output.flags}
        if output.score is not None:
            values[f"{output.name}_score"] = output.score
    if not all(isfinite(one) for one in values.values() if type(one) is float):
        raise ValueError(f"answer {answer.id} is not finite, which no line may publish")
    words: Mapping[str, list[str]] = {"flags": flag_names(answer.flags), "stuck": list(answer.stuck)}
    values |= {name: ",".join(found) for name, found in words.items() if found}
    values |= {"seq": answer.seq, "id": answer.id, "run": run_id}
    if answer.age_ns is not None:
        values["age_s"] = answer.age_ns / 1e9
    values |= {f"carry_{name}": one for name, one in answer.carry if _is_said(one)}
    return values


def _output(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        yield from ((f"{name}_{place}", one) for place, one in enumerate(value))
    else:
        yield name, value


def _is_said(value: Any) -> bool:
    return value is not None and not (type(value) is float and not isfinite(value))


def _name(text: str) -> str:
    return _printable(text).translate(_NAME)


def _field(value: str | float | bool) -> str:  # noqa: FBT001 -- a value of the payload
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    return repr(value) if isinstance(value, float) else f'"{_printable(value).translate(_TEXT)}"'


def _printable(text: str) -> str:
    """The same without line ends and control characters: one answer is one line."""
    return text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)
