"""What a whole line costs, beside the bare session and the same work by hand, in one run; it judges nothing.

Every answer is compared with the one made by hand while the clock runs; a wrong one raises WrongAnswer.
"""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edge_runtime.engine.session import Session
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.encode import Encode, make_encoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Model
from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.lane import Lane
from edge_runtime.run.outbox import Entry, Outbox
from edge_runtime.run.setting import make_setting
from edge_runtime.sinks.journal import Journal
from edge_runtime.sinks.standard_output import StandardOutputSink
from edge_runtime.sources.port import Chunk, Wake
from edge_runtime.spec.device_config import DeviceConfig, LineConfig
from edge_runtime.spec.outputs import Destandardize
from edge_runtime.spec.units import conversion, resolve

ROOT = Path(__file__).parents[1]
STATION = ROOT / "examples/frost/station_us_units.csv"
WARM_UP = 200
LINE, KEPT, HAND, LOOP = (
    "bytes to encoded answer",
    "the same and journal",
    "by hand",
    "session.run in a loop of its own",
)
IN_LINE, IN_HAND = "of it session.run", "of it session.run by hand"
TURN, TURN_KEPT = "Lane.turn, no journal", "Lane.turn, journal"
WHOLES = (LINE, IN_LINE, KEPT, TURN, TURN_KEPT, HAND, IN_HAND, LOOP)
ADDING = (LINE, KEPT, TURN, TURN_KEPT, HAND)
_BLOCK = 50

Times = dict[str, list[float]]
"""By name, microseconds a sample, one number a chunk."""

FROST_UNITS = {
    "air_temperature": ("air_temperature_degF", "[degF]"), "relative_humidity": ("relative_humidity_pct", "%"),
    "station_pressure": ("station_pressure_inHg", "[in_i'Hg]"), "wind_speed": ("wind_speed_mph", "[mi_i]/h"),
    "solar_irradiance": ("solar_irradiance_W_m2", "W/m2"),
}  # fmt: skip
_DEWPOINT_UNITS = {"air_temperature": ("t", "Cel"), "relative_humidity": ("rh", "%"), "station_pressure": ("p", "hPa")}


class WrongAnswer(Exception):
    """An answer differed from the one made by hand: no figure of this run is worth anything."""


class Case(NamedTuple):
    """One bundle and its stream: ``header`` and ``rows`` are whole lines, ``config`` what a device file would say."""

    name: str
    config: LineConfig
    ready: ReadyModel
    header: bytes
    rows: list[bytes]


def make_cases(rows: int) -> list[Case]:
    """Boot both shipped bundles and make streams of ``rows`` rows for them."""
    header, *station = STATION.read_text(encoding="utf-8").splitlines()
    start = datetime(2025, 1, 28, tzinfo=UTC)
    frost = [
        f"{(start + timedelta(hours=n)).strftime('%Y-%m-%dT%H:%M:%SZ')},{station[n % len(station)].partition(',')[2]}\n"
        for n in range(rows)
    ]
    test = np.load(ROOT / "examples/dewpoint/data.npz")["test"]
    dewpoint = [
        json.dumps({key: round(float(x), 2) for key, x in zip(("t", "rh", "p"), test[n % len(test)], strict=True)})
        for n in range(rows)
    ]
    csv = {"format": "csv", "columns": "header", "time": {"field": "time", "format": "iso8601"}}
    return [
        _case("dewpoint", {"format": "json"}, _DEWPOINT_UNITS, "", dewpoint),
        _case("frost", csv, FROST_UNITS, header, [row.rstrip() for row in frost]),
    ]


