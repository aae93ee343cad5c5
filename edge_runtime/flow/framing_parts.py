"""Frames that a delimiter ends and that must still be unpacked and checked; it knows no packing itself."""

from collections.abc import Callable

from edge_runtime.flow.framing_lines import LineFramer
from edge_runtime.spec.reading import Damaged

Reader = Callable[[bytes], list[bytes | Damaged]]
"""What stood between two delimiters -> its frames, or what was wrong with them."""


class PartFramer:
    """Cuts with a LineFramer and hands each part to ``read``, which depends on the part alone.

    Joined in the middle (``discarding``), it skips up to the next delimiter.
    """

    def __init__(self, parts: LineFramer, read: Reader) -> None:
        """Begin a stream."""
        self._parts = parts
        self._read = read

    def feed(self, chunk: bytes) -> list[bytes | Damaged]:
        """Take the next bytes; give the frames they complete, in order."""
        return self._read_all(self._parts.feed(chunk))

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a part that has not ended, in bytes."""
        return self._parts.pending_bytes

    @property
    def discarding(self) -> bool:
        """Whether everything up to the next delimiter will be skipped."""
        return self._parts.discarding

    @property
    def passed_over(self) -> bool:
        """Whether bytes were skipped up to the first delimiter."""
        return self._parts.passed_over

    def restore(self, *, discarding: bool) -> None:
        """Forget what is held; with ``discarding``, also skip up to the next delimiter."""
        self._parts.restore(discarding=discarding)

    def flush(self) -> list[bytes | Damaged]:
        """End the stream: what is left is read as if a delimiter followed."""
        return self._read_all(self._parts.flush())

    def _read_all(self, parts: list[bytes | Damaged]) -> list[bytes | Damaged]:
        frames: list[bytes | Damaged] = []
        for part in parts:
            if type(part) is Damaged:
                frames.append(part)
            else:
                frames += self._read(part)  # type: ignore[arg-type] # the other case is above
        return frames
