"""Waiting for something another thread does; a bound, never a measurement."""

import threading
from collections.abc import Callable

PATIENCE_S = 20.0
"""Far beyond what anything here needs on a busy machine: reaching it means the thing will not happen."""


def until(happened: Callable[[], bool], wake: threading.Event, what: str) -> None:
    """Return once ``happened()``; asks again at each ``wake``, and now and then. Raises TimeoutError."""
    turns = int(PATIENCE_S / 0.02)
    for _ in range(turns):
        if happened():
            return
        wake.wait(0.02)
        wake.clear()
    msg = f"gave up waiting for {what}"
    raise TimeoutError(msg)
