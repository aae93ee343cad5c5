"""The `demo` command: a real station on a simulated serial port, then wrong units; it serves nothing for good.

It goes the way `run` goes, with the same boot and the same lanes; only the cable is simulated and the state is thrown
away.
"""

import json
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from edge_runtime.device.data import data_folder
from edge_runtime.errors import InternalError
from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.config import LoadedConfig, load_config
from edge_runtime.run.lane import Lane
from edge_runtime.run.loop import Loop
from edge_runtime.run.reports import line_of
from edge_runtime.run.setting import make_line_setting
from edge_runtime.run.stall import Stall
from edge_runtime.run.station import Station
from edge_runtime.run.stop_signals import StopSignals
from edge_runtime.run.summary import first_refusals, ledger_text
from edge_runtime.sinks.port import SinkClosed
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.sink import JsonLinesFile
from edge_runtime.spec.source import SerialSource
from edge_runtime.spec.units import conversion, resolve

CHANNEL: Final = "air_temperature"
PATIENCE_S: Final = 30.0
"""How long the line may take over what the station has sent: far beyond what any machine needs."""
_KEPT: Final = "answers.jsonl"


class _Case(NamedTuple):
    """One line of the demo and what is sent to it; ``told`` says what is wrong, and is empty where nothing is."""

    line: LineConfig
    text: bytes
    told: str = ""
    reason: str = ""


class _Played(NamedTuple):
    """What came of a case: its lane, stopped, and whether the station got to its end."""

    lane: Lane
    whole: bool


def main(_args: Namespace) -> int:
    """Play the station, then its wrong units; 0 only if every window had its answer and every wrong unit none.

    Raises:
        InternalError: it did not go as it should.
        TemporaryError: nothing takes the answers.
        BrokenPipeError: the reader of standard output has left.

    """
    with TemporaryDirectory(prefix="edge-runtime-demo-") as name, StopSignals() as signals:
        try:
            code = _demo(Path(name), signals)
        except SinkClosed as closed:
            raise BrokenPipeError from closed
        if signals.number:
            _say("stopped")
        return signals.exit_code or code


def _demo(state: Path, signals: StopSignals) -> int:
    loaded, cases = _prepare(state)
    bundle = loaded.bundle(loaded.config.line[0]).resolve()
    _say("a weather station in US units on a simulated serial port; no answer before the self-test has passed")
    booted = boot(bundle, make_line_setting(loaded, bundle))
    _say(line_of(booted.report))
    if booted.ready is None:
        return booted.report.failures(frozenset({"required"}))[0].code
    for words in booted.report.facts["conversions"][cases[0].line.name]:
        _say(f"  {words}")
    station, *wrong = cases
    sent = len(station.text.splitlines()) - 1
    frost = 0
    for case in (station, *wrong):
        played = _play(case, booted.ready, state, signals)
        if signals.number:
            return 0
        if case is station:
            frost = _check_answers(played, state / _KEPT, samples=sent, window=_window(booted.ready))
            total = ledger_text(played.lane.line.ledger, pending_answers=0)
        else:
            _check_refusal(case, played, state, sent)
    answers = sent - _window(booted.ready) + 1
    _say(
        f"done: {answers} answers, {frost} of them with a frost warning; {total}. One station, a composite"
        " typical year: a demonstration, no forecast service. Next: edge-runtime selftest, then README.md"
    )
    return 0


def _prepare(state: Path) -> tuple[LoadedConfig, Sequence[_Case]]:
    """The shipped device file with three lines made of its one: right, no unit declared, a wrong one declared."""
    loaded = load_config(data_folder("examples") / "frost" / "device.toml")
    right = loaded.config.line[0]
    text = (data_folder("examples") / "frost" / "station_us_units.csv").read_bytes()
    bound = right.channels[CHANNEL]
    right = right.model_copy(update={"sink": (*right.sink, JsonLinesFile(path=str(state / _KEPT), sync="never"))})
    kelvin, column = _in_kelvin(text, bound.field)
    undeclared = bound.model_copy(update={"field": column, "unit": None})
    cases = (
        _Case(right, text),
        _Case(_wrong(right, "kelvin_undeclared", undeclared, state), kelvin,
              "temperature in kelvin, its unit not declared", "undeclared_unit"),
        _Case(_wrong(right, "fahrenheit_as_kelvin", bound.model_copy(update={"unit": "K"}), state), text,
              "temperature in degF, declared as K", "beyond_physical"),
    )  # fmt: skip
    config = loaded.config.model_copy(update={"state_dir": str(state), "line": tuple(case.line for case in cases)})
    return replace(loaded, config=config), cases


