"""Answers to standard output, unbuffered, whole lines only; it never waits for a reader and never changes the pipe."""

import os
import select
import stat
from collections.abc import Collection, Sequence

from edge_runtime.sinks.port import SinkClosed

PIPE_BYTES = 4096
"""PIPE_BUF of Linux: what a pipe that reports room takes at once, without waiting and without mixing (pipe(7))."""


class StandardOutputSink:
    """Whole lines to ``descriptor``.

    A pipe gets them in writes of PIPE_BYTES at most, each only once it reports room: a reader that stops then holds
    back answers, not the process. A file or a terminal gets a batch in one write. The descriptor stays as it is:
    making it non-blocking would do so for every program that shares it.
    """

    in_flight = 0

    def __init__(self, name: str, descriptor: int = 1) -> None:
        self._name = name
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        self._is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._poll = select.poll() if self._is_pipe and hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLOUT)
        self._torn = b""
        self._torn_id = ""
        self._status = "It is taking answers."

    @property
    def name(self) -> str:
        """Where it writes."""
        return self._name

    def deliver(self, answers: Sequence[tuple[str, bytes]]) -> int:
        """Write what fits now; see the port. Raises SinkClosed once the reader is gone."""
        taken = 0
        try:
            if self._torn:
                if not self._finish_torn():
                    return 0
                taken = int(bool(answers) and answers[0][0] == self._torn_id)
            while taken < len(answers) and self._has_room():
                taken += self._write(answers, taken)
                if self._torn:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            if isinstance(error, BrokenPipeError | ConnectionResetError):
                raise SinkClosed(
                    subject=self._name, found="a pipe whose reader has gone",
                    expected="a program that reads the answers",
                    todo="start that program again and this one with it",
                ) from error  # fmt: skip
            self._status = f"It takes nothing: {error.strerror}."
            return taken
        self._status = "It is taking answers." if taken == len(answers) else "Its reader is not reading."
        return taken

    def withdraw(self, identities: Collection[str]) -> None:
        """Nothing is on its way here."""

    def position(self) -> None:
        """What went down a pipe has no position."""
        return

    def recover(self, position: int | None, pending: Sequence[str]) -> set[str]:  # noqa: ARG002 -- the port's words
        """Nothing can be read back: what is pending goes out again, under the same ids."""
        return set()

    def status(self) -> str:
        """One plain sentence."""
        return self._status

    def close(self) -> None:
        """Nothing is held back, and the descriptor belongs to the process."""

    def _has_room(self) -> bool:
        # A hung-up pipe counts as room: the write then tells.
        return self._poll is None or bool(self._poll.poll(0))

    def _write(self, answers: Sequence[tuple[str, bytes]], first: int) -> int:
        """Write the lines from ``first`` on that fit into one write; how many went out whole."""
        end, size = first, 0
        for _, line in answers[first:]:
            if self._is_pipe and size and size + len(line) > PIPE_BYTES:
                break
            size += len(line)
            end += 1
        data = b"".join(line for _, line in answers[first:end])
        written = os.write(self._descriptor, data)
        if written == len(data):
            return end - first
        whole = 0
        for identity, line in answers[first:end]:
            if written < len(line):
                self._torn, self._torn_id = (line[written:], identity) if written else (b"", "")
                break
            written -= len(line)
            whole += 1
        return whole

    def _finish_torn(self) -> bool:
        """Write the rest of a line that was cut by a short write; whether all of it is out."""
        if self._has_room():
            self._torn = self._torn[os.write(self._descriptor, self._torn) :]
        return not self._torn
