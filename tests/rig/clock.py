"""A wall clock and a monotonic clock that move only when told; they never look at the real time."""


class HandClock:
    """Two clocks in nanoseconds, advanced by hand."""

    def __init__(self, wall_ns: int = 1_760_000_000_000_000_000, mono_ns: int = 0) -> None:
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns

    def wall_ns(self) -> int:
        """Unix nanoseconds."""
        return self._wall_ns

    def mono_ns(self) -> int:
        """Monotonic nanoseconds."""
        return self._mono_ns

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        step_ns = round(seconds * 1e9)
        self._wall_ns += step_ns
        self._mono_ns += step_ns

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock, as a time server would; the monotonic clock does not notice."""
        self._wall_ns += round(seconds * 1e9)
