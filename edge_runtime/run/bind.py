"""The `bind` command: captured payloads through a line's own decoder and contract; it opens no source and runs no model."""

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from pydantic_core import to_json

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import BundleError, UsageError, escaped
from edge_runtime.flow.assemble import bound_fields
from edge_runtime.flow.captured_payloads import Payload, missing_keys, payloads, whole_payload
from edge_runtime.flow.contract import Contract, Judged
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.join import Join, Joined
from edge_runtime.flow.line import max_streams, refuse_stream
from edge_runtime.flow.present_fields import absent
from edge_runtime.flow.quoting import nearest, quote_names
from edge_runtime.flow.utc_time import utc_text
from edge_runtime.flow.window import Stream, WindowRule
from edge_runtime.run import checks
from edge_runtime.run.broker import with_topics
from edge_runtime.run.config import LoadedConfig, load_config
from edge_runtime.run.file_channels import file_channels
from edge_runtime.run.inspect import manifest_of
from edge_runtime.run.record import choose_line
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.payload import SenmlDecode, SparkplugDecode
from edge_runtime.spec.reading import ABSENT, LATEST_NS, Damaged, Gridded, Pack, Reading, Rejection
from edge_runtime.spec.result import flag_names
from edge_runtime.spec.source import FolderSource, MqttSource
from edge_runtime.spec.topic import level_of, matches

_SHOWN_NUMBERS: Final = 4
_REFUSED: Final = BundleError.exit_code
_STANDARD_INPUT: Final = "-"
_RETAINED: Final = "the broker had kept it: run takes no such message, unless source.retained says accept"
_NO_FIELD: Final = "a header, a comment or blank"
_NO_METRIC: Final = "a birth, a death or a command, or has no bound metric"
_WITH_TOPICS: Final = "its topic stands before it, as mosquitto_sub -v writes it: capture with -F '%j'"
_TRIMMED: Final = "taken for the payload itself: it looks like a line of mosquitto_sub -F '%j'"
_UNTRIMMED: Final = "leave such lines whole, or keep of each the payload alone"
_BYTES_WITH_TOPICS: Final = "Sparkplug needs its topics and all its bytes: capture with mosquitto_sub -F '%t %x'"
_NOTHING: Final = "nothing to judge; of a recording the first line after each opening is passed over, as run does"


class Sample(NamedTuple):
    """What one payload, or one reading of several in it, came to.

    ``outcome`` is accepted, update (a value for a later sample), duplicate, refused, no_sample or not_subscribed (of a
    topic that the line does not take); ``channels`` has for each channel what was sent, in which unit, and where the
    sample was judged good what it is in the contract's unit.
    """

    outcome: str
    rejection: Rejection | None = None
    time_ns: int | None = None
    stream: str = ""
    channels: tuple[tuple[str, dict[str, Any]], ...] = ()
    flags: tuple[str, ...] = ()
    carry: tuple[tuple[str, Any], ...] = ()


