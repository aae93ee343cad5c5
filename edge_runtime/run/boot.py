"""The trust line: from a path to a model that may serve, each value made only by the step before; nothing is cached."""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.verify import VerifiedBundle
from edge_runtime.device.fingerprint import changed, fingerprint
from edge_runtime.device.probe import Machine
from edge_runtime.device.telemetry import Telemetry, read_telemetry
from edge_runtime.engine.provider_library import library_digest
from edge_runtime.errors import DeviceError, EdgeRuntimeError, InternalError
from edge_runtime.flow.model import Model
from edge_runtime.run import checks, golden_checks, latency, memory_checks
from edge_runtime.run.drill import INJECTABLE, Drill
from edge_runtime.run.kept_files import KEPT_FILES_CHANGE, KeptFiles
from edge_runtime.run.strain import state_of, strains
from edge_runtime.run.trust import Trust
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_profile import DeviceProfile, ProviderChoice
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.report import LEFT_OUT, Check, Report, Tier

_PROOF: Final = object()
_T = TypeVar("_T")
_BROKE: Final = "a call failed while it was measured"

# What device.toml says fails alike on every provider of the list.
_OF_NO_PROVIDER: Final = frozenset({"bindings"})
_OF_THE_SESSION: Final = ("golden_output", "golden_batches")


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A model that has passed its goldens on this device; only ``boot`` can make one, and only one may serve."""

    model: Model
    goldens: Goldens
    provider: str
    profile: DeviceProfile
    machine: Machine
    report: Report
    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        """Refuse to be made by anyone but ``boot``."""
        if proof is not _PROOF:
            raise TypeError("a ReadyModel is made by edge_runtime.run.boot.boot alone")


@dataclass(frozen=True, slots=True)
class Booted:
    """The report of a boot, and the model if it may serve."""

    report: Report
    ready: ReadyModel | None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a boot runs against: the machine, its profile, the bindings by line name, and what the device remembers.

    ``trust`` says by whom bundles must be signed, ``floors`` holds the least security_version by bundle id,
    ``last_passes`` each one's environment at its last pass. ``telemetry`` asks the machine how it stands now; ``state`` is
    the device's folder, where it has one. ``digest`` and ``identity`` are what a bundle of the store is known by.
    """

    machine: Machine
    profile: DeviceProfile
    runtime_version: str
    bindings: Mapping[str, Mapping[str, ChannelBinding]] = field(default_factory=dict)
    config_digest: str = ""
    trust: Trust = field(default_factory=Trust)
    floors: Mapping[str, int] = field(default_factory=dict)
    last_passes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    state: Path | None = None
    telemetry: Callable[[], Telemetry] = read_telemetry
    digest: str | None = None
    identity: str | None = None


def boot(path: Path, setting: Setting, *, inject: str | None = None) -> Booted:
    """Run every check on one bundle; all of them run even after a failure, unless they need what failed.

    A check that has nothing to compare is skipped, with the reason; a skip is never a pass.

    ``inject`` corrupts the input of one named check, so that its comparison must notice.

    Raises:
        UsageError: there is no check of that name to inject into.

    """
    drill = Drill(inject)
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    begun = time.perf_counter()
    cool = setting.telemetry()
    trial = _Trial(setting, drill)
    try:
        model = trial.run(path)
    finally:
        trial.kept.close()
    checked = drill.told(trial.checks)
    warm = setting.telemetry()
    facts = trial.facts
    facts["machine"] = state_of(warm, strains(warm, cool))
    environment = trial.environment()
    passed = model is not None and not any(c.status == "fail" and c.tier == "required" for c in checked)
    last_pass = setting.last_passes.get(trial.bundle.get("id", ""))
    report = Report(
        state="OPERATIONAL" if passed else "ERROR",
        checks=tuple(checked),
        bundle=trial.bundle,
        environment=environment,
        changed_since_last_pass=tuple(changed(last_pass, environment)) if last_pass is not None else None,
        started=started,
        ms=(time.perf_counter() - begun) * 1000,
        facts=facts,
        injected=inject,
    )
    if not passed or model is None or trial.goldens is None:
        return Booted(report, None)
    return Booted(
        report,
        ReadyModel(model, trial.goldens, facts["provider"], setting.profile, setting.machine, report, proof=_PROOF),
    )


