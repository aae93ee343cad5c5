"""Recordings of other people's sensors through lines: a clock that steps back, gaps, no stated unit, binary between the text."""

import csv
import re
from collections import Counter
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from operator import xor

import numpy as np
import pytest

from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import LinesFraming, NmeaFraming
from edge_runtime.spec.payload import CsvDecode, NmeaDecode, PatternDecode, StatusField, TimeField
from edge_runtime.spec.result import flag_names
from tests.conformance.third_party import third_party
from tests.rig import tiny

WINDOW = 12
NS = 1_000_000_000


LINES = LinesFraming()


def _line(decode, channel, binding, *, length, period_s=None, framing=LINES):
    """A line whose answer is the mean of one channel over a window."""
    manifest = tiny.manifest(
        inputs=[
            {
                "tensor": "x", "dtype": "float32", "shape": ["batch", 1, length], "axes": ["batch", "channel", "time"],
                "channels": [channel], "steps": [{"step": "standardize", "mean": [0.0], "std": [10.0]}],
            }
        ],
        window={"length": length, "period_s": period_s},
        outputs=[
            {
                "tensor": "y", "name": "mean", "meaning": "the mean over the window", "unit": channel["unit"],
                "postprocess": [{"step": "destandardize", "mean": 0.0, "std": 10.0}],
            }
        ],
    )  # fmt: skip
    bound = {channel["name"]: binding}
    return Line(
        name="recording", model=tiny.model(manifest), contract=Contract(manifest.channels, bound),
        framing=make_framing(framing, decode.encoding), decoder=make_decoder(decode, bound),
    )  # fmt: skip


def _fed(line, data, chunk=4096):
    for at in range(0, len(data), chunk):
        line.feed(data[at : at + chunk], at + 1)
    line.finish(len(data) + 1)
    line.run()
    answers = line.take_answers()
    line.published(len(answers))
    assert line.ledger.adds_up(pending_samples=0, pending_answers=0)
    return answers


TEMPERATURE = {
    "name": "temperature", "unit": "Cel", "trained": {"min": -20.0, "max": 45.0},
    "tolerated": {"min": -20.0, "max": 60.0}, "physical": {"min": -40.0, "max": 80.0},
}  # fmt: skip


def _nab_line(unit, period_s):
    decode = CsvDecode(
        format="csv", columns="header", time=TimeField(field="timestamp", format="iso8601", utc_offset_minutes=0)
    )
    return _line(
        decode, TEMPERATURE, ChannelBinding(field="value", unit=unit), length=WINDOW, period_s=period_s
    )  # fmt: skip


def _nab_rows(path):
    """What the file says, read without a line of ours: time in seconds and degF."""
    with path.open(newline="") as stream:
        return [
            (int(datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()), float(row["value"]))
            for row in csv.DictReader(stream)
        ]


def _expected(rows, period_s):
    """Accepted samples, those out of order, windows due and refused, means of the others: by the plainest loop."""
    taken, back, refused, means = [], 0, 0, []
    unbroken = 0
    for time, value in rows:
        if taken and time <= taken[-1][0]:
            back += 1
            continue
        follows = bool(taken) and 0.5 * period_s <= time - taken[-1][0] < 1.5 * period_s
        unbroken = unbroken + 1 if follows else 1
        taken.append((time, value))
        if len(taken) >= WINDOW and unbroken >= WINDOW:
            means.append((time, np.mean([(one - 32) / 1.8 for _, one in taken[-WINDOW:]])))
        elif len(taken) >= WINDOW:
            refused += 1
    return len(taken), back, refused, means


def test_machine_temperature_without_a_unit_is_refused_sample_by_sample(tell):
    path = third_party("nab", "nab_mt.csv")
    line = _nab_line(None, 300.0)
    assert _fed(line, path.read_bytes()) == []
    rows = len(_nab_rows(path))
    assert dict(line.ledger.rejected) == {"undeclared_unit": rows}
    assert 'channels.temperature.unit = "Cel"' in str(line.take_refused()[0].rejection)
    tell(f"machine temperature: {rows} of {rows} samples of an undeclared unit are refused")


