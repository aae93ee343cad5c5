"""Counts what conformed and says it in plain lines at the end of the run; it tests nothing."""

from collections.abc import Callable

import pytest

_SAID = pytest.StashKey[list[str]]()
_HERE = "tests/conformance/"


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`tell(words)`: a line for the end of the run, whether the test goes on to pass or not."""
    return request.config.stash.setdefault(_SAID, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = {
        outcome: sum(
            report.nodeid.startswith(_HERE) and (report.when == "call" or outcome != "passed")
            for report in terminalreporter.stats.get(outcome, [])
            if isinstance(report, pytest.TestReport)
        )
        for outcome in ("passed", "failed", "error", "skipped")
    }
    total = sum(counts.values())
    if not total:
        return
    rest = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count and outcome != "passed")
    terminalreporter.write_line(
        f"conformance: {counts['passed']} of {total} tests hold on models and recordings nobody here wrote"
        + (f"; {rest}" if rest else "")
    )
    for words in config.stash.get(_SAID, []):
        terminalreporter.write_line(f"conformance: {words}")