class DryBinding:
    """A line from frame to judged sample: its decoder, its contract and its streams, without window, model and sinks."""

    def __init__(self, line: LineConfig, manifest: Manifest, folder: Path) -> None:
        """Raises ConfigurationError for everything in the binding that a boot would refuse."""
        checks.bindings(manifest, {line.name: line.channels}, inject=False)
        self._channels = manifest.channels
        bound = {channel.name: line.channels[channel.name] for channel in self._channels}
        self._contract = Contract(self._channels, bound)
        files = file_channels(self._channels, bound, folder)
        self._rule = WindowRule(manifest)
        most = max_streams(self._rule)
        self._join = Join(line.decode, bound, self._contract, max_streams=most, files=files) if line.joins else None
        self._level = line.source.stream_level if isinstance(line.source, MqttSource) else None
        self._bound = bound
        self._decoder = make_decoder(line.decode, bound, files)
        self._decode, self._fields = line.decode, bound_fields(line.decode, bound)
        if isinstance(line.decode, SenmlDecode):  # units and base names are where every pack has them
            self._fields = {binding.field: f"channel {name!r}" for name, binding in bound.items()}
        self._streams: dict[str, Stream] = {}

    @property
    def conversions(self) -> tuple[str, ...]:
        """What happens to each channel, in words."""
        return self._contract.conversions

    def take(self, frame: bytes | Damaged, arrival_ns: int, topic: str = "") -> Iterator[Sample]:
        """Judge one frame, in the order of the capture: a number may be held, and a sample come twice, as in the line."""
        if isinstance(frame, Damaged):
            yield Sample("refused", frame.rejection)
            return
        if self._join is not None:
            self._decoder = self._join.decoder(topic)
        item = self._decoder.decode(frame)
        stream = level_of(topic, self._level) if self._level is not None else ""
        if item is None:
            yield Sample("no_sample")
        elif isinstance(item, Rejection):
            yield Sample("refused", item)
        else:
            for reading in item.at(arrival_ns) if isinstance(item, Pack) else (item,):
                yield self._judged(reading._replace(stream=stream) if stream else reading, arrival_ns, frame)

    def absent(self, frame: bytes | Damaged, topic: str = "") -> list[str]:
        """Bound fields that the frame has not, and should have, each a clause with the nearest that it has."""
        fields = self._fields
        if self._join is not None:
            wanted = {f"channel {name!r}": self._bound[name].field for name in self._join.expected(topic)}
            others = {field: purpose for field, purpose in fields.items() if not purpose.startswith("channel ")}
            fields = {field: purpose for purpose, field in wanted.items()} | others
        return [] if isinstance(frame, Damaged) else absent(self._decode, frame, fields)

    def _judged(self, reading: Reading, arrival_ns: int, frame: bytes) -> Sample:
        stream = self._streams.get(reading.stream)
        time_ns = reading.time_ns
        if time_ns is None:
            time_ns = arrival_ns if stream is None else max(arrival_ns, min(stream.last_ns + 1, LATEST_NS))
        held: tuple[int, ...] = ()
        if self._join is not None:
            joined = self._join.complete(reading, time_ns)
            if not isinstance(joined, Joined):
                brought = tuple(one for one in self._told(reading, joined) if one[1]["sent"] is not ABSENT)
                told = Sample("update", joined, reading.time_ns, reading.stream, brought)
                return told if joined is None else told._replace(outcome="refused")
            reading, held = joined
        judged = self._contract.judge(reading, stream, time_ns)
        if isinstance(judged, Judged):
            judged = judged.with_held(self._contract.columns(held))
        taken = judged if isinstance(judged, Rejection) else self._pushed(reading.stream, time_ns, judged)
        told = Sample(
            "accepted" if taken is True else "duplicate",
            time_ns=reading.time_ns, stream=reading.stream, channels=self._told(reading, judged, held), carry=reading.carry,
        )  # fmt: skip
        if isinstance(taken, Rejection):
            if taken.reason == "missing":
                taken = self._decoder.explain_missing(frame, taken)
            return told._replace(outcome="refused", rejection=taken)
        return told._replace(flags=tuple(flag_names(judged.flags if isinstance(judged, Judged) else 0)))

    def _pushed(self, name: str, time_ns: int, judged: Judged) -> Rejection | bool:
        if name not in self._streams:
            refused = refuse_stream(name, known=len(self._streams), most=max_streams(self._rule))
            if refused is not None:
                return refused
            self._streams[name] = Stream(self._rule, ())
        return self._streams[name].push(time_ns, *judged)

    def _told(
        self, reading: Reading, judged: Judged | Rejection | None, held: Sequence[int] = ()
    ) -> tuple[tuple[str, dict[str, Any]], ...]:
        conversions = self._contract.conversions_of(reading.units)
        told = []
        column = 0
        for index, (channel, value, how) in enumerate(zip(self._channels, reading.values, conversions, strict=True)):
            one: dict[str, Any] = {"sent": _plain(value), "unit": how[0] if how else None}
            if reading.units is not None and reading.units[index] is not None:
                one["unit_text"] = reading.units[index]
            if index in held:
                one["held"] = True
            if isinstance(judged, Judged):
                row = judged.values[column : column + channel.width]
                one["value"] = _plain(row if channel.shape else row[0])
                if channel.form == "number" and not channel.shape and not _holds(channel.bands[0], row[0]):
                    one["trained"] = [channel.bands[0].min, channel.bands[0].max]
                if channel.categories:
                    one["category"] = channel.categories[int(row[0])]
            if channel.form == "number":
                one["contract_unit"] = channel.unit
            if how:
                one |= {"a": how[1], "b": how[2]}
            column += channel.width
            told.append((channel.name, one))
        return tuple(told)


