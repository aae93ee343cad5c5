"""Answers that nothing takes end `replay` and `demo`, said before and after a bounded time, by an injected clock."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_runtime.errors import TemporaryError
from edge_runtime.run.stall import PATIENCE_NS, TOLD_NS, Stall
from tests.rig.need import need
from tests.rig.program import PATIENCE_S, ROOT, environment

STATION = ROOT / "examples/frost/station_us_units.csv"
IMPATIENT = """
import sys
from edge_runtime import cli
from edge_runtime.run import stall
stall.PATIENCE_NS = 0
sys.exit(cli.main(sys.argv[1:]))
"""


class Watched:
    """A lane as a stall sees it, a clock that stands where it is put, and what was said."""

    def __init__(self) -> None:
        self.now_ns = 5_000
        self.said: list[str] = []
        self.lane = SimpleNamespace(waiting="answers wait (3): x: full", line=SimpleNamespace(ledger=SimpleNamespace()))
        self.lane.line.ledger.published = 0
        self.stall = Stall(self.lane, lambda: self.now_ns, self.said.append)  # type: ignore[arg-type] # what it reads

    def after(self, time_ns: int) -> None:
        self.now_ns += time_ns
        self.stall()


def test_it_is_said_once_and_then_ends_with_the_reason() -> None:
    watched = Watched()
    watched.after(TOLD_NS - 1)
    assert watched.said == []
    watched.after(1)
    watched.after(1)
    assert watched.said == [
        "answers wait (3): x: full; it goes on once they are taken, and ends after 5 minutes"
    ]  # fmt: skip
    watched.after(PATIENCE_NS - TOLD_NS - 2)
    with pytest.raises(TemporaryError) as caught:
        watched.after(1)
    assert str(caught.value) == (
        "output: found answers wait (3): x: full, for 300 s now; expected answers to go out, at least one in 300 s; "
        "make room, or let the reader read, and start it again"
    )


def test_one_answer_that_goes_out_begins_the_time_anew() -> None:
    watched = Watched()
    for count in range(1, 4):
        watched.after(PATIENCE_NS - 1)
        watched.lane.line.ledger.published = count
        watched.after(1)


def test_a_line_with_nothing_to_send_may_take_for_ever() -> None:
    watched = Watched()
    watched.lane.waiting = ""
    watched.after(10 * PATIENCE_NS)
    watched.lane.waiting = "answers wait (1): x: full"
    watched.after(1)
    assert watched.said == []


@pytest.mark.parametrize("words", [["demo"], ["replay", str(STATION), "--config", str(ROOT / "examples/frost/device.toml")]],
                         ids=lambda words: words[0])  # fmt: skip
def test_a_full_disk_ends_it_with_75_and_one_line(words: list[str], tmp_path: Path) -> None:
    need(Path("/dev/full").exists(), "a device that is always full")
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-c", IMPATIENT, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=environment(tmp_path), cwd=tmp_path, timeout=PATIENCE_S,
        )  # fmt: skip
    assert ran.returncode == 75, ran.stderr
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("edge-runtime: output: found answers wait (")
    assert "): stdout: It takes nothing: No space left on device, for " in last
    assert "Traceback" not in ran.stderr
    assert os.listdir(tmp_path) == []  # noqa: PTH208 -- the names alone
