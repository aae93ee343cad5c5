"""The report of a boot or a self-test: what was checked, against what, and what was not; it judges nothing itself."""

from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = "edge-runtime/report/1"

Status = Literal["pass", "fail", "warn", "skip"]
Tier = Literal["required", "wanted"]
State = Literal["POWER_ON", "TESTING", "OPERATIONAL", "ERROR"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: ``measured`` against ``limit``; ``skip`` means not checked, and ``hint`` says why, never 'passed'."""

    id: str
    tier: Tier
    status: Status
    measured: str
    limit: str
    hint: str = ""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """Every check of one boot in order, and what it ran on."""

    state: State
    checks: tuple[Check, ...]
    bundle: dict[str, Any]
    environment: dict[str, str]
    changed_since_last_pass: tuple[str, ...] = ()
    started: str = ""
    ms: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    def failures(self, tiers: frozenset[Tier]) -> list[Check]:
        """The checks of these tiers that failed."""
        return [check for check in self.checks if check.status == "fail" and check.tier in tiers]
