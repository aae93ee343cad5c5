"""What asks a command to stop, from SIGINT to Windows' SIGBREAK, turned into a stop in order; it ends nothing on its own."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


def stop_signals() -> tuple[signal.Signals, ...]:
    """What asks a command to stop: also the terminal that goes away, but for a parent that ignores that, as nohup does.

    Windows says SIGBREAK where a console is closed, its user logs off or the machine shuts down.
    """
    gone = [getattr(signal, name) for name in ("SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    heard = (one for one in gone if signal.getsignal(one) is not signal.SIG_IGN)
    return (signal.SIGINT, signal.SIGTERM, *heard)


class StopSignals:
    """While entered, the first of them is noted and told to ``tell``; a second one is noted no more.

    ``number`` is the signal that came, 0 while none has. For the main thread only.
    """

    def __init__(self) -> None:
        self.number = 0
        self._tell: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in stop_signals():
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def tell(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` when a signal comes, or at once if one has come already."""
        self._tell = stop
        if self.number:
            stop()

    @property
    def exit_code(self) -> int:
        """128 + the signal, as a shell reports it; 0 if none came."""
        return 128 + self.number if self.number else 0

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if not self.number:
            self.number = number
            if self._tell is not None:
                self._tell()
