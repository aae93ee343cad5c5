"""Whether a bundle on trial meets what device.toml asks of it, from what was counted; it counts nothing and reads no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from edge_runtime.flow.ledger import Ledger
from edge_runtime.flow.postprocess import UNUSABLE
from edge_runtime.spec.store import TrialConfig

EARLY: Final = 20
"""From so many on, a share that is beyond its limit ends a trial before its time."""
_SLOW_SHARE: Final = 0.01
_HUNDRED: Final = 100.0


class Counts(NamedTuple):
    """What came of the lines of one bundle: samples, answers due, calls of its model and those beyond the latency limit."""

    received: int = 0
    refused: int = 0
    due: int = 0
    failed: int = 0
    calls: int = 0
    slow: int = 0

    def since(self, before: "Counts") -> "Counts":
        """What came after ``before``."""
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


def counts_of(ledgers: Sequence[Ledger], calls: int, slow: int) -> Counts:
    """Add up the lines that one bundle serves."""
    return Counts(
        received=sum(one.received for one in ledgers),
        refused=sum(one.rejected.total() for one in ledgers),
        due=sum(one.due for one in ledgers),
        failed=sum(one.refused[reason] for one in ledgers for reason in (*UNUSABLE, "inference_failed")),
        calls=calls,
        slow=slow,
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial under way: of which bundle, by what criteria, begun when (monotonic) and behind which counts."""

    digest: str
    config: TrialConfig
    begun_ns: int
    before: Counts

    def fault(self, now_ns: int, counts: Counts) -> str:
        """Which criterion is not met, with its figures; empty where none is, or too little came yet to say."""
        is_over = self._is_over(now_ns, counts)
        found = counts.since(self.before)
        shares = (
            ("answers that were none", found.failed, found.due, self.config.failed_percent),
            ("refused samples", found.refused, found.received, self.config.refused_percent),
        )
        for what, part, whole, limit in shares:
            if (is_over or whole >= EARLY) and part * _HUNDRED > limit * whole:
                return f"trial: found {part} {what} of {whole}; expected {limit:g} % at most"
        if found.slow > max(1.0, _SLOW_SHARE * found.calls):
            return f"trial: found {found.slow} of {found.calls} calls beyond the latency limit; expected 1 % at most"
        return ""

    def is_passed(self, now_ns: int, counts: Counts) -> bool:
        """Whether its time is over, something was answered, and nothing was at fault."""
        return self._is_over(now_ns, counts) and not self.fault(now_ns, counts)

    def _is_over(self, now_ns: int, counts: Counts) -> bool:
        enough = counts.since(self.before).due >= self.config.answers
        return enough and now_ns - self.begun_ns >= self.config.seconds * 1e9
