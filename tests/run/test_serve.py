"""`run` as a supervisor sees it: real processes, a simulated serial port, signals, refused bundles, readers that leave."""

import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from edge_runtime.spec.crc import CATALOGUE, crc_function
from tests.rig.need import need
from tests.rig.program import PATIENCE_S, ROOT, command, environment, run_program, start_program
from tests.rig.pty_device import PtyDevice
from tests.rig.wait import until

LINES = (ROOT / "examples/frost/station_us_units.csv").read_bytes().splitlines(keepends=True)
WARM_UP = 23
_PACKETS = """\
schema = "edge-runtime/device/1"
[[line]]
name = "dewpoint"
bundle = "{bundle}"
source = {{ kind = "serial", port = "tty", reopen_max_s = 0.2 }}
sink = [{{ kind = "stdout" }}]
[line.framing]
kind = "packet"
sync = "aa 55"
length = {{ type = "uint8" }}
crc = {{ name = "crc-16/modbus", byte_order = "little" }}
crc_covers = "payload"
[line.decode]
format = "struct"
byte_order = "big"
fields = [{{ name = "t", type = "int16" }}, {{ name = "rh", type = "uint8" }}, {{ name = "p", type = "float32" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel", correction = {{ a = 0.01, date = 2026-03-01 }} }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a device file for a station on the serial port ``tty`` beside it, and a bundle of its own."""
    text = (ROOT / "examples/frost/device.toml").read_text()
    serial = f'kind = "serial"\nport = "{tmp_path / "tty"}"\nreopen_max_s = 0.2'
    text = text.replace('kind = "replay"\npath = "station_us_units.csv"', serial).replace("../../bundles/", "")
    (tmp_path / "device.toml").write_text(text)
    shutil.copytree(ROOT / "bundles/frost", tmp_path / "frost")
    return tmp_path


@contextmanager
def _running(site: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    started = start_program("run", *words, home=site, cwd=site)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def _status(site: Path) -> dict[str, object]:
    try:
        return json.loads(next((site / "run").rglob("status.json")).read_bytes())
    except (StopIteration, FileNotFoundError):
        return {}


def _status_says(site: Path, text: str) -> None:
    until(lambda: text in json.dumps(_status(site)), threading.Event(), f"a status with {text!r}")


@pytest.mark.skipif(os.name == "nt", reason="a pseudo-terminal is no thing of Windows")
def test_sigterm_answers_what_was_taken_and_a_restart_goes_on(site: Path) -> None:
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    seen = []
    with PtyDevice(site / "tty") as device:
        for part, accepted in ((LINES[:61], 60), (LINES[61:101], 100)):
            with _running(site) as started:
                _status_says(site, f'"pid": {started.pid}')
                _status_says(site, "open since")
                device.write(b"\n" + b"".join(part))
                assert started.stdout
                first = started.stdout.readline()
                _status_says(site, f'"accepted": {accepted}')
                started.send_signal(signal.SIGTERM)
                rest, told = started.communicate(timeout=PATIENCE_S)
            assert started.returncode == 0, told
            seen += [json.loads(line) for line in [first, *rest.splitlines()]]
            assert (_status(site)["live"], _status(site)["stopped"]) == (False, True)
            asked = run_program("status", home=site, cwd=site)
            assert (asked.returncode, asked.stderr) == (0, "")
            assert re.match(r"stopped in order at \S+; until then OPERATIONAL: every check passed\n", asked.stdout)
    assert [answer["seq"] for answer in seen] == list(range(100 - WARM_UP))
    assert [answer["seq"] for answer in seen if "restarted" in answer["flags"]] == [60 - WARM_UP]


def test_a_refused_bundle_leaves_it_up_in_error_saying_why(site: Path) -> None:
    model = site / "frost/model_int8.onnx"
    model.write_bytes(model.read_bytes() + b"x")
    with _running(site) as started:
        _status_says(site, '"state": "ERROR"')
        asked = run_program("status", home=site, cwd=site)
        assert asked.stdout.startswith("ERROR: ")
        assert "files: bundle" in asked.stdout
        assert "model_int8.onnx with other content" in asked.stdout
        started.send_signal(signal.SIGTERM)
        answers, told = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, answers) == (0, b"")
    asked = run_program("status", home=site, cwd=site)
    assert asked.returncode == 0
    assert re.match(r"stopped in order at \S+; until then ERROR: .*model_int8.onnx with other content", asked.stdout)
    assert told.decode().splitlines()[-1] == (
        "edge-runtime: staying up in ERROR and publishing nothing, so that edge-runtime status can say why: a sensor stands"
        " behind line frost (serial); Ctrl-C or SIGTERM ends it, and --exit-on-refusal leaves at once"
    )


