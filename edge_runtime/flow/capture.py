"""Which answers are worth keeping with their samples; it keeps none, and looks at no clock."""

from collections.abc import Callable, Mapping, Sequence

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.capture import CaptureConfig
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import EXTRAPOLATING, Answer

Choose = Callable[[Answer], tuple[str, ...]]
"""Gives the reasons to keep an answer with its window, or none; among ``nth``, ``low_margin`` and ``extrapolating``."""


def make_choose(config: CaptureConfig, outputs: Sequence[Output]) -> Choose:
    """Give what looks at each answer of a line; an answer's number within its stream decides whether it is the nth.

    Raises:
        ConfigurationError: a margin for what has none: an output without flags, or a label without scores.

    """
    _require_margins(config.margin, outputs)
    every, wants_beyond = config.every, config.extrapolating
    levels = [tuple(level for flag in output.flags for level in (flag.on, flag.off)) for output in outputs]
    margins = [
        (at, config.margin[output.name], levels[at])
        for at, output in enumerate(outputs)
        if output.name in config.margin
    ]

    def choose(answer: Answer) -> tuple[str, ...]:
        why = []
        if every is not None and answer.seq % every == 0:
            why.append("nth")
        if margins and any(_is_near(answer, *margin) for margin in margins):
            why.append("low_margin")
        if wants_beyond and answer.flags & EXTRAPOLATING:
            why.append("extrapolating")
        return tuple(why)

    return choose


def _is_near(answer: Answer, at: int, margin: float, levels: Sequence[float]) -> bool:
    _, value, _, _, score = answer.outputs[at]
    if isinstance(value, float):
        return any(abs(value - level) < margin for level in levels)
    return score is not None and score < margin


def _require_margins(margins: Mapping[str, float], outputs: Sequence[Output]) -> None:
    able = [output.name for output in outputs if output.form == "label" or output.flags]
    for name in margins:
        if name not in able:
            raise ConfigurationError(
                subject="capture.margin", found=repr(name), todo="correct or remove it",
                expected=" or ".join(map(repr, able)) or "none: the bundle has no label, and no number with a flag",
            )  # fmt: skip