def main(args: Namespace) -> int:
    """Print for each payload of ``args.payloads`` what ``args.line`` makes of it: 0 where all were accepted, else 65.

    Text goes to standard error, one JSON line a sample to standard output.

    Raises:
        UsageError: no --dry-run, no such line, or no such file.
        ConfigurationError: the device file, or a binding that does not suit the bundle.
        BundleError: the bundle is not whole.

    """
    if not args.dry_run:
        raise UsageError(
            subject="edge-runtime bind", found="no --dry-run", expected="edge-runtime bind --dry-run",
            todo="add it: a binding is put to work by edge-runtime run alone",
        )  # fmt: skip
    loaded = load_config(Path(args.config))
    line = with_topics(choose_line(loaded, args.line), loaded.config.broker)
    name = args.payloads or _STANDARD_INPUT
    with nullcontext(sys.stdin.buffer) if name == _STANDARD_INPUT else _opened(Path(name)) as file:
        return _tell(line, _binding(loaded, line), file)


def _binding(loaded: LoadedConfig, line: LineConfig) -> DryBinding:
    path = loaded.bundle(line)
    manifest = manifest_of(verify(read_files(path), str(path)))
    binding = DryBinding(line, manifest, loaded.folder)
    _say(f"line {line.name}, bundle {manifest.id} {manifest.version}")
    for words in binding.conversions:
        _say(f"  {words}")
    return binding


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(
            subject=f"payloads {path}", found=error.strerror or str(error), expected="a file of captured payloads",
            todo="correct the path, or pipe them in",
        ) from error  # fmt: skip


def _tell(line: LineConfig, binding: DryBinding, file: BinaryIO) -> int:
    outcomes: Counter[str] = Counter()
    number = 0
    is_text = not line.takes_bytes
    framer = make_framing(line.framing, line.decode.encoding)
    drops = isinstance(line.source, MqttSource) and line.source.retained == "refuse"
    whole = isinstance(line.source, FolderSource) and line.source.whole
    with_topic = isinstance(line.decode, SparkplugDecode)
    nothing = _NO_METRIC if with_topic else _NO_FIELD
    found = [whole_payload(file, is_text=is_text)] if whole else payloads(file, framer, is_text=is_text)
    for number, payload in enumerate(found, 1):
        if with_topic:
            payload = _with_topic(payload)  # noqa: PLW2901
        if _is_elsewhere(payload.topic, line):
            outcomes["not subscribed"] += 1
            _say(f"payload {number} ({payload.topic}): {_not_subscribed(payload.topic, line)}")
            _write(_record(number, payload, Sample("not_subscribed"), ()))
            continue
        absent_fields = binding.absent(payload.frame, payload.topic)
        arrival_ns = time.time_ns() if payload.arrival_ns is None else payload.arrival_ns
        for sample in binding.take(payload.frame, arrival_ns, payload.topic):
            missing = [one for one in absent_fields if not _is_told(one, sample.rejection)]
            outcomes[f"refused ({sample.rejection.reason})" if sample.rejection else sample.outcome] += 1
            kept = [_RETAINED] if drops and payload.is_retained else []
            how = _capture_otherwise(payload, line) if sample.rejection is not None else []
            for words in _text(number, payload, sample, [*missing, *kept, *how], nothing):
                _say(escaped(words))
            _write(_record(number, payload, sample, missing))
    told = [f"{count} {what}" for what, count in outcomes.items()]
    _say(f"{number} payloads: {', '.join(told) or _NOTHING}")
    is_good = outcomes["accepted"] and not any(what.startswith("refused") for what in outcomes)
    return 0 if is_good else _REFUSED


def _is_elsewhere(topic: str, line: LineConfig) -> bool:
    """Whether the broker would not even send the line what was captured."""
    return bool(topic) and isinstance(line.source, MqttSource) and not _takes(line.source, topic)


def _takes(source: MqttSource, topic: str) -> bool:
    return any(matches(one, topic) for one in source.topics)


def _not_subscribed(topic: str, line: LineConfig) -> str:
    topics = line.source.topics if isinstance(line.source, MqttSource) else ()
    near = nearest(topic, topics) if len(topics) > 1 else ""
    return f"not subscribed: source.topics has {quote_names(topics)}" + (f"; {near}" if near else "")