def test_a_refused_bundle_ends_it_where_that_is_asked_for(site: Path) -> None:
    (site / "frost/golden.npz").unlink()
    ran = run_program("run", "--exit-on-refusal", home=site, cwd=site)
    assert (ran.returncode, ran.stdout) == (65, "")
    assert "FAILED: " in ran.stderr
    assert "golden.npz" in ran.stderr


def _fed_by(site: Path, source: str) -> None:
    path = site / "device.toml"
    text = re.sub(r'kind = "serial"\nport = .*\nreopen_max_s = 0.2', source, path.read_text())
    path.write_text(text)


REFUSALS = {"bundle": 65, "device": 69, "unit": 78}


def _refuse(site: Path, what: str) -> None:
    path = site / "device.toml"
    match what:
        case "bundle":
            (site / "frost/golden.npz").unlink()
        case "device":
            other = "generic_x86" if platform.machine() == "aarch64" else "generic_arm64"
            path.write_text(f'profile = "{other}"\n{path.read_text()}')
        case _:
            path.write_text(path.read_text().replace("[degF]", "hPa"))


@pytest.mark.parametrize("source", ['kind = "stdin"', 'kind = "replay"\npath = "station.csv"'], ids=["stdin", "replay"])
@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal_ends_it_where_every_source_ends_by_itself(site: Path, what: str, source: str) -> None:
    _fed_by(site, source)
    (site / "station.csv").write_bytes(b"".join(LINES))
    _refuse(site, what)
    with (site / "station.csv").open("rb") as piped:
        ran = run_program("run", home=site, cwd=site, stdin=piped)
    assert (ran.returncode, ran.stdout) == (REFUSALS[what], ""), ran.stderr
    assert ran.stderr.splitlines()[0].startswith("edge-runtime: FAILED: ")
    assert ran.stderr.splitlines()[-1] == (
        f"edge-runtime: publishing nothing and leaving with exit code {REFUSALS[what]}: "
        "no sensor stands behind any line, each source ends by itself"
    )
    asked = run_program("status", home=site, cwd=site)
    assert asked.returncode == 0
    assert re.match(r"stopped in order at \S+; until then ERROR: ", asked.stdout)


def test_a_program_that_feeds_a_refused_line_meets_a_closed_pipe(site: Path) -> None:
    _fed_by(site, 'kind = "stdin"')
    _refuse(site, "unit")
    words, around = command("run"), environment(site)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=site, env=around, bufsize=0) as ran:
        assert ran.stdin
        writer = iter(partial(ran.stdin.write, LINES[1]), 0)
        with pytest.raises(BrokenPipeError):
            list(writer)
        assert ran.wait(PATIENCE_S) == 78


def test_a_sensor_behind_one_of_two_lines_keeps_a_refused_device_up(site: Path) -> None:
    path = site / "device.toml"
    line = path.read_text().partition("[[line]]")[2]
    piped = re.sub(r'kind = "serial"\nport = .*\nreopen_max_s = 0.2', 'kind = "stdin"', line)
    path.write_text(path.read_text() + "\n[[line]]" + piped.replace('"frost"', '"piped"', 1).replace("[degF]", "hPa"))
    with _running(site) as started:
        _status_says(site, '"state": "ERROR"')
        started.send_signal(signal.SIGINT)
        answers, told = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, answers) == (0, b"")
    assert "a sensor stands behind line frost (serial); Ctrl-C or SIGTERM ends it" in told.decode().splitlines()[-1]


