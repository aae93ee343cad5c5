"""Which answers of a line need not be told; it changes none, and counts none."""

from collections.abc import Callable, Sequence
from typing import Any

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import Answer, OutputValue
from edge_runtime.spec.sink import Publish

Suppress = Callable[[Answer], str | None]
"""Gives the ledger's word for why an answer is not told, or ``None`` for one that is; it remembers what it let pass."""


def make_suppress(publish: Publish, outputs: Sequence[Output]) -> Suppress | None:
    """Give what judges the answers of a line in their order; ``None`` where all are told.

    Time is the answers' own, so that a replay tells the same ones. The first answer of a stream is always told, also
    after a restart.

    Raises:
        ConfigurationError: a deadband for what is no number of the bundle.

    """
    names = [output.name for output in outputs if output.form != "label"]
    for name in publish.deadband:
        if name not in names:
            raise ConfigurationError(
                subject="publish.deadband", found=repr(name), expected=" or ".join(map(repr, names)) or "none: no numbers",
                todo="name an output of the bundle; `edge-runtime inspect BUNDLE` lists them",
            )  # fmt: skip
    if publish.when == "all":
        return None
    every_ns = None if publish.every_s is None else round(publish.every_s * 1e9)
    deadbands = [publish.deadband.get(output.name, 0.0) for output in outputs]
    is_by_time = publish.when == "every"
    told: dict[str, Answer] = {}

    def suppress(answer: Answer) -> str | None:
        last = told.get(answer.stream)
        if last is not None and (every_ns is None or answer.time_ns - last.time_ns < every_ns):
            if is_by_time:
                return "every"
            if last.flags == answer.flags and not _differ(last.outputs, answer.outputs, deadbands):
                return "unchanged"
        told[answer.stream] = answer
        return None

    return suppress


def _differ(before: Sequence[OutputValue], now: Sequence[OutputValue], deadbands: Sequence[float]) -> bool:
    return any(
        a.flags != b.flags or _is_beyond(a.value, b.value, deadband)
        for a, b, deadband in zip(before, now, deadbands, strict=True)
    )


def _is_beyond(before: Any, now: Any, deadband: float) -> bool:
    """Whether a number, or any of a vector's, is more than ``deadband`` away from the last one told."""
    if isinstance(now, str):
        return bool(before != now)
    if isinstance(now, tuple):
        return len(before) != len(now) or any(abs(a - b) > deadband for a, b in zip(before, now, strict=True))
    return bool(abs(now - before) > deadband)
