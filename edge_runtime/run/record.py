"""The `record` command: writes what one line's source delivers, byte for byte with its times; it decodes nothing.

Messages it takes as a client of its own, beside the one that serves: neither takes anything from the other.
"""

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
from edge_runtime.flow.recording import MAGIC, MESSAGES_MAGIC, Record, encode_chunk, encode_message
from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.run.broker import open_onlooker, with_topics
from edge_runtime.run.config import LoadedConfig, load_config
from edge_runtime.run.stop_signals import stop_signals
from edge_runtime.run.tracing import open_trace
from edge_runtime.run.waker import Waker
from edge_runtime.sources import make_source
from edge_runtime.sources.mqtt_topic import QUEUE_FULL, RETAINED
from edge_runtime.sources.port import Chunk, Source
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.source import FolderSource, MqttSource

SYNC_NS = 1_000_000_000
"""What a power cut may cost: one second. The file only grows, so whatever is on disk is a recording."""


class Recorded(NamedTuple):
    """How much was recorded, in chunks and bytes, and how many bytes a full queue lost; of messages, how many of those."""

    chunks: int
    data_bytes: int
    lost: int


class RecordingFile:
    """An open recording, of ``messages`` or of bytes; writes go on at its end only. Makes the file, refuses one that is there."""

    def __init__(self, path: Path | None, *, messages: bool = False) -> None:
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
        self._put(MESSAGES_MAGIC if messages else MAGIC)
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, chunk: Chunk) -> None:
        """Append one chunk, marked where a stream began or something is missing. Raises DeviceError."""
        if chunk.message is not None:
            sent = chunk.message
            qos = 1 if sent.packet_id else 0
            record = Record(
                chunk.time_ns, sent.payload, topic=sent.topic, qos=qos, retained=sent.retained, again=sent.again
            )
            self._put(encode_message(record))
            return
        is_marked = chunk.fresh or chunk.anew or chunk.lost_before
        mark = encode_chunk(chunk.time_ns, b"", anew=chunk.anew) if is_marked else b""
        self._put(mark + (encode_chunk(chunk.time_ns, chunk.data) if chunk.data else b""))

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
    broker = loaded.config.broker
    link = open_onlooker(loaded, broker) if broker is not None and isinstance(line.source, MqttSource) else None
    if isinstance(line.source, FolderSource):
        raise UsageError(
            subject=f"line {line.name} of {loaded.path}", found="a folder of files as its source",
            expected="a source that keeps nothing itself", todo='the files are the recording: keep them, after = "keep"',
        )  # fmt: skip
    source = make_source(
        with_topics(line, broker).source,
        wall_ns=time.time_ns,
        mono_ns=time.monotonic_ns,
        folder=loaded.folder,
        link=link,
        trace=open_trace(args.trace, [line]),
    )
    limit_ns = None if args.seconds is None else time.monotonic_ns() + int(args.seconds * 1e9)
    out = None if args.out is None else Path(args.out)
    with (
        RecordingFile(out, messages=link is not None) as file,
        Waker() as wake,
        _stop_on_signal(stopping, wake),
    ):
        done = record(
            source,
            file,
            wake=wake,
            stopping=stopping,
            mono_ns=time.monotonic_ns,
            limit_ns=limit_ns,
            say=_say,
            link=link,
        )
    what, ones = ("bytes", "chunks") if link is None else ("messages", "messages")
    lost = f", {done.lost} {what} lost to a full queue" if done.lost else ""
    _say(f"recorded {done.data_bytes} bytes in {done.chunks} {ones} to {file.name}{lost}")
    return 0


def record(
    source: Source,
    file: RecordingFile,
    *,
    wake: Waker,
    stopping: threading.Event,
    mono_ns: Callable[[], int],
    limit_ns: int | None,
    say: Callable[[str], None],
    link: MqttLink | None = None,
) -> Recorded:
    """Write everything ``source`` gives until it ends, ``stopping`` is set or ``mono_ns()`` reaches ``limit_ns``.

    ``say`` is told each change of the source's status; ``link`` is turned for a source that reads it, and closed. Raises
    what the source and the file raise.
    """
    links = () if link is None else (link,)
    done = Recorded(0, 0, 0)
    said = ""
    synced_ns = mono_ns()
    source.start(wake)
    for one in links:
        one.start(wake.set)
    try:
        while not (source.ended or stopping.is_set() or (limit_ns is not None and mono_ns() >= limit_ns)):
            wake.clear()
            for one in links:
                one.receive()
            done = _write(source, source.take(), file, done)
            for one in links:
                one.send()
            if source.status() != said:
                said = source.status()
                say(f"{source.name}: {said}")
            now_ns = mono_ns()
            if now_ns - synced_ns >= SYNC_NS:
                file.sync()
                synced_ns = now_ns
            if not (source.waiting or source.ended):
                times = (synced_ns + SYNC_NS, limit_ns, source.due_ns(), *(one.due_ns() for one in links))
                wake.wait(max(min(x for x in times if x is not None) - now_ns, 0) / 1e9, links)
    finally:
        source.stop()
        for one in links:
            one.close(None)
    while chunks := source.take():
        done = _write(source, chunks, file, done)
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


def _write(source: Source, chunks: list[Chunk], file: RecordingFile, done: Recorded) -> Recorded:
    for chunk in chunks:
        if chunk.dropped not in {"", RETAINED, QUEUE_FULL}:  # a sample that did not come has nothing to keep
            continue
        file.write(chunk)
        data, lost = chunk.data, chunk.lost_before
        if chunk.message is not None:  # one that a line refuses is recorded too
            data, lost = chunk.message.payload, 0
        done = Recorded(done.chunks + bool(data or chunk.message), done.data_bytes + len(data), done.lost + lost)
        source.acknowledge(chunk.position)
    return done


@contextmanager
def _stop_on_signal(stopping: threading.Event, wake: Waker) -> Iterator[None]:
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
