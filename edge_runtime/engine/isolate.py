"""A session in a process of its own, with the face of ``engine.Session``; what it does there cannot end or stop this one.

A crash, a call without an answer in its time and memory beyond its limit each end that process and are a DeviceError here,
in one line. It starts no second one: who is to be made anew is decided by whoever proves it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engine.tensor_frames import (
    CALL,
    DONE,
    MAX_TENSORS,
    OPEN,
    OUT_OF_MEMORY,
    BadFrame,
    Frame,
    Inbox,
    Outbox,
    as_text,
    rest_of,
    text_of,
)
from edge_runtime.errors import BundleError, DeviceError

ISOLATED_WORD: Final = "isolated-session"
"""The first word of the command line of such a process; ``__main__`` knows it, the help does not."""
_SUBJECT: Final = "the session's own process"
_TOLD_BYTES: Final = 4096
"""What is kept of what it says on standard error, the end of it."""
_PIPE_BYTES: Final = 1 << 16
"""What a pipe of the kernel holds: one read of it empties it."""
_SHOWN: Final = 200
_LOOK_S: Final = 1.0
"""How often its resident memory is looked at, at most: 15 us."""
_END_S: Final = 1.0
"""What a process may take to end once it was killed."""
_MIB: Final = 1 << 20


class IsolatedSession:
    """One model on one provider in a process of its own: ``inputs``, ``outputs``, ``placement`` and call of ``Session``."""

    __slots__ = ("__weakref__", "_child", "_names", "_places", "inputs", "outputs", "placement")

    def __init__(self, child: "_Child", found: Mapping[str, Any]) -> None:
        self._child = child
        self.inputs = tuple((name, tuple(shape), dtype) for name, shape, dtype in found["inputs"])
        self.outputs = tuple((name, tuple(shape), dtype) for name, shape, dtype in found["outputs"])
        self.placement = Counter[str](found["placement"])
        self._names = [name for name, _, _ in self.outputs]
        self._places = {name: place for place, (name, _, _) in enumerate(self.inputs)}

    def __call__(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run once, as ``Session`` does.

        Raises:
            DeviceError: the provider failed, crashed, hung or took too much memory.
            ValueError: as ``Session`` raises it.

        """
        frame = self._child.ask(CALL, [(self._places[name], tensor) for name, tensor in feeds.items()])
        if len(frame.tensors) != len(self._names) or max(place for place, _ in frame.tensors) >= len(self._names):
            raise self._child.given_up(f"an answer of {len(frame.tensors)} tensors", f"{len(self._names)}")
        # A copy: the next answer comes into the same memory.
        return {self._names[place]: tensor.copy() for place, tensor in frame.tensors}

    def end(self) -> None:
        """End its process, for one that takes its place: each later call is a DeviceError. One that has ended stays so."""
        if self._child.is_started:
            self._child.given_up("an end before another was started", "a call of the other")

    @property
    def resident_mb(self) -> float:
        """What its process has resident, MiB; 0 where the system does not tell."""
        return _resident_mb(self._child.pid)


def open_isolated(
    model: bytes, *, memory_mb: int, timeout_s: float, start_s: float, **settings: Any
) -> IsolatedSession:
    """Load a model in a process of its own, from bytes that were verified; ``settings`` are those of ``open_session``.

    ``memory_mb`` (MiB) is what that process may have, ``timeout_s`` what one call may take, ``start_s`` what the process
    may take to start and to open the model.

    Raises:
        DeviceError, BundleError: as ``open_session``; and DeviceError where that process crashes, hangs, takes too much
            memory or cannot be started.

    """
    child = _Child(memory_mb, timeout_s)
    frame = child.ask(OPEN, [*as_text(json.dumps(settings)), (1, np.frombuffer(model, dtype=np.uint8))], start_s)
    session = IsolatedSession(child, json.loads(text_of(frame)))
    if max(len(session.inputs), len(session.outputs)) > MAX_TENSORS:
        raise BundleError(
            subject="model", found=f"{len(session.inputs)} inputs and {len(session.outputs)} outputs",
            expected=f"at most {MAX_TENSORS} of each in a process of its own", todo="take [isolation] out of the profile",
        )  # fmt: skip
    return session


def living() -> list[int]:
    """The ids of all such processes that this one has started and not ended."""
    return [child.pid for child in _CHILDREN if child.is_started]


