"""What every boot inside the tests' own process needs: not to be judged by how much the tests before have imported."""

import pytest

from edge_runtime.run import checks


@pytest.fixture(autouse=True)
def process_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As small as a device's; what a process of its own takes is judged where `selftest` runs as one."""
    monkeypatch.setattr(checks, "_resident_mb", lambda: 60.0)
