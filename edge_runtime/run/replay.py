"""The `replay` command: a recording or a plain file through one line of a device file, in the file's own time.

It goes the way `run` goes, with the same boot and the same lane; it touches nothing the serving device keeps.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final, Literal

from edge_runtime.errors import DeviceError, UsageError
from edge_runtime.flow.captured_payloads import is_capture
from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.broker import with_topics
from edge_runtime.run.config import LoadedConfig, load_config, state_folder
from edge_runtime.run.lane import Lane
from edge_runtime.run.loop import Loop
from edge_runtime.run.record import choose_line
from edge_runtime.run.reports import line_of
from edge_runtime.run.setting import make_line_setting
from edge_runtime.run.stall import Stall
from edge_runtime.run.stop_signals import StopSignals
from edge_runtime.run.summary import NOTHING_TAKEN, nothing_taken, summary
from edge_runtime.sinks.port import SinkClosed
from edge_runtime.sources.message_file import MAX_LINE_BYTES, MessageFile
from edge_runtime.sources.port import Source
from edge_runtime.sources.replay_file import ReplayFile, has_messages
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.sink import JsonLinesFile, StandardOutput
from edge_runtime.spec.source import FolderSource, MqttSource, ReplaySource

STATE_NAME: Final = "replay"
"""Folder in the device's state where a replay with a journal keeps its own: never the serving line's."""
QUIET_NS: Final = 2_000_000_000


def main(args: Namespace) -> int:
    """Play ``args.file`` through the line ``args.line`` of ``args.config``; the exit codes are docs/exit_codes.md's.

    Raises:
        UsageError: no such line, no such file, or ``args.out`` is there already.
        TemporaryError: nothing takes the answers.
        BrokenPipeError: the reader of standard output has left.

    """
    loaded = load_config(Path(args.config))
    chosen = choose_line(loaded, args.line)
    line = _into(with_topics(chosen, loaded.config.broker), None if args.out is None else Path(args.out))
    line, source = _from(line, Path(args.file), "max" if args.speed is None else args.speed)
    with StopSignals() as signals, ExitStack() as opened:
        bundle = loaded.bundle(line)
        booted = boot(bundle, make_line_setting(loaded, bundle))
        _say(line_of(booted.report))
        if booted.ready is None:
            return booted.report.failures(frozenset({"required"}))[0].code
        state = _state(loaded, line, opened)
        try:
            lane = _play(line, source, loaded.folder, booted.ready, state, signals)
        except SinkClosed as closed:
            raise BrokenPipeError from closed
        for told in summary(lane, state):
            _say(told)
        why = nothing_taken(lane)
        if signals.exit_code or not why:
            return signals.exit_code
        _say(f"edge-runtime: {why}; leaving with exit code {NOTHING_TAKEN}")
        return NOTHING_TAKEN


def _from(line: LineConfig, file: Path, speed: float | Literal["max"]) -> tuple[LineConfig, Source | None]:
    """The line with the file as its source; one of whole frames stays as it is, and what gives them comes beside it."""
    if not file.is_file():
        raise UsageError(
            subject=f"file to replay {file}", found="no file of that name", expected="a recording, or plain text",
            todo="correct the path",
        )  # fmt: skip
    path, source = file.absolute(), line.source
    try:
        is_recording, is_captured = has_messages(path), _begins_as_capture(path)
    except OSError as error:
        raise UsageError(
            subject=f"file to replay {file}", found=error.strerror or str(error),
            expected="a file this user can read", todo="correct the path, or give the user the file",
        ) from error  # fmt: skip
    recording = partial(ReplayFile, path, speed, wall_ns=time.time_ns, mono_ns=time.monotonic_ns)
    if isinstance(source, MqttSource) and is_captured:
        return line, MessageFile(path, speed, source, wall_ns=time.time_ns, mono_ns=time.monotonic_ns)
    if isinstance(source, MqttSource) and is_recording:
        return line, recording(topics=source)
    if is_recording:
        raise UsageError(
            subject=f"file to replay {file}", found=f"a recording of messages, and line {line.name} reads none",
            expected="a line whose source is mqtt", todo="name it with --line",
        )  # fmt: skip
    if isinstance(source, FolderSource) and source.whole:
        return line, recording(whole=True)
    return line.model_copy(update={"source": ReplaySource(path=str(path), speed=speed)}), None


def _into(line: LineConfig, out: Path | None) -> LineConfig:
    """The line with one sink in the default shape."""
    if out is not None and out.exists():
        raise UsageError(
            subject=f"--out {out}", found="a file of that name", expected="a new file",
            todo="give another --out, or remove it",
        )  # fmt: skip
    sink = StandardOutput() if out is None else JsonLinesFile(path=str(out.absolute()))
    return line.model_copy(update={"sink": (sink,)})


def _begins_as_capture(file: Path) -> bool:
    with file.open("rb") as opened:
        return is_capture(opened.readline(MAX_LINE_BYTES))


def _state(loaded: LoadedConfig, line: LineConfig, opened: ExitStack) -> Path:
    if line.journal.enabled != "on":
        return Path(opened.enter_context(TemporaryDirectory(prefix="edge-runtime-replay-")))
    state = state_folder(loaded) / STATE_NAME
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o750)
    except OSError as error:
        raise DeviceError(
            subject=f"state folder {state}", found=error.strerror or type(error).__name__,
            expected="a folder this user can write", todo='give the user the folder, or set journal.enabled = "auto"',
        ) from error  # fmt: skip
    return state


def _play(
    line: LineConfig, source: Source | None, folder: Path, ready: ReadyModel, state: Path, signals: StopSignals
) -> Lane:
    lane = Lane(
        line,
        ready,
        folder=folder,
        state=state,
        run_id=token_hex(4),
        wall_ns=time.time_ns,
        mono_ns=time.monotonic_ns,
        event_time=True,
        source=source,
    )
    progress, stall = _progress(lane, time.monotonic_ns), Stall(lane, time.monotonic_ns, _say)

    def every_tick() -> None:
        progress()
        stall()

    loop = Loop((lane,), every_tick, time.monotonic_ns)
    signals.tell(loop.stop)
    loop.run()
    return lane


def _progress(lane: Lane, mono_ns: Callable[[], int]) -> Callable[[], None]:
    """Say how far it is, once a second, to a person who has waited for two."""
    begun_ns = mono_ns()

    def tell() -> None:
        if sys.stderr.isatty() and mono_ns() - begun_ns > QUIET_NS:
            ledger = lane.line.ledger
            _say(f"{ledger.received} samples, {ledger.published} answers")

    return tell


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
