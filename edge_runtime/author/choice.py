"""Which of several measured candidates ships, and which nodes are worth leaving in float; it measures nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edge_runtime.author.gate import Answered, Measured, Portability
from edge_runtime.author.graph import Graph
from edge_runtime.author.recipes import RECIPES, Calibrator, Recipe

# Medians of a busy machine are no better than this: within it two recipes are equally fast.
_EQUALLY_FAST = 1.15
# The sensitive nodes are those without which the others' squared error is at most this share of the whole.
_ERROR_LEFT = 0.25


@dataclass(slots=True)
class Candidate:
    """A recipe that could be made: its model in a session, and what the gates have said of it so far."""

    recipe: Recipe
    calibrator: Calibrator | None
    graph: Graph
    infer: Any
    answered: Answered
    measured: dict[str, Measured]
    refusals: list[str]
    distance: float
    portability: Portability | None = None
    latency: dict[int, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The recipe, and the calibrator where one took part."""
        return f"{self.recipe.name}/{self.calibrator.name}" if self.calibrator else self.recipe.name


def worthwhile(passed: Sequence[Candidate], lacks: Mapping[str, str | None]) -> list[Candidate]:
    """Those of the first precision that gains anything: int8, whose numbers are the same everywhere, before float16."""
    for precision in ("as_is", "int8", "float16"):
        found = [one for one in passed if one.recipe.precision == precision]
        gains = [one for one in found if precision == "as_is" or not lacks[one.name]]
        if gains:
            return gains
    return [one for one in passed if one.recipe.precision == "float32"]


def best(passed: Sequence[Candidate], float_latency: Mapping[int, float]) -> Candidate | None:
    """Of those equally fast as the fastest the nearest to float32; of equals the first in the list of recipes.

    What cannot overflow whatever comes in goes before what merely did not.
    """
    if not passed:
        return None
    proven = [one for one in passed if not (one.portability and one.portability.nodes_at_risk)]
    passed = proven or passed
    taken = {one.name: _relative(one.latency, float_latency) for one in passed}
    fastest = min(taken.values())
    quick = [one for one in passed if taken[one.name] <= fastest * _EQUALLY_FAST]
    order = {recipe.name: at for at, recipe in enumerate(RECIPES)}
    return min(quick, key=lambda one: (one.distance, order[one.recipe.name], one.name))


def sensitive_nodes(costs: Mapping[str, float]) -> tuple[str, ...]:
    """The nodes to leave in float: the dearest, until the others cost little; none where it would take half of them."""
    squares = {name: cost * cost for name, cost in costs.items()}
    whole = sum(squares.values())
    chosen: list[str] = []
    for name in sorted(squares, key=lambda one: (-squares[one], one)):
        if sum(squares.values()) - sum(squares[one] for one in chosen) <= _ERROR_LEFT * whole:
            break
        chosen.append(name)
    return tuple(chosen) if 0 < len(chosen) <= len(costs) / 2 else ()


def _relative(latency: Mapping[int, float], float_latency: Mapping[int, float]) -> float:
    """The geometric mean over the batch sizes of time against float32's."""
    ratios = [math.log(latency[at] / float_latency[at]) for at in latency]
    return math.exp(sum(ratios) / len(ratios))
