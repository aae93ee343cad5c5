"""The process that holds one session for another: it takes its limits, then answers until its parent is gone.

It proves nothing and decides nothing: whoever started it has verified the model's bytes, and runs the goldens through it.
"""

import fcntl
import os
import resource
import signal
import sys
from contextlib import suppress

_MIB = 1 << 20
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(words: list[str]) -> int:
    """Serve one session over standard input and output. ``words``: the memory limit in MiB, the number of the life line."""
    limit_mb, life = int(words[0]), int(words[1])
    _end_with_the_parent(life)
    for number in _STOP_SIGNALS:
        # A supervisor that stops the service sends them to every process of it; the parent still needs answers then.
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)  # it was started with them held back
    asked, answers = _take_standard_streams()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Private memory that can be written; not RLIMIT_AS, since CUDA reserves addresses by the terabyte.
    resource.setrlimit(resource.RLIMIT_DATA, (limit_mb * _MIB, limit_mb * _MIB))
    from edge_runtime.engine.frame_server import serve  # noqa: PLC0415 -- numpy and onnxruntime, inside the limit

    with suppress(EOFError, BrokenPipeError):
        serve(asked, answers, limit_mb)
    return 0


def _end_with_the_parent(life: int) -> None:
    """Have the kernel end this process once the last writer of ``life`` is gone, even in the middle of a run.

    Nothing is ever written there. When the pipe is hung up the kernel sends the signal that was asked for: SIGKILL, since
    SIGIO, which it would be else, ends no process that is stopped or whose library has set that aside. Not PR_SET_PDEATHSIG:
    that comes when the *thread* which started us ends, and a Python program may open a bundle in any of its threads.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        if not os.read(life, 1):  # it was gone before we asked
            sys.exit(0)


def _take_standard_streams() -> tuple[int, int]:
    """Keep what are descriptors 0 and 1 for frames alone: what a library prints goes to standard error."""
    asked, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers
