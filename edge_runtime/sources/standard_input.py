"""Standard input as a source; when the queue is full the program that writes has to wait, so no byte is dropped."""

import io
import os
import select
import sys
import threading
from collections.abc import Callable

from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.sources.reader import ChunkQueue, ReaderThread

QUEUE_BYTES = 1 << 20
"""Enough to keep the loop busy while the writer sleeps; more would only hide how far behind we are."""


class StandardInputSource:
    """Bytes of a file descriptor, 0 by default, until its end. See `sources.port.Source` for the methods."""

    name = "standard input"
    can_wait = True
    redelivers = False
    resumable = False
    live = True
    reopened = 0

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
        fd: int = 0,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns
        self._fd = fd
        self._queue = ChunkQueue(queue_bytes)
        self._thread = ReaderThread(self.name, self._run)
        self._wake: Wake = threading.Event()
        self._cancel: tuple[int, int] | None = None
        self._status = "not started"

    @property
    def ended(self) -> bool:
        """Nothing comes any more and everything was taken."""
        return self._thread.over and self._queue.empty

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""
        return not self._queue.empty

    def start(self, wake: Wake, position: int = 0) -> None:  # noqa: ARG002 (a pipe has no past)
        """Begin to read."""
        self._wake = wake
        self._status = "reading"
        if sys.platform != "win32":  # select cannot watch a pipe there; the daemon thread dies with the process
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
        """One plain sentence."""
        return self._status

    def stop(self) -> None:
        """Cancel, close and wait for the thread; idempotent."""
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
        # One buffer for all reads: a block of the largest size for each, cut to what came, would riddle the heap.
        buffer = memoryview(bytearray(MAX_CHUNK_BYTES))
        file: io.FileIO | None = None
        is_first = True  # whoever pipes into this start need not be who piped into the last: its header is its own
        while not self._thread.stopping.is_set():
            try:
                if self._cancel is not None and not self._readable(self._cancel[0]):
                    break
                file = file or io.FileIO(self._fd, closefd=False)
                data = bytes(buffer[: file.readinto(buffer) or 0])
            except OSError as error:
                self._status = f"ended: cannot be read ({error.strerror})"
                return
            if not data:
                self._status = "ended"
                return
            self._queue.put_waiting(data, self._wall_ns(), self._mono_ns(), anew=is_first)
            is_first = False
            self._wake.set()
        self._status = "stopped"

    def _readable(self, cancelled: int) -> bool:
        ready, _, _ = select.select([self._fd, cancelled], [], [])
        return cancelled not in ready
