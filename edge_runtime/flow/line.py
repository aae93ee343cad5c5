"""The one way from bytes to answers: framing, decode, contract, window, batch, model, answer; it reads no clock."""

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.batching import split
from edge_runtime.flow.contract import Contract, Judged
from edge_runtime.flow.ledger import Ledger
from edge_runtime.flow.model import Model
from edge_runtime.flow.postprocess import Postprocess, Unusable
from edge_runtime.flow.preprocess import may_be_not_finite, trained_stay_within
from edge_runtime.flow.window import Row, Stream, WindowRule
from edge_runtime.spec.reading import LATEST_NS, Damaged, Pack, Reading, Rejection
from edge_runtime.spec.result import (
    CLIPPED,
    CLOCK_UNSYNCED,
    EXTRAPOLATING,
    FALLBACK_BUNDLE,
    RESTARTED,
    STUCK,
    THROTTLED,
    Answer,
)

if TYPE_CHECKING:
    from edge_runtime.flow.capture import Choose
    from edge_runtime.flow.decoder import Decoder
    from edge_runtime.flow.framing import Framer
    from edge_runtime.flow.join import Join

Carry = tuple[tuple[str, str | float | int | bool | None], ...]

# A stream costs a window of memory; a payload that invents stream names must not be able to take all of it. 64 MiB of
# numbers for the streams of a line together; a snapshot of the journal takes a few times that for a moment.
MAX_STREAMS = 1024
MAX_STREAM_NUMBERS = 1 << 23
_EVER_NS = 1 << 64
# A logger in the wrong time zone is off by up to 14 hours, which is wrong too but stops nothing; a day is beyond that.
MAX_AHEAD_NS = 86_400_000_000_000
MAX_STREAM_NAME = 100
_ODDITIES = frozenset({"time_back", "time_ahead", "stale"})


class Refused(NamedTuple):
    """A sample or a window that gave no answer: why, of which stream, and the frame if there was one."""

    rejection: Rejection
    stream: str
    raw: bytes


