"""The record of a search: what was tried, what was measured, why it was refused; it tries nothing itself."""

from typing import Literal

from pydantic import Field, FiniteFloat

from edge_runtime.author.demands import Accept
from edge_runtime.author.gate import Measured, Portability
from edge_runtime.spec.frozen import Frozen

_LARGE_BATCH = 64


class Trial(Frozen):
    """One recipe with one calibrator: what was measured, and why it was refused, a line each.

    ``latency_us`` is microseconds a row by batch size, on the machine that recorded it; ``distance`` the root mean
    square difference to float32's outputs, in their standard deviations.
    """

    recipe: str
    calibrator: str | None = None
    verdict: Literal["winner", "passed", "refused", "not made"]
    size_bytes: int | None = None
    measured: dict[str, Measured] = Field(default={})
    distance: FiniteFloat | None = None
    latency_us: dict[int, FiniteFloat] = Field(default={})
    portability: Portability | None = None
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The recipe, and the calibrator where one took part."""
        return f"{self.recipe}/{self.calibrator}" if self.calibrator else self.recipe


class SearchRecord(Frozen):
    """Everything of a search that a later build needs to make the same choice without measuring again."""

    trials: tuple[Trial, ...]
    winner: str | None
    ranges: str | None = None
    in_float: tuple[str, ...] = ()
    node_costs: dict[str, FiniteFloat] = Field(
        default={}, description="by node, what quantizing it alone costs; as distance"
    )
    emulated: bool = False


def table(record: SearchRecord, accept: Accept) -> list[str]:
    """The trials as lines of text, a header first."""
    form = "{:<24} {:<16} {:>8} {:>10} {:>8} {:>8} {:>8} {:>7} {:>7}  {}"
    lines = [
        form.format(
            "recipe", "calibrator", accept.metric, "loss", "mean off", "max off", "bytes", "us b1", "us b64", "verdict"
        )
    ]
    for one in record.trials:
        seen = one.measured.get(accept.output)
        times = [one.latency_us.get(size) for size in (1, _LARGE_BATCH)]
        said = one.verdict + (f": {one.refusals[0]}" if one.refusals else "")
        lines.append(
            form.format(
                one.recipe,
                one.calibrator or "-",
                *(_shown(value) for value in _figures(seen)),
                "-" if one.size_bytes is None else one.size_bytes,
                *(_shown(value) for value in times),
                said,
            )
        )
    return lines


def _figures(seen: Measured | None) -> tuple[float | None, ...]:
    if seen is None:
        return (None,) * 4
    return seen.metric, seen.loss, seen.mean_difference, seen.max_difference


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