def _wrong(right: LineConfig, name: str, temperature: object, state: Path) -> LineConfig:
    # Its answers, if it gave any, must not stand among the true ones.
    sink = (JsonLinesFile(path=str(state / f"{name}.jsonl"), sync="never"),)
    return right.model_copy(update={"name": name, "channels": {**right.channels, CHANNEL: temperature}, "sink": sink})


def _in_kelvin(text: bytes, column: str) -> tuple[bytes, str]:
    """The same stream from a logger set to kelvin, and the name of its column."""
    a, b = conversion(resolve("[degF]"), resolve("K"))
    renamed = f"{CHANNEL}_K"
    header, *rows = [line.split(",") for line in text.decode("ascii").splitlines()]
    at = header.index(column)
    header[at] = renamed
    for row in rows:
        row[at] = f"{a * float(row[at]) + b:.2f}"
    return "".join(",".join(row) + "\n" for row in [header, *rows]).encode("ascii"), renamed


def _play(case: _Case, ready: ReadyModel, state: Path, signals: StopSignals) -> _Played:
    """Serve one line until the station has sent everything and the line has dealt with it."""
    whole = False
    with Station() as station:
        lane = Lane(
            case.line.model_copy(update={"source": SerialSource(port=station.url)}),
            ready,
            folder=state,
            state=state,
            run_id=token_hex(4),
            wall_ns=time.time_ns,
            mono_ns=time.monotonic_ns,
            event_time=True,
        )
        loop = Loop((lane,), Stall(lane, time.monotonic_ns, _say), time.monotonic_ns)

        def drive() -> None:
            nonlocal whole
            try:
                samples = len(case.text.splitlines()) - 1
                whole = _opened(lane, station) and station.play(case.text) and _taken(lane, station, samples)
            finally:
                loop.stop()

        driver = threading.Thread(target=drive, name="station", daemon=True)
        signals.tell(loop.stop)
        driver.start()
        try:
            loop.run()
        finally:
            station.stop()
            driver.join()
    return _Played(lane, whole)


def _opened(lane: Lane, station: Station) -> bool:
    """Wait until the port is open: what is sent before, opening throws away."""
    until = time.monotonic() + PATIENCE_S
    while f"{station.url} open since" not in lane.source.status():
        if station.rest(0.005) or time.monotonic() > until:
            return False
    return True


def _taken(lane: Lane, station: Station, samples: int) -> bool:
    """Wait until the line has judged ``samples`` and its answers have gone; that they go at all is the loop's to watch."""
    ledger = lane.line.ledger
    until = time.monotonic() + PATIENCE_S
    while ledger.received < samples and time.monotonic() < until:
        if station.rest(0.005):
            return False
    while ledger.published + ledger.refused.total() < ledger.due:
        if station.rest(0.005):
            return False
    return ledger.received >= samples


def _check_answers(played: _Played, kept: Path, *, samples: int, window: int) -> int:
    """Every sample accepted, an answer for each window, and sums that hold; how many answers warn of frost."""
    ledger = played.lane.line.ledger
    answers = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
    due = samples - window + 1
    fine = ledger.accepted == samples and ledger.published == len(answers) == due
    if not (played.whole and fine and ledger.adds_up(pending_samples=0, pending_answers=0)):
        raise _failed(
            f"{len(answers)} answers ({ledger_text(ledger, pending_answers=ledger.due - ledger.published)})",
            f"{due} answers to {samples} samples",
        )
    return sum(answer["low"]["frost"] for answer in answers)


def _check_refusal(case: _Case, played: _Played, state: Path, samples: int) -> None:
    """Every sample refused for the one reason; says the first refusal in the line's own words."""
    ledger = played.lane.line.ledger
    told = list(first_refusals(state / f"{case.line.name}.refused.jsonl"))
    if not played.whole or dict(ledger.rejected) != {case.reason: samples} or ledger.due or len(told) != 1:
        raise _failed(
            f"{case.told}: {ledger_text(ledger, pending_answers=0)}", f"{samples} samples rejected ({case.reason})"
        )
    _say(f"{case.told}: all {samples} samples refused, none answered. {told[0].text}")


def _window(ready: ReadyModel) -> int:
    window = ready.model.manifest.window
    return window.length if window else 1


def _failed(found: str, expected: str) -> InternalError:
    return InternalError(
        subject="demo", found=found, expected=expected,
        todo="run `edge-runtime doctor`, then report this with what it prints",
    )  # fmt: skip


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
