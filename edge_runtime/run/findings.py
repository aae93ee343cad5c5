"""What `doctor` looks at, one function a matter, each giving findings; it changes nothing and opens no port."""

import os
import shutil
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.device.probe import Machine, has_vnni
from edge_runtime.engine import session as engine
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.links.serial_port import LinkAbsent, PortState, port_states
from edge_runtime.run.config import LoadedConfig, state_folder
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.device_profile import DeviceProfile
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.source import ReplaySource

Status = Literal["ok", "warn", "fail", "skipped"]

# The published wheels of onnxruntime from 1.24 on are built for manylinux_2_28.
MIN_GLIBC: Final = (2, 28)
# The process takes some 85 MiB with a small model; twice that leaves the system room to breathe.
MIN_MEMORY_MB: Final = 170
# Journals and dead letters of one line at their defaults, and as much again.
MIN_FREE_BYTES: Final = 16 * 1024 * 1024
# A synced append writes its last block whole, and the file's inode with it.
BYTES_PER_SYNC: Final = 2 * 4096
# A snapshot replaces a log four times its size, so snapshots add a third to what the records write.
SNAPSHOT_SHARE: Final = 4 / 3
DAY_S: Final = 86_400
# Measured with frost (five channels, one output with a flag): what the journal takes for a sample that makes an answer,
# without the answer itself, and for the answer, which it keeps once for each sink.
RECORD_BYTES: Final = 380
ANSWER_BYTES: Final = 250

_ON_TOP: Final = "the status file and answers written to files come on top"


class Finding(NamedTuple):
    """One thing looked at. ``skipped`` is "not checked" and says why; it never means that all is well."""

    subject: str
    status: Status
    text: str
    todo: str = ""


def python() -> Finding:
    """Tell this Python; it is at least 3.11, or nothing here would have run."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    bits = struct.calcsize("P") * 8
    if bits != 64:  # noqa: PLR2004 -- bits of a pointer
        return Finding("python", "fail", f"{version}, {bits} bit", "install a 64-bit Python: onnxruntime needs one")
    return Finding("python", "ok", f"{version}, {bits} bit{', frozen' if hasattr(sys, '_MEIPASS') else ''}")


def processor(machine: Machine) -> Finding:
    """Tell the processor and what its features mean for int8 numbers."""
    name = f"{machine.architecture or 'unknown architecture'}, {machine.cpu_model or 'unknown model'}"
    name += f", {machine.cores or 'unknown number of'} cores"
    if machine.architecture not in ("x86_64", "aarch64"):
        return Finding("processor", "fail", name, "use x86_64 or aarch64: there is no onnxruntime for another")
    if machine.isa is None:
        todo = "run selftest: it compares the numbers themselves"
        return Finding("processor", "warn", f"{name}; features unknown, so the careful int8 kernel is used", todo)
    name += f", {' '.join(sorted(machine.isa)) or 'none of the features we watch'}"
    if machine.architecture == "aarch64":
        return Finding("processor", "ok", f"{name}; int8 sums do not saturate here")
    if has_vnni(machine):
        return Finding("processor", "ok", f"{name}; VNNI: int8 sums do not saturate")
    return Finding(
        "processor",
        "ok",
        f"{name}; no VNNI: int8 sums saturate unless the weights fit 7 bits, so other models get a slower kernel",
    )


def system(machine: Machine) -> Finding:
    """Tell kernel, board and firmware: what a report of a fault needs."""
    parts = (("kernel", machine.kernel), ("board", machine.device_tree_model), ("firmware", machine.firmware))
    known = [f"{name} {text}" for name, text in parts if text]
    return Finding("system", "ok" if known else "skipped", ", ".join(known) or "not checked: the kernel tells nothing")


def memory(machine: Machine, profile: DeviceProfile | None) -> Finding:
    """Compare what this process may have with what it needs, in MiB."""
    sizes = (machine.memory_available_mb, machine.memory_limit_mb, machine.memory_left_mb)
    known = [size for size in sizes if size is not None]
    if not known:
        return Finding("memory", "skipped", "not checked: the kernel does not tell", "see that 256 MiB are free")
    need = profile.memory_mb if profile is not None and profile.memory_mb is not None else MIN_MEMORY_MB
    limit = f", limited to {machine.memory_limit_mb} MiB" if machine.memory_limit_mb is not None else ""
    limit += f", of which {machine.memory_left_mb} are left" if machine.memory_left_mb is not None else ""
    text = f"{machine.memory_available_mb} of {machine.memory_total_mb} MiB available{limit}; {need} MiB wanted"
    if min(known) < need:
        return Finding("memory", "warn", text, "stop other programs or raise the limit")
    return Finding("memory", "ok", text)


def glibc(machine: Machine) -> Finding:
    """Compare the C library with what the published wheels were built for."""
    wanted = ".".join(str(part) for part in MIN_GLIBC)
    try:
        version = tuple(int(part) for part in (machine.glibc or "").split(".")[:2])
    except ValueError:
        return Finding("glibc", "skipped", f"not checked: no glibc here; published wheels need {wanted}")
    if version < MIN_GLIBC:
        return Finding("glibc", "warn", f"{machine.glibc}; published wheels need {wanted}", "update the system")
    return Finding("glibc", "ok", f"{machine.glibc}, {wanted} or later wanted")


def clock(machine: Machine) -> Finding:
    """Tell whether the clock is synchronised: a sample's age is judged by it."""
    match machine.clock_synchronised:
        case True:
            return Finding("clock", "ok", "synchronised")
        case False:
            text = "not synchronised: answers are flagged clock_unsynced, ages count from arrival"
            return Finding("clock", "warn", text, "start a time service (systemd-timesyncd, chrony) if there is one")
    return Finding("clock", "skipped", "not checked: the system does not tell")


