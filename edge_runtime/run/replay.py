"""The `replay` command: a recording or a plain file through one line of a device file, in the file's own time.

It goes the way `run` goes, with the same boot and the same lane; it touches nothing the serving device keeps.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
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
from edge_runtime.run.summary import summary
from edge_runtime.sinks.port import SinkClosed
from edge_runtime.sources.message_file import MAX_LINE_BYTES, MessageFile
from edge_runtime.sources.port import Source
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.sink import JsonLinesFile, StandardOutput
from edge_runtime.spec.source import MqttSource, ReplaySource

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
    file = Path(args.file)
    speed: float | Literal["max"] = "max" if args.speed is None else args.speed
    line = _redirected(chosen, file, speed, None if args.out is None else Path(args.out))
    line = with_topics(line, loaded.config.broker)
    with StopSignals() as signals, ExitStack() as opened:
        bundle = loaded.resolve(line.bundle)
        booted = boot(bundle, make_line_setting(loaded, bundle))
        _say(line_of(booted.report))
        if booted.ready is None:
            return booted.report.failures(frozenset({"required"}))[0].code
        state = _state(loaded, line, opened)
        try:
            lane = _play(line, loaded.folder, booted.ready, state, signals, _captured(line, file, speed))
        except SinkClosed as closed:
            raise BrokenPipeError from closed
        for told in summary(lane, state):
            _say(told)
        return signals.exit_code


def _redirected(line: LineConfig, file: Path, speed: float | Literal["max"], out: Path | None) -> LineConfig:
    """The same line with one sink in the default shape, and the file as its source unless it has captured the line's."""
    if not file.is_file():
        raise UsageError(
            subject=f"file to replay {file}", found="no file of that name", expected="a recording, or plain text",
            todo="correct the path",
        )  # fmt: skip
    if out is not None and out.exists():
        raise UsageError(
            subject=f"--out {out}", found="a file of that name", expected="a new file",
            todo="give another --out, or remove it",
        )  # fmt: skip
    sink = StandardOutput() if out is None else JsonLinesFile(path=str(out.absolute()))
    if isinstance(line.source, MqttSource) and _begins_as_capture(file):
        return line.model_copy(update={"sink": (sink,)})
    source = ReplaySource(path=str(file.absolute()), speed=speed)
    return line.model_copy(update={"source": source, "sink": (sink,)})


def _begins_as_capture(file: Path) -> bool:
    with file.open("rb") as opened:
        return is_capture(opened.readline(MAX_LINE_BYTES))


def _captured(line: LineConfig, file: Path, speed: float | Literal["max"]) -> Source | None:
    """What plays captured messages, topics and all, where the line still has its own source."""
    if not isinstance(line.source, MqttSource):
        return None
    return MessageFile(file, speed, line.source, wall_ns=time.time_ns, mono_ns=time.monotonic_ns)


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
    line: LineConfig, folder: Path, ready: ReadyModel, state: Path, signals: StopSignals, source: Source | None
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
