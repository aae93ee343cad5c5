"""What a line says keeps it from its whole work, as the head of the status shows it."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_runtime.run import lane as lane_module
from edge_runtime.run import serve
from edge_runtime.run.boot import boot
from edge_runtime.run.config import load_config
from edge_runtime.run.lane import Lane
from edge_runtime.run.serve import Service
from edge_runtime.run.setting import make_line_setting
from edge_runtime.run.summary import summary
from edge_runtime.sinks.journal import Journal, JournalFull
from edge_runtime.sources.port import Chunk, Source
from edge_runtime.spec.device_config import JournalConfig
from edge_runtime.spec.result import flag_names
from edge_runtime.spec.sink import JsonLinesFile, Publish
from tests.rig.program import ROOT


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    made = _lane(tmp_path)
    yield made
    made.stop()


def _lane(tmp_path: Path, **more: Any) -> Lane:
    """The shipped line with a journal, and one answer a file may take."""
    loaded = load_config(ROOT / "examples/frost/device.toml")
    update = {"journal": JournalConfig(enabled="on"), "sink": (JsonLinesFile(path=str(tmp_path / "a.jsonl")),)} | more
    line = loaded.config.line[0].model_copy(update=update)
    bundle = loaded.resolve(line.bundle).resolve()
    ready = boot(bundle, make_line_setting(loaded, bundle)).ready
    assert ready is not None
    made = Lane(line, ready, folder=loaded.folder, state=tmp_path, run_id="r", wall_ns=time.time_ns, mono_ns=lambda: 0)
    made.start(SimpleNamespace(set=lambda: None))  # type: ignore[arg-type] # nobody waits
    return made


def test_a_line_without_trouble_says_nothing(lane: Lane) -> None:
    while lane.turn():
        pass
    assert lane.line.ledger.published == 169
    assert (lane.waiting, lane.trouble) == ("", "")


def test_what_is_not_told_is_counted_and_the_ledger_adds_up(tmp_path: Path) -> None:
    lane = _lane(tmp_path, publish=Publish(when="on_change", deadband={"low": 1.0}))
    while lane.turn():
        pass
    ledger, health = lane.line.ledger, lane.health().ledger
    assert ledger.suppressed["unchanged"] > 50
    assert ledger.due == 169 == ledger.published + ledger.suppressed["unchanged"]
    assert health.adds_up
    assert "suppressed (" in next(summary(lane, tmp_path))
    lane.stop()
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == ledger.published
    again = _lane(tmp_path, publish=Publish(when="on_change", deadband={"low": 1.0}))
    assert again.line.ledger.as_dict() == ledger.as_dict()
    again.stop()


def test_a_second_start_knows_the_last_answer_and_counts_only_its_own_duplicates(lane: Lane, tmp_path: Path) -> None:
    while lane.turn():
        pass
    last = lane.health().last_answer
    lane.stop()
    again = _lane(tmp_path)
    again.line.feed((ROOT / "examples/frost/station_us_units.csv").read_bytes(), 0, None)
    assert (again.health().last_answer, again.of_this_start.duplicate) == (last, again.line.ledger.duplicate)
    assert last is not None
    told = list(summary(again, tmp_path))
    assert told[0].endswith("; of this start and those before it")
    assert told[1] == "this start: 192 samples received, 0 accepted, 128 rejected; 0 answers due"
    assert told[2] == f"{again.of_this_start.duplicate} duplicates of samples already answered (state in {tmp_path})"
    again.stop()
    third = _lane(tmp_path)
    assert list(summary(third, tmp_path))[1:] == ["this start: 0 samples received, 0 accepted; 0 answers due"]
    third.stop()


def test_a_journal_that_is_behind_is_told(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise JournalFull(
            subject="frost.journal", found="No space left on device", expected="room", todo="free the disk"
        )

    monkeypatch.setattr(Journal, "commit", full)
    while lane.turn():
        pass
    assert lane.line.ledger.published == 169
    assert lane.trouble == (
        "a restart would lose what came last: frost.journal: found No space left on device; expected room; free the disk"
    )


def test_a_doubt_about_what_is_no_port_speaks_of_no_baud_rate(lane: Lane) -> None:
    lane._feed(Chunk(b"\xff" * 3000, 0, 0, 3000))
    assert lane.health().source.endswith(
        ". No valid frame in 3000 bytes, mostly unprintable: no text, or in another decode.encoding?"
    )


def test_each_line_s_trouble_is_in_the_reason() -> None:
    service: Any = object.__new__(Service)
    service._link = service._node = service._exchange = None
    service._lives = ()
    service._machine = SimpleNamespace(trouble="")
    told = (("a", ""), ("b", "x"), ("c", "y"))
    service._lanes = tuple(SimpleNamespace(name=name, trouble=what) for name, what in told)
    assert service._reason() == "line b: x; line c: y"
    service._lanes = service._lanes[:1]
    assert service._reason() == "every check passed"
    service._machine = SimpleNamespace(trouble="the machine is slowed down: under voltage")
    assert service._reason() == "the machine is slowed down: under voltage"
    service._machine = SimpleNamespace(trouble="")
    service._link = SimpleNamespace(trouble="broker b: not connected")
    assert service._reason() == "broker b: not connected"
    service._node = SimpleNamespace(trouble="Sparkplug node g/e: broker b: not connected")
    assert service._reason() == "Sparkplug node g/e: broker b: not connected; broker b: not connected"


def test_a_node_dies_when_nothing_is_answered_any_more() -> None:
    service: Any = object.__new__(Service)
    done: list[str] = []
    service._node = SimpleNamespace(close=lambda: done.append("died"))
    service._notice = SimpleNamespace(status=done.append)
    service._loaded = SimpleNamespace(config=SimpleNamespace(line=()))
    service._write = lambda *_, **__: None
    assert service._stay_in_error("why", 70, exit_on_refusal=True) == 70
    assert done == ["ERROR: why", "died"]


def test_a_clock_that_is_set_while_serving_is_believed_from_then_on(lane: Lane) -> None:
    said: list[bool | None] = [False]
    lane._ages, lane._clock_synchronised = True, lambda: said[0]
    lane.tick()
    header, *rows = (ROOT / "examples/frost/station_us_units.csv").read_bytes().splitlines(keepends=True)
    lane.line.feed(header + b"".join(rows[:24]), 0, 0)
    said[0] = None
    lane.tick()
    lane.line.feed(rows[24], 0, 0)
    lane.line.run()
    assert ["clock_unsynced" in flag_names(one.flags) for one in lane.line.take_answers()] == [True, False]


def test_a_machine_that_is_slowed_down_flags_what_is_live_and_no_played_file(lane: Lane) -> None:
    header, *rows = (ROOT / "examples/frost/station_us_units.csv").read_bytes().splitlines(keepends=True)
    lane.judge_by_machine(throttled=True)
    lane.line.feed(header + b"".join(rows[:24]), 0, 0)
    lane._ages = True
    for row, throttled in zip(rows[24:27], (True, True, False), strict=True):
        lane.judge_by_machine(throttled=throttled)
        lane.line.feed(row, 0, 0)
    lane.line.run()
    found = ["throttled" in flag_names(one.flags) for one in lane.line.take_answers()]
    assert found == [False, True, True, False]


def test_what_stands_still_is_probed_at_once_and_then_not_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    service: Any = object.__new__(Service)
    now, probed = [1], list[int]()
    monkeypatch.setattr(serve, "time", SimpleNamespace(monotonic_ns=lambda: now[0]))
    live = SimpleNamespace(is_suspect=False, probe=lambda: probed.append(now[0] // 1_000_000_000) or "")  # type: ignore[func-returns-value]
    service._lanes, service._lives, service._loaded = (), (live,), SimpleNamespace(config=SimpleNamespace(probe_s=60))
    service._probe_ns, service._suspect_ns, service._unusable = 60_000_000_000, 0, 0
    for second in range(1, 30):
        now[0], live.is_suspect = second * 1_000_000_000, second >= 5
        service._prove()
    assert probed == [5, 15, 25]
    live.is_suspect = False
    for second in range(30, 90):
        now[0] = second * 1_000_000_000
        service._prove()
    assert probed == [5, 15, 25, 85], "the schedule goes on from the last one"


def test_the_service_looks_at_the_machine_and_says_when_that_changes(
    lane: Lane, capsys: pytest.CaptureFixture[str]
) -> None:
    service: Any = object.__new__(Service)
    said = iter(["", "the machine is slowed down: under voltage", "the machine is slowed down: throttled", ""])
    service._machine = SimpleNamespace(trouble="", look=lambda: setattr(service._machine, "trouble", next(said)))
    service._lanes = (lane,)
    lane._ages = True
    flagged = []
    for _ in range(4):
        service._look_at_machine()
        flagged.append(lane.line._machine_flag != 0)
    assert flagged == [False, True, True, False]
    assert capsys.readouterr().err.splitlines() == [
        "edge-runtime: the machine is slowed down: under voltage; answers are flagged throttled",
        "edge-runtime: the machine is slowed down no longer",
    ]


def test_silence_turns_fresh_off_and_never_ready(tmp_path: Path) -> None:
    """Three of the contract's periods, by the monotonic clock; refused samples are no news either."""
    lane = _lane(tmp_path)
    now = [0]
    lane._mono_ns = lambda: now[0]
    service: Any = object.__new__(Service)
    service._lanes, service._run_id, service._profile, service._tests = (lane,), "r", None, ()
    service._machine = SimpleNamespace(state=None)

    def signals() -> tuple[bool, bool]:
        health = service._health("OPERATIONAL", "every check passed", ready=True, live=True, stopped=False)
        return health.ready, health.fresh

    assert signals() == (True, False)
    header, *rows = (ROOT / "examples/frost/station_us_units.csv").read_bytes().splitlines(keepends=True)
    lane._feed(Chunk(header + rows[0], 0, 0, 0))
    assert signals() == (True, True)
    now[0] = 3 * 3600 * 10**9 - 1
    assert signals() == (True, True)
    now[0] += 1
    assert signals() == (True, False)
    lane._feed(Chunk(rows[1].replace(b",", b",x", 1), 0, 0, 0))
    assert lane.line.ledger.rejected.total() == 1
    assert signals() == (True, False)
    lane._feed(Chunk(rows[2], 0, 0, 0))
    assert signals() == (True, True)
    lane.stop()