def _capture_otherwise(payload: Payload, line: LineConfig) -> list[str]:
    """How to capture it so that it could be read, where the way it was captured is why it cannot."""
    if payload.topic or not isinstance(line.source, MqttSource):
        return []
    if isinstance(line.decode, SparkplugDecode):
        return [_BYTES_WITH_TOPICS]
    frame = payload.frame.raw if isinstance(payload.frame, Damaged) else payload.frame
    missing = [] if isinstance(payload.frame, Damaged) else missing_keys(frame)
    if missing:
        return [f"{_TRIMMED} without {quote_names(missing)}: {_UNTRIMMED}"]
    topic = frame.partition(b" ")[0].decode(errors="replace")
    return [_WITH_TOPICS] if "/" in topic and _takes(line.source, topic) else []


def _with_topic(payload: Payload) -> Payload:
    """The frame that a line makes of a message whose topic says what it is."""
    from edge_runtime.flow.sparkplug import framed  # noqa: PLC0415 -- for who has such nodes

    if isinstance(payload.frame, Damaged):
        return payload
    return payload._replace(frame=framed(payload.topic, payload.frame))


def _is_told(clause: str, rejection: Rejection | None) -> bool:
    """Whether the refusal itself names the absent field."""
    return rejection is not None and clause.partition(": ")[2].partition(";")[0] in rejection.found


def _write(record: dict[str, Any]) -> None:
    sys.stdout.buffer.write(to_json(record, inf_nan_mode="constants") + b"\n")


def _record(number: int, payload: Payload, sample: Sample, missing: Sequence[str]) -> dict[str, Any]:
    record: dict[str, Any] = {"payload": number}
    if payload.topic:
        record["topic"] = payload.topic
    if payload.is_retained:
        record["retained"] = True
    record["outcome"] = sample.outcome
    if sample.rejection is not None:
        record["refused"] = sample.rejection._asdict()
    if missing:
        record["absent"] = missing
    if sample.channels:
        record["time"] = None if sample.time_ns is None else utc_text(sample.time_ns)
        record["stream"] = sample.stream
        record["channels"] = dict(sample.channels)
        record["flags"] = sample.flags
        record["carry"] = dict(sample.carry)
    return record


def _text(number: int, payload: Payload, sample: Sample, notes: Sequence[str], nothing: str) -> Iterator[str]:
    where = f"payload {number}" + (f" ({payload.topic})" if payload.topic else "")
    if sample.rejection is not None:
        yield f"{where}: refused, {sample.rejection.reason}: {sample.rejection}"
    elif sample.outcome == "no_sample":
        yield f"{where}: no sample: it is {nothing}"
        return
    else:
        when = "at its arrival" if sample.time_ns is None else utc_text(sample.time_ns)
        words = [when, f"stream {sample.stream}" if sample.stream else "", *sample.flags]
        outcome = "no sample, held for later" if sample.outcome == "update" else sample.outcome
        yield f"{where}: {outcome}, {', '.join(filter(None, words))}"
    yield from (f"  {one}" for one in notes)
    width = max((len(name) for name, _ in sample.channels), default=0)
    for name, one in sample.channels:
        yield f"  {name:{width}}  {_sent(one)}{_converted(one)}{', held' if 'held' in one else ''}".rstrip()


def _sent(one: dict[str, Any]) -> str:
    unit = one["unit"] or ("in no unit that converts" if "contract_unit" in one and one["sent"] is not None else "")
    if one.get("unit_text") not in (None, one["unit"]):
        unit += f" (sent as {one['unit_text']!r})"
    return f"{_shown(one['sent'])} {unit}".rstrip()


def _converted(one: dict[str, Any]) -> str:
    if "value" not in one:
        return ""
    if "contract_unit" not in one:
        return f" -> {_shown(one['value'])}"
    is_same = (one["a"], one["b"]) == (1.0, 0.0)
    how = "as it is" if is_same else f"x * {one['a']!r} + {one['b']!r}"
    beyond = f", beyond what training saw, {one['trained'][0]:g} to {one['trained'][1]:g}" if "trained" in one else ""
    return f" -> {_shown(one['value'])} {one['contract_unit']} ({how}){beyond}"


def _holds(band: Band, value: float) -> bool:
    return value != value or band.min <= value <= band.max  # noqa: PLR0124 - NaN, a number that is passed on as missing


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, list):
        flat = np.ravel(np.array(value, dtype=object)).tolist()
        return f"{len(flat)} numbers, {', '.join(map(_shown, flat[:_SHOWN_NUMBERS]))} ..."
    return f"{value:.10g}" if isinstance(value, int | float) else repr(value)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Gridded):
        return {"values": _plain(value.values), "grid": _plain(value.grid)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