def test_every_channel_that_does_not_convert_is_told(site: Path) -> None:
    _fed_by(site, 'kind = "stdin"')
    path = site / "device.toml"
    path.write_text(path.read_text().replace("[degF]", "hPa").replace("[mi_i]/h", "Cel"))
    ran = run_program("run", home=site, cwd=site)
    assert ran.returncode == 78
    told = ran.stderr.splitlines()[0]
    assert "bindings: channel air_temperature, unit: found 'hPa'; expected a unit that converts to Cel; " in told
    assert "; also channel wind_speed, unit: found 'Cel'; expected a unit that converts to m/s; " in told
    looked = run_program("doctor", "--config", "device.toml", home=site, cwd=site)
    assert looked.returncode == 1
    assert looked.stdout.count("Fail    channels of line frost: channel ") == 2


def test_mistakes_of_the_file_are_a_line_each(site: Path) -> None:
    path = site / "device.toml"
    path.write_text(path.read_text().replace("[degF]", "F").replace("[mi_i]/h", "mph"))
    for words in (("run",), ("selftest", "--config", "device.toml")):
        ran = run_program(*words, home=site, cwd=site)
        assert (ran.returncode, ran.stdout) == (78, "")
        assert [line.split("; ")[0] for line in ran.stderr.splitlines()] == [
            "edge-runtime: device.toml, line[0].channels.air_temperature.unit: found 'F'",
            "edge-runtime: device.toml, line[0].channels.wind_speed.unit: found 'mph'",
        ]


def test_a_wrong_dimension_is_refused_at_boot(site: Path) -> None:
    path = site / "device.toml"
    path.write_text(path.read_text().replace('unit = "[mi_i]/h"', 'unit = "hPa"'))
    ran = run_program("run", "--exit-on-refusal", home=site, cwd=site)
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "bindings: channel wind_speed, unit: found 'hPa'" in ran.stderr


def test_the_answers_a_reader_left_behind_come_after_the_restart(site: Path) -> None:
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    with PtyDevice(site / "tty") as device:
        with _running(site) as started:
            _status_says(site, "open since")
            device.write(b"\n" + b"".join(LINES[:41]))
            assert started.stdout
            seen = [json.loads(started.stdout.readline()) for _ in range(40 - WARM_UP)]
            _status_says(site, '"accepted": 40')
            started.stdout.close()
            device.write(b"".join(LINES[41:61]))
            assert started.wait(PATIENCE_S) == 75
            assert started.stderr
            told = started.stderr.read().decode()
        assert "stdout: found a pipe whose reader has gone" in told
        assert "Traceback" not in told
        with _running(site) as again:
            _status_says(site, f'"pid": {again.pid}')
            _status_says(site, "open since")
            assert again.stdout
            seen += [json.loads(again.stdout.readline())]
            taken = _status(site)["lines"][0]["ledger"]["counts"]["samples"]["accepted"]
            again.send_signal(signal.SIGTERM)
            rest, _ = again.communicate(timeout=PATIENCE_S)
    seen += [json.loads(line) for line in rest.splitlines()]
    # How many of the twenty had been read when the pipe turned out closed is chance; each of those has its answer.
    assert [answer["seq"] for answer in seen] == list(range(taken - WARM_UP))
    assert taken > 40