class _Passed(NamedTuple):
    """One provider that passed every required check, with all that was found on it."""

    provider: str
    model: Model
    goldens: Goldens
    facts: dict[str, Any]
    checks: list[Check]
    choice: ProviderChoice
    kept: str


def _figures(passed: Sequence[_Passed], profile: DeviceProfile) -> list[tuple[str, float]]:
    """Each provider's ms a paced call, measured in turn."""
    with latency.kernel_clock(checks.session_processes(profile)) as clock:
        times = latency.in_turn([golden_checks.one_call(one.model, one.goldens) for one in passed], clock)
    return [(one.provider, ms) for one, ms in zip(passed, times, strict=True)]


class _Trial:
    """One boot under way: the checks so far, and what is known of the bundle; a value is None where its step failed."""

    def __init__(self, setting: Setting, drill: Drill) -> None:
        self._setting = setting
        self._drill = drill
        self.checks: list[Check] = []
        self.bundle: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.goldens: Goldens | None = None
        self.kept = KeptFiles(setting.state, drill=drill.inject is not None)
        self._choice: ProviderChoice | None = None
        self._digests: dict[str, str | None] = {}

    def environment(self) -> dict[str, str]:
        """The fingerprint, with the provider that serves, or the last that was tried."""
        setting = self._setting
        return fingerprint(
            setting.machine, runtime_version=setting.runtime_version,
            ort_version=str(self.facts.get("onnxruntime", "none")), choice=self._choice, profile=setting.profile,
            bundle_digest=str(self.bundle.get("digest", "none")), config_digest=setting.config_digest,
            library_digest=self._digest_of_library(),
        )  # fmt: skip

    def _digest_of_library(self) -> str:
        """The SHA-256 of the library that the provider comes in, hashed once a boot; a word where none is to be loaded."""
        path = self._choice.library if self._choice is not None else None
        if path is None:
            return "none"
        if path not in self._digests:
            try:
                self._digests[path] = library_digest(path)
            except DeviceError:
                self._digests[path] = None  # in what words, the check of the provider says
        return self._digests[path] or "refused"

    def run(self, path: Path) -> Model | None:
        setting = self._setting
        self.bundle["path"] = str(path)
        self._check("hash_known_answer", checks.hash_known_answer)
        bundle = self._check("files", partial(checks.files, digest=setting.digest), path)
        if bundle is not None:
            self.bundle["digest"] = bundle.digest
        bundle = self._trusted(bundle)
        manifest = self._check("manifest", partial(checks.manifest, identity=setting.identity), bundle)
        if manifest is not None:
            self.bundle |= {
                "id": manifest.id, "version": manifest.version, "security_version": manifest.security_version,
                "limits": manifest.provenance.limits,
            }  # fmt: skip
        floor = setting.floors.get(manifest.id, 0) if manifest is not None else 0
        self._check("rollback_floor", checks.rollback_floor, manifest, floor)
        version = self._check("onnxruntime", checks.onnxruntime)
        model = self._served(bundle, manifest, version)
        self._check("memory", memory_checks.memory, manifest, setting.profile, tier="wanted")
        self._check("memory_limit", memory_checks.memory_limit, setting.profile)
        if any(one.cache for one in setting.profile.providers) or self._drill.inject == "provider_cache":
            self._check("provider_cache", self.kept.settle, model is not None and not self._refusal(), tier="wanted")
        return model

    def _served(self, bundle: VerifiedBundle | None, manifest: Manifest | None, version: str | None) -> Model | None:
        """Along the profile's list, never beyond it; where none passes, the last one's failure is the boot's."""
        profile, before = self._setting.profile, len(self.checks)
        passed, refused = list[_Passed](), list[tuple[str, str]]()
        for choice in profile.providers:
            del self.checks[before:]
            model = self._tried(choice, bundle, manifest, version)
            failed = next(
                (one for one in self.checks[before:] if one.status == "fail" and one.tier == "required"), None
            )
            if failed is not None and failed.id in _OF_NO_PROVIDER:
                break
            if failed is not None:
                refused.append((choice.name, f"{failed.id}, {failed.measured}"))
                continue
            if model is None or self.goldens is None:
                break  # what failed is above, and no provider has a part in it
            found = dict(self.facts), self.checks[before:], choice, self.kept.under_trial
            passed.append(_Passed(choice.name, model, self.goldens, *found))
            if profile.choose == "first":
                break
        figures = _figures(passed, profile) if profile.choose == "fastest" else []
        for one, (_, ms) in zip(passed, figures, strict=False):
            if ms == inf:
                self.kept.break_off(one.kept, _BROKE)
        refused += [(name, f"latency, {_BROKE}") for name, ms in figures if ms == inf]
        if figures and all(ms == inf for _, ms in figures):
            self.checks[before:], self._choice = self._broken(passed[-1]), passed[-1].choice
            self.facts, model = passed[-1].facts, None
            del refused[-1:]
        elif passed:
            served = passed[latency.fastest([ms for _, ms in figures])] if figures else passed[0]
            self.checks[before:], self.goldens, self.facts = served.checks, served.goldens, served.facts
            self._choice = served.choice
            model = served.model
        else:
            del refused[-1:]
        name = self.facts["provider"] if model is not None or refused else None
        self._check("provider_choice", checks.provider_choice, name, refused, figures, tier="wanted")
        return model

    @staticmethod
    def _broken(last: _Passed) -> list[Check]:
        """Its checks, of which that of the latency has failed after all: no provider of the list went on answering."""
        failure = DeviceError(
            subject="latency of one inference", found=_BROKE, expected="an answer to each",
            todo="look for a driver or device that fails; run edge-runtime selftest again and send its report",
        )  # fmt: skip
        broken = Check(
            "latency", "required", "fail", f"{failure.subject}: found {failure.found}", failure.expected, failure.todo,
            code=failure.exit_code,
        )  # fmt: skip
        return [broken if one.id == "latency" else one for one in last.checks]

    def _refusal(self, since: int = 0, among: Container[str] = INJECTABLE) -> str | None:
        """The first required check of those ``among`` that failed, in words."""
        failed = (one for one in self.checks[since:] if one.status == "fail" and one.tier == "required")
        return next((f"{one.id}, {one.measured}" for one in failed if one.id in among), None)

    def _tried(
        self, choice: ProviderChoice, bundle: VerifiedBundle | None, manifest: Manifest | None, version: str | None
    ) -> Model | None:
        """On one provider; once more, from nothing, where what an earlier boot has kept may be at fault."""
        before = len(self.checks)
        model = self._on(choice, bundle, manifest, version)
        if self.kept.warm and (bad := self._refusal(before, KEPT_FILES_CHANGE)):
            self.kept.distrust(bad)
            del self.checks[before:]
            model = self._on(choice, bundle, manifest, version)
        if self._refusal(before):
            self.kept.refuse()
        return model

    def _on(
        self, choice: ProviderChoice, bundle: VerifiedBundle | None, manifest: Manifest | None, version: str | None
    ) -> Model | None:
        """Everything that depends on where the model runs."""
        setting = self._setting
        self._choice = choice
        variant = self._check(
            "compatibility", checks.compatibility, manifest, choice.name, setting.profile, setting.machine, version
        )
        self._check("headroom", memory_checks.headroom, bundle, manifest, variant, choice, setting)
        # Nothing is loaded that there is no room for; where a system does not tell its memory, it is tried.
        loadable = None if self.checks[-1].status == "fail" else variant
        self.facts |= {
            "onnxruntime": version or "none", "provider": choice.name, "profile": setting.profile.name,
            "edge-runtime": setting.runtime_version, "boot_id": setting.machine.boot_id,
        }  # fmt: skip
        offered = self.kept.offered(choice, self.bundle.get("id") if loadable is not None else None, self.environment())
        digest = self._digests.get(choice.library or "")  # taken for the fingerprint, one line above
        opened = partial(checks.provider, withheld=self._drill.withholds, library_digest=digest)
        sessions = self._check("provider", opened, bundle, manifest, loadable, offered, setting)
        self._check("placement", checks.placement, sessions, choice)
        self.goldens = goldens = self._check("goldens", checks.goldens, bundle, manifest, variant)
        self._check("units", checks.units, manifest, goldens)
        conversions = self._check("bindings", checks.bindings, manifest, setting.bindings)
        self.facts["conversions"] = dict(conversions.by_line) if conversions else {}
        model = None
        if bundle is not None and manifest is not None and variant is not None and sessions is not None:
            model = Model(manifest, variant, bundle.digest, sessions.model, sessions.prepare)
        for name in ("golden_tensor", "golden_output", "golden_answer", "golden_batches", "negative_goldens"):
            self._check(name, getattr(golden_checks, name), model, goldens, choice.name)
        self._say_why(sessions)
        self._check("latency", golden_checks.latency, model, goldens, setting.profile)
        return model

    def _say_why(self, sessions: checks.Sessions | None) -> None:
        """Put before the advice on a wrong number what of this processor may be its reason."""
        for at, check in enumerate(self.checks):
            if sessions and sessions.saturating and check.id in _OF_THE_SESSION and check.status == "fail":
                self.checks[at] = replace(check, hint=f"{sessions.saturating}; {check.hint}")

    def _check(
        self, name: str, work: Callable[..., tuple[_T, str, str]], *needs: object, tier: Tier = "required"
    ) -> _T | None:
        """Run one check: ``work`` gives (value, measured, limit) or raises; it is not run without what it needs."""
        if any(need is None for need in needs):
            self.checks.append(Check(name, tier, "skip", "not checked", "", LEFT_OUT))
            return None
        begun = time.perf_counter()
        try:
            value, measured, limit = work(*needs, inject=self._drill.inject == name)
        except checks.NotChecked as nothing:
            self.checks.append(Check(name, tier, "skip", nothing.found, "", nothing.why))
            return None
        except EdgeRuntimeError as error:
            self._drill.failed(name)
            took = (time.perf_counter() - begun) * 1000
            found = f"{error.subject}: found {error.found}"
            hint = "; also ".join([error.todo, *map(str, error.others)])
            self.checks.append(Check(name, tier, "fail", found, error.expected, hint, took, error.exit_code))
            return None
        except Exception as fault:  # noqa: BLE001 -- a check that breaks has not passed, and the others still run
            self._drill.failed(name)
            found = f"the check itself broke: {type(fault).__name__}: {fault}"
            todo = "do not use this bundle; report this with it, for it is a fault of ours as well"
            code = InternalError.exit_code
            self.checks.append(Check(name, tier, "fail", " ".join(found.split())[:300], "an outcome", todo, code=code))
            return None
        self.checks.append(Check(name, tier, "pass", measured, limit, "", (time.perf_counter() - begun) * 1000))
        return value

    def _trusted(self, bundle: VerifiedBundle | None) -> VerifiedBundle | None:
        """The bundle, but none where its signature is refused: nothing that a stranger wrote reaches a parser."""
        self._check("signature", checks.signature, bundle, self._setting.trust)
        return None if self.checks[-1].status == "fail" else bundle
