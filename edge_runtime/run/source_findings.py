"""What `doctor` says of where a line's bytes come from; it opens no port and starts no program of the line's."""

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.recording import MAGIC, MESSAGES_MAGIC
from edge_runtime.links.serial_port import LinkAbsent, find_port
from edge_runtime.run.config import LoadedConfig
from edge_runtime.run.findings import Finding
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.payload import CsvDecode
from edge_runtime.spec.reading import Rejection
from edge_runtime.spec.source import CommandSource, FolderSource, MqttSource, ReplaySource, SerialSource

_HEAD_BYTES: Final = 65_536


def source(loaded: LoadedConfig, line: LineConfig) -> Finding:
    """Whether a line's source is there now; no port is opened, that alone would restart many a board."""
    subject = f"source of line {line.name}"
    match line.source:
        case SerialSource() as spec:
            found = _port(subject, spec)
        case ReplaySource() as spec:
            found = _file(subject, loaded.resolve(spec.path), line)
        case FolderSource() as spec:
            found = _folder(subject, loaded.resolve(spec.path), spec)
        case CommandSource() as spec:
            found = _program(subject, loaded.folder, spec)
        case MqttSource():
            found = Finding(subject, "skipped", "not checked: needs the broker")
        case _:
            text = "not checked: standard input, whatever another program will pipe in"
            found = Finding(subject, "skipped", text)
    return found


def _file(subject: str, path: Path, line: LineConfig) -> Finding:
    if not path.is_file() or not os.access(path, os.R_OK):
        return Finding(subject, "fail", f"{path} is no file this user can read", "correct [line.source] path")
    refused = _header(path, line)
    if refused is not None:
        why = f"{refused.subject}: found {refused.found}; expected {refused.expected}"
        return Finding(subject, "fail", f"{path}, which begins with no header that suits: {why}", refused.todo)
    return Finding(subject, "ok", f"{path}, {path.stat().st_size} bytes")


def _header(path: Path, line: LineConfig) -> Rejection | None:
    """Why no line that a plain CSV begins with is a header that has the bound fields; None where one is."""
    if not isinstance(line.decode, CsvDecode) or line.decode.columns != "header":
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith((MAGIC, MESSAGES_MAGIC)):
        return None
    decoder = make_decoder(line.decode, line.channels)
    frames = make_framing(line.framing, line.decode.encoding).feed(head)
    refused = [
        item for frame in frames if isinstance(frame, bytes) and isinstance(item := decoder.decode(frame), Rejection)
    ]
    return refused[0] if refused and decoder.columns is None else None


def _port(subject: str, spec: SerialSource) -> Finding:
    try:
        name = find_port(spec)
    except LinkAbsent as error:
        return Finding(subject, "warn", str(error), "plug it in, or correct [line.source] in device.toml")
    if "://" in name:
        return Finding(
            subject, "skipped", f"not checked: {name} is a serial server in the network, and only connecting would tell",
            "start run and look at edge-runtime status",
        )  # fmt: skip
    how = f"{name}, found by match" if spec.match is not None else name
    if not os.access(os.path.realpath(name), os.R_OK | os.W_OK):
        return Finding(subject, "fail", f"{how} may not be opened by this user", "see the port's own line above")
    settings = f"{spec.baud} baud, {spec.bytesize}{spec.parity[0].upper()}{spec.stopbits}"
    return Finding(subject, "ok", f"{how}, to be opened with {settings}")


def _folder(subject: str, path: Path, spec: FolderSource) -> Finding:
    if not path.is_dir():
        return Finding(subject, "warn", f"{path}: no such folder now", "make it, or mount it, or correct the path")
    wanted = os.R_OK | os.X_OK | (0 if spec.after == "keep" else os.W_OK)
    if not os.access(path, wanted):
        todo = 'give this user the right, or set after = "keep"' if spec.after != "keep" else "give this user the right"
        what = "read" if spec.after == "keep" else f"read and written, which after = {spec.after!r} needs"
        return Finding(subject, "fail", f"{path} cannot be {what}", todo)
    names = [one.name for one in path.iterdir()]
    count = sum(fnmatchcase(one, spec.pattern) and not one.startswith(".") for one in names)
    return Finding(subject, "ok", f"{path}, {count} names that fit {spec.pattern!r}")


def _program(subject: str, folder: Path, spec: CommandSource) -> Finding:
    from edge_runtime.sources.child_process import UNGUARDED, guard, refuse_command  # noqa: PLC0415 -- as at boot

    try:
        found = refuse_command(spec, folder)
    except EdgeRuntimeError as error:
        return Finding(subject, "fail", f"{error.subject}: found {error.found}; expected {error.expected}", error.todo)
    if not guard():
        return Finding(subject, "warn", f"{found}{UNGUARDED}", "install util-linux, or run under systemd")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Finding(subject, "warn", f"{found}, as root, since this is", "let the service have a user of its own")
    return Finding(subject, "ok", f"{found}, as this user, without new privileges")
