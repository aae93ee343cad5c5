"""The report of a boot or a self-test: what was checked, against what, and what was not; it judges nothing itself."""

from dataclasses import dataclass, field
from typing import Any, Literal

# Why a check was skipped that would have run otherwise: then a skip is as little a pass as a failure.
LEFT_OUT = "what it needs failed above"

Status = Literal["pass", "fail", "warn", "skip"]
Tier = Literal["required", "wanted"]
State = Literal["POWER_ON", "TESTING", "OPERATIONAL", "QUARANTINED", "ERROR"]
BOTH_TIERS: frozenset[Tier] = frozenset({"required", "wanted"})
REQUIRED: frozenset[Tier] = frozenset(("required",))


@dataclass(frozen=True, slots=True)
class Check:
    """One check: ``measured`` against ``limit``; ``skip`` means not checked, and ``hint`` says why, never 'passed'.

    ``code`` is the exit code a failure stands for (docs/exit_codes.md), 0 where nothing failed.
    """

    id: str
    tier: Tier
    status: Status
    measured: str
    limit: str
    hint: str = ""
    ms: float = 0.0
    code: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Every check of one boot in order, and what it ran on.

    ``environment`` holds what the numbers may depend on, by name; ``changed_since_last_pass`` what of it differs, in
    words, and is None where no earlier pass of this bundle is known. ``facts`` are the versions, the profile, the
    kernel's boot id, per line the conversions of its channels, and as ``machine`` how hot and slowed down it was.
    ``ms`` is milliseconds, ``started`` ISO 8601 UTC.
    ``injected`` names the check whose input was corrupted on purpose (``--inject``): the report is then a drill's.
    """

    state: State
    checks: tuple[Check, ...]
    bundle: dict[str, Any]
    environment: dict[str, str]
    changed_since_last_pass: tuple[str, ...] | None = None
    started: str = ""
    ms: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    injected: str | None = None

    def failures(self, tiers: frozenset[Tier] = BOTH_TIERS) -> list[Check]:
        """The checks of these tiers that failed."""
        return [check for check in self.checks if check.status == "fail" and check.tier in tiers]

    def passed(self, tiers: frozenset[Tier] = BOTH_TIERS) -> bool:
        """Whether no check of these tiers failed and none was left out because another failed."""
        left_out = (check.status == "skip" and check.hint == LEFT_OUT for check in self.checks if check.tier in tiers)
        return not self.failures(tiers) and not any(left_out)
