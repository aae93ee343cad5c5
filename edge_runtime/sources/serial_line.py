"""A serial port as a source: opened, read and reopened for ever by one thread; it never gives up and never blocks."""

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from edge_runtime.flow.quoting import quote
from edge_runtime.links.serial_port import LineErrors, LinkAbsent, LinkLost, SerialPort, open_port
from edge_runtime.sources.port import MAX_CHUNK_BYTES, Chunk, Wake
from edge_runtime.sources.reader import ChunkQueue, ReaderThread
from edge_runtime.spec.source import Identify, SerialSource

FIRST_WAIT_S = 0.1
"""The first retry comes soon: a replugged adapter is back within a second."""
IDENTIFY_NS = 2_000_000_000
"""How long the answer to ``identify`` may take: SCPI instruments answer *IDN? at once, but some wake up first."""
_ANSWER_BYTES = 4096
COUNT_NS = 1_000_000_000
"""How often the errors on the line are counted."""


def _jitter() -> float:
    return random.uniform(0.5, 1.0)  # noqa: S311 (spreads retries; guards nothing)


class SerialLine:
    """Bytes of one serial port. Follows `spec.source.SerialSource`; see `sources.port.Source` for the methods."""

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
    ) -> None:
        self.name = f"serial {spec.port or 'by match'}"
        self.reopened = 0
        self._spec = spec
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns
        self._open_link = open_link
        self._jitter = jitter
        self._queue = ChunkQueue(spec.queue_bytes)
        self._thread = ReaderThread(self.name, self._run)
        self._link: SerialPort | None = None
        self._wake: Wake = threading.Event()
        self._status = "not started"
        self._line_errors = ""

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
        """One plain sentence, and another where the line itself has errors."""
        return self._status + self._line_errors

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
        since = datetime.fromtimestamp(self._wall_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        settled_ns = self._mono_ns() + self._spec.settle_ms * 1_000_000
        self._say(f"{link.name} open since {since}")
        fresh, poll = True, self._spec.poll
        try:
            before = link.line_errors()
            ask_ns, count_ns = settled_ns, settled_ns
            while not self._thread.stopping.is_set():
                now_ns = self._mono_ns()
                if poll is not None and now_ns >= ask_ns:
                    link.write(poll.send.encode("latin-1"))
                    every_ns = round(poll.every_s * 1e9)
                    ask_ns = ask_ns + every_ns if ask_ns + every_ns > now_ns else now_ns + every_ns
                if before is not None and now_ns >= count_ns:
                    self._line_errors = _line_error_words(before, link.line_errors() or before)
                    count_ns = now_ns + COUNT_NS
                data = link.read()
                if not data:
                    continue
                mono_ns = self._mono_ns()
                if mono_ns < settled_ns:
                    continue
                self._queue.put_dropping(data, self._wall_ns(), mono_ns, fresh=fresh)
                fresh = False
                self._wake.set()
        except LinkLost as error:
            self._say(f"lost: {error}; opening it again")
        finally:
            self._link = None
            link.close()
        return not fresh

    def _open(self) -> SerialPort:
        """Open the port; it is closed again, and LinkAbsent raised, where another instrument answers."""
        link = self._open_link(self._spec)
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
            self._wake.set()


def _line_error_words(before: LineErrors, after: LineErrors) -> str:
    """What the driver counted since the port was opened, or nothing."""
    counts = [(late - early, name) for early, late, name in zip(before, after, LineErrors._fields, strict=True)]
    told = ", ".join(f"{count} {name.replace('_', ' ')}" for count, name in counts if count)
    return (
        f" Errors on the line since then: {told}; check baud rate, parity, flow control and the cable." if told else ""
    )