def measure_wholes(case: Case, chunk: int, folder: Path) -> tuple[Times, float]:
    """The wholes, in turns of a block of chunks each, so that a slow moment of the machine falls on all of them.

    ``session.run`` is timed where it is called, in the line and by hand, and in a loop of its own on the same tensors:
    after other work it is slower than in such a loop, because the processor's caches hold that work.
    """
    line_session, hand_session = _TimedSession(case), _TimedSession(case)
    model = case.ready.model._replace(infer=Session(line_session, ort.RunOptions(), takes_nan=False))
    plain, kept, hand = _Plain(case, model), _Kept(case, folder), _ByHand(case, hand_session)
    lanes = [_BenchLane(case, folder / mode, mode) for mode in ("off", "on")]
    warm, chunks = cut(case, chunk)
    for turn in (plain.turn, kept.turn, hand.turn, *(lane.turn for lane in lanes)):
        turn(warm)
    line_session.take_us()
    hand_session.take_us()
    times: Times = {name: [] for name in WHOLES}
    for at in range(0, len(chunks), _BLOCK):
        block = chunks[at : at + _BLOCK]
        expected, tensors = [], []
        for part in block:
            expected.append(timed(times[HAND], chunk, hand.turn, part))
            times[IN_HAND].append(hand_session.take_us() / chunk)
            tensors.append(np.concatenate(hand.tensors))
        found = []
        for part in block:
            found.append(timed(times[LINE], chunk, plain.turn, part))
            times[IN_LINE].append(line_session.take_us() / chunk)
        for lines, texts in zip(found, expected, strict=True):
            _compare(case, lines, texts)
        for tensor in tensors:
            timed(times[LOOP], chunk, hand.run, tensor)
        hand_session.take_us()
        for name, turn in ((KEPT, kept.turn), (TURN, lanes[0].turn), (TURN_KEPT, lanes[1].turn)):
            for part in block:
                timed(times[name], chunk, turn, part)
    answers = [lane.stop() for lane in lanes]
    if answers != [len(chunks) * chunk] * len(lanes):
        raise WrongAnswer(f"{case.name}: the lanes wrote {answers} answers, {len(chunks) * chunk} were owed")
    return {name: values[warm_up_chunks(chunk) :] for name, values in times.items()}, kept.stop() / (
        len(chunks) * chunk
    )


def timed(times: list[float], chunk: int, work: Callable[[Any], Any], given: object) -> Any:
    """Do ``work`` on ``given``, add what it took, in microseconds a line, to ``times``, and give its result."""
    begun = time.perf_counter_ns()
    result = work(given)
    times.append((time.perf_counter_ns() - begun) / 1e3 / chunk)
    return result


def _case(name: str, decode: dict[str, Any], units: dict[str, tuple[str, str]], header: str, rows: list[str]) -> Case:
    line = {
        "name": name, "bundle": name, "source": {"kind": "stdin"}, "decode": decode,
        "channels": {channel: {"field": field, "unit": unit} for channel, (field, unit) in units.items()},
        "sink": [{"kind": "jsonl", "path": "answers.jsonl"}], "journal": {"enabled": "on"},
    }  # fmt: skip
    config = DeviceConfig.model_validate({"schema": "edge-runtime/device/1", "line": [line]}).line[0]
    ready = boot(ROOT / "bundles" / name, make_setting()).ready
    if ready is None:
        raise WrongAnswer(f"bundle {name} does not pass its self-test on this machine")
    encoded = [f"{row}\n".encode() for row in rows]
    return Case(name, config, ready, f"{header}\n".encode() if header else b"", encoded)


def cut(case: Case, chunk: int) -> tuple[bytes, list[bytes]]:
    """What fills the first window, and the chunks after it."""
    window = case.ready.model.manifest.window
    first = window.length - 1 if window else 0
    rows = case.rows
    parts = [b"".join(rows[at : at + chunk]) for at in range(first, len(rows) - chunk + 1, chunk)]
    return case.header + b"".join(rows[:first]), parts


