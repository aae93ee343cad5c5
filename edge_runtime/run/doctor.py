"""Looks over the machine and the device file and says what it found; it repairs nothing and proves no model."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from edge_runtime import __version__
from edge_runtime.device.data import data_folder
from edge_runtime.device.nvml import cards
from edge_runtime.device.probe import Machine, probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.device.telemetry import SILENT, Telemetry, read_telemetry
from edge_runtime.engine import session as engine
from edge_runtime.errors import ConfigurationError, EdgeRuntimeError
from edge_runtime.run import broker_findings, machine_findings, provider_findings, source_findings
from edge_runtime.run import findings as look
from edge_runtime.run import line_findings as look_at_line
from edge_runtime.run.config import LoadedConfig, load_config
from edge_runtime.run.findings import Finding
from edge_runtime.spec.device_profile import DeviceProfile
from edge_runtime.spec.providers import CPU

SCHEMA: Final = "edge-runtime/doctor/1"

_WORDS: Final = {"ok": "Ok", "warn": "Warn", "fail": "Fail", "skipped": "Skipped"}
_ANY_ONNXRUNTIME: Final = "pip install 'edge-runtime[cpu]' (gpu, openvino), or the vendor's wheel on a Jetson"


def main(args: Namespace) -> int:
    """Print every finding, as text or with ``args.json`` as JSON; 1 where any of them is a failure."""
    machine, telemetry = probe(), read_telemetry(budget_ns=machine_findings.BUDGET_NS, cards=cards)
    found = examine(machine, Path(args.config) if args.config else None, telemetry)
    print(_json(machine, telemetry, found) if args.json else "\n".join(_text(found)))  # noqa: T201 -- the command's output
    return 1 if any(finding.status == "fail" for finding in found) else 0


def examine(machine: Machine, config: Path | None, telemetry: Telemetry = SILENT) -> list[Finding]:
    """Look at everything, in an order in which a cause stands before its effects; a failure stops nothing."""
    configured, loaded = _configuration(config)
    profiled, profile = _profile(machine, loaded, known=config is None or loaded is not None)
    runtime = look.onnxruntime(
        engine.distributions(),
        profile.onnxruntime if profile is not None else _ANY_ONNXRUNTIME,
        frozen=hasattr(sys, "_MEIPASS"),
    )
    return [
        look.python(),
        look.processor(machine),
        look.system(machine),
        *(one for one in provider_findings.jetpack(machine) if _is_for_a_gpu(profile) or one.status == "ok"),
        look.memory(machine, profile),
        look.glibc(machine),
        look.clock(machine),
        *machine_findings.look(telemetry),
        *configured,
        profiled,
        runtime,
        look_at_line.packages(__version__),
        *_providers(profile, runtime),
        *look.serial_ports(),
        *_lines(machine, loaded, profile, "" if runtime.status == "fail" else engine.version()),
    ]


def _configuration(config: Path | None) -> tuple[list[Finding], LoadedConfig | None]:
    if config is None:
        return [Finding("configuration", "skipped", "not checked: no --config given")], None
    try:
        loaded = load_config(config)
    except ConfigurationError as error:
        return [
            Finding("configuration", "fail", f"{one.subject}: found {one.found}; expected {one.expected}", one.todo)
            for one in (error, *error.others)
        ], None
    names = ", ".join(line.name for line in loaded.config.line)
    return [Finding("configuration", "ok", f"{config}, lines: {names}")], loaded


def _profile(machine: Machine, loaded: LoadedConfig | None, *, known: bool) -> tuple[Finding, DeviceProfile | None]:
    if not known:
        return Finding("profile", "skipped", "not checked: needs the configuration"), None
    name = loaded.profile if loaded is not None else None
    try:
        profile = load_profile(name, machine, [data_folder("device_profiles")])
    except EdgeRuntimeError as error:
        return Finding("profile", "fail", f"{error.subject}: found {error.found}", error.todo), None
    how = "named in the configuration" if name else "the one that fits this machine"
    return Finding("profile", "ok", f"{profile.name} ({profile.description}), {how}"), profile


def _providers(profile: DeviceProfile | None, runtime: Finding) -> list[Finding]:
    if runtime.status == "fail":
        return [Finding("provider", "skipped", "not checked: needs a working onnxruntime")]
    if profile is None:
        return [Finding("provider", "skipped", "not checked: needs a profile")]
    return [provider_findings.provider(choice, profile) for choice in profile.providers]


def _is_for_a_gpu(profile: DeviceProfile | None) -> bool:
    return profile is None or any(choice.name != CPU for choice in profile.providers)


def _lines(machine: Machine, loaded: LoadedConfig | None, profile: DeviceProfile | None, runtime: str) -> list[Finding]:
    if loaded is None:
        return [
            Finding(subject, "skipped", "not checked: needs a configuration")
            for subject in ("state folder", "sources", "bundles", "channels", "disk")
        ]

    broker = broker_findings.look(loaded)
    found = [look.storage(loaded), *broker.findings]
    today = datetime.now(UTC).date()
    for line in loaded.config.line:
        finding, manifest = look.bundle(loaded, line)
        found += [
            broker.sources.get(line.name) or source_findings.source(loaded, line),
            finding,
            look_at_line.fit(line, manifest, profile, machine, runtime),
            *look_at_line.bindings(line, manifest, today, loaded.folder),
            look_at_line.streams(line, manifest),
            look.bytes_a_day(line, manifest),
        ]
    return found


def _text(found: list[Finding]) -> list[str]:
    lines = []
    for finding in found:
        lines.append(f"{_WORDS[finding.status]:8}{finding.subject}: {finding.text}")
        if finding.todo and finding.status != "ok":
            lines.append(f"{'':8}  -> {finding.todo}")
    counts = [f"{sum(one.status == status for one in found)} {word}" for status, word in _WORDS.items()]
    return [*lines, "", f"{', '.join(counts)} (Skipped is not checked)"]


def _json(machine: Machine, telemetry: Telemetry, found: list[Finding]) -> str:
    facts = asdict(machine) | {"isa": None if machine.isa is None else sorted(machine.isa)}
    report = {
        "schema": SCHEMA,
        "edge_runtime": __version__,
        "status": "fail" if any(one.status == "fail" for one in found) else "pass",
        "machine": facts,
        "telemetry": {
            name: [one._asdict() for one in told] if isinstance(told, tuple) else told
            for name, told in telemetry._asdict().items()
        },
        "findings": [finding._asdict() for finding in found],
    }
    return json.dumps(report, indent=2, ensure_ascii=False)
