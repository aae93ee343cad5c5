"""What every boot inside the tests' own process needs: not to be judged by its size or load, and not to wait."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from edge_runtime.run import latency, memory_checks


@pytest.fixture(autouse=True)
def process_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As small as a device's, and without pauses; a process of its own is judged where `selftest` runs as one."""
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: 60.0)
    monkeypatch.setattr(latency, "kernel_clock", _hot_clock)


@contextmanager
def _hot_clock(_processes: Sequence[int] = ()) -> Iterator[latency.Clock]:
    yield latency.Clock(time.perf_counter, lambda _: None, lambda: 0.0)