@pytest.mark.skipif(os.name == "nt", reason="a pseudo-terminal is no thing of Windows")
def test_answers_that_no_disk_takes_head_the_status_while_it_serves_on(site: Path) -> None:
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    need(Path("/dev/full").exists(), "a device that is always full")
    (site / "full.jsonl").symlink_to("/dev/full")
    path = site / "device.toml"
    path.write_text(path.read_text().replace('kind = "stdout"', 'kind = "jsonl"\npath = "full.jsonl"'))
    with PtyDevice(site / "tty") as device, _running(site) as started:
        _status_says(site, "open since")
        device.write(b"\n" + b"".join(LINES[:41]))
        _status_says(site, '"accepted": 40')
        _status_says(site, "answers wait (17)")
        asked = run_program("status", home=site, cwd=site)
        assert asked.returncode == 0
        assert asked.stdout.startswith(
            "OPERATIONAL: line frost: answers wait (17): jsonl full.jsonl: "
            f"{site}/full.jsonl takes nothing: No space left on device\n"
        )
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 0
    asked = run_program("status", home=site, cwd=site)
    assert re.match(r"stopped in order at \S+; until then OPERATIONAL: line frost: answers wait \(17\)", asked.stdout)


@pytest.mark.skipif(os.name == "nt", reason="a pseudo-terminal is no thing of Windows")
def test_bytes_that_never_end_a_line_are_told(site: Path) -> None:
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    with PtyDevice(site / "tty") as device, _running(site) as started:
        _status_says(site, f'"pid": {started.pid}')
        _status_says(site, "open since")
        device.write(b"x" * 5000)
        _status_says(site, "No line end in 5000 bytes")


@pytest.mark.skipif(os.name == "nt", reason="a pseudo-terminal is no thing of Windows")
def test_packets_over_a_port_are_answered_and_so_are_those_after_a_replug(site: Path) -> None:
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    (site / "device.toml").write_text(_PACKETS.format(bundle=ROOT / "bundles/dewpoint"))
    crc = crc_function(CATALOGUE["crc-16/modbus"][0])

    def packet(celsius: int) -> bytes:
        body = struct.pack(">hBf", celsius * 100, 50, 1013.0)
        return b"\xaa\x55\x07" + body + crc(body).to_bytes(2, "little")

    with PtyDevice(site / "tty") as device, _running(site) as started:
        _status_says(site, f'"pid": {started.pid}')
        _status_says(site, "open since")
        device.write(bytes(b ^ 1 for b in packet(20)) * 250)
        _status_says(site, "No valid frame in 3000 bytes: wrong baud rate or parity, or another framing?")
        device.write(b"\x55" + packet(20) + packet(20)[:-1] + packet(21))
        _status_says(site, '"accepted": 2')
        assert "No valid frame" not in json.dumps(_status(site))
        device.replug()
        _status_says(site, '"reopened": 1')
        device.write(packet(22)[5:] + packet(22))
        _status_says(site, '"accepted": 3')
        started.send_signal(signal.SIGTERM)
        answers, told = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 0, told
    dewpoints = [json.loads(line)["dew_point"]["value"] for line in answers.splitlines()]
    assert dewpoints == pytest.approx([9.3, 10.2, 11.1], abs=1.0)
    letters = (site / "state/dewpoint.refused.jsonl").read_text().splitlines()
    assert {json.loads(line)["reason"] for line in letters} == {"bad_frame", "bad_checksum"}


@pytest.mark.skipif(
    os.name == "nt" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="needs a terminal's hang-up"
)
def test_a_terminal_that_goes_away_is_an_orderly_stop(site: Path) -> None:
    need(Path("/dev/ptmx").exists(), "pseudo-terminals")
    with PtyDevice(site / "tty"), _running(site) as started:
        _status_says(site, f'"pid": {started.pid}')
        _status_says(site, "open since")
        started.send_signal(signal.SIGHUP)
        _, told = started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 0, told
        assert _status(site)["live"] is False


