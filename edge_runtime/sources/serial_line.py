"""A serial port as a source: opened, read and reopened for ever by one thread; it never gives up and never blocks."""

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from edge_runtime.flow.gathering import Gathering
from edge_runtime.flow.quoting import quote
from edge_runtime.links.serial_port import READ_TIMEOUT_S, LineErrors, LinkAbsent, LinkLost, SerialPort, open_port
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.sources.reader import ChunkQueue, ReaderThread
from edge_runtime.spec.source import Identify, SerialSource

if TYPE_CHECKING:
    from edge_runtime.sources.asking import Asking
    from edge_runtime.sources.trace import Trace

FIRST_WAIT_S = 0.1
"""The first retry comes soon: a replugged adapter is back within a second."""
IDENTIFY_NS = 2_000_000_000
"""How long the answer to ``identify`` may take: SCPI instruments answer *IDN? at once, but some wake up first."""
_ANSWER_BYTES = 4096
MOST_UNHEARD = 5
"""After so many questions in a row without a word a TCP connection is made anew: its server may have lost its side of it."""
COUNT_NS = 1_000_000_000
"""How often the errors on the line are counted."""


def _jitter() -> float:
    return random.uniform(0.5, 1.0)  # noqa: S311 (spreads retries; guards nothing)


class SerialLine:
    """Bytes of one serial port. Follows `spec.source.SerialSource`; see `sources.port.Source` for the methods.

    ``gather_ns`` is how long, in ns, the bytes of a fast line may gather between two reads; 0 where each counts at once.
    """

    can_wait = False
    redelivers = False
    resumable = False
    live = True

    def __init__(
        self,
        spec: SerialSource,
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
        open_link: Callable[[SerialSource], SerialPort] = open_port,
        jitter: Callable[[], float] = _jitter,
        trace: "Trace | None" = None,
        gather_ns: int = 0,
    ) -> None:
        self.name = f"serial {spec.port or 'by match'}"
        self.reopened = 0
        self._spec = spec
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns
        self._open_link = open_link
        self._jitter = jitter
        self._trace = trace
        self._gather_ns = gather_ns
        self._queue = ChunkQueue(spec.queue_bytes)
        self._thread = ReaderThread(self.name, self._run)
        self._link: SerialPort | None = None
        self._wake: Wake = threading.Event()
        self._status = "not started"
        self._line_errors = self._not_answered = ""
        self._asking = _make_asking(spec)
        self._heard = False
        self._asked = self._answered = 0

    @property
    def ended(self) -> bool:
        """Nothing comes any more and everything was taken."""
        return self._thread.over and self._queue.empty

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""
        return not self._queue.empty

    def start(self, wake: Wake, position: int = 0) -> None:  # noqa: ARG002 (a port has no past)
        """Begin to read."""
        self._wake = wake
        self._say("opening")
        self._thread.start(wake)

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """Everything that waits, up to ``max_bytes``. Raises InternalError if the reader failed."""
        chunks = self._queue.take(max_bytes)
        if not chunks:
            self._thread.check()
        return chunks

    def acknowledge(self, position: int) -> None:
        """Nobody keeps it for us."""

    def due_ns(self) -> int | None:
        """When the next chunk is due, if that is known."""
        return None

    def status(self) -> str:
        """One plain sentence, and others where it was asked, the line has errors, or a sample did not come.

        Where no answer is waited for, one counts as answered if anything came before the next question.
        """
        trace = f"; {self._trace.trouble}" if self._trace is not None and self._trace.trouble else ""
        asked = f"; asked {self._asked} times, answered {self._answered} times" if self._asked else ""
        return self._status + asked + self._line_errors + self._not_answered + trace

    def stop(self) -> None:
        """Cancel, close and wait for the thread; idempotent."""
        self._thread.stopping.set()
        link = self._link
        if link is not None:
            link.cancel()
        self._thread.join()

    def _run(self) -> None:
        stopping = self._thread.stopping
        wait_s = FIRST_WAIT_S
        opened_before = False
        while not stopping.is_set():
            heard = False
            try:
                link = self._link = self._open()
            except LinkAbsent as error:
                self._say(f"waiting: {error}")
            else:
                self.reopened += opened_before
                opened_before = True
                heard = self._serve(link)
            wait_s = FIRST_WAIT_S if heard else wait_s
            stopping.wait(min(wait_s, self._spec.reopen_max_s) * self._jitter())
            wait_s = min(wait_s * 2, self._spec.reopen_max_s)
        self._say("stopped")

    def _serve(self, link: SerialPort) -> bool:
        """Read until lost or stopped, then close; whether anything was heard."""
        self._say(f"{link.name} open since {_moment(self._wall_ns())}")
        settled_ns = self._mono_ns() + self._spec.settle_ms * 1_000_000
        self._line_errors = self._not_answered = ""
        self._heard = False
        take = (
            self._listening(link, settled_ns)
            if self._asking is None
            else self._questioning(link, self._asking, settled_ns)
        )
        try:
            before, count_ns = link.line_errors(), settled_ns
            while not self._thread.stopping.is_set():
                now_ns = self._mono_ns()
                if before is not None and now_ns >= count_ns:
                    self._line_errors = _line_error_words(before, link.line_errors() or before)
                    count_ns = now_ns + COUNT_NS
                take(now_ns)
        except LinkLost as error:
            self._say(f"lost: {error}; opening it again")
        finally:
            self._link = None
            link.close()
        return self._heard

    def _listening(self, link: SerialPort, settled_ns: int) -> Callable[[int], None]:
        """One turn at a port that sends by itself, or is asked without waiting for its answer."""
        poll, ask_ns = self._spec.poll, settled_ns
        questions = [] if poll is None else [question.encode("latin-1") for question in poll.questions]
        is_owed = False
        # An answer to a question comes alone: there is nothing to gather.
        gathering, pause_ns = Gathering(self._gather_ns if poll is None else 0), 0

        def turn(now_ns: int) -> None:
            nonlocal ask_ns, is_owed, pause_ns
            if poll is not None and now_ns >= ask_ns:
                for question in questions:
                    link.write(question)
                self._asked, is_owed = self._asked + 1, True
                ask_ns = _next_ns(ask_ns, now_ns, poll.every_s)
            data = b""
            if pause_ns:
                self._thread.stopping.wait(pause_ns / 1e9)
                data = link.read_waiting()
            data = data or link.read()
            mono_ns = self._mono_ns() if data else 0
            pause_ns = gathering.pause_ns(mono_ns, len(data)) if data else 0
            if mono_ns < settled_ns or not data:
                return
            if is_owed:
                self._answered, is_owed = self._answered + 1, False
            self._queue.put_dropping(data, self._wall_ns(), mono_ns, fresh=not self._heard)
            self._heard = True
            self._wake.set()

        return turn

    def _questioning(self, link: SerialPort, asking: "Asking", settled_ns: int) -> Callable[[int], None]:
        """One turn at a port whose answers are waited for: each is whole, so none is passed over."""
        from edge_runtime.sources.asking import Wire  # noqa: PLC0415 -- for lines whose answers are waited for

        wire, ask_ns = Wire(link, self._mono_ns, self._thread.stopping, self._spec.queue_bytes), settled_ns
        # A serial port is left open: to open it again restarts many a board, and mends nothing that is known.
        is_tcp = (self._spec.port or "").startswith("socket://")

        def turn(now_ns: int) -> None:
            nonlocal ask_ns
            if now_ns < ask_ns:
                self._thread.stopping.wait(min((ask_ns - now_ns) / 1e9, READ_TIMEOUT_S))
                return
            ask_ns = _next_ns(ask_ns, now_ns, asking.every_s)
            self._asked += 1
            try:
                got = asking.ask(wire)
            except LinkLost as error:
                self._give_up("no_answer", str(error))
                raise
            if self._thread.stopping.is_set() and not isinstance(got, bytes):
                return
            if not isinstance(got, bytes):
                self._give_up(got.reason, got.words)
                if is_tcp and wire.unheard >= MOST_UNHEARD:
                    raise LinkLost(f"{link.name}: nothing came in answer to {wire.unheard} questions")
                return
            self._answered += 1
            for at in range(0, len(got), MAX_CHUNK_BYTES):
                piece = got[at : at + MAX_CHUNK_BYTES]
                self._queue.put_dropping(piece, self._wall_ns(), self._mono_ns(), fresh=False)
            self._heard = True
            self._wake.set()

        return turn

    def _give_up(self, reason: str, words: str) -> None:
        self._not_answered = f"; the last sample that did not come, at {_moment(self._wall_ns())}: {words}"
        self._queue.give_up(reason)
        self._wake.set()

    def _open(self) -> SerialPort:
        """Open the port; it is closed again, and LinkAbsent raised, where another instrument answers."""
        link = self._open_link(self._spec)
        if self._trace is not None:
            link.tap = partial(self._trace.chunk, self.name)
        if self._spec.identify is not None:
            refused = self._identify(link, self._spec.identify)
            if refused:
                link.close()
                raise LinkAbsent(refused)
        return link

    def _identify(self, link: SerialPort, identify: Identify) -> str:
        """Ask who is there, once it has settled: why it is not who is expected, or nothing."""
        answer = b""
        settled_ns = self._mono_ns() + self._spec.settle_ms * 1_000_000
        try:
            while self._mono_ns() < settled_ns and not self._thread.stopping.is_set():
                link.read()
            link.write(identify.send.encode("latin-1"))
            until_ns = self._mono_ns() + IDENTIFY_NS
            while self._mono_ns() < until_ns and not self._thread.stopping.is_set():
                answer = (answer + link.read())[-_ANSWER_BYTES:]
                # Whole lines alone: half a serial number may be that of another instrument.
                whole = answer[: max(answer.rfind(b"\n"), answer.rfind(b"\r")) + 1]
                if identify.expect.encode("latin-1") in whole:
                    return ""
        except LinkLost as error:
            return str(error)
        found = quote(answer.strip().decode("latin-1")) if answer else "nothing"
        asked = quote(identify.send.strip())
        return f"{link.name}: answers {found} to {asked}, not {quote(identify.expect)}; plug in that instrument"

    def _say(self, sentence: str) -> None:
        if sentence != self._status:
            self._status = sentence
            if self._trace is not None:
                self._trace.note(self.name, sentence)
            self._wake.set()