class _Child:
    """The process and its pipes. It is ended with the last reference to it, and by the kernel with this process."""

    def __init__(self, memory_mb: int, timeout_s: float) -> None:
        self._memory_mb, self._timeout_s = memory_mb, timeout_s
        self._inbox, self._outbox = Inbox(), Outbox()
        self._told = b""
        self._number = 0
        self._look_s = self._used_mb = 0.0
        self._ended: tuple[str, str, str] | None = None
        child, self._to, self._from, self._errors, life = _start(memory_mb)
        self.pid = child.pid
        self._close = weakref.finalize(self, _end, child, (self._to, self._from, self._errors, life))
        self._answers = select.poll()
        self._answers.register(self._from, select.POLLIN)
        self._answers.register(self._errors, select.POLLIN)
        self._room = select.poll()
        self._room.register(self._to, select.POLLOUT)
        _CHILDREN.add(self)

    @property
    def is_started(self) -> bool:
        """Whether its id is still its own: until it is ended here, the kernel gives it to nobody else."""
        return self._close.alive

    def ask(self, kind: int, tensors: list[tuple[int, NDArray[Any]]], limit_s: float | None = None) -> Frame:
        """Send one frame and wait for its answer, ``limit_s`` or as long as a call may take."""
        if self._ended is not None:
            raise _error(*self._ended)
        self._number = (self._number + 1) & 0xFFFFFFFF
        total, made = self._outbox.pack(kind, self._number, tensors)
        limit_s = self._timeout_s if limit_s is None else limit_s
        begun_s = time.monotonic()
        try:
            self._send(total, made, begun_s + limit_s)
            frame = self._receive(begun_s + limit_s)
        except TimeoutError:
            key = "timeout_s" if kind == CALL else "start_s"
            todo = f"look for a driver or device that hangs, or raise {key} of the profile's [isolation]"
            raise self.given_up(f"no answer within {limit_s:g} s", "one", todo) from None
        except (EOFError, BrokenPipeError):
            raise self._crashed() from None
        except BadFrame as error:
            raise self.given_up(f"an answer that is none: {error}", "a frame of this program") from error
        except BaseException:  # an answer that comes after an interruption would be taken for the next call's
            self.given_up("an interrupted call", "an answer")
            raise
        if frame.number != self._number:
            raise self.given_up(f"an answer to call {frame.number}", f"one to call {self._number}")
        if frame.kind != DONE:
            raise self._refused(json.loads(text_of(frame)))
        if begun_s >= self._look_s:
            self._look_s = begun_s + _LOOK_S
            self._weigh()
        return frame

    def given_up(
        self, found: str, expected: str, todo: str = "run edge-runtime selftest and send its report"
    ) -> DeviceError:
        """End the process; gives the reason, which every later call is told too."""
        self._listen()
        self._close()
        return self._over(found, expected, todo)

    def _over(self, found: str, expected: str, todo: str) -> DeviceError:
        lines = self._told.decode("utf-8", "replace").strip().splitlines()
        last = f"; it last said: {lines[-1][-_SHOWN:]}" if lines else ""
        self._ended = (f"{found}{last}", expected, todo)
        return _error(*self._ended)

    def _send(self, total: int, made: list[Any], until_s: float) -> None:
        while True:
            with suppress(BlockingIOError):
                written = os.writev(self._to, made)
                total -= written
                if not total:
                    return
                made = rest_of(made, written)
            self._listen()  # one that tells much while it takes its tensors must not wait for us
            if not self._room.poll(_left_ms(until_s)):
                raise TimeoutError

    def _receive(self, until_s: float) -> Frame:
        while True:
            left_ms = _left_ms(until_s)
            ready = [pipe for pipe, _ in self._answers.poll(left_ms)]
            if self._from in ready:
                if self._inbox.take(self._from):
                    return self._inbox.frame()
            elif not left_ms or not ready:  # one that only tells, and goes on telling, does not answer either
                raise TimeoutError
            if self._errors in ready and not self._listen():
                self._answers.unregister(self._errors)

    def _listen(self) -> bool:
        """Keep the end of what it has told: whether it may tell more."""
        with suppress(BlockingIOError):
            told = os.read(self._errors, _PIPE_BYTES)
            self._told = (self._told + told)[-_TOLD_BYTES:]
            return bool(told)
        return True

    def _crashed(self) -> DeviceError:
        self._listen()
        code = self._close()
        used = f", when last looked at with {self._used_mb:.0f} of {self._memory_mb} MiB" if self._used_mb else ""
        return self._over(
            f"an end {_words(code)}{used}", "an answer",
            "look for a driver or device that fails, or for too little memory; run edge-runtime selftest and send its report",
        )  # fmt: skip

    def _refused(self, told: Mapping[str, str]) -> Exception:
        kind = told["kind"]
        if kind == OUT_OF_MEMORY:
            self._close()
            return self._over(told["found"], *self._limit)
        if kind == "ValueError":
            return ValueError(told["found"])
        raised = BundleError if kind == "BundleError" else DeviceError
        return raised(subject=told["subject"], found=told["found"], expected=told["expected"], todo=told["todo"])

    def _weigh(self) -> None:
        """End it where it is larger than it may be: RLIMIT_DATA does not count memory that it shares."""
        self._used_mb = _resident_mb(self.pid)
        if self._used_mb > self._memory_mb:
            raise self.given_up(f"{self._used_mb:.0f} MiB resident", *self._limit)

    @property
    def _limit(self) -> tuple[str, str]:
        return (
            f"at most {self._memory_mb} MiB, memory_mb of the profile's [isolation]",
            "raise it if the model needs more; else its provider loses memory: update it, or name another",
        )


