"""The capture ring: what stands in it, and that neither time, memory nor disk is ever exceeded for it."""

import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.line import Refused
from edge_runtime.sinks.capture_ring import CaptureRing, open_capture
from edge_runtime.spec.capture import MIN_BYTES, CaptureConfig
from edge_runtime.spec.capture_file import CaptureHead, CaptureLine
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.reading import Rejection
from tests.rig import tiny

SECOND = 1_000_000_000
WALL = 1_738_105_200 * SECOND


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def ring_in(
    folder: Path, manifest: Manifest | None = None, clock: Clock | None = None, **config: object
) -> CaptureRing:
    return open_capture(
        CaptureConfig.model_validate({"every": 1} | config), line="tiny", state=folder, manifest=manifest or tiny.manifest(),
        digest="d" * 64, run_id="run1", mono_ns=clock or Clock(),
    )  # fmt: skip


def play(ring: CaptureRing, rows: int, *, first: int = 0, turns: int = 1) -> None:
    line = tiny.line(choose=ring.choose)
    for row in range(first, first + rows):
        line.feed(b"%d,%d,1\n" % (1000 + 10 * row, row % 40), 0)
        if row % turns == 0:
            line.run()
            ring.take(line.take_captured(), line.take_refused(), WALL)
    line.run()
    ring.take(line.take_captured(), line.take_refused(), WALL)


def lines(path: Path) -> list[dict]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_a_line_holds_frame_window_answer_and_why_under_a_head_that_says_whose_they_are(tmp_path: Path) -> None:
    ring = ring_in(tmp_path)
    play(ring, 3)
    ring.close()
    ring.close()
    head, first, second = (tmp_path / "tiny.capture.jsonl").read_bytes().splitlines()
    said = CaptureHead.model_validate_json(head)
    assert (said.line, said.bundle, said.version, said.digest, said.length) == ("tiny", "tiny", "1.0.0", "d" * 64, 2)
    assert [(one.name, one.unit, one.width) for one in said.channels] == [("a", "Cel", 1), ("b", "%", 1)]
    one = CaptureLine.model_validate_json(first)
    assert one.why == ("nth",)
    assert b64decode(one.raw) == b"1010,1,1"
    assert np.frombuffer(one.window_bytes, "<f8").tolist() == [0.0, 1.0, 1.0, 1.0]
    assert one.answer is not None
    assert (one.answer["seq"], one.answer["mean"]["unit"], one.answer["run"]) == (0, "Cel", "run1")
    assert len(one.answer["id"]) == 20
    assert one.answer["time"] == "1970-01-01T00:16:50Z"
    assert CaptureLine.model_validate_json(second).answer != one.answer


def test_refused_samples_are_kept_whole_where_asked(tmp_path: Path) -> None:
    refused = [Refused(Rejection("missing", "b", "nothing", "a number"), "s", b"\xff\x00" * 400)]
    for wanted in (False, True):
        ring = ring_in(tmp_path / str(wanted), refused=wanted)
        ring.take([], refused, WALL)
        ring.close()
    assert not (tmp_path / "False").exists()
    _, kept = lines(tmp_path / "True" / "tiny.capture.jsonl")
    assert b64decode(kept.pop("raw")) == b"\xff\x00" * 400
    assert kept == {"why": ["refused"], "time": "2025-01-28T23:00:00Z", "stream": "s", "reason": "missing"}


def test_no_more_than_so_many_a_minute_and_the_others_are_counted(tmp_path: Path) -> None:
    clock = Clock()
    ring = ring_in(tmp_path, clock=clock, a_minute=5)
    play(ring, 21)
    ring.flush()
    assert ring.status().startswith("5 samples kept, 15 passed over. They hold measurements: ")
    clock.now = 60 * SECOND
    play(ring, 3, first=100)
    ring.close()
    assert ring.status().startswith("7 samples kept, 15 passed over")
    assert len(lines(tmp_path / "tiny.capture.jsonl")) == 8


@pytest.mark.parametrize("turns", [1, 50])
def test_it_keeps_to_its_room_on_disk_and_the_newest_stay(tmp_path: Path, turns: int) -> None:
    clock = Clock()
    ring = ring_in(tmp_path, clock=clock, max_bytes=MIN_BYTES, a_minute=60_000)
    for first in range(0, 1000, 4):
        play(ring, 4, first=first, turns=turns)
        ring.flush()
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= MIN_BYTES
    ring.close()
    older, newer = lines(tmp_path / "tiny.capture.jsonl.1"), lines(tmp_path / "tiny.capture.jsonl")
    assert "schema" in older[0]
    assert "schema" in newer[0]
    assert b64decode(newer[-1]["raw"]) == b"10990,39,1"


def test_what_waits_is_bounded_too(tmp_path: Path) -> None:
    """A disk may be slow, and a flush a second away: the memory must not grow meanwhile."""
    ring = ring_in(tmp_path, max_bytes=MIN_BYTES, a_minute=60_000)
    play(ring, 500)
    assert ring._waiting_bytes <= MIN_BYTES // 2
    assert ring.passed_over > 300
    ring.close()
    assert len(lines(tmp_path / "tiny.capture.jsonl")) + ring.passed_over == 500


def test_a_frame_that_is_larger_than_the_ring_is_passed_over(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, max_bytes=MIN_BYTES, refused=True)
    ring.take([], [Refused(Rejection("too_long", "f", "x", "y"), "", b"x" * MIN_BYTES)], WALL)
    ring.close()
    assert ring.passed_over == 1
    assert not list(tmp_path.iterdir())


def test_a_disk_that_takes_nothing_is_counted_and_never_raised(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    ring = ring_in(tmp_path / "state")
    play(ring, 3)
    ring.flush()
    assert ring.status().startswith("0 samples kept, 2 lost: ")
    (tmp_path / "state").unlink()
    play(ring, 2, first=50)
    ring.close()
    assert ring.status().startswith("1 samples kept, 2 lost: ")


def test_a_ring_that_could_not_hold_one_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"line tiny, capture.max_bytes: found 65536; expected \d+ at least: one"
    ):
        ring_in(tmp_path, tiny.manifest(length=5000), max_bytes=MIN_BYTES)
