"""How often ``[plausibility]`` flags the author's own data, sample by sample as a device would; it changes no limit."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from edge_runtime.author.arrays import series
from edge_runtime.author.passes import through
from edge_runtime.flow.model import Model
from edge_runtime.flow.plausibility import Watch, WatchRule
from edge_runtime.flow.postprocess import Postprocess, Unusable
from edge_runtime.flow.window import NS, Stream, WindowRule
from edge_runtime.spec.frozen import Frozen
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.result import DRIFTED, SHIFTED, STEP

# More tells no more of a share that matters from a hundredth on.
MAX_CASES = 20_000
MOST = 0.01
_GAP = 10

Numbers = NDArray[np.float64]


class FalseAlarms(Frozen):
    """The share of answers that one flag of ``[plausibility]`` marks; None where the data cannot tell."""

    train: FiniteFloat | None = None
    test: FiniteFloat | None = None


def false_alarms(model: Model, train: Numbers, test: Numbers | None) -> dict[str, FalseAlarms] | None:
    """By flag the share of answers that carry it, None where nothing is watched.

    The data are ``(cases, samples, row)`` in contract units.

    Where there is a pace, cases that do not go on where the one before ended are told apart by a gap.
    """
    if model.manifest.plausibility is None:
        return None
    on_train = _shares(model, train[:MAX_CASES])
    on_test = {} if test is None else _shares(model, test[:MAX_CASES])
    return {name: FalseAlarms(train=share, test=on_test.get(name)) for name, share in on_train.items()}


def warnings_of(alarms: Mapping[str, FalseAlarms]) -> Iterator[str]:
    """A line for each flag that would be no news."""
    for name, one in alarms.items():
        shares = {"training": one.train, "test": one.test}
        told = [
            f"{share:.1%} of the answers to the {where} data" for where, share in shares.items() if share is not None
        ]
        if any(share is not None and share > MOST for share in shares.values()):
            yield (
                f"plausibility.{name}: flags {' and '.join(told)}; expected {MOST:.0%} at most: who sees a flag so often no "
                "longer looks; widen its limits, or leave it out"
            )


def _shares(model: Model, raw: Numbers) -> dict[str, float | None]:
    manifest = model.manifest
    asked = manifest.plausibility
    if asked is None:
        return {}
    flagged, answers = _played(manifest, raw)
    longest = max((len(part) for part in series(raw)), default=0)
    found: dict[str, float | None] = {}
    if asked.step:
        found["step"] = flagged[STEP] / answers if answers else None
    if asked.shifted:
        found["shifted"] = flagged[SHIFTED] / answers if answers and longest >= asked.shifted.samples else None
    if asked.drifted:
        samples = sum(len(part) for part in series(raw))
        found["drifted"] = flagged[DRIFTED] / answers if answers and samples >= asked.drifted.samples else None
    if asked.constant:
        found["constant"] = _constant(model, raw)
    return found


def _played(manifest: Manifest, raw: Numbers) -> tuple[dict[int, int], int]:
    """How many answers have each flag, and how many answers there are."""
    rule = WindowRule(manifest)
    stream = Stream(rule, ())
    period_ns = rule.period_ns or NS
    flagged = dict.fromkeys((STEP, SHIFTED, DRIFTED), 0)
    answers = time_ns = 0
    for part in series(raw):
        time_ns += _GAP * period_ns
        for row in part.tolist():
            time_ns += period_ns
            stream.push(time_ns, tuple(row), 0)
            if stream.is_due and stream.is_unbroken:
                answers += 1
                bits = stream.flags()
                for bit in flagged:
                    flagged[bit] += bool(bits & bit)
    return flagged, answers


def _constant(model: Model, raw: Numbers) -> float | None:
    manifest = model.manifest
    rule = WatchRule.of(manifest)
    if rule is None or not len(raw):
        return None
    watch, post = Watch(rule), Postprocess(manifest, model.variant)
    made = post.make(through(model, raw).outputs)
    flagged = 0
    for case, values in enumerate(raw):
        answered = post.answer(made, case, post.fresh)
        if not isinstance(answered, Unusable):
            flagged += bool(watch.answered(values, answered[0]))
    return flagged / len(raw)