def _make_asking(spec: SerialSource) -> "Asking | None":
    """What is asked for each sample, where an answer is waited for."""
    if spec.modbus is not None:
        from edge_runtime.sources.asking_modbus import RegisterQuestions  # noqa: PLC0415 -- for lines that have slaves

        return RegisterQuestions(spec.modbus, spec.baud)
    if spec.poll is not None and spec.poll.timeout_s is not None:
        from edge_runtime.sources.asking import TextQuestions  # noqa: PLC0415 -- for lines whose answers are waited for

        return TextQuestions(spec.poll, spec.queue_bytes // 2)
    return None


def _next_ns(due_ns: int, now_ns: int, every_s: float) -> int:
    """When to ask again: in step with the first time, but what was missed is not made up for."""
    every_ns = round(every_s * 1e9)
    return due_ns + every_ns if due_ns + every_ns > now_ns else now_ns + every_ns


def _moment(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _line_error_words(before: LineErrors, after: LineErrors) -> str:
    """What the driver counted since the port was opened, or nothing."""
    counts = [(late - early, name) for early, late, name in zip(before, after, LineErrors._fields, strict=True)]
    told = ", ".join(f"{count} {name.replace('_', ' ')}" for count, name in counts if count)
    return (
        f" Errors on the line since then: {told}; check baud rate, parity, flow control and the cable." if told else ""
    )
