"""The two ledgers of a line: they count by reason, and say at any moment whether they add up."""

from collections import Counter
from collections.abc import Mapping
from typing import Any


class Ledger:
    """Samples: received = accepted + rejected + duplicate + updates + dropped + pending.

    Answers: due = published + refused + suppressed + dropped + pending. Rejected, refused, suppressed and dropped are
    counted by reason; updates are messages that made no sample but brought a value for a later one; suppressed are
    those that device.toml asks not to tell, which is no loss as a dropped one is; pending is counted by whoever holds
    the pending ones, never derived from the others: that is what makes the sums a check.
    """

    __slots__ = ("accepted", "answers_dropped", "due", "duplicate", "published", "received", "refused", "rejected",
                 "samples_dropped", "suppressed", "updates")  # fmt: skip

    def __init__(self) -> None:
        self.received = self.accepted = self.duplicate = self.updates = 0
        self.due = self.published = 0
        self.rejected: Counter[str] = Counter()
        self.samples_dropped: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.suppressed: Counter[str] = Counter()
        self.answers_dropped: Counter[str] = Counter()

    def adds_up(self, *, pending_samples: int, pending_answers: int) -> bool:
        """Whether both sums hold with what is pending right now."""
        samples = self.accepted + self.rejected.total() + self.duplicate + self.updates
        samples += self.samples_dropped.total()
        answers = self.published + self.refused.total() + self.suppressed.total() + self.answers_dropped.total()
        return self.received == samples + pending_samples and self.due == answers + pending_answers

    def as_dict(self) -> dict[str, Any]:
        """Every term, as JSON can hold it."""
        return {
            "samples": {
                "received": self.received,
                "accepted": self.accepted,
                "duplicate": self.duplicate,
                # Most lines hold no value from one message to the next, and have no such term.
                **({"updates": self.updates} if self.updates else {}),
                "rejected": _sorted(self.rejected),
                "dropped": _sorted(self.samples_dropped),
            },
            "answers": {
                "due": self.due,
                "published": self.published,
                "refused": _sorted(self.refused),
                "suppressed": _sorted(self.suppressed),
                "dropped": _sorted(self.answers_dropped),
            },
        }

    def since(self, earlier: Mapping[str, Any]) -> "Ledger":
        """What was counted after ``as_dict`` gave ``earlier``; answers that were pending then may be published in it."""
        before, after = Ledger(), Ledger()
        before.restore(earlier)
        for name in self.__slots__:
            setattr(after, name, getattr(self, name) - getattr(before, name))
        return after

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what ``as_dict`` gave."""
        samples, answers = saved["samples"], saved["answers"]
        self.received, self.accepted, self.duplicate = samples["received"], samples["accepted"], samples["duplicate"]
        self.updates = samples.get("updates", 0)
        self.rejected = Counter(samples["rejected"])
        self.samples_dropped = Counter(samples["dropped"])
        self.due, self.published = answers["due"], answers["published"]
        self.refused = Counter(answers["refused"])
        self.suppressed = Counter(answers.get("suppressed", {}))  # a journal of an earlier release has none
        self.answers_dropped = Counter(answers["dropped"])


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items())) if counts else {}
