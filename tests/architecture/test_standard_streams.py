"""Standard streams that are closed, full or left, as a real process meets them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
REPOSITORY = Path(__file__).parents[2]


def run(words: str, streams: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m edge_runtime {words} {streams}"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "streams", "code"),
    [
        ("--version", ">&-", 141),
        ("--version", "2>&-", 0),
        ("--version", "<&- >&- 2>&-", 141),
        ("inspect bundles/frost", ">&-", 141),
        ("selftest --bundle bundles/frost", ">&-", 0),
        ("selftest --bundle bundles/frost", "<&- >&- 2>&-", 0),
        ("nonsense", "<&- >&- 2>&-", 2),
    ],
)
def test_a_closed_stream_is_one_whose_other_end_has_left(words: str, streams: str, code: int) -> None:
    done = run(words, streams)
    assert done.returncode == code, done.stderr
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_answers_never_go_down_what_took_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    state = f"STATE_DIRECTORY={tmp_path}"
    done = subprocess.run(
        ["sh", "-c", f"{state} exec {sys.executable} -m edge_runtime run --config examples/frost/device.toml >&-"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 75
    assert "a pipe whose reader has gone" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full disk")
@pytest.mark.parametrize("words", ["--version", "inspect bundles/frost", "doctor"])
def test_a_full_standard_output_is_one_line(words: str) -> None:
    done = run(words, ">/dev/full")
    assert (done.returncode, len(done.stderr.splitlines())) == (69, 1)
    assert "standard output: found No space left" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full disk")
def test_a_full_log_stops_no_work() -> None:
    assert run("selftest --bundle bundles/frost", "2>/dev/full").returncode == 0
    assert run("nonsense", "2>/dev/full").returncode == 2
