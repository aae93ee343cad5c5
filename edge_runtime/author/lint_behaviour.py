"""Lints of what a model does when it is run: alone, among others, twice, against its framework; it opens no session."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.lint_finding import Finding, Rule
from edge_runtime.author.lint_ports import FIXED
from edge_runtime.errors import DeviceError

Infer = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]

BATCH = Rule(
    "batch-dependent", "error", "a case that gets another answer alone than among others",
    "something in the graph looks across the batch, as normalization in training mode does: the answer then depends "
    "on what else has arrived",
    "call model.eval() before the export; no operator may reduce over the batch axis",
)  # fmt: skip
RANDOM = Rule(
    "not-repeatable", "error", "the same cases get other answers when they are asked again",
    "it draws at random (dropout, sampling): no golden can hold, and no answer can be explained",
    "call model.eval() before the export, or take the drawing out of the graph",
)  # fmt: skip
APART = Rule(
    "reference-apart", "error", "answers that differ from those the source framework recorded, for its own tensor",
    "this is not the model that was trained and judged: another checkpoint, or one that was exported in training mode "
    "and folded",
    "export the checkpoint that answered, after model.eval(), or record its answers again",
)  # fmt: skip

RULES = (BATCH, RANDOM, APART)

_ROWS = 16
# Float kernels sum in another order for other batch sizes; that stays far below.
DEFAULT_LIMIT = 1e-4


class Evidence(NamedTuple):
    """How to run the model and what its framework answered.

    ``tensor`` is the model's input ``(cases, ...)``, ``answered`` the framework's output ``(cases, ...)``; ``limit`` is
    what two answers may differ by, as a share of the largest of them or absolutely, whichever is wider.
    """

    infer: Infer
    input: str
    tensor: NDArray[Any]
    output: str
    answered: NDArray[Any]
    limit: float = DEFAULT_LIMIT


def behaviour(evidence: Evidence, batch_sizes: tuple[int, ...]) -> Iterator[Finding]:
    """The findings of this group, over at most 16 of the cases.

    Raises:
        DeviceError: the model does not even run one case.

    """
    rows = np.unique(np.linspace(0, len(evidence.tensor) - 1, min(_ROWS, len(evidence.tensor))).round().astype(int))
    tensor = np.ascontiguousarray(evidence.tensor[rows])
    alone = np.concatenate([_run(evidence, tensor[at : at + 1]) for at in range(len(rows))])
    subject = f"output {evidence.output!r}"
    limit = evidence.limit * max(1.0, float(np.abs(evidence.answered).max(initial=0)))
    if not np.isfinite(alone).all():
        yield APART.found_at(subject, "NaN or infinite answers to the framework's own tensor")
        return
    again = np.concatenate([_run(evidence, tensor[at : at + 1]) for at in range(len(rows))])
    if not (apart := _apart(alone, again)) <= limit:
        yield RANDOM.found_at(subject, f"{apart:.3g} between two runs of the same cases")
        return  # every other comparison would only say it again
    off = _apart(alone, evidence.answered[rows])
    if batch_sizes != (1,) and len(rows) > 1:
        try:
            together = _run(evidence, tensor)
        except DeviceError as error:
            yield FIXED.found_at(subject, f"a batch of {len(rows)} fails, where one case runs ({error.found[:120]})")
            together = alone
        if not (apart := _apart(alone, together)) <= limit:
            yield BATCH.found_at(
                subject, f"{apart:.3g} between a case alone and the same among {len(rows)}; the framework's record is "
                f"{off:.3g} from the first, {_apart(together, evidence.answered[rows]):.3g} from the second"
            )  # fmt: skip
            return
    if not off <= limit:
        yield APART.found_at(subject, f"{off:.3g} from the framework's record, at most {limit:.3g} was expected")


def _run(evidence: Evidence, tensor: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(evidence.infer({evidence.input: tensor})[evidence.output])


def _apart(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference; infinite where their sizes differ, or either is not finite."""
    if ours.size != theirs.size:
        return float("inf")
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours.astype(np.float64).ravel() - theirs.astype(np.float64).ravel())
    return float(apart.max(initial=0)) if np.isfinite(apart).all() else float("inf")