def warm_up_chunks(chunk: int) -> int:
    """How many of the first chunks of ``chunk`` lines are not counted."""
    return max(2, WARM_UP // chunk)


def make_line(case: Case, model: Model) -> Line:
    """The line of a case, on ``model``."""
    channels = model.manifest.channels
    bound = {channel.name: case.config.channels[channel.name] for channel in channels}
    return Line(
        name=case.name, model=model, contract=Contract(channels, bound),
        framing=make_framing(case.config.framing, case.config.decode.encoding),
        decoder=make_decoder(case.config.decode, bound),
    )  # fmt: skip


def make_encode(case: Case) -> Encode:
    """The encoder of a case's answers."""
    return make_encoder(case.config.sink[0], "00000000", case.ready.model.manifest.outputs)


class _Plain:
    """A line from bytes to encoded answers, with nothing behind it."""

    def __init__(self, case: Case, model: Model) -> None:
        self._encode = make_encode(case)
        self._arrival_ns = 1_700_000_000_000_000_000
        self.line = make_line(case, model)
        self.entries: list[Entry] = []

    def turn(self, part: bytes) -> list[bytes]:
        line, encode = self.line, self._encode
        self._arrival_ns += 1_000_000_000
        line.feed(part, self._arrival_ns)
        line.run()
        self.entries = [Entry(answer.id, (encode(answer),)) for answer in line.take_answers()]
        return [entry.lines[0] for entry in self.entries]


class Keeper:
    """The record of one turn into a journal in a temporary folder, as a lane writes it, synced once a second at most."""

    def __init__(self, line: Line, folder: Path) -> None:
        self._line = line
        self._outbox = Outbox([StandardOutputSink("null", os.open(os.devnull, os.O_WRONLY))])
        self._journal = Journal.open(
            folder / "bench.journal", identity="bench", sync_s=1.0, mono_ns=time.monotonic_ns, max_bytes=1 << 30
        )
        self._position = 0

    def keep(self, part: bytes, entries: list[Entry]) -> None:
        """Commit what ``part`` changed and the answers it gave."""
        self._position += len(part)
        for entry in entries:
            self._outbox.add(entry)
        place = {"position": self._position, "discarding": False, "sinks": [None]}
        self._journal.commit(self._line.take_changes() | self._outbox.take_changes() | place)
        self._line.published(self._outbox.drop_oldest(0))

    @property
    def size_bytes(self) -> int:
        """Bytes of the journal."""
        return self._journal.size_bytes

    def close(self) -> None:
        """Let the journal go."""
        self._journal.close()


class _Kept:
    """The same line with its journal."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._plain = _Plain(case, case.ready.model)
        self._keeper = Keeper(self._plain.line, folder)
        self._begun_bytes = 0

    def turn(self, part: bytes) -> None:
        self._plain.turn(part)
        self._keeper.keep(part, self._plain.entries)
        # The first turn fills the window and is no sample of what a sample costs.
        self._begun_bytes = self._begun_bytes or self._keeper.size_bytes

    def stop(self) -> int:
        """Close it; the journal's bytes after its first turn."""
        size = self._keeper.size_bytes - self._begun_bytes
        self._keeper.close()
        return size


class _FedSource:
    """A source that gives what it is handed: the clock then sees the lane and no device."""

    name = "bench"
    live, can_wait, resumable, redelivers, ended, waiting, reopened = True, False, False, False, False, False, 0

    def __init__(self) -> None:
        self._given: list[Chunk] = []
        self._position = 0

    def give(self, data: bytes) -> None:
        self._position += len(data)
        self._given = [Chunk(data, time.time_ns(), time.monotonic_ns(), self._position)]

    def start(self, wake: Wake, position: int = 0) -> None:
        pass

    def take(self, max_bytes: int = 0) -> list[Chunk]:  # noqa: ARG002 -- the port's words
        given, self._given = self._given, []
        return given

    def acknowledge(self, position: int) -> None:
        pass

    def due_ns(self) -> None:
        return None

    def status(self) -> str:
        return ""

    def stop(self) -> None:
        pass


class _BenchLane:
    """A whole lane, from a chunk handed to it to a file of JSON lines, with its journal or without."""

    def __init__(self, case: Case, folder: Path, journal: str) -> None:
        folder.mkdir()
        self._answers = folder / "answers.jsonl"
        kept = case.config.journal.model_copy(update={"enabled": journal})
        self._lane = Lane(
            case.config.model_copy(update={"journal": kept}), case.ready, folder=folder, state=folder,
            run_id="00000000", wall_ns=time.time_ns, mono_ns=time.monotonic_ns,
        )  # fmt: skip
        self._source = _FedSource()
        self._lane.source = self._source
        self._lane.start(threading.Event())

    def turn(self, part: bytes) -> None:
        self._source.give(part)
        self._lane.turn()

    def stop(self) -> int:
        """Close it; how many answers it wrote."""
        self._lane.stop()
        return self._answers.read_bytes().count(b"\n")


class _TimedSession:
    """onnxruntime's own session on the case's model, which adds up the time of its runs."""

    def __init__(self, case: Case) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        data = (ROOT / "bundles" / case.name / case.ready.model.variant.model).read_bytes()
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self._run = session.run
        self.get_inputs, self.get_outputs = session.get_inputs, session.get_outputs
        self.get_provider_graph_assignment_info = session.get_provider_graph_assignment_info
        self._ns = 0

    def run(self, names: list[str] | None, feeds: dict[str, NDArray[Any]], options: object = None) -> Any:
        begun = time.perf_counter_ns()
        result = self._run(names, feeds, options)
        self._ns += time.perf_counter_ns() - begun
        return result

    def take_us(self) -> float:
        """Microseconds of all runs since the last call."""
        us, self._ns = self._ns / 1e3, 0
        return us


class _ByHand:
    """What a capable script does with the same stream: no check of any value, no state kept, no ledger, no id."""

    def __init__(self, case: Case, session: _TimedSession) -> None:
        manifest = case.ready.model.manifest
        self._session = session
        step: Any = manifest.inputs[0].steps[0]
        self._mean, self._std = np.array(step.mean), np.array(step.std)
        bound = [(channel, case.config.channels[channel.name]) for channel in manifest.channels]
        self._fields = [one.field for _, one in bound]
        self._conversions = [conversion(resolve(str(one.unit)), resolve(to.unit), to.kind) for to, one in bound]
        self._window: deque[list[float]] = deque(maxlen=manifest.window.length if manifest.window else 1)
        self._has_time = "time" in manifest.inputs[0].axes
        self._tensor_name = manifest.inputs[0].tensor
        self._output = manifest.outputs[0]
        self._answer_one = self._answer_csv if case.config.decode.format == "csv" else self._answer_json
        self._header = case.header
        self.tensors: list[NDArray[np.float32]] = []

    def turn(self, part: bytes) -> list[bytes]:
        """Answer line by line, as such a script would; the tensors stay in ``tensors``."""
        self.tensors = []
        return [text for text in map(self._answer_one, part.removeprefix(self._header).splitlines()) if text]

    def run(self, tensor: NDArray[np.float32]) -> None:
        """Run the session and do nothing else."""
        self._session.run(None, {self._tensor_name: tensor})

    def _answer_csv(self, line: bytes) -> bytes:
        cells = line.decode().split(",")
        moment = datetime.fromisoformat(cells[0])
        values = [a * float(cell) + b for cell, (a, b) in zip(cells[1:], self._conversions, strict=True)]
        return self._answer(values, moment.isoformat())

    def _answer_json(self, line: bytes) -> bytes:
        row = json.loads(line)
        values = [a * float(row[key]) + b for key, (a, b) in zip(self._fields, self._conversions, strict=True)]
        return self._answer(values, "")

    def _answer(self, values: list[float], moment: str) -> bytes:
        self._window.append(values)
        if len(self._window) < (self._window.maxlen or 1):
            return b""
        scaled = (np.array(self._window) - self._mean) / self._std
        tensor = np.ascontiguousarray(scaled.T[None] if self._has_time else scaled, dtype=np.float32)
        self.tensors.append(tensor)
        value = float(self._session.run(None, {self._tensor_name: tensor})[0].item())
        for step in self._output.postprocess:
            if not isinstance(step, Destandardize):
                raise WrongAnswer(f"by hand knows no {step.step}")
            value = value * step.std + step.mean
        return json.dumps({"time": moment, self._output.name: value}).encode()


def _compare(case: Case, lines: list[bytes], expected: list[bytes]) -> None:
    name = case.ready.model.manifest.outputs[0].name
    ours, theirs = [[_value(one, name) for one in texts] for texts in (lines, expected)]
    if len(ours) != len(theirs) or not all(isclose(a, b, rel_tol=1e-5, abs_tol=1e-4) for a, b in zip(ours, theirs)):  # noqa: B905
        raise WrongAnswer(f"{case.name}: found {ours[:3]}, by hand {theirs[:3]}")


def _value(text: bytes, name: str) -> float:
    found = json.loads(text)[name]
    return float(found["value"] if isinstance(found, dict) else found)