def test_a_source_that_ends_is_summed_up_and_a_second_run_says_why_it_answers_nothing(site: Path) -> None:
    path = site / "device.toml"
    text = re.sub(
        r'kind = "serial"\nport = .*\nreopen_max_s = 0.2', 'kind = "replay"\npath = "station.csv"', path.read_text()
    )
    path.write_text(text + '\n[line.journal]\nenabled = "on"\n')
    (site / "station.csv").write_bytes(b"".join(LINES[:41]) + LINES[40].replace(LINES[40].split(b",")[1], b"cold"))
    ran = run_program("run", home=site, cwd=site)
    assert ran.returncode == 0, ran.stderr
    assert "edge-runtime: line frost: samples: 41 received = 40 accepted + 1 rejected" in ran.stderr
    assert re.search(r"edge-runtime: line frost: first not_a_number: .*found 'cold'; expected a number", ran.stderr)
    assert "duplicates" not in ran.stderr
    with (site / "station.csv").open("ab") as file:
        file.write(b"".join(LINES[31:41]))
    again = run_program("run", home=site, cwd=site)
    assert "edge-runtime: line frost: 10 duplicates of samples already answered (state in " in again.stderr
    assert again.stdout == ""
    assert again.returncode == 0, "what was answered before was not refused"
    assert "; of this start and those before it\n" in again.stderr
    assert "edge-runtime: line frost: this start: 10 samples received, 0 accepted; 0 answers due\n" in again.stderr


def _piped(site: Path, rows: list[bytes]) -> subprocess.CompletedProcess[str]:
    (site / "rows").write_bytes(b"".join(rows))
    with (site / "rows").open("rb") as piped:
        return run_program("run", home=site, cwd=site, stdin=piped)


def test_a_header_of_an_earlier_input_is_not_that_of_the_next(site: Path) -> None:
    _fed_by(site, 'kind = "stdin"')
    first = _piped(site, list(LINES[:41]))
    assert (first.returncode, len(first.stdout.splitlines())) == (0, 40 - WARM_UP), first.stderr
    other = [
        b",".join([cells[0], cells[1], b"55", *cells[3:]]) for cells in (line.split(b",") for line in LINES[41:51])
    ]
    second = _piped(site, other)
    assert (second.returncode, second.stdout) == (65, ""), second.stderr
    last = second.stderr.splitlines()[-1]
    assert last.startswith("edge-runtime: line frost: not one of 10 samples was accepted; the first: ")
    assert "this line is no header" in last
    third = _piped(site, [LINES[0], *LINES[41:51]])
    assert (third.returncode, len(third.stdout.splitlines())) == (0, 10), "the window goes on, its header is its own"


def test_a_sensor_behind_a_line_is_no_failure_of_a_run_that_is_ended(site: Path) -> None:
    with PtyDevice(site / "tty") as port, _running(site) as started:
        _status_says(site, '"OPERATIONAL"')
        port.write(b"no header\n" * 3)
        _status_says(site, '"wrong_columns": ')
        started.send_signal(signal.SIGTERM)
        _, told = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 0, told
    assert b"not one of" not in told


@pytest.mark.parametrize(("path", "found"), [("none.csv", "No such file or directory"), ("frost", "Is a directory")])
def test_a_file_to_replay_that_is_not_there_is_told_before_the_boot(site: Path, path: str, found: str) -> None:
    _fed_by(site, f'kind = "replay"\npath = "{path}"')
    ran = run_program("run", home=site, cwd=site)
    assert (ran.returncode, ran.stdout) == (78, "")
    assert ran.stderr == (
        f"edge-runtime: replay file {site / path}: found {found}; expected a file to replay; correct the path\n"
    )


def test_a_bundle_in_the_place_of_a_device_file(site: Path) -> None:
    ran = run_program("run", "--config", "frost", home=site, cwd=site)
    assert (ran.returncode, ran.stderr) == (78, (
        "edge-runtime: device file frost: found a bundle; expected a TOML file that names the bundle; "
        "write one like the smallest example of docs/device_toml.md\n"
    ))  # fmt: skip
