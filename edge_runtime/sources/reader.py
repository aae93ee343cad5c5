"""One reader thread and the bounded queue it fills; what is read, and from where, is handed in."""

import threading
from collections import Counter, deque
from collections.abc import Callable

from edge_runtime.errors import InternalError
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake

STOP_WAIT_S = 2.0
CHUNK_COST_BYTES = 300
"""What a chunk costs beside its data (the tuple, four integers, the bytes' head): slow lines bring single bytes."""
JOIN_NS = 5_000_000
"""Bytes within 5 ms of a chunk that still waits join it: a slow line's backlog is then lines, not single bytes."""


class ChunkQueue:
    """Chunks in order, bounded in bytes of memory; filled by one thread, taken by another."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._chunks: deque[Chunk] = deque()
        self._cost = 0
        self._position = 0
        self._changed = threading.Condition()
        self._closed = False
        self._given_up: Counter[str] = Counter()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._chunks and not self._given_up

    def give_up(self, reason: str) -> None:
        """Count one sample that was asked for and did not come: it has no bytes."""
        with self._changed:
            self._given_up[reason] += 1

    def put_dropping(self, data: bytes, time_ns: int, mono_ns: int, *, fresh: bool) -> None:
        """Add; while over the limit the oldest chunks go, their bytes counted on the one that follows them."""
        with self._changed:
            self._add(data, time_ns, mono_ns, fresh=fresh)
            while self._cost > self._limit and len(self._chunks) > 1:
                gone = self._chunks.popleft()
                self._cost -= len(gone.data) + CHUNK_COST_BYTES
                head = self._chunks[0]
                self._chunks[0] = head._replace(
                    lost_before=gone.lost_before + len(gone.data) + head.lost_before, fresh=gone.fresh or head.fresh
                )

    def put_waiting(self, data: bytes, time_ns: int, mono_ns: int, *, fresh: bool) -> None:
        """Add once there is room, which holds back whoever writes; returns without adding once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._cost + len(data) <= self._limit or not self._chunks)
            if not self._closed:
                self._add(data, time_ns, mono_ns, fresh=fresh)

    def take(self, max_bytes: int) -> list[Chunk]:
        """Give what was given up, then the oldest chunks, together at most ``max_bytes`` but one at least if any waits."""
        with self._changed:
            before = self._chunks[0].position - len(self._chunks[0].data) if self._chunks else self._position
            taken = [Chunk(b"", 0, 0, before, count, dropped=reason) for reason, count in self._given_up.items()]
            self._given_up.clear()
            room = max_bytes
            while self._chunks and (not taken or len(self._chunks[0].data) <= room):
                chunk = self._chunks.popleft()
                self._cost -= len(chunk.data) + CHUNK_COST_BYTES
                room -= len(chunk.data)
                taken.append(chunk)
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Let a waiting writer go; what waits can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, data: bytes, time_ns: int, mono_ns: int, *, fresh: bool) -> None:
        self._position += len(data)
        last = self._chunks[-1] if self._chunks else None
        if (
            last is not None
            and not fresh
            and mono_ns - last.mono_ns < JOIN_NS
            and len(last.data) + len(data) <= MAX_CHUNK_BYTES
        ):
            self._chunks[-1] = last._replace(data=last.data + data, position=self._position)
            self._cost += len(data)
            return
        self._chunks.append(Chunk(data, time_ns, mono_ns, self._position, 0, fresh))
        self._cost += len(data) + CHUNK_COST_BYTES


class ReaderThread:
    """Runs ``body`` in a thread of its own, and never lets it die unnoticed."""

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self._name = name
        self._body = body
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._wake: Wake = threading.Event()
        self.stopping = threading.Event()
        self.over = False
        """Whether the body has ended, for good or ill."""

    def start(self, wake: Wake) -> None:
        """Begin; ``wake`` is set when the thread ends."""
        self._wake = wake
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise InternalError if the body failed in a way it did not foresee."""
        if self._failure is not None:
            raise InternalError(
                subject=self._name,
                found=f"its reader thread failed with {type(self._failure).__name__}: {self._failure}",
                expected="a reader that ends only when told",
                todo="report this as a bug",
            ) from self._failure

    def join(self) -> None:
        """Ask it to stop and wait STOP_WAIT_S at most; a thread stuck in the kernel dies with the process."""
        self.stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001 (told by check(); a thread has no one above it)
            self._failure = error
        finally:
            self.over = True  # before the wake, or the one who wakes would not see it
            self._wake.set()
