"""One line with its doors: a source, the flow, the journal, the sinks; it judges no value itself."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edge_runtime.device.probe import clock_synchronised
from edge_runtime.errors import DeviceError
from edge_runtime.flow.framing import MessageFramer, make_framing
from edge_runtime.flow.gathering import gather_ns
from edge_runtime.flow.ledger import Ledger
from edge_runtime.flow.line import Line
from edge_runtime.flow.printable import printable_share
from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.run.fitting import Fitting, encoders, fit
from edge_runtime.run.live import Live
from edge_runtime.run.outbox import Entry, Outbox
from edge_runtime.run.redelivery import KnownMessages, Owed
from edge_runtime.sinks import make_sink
from edge_runtime.sinks.dead_letters import DeadLetters
from edge_runtime.sinks.journal import Journal, JournalFull
from edge_runtime.sources import make_source
from edge_runtime.sources.port import Chunk, Source, Wake
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.framing import BINARY_KINDS
from edge_runtime.spec.reading import Rejection
from edge_runtime.status.health import BundleIdentity, JournalHealth, LedgerHealth, LineHealth, timestamp

if TYPE_CHECKING:
    from edge_runtime.flow.framing import Framer
    from edge_runtime.run.boot import ReadyModel
    from edge_runtime.sinks.capture_ring import CaptureRing
    from edge_runtime.sinks.sparkplug_node import EdgeNode
    from edge_runtime.sources.trace import Trace
    from edge_runtime.spec.capture import CaptureConfig

# A source that can wait is not read while this many answers have not gone out: nothing is lost, and memory is bounded.
WAITING_ANSWERS: Final = 4096
# What a line that is kept once a second may gather meanwhile: a fast one must not fill the memory with it.
UNKEPT_SAMPLES: Final = 1024
# Streams with the most oddities whose counts stand in the status: a payload that invents names must not fill it.
MAX_ODD_STREAMS: Final = 16
RETRY_NS: Final = 200_000_000
# Confirmed answers that a restart may send again: beside those on their way.
UNKEPT_ANSWERS: Final = 16
# Answers of redelivered input are not spilled at once, since a restart would make them anew: first their sink may be slow.
SPILL_NS: Final = 1_000_000_000
# As long as no frame came, this much input that is mostly unprintable means that the port is set wrongly.
SUSPECT_BYTES: Final = 2048
_TEXT_SHARE: Final = 0.7
_DAMAGED: Final = ("too_long", "bad_frame", "bad_checksum")


class Lane:
    """A line of device.toml at work.

    ``turn`` takes what waits, answers it, keeps it and sends it, and says whether there was anything to do; ``due_ns``
    is when, on the monotonic clock, the next turn is owed without new input. ``first_refusals`` holds by reason the first
    sample or window that was refused since this start. ``source`` stands in for the one of ``config``, whose frames it
    gives.
    """

    def __init__(
        self,
        config: LineConfig,
        ready: "ReadyModel | Live",
        *,
        folder: Path,
        state: Path,
        run_id: str,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
        event_time: bool = False,
        clock_synchronised: Callable[[], bool | None] = clock_synchronised,
        link: MqttLink | None = None,
        node: "EdgeNode | None" = None,
        trace: "Trace | None" = None,
        source: Source | None = None,
    ) -> None:
        self.name = config.name
        self.first_refusals: dict[str, Rejection] = {}
        self._config, self._folder, self._state, self._run_id = config, folder, state, run_id
        self._link = link
        self._wall_ns, self._mono_ns = wall_ns, mono_ns
        self._clock_synchronised = clock_synchronised
        manifest = ready.model.manifest
        self.source: Source = source or make_source(
            config.source,
            wall_ns=wall_ns,
            mono_ns=mono_ns,
            folder=folder,
            link=link,
            files=state / f"{config.name}.files",
            trace=trace,
            gather_ns=gather_ns(manifest, timed_by_arrival=config.decode.time is None),
        )
        self._ages = self.source.live and not event_time
        self._fitting = fit(config, manifest, folder=folder, link=link, wall_ns=wall_ns, mono_ns=mono_ns)
        self._encoders = encoders(config, self._fitting, run_id)
        self._capture: CaptureRing | None = None
        framing = (
            MessageFramer(config.framing.max_bytes, is_text=not config.takes_bytes)
            if config.takes_messages
            else make_framing(config.framing, config.decode.encoding)
        )
        self._put_on(ready, framing)
        self._sinks = tuple(
            make_sink(
                spec, folder, mono_ns=mono_ns, link=link, node=node, line=config.name, outputs=manifest.outputs
            )
            for spec in config.sink
        )  # fmt: skip
        self._outbox = Outbox(self._sinks)
        self._outbox_bytes = config.journal.max_bytes
        self._dead = DeadLetters(
            state / f"{config.name}.refused.jsonl",
            max_bytes=config.dead_letters.max_bytes,
            wall_ns=wall_ns,
            mono_ns=mono_ns,
        )
        self._journal = self._open_journal(config, state)
        self._restored = False
        self._counts_before = self.line.ledger.as_dict()
        self._stale = ""
        self._position = 0
        self._last_answer_ns: int | None = None
        self._fresh_until_ns = 0
        self._offset_ns = wall_ns() - mono_ns()
        self._brings_time = config.decode.time is not None
        self._judge_by_clock()
        self._retry_ns: int | None = None
        self._seen_bytes = self._lost_bytes = 0
        self._seen_text = 1.0
        self._is_binary, self._is_port = config.framing.kind in BINARY_KINDS, config.source.kind == "serial"
        self._is_joining = self._finished = self._stopped = False
        self._known, self._owed = KnownMessages(), Owed()
        self._flowed_ns = 0
        self._proven, self._is_given_up = 0, False
        self._unkept, self._kept_samples, self._kept_gone, self._kept_added = False, 0, 0, 0
        self._is_signed = False

    def fitted(self, ready: "ReadyModel | Live") -> Fitting:
        """What it would take to answer with this model; changes nothing. Raises ConfigurationError where that cannot be."""
        fitting = fit(
            self._config, ready.model.manifest, folder=self._folder, link=self._link, wall_ns=self._wall_ns,
            mono_ns=self._mono_ns, former=self._fitting,
        )  # fmt: skip
        encoders(self._config, fitting, self._run_id)  # what they refuse is refused before anything is changed
        self._made_capture(ready)
        return fitting

    def _made_capture(self, ready: "ReadyModel | Live") -> "CaptureRing | None":
        return _capture(
            self._config.capture, self.name, ready, state=self._state, run_id=self._run_id, mono_ns=self._mono_ns
        )

    def _put_on(self, ready: "ReadyModel | Live", framing: "Framer") -> None:
        """Answer with ``ready`` from now on, by ``_fitting`` and ``_run_id``."""
        config, fitting = self._config, self._fitting
        self._ready = ready
        self._live = ready if isinstance(ready, Live) else None
        self._make_suppress, self._suppress = fitting.make_suppress, fitting.make_suppress()
        self._fresh_ns, self._rebirths = fitting.fresh_ns, fitting.rebirths
        self._capture = self._made_capture(ready)
        self.line = Line(
            name=config.name,
            model=ready.model,
            contract=fitting.contract,
            framing=framing,
            decoder=fitting.decoder if fitting.join is None else None,
            join=fitting.join,
            when_bad_time="refuse" if config.decode.time is None else config.decode.time.when_bad,
            max_age_ns=None if config.max_age_s is None else round(config.max_age_s * 1e9),
            choose=None if self._capture is None else self._capture.choose,
        )

    def switch(self, ready: "Live", fitting: Fitting, run_id: str) -> None:
        """Answer with another model from the next sample on; between two turns, when all that came is answered.

        No door is closed, so that no sample and no part of a frame is lost; answers that wait go out as they are. What the
        streams hold goes on as ``Line.take_over`` says. ``fitting`` is what ``fitted`` gave.
        """
        former, key = self.line, self._fitting.key
        if self._capture is not None:
            self._capture.close()
        self._fitting, self._run_id = fitting, run_id
        self._encoders = encoders(self._config, fitting, run_id)
        self._put_on(ready, former.framing)  # type: ignore[arg-type] # a lane's line always has one
        self.line.take_over(former, is_same_contract=fitting.key == key)
        self._judge_by_clock()
        self._is_given_up, self._proven = False, self._outbox.added
        if self._journal is not None:
            self._compact(self._journal)

    def may_switch(self, fitting: Fitting) -> bool:
        """Whether it can be done with the doors open: hosts that were told what the answers look like are told at a start."""
        told = any(one.kind == "sparkplug" or (one.kind == "mqtt" and one.home_assistant) for one in self._config.sink)
        return not told or list(fitting.outputs) == list(self._fitting.outputs)

    def rename_run(self, run_id: str) -> None:
        """Name another run in the answers from now on: one of another line's bundles has changed."""
        self._run_id = run_id
        self._encoders = encoders(self._config, self._fitting, run_id)

    @property
    def _is_stateless(self) -> bool:
        """Whether a restart costs nothing but counts, so that the disk is written once a second at most.

        So it is without a window, a state and hysteresis, and at once only for answers that do not leave. A source that
        resumes needs its place exactly; one that redelivers needs the time that a sample got on arrival, or it would be
        another sample the next time.
        """
        return (
            self._fitting.is_memoryless and self._journal is not None
            and self.source.live and not self.source.resumable
            and (self._brings_time or not self.source.redelivers)
        )  # fmt: skip

    def start(self, wake: Wake) -> None:
        """Take over what the journal kept, then open the source where that left off."""
        if self._journal is not None:
            self._restore(self._journal.recovered)
            self._journal.recovered = []
        self._restored = True
        self.source.start(wake, self._position if self.source.resumable else 0)

    def turn(self) -> bool:
        """Take, answer, keep, send: whether anything was done.

        Raises:
            DeviceError: the model has failed; what this turn took is neither kept nor acknowledged, as after kill -9.

        """
        try:
            return self._turn()
        except DeviceError:
            self._is_given_up = True
            raise

    def _turn(self) -> bool:
        chunks = self._take()
        for chunk in chunks:
            self._feed(chunk)
        if not chunks and self.source.ended and not self._finished and not self._stopped:
            self._finished = True
            self.line.finish(self._wall_ns(), None)
        self.line.run()
        changed = self._collect(self._mono_ns()) or bool(chunks)
        if changed and not self._is_stateless:
            self._keep()
        # What a sink confirms later than in the turn that brought it is kept with the next sample, or by the clock.
        self._unkept = (self._send() and not changed) or self._unkept or (changed and self._is_stateless)
        self._make_room()
        if self._unkept and (self._must_note() or (self._is_stateless and self._must_spill())):
            self._keep()
        self._acknowledge()
        self._sync()
        return changed

    @property
    def done(self) -> bool:
        """Whether the source has ended and everything went out."""
        return self._finished and not self._outbox.is_blocked

    def due_ns(self) -> int | None:
        """When the next turn is owed without new input: a paced replay, a sink to try again, a disk to sync."""
        # A journal that is behind has nothing to sync but a snapshot to write, and that is the clock's affair.
        journal = self._journal.due_ns() if self._journal and not self._stale else None
        source = None if self._is_full else self.source.due_ns()
        times = [time for time in (source, self._retry_ns, journal) if time is not None]
        return min(times, default=None)

    def tick(self) -> None:
        """Do what is owed once a second: write the dead letters, mend or shorten the journal."""
        self._judge_by_clock()
        self._dead.flush()
        if self._capture is not None:
            self._capture.flush()
        if self._journal is None:
            return
        if self._unkept:
            self._keep()
        if not self._stale and not self._journal.wants_compaction:
            return
        self._compact(self._journal)

    def _compact(self, journal: Journal) -> None:
        """Write the whole state anew, which also mends what an earlier write did not bring there."""
        self._note_outbox()
        try:
            journal.compact(self._saved())
        except JournalFull as full:
            self._stale = self._stale or str(full)
        else:
            self._stale = ""
            self._acknowledge_kept()

    def serves(self, live: "Live") -> bool:
        """Whether its answers are of this model."""
        return self._ready is live

    def trust(self) -> None:
        """The model has proven itself: so were the answers that it made so far."""
        self._proven, self._is_given_up = self._outbox.added, False

    def distrust(self, why: str) -> int:
        """The model has failed a probe: take back what it answered since the last one and not every sink has; how many.

        Their samples stay where they are, in windows and in the journal; states and hysteresis, which came of its
        answers, begin anew. Until ``trust`` the lane ends without another answer.
        """
        withdrawn = self._outbox.withdraw(self._proven)
        if withdrawn:
            self.line.ledger.answers_dropped["quarantined"] += len(withdrawn)
        rejection = Rejection(
            "quarantined", "answer", why, "a session that passes its goldens", "run edge-runtime selftest"
        )
        for entry in withdrawn:
            self._dead.add(
                rejection, time_ns=self._wall_ns(), line=self.name, stream="", raw=next(iter(entry.lines), b"")
            )  # fmt: skip
        self._owed.withdraw(self._outbox.added)
        self.line.distrust()
        self._suppress = self._make_suppress()  # it takes for told what is withdrawn
        self._is_given_up = True
        if self._journal is not None:
            self._compact(self._journal)
            if self._stale:  # on a full disk the log is as it was, with all that is withdrawn
                self._take_out(self._journal)
        return len(withdrawn)

    def _take_out(self, journal: Journal) -> None:
        """Have the journal hold what there is now, at the risk of all: a restart must not send what is withdrawn."""
        try:
            journal.overwrite(self._saved())
        except JournalFull as full:
            self._stale = str(full)
        else:
            self._stale = ""
            self._acknowledge_kept()

    def stop_taking(self) -> None:
        """Stop the source; what it still holds is taken by the turns that follow. Idempotent."""
        self._stopped = True
        self.source.stop()

    @property
    def in_flight(self) -> int:
        """How many answers sinks have sent on and not yet heard of."""
        return self._outbox.in_flight

    def stop(self) -> None:
        """Stop taking, answer and send what was taken, keep the rest, and close every door, whatever fails on the way."""
        with ExitStack() as doors:
            for sink in self._sinks:
                doors.callback(sink.close)
            doors.callback(self._dead.close)
            if self._capture is not None:
                doors.callback(self._capture.close)
            if self._journal is not None:
                doors.callback(self._close_journal, self._journal)
            if self._restored and not self._is_over:
                doors.callback(self._finish)
            self.source.stop()

    def _finish(self) -> None:
        while chunks := self.source.take():
            for chunk in chunks:
                self._feed(chunk)
            self.line.run()
            self._collect(self._mono_ns())
        self._collect(self._mono_ns())
        self._keep()
        self._send()
        self._acknowledge()

    def _close_journal(self, journal: Journal) -> None:
        try:
            # A lane that never came to take over what its journal holds must not write its own emptiness over it.
            if self._restored and not self._is_over:
                journal.compact(self._saved())
            journal.close()
        except JournalFull as full:
            self._stale = str(full)

    @property
    def _is_over(self) -> bool:
        """Whether no answer of its model may leave: this line's turn failed, or the model was given up on another's."""
        return self._is_given_up or (self._live is not None and self._live.is_lost)

    @property
    def is_fresh(self) -> bool:
        """Whether a sample was accepted within three of the contract's periods (three minutes where it has none)."""
        return self._mono_ns() < self._fresh_until_ns

    @property
    def waiting(self) -> str:
        """Why answers do not go out, as a clause; empty where they do."""
        return self._outbox.waiting

    @property
    def trouble(self) -> str:
        """What keeps the line from its whole work though it serves: answers that wait, a journal left behind."""
        behind = f"a restart would lose what came last: {self._stale}" if self._stale else ""
        return "; ".join(filter(None, (self.waiting, behind)))

    @property
    def of_this_start(self) -> Ledger:
        """What was counted since this start; its duplicates had been taken before it, or came twice."""
        return self.line.ledger.since(self._counts_before)

    @property
    def keeps_state(self) -> bool:
        """Whether what was taken is known again after a restart."""
        return self._journal is not None

    def health(self) -> LineHealth:
        """What the status says of this line."""
        manifest = self._ready.model.manifest
        pending = self.line.pending + len(self._outbox)
        notes = [*(self._journal.notes if self._journal else ())] + ([self._stale] if self._stale else [])
        return LineHealth(
            name=self.name,
            ledger=LedgerHealth.of(self.line.ledger, pending_samples=0, pending_answers=pending),
            source=self._source_status(),
            sinks={sink.name: sink.status() for sink in self._sinks},
            reopened=self.source.reopened,
            bundle=BundleIdentity(manifest.id, manifest.version, self._ready.model.digest),
            provider=self._ready.provider,
            last_answer=None if self._last_answer_ns is None else timestamp(self._last_answer_ns),
            journal=JournalHealth(self._journal.size_bytes, tuple(notes)) if self._journal else None,
            dead_letters=self._dead.status(),
            capture=None if self._capture is None else self._capture.status(),
            oddities=dict(sorted(self.line.oddities.items(), key=_most_first)[:MAX_ODD_STREAMS]),
            levels=dict(list(self.line.levels.items())[:MAX_ODD_STREAMS]),
        )

    def _judge_by_clock(self) -> None:
        """A clock may be set while we serve: a device without a battery boots in 1970."""
        if self._ages:
            self.line.judge_by_clock(synchronised=self._clock_synchronised())
            # Where arrival is the time of a sample it follows a clock that is set ahead, at the price of one gap. One that
            # is set back it cannot follow: every sample would be older than the one before, until the hour was made up.
            self._offset_ns = max(self._offset_ns, self._wall_ns() - self._mono_ns())

    def judge_by_machine(self, *, throttled: bool) -> None:
        """Flag the answers of a live source from now on, or no longer: a played file is of another time."""
        if self._ages:
            self.line.judge_by_machine(throttled=throttled)

    def _take(self) -> list[Chunk]:
        return [] if self._is_full else self.source.take()

    @property
    def _is_full(self) -> bool:
        """Whether so many answers wait that no more samples are taken, of a source that can wait."""
        full = len(self._outbox) >= WAITING_ANSWERS or self._outbox.bytes > self._outbox_bytes
        return full and self.source.can_wait

    def _feed(self, chunk: Chunk) -> None:
        self._position = chunk.position
        if chunk.dropped:
            self.line.drop(chunk.lost_before, chunk.dropped)
            return
        if chunk.mark and self._known.take(chunk.mark, again=chunk.again):
            self.line.ledger.received += 1
            self.line.ledger.duplicate += 1
            return
        framing = self.line.framing
        if chunk.fresh or chunk.lost_before or chunk.anew:
            self._begin(chunk)
        self._lost_bytes += chunk.lost_before
        self._seen_bytes += len(chunk.data)
        if not self.line.ledger.accepted:
            self._seen_text = printable_share(chunk.data)
        accepted = self.line.ledger.accepted
        self._hand_over(chunk)
        if self._is_joining and framing is not None and not framing.discarding:
            self._is_joining = False
            if framing.passed_over:
                self.line.drop(1, "joined_midway")
        if self.line.ledger.accepted > accepted:
            self._fresh_until_ns = self._mono_ns() + self._fresh_ns

    def _begin(self, chunk: Chunk) -> None:
        """Put the framing, and with a stream anew the header, where this chunk begins."""
        if chunk.anew:
            if self.line.framing is not None and self.line.framing.pending_bytes:
                self.line.drop(1, "cut_short")  # a program that was killed as it wrote, a file that went
            self.line.begin()
        elif self.line.framing is not None:
            # The first line after a connection, or after lost bytes, may be the end of one whose beginning never came.
            self.line.framing.restore(discarding=True)
            self._is_joining = True

    def _hand_over(self, chunk: Chunk) -> None:
        data = chunk.data if self._rebirths is None else self._rebirths.framed(chunk.topic, chunk.data)
        arrival_ns, mono_ns = chunk.time_ns, None
        if self._ages:
            mono_ns = chunk.mono_ns
            arrival_ns = arrival_ns if self._brings_time else mono_ns + self._offset_ns
        self.line.feed(data, arrival_ns, mono_ns, chunk.stream, chunk.topic)
        if chunk.ends:
            self.line.finish(arrival_ns, mono_ns)
        if self._rebirths is not None:
            self._rebirths.ask()
            if self._rebirths.is_dark:
                self._fresh_until_ns = 0

    def _collect(self, now_ns: int) -> bool:
        answers = self.line.take_answers(now_ns if self._ages else None)
        if answers and not self._outbox.is_blocked:
            self._flowed_ns = self._mono_ns()  # nothing had to flow before
        for answer in answers:
            self._last_answer_ns = answer.time_ns
            why = self._suppress(answer) if self._suppress is not None else None
            if why is not None:
                self.line.ledger.suppressed[why] += 1
                continue
            self._outbox.add(Entry(answer.id, tuple([encode(answer) for encode in self._encoders])))
        refused = self.line.take_refused()
        for one in refused:
            self.first_refusals.setdefault(one.rejection.reason, one.rejection)
            self._dead.add(one.rejection, time_ns=self._wall_ns(), line=self.name, stream=one.stream, raw=one.raw)
        if self._capture is not None:
            self._capture.take(self.line.take_captured(), refused, self._wall_ns())
        return bool(answers or refused)

    def _keep(self) -> None:
        """Bring what changed into the journal in one transaction, before any answer of it leaves."""
        self._unkept, self._kept_samples = False, self.line.ledger.received
        self._note_outbox()
        record = self.line.take_changes() | self._outbox.take_changes() | self._place()
        if not self._is_signed:
            record |= self._made_by()
            self._is_signed = True
        if self._journal is None or self._stale:
            return  # without a journal they must not pile up; after a hole only a snapshot is worth writing
        try:
            self._journal.commit(record)
        except JournalFull as full:
            self._stale = str(full)
        else:
            self._acknowledge_kept()

    def _sync(self) -> None:
        """Bring the journal to the disk when it is due: what ``due_ns`` wakes for must be done in that turn."""
        if self._journal is None or self._stale:
            return
        due = self._journal.due_ns()
        if due is None or due > self._mono_ns():
            return
        try:
            self._journal.sync()
        except JournalFull as full:
            self._stale = str(full)

    def _acknowledge_kept(self) -> None:
        """Everything that was taken is in the journal: its effect, and the answers that have not gone out."""
        self.source.acknowledge(self._position)

    def _acknowledge(self) -> None:
        """Say what is durable without the disk: samples whose answers every sink has taken, where none leaves a trace."""
        if not self.source.redelivers or (self._journal is not None and not self._is_stateless):
            return
        self._owed.note(self._position, self._outbox.added)
        settled = self._owed.settled(self._outbox.gone)
        if settled is not None:
            self.source.acknowledge(settled)

    def _must_note(self) -> bool:
        """Whether so many answers have gone that the journal has as waiting: a restart would send them again."""
        return min(self._outbox.gone, self._kept_added) - self._kept_gone >= UNKEPT_ANSWERS

    def _note_outbox(self) -> None:
        """Remember what the journal knows of the outbox: which answers it has, and which of them it has as gone."""
        self._kept_gone, self._kept_added = self._outbox.gone, self._outbox.added

    def _must_spill(self) -> bool:
        if self.line.ledger.received - self._kept_samples >= UNKEPT_SAMPLES:
            return True
        if not self.source.redelivers:
            return self._outbox.is_held_up
        return self._outbox.is_blocked and self._mono_ns() - self._flowed_ns >= SPILL_NS

    def _make_room(self) -> None:
        """Let the oldest answers go that no sink takes, where the source would not wait; they were offered before."""
        dropped = 0 if self.source.can_wait else self._outbox.drop_oldest(self._outbox_bytes)
        if dropped:
            self.line.ledger.answers_dropped["outbox_full"] += dropped

    def _send(self) -> bool:
        """Offer the sinks what waits; whether any answer went."""
        gone = self._outbox.deliver()
        self.line.published(gone)
        now_ns = self._mono_ns()
        if gone or not self._outbox.is_blocked:
            self._flowed_ns = now_ns
        self._retry_ns = now_ns + RETRY_NS if self._outbox.is_blocked else None
        return gone > 0

    def _place(self) -> dict[str, Any]:
        """Where the source and the sinks stand, as JSON can hold it."""
        framing = self.line.framing
        return self._known.take_changes() | {
            "position": self._position - (framing.pending_bytes if framing else 0),
            "discarding": framing.discarding if framing else False,
            "sinks": [sink.position() for sink in self._sinks],
            "last_answer_ns": self._last_answer_ns,
        }

    def _saved(self) -> dict[str, Any]:
        self._is_signed = True
        return (
            {"line": self.line.saved()} | self._made_by() | self._outbox.saved() | self._place() | self._known.saved()
        )

    def _made_by(self) -> dict[str, Any]:
        """Whose the streams are, where another bundle may come to read them: of which, and what their samples mean."""
        return {} if self._config.slot is None else {"bundle": [self._ready.model.digest, self._fitting.key]}

    def _restore(self, records: Sequence[Mapping[str, Any]]) -> None:
        if not records:
            return
        snapshot: Mapping[str, Any] | None = records[0].get("snapshot")
        changes = list(records if snapshot is None else records[1:])
        line = None if snapshot is None else snapshot["line"]
        whole = changes if snapshot is None else [snapshot, *changes]
        made_by = next((one["bundle"] for one in whole if "bundle" in one), None)
        is_of_other = False
        if self._config.slot is not None and made_by is not None and made_by[0] != self._ready.model.digest:
            is_of_other = True
            self.line.restore_of_other(line, changes, is_same_contract=made_by[1] == self._fitting.key)
        else:
            self.line.restore(line, changes)
        last = whole[-1]
        if self.source.resumable:
            self._position = last["position"]
        self._known.restore(mark for record in whole for mark in record.get("marks", ()))
        self._last_answer_ns = last.get("last_answer_ns")  # a journal of an earlier release has none
        self._counts_before = self.line.ledger.as_dict()
        if self.source.resumable and self.line.framing is not None:
            self.line.framing.restore(discarding=last["discarding"])
        orphans = self._outbox.restore(whole, last["sinks"])
        if orphans:
            self.line.ledger.answers_dropped["sink_removed"] += orphans
        self._note_outbox()
        if is_of_other and self._journal is not None:
            # Nothing may follow on what the former bundle wrote, until it is written anew as this one's.
            self._stale = "the journal is another bundle's"
            self._compact(self._journal)

    def _open_journal(self, config: LineConfig, state: Path) -> Journal | None:
        enabled = config.journal.enabled
        if enabled == "off" or (enabled == "auto" and not self.source.live):
            return None
        # A bundle of the store may be replaced, and answers that wait go out all the same: its digest stands in the records.
        digest = self._ready.model.digest if config.slot is None else config.bundle
        identity = hashlib.sha256(digest.encode())
        identity.update(config.model_dump_json(include={"name", "source", "framing", "decode", "channels"}).encode())
        return Journal.open(
            state / f"{config.name}.journal",
            identity=identity.hexdigest(),
            sync_s=config.journal.sync_s,
            mono_ns=self._mono_ns,
            max_bytes=config.journal.max_bytes,
        )

    def _source_status(self) -> str:
        text = self.source.status()
        told = " ".join(filter(None, (self._lost_words(), self._doubt())))
        return f"{text.removesuffix('.')}. {told}" if told else text

    def _lost_words(self) -> str:
        return f"{self._lost_bytes} bytes were lost to a full queue." if self._lost_bytes else ""

    def _doubt(self) -> str:
        """What may be set wrongly, where much came and nothing of it was a frame; only a port has a baud rate."""
        ledger, seen, framing = self.line.ledger, self._seen_bytes, self.line.framing
        if seen <= SUSPECT_BYTES or isinstance(framing, MessageFramer):
            return ""
        if self._is_binary:
            if ledger.received == sum(map(ledger.rejected.__getitem__, _DAMAGED)):
                cause = "wrong baud rate or parity, or another framing?" if self._is_port else "another framing?"
                return f"No valid frame in {seen} bytes: {cause}"
        elif not ledger.accepted and self._seen_text < _TEXT_SHARE:
            cause = "wrong baud rate or parity?" if self._is_port else "no text, or in another decode.encoding?"
            return f"No valid frame in {seen} bytes, mostly unprintable: {cause}"
        elif not ledger.received:
            cause = "wrong baud rate, or another framing.line_end?" if self._is_port else "another framing.line_end?"
            return f"No line end in {seen} bytes: {cause}"
        return ""


def _capture(
    config: "CaptureConfig | None",
    name: str,
    ready: "ReadyModel | Live",
    *,
    state: Path,
    run_id: str,
    mono_ns: Callable[[], int],
) -> "CaptureRing | None":
    if config is None:
        return None
    from edge_runtime.sinks.capture_ring import open_capture  # noqa: PLC0415 -- a line that keeps none needs none of it

    model = ready.model
    return open_capture(
        config, line=name, state=state, manifest=model.manifest, digest=model.digest, run_id=run_id, mono_ns=mono_ns
    )


def _most_first(stream: tuple[str, Mapping[str, int]]) -> int:
    return -sum(stream[1].values())
