"""Ends a command that ends by itself where its answers go nowhere; of a process that serves it knows nothing."""

from collections.abc import Callable
from typing import Final

from edge_runtime.errors import TemporaryError
from edge_runtime.run.lane import Lane

# A person who reads page by page holds a pipe up for minutes; a disk that is full for that long stays so.
PATIENCE_NS: Final = 300_000_000_000
"""How long not one answer may have gone out while some wait."""
TOLD_NS: Final = 10_000_000_000
"""After how long of that it is said that they wait, and for what."""


class Stall:
    """To be called once a second: watches that the answers of ``lane`` go out, by the monotonic clock ``mono_ns``."""

    def __init__(self, lane: Lane, mono_ns: Callable[[], int], say: Callable[[str], None]) -> None:
        self._lane, self._mono_ns, self._say = lane, mono_ns, say
        self._published, self._since_ns, self._is_told = 0, mono_ns(), False

    def __call__(self) -> None:
        """Say once that answers wait, then give up.

        Raises:
            TemporaryError: for ``PATIENCE_NS`` answers have waited and none has gone out.

        """
        now, waiting, published = self._mono_ns(), self._lane.waiting, self._lane.line.ledger.published
        if not waiting or published != self._published:
            self._published, self._since_ns, self._is_told = published, now, False
            return
        idle_ns = now - self._since_ns
        if idle_ns >= PATIENCE_NS:
            raise TemporaryError(
                subject="output", found=f"{waiting}, for {idle_ns // 1_000_000_000} s now",
                expected=f"answers to go out, at least one in {PATIENCE_NS // 1_000_000_000} s",
                todo="make room, or let the reader read, and start it again",
            )  # fmt: skip
        if idle_ns >= TOLD_NS and not self._is_told:
            self._is_told = True
            self._say(
                f"{waiting}; it goes on once they are taken, and ends after {PATIENCE_NS // 60_000_000_000} minutes"
            )