@pytest.mark.parametrize(
    ("chunks", "counted"),
    [
        ([(b"92,29.5\n", True)], 1),
        ([(b"92,2", True), (b"9.5\n", False)], 1),
        ([(b"\r\n", True)], 0),  # the connection began between two lines: nothing was passed over
        ([(b"9.5\n", True), (b"7.5\n", True)], 2),
        ([(b"9", True)], 0),  # its end has not come
    ],
)
def test_the_line_that_a_connection_began_in_is_counted(
    lane: Lane, chunks: list[tuple[bytes, bool]], counted: int
) -> None:
    for data, fresh in chunks:
        lane._feed(Chunk(data, 0, 0, len(data), 0, fresh))
    assert lane.line.ledger.samples_dropped["joined_midway"] == counted == lane.line.ledger.received
    lane._feed(Chunk(b"\n", 0, 0, 1))
    assert lane.health().ledger.adds_up


def test_half_a_line_before_a_stream_that_begins_anew_is_counted(lane: Lane) -> None:
    for data in (b"9.5", b"9.5\n", b"9.5\n"):  # the second and the third are whole: they are headers
        lane._feed(Chunk(data, 0, 0, len(data), anew=True))
    assert lane.line.ledger.samples_dropped["cut_short"] == 1
    assert lane.health().ledger.adds_up


def test_lost_bytes_cost_a_line_that_is_counted_too(lane: Lane) -> None:
    lane._feed(Chunk(b"9.5\n", 0, 0, 4, lost_before=100))
    assert lane.line.ledger.samples_dropped["joined_midway"] == 1


def test_a_source_is_told_how_long_the_contract_lets_its_bytes_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    told: list[int] = []

    def gather_ns(_manifest: object, *, timed_by_arrival: bool) -> int:
        asked.append(timed_by_arrival)
        return 5

    def make_source(*given: Any, gather_ns: int, **more: Any) -> Source:
        told.append(gather_ns)
        return source(*given, **more)

    source = lane_module.make_source
    monkeypatch.setattr(lane_module, "gather_ns", gather_ns)
    monkeypatch.setattr(lane_module, "make_source", make_source)
    decode = load_config(ROOT / "examples/frost/device.toml").config.line[0].decode
    _lane(tmp_path / "own").stop()
    _lane(tmp_path / "arrival", decode=decode.model_copy(update={"time": None})).stop()
    assert (asked, told) == ([False, True], [5, 5])