def onnxruntime(names: Sequence[str], source: str, *, frozen: bool) -> Finding:
    """Count the distributions of onnxruntime: exactly one is right, two overwrite each other's files."""
    if len(names) > 1:
        todo = f"pip uninstall {' '.join(names)}; then {source}"
        return Finding("onnxruntime", "fail", f"{len(names)} installed over each other: {', '.join(names)}", todo)
    if not names and not frozen:
        return Finding("onnxruntime", "fail", "none installed", source)
    try:
        version = engine.version()
    except EdgeRuntimeError as error:
        return Finding("onnxruntime", "fail", error.found, error.todo)
    text = f"{names[0] if names else 'part of this program'} {version}"
    if not engine.telemetry_is_off():
        todo = "set ORT_DISABLE_TELEMETRY=1 before Python starts"
        return Finding("onnxruntime", "fail", f"{text}, its telemetry on", todo)
    return Finding("onnxruntime", "ok", f"{text}, its telemetry off")


def serial_ports() -> list[Finding]:
    """Tell every serial port with who may open it and who has it open."""
    try:
        ports = port_states()
    except LinkAbsent as error:
        return [Finding("serial ports", "skipped", f"not checked: {error}", "run doctor again")]
    return [_port(port) for port in ports] or [Finding("serial ports", "skipped", "not checked: the system shows none")]


def storage(loaded: LoadedConfig) -> Finding:
    """See that the state folder can be written and has room for what the lines may keep."""
    try:
        folder = state_folder(loaded)
    except EdgeRuntimeError as error:
        return Finding("state folder", "fail", f"{error.subject}: found {error.found}", error.todo)
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        todo = "give this user that folder, or name another with state_dir"
        return Finding("state folder", "fail", f"{folder} cannot be written", todo)
    free = shutil.disk_usage(there).free
    need = sum(2 * line.journal.max_bytes + line.dead_letters.max_bytes for line in loaded.config.line)
    need = max(need, MIN_FREE_BYTES)
    text = f"{folder}{'' if there == folder else ' (not there yet)'}, {free >> 20} MiB free, {need >> 20} MiB wanted"
    return Finding("state folder", "ok" if free >= need else "warn", text, "" if free >= need else "free the disk")


def bundle(loaded: LoadedConfig, line: LineConfig) -> tuple[Finding, Manifest | None]:
    """Verify a line's bundle byte for byte and read its manifest; its numbers are selftest's matter."""
    subject = f"bundle of line {line.name}"
    try:
        path = loaded.bundle(line)
        verified = verify(read_files(path), str(path))
        manifest = parse(verified.files.get("manifest.json", b""))
    except EdgeRuntimeError as error:
        return Finding(subject, "fail", f"{error.subject}: found {error.found}", error.todo), None
    text = f"{manifest.id} {manifest.version}, digest {verified.digest[:12]}, every file as listed; "
    signature = "no signature" if verified.signature is None else "signature not checked"
    return Finding(subject, "ok", text + signature), manifest


def bytes_a_day(line: LineConfig, manifest: Manifest | None) -> Finding:
    """Estimate what a line's journal writes to disk in a day, from the period the contract promises."""
    subject = f"disk of line {line.name}"
    journal = line.journal
    if journal.enabled == "off" or (journal.enabled == "auto" and isinstance(line.source, ReplaySource)):
        return Finding(subject, "ok", f"no journal, so 0 B a day by it; {_ON_TOP}")
    period_s = manifest.window.period_s if manifest is not None and manifest.window is not None else None
    if manifest is None:
        return Finding(subject, "skipped", "not checked: needs the bundle")
    if period_s is None:
        return Finding(subject, "skipped", "not checked: unknown rate (the contract has no period)")
    written = journal_bytes_a_day(period_s, journal.sync_s, RECORD_BYTES + len(line.sink) * ANSWER_BYTES)
    text = f"about {_scaled(written)} a day by the journal at one sample each {period_s:g} s"
    return Finding(subject, "ok", f"{text}; {_ON_TOP}")


def journal_bytes_a_day(period_s: float, sync_s: float, record_bytes: int) -> float:
    """Return the bytes that reach the disk in a day: the records with their snapshots, and a block for each sync."""
    samples = DAY_S / period_s
    syncs = samples if sync_s == 0 else min(samples, DAY_S / sync_s)
    return samples * record_bytes * SNAPSHOT_SHARE + syncs * BYTES_PER_SYNC


def _port(port: PortState) -> Finding:
    subject = f"serial port {port.device}"
    description = port.description.removeprefix(port.device).strip() or "no USB identity"
    by_id = _by_id(port.device)
    text = f"{description}{f', {by_id}' if by_id else ''}"
    if not port.permitted:
        todo = f"add this user to the group {port.group} (usermod -aG {port.group} USER), log in again"
        return Finding(subject, "warn", f"{text}; permission denied", todo)
    if port.holders:
        return Finding(subject, "warn", f"{text}; in use by {port.holders}", "stop it, unless it is edge-runtime")
    return Finding(subject, "ok", f"{text}; no other process seen on it")


def _by_id(device: str) -> str | None:
    """Return the name that stays the same when adapters swap, for device.toml."""
    links = sorted(Path("/dev/serial/by-id").glob("*"))
    return next((str(link) for link in links if os.path.realpath(link) == os.path.realpath(device)), None)


def _scaled(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:  # noqa: PLR2004 -- SI prefixes
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
