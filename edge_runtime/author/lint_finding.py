"""What a lint says and how an author answers it: rules, findings, waivers in writing; it looks at no model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from edge_runtime.errors import ConfigurationError

Severity = Literal["error", "warning"]
MIN_REASON_CHARACTERS = 20

Waive = dict[str, Annotated[str, Field(min_length=MIN_REASON_CHARACTERS)]]
"""The contract's ``[waive]``: by the id of a finding the reason why its author lives with it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a model or its contract, told to the person who made it.

    ``subject`` names the node, tensor or channel, ``found`` what is there, ``why`` how it breaks in the field, ``fix``
    what to do.
    """

    id: str
    severity: Severity
    subject: str
    found: str
    why: str
    fix: str

    def __str__(self) -> str:
        return " ".join(f"{self.subject}: {self.found} [{self.id}]; {self.why}; {self.fix}".split())


@dataclass(frozen=True, slots=True)
class Rule:
    """What one lint looks for; ``found_at`` makes its findings."""

    id: str
    severity: Severity
    what: str
    why: str
    fix: str

    def found_at(self, subject: str, found: str) -> Finding:
        """The finding of this rule at one place."""
        return Finding(self.id, self.severity, subject, found, self.why, self.fix)


class Waived(NamedTuple):
    """An error the author lives with, and the reason given."""

    finding: Finding
    reason: str

    def __str__(self) -> str:
        return f"waived: {self.finding.subject}: {self.finding.found} [{self.finding.id}]; reason: {self.reason}"


class Verdict(NamedTuple):
    """Findings after the waivers: ``errors`` keep the bundle from being built, the others are reported."""

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    waived: tuple[Waived, ...]
    unused: tuple[str, ...]


def judge(findings: Iterable[Finding], waive: Mapping[str, str], known: Iterable[str], subject: str) -> Verdict:
    """Sort findings by what they do to the build.

    ``waive`` is the contract's table, ``known`` the ids of every rule there is, ``subject`` the contract's path.
    ``unused`` are waivers of things that were not found: the reason no longer has a fact under it.

    Raises:
        ConfigurationError: a waiver of an unknown id, or a reason shorter than ``MIN_REASON_CHARACTERS``.

    """
    _require_sound(waive, sorted(known), subject)
    told = tuple(findings)
    open_ = [finding for finding in told if finding.id not in waive]
    return Verdict(
        errors=tuple(finding for finding in open_ if finding.severity == "error"),
        warnings=tuple(finding for finding in open_ if finding.severity == "warning"),
        waived=tuple(Waived(finding, waive[finding.id].strip()) for finding in told if finding.id in waive),
        unused=tuple(sorted(waive.keys() - {finding.id for finding in told})),
    )


def _require_sound(waive: Mapping[str, str], known: list[str], subject: str) -> None:
    for name, reason in waive.items():
        if name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0.5)
            raise ConfigurationError(
                subject=f"{subject}, waive.{name[:40]}", found="an unknown id",
                expected=f"{nearest[0]!r} perhaps" if nearest else f"one of {', '.join(known)}",
                todo="correct or remove it; docs/lint.md lists every id",
            )  # fmt: skip
        if len(reason.strip()) < MIN_REASON_CHARACTERS:
            raise ConfigurationError(
                subject=f"{subject}, waive.{name}", found=repr(reason[:MIN_REASON_CHARACTERS]),
                expected=f"a reason of {MIN_REASON_CHARACTERS} characters or more",
                todo="say why this cannot hurt where the model will serve",
            )  # fmt: skip
