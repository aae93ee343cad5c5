"""What every test may ask for, and the long tests left out of a plain run; no fixture of one area stands here."""

from collections.abc import Callable

import pytest
from hypothesis import settings

from tests.rig.need import need as need_or_skip

# A deadline is a timed assertion, which says more of the machine than of the code.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

_left_out = pytest.StashKey[int]()


@pytest.fixture
def need() -> Callable[[object, str], None]:
    """`need(condition, what)`: skip with the reason, or fail under CI=true."""
    return need_or_skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.stash[_left_out] = len(long)
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = config.stash.get(_left_out, 0)
    if count:
        terminalreporter.write_line(f"left out: {count} tests marked long, minutes each; scripts/full runs them")
