"""`demo` as a newcomer starts it: a real process, a simulated cable, nothing but answers on standard output."""

import json
import os
import signal
from pathlib import Path

import pytest

from edge_runtime.errors import InternalError
from edge_runtime.run import demo, station
from tests.rig.program import PATIENCE_S, run_program, start_program

WINDOWS = 169


def test_one_answer_for_each_window_and_none_for_wrong_units(tmp_path: Path) -> None:
    ran = run_program("demo", home=tmp_path)
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [answer["seq"] for answer in answers] == list(range(WINDOWS))
    assert len({answer["id"] for answer in answers}) == WINDOWS
    assert {answer["low"]["unit"] for answer in answers} == {"Cel"}
    assert all((answer["low"]["value"] < 2.0) <= answer["low"]["frost"] for answer in answers)
    assert "age_s" not in answers[0]
    *_, undeclared, wrong, last = ran.stderr.splitlines()
    assert undeclared == (
        "temperature in kelvin, its unit not declared: all 192 samples refused, none answered. channel air_temperature:"
        " found no declared unit; expected the unit its numbers are in; declare what the sender sends in device.toml,"
        ' e.g. channels.air_temperature.unit = "Cel" where it is Cel'
    )
    assert wrong == (
        "temperature in degF, declared as K: all 192 samples refused, none answered. channel air_temperature: found"
        " 19.94 (K), which is -253.21 Cel; expected -60 to 60 Cel; the value fits [degF] or Cel: check what the sensor is set"
        " to"
    )
    frost = sum(answer["low"]["frost"] for answer in answers)
    assert last.startswith(
        f"done: 169 answers, {frost} of them with a frost warning; samples: 192 received = 192 accepted;"
        " answers: 169 due = 169 published. One station, a composite typical year: a demonstration, no forecast service."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [], "the state of a demonstration is thrown away"


def test_a_reader_that_leaves_early_costs_no_traceback(tmp_path: Path) -> None:
    started = start_program("demo", home=tmp_path)
    assert started.stdout
    assert started.stderr
    assert json.loads(started.stdout.readline())["seq"] == 0
    started.stdout.close()
    told = started.stderr.read().decode()
    assert started.wait(PATIENCE_S) == 141
    started.stderr.close()
    assert "Traceback" not in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_the_middle_stops_it_cleanly(number: signal.Signals, code: int, tmp_path: Path) -> None:
    started = start_program("demo", home=tmp_path)
    assert started.stdout
    first = started.stdout.readline()
    started.send_signal(number)
    rest, told = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == code
    answers = [json.loads(line) for line in [first, *rest.splitlines()]]
    assert [answer["seq"] for answer in answers] == list(range(len(answers)))
    assert told.decode().splitlines()[-1] == "stopped"
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_terminals_gets_a_tcp_serial_server(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_terminal() -> tuple[int, int]:
        raise FileNotFoundError(2, "No such file or directory", "/dev/ptmx")

    monkeypatch.setattr(os, "openpty", no_terminal)
    with station.Station() as tried:
        assert tried.url.startswith("socket://127.0.0.1:")
    assert demo.main(None) == 0  # type: ignore[arg-type] # it takes no word
    assert len(capfd.readouterr().out.splitlines()) == WINDOWS


def test_a_station_that_is_not_answered_in_full_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    send = station.Station.play
    monkeypatch.setattr(demo, "PATIENCE_S", 0.3)
    monkeypatch.setattr(station.Station, "play", lambda self, text: send(self, text[: len(text) // 2]))
    with pytest.raises(InternalError, match="expected 169 answers to 192 samples"):
        demo.main(None)  # type: ignore[arg-type] # it takes no word