_CHILDREN: Final = weakref.WeakSet[_Child]()


def _start(memory_mb: int) -> tuple[subprocess.Popen[bytes], int, int, int, int]:
    """Start the process: it, and our ends of the pipes for what is asked, answered and told, and of its life line."""
    if sys.platform == "win32" or not hasattr(os, "O_ASYNC"):
        raise DeviceError(
            subject=_SUBJECT, found="a system that cannot end it with this one", expected="Linux",
            todo="take [isolation] out of the profile",
        )  # fmt: skip
    asked, to = os.pipe()
    answered, answers = os.pipe()
    told, errors = os.pipe()
    life, held = os.pipe()
    for pipe in (to, told, errors):  # what it tells and nobody reads is lost, and does not make it wait
        os.set_blocking(pipe, False)
    try:
        with _no_stop_signals():
            child = subprocess.Popen(  # noqa: S603 -- this program, and numbers
                [*program(), str(memory_mb), str(life)],
                stdin=asked, stdout=answers, stderr=errors, pass_fds=(life,), env=_environment(), cwd="/",
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        for pipe in (to, answered, told, held):
            os.close(pipe)
        raise DeviceError(
            subject=_SUBJECT, found=error.strerror or str(error), expected="a start of this program",
            todo="free memory or processes, or take [isolation] out of the profile",
        ) from error  # fmt: skip
    finally:
        for pipe in (asked, answers, errors, life):
            os.close(pipe)
    return child, to, answered, told, held


@contextmanager
def _no_stop_signals() -> Iterator[None]:
    """Hold back in this thread what stops a service; a process that is started meanwhile inherits that.

    A supervisor sends them to every process of a service. One that came before the child has set them aside would end it,
    and an orderly stop would be told as a driver that crashes.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def program() -> list[str]:
    """The command line that starts such a process, but for its numbers: this very program.

    Raises:
        DeviceError: this process is a frozen program of somebody else's, which would start itself.

    """
    if not getattr(sys, "frozen", False):
        return [sys.executable, "-P", "-m", "edge_runtime", ISOLATED_WORD]
    if "edge_runtime.__main__" not in sys.modules:
        raise DeviceError(
            subject=_SUBJECT, found="another frozen program than edge-runtime", expected="edge-runtime, or Python",
            todo="take [isolation] out of the profile",
        )  # fmt: skip
    return [sys.executable, ISOLATED_WORD]


def _environment() -> dict[str, str]:
    """Our own, and with it the places that modules come from."""
    places = os.pathsep.join(place or os.getcwd() for place in sys.path)  # noqa: PTH109
    return os.environ | {"PYTHONPATH": places}


def _end(child: subprocess.Popen[bytes], pipes: tuple[int, ...]) -> int | None:
    """Kill it, which changes nothing for one that has ended: its exit code, or less than 0 for a signal.

    None where a driver holds it in the kernel, where no signal reaches: it is left there, for a line must go on.
    """
    child.kill()
    for pipe in pipes:
        os.close(pipe)
    with suppress(subprocess.TimeoutExpired):
        return child.wait(_END_S)
    return None


def _error(found: str, expected: str, todo: str) -> DeviceError:
    return DeviceError(subject=_SUBJECT, found=found, expected=expected, todo=todo)


def _words(code: int | None) -> str:
    if code is None:
        return "of its answers alone"
    if code >= 0:
        return f"with exit code {code}"
    with suppress(ValueError):
        return f"by {signal.Signals(-code).name}"
    return f"by signal {-code}"


def _left_ms(until_s: float) -> int:
    return max(0, int((until_s - time.monotonic()) * 1000) + 1)


def _resident_mb(pid: int) -> float:
    """What a process has resident, MiB; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 -- half the time of a Path, while a line waits
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB
    except (OSError, ValueError, IndexError):
        return 0.0