def max_streams(rule: WindowRule) -> int:
    """How many streams one line takes: what they hold together is bounded, but one there always is."""
    return max(1, min(MAX_STREAMS, MAX_STREAM_NUMBERS // rule.stream_numbers))


def refuse_stream(name: str, *, known: int, most: int) -> Rejection | None:
    """Why a stream that is new beside ``known`` others, of ``most`` at once, is not opened; ``None`` where it may be."""
    if len(name) > MAX_STREAM_NAME:
        found, expected = f"a name of {len(name)} characters, {name[:40]!r}...", f"at most {MAX_STREAM_NAME}"
        return Rejection("bad_stream", "stream", found, expected, "check decode.stream")
    if known >= most:
        full = f"stream {name[:40]!r}, one more than {most}"
        return Rejection("too_many_streams", "stream", full, "a known stream", "check decode.stream")
    return None


_BROKEN_STATE: Final = Unusable("not_finite_output", "NaN or infinity in the state that the model passes on")
_ARRIVAL: Final = "; the time of arrival counts here: if the samples carry their own, name its field in decode.time"


class Captured(NamedTuple):
    """An answer that was chosen to be kept: why, its window ``(length, row)`` in contract units, and its newest frame."""

    answer: Answer
    why: tuple[str, ...]
    window: NDArray[np.float64]
    raw: bytes


class _Due(NamedTuple):
    stream: Stream
    name: str
    time_ns: int
    flags: int
    stuck: tuple[str, ...]
    carry: Carry
    mono_ns: int | None
    raw: bytes


class Line:
    """One path from bytes, or from values with units, to answers.

    ``feed`` and ``offer`` take samples in, ``run`` answers every window that is due, ``take_answers`` and
    ``take_refused`` hand out what came of it, ``take_changes`` what a journal must keep for it. Between ``feed`` and
    ``run`` the line holds at most one full batch: a further window runs the batch by itself. A line lives in event time,
    in which nothing is late or early, until ``judge_by_clock`` says otherwise; ``max_age_ns`` is for that.
    ``join`` stands in for the decoder where one message does not bring all channels.
    ``choose`` says for what reasons an answer is kept with its window, for ``take_captured``; none where it gives none.
    ``when_bad_time`` is the binding's: with ``arrival`` it counts, as an oddity, each time of arrival that stands for one.
    """

    def __init__(
        self,
        *,
        name: str,
        model: Model,
        contract: Contract,
        framing: "Framer | None" = None,
        decoder: "Decoder | None" = None,
        batch_sizes: tuple[int, ...] | None = None,
        max_age_ns: int | None = None,
        when_bad_time: Literal["refuse", "arrival"] = "refuse",
        join: "Join | None" = None,
        choose: "Choose | None" = None,
    ) -> None:
        manifest = model.manifest
        self._counts_arrival = when_bad_time == "arrival"
        self._age_limit_ns = _EVER_NS if max_age_ns is None else max_age_ns
        self._max_age_ns = self._max_ahead_ns = _EVER_NS
        self._clock_flag = self._machine_flag = self._bundle_flag = 0
        self.ledger = Ledger()
        self.framing = framing
        self._decoder = decoder if join is None else join.decoder("")
        self._join = join
        self._contract = contract
        self._name = name
        self._rule = WindowRule(manifest)
        self._paced = f"{self._rule.length} samples at the contract's pace"
        if self._rule.period_ns is not None:
            self._paced += f", one each {self._rule.period_ns / 1e9:g} s"
        self._post = Postprocess(manifest, model.variant)
        self._preprocess, self._infer = model.preprocess(), model.infer
        self._looks_first = may_be_not_finite(manifest)
        self._takes_nan = any(channel.when_missing == "pass" for channel in manifest.channels)
        self._sizes = batch_sizes or manifest.batch_sizes
        held = model.variant.input_clip
        self._clips = [(name, band.min, band.max) for name, band in held.items()]
        self._trained_fits = trained_stay_within(manifest, held)
        self._identity = blake2b(f"{model.digest}\n{name}\n".encode(), digest_size=10)
        self._windows = np.empty((self._sizes[-1], self._rule.length, self._rule.width))
        self._splits = [split(count, self._sizes) for count in range(self._sizes[-1] + 1)]
        self._max_streams = max_streams(self._rule)
        self._due: list[_Due] = []
        self._streams: dict[str, Stream] = {}
        self._choose = choose
        self._captured: list[Captured] = []
        self._answers: list[Answer] = []
        self._refused: list[Refused] = []
        self._samples: list[tuple[str, int, Row, int, tuple[int, ...]]] = []
        self._touched: dict[str, Stream] = {}
        self._columns: tuple[str, ...] | None = None

    def judge_by_clock(self, *, synchronised: bool | None) -> None:
        """Say what the clock behind the arrival times is worth; to be called before the first sample, and as it changes.

        A synchronised one refuses a sample whose own time is more than ``max_age_ns`` before its arrival or a day after
        it. By another no age can be judged, and answers are flagged; ``None``, where the system does not tell, does
        neither.
        """
        self._max_age_ns = self._age_limit_ns if synchronised else _EVER_NS
        self._max_ahead_ns = MAX_AHEAD_NS if synchronised else _EVER_NS
        self._clock_flag = CLOCK_UNSYNCED if synchronised is False else 0

    def judge_by_machine(self, *, throttled: bool) -> None:
        """Say whether heat or want of power slow this machine down: answers are as good as ever, and flagged."""
        self._machine_flag = THROTTLED if throttled else 0

    def judge_by_bundle(self, *, is_fallback: bool) -> None:
        """Say whether the bundle is one that serves in place of another, which was refused: every answer is flagged."""
        self._bundle_flag = FALLBACK_BUNDLE if is_fallback else 0

    def feed(self, data: bytes, arrival_ns: int, mono_ns: int | None = None, stream: str = "", topic: str = "") -> None:
        """Take bytes as they came; ``arrival_ns`` (Unix) is the event time of frames that carry none themselves.

        ``mono_ns``, the monotonic time of arrival, is what an answer's age counts from; None in event time, where
        nothing has an age: replay, demo, score. ``stream`` names the stream, where the link does and not the payload;
        ``topic`` is what the link calls the message, for a line that joins several.
        """
        if self.framing is None or self._decoder is None:
            raise TypeError("a line without framing and decoder takes readings only")
        for frame in self.framing.feed(data):
            self.feed_frame(frame, arrival_ns, mono_ns, stream, topic)

    def begin(self) -> None:
        """Forget what is held of an unfinished frame, and its header: a stream begins that has its own."""
        if self.framing is not None:
            self.framing.restore(discarding=False)
        if self._decoder is not None:
            self._decoder.restore_columns(None)

    def finish(self, arrival_ns: int, mono_ns: int | None = None) -> None:
        """Take the last frame of an input that ended without a line end."""
        if self.framing is not None:
            for frame in self.framing.flush():
                self.feed_frame(frame, arrival_ns, mono_ns)

    def feed_frame(
        self, frame: bytes | Damaged, arrival_ns: int, mono_ns: int | None = None, stream: str = "", topic: str = ""
    ) -> None:
        """Decode one frame and offer what it says."""
        if isinstance(frame, Damaged):
            self._reject(frame.rejection, stream, frame.raw)
            return
        if self._join is not None:
            self._decoder = self._join.decoder(topic)
        item = self._decoder.decode(frame)  # type: ignore[union-attr] # feed has checked it
        if type(item) is Reading:
            self.offer(item._replace(stream=stream) if stream else item, arrival_ns, mono_ns, frame)
        elif type(item) is Pack:
            for reading in item.at(arrival_ns):
                self.offer(reading._replace(stream=stream) if stream else reading, arrival_ns, mono_ns, frame)
        elif item is not None:
            self._reject(item, stream, frame)  # type: ignore[arg-type] # the only other type decode gives

    def offer(self, reading: Reading, arrival_ns: int, mono_ns: int | None = None, raw: bytes = b"") -> None:
        """Take one reading: check it, put it into its stream's window, and note the window it completes."""
        name = reading.stream
        stream = self._streams.get(name)
        time_ns = reading.time_ns
        if time_ns is None:
            time_ns = (
                arrival_ns if stream is None or arrival_ns > stream.last_ns else min(stream.last_ns + 1, LATEST_NS)
            )
        elif not -self._max_age_ns <= time_ns - arrival_ns <= self._max_ahead_ns:
            self._reject(self._out_of_time(time_ns - arrival_ns), name, raw)
            return
        if self._join is None:
            judged = self._contract.judge(reading, stream, time_ns)
        else:
            joined = self._joined(self._join, reading, stream, time_ns, raw)
            if joined is None:
                return
            judged = joined
        if type(judged) is Rejection:
            if judged.reason == "missing" and self._decoder is not None:
                judged = self._decoder.explain_missing(raw, judged)
            self._reject(judged, name, raw)
            return
        if stream is None:
            stream = self._opened(name, raw)
            if stream is None:
                return
        if self._rule.states and self._is_waiting(stream):
            self.run()  # a gap begins a recurrent state anew: what is due before the gap must have had the old one
        self._push(stream, time_ns, judged, reading, mono_ns, raw)  # type: ignore[arg-type] # the other case left above

    def _joined(
        self, join: "Join", reading: Reading, stream: Stream | None, time_ns: int, raw: bytes
    ) -> Judged | Rejection | None:
        """Judge what one message and those before it bring together; None where it makes no sample, which is counted."""
        joined = join.complete(reading, time_ns)
        if joined is None:
            self.ledger.received += 1
            self.ledger.updates += 1
            return None
        if isinstance(joined, Rejection):
            self._reject(joined, reading.stream, raw)
            return None
        judged = self._contract.judge(joined.reading, stream, time_ns)
        return judged.with_held(self._contract.columns(joined.held)) if isinstance(judged, Judged) else judged

    def _push(
        self, stream: Stream, time_ns: int, judged: Judged, reading: Reading, mono_ns: int | None, raw: bytes
    ) -> None:
        name = reading.stream
        taken = stream.push(time_ns, *judged)
        if type(taken) is Rejection:
            self._reject(taken, name, raw)
            return
        self.ledger.received += 1
        if not taken:
            self.ledger.duplicate += 1
            stream.oddities["duplicate"] += 1
            return
        self.ledger.accepted += 1
        if self._counts_arrival and reading.time_ns is None:
            stream.oddities["time_of_arrival"] += 1
        self._samples.append((name, time_ns, *judged))
        if self._rule.states:
            self._touched[name] = stream
        if stream.is_due:
            self._window_due(stream, name, time_ns, reading, mono_ns, raw)

    def drop(self, count: int, reason: str) -> None:
        """Count samples that were lost before they could be judged."""
        self.ledger.received += count
        self.ledger.samples_dropped[reason] += count

    @property
    def pending(self) -> int:
        """Windows that are due and not answered yet, and answers that nobody has taken."""
        return len(self._due) + len(self._answers)

    @property
    def oddities(self) -> dict[str, dict[str, int]]:
        """By stream, what was odd about the times of its samples since this start: by reason, and gap and duplicate."""
        return {name: dict(stream.oddities) for name, stream in self._streams.items() if stream.oddities}

    @property
    def levels(self) -> dict[str, dict[str, dict[str, float]]]:
        """By stream and channel how near what the contract watches is to being flagged."""
        return {name: stream.watch.levels() for name, stream in self._streams.items() if stream.watch is not None}

    def run(self) -> None:
        """Answer every window that is due, in batches of the closed list of sizes."""
        due, self._due = self._due, []
        if self._looks_first and due:
            due = self._usable(due)
        first = 0
        for size in self._splits[len(due)]:
            part, windows = due[first : first + size], self._windows[first : first + size]
            try:
                tensors = self._preprocess(windows)
                if self._rule.states:
                    tensors = dict(tensors) | self._stacked([one.stream for one in part])
                outputs = self._infer(tensors)
            except Exception:
                # The windows have no answer and never will; the ledger must say so whatever becomes of the process.
                self.ledger.refused["inference_failed"] += len(due) - first
                raise
            self._answer(part, windows, tensors, outputs)
            first += size

    def take_answers(self, now_ns: int | None = None) -> list[Answer]:
        """The answers made since the last call, in order; they count as published once ``published`` says so.

        ``now_ns`` (monotonic) gives each its age; without it, or in event time, an answer has none.
        """
        answers, self._answers = self._answers, []
        if now_ns is None:
            return answers
        return [one if one.mono_ns is None else one._replace(age_ns=now_ns - one.mono_ns) for one in answers]

    def take_captured(self) -> list[Captured]:
        """What was chosen to be kept since the last call, in order."""
        captured, self._captured = self._captured, []
        return captured

    def take_refused(self) -> list[Refused]:
        """What was refused since the last call, samples and windows, in order."""
        refused, self._refused = self._refused, []
        return refused

    def published(self, count: int) -> None:
        """Count answers a sink took."""
        self.ledger.published += count

    def distrust(self) -> None:
        """Begin anew what the model itself has left behind in the streams: states and hysteresis; samples stay."""
        for name, stream in self._streams.items():
            stream.begin_anew(self._post.fresh)
            self._touched[name] = stream

    def take_over(self, former: "Line", *, is_same_contract: bool) -> None:
        """Go on where a line with another bundle has ended, whose due windows have all been answered.

        The counts and the columns go on. So do the samples in windows and the held values under the same contract; under
        another they begin anew. What came of the former model, states and hysteresis, begins anew in any case.
        """
        self.ledger, self._columns = former.ledger, former._columns  # noqa: SLF001 -- of its own kind
        columns = former._decoder.columns if former._decoder is not None else None  # noqa: SLF001
        if self._decoder is not None and self._decoder is not former._decoder and columns is not None:  # noqa: SLF001
            self._decoder.restore_columns(columns)
        if is_same_contract:
            self._streams = former._streams  # noqa: SLF001
            if former._join is not None:  # noqa: SLF001
                self._restore_held({"held": former._join.saved()})  # noqa: SLF001
        self.distrust()

    def restore_of_other(
        self, saved: Mapping[str, Any] | None, changes: Sequence[Mapping[str, Any]], *, is_same_contract: bool
    ) -> None:
        """As ``restore``, of what a line with another bundle left; what begins anew is as with ``take_over``."""
        if is_same_contract:
            self.restore(saved, changes)
            self.distrust()
            return
        whole = [*([] if saved is None else [saved]), *changes]
        columns = next((one["columns"] for one in reversed(whole) if "columns" in one), None)
        self.restore({"ledger": whole[-1]["ledger"], "columns": columns, "streams": {}}, ())

    def take_changes(self) -> dict[str, Any]:
        """What changed since the last call, as JSON can hold it: the samples, the streams' answers so far, the ledger."""
        changes: dict[str, Any] = {"ledger": self.ledger.as_dict()}
        if self._samples:
            changes["samples"] = [_saved(sample) for sample in self._samples]
            self._samples = []
        if self._touched:
            changes["streams"] = {
                name: [one.seq, list(one.switches), one.saved_state()]
                + ([] if one.watch is None else [one.watch.saved_answers()])
                for name, one in self._touched.items()
            }
            self._touched = {}
        held = self._join.take_changes() if self._join is not None else None
        if held:
            changes["held"] = held
        columns = self._decoder.columns if self._decoder else None
        if columns != self._columns:
            changes["columns"] = self._columns = columns
        return changes

    def saved(self) -> dict[str, Any]:
        """The whole state as JSON can hold it; what is due must have run before."""
        self._samples, self._touched = [], {}
        self._columns = self._decoder.columns if self._decoder else None
        return {
            "ledger": self.ledger.as_dict(),
            "streams": {name: stream.saved() for name, stream in self._streams.items()},
            "columns": self._columns,
        } | ({} if self._join is None else {"held": self._join.saved()})

    def restore(self, saved: Mapping[str, Any] | None, changes: Sequence[Mapping[str, Any]]) -> None:
        """Take over a saved state and the changes after it, in order; the first answer of each stream is flagged."""
        columns = None
        if saved is not None:
            self.ledger.restore(saved["ledger"])
            columns = saved["columns"]
            self._restore_held(saved)
            for name, state in saved["streams"].items():
                self._streams[name] = Stream(self._rule, self._post.fresh)
                self._streams[name].restore(state)
        for change in changes:
            self._restore_change(change)
            columns = change.get("columns", columns)
        if self._decoder is not None and columns is not None:
            self._decoder.restore_columns(tuple(columns))
            self._columns = tuple(columns)
        for stream in self._streams.values():
            stream.restarted = True

    def _restore_change(self, change: Mapping[str, Any]) -> None:
        for name, time_ns, values, flags, held in change.get("samples", ()):
            stream = self._streams.get(name)
            if stream is None:
                stream = self._streams[name] = Stream(self._rule, self._post.fresh)
            # JSON has no NaN: what was missing comes back as null.
            stream.push(time_ns, tuple(math.nan if value is None else value for value in values), flags, held)
        for name, (seq, switches, state, *answered) in change.get("streams", {}).items():
            stream = self._streams[name]
            stream.seq, stream.switches = seq, tuple(switches)
            stream.restore_state(state)
            if stream.watch is not None:
                stream.watch.restore_answers(*answered)
        self._restore_held(change)
        self.ledger.restore(change["ledger"])

    def _restore_held(self, saved: Mapping[str, Any]) -> None:
        if self._join is not None:
            self._join.restore(saved.get("held", {}))

    def _opened(self, name: str, raw: bytes) -> Stream | None:
        """A new stream, unless its name or their number is too much; the refusal is then recorded."""
        refused = refuse_stream(name, known=len(self._streams), most=self._max_streams)
        if refused is not None:
            self._reject(refused, "", raw)
            return None
        stream = self._streams[name] = Stream(self._rule, self._post.fresh)
        return stream

    def _window_due(
        self, stream: Stream, name: str, time_ns: int, reading: Reading, mono_ns: int | None, raw: bytes
    ) -> None:
        if stream.is_unbroken and len(self._due) == len(self._windows):
            self.run()  # first: where that fails, this one is not due yet
        self.ledger.due += 1
        if not stream.is_unbroken:
            self._refuse(
                Rejection("gap", "window", stream.break_words, self._paced,
                          f"answers come again once the window is whole{_ARRIVAL if reading.time_ns is None else ''}"),
                name, raw,
            )  # fmt: skip
            return
        self._windows[len(self._due)] = stream.window()
        stuck = stream.stuck()
        flags = stream.flags() | (STUCK if stuck else 0) | self._clock_flag | self._machine_flag
        flags |= self._bundle_flag
        self._due.append(_Due(stream, name, time_ns, flags, stuck, reading.carry, mono_ns, raw))

    def _is_waiting(self, stream: Stream) -> bool:
        """Whether a state of this stream has not been through the last call that is due; no batch holds two of one."""
        return any(one.stream is stream for one in self._due)

    def _usable(self, due: list[_Due]) -> list[_Due]:
        """Refuse the windows whose tensor is not finite, as a logarithm of nothing is, and close the ranks."""
        good: list[int] = []
        first = 0
        for size in self._splits[len(due)]:
            tensors = self._preprocess(self._windows[first : first + size])
            fine = np.logical_and.reduce([_finite_rows(tensor, self._takes_nan) for tensor in tensors.values()])
            good += [first + row for row in np.flatnonzero(fine).tolist()]
            first += size
        for one in (due[row] for row in sorted(set(range(len(due))) - set(good))):
            self._refuse(
                Rejection("not_finite_input", "window", "a tensor that is not finite after the steps", "a finite one",
                          "check the values against the steps that edge-runtime inspect lists"), one.name, one.raw,
            )  # fmt: skip
        self._windows[: len(good)] = self._windows[good]
        return [due[row] for row in good]

    def _stacked(self, streams: Sequence[Stream]) -> dict[str, NDArray[Any]]:
        return {
            state.input: np.stack([stream.state[state.input] for stream in streams], axis=state.batch_axis)
            for state in self._rule.states
        }

    def _answer(
        self,
        part: list[_Due],
        windows: NDArray[np.float64],
        tensors: Mapping[str, NDArray[Any]],
        outputs: Mapping[str, NDArray[Any]],
    ) -> None:
        made = self._post.make(outputs)
        clips = self._clips and self._passed(part, tensors)
        broken = self._pass_on(part, outputs) if self._rule.states else ()
        for row, due in enumerate(part):
            stream = due.stream
            answered = _BROKEN_STATE if row in broken else self._post.answer(made, row, stream.switches)
            if isinstance(answered, Unusable):
                self._refuse(
                    Rejection(answered.reason, "answer", answered.found, "a value the contract knows",
                              "run edge-runtime selftest"), due.name, due.raw,
                )  # fmt: skip
                continue
            values, switches = answered
            flags = due.flags
            if clips and any(_is_beyond(tensors[name][row], low, high) for name, low, high in clips):
                flags |= CLIPPED
            if self._post.has_ends and self._post.is_clipped(outputs, row):
                flags |= CLIPPED
            if stream.watch is not None:
                flags |= stream.watch.answered(windows[row], values)
            if stream.restarted:
                stream.restarted = False
                flags |= RESTARTED
            identity = self._identity.copy()
            identity.update(b"%b\n%d\n" % (due.name.encode(), due.time_ns))
            identity.update(windows[row])
            answer = Answer(due.name or self._name, stream.seq, due.time_ns, identity.hexdigest(), values, flags, due.stuck,
                            due.mono_ns, None, due.carry)  # fmt: skip
            self._answers.append(answer)
            if self._choose is not None and (why := self._choose(answer)):
                self._captured.append(Captured(answer, why, windows[row].copy(), due.raw))
            stream.seq += 1
            stream.switches = switches
            self._touched[due.name] = stream

    def _pass_on(self, part: list[_Due], outputs: Mapping[str, NDArray[Any]]) -> set[int]:
        """Keep the states after this call; the rows where one is not finite, whose streams begin anew.

        No call takes such a state, and every state after it would be as bad.
        """
        broken: set[int] = set()
        for state in self._rule.states:
            after = np.moveaxis(outputs[state.output], state.batch_axis, 0)
            for row, due in enumerate(part):
                due.stream.state[state.input] = after[row].reshape(state.fresh.shape)
                if not np.isfinite(after[row]).all():
                    broken.add(row)
        for row in broken:
            part[row].stream.begin_anew(self._post.fresh)
            self._touched[part[row].name] = part[row].stream
        return broken

    def _passed(self, part: list[_Due], tensors: Mapping[str, NDArray[Any]]) -> list[tuple[str, float, float]]:
        """The clips that some number of this batch is beyond; where the trained bands lie within, few need a look."""
        if self._trained_fits and not any(due.flags & EXTRAPOLATING for due in part):
            return []
        return [clip for clip in self._clips if _is_beyond(tensors[clip[0]], *clip[1:])]

    def _out_of_time(self, ahead_ns: int) -> Rejection:
        """One sample from the future, taken, would make every honest one after it a step back; an old one, an old answer."""
        if ahead_ns > 0:
            return Rejection(
                "time_ahead", "time of the sample", f"{ahead_ns / 3.6e12:.6g} h after this machine's own, synchronised time",
                "a time that has come", "check the logger's clock and time zone",
            )  # fmt: skip
        return Rejection(
            "stale", "time of the sample", f"{-ahead_ns / 1e9:.6g} s before it arrived here",
            f"{self._max_age_ns / 1e9:g} s at most", "it waited somewhere on its way, or the logger's clock is slow; see max_age_s",
        )  # fmt: skip

    def _reject(self, rejection: Rejection, stream: str, raw: bytes) -> None:
        self.ledger.received += 1
        self.ledger.rejected[rejection.reason] += 1
        if rejection.reason in _ODDITIES and stream in self._streams:
            self._streams[stream].oddities[rejection.reason] += 1
        self._refused.append(Refused(rejection, stream, raw))

    def _refuse(self, rejection: Rejection, stream: str, raw: bytes) -> None:
        self.ledger.refused[rejection.reason] += 1
        self._refused.append(Refused(rejection, stream, raw))


def _finite_rows(tensor: NDArray[Any], takes_nan: bool) -> NDArray[np.bool_]:  # noqa: FBT001 - a policy of the contract
    rows = tensor.reshape(len(tensor), -1)
    bad = np.isinf(rows) if takes_nan else ~np.isfinite(rows)
    return ~np.asarray(bad.any(axis=1))


def _saved(sample: tuple[str, int, Row, int, tuple[int, ...]]) -> list[Any]:
    name, time_ns, values, flags, held = sample
    return [name, time_ns, values if isinstance(values, tuple) else values.tolist(), flags, held]


def _is_beyond(tensor: NDArray[Any], low: float, high: float) -> bool:
    """Whether any number of a finite tensor lies outside; argmin and argmax take a third of the time of min and max."""
    return bool(tensor.item(tensor.argmin()) < low or tensor.item(tensor.argmax()) > high)
