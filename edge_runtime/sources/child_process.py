"""A program of the vendor's, started and kept running, whose output is the source; no shell, no more rights than ours.

The child gets no new privileges and a small environment, and is killed with this process, whatever ends that: util-linux'
setpriv has the kernel see to both. What could be run between fork and exec instead is not safe beside threads.
"""

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.quoting import quote
from edge_runtime.sources.child_log import ChildLog, write_log
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.sources.reader import ChunkQueue, ReaderThread
from edge_runtime.spec.source import CommandSource

QUEUE_BYTES: Final = 1 << 18
"""What is taken ahead; behind it the child's pipe fills, and the child waits."""
FIRST_WAIT_S: Final = 0.1
TERM_S: Final = 1.0
"""From SIGTERM to SIGKILL; a stop of the source waits two seconds in all."""
EXIT_S: Final = 0.3
"""How long a program whose output has ended may take to end itself."""
LOOK_S: Final = 0.5
"""How often it is looked whether the child has ended though its output is still open: a child of its own may hold it."""
_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_GUARD: Final = ("setpriv", "--pdeathsig", "KILL", "--no-new-privs", "--")
UNGUARDED: Final = "; without util-linux' setpriv it outlives a kill of this process until it writes again"


def _jitter() -> float:
    return random.uniform(0.5, 1.0)  # noqa: S311 (spreads retries; guards nothing)


