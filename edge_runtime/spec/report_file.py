"""The report of a self-test as other programs read it, one schema wherever it appears; it measures nothing."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from edge_runtime.spec.machine_state import MachineState
from edge_runtime.spec.report import Report, State, Status, Tier

SCHEMA: Literal["edge-runtime/report/1"] = "edge-runtime/report/1"
_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CheckFile(BaseModel):
    """One check: what was measured, and the limit it was held against."""

    model_config = _FROZEN

    id: str = Field(description="the check's name, as docs/selftest.md lists them")
    tier: Tier = Field(description="required: the bundle may not serve without it; wanted: it may")
    status: Status = Field(description="skip means not checked, which is never a pass; hint says why")
    measured: str
    limit: str
    hint: str = Field(description="what to do about a failure, or why it was not checked")
    ms: FiniteFloat = Field(description="milliseconds it took")


class BundleFile(BaseModel):
    """The bundle that was booted; what could not be read of it is null."""

    model_config = _FROZEN

    path: str
    id: str | None
    version: str | None
    security_version: int | None
    digest: str | None = Field(description="SHA-256 of SHA256SUMS, 64 hex digits")
    limits: str | None = Field(description="what its author says the numbers must not be taken for")


class BootFile(BaseModel):
    """One boot of one bundle."""

    model_config = _FROZEN

    status: Literal["pass", "fail"] = Field(description="over the tiers that count")
    state: State = Field(description="OPERATIONAL: it may serve; ERROR: it may not")
    started: str = Field(description="ISO 8601, UTC")
    duration_ms: FiniteFloat
    bundle: BundleFile
    runtime: str = Field(description="version of edge-runtime")
    onnxruntime: str = Field(description="its version, or none")
    profile: str
    provider: str
    boot_id: str | None = Field(description="the kernel's, new at each start of the machine")
    environment: dict[str, str] = Field(description="everything the numbers may depend on, by name")
    changed_since_last_pass: tuple[str, ...] | None = Field(
        description="what of the environment differs, in words; null: no earlier pass of this bundle is known"
    )
    conversions: dict[str, tuple[str, ...]] = Field(description="by line, what happens to each channel's number")
    machine: MachineState | None = Field(
        default=None,
        description="how hot and slowed down the machine was at the end of the boot; null: it tells nothing of it",
    )
    injected: str | None = Field(
        default=None, description="a drill: the check whose input --inject corrupted; says nothing about the bundle"
    )
    checks: tuple[CheckFile, ...] = Field(description="in the order they ran")


class ReportFile(BaseModel):
    """The whole file: every bundle that was booted, and whether all of them passed."""

    model_config = _FROZEN

    schema_: Literal["edge-runtime/report/1"] = Field(alias="schema")
    status: Literal["pass", "fail"]
    tiers: tuple[Tier, ...] = Field(description="the tiers whose failures count here")
    boots: tuple[BootFile, ...]


def report_file(reports: Sequence[Report], tiers: frozenset[Tier]) -> ReportFile:
    """Put reports into the file's form; ``tiers`` are those whose failures count."""
    boots = tuple(_boot(report, tiers) for report in reports)
    failed = any(boot.status == "fail" for boot in boots)
    return ReportFile(schema=SCHEMA, status="fail" if failed else "pass", tiers=tuple(sorted(tiers)), boots=boots)


def _boot(report: Report, tiers: frozenset[Tier]) -> BootFile:
    bundle, facts = report.bundle, report.facts
    known = ("id", "version", "security_version", "digest", "limits")
    return BootFile(
        status="pass" if report.passed(tiers) else "fail",
        state=report.state,
        started=report.started,
        duration_ms=round(report.ms, 3),
        bundle=BundleFile(path=bundle["path"], **{key: bundle.get(key) for key in known}),
        runtime=facts["edge-runtime"],
        onnxruntime=facts["onnxruntime"],
        profile=facts["profile"],
        provider=facts["provider"],
        boot_id=facts["boot_id"],
        environment=report.environment,
        changed_since_last_pass=report.changed_since_last_pass,
        conversions=facts["conversions"],
        machine=facts.get("machine"),
        injected=report.injected,
        checks=tuple(
            CheckFile(
                id=one.id, tier=one.tier, status=one.status, measured=one.measured, limit=one.limit, hint=one.hint,
                ms=round(one.ms, 3),
            )
            for one in report.checks
        ),
    )  # fmt: skip
