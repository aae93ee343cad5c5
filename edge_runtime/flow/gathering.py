"""When the bytes of a fast line may gather before they are read, so that several frames make one turn; it waits for nothing."""

from typing import Final

from edge_runtime.spec.manifest import Manifest

MAX_GATHER_NS: Final = 8_000_000
"""Eight frames of a line of 1 kHz; USB adapters hold bytes for 1 to 16 ms by themselves."""
MIN_GATHER_NS: Final = 1_000_000
"""Below this a pause saves nothing: its own wake-up costs what it spares."""
SHARE: Final = 5
"""A pause takes at most a fifth of the time that the contract allows an answer."""
IN_A_ROW: Final = 32
"""So many reads close together make a line a fast one: one frame that comes in pieces is none."""
ENOUGH_BYTES: Final = 2048
"""What makes a batch without a pause; half of what Linux holds for a tty, so that a pause loses nothing."""


def gather_ns(manifest: Manifest, *, timed_by_arrival: bool) -> int:
    """The longest pause, in ns, that this contract leaves room for; 0 for none.

    Where arrival is the time of a sample, a pause must not make the pace look wrong: it takes at most half of what
    ``rate_tolerance`` lets a step be off, and the other half stays for the sender.
    """
    longest = min(MAX_GATHER_NS, round(manifest.needs.latency_p99_ms * 1e6) // SHARE)
    window = manifest.window
    if timed_by_arrival and window is not None and window.period_s is not None:
        longest = min(longest, round(window.period_s * 1e9 * window.rate_tolerance / 2))
    return longest if longest >= MIN_GATHER_NS else 0


class Gathering:
    """The reads of one port: whether they come so close together that a pause before the next is worth its delay.

    A line whose reads are further apart than ``most_ns`` is never held up; of another no byte for longer than that.
    """

    def __init__(self, most_ns: int) -> None:
        self._most_ns = most_ns
        self._close = 0
        self._ready_ns = 0

    def pause_ns(self, now_ns: int, size: int) -> int:
        """How long to leave the port alone, in ns, after a read of ``size`` bytes that returned at ``now_ns``."""
        if now_ns - self._ready_ns >= self._most_ns:
            self._close //= 2  # nothing came for as long as a pause would have taken
        else:
            self._close = min(self._close + 1, 2 * IN_A_ROW)
        pause = self._most_ns if self._close >= IN_A_ROW and size < ENOUGH_BYTES else 0
        self._ready_ns = now_ns + pause
        return pause