class ChildProcess:
    """Bytes that a program writes. Follows `spec.source.CommandSource`; see `sources.port.Source` for the methods."""

    can_wait = True
    redelivers = False
    resumable = False
    live = True

    def __init__(
        self,
        spec: CommandSource,
        folder: Path,
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
        environment: Mapping[str, str] = os.environ,
        log: Callable[[str], None] = write_log,
        jitter: Callable[[], float] = _jitter,
    ) -> None:
        self.name = f"program {Path(spec.command[0]).name}"
        self.reopened = 0
        self._spec = spec
        self._folder = folder
        self._environment = {key: environment[key] for key in (*_PASSED, *spec.pass_environment) if key in environment}
        self._wall_ns, self._mono_ns = wall_ns, mono_ns
        self._jitter = jitter
        self._queue = ChunkQueue(QUEUE_BYTES)
        self._thread = ReaderThread(self.name, self._run)
        self._errors = ChildLog(self.name, log, mono_ns)
        self._wake: Wake = threading.Event()
        self._cancel: tuple[int, int] | None = None
        self._status = "not started"
        self._deaths = self._unguarded = ""
        self._guard: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Nothing comes any more and everything was taken."""
        return self._thread.over and self._queue.empty

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""
        return not self._queue.empty

    def start(self, wake: Wake, position: int = 0) -> None:  # noqa: ARG002 (a program's output has no past)
        """Begin to run it. Raises ConfigurationError where there is no such program."""
        refuse_command(self._spec, self._folder, self._environment)
        self._guard = guard(self._environment)
        self._unguarded = "" if self._guard else UNGUARDED
        self._wake = wake
        self._cancel = os.pipe()
        self._thread.start(wake)

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """Everything that waits, up to ``max_bytes``. Raises InternalError if the reader failed."""
        chunks = self._queue.take(max_bytes)
        if not chunks:
            self._thread.check()
        return chunks

    def acknowledge(self, position: int) -> None:
        """Nobody keeps it for us."""

    def due_ns(self) -> int | None:
        """When the next chunk is due, if that is known."""
        return None

    def status(self) -> str:
        """One plain sentence, and another of how often it died."""
        return self._status + self._deaths + self._unguarded

    def stop(self) -> None:
        """End the program, and wait for it and the thread; idempotent."""
        self._thread.stopping.set()
        self._queue.close()
        cancel = self._cancel
        if cancel is not None:
            os.write(cancel[1], b"x")
        self._thread.join()
        if cancel is not None and self._thread.over:
            self._cancel = None
            os.close(cancel[0])
            os.close(cancel[1])

    def _run(self) -> None:
        stopping = self._thread.stopping
        wait_s = FIRST_WAIT_S
        while not stopping.is_set():
            begun_ns = self._mono_ns()
            try:
                child = self._spawn()
            except OSError as error:
                self._deaths = f"; it cannot be started: {error.strerror or error}"
            else:
                self._say(f"running since {self._now()}, process {child.pid}")
                try:
                    self._read(child)
                finally:
                    code = _end(child, is_asked=stopping.is_set())
                self._errors.flush()
                if not stopping.is_set():
                    self.reopened += 1
                    times = f"{self.reopened} time{'s' if self.reopened > 1 else ''}"
                    self._deaths = f"; it ended {times}, last {_words(code)} at {self._now()}"
            if self._mono_ns() - begun_ns >= self._spec.restart_max_s * 1e9:
                wait_s = FIRST_WAIT_S  # it had lived long: this is no series
            if not stopping.is_set():
                self._say(f"to be started again within {wait_s:g} s" if wait_s >= 1 else "being started again")
                stopping.wait(wait_s * self._jitter())
            wait_s = min(wait_s * 2, self._spec.restart_max_s)
        self._say("stopped")

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 -- no shell; the command is device.toml's
            [*self._guard, *self._spec.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
        )

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        """Read until the child ends, or its output, or we do."""
        out, err = _pipes(child)
        cancelled = self._cancelled
        is_first = True
        open_ = [out.fileno(), err.fileno(), cancelled]
        while not self._thread.stopping.is_set():
            ready, _, _ = select.select(open_, [], [], LOOK_S)
            if cancelled in ready:
                return
            if err.fileno() in ready:
                told = os.read(err.fileno(), MAX_CHUNK_BYTES)
                self._errors.take(told)
                if not told:
                    open_.remove(err.fileno())
            if out.fileno() in ready:
                data = os.read(out.fileno(), MAX_CHUNK_BYTES)
                if not data:
                    return
                # Each start begins a stream of its own: with its header, and behind half a line of the one before.
                self._queue.put_waiting(data, self._wall_ns(), self._mono_ns(), anew=is_first)
                is_first = False
                self._wake.set()
            elif _has_ended(child) and not select.select([out], [], [], 0)[0]:
                return  # what it wrote last was read; a child of its own may hold both pipes, and fill the other

    @property
    def _cancelled(self) -> int:
        return -1 if self._cancel is None else self._cancel[0]

    def _now(self) -> str:
        return datetime.fromtimestamp(self._wall_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _say(self, sentence: str) -> None:
        if sentence != self._status:
            self._status = sentence
            self._wake.set()


def refuse_command(spec: CommandSource, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Where the program is; raises ConfigurationError where it is none, or this system has no process groups."""
    program = spec.command[0]
    found = shutil.which(str(folder / program) if "/" in program else program, path=environment.get("PATH"))
    if found is None or sys.platform == "win32":
        raise ConfigurationError(
            subject=f"source command {quote(program)}",
            found="a system without process groups" if found else "no program of that name that this user may start",
            expected="a program on the PATH, or its path from device.toml's folder on",
            todo="install it, or correct the name",
        )
    return found


def guard(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What stands before the command so that the child dies with us; nothing where the system has no such setpriv."""
    try:
        tried = subprocess.run([*_GUARD, "true"], env=dict(environment), capture_output=True, check=False, timeout=5)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return _GUARD if tried.returncode == 0 else ()


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if child.stdout is None or child.stderr is None:
        raise RuntimeError("a child without pipes")
    return child.stdout, child.stderr


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has, without taking leave of it: until then nobody else gets its number."""
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end(child: subprocess.Popen[bytes], *, is_asked: bool) -> int:
    """Have the child and all its own ended, and give its exit code; one whose output ended may first end by itself."""
    if is_asked or not _ends_within(child, EXIT_S):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGTERM)
        _ends_within(child, TERM_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in _pipes(child):
        pipe.close()
    return child.wait()


def _ends_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _has_ended(child):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def _words(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    with suppress(ValueError):
        return f"by {signal.Signals(-code).name}"
    return f"by signal {-code}"
