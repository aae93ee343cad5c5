"""Frames that begin with sync bytes and say their length: found again one byte after whatever was none; it knows no layout."""

from typing import Protocol

from edge_runtime.flow.quoting import quote_bytes
from edge_runtime.spec.reading import Damaged, Rejection


class Layout(Protocol):
    """How one kind of packet is laid out, and what a person calls it."""

    subject: str
    sync: bytes
    head_bytes: int
    """How many are always there when ``end`` refuses a packet: what is told of one must not depend on the split."""
    longest_bytes: int
    no_sync_todo: str

    def end(self, data: bytes, start: int) -> int | Rejection:
        """Where the packet at ``start`` ends, or a place beyond ``data`` up to which more must come before that is known."""

    def read(self, data: bytes, start: int, end: int) -> bytes | Rejection:
        """The frame of a packet that is there from ``start`` to ``end``, or why it is none."""


class SearchFramer:
    """Cuts packets of one layout.

    It holds less than one longest packet and the chunk in hand, for a length beyond the limit is refused before its
    bytes are waited for. Each packet that fails is told, once, and the search goes on at its second byte, so it costs no
    packet but itself. Bytes that begin no packet are told too, once for as many as the longest packet has; so many may
    pass without a word behind a failed packet, whose rest they are, and where the stream was joined in the middle
    (``discarding``).
    """

    def __init__(self, layout: Layout) -> None:
        """Begin a stream."""
        self._layout = layout
        self._sync = layout.sync
        self._pending = bytearray()
        self._needed_bytes = 0
        self._longest_bytes = layout.longest_bytes
        # How many bytes that begin no packet may come without a word, and how many belong to a packet that was told.
        self._quiet_bytes = 0
        self._told_bytes = 0
        self._is_joining = self.passed_over = False

    def feed(self, chunk: bytes) -> list[bytes | Damaged]:
        """Take the next bytes; give the frames they complete, in order."""
        self._pending += chunk
        # Looking sooner would only copy what is pending: many times over, where a long packet comes in small chunks.
        return self._cut(at_end=False) if len(self._pending) >= self._needed_bytes else []

    @property
    def pending_bytes(self) -> int:
        """Bytes held that may still become a packet, in bytes."""
        return len(self._pending)

    @property
    def discarding(self) -> bool:
        """Whether bytes that begin no packet would be skipped without a word."""
        return self._quiet_bytes > 0

    def restore(self, *, discarding: bool) -> None:
        """Forget what is held; with ``discarding``, also skip the rest of a packet without a word."""
        self._pending.clear()
        self._needed_bytes = 0
        self._quiet_bytes = self._longest_bytes if discarding else 0
        self._told_bytes = 0
        self._is_joining, self.passed_over = discarding, False

    def flush(self) -> list[bytes | Damaged]:
        """End the stream: a packet that did not come whole is told, and whole ones inside it are still given."""
        frames = self._cut(at_end=True)
        self.restore(discarding=False)
        return frames

    def _cut(self, *, at_end: bool) -> list[bytes | Damaged]:
        frames: list[bytes | Damaged] = []
        data = bytes(self._pending)
        place = self._needed_bytes = 0
        while place < len(data):
            start = self._find_sync(data, place, at_end=at_end)
            if start > place:
                self.passed_over = self.passed_over or self._is_joining
                self._skip_noise(data, place, start, frames)
                place = start
                continue
            end = self._layout.end(data, start)
            if isinstance(end, int) and end > len(data):
                if not at_end:
                    self._needed_bytes = end - start
                    break
                end = Rejection("bad_frame", self._layout.subject, f"{len(data) - start} bytes at the end of the input",
                                f"{end - start} or more", "the recording or the connection ended in it")  # fmt: skip
            if isinstance(end, int):
                frame = self._layout.read(data, start, end)
                if isinstance(frame, bytes):
                    frames.append(frame)
                    self._quiet_bytes = self._told_bytes = 0
                    self._is_joining = False
                    place = end
                    continue
                self._fail(frame, data[start:end], frames)
            else:
                self._fail(end, data[start : start + self._layout.head_bytes], frames)
            place += 1
        del self._pending[:place]
        return frames

    def _find_sync(self, data: bytes, place: int, *, at_end: bool) -> int:
        """The next place where sync bytes stand, or may stand once more bytes have come."""
        found = data.find(self._sync, place)
        if found >= 0:
            return found
        if not at_end:
            for size in range(min(len(self._sync) - 1, len(data) - place), 0, -1):
                if data.endswith(self._sync[:size]):
                    return len(data) - size
        return len(data)

    def _fail(self, rejection: Rejection, raw: bytes, frames: list[bytes | Damaged]) -> None:
        """Tell of a packet that is none, unless it begins within one of which that was told; one byte is given up."""
        self._is_joining = False
        if not self._told_bytes:
            frames.append(Damaged(rejection, raw))
        self._told_bytes = max(self._told_bytes, len(raw)) - 1
        self._quiet_bytes = self._longest_bytes

    def _skip_noise(self, data: bytes, start: int, end: int, frames: list[bytes | Damaged]) -> None:
        self._told_bytes = max(0, self._told_bytes - (end - start))
        place = start
        while end - place > self._quiet_bytes:
            place += self._quiet_bytes
            # One byte alone: how many follow depends on how the input was split.
            raw = data[place : place + 1]
            found, expected = f"the byte {quote_bytes(raw)}", f"the sync bytes {quote_bytes(self._sync)}"
            frames.append(
                Damaged(Rejection("bad_frame", self._layout.subject, found, expected, self._layout.no_sync_todo), raw)
            )
            place += 1
            self._quiet_bytes = self._longest_bytes
        self._quiet_bytes -= end - place