def test_machine_temperature_in_the_wrong_unit_says_which_one_fits():
    line = _nab_line("Cel", 300.0)
    _fed(line, third_party("nab", "nab_mt.csv").read_bytes())
    beyond = [one.rejection for one in line.take_refused() if one.rejection.reason == "beyond_physical"]
    assert len(beyond) == line.ledger.rejected["beyond_physical"] > 1000
    assert all("[degF]" in rejection.todo for rejection in beyond)


@pytest.mark.parametrize(
    ("file", "period_s", "back", "breaks"), [("nab_mt.csv", 300.0, 12, 0), ("nab_amb.csv", 3600.0, 0, 10)]
)
def test_a_real_clock_in_degrees_fahrenheit_adds_up(file, period_s, back, breaks, tell):
    path = third_party("nab", file)
    rows = _nab_rows(path)
    taken, out_of_order, refused, means = _expected(rows, period_s)
    assert out_of_order == back
    assert (refused > 0) == (breaks > 0)
    line = _nab_line("[degF]", period_s)
    answers = _fed(line, path.read_bytes())
    ledger = line.ledger
    assert (ledger.received, ledger.accepted, ledger.duplicate) == (len(rows), taken, 0)
    assert dict(ledger.rejected) == ({"time_back": back} if back else {})
    assert dict(ledger.refused) == ({"gap": refused} if refused else {})
    odd = {name: count for name, count in (("time_back", back), ("gap", breaks)) if count}
    assert line.oddities == ({"": odd} if odd else {})
    assert [answer.time_ns // NS for answer in answers] == [time for time, _ in means]
    found = np.array([answer.outputs[0].value for answer in answers])
    assert np.abs(found - np.array([mean for _, mean in means])).max() < 1e-5
    assert {name for answer in answers for name in flag_names(answer.flags)} <= {
        "converted",
        "extrapolating",
        "clipped",
    }
    tell(
        f"{file}: {len(rows)} samples: {taken} accepted, {back} back in time, {refused} windows over a gap, "
        f"{len(answers)} answers"
    )


def test_what_a_logger_sends_again_is_counted_as_duplicate_and_changes_no_answer():
    data = third_party("nab", "nab_amb.csv").read_bytes()
    once = _fed(_nab_line("[degF]", 3600.0), data)
    line = _nab_line("[degF]", 3600.0)
    again = _fed(line, data + b"".join(data.splitlines(keepends=True)[-40:]))
    assert line.ledger.duplicate == 40
    assert again == once


@pytest.mark.parametrize("chunk", [7, 61])
def test_cut_anywhere_it_is_the_same_recording(chunk):
    data = third_party("nab", "nab_mt.csv").read_bytes()[:60_000]
    assert _fed(_nab_line("[degF]", 300.0), data, chunk) == _fed(_nab_line("[degF]", 300.0), data)


ALTITUDE = {
    "name": "altitude", "unit": "m", "trained": {"min": 0.0, "max": 200.0}, "tolerated": {"min": -100.0, "max": 5000.0},
    "physical": {"min": -500.0, "max": 20000.0},
}  # fmt: skip
GGA = (
    "sentence", "clock", "latitude", "north", "longitude", "east", "fix", "satellites", "hdop", "altitude", "metres",
    "geoid", "geoid_metres", "age", "rest",
)  # fmt: skip
DECODERS = {
    "csv": CsvDecode(
        format="csv", columns=GGA, encoding="ascii", comment="#",
        status=StatusField(field="sentence", accept=("$GPGGA",)), carry=("clock",),
    ),
    "pattern": PatternDecode(
        format="pattern", encoding="ascii",
        pattern="$GPGGA,{clock:word},{latitude:number},{north:word},{longitude:number},{east:word},{fix:int},"
        "{satellites:int},{hdop:number},{altitude:number},M,{rest:text}",
    ),
}  # fmt: skip


def _altitudes(data):
    """The altitudes of the sentences whose checksum is right, read without a line of ours."""
    found = []
    for line in data.decode("latin-1").splitlines():
        body, star, checksum = line.strip().removeprefix("$").partition("*")
        if line.startswith("$GPGGA") and star:
            value = 0
            for letter in body:
                value ^= ord(letter)
            assert int(checksum, 16) == value
            found.append(float(body.split(",")[9]))
    return found


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("file", ["bu353s4.log", "garmin48.log"])
def test_a_receiver_of_plain_nmea_gives_its_altitude(file, decoder, tell):
    data = third_party("nmea", file).read_bytes()
    line = _line(DECODERS[decoder], ALTITUDE, ChannelBinding(field="altitude", unit="m"), length=2)
    answers = _fed(line, data)
    wanted = _altitudes(data)
    assert len(wanted) > 5
    assert [one.outputs[0].value for one in answers] == pytest.approx(
        [sum(pair) / 2 for pair in pairwise(wanted)], abs=1e-4
    )
    other = Counter(line.ledger.rejected)
    assert line.ledger.accepted == len(wanted)
    assert set(other) <= {"wrong_columns", "bad_status", "no_match", "missing_field"}
    tell(f"{file} by {decoder}: {len(wanted)} altitudes, {other.total()} other lines refused: {dict(other)}")


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("file", ["trimble-lassen_iq-3dfix.log", "ublox-neo-m8n.log"])
def test_binary_parts_are_refused_and_never_raise(file, decoder, tell):
    data = third_party("nmea", file).read_bytes()
    assert not data.isascii()
    line = _line(DECODERS[decoder], ALTITUDE, ChannelBinding(field="altitude", unit="m"), length=2)
    assert len(_fed(line, data)) == max(0, len(_altitudes(data)) - 1)
    rejected = line.ledger.rejected
    assert rejected.total() > 10
    for one in line.take_refused():
        assert "\n" not in str(one.rejection)
        assert str(one.rejection).isprintable()
    tell(f"{file} by {decoder}: {dict(sorted(rejected.items()))}")


@pytest.mark.parametrize(("file", "taken", "damaged"), [
    ("bu353s4.log", 25, {"bad_frame": 6}), ("garmin48.log", 7, {"bad_frame": 16}),
    ("trimble-lassen_iq-3dfix.log", 0, {"bad_frame": 76, "too_long": 1}), ("ublox-neo-m8n.log", 0, {"bad_frame": 111}),
])  # fmt: skip
def test_by_the_nmea_framing_every_sentence_and_every_piece_of_rubbish_is_counted(
    file: str, taken: int, damaged: dict[str, int]
) -> None:
    """What is no GGA is passed over by declaration; what is no sentence at all is refused, and counted as such."""
    data = third_party("nmea", file).read_bytes()
    decode, binding = NmeaDecode(format="nmea", sentence="GGA"), ChannelBinding(field="9", unit="m")
    for chunk in (1, 4096):
        line = _line(decode, ALTITUDE, binding, length=2, framing=NmeaFraming(kind="nmea"))
        _fed(line, data, chunk)
        assert (line.ledger.accepted, dict(line.ledger.rejected), line.oddities) == (taken, damaged, {})
    good = re.findall(rb"\$GPGGA,[^*\r\n]*\*[0-9A-F]{2}\r?\n", data)
    assert len(good) == taken


def test_nmea_logs_give_exactly_the_sentences_whose_checksum_holds():
    """Four receivers' logs of the GPSD project; two of them are binary and hold no sentence at all."""
    found = {}
    for path in sorted(third_party("nmea").glob("*.log")):
        data = path.read_bytes()
        framer = make_framing(NmeaFraming(kind="nmea"), "ascii")
        frames = [frame for at in range(0, len(data), 7) for frame in framer.feed(data[at : at + 7])] + framer.flush()
        expected = [
            body
            for body, sent in re.findall(rb"[$!]([A-Z][A-Z0-9]{2,15},[ -#%-)+-~]*)\*([0-9A-F]{2})[\r\n]", data)
            if reduce(xor, body) == int(sent, 16)
        ]
        assert [frame for frame in frames if isinstance(frame, bytes)] == expected
        found[path.name] = len(expected)
    assert sorted(found.values()) == [0, 0, 90, 91]
