"""What `doctor` says of one line of a device file: its bundle on this machine, its bindings, its streams; it opens nothing."""

import datetime as dt
import math
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from edge_runtime.device.probe import Machine
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.line import max_streams
from edge_runtime.flow.window import WindowRule
from edge_runtime.run import checks
from edge_runtime.run.file_channels import file_channels
from edge_runtime.run.findings import Finding
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.device_profile import DeviceProfile
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.source import MqttSource

# The oldest releases that this package is made for, as pyproject.toml states them.
PACKAGES: Final = {"numpy": (2, 0), "pydantic": (2, 10), "pyserial": (3, 5)}
_VERSION_PARTS: Final = 2


def packages(own_version: str) -> Finding:
    """Tell the versions a report of a fault needs, each against the oldest this release is made for."""
    words, old = [f"edge-runtime {own_version}"], []
    for name, least in PACKAGES.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            words.append(f"{name} part of this program")
            continue
        words.append(f"{name} {version}")
        if _number(version) < least:
            old.append(f"'{name}>={'.'.join(map(str, least))}'")
    todo = f"pip install {' '.join(old)}" if old else ""
    return Finding("packages", "fail" if old else "ok", ", ".join(words), todo)


def fit(
    line: LineConfig, manifest: Manifest | None, profile: DeviceProfile | None, machine: Machine, runtime: str
) -> Finding:
    """Whether the installed onnxruntime, the profile and the processor can serve the line's bundle; no model is loaded."""
    subject = f"fit of line {line.name}"
    if manifest is None or profile is None or not runtime:
        return Finding(subject, "skipped", "not checked: needs the bundle, a profile and onnxruntime")
    refused = []
    for choice in profile.providers:
        try:
            _, measured, limit = checks.compatibility(manifest, choice.name, profile, machine, runtime, inject=False)
        except EdgeRuntimeError as error:
            refused.append(_failed(subject, error))
        else:
            finding = Finding(subject, "ok", f"{measured}, on {choice.name}; onnxruntime {runtime} takes {limit}")
            if not refused:
                return finding
            text = f"{finding.text}; {profile.providers[0].name} is not for it ({refused[0].text})"
            return finding._replace(status="warn", text=text, todo=refused[0].todo)
    return refused[-1]


def bindings(line: LineConfig, manifest: Manifest | None, today: dt.date, folder: Path) -> list[Finding]:
    """A line's channels and fields against its bundle's contract and its own decoder; then each correction that expired."""
    subject = f"channels of line {line.name}"
    if manifest is None:
        return [Finding(subject, "skipped", "not checked: needs the bundle")]
    try:
        made, _, _ = checks.bindings(manifest, {line.name: line.channels}, inject=False)
        make_decoder(line.decode, line.channels, file_channels(manifest.channels, line.channels, folder))
    except EdgeRuntimeError as error:
        return [_failed(subject, one) for one in (error, *error.others)]
    words = made.by_line[line.name]
    refused = [text.partition(":")[0] for text in words if "undeclared" in text]
    finding = Finding(subject, "ok", f"{len(words)} bound; {'; '.join(text.partition(' (x *')[0] for text in words)}")
    if refused:
        todo = f'write the unit, e.g. channels.{refused[0]}.unit = "{_unit(manifest, refused[0])}"'
        finding = finding._replace(status="warn", todo=todo)
    return [finding, *_expired(line, today)]


def streams(line: LineConfig, manifest: Manifest | None) -> Finding:
    """How many streams a line takes, and what they may hold: a payload that invents names stops there."""
    subject = f"streams of line {line.name}"
    if manifest is None:
        return Finding(subject, "skipped", "not checked: needs the bundle")
    rule = WindowRule(manifest)
    by_topic = isinstance(line.source, MqttSource) and line.source.stream_level is not None
    named = by_topic or line.decode.stream is not None or line.decode.format == "sparkplug"
    most = max_streams(rule) if named else 1
    size = most * rule.stream_numbers * 8 / (1 << 20)
    return Finding(subject, "ok", f"at most {most}, in {math.ceil(size)} MiB; a further one is refused (too_many_streams)"
                   if named else f"one, in {math.ceil(size)} MiB")  # fmt: skip


def _expired(line: LineConfig, today: dt.date) -> Iterator[Finding]:
    for name, binding in line.channels.items():
        correction = binding.correction
        if correction is not None and correction.expires is not None and correction.expires < today:
            yield Finding(
                f"correction of line {line.name}", "warn",
                f"{name}: determined {correction.date}, expired {correction.expires}; it is still applied",
                "have the instrument calibrated and enter the new certificate",
            )  # fmt: skip


def _failed(subject: str, error: EdgeRuntimeError) -> Finding:
    return Finding(subject, "fail", f"{error.subject}: found {error.found}; expected {error.expected}", error.todo)


def _unit(manifest: Manifest, name: str) -> str:
    return next(channel.unit for channel in manifest.channels if channel.name == name)


def _number(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:_VERSION_PARTS]
    return tuple(int("".join(one for one in part if one.isdigit()) or 0) for part in parts)
