"""The `record` command: writes what one line's source delivers, byte for byte with its times; it decodes nothing."""

import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from edge_runtime.errors import DeviceError, UsageError
from edge_runtime.flow.recording import MAGIC, encode_chunk
from edge_runtime.run.config import LoadedConfig, load_config
from edge_runtime.run.stop_signals import stop_signals
from edge_runtime.run.tracing import open_trace
from edge_runtime.sources import make_source
from edge_runtime.sources.port import Chunk, Source
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.source import MqttSource

SYNC_NS = 1_000_000_000
"""What a power cut may cost: one second. The file only grows, so whatever is on disk is a recording."""


class Recorded(NamedTuple):
    """How much was recorded, in chunks and bytes, and how many bytes a full queue lost."""

    chunks: int
    data_bytes: int
    lost_bytes: int


class RecordingFile:
    """An open recording; writes go on at its end only. Makes the file, and refuses one that is there."""

    def __init__(self, path: Path | None) -> None:
        self.name = "standard output" if path is None else str(path)
        try:
            # Unbuffered, so that a full disk is met by the write it concerns and never by the close.
            self._file = None if path is None else path.open("xb", buffering=0)
        except FileExistsError as error:
            raise UsageError(
                subject=f"recording {path}",
                found="a file of that name",
                expected="a new file",
                todo="give another --out, or remove it",
            ) from error
        except OSError as error:
            raise self._failed(error) from error
        self._put(MAGIC)
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, chunk: Chunk) -> None:
        """Append one chunk, marked where a connection began or bytes are missing. Raises DeviceError."""
        mark = encode_chunk(chunk.time_ns, b"") if chunk.fresh or chunk.lost_before else b""
        self._put(mark + encode_chunk(chunk.time_ns, chunk.data))

    def sync(self) -> None:
        """Have everything written so far on disk. Raises DeviceError."""
        if self._file is None:
            sys.stdout.buffer.flush()
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file; standard output stays open. Idempotent."""
        if self._file is not None:
            self._file.close()

    def _put(self, data: bytes) -> None:
        if self._file is None:
            sys.stdout.buffer.write(data)
            return
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError as error:
            self.close()
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> DeviceError:
        return DeviceError(
            subject=f"recording {self.name}",
            found=f"{error.strerror}",
            expected="a place that can be written",
            todo="make room or give another --out",
        )


def main(args: Namespace) -> int:
    """Record ``args.line`` of ``args.config`` to ``args.out`` until ``args.seconds``, the source's end, or a signal."""
    loaded = load_config(Path(args.config))
    line = choose_line(loaded, args.line)
    stopping = threading.Event()
    wake = threading.Event()
    if isinstance(line.source, MqttSource):
        raise UsageError(
            subject=f"line {line.name} of {loaded.path}", found="messages of a broker as its source",
            expected="a line with a port, standard input or a file",
            todo="record messages with `mosquitto_sub -v`",
        )  # fmt: skip
    source = make_source(
        line.source, wall_ns=time.time_ns, mono_ns=time.monotonic_ns, folder=loaded.folder,
        trace=open_trace(args.trace, [line]),
    )  # fmt: skip
    limit_ns = None if args.seconds is None else time.monotonic_ns() + int(args.seconds * 1e9)
    with RecordingFile(None if args.out is None else Path(args.out)) as file, _stop_on_signal(stopping, wake):
        done = record(
            source, file, wake=wake, stopping=stopping, mono_ns=time.monotonic_ns, limit_ns=limit_ns, say=_say
        )
    lost = f", {done.lost_bytes} bytes lost to a full queue" if done.lost_bytes else ""
    _say(f"recorded {done.data_bytes} bytes in {done.chunks} chunks to {file.name}{lost}")
    return 0


def record(
    source: Source,
    file: RecordingFile,
    *,
    wake: threading.Event,
    stopping: threading.Event,
    mono_ns: Callable[[], int],
    limit_ns: int | None,
    say: Callable[[str], None],
) -> Recorded:
    """Write everything ``source`` gives until it ends, ``stopping`` is set or ``mono_ns()`` reaches ``limit_ns``.

    ``say`` is told each change of the source's status. Raises what the source and the file raise.
    """
    done = Recorded(0, 0, 0)
    said = ""
    synced_ns = mono_ns()
    source.start(wake)
    try:
        while not (source.ended or stopping.is_set() or (limit_ns is not None and mono_ns() >= limit_ns)):
            done = _write(source.take(), file, done)
            if source.status() != said:
                said = source.status()
                say(f"{source.name}: {said}")
            now_ns = mono_ns()
            if now_ns - synced_ns >= SYNC_NS:
                file.sync()
                synced_ns = now_ns
            if not (source.waiting or source.ended):
                due_ns = min(x for x in (synced_ns + SYNC_NS, limit_ns, source.due_ns()) if x is not None)
                wake.wait(max(due_ns - now_ns, 0) / 1e9)
                wake.clear()
    finally:
        source.stop()
    while chunks := source.take():
        done = _write(chunks, file, done)
    file.sync()
    return done


def choose_line(loaded: LoadedConfig, name: str | None) -> LineConfig:
    """Return the line of that name, or the only one. Raises UsageError."""
    lines = loaded.config.line
    chosen = [line for line in lines if name is None or line.name == name]
    if len(chosen) == 1:
        return chosen[0]
    raise UsageError(
        subject=f"--line for {loaded.path}",
        found=f"{len(lines)} lines and no --line" if name is None else repr(name),
        expected="one of " + ", ".join(line.name for line in lines),
        todo="name it with --line",
    )


def _write(chunks: list[Chunk], file: RecordingFile, done: Recorded) -> Recorded:
    for chunk in chunks:
        if chunk.dropped:  # a sample that did not come has no bytes to keep
            continue
        file.write(chunk)
        done = Recorded(done.chunks + 1, done.data_bytes + len(chunk.data), done.lost_bytes + chunk.lost_before)
    return done


@contextmanager
def _stop_on_signal(stopping: threading.Event, wake: threading.Event) -> Iterator[None]:
    def stop(_number: int, _frame: object) -> None:
        stopping.set()
        wake.set()

    before = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 -- progress for a person
