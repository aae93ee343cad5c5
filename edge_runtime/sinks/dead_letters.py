"""Refused samples kept on disk for a person, bounded and never in the way; nothing is sent again from here."""

from collections.abc import Callable
from pathlib import Path

from pydantic_core import to_json

from edge_runtime.flow.utc_time import utc_text
from edge_runtime.sinks.ring_file import RingFile
from edge_runtime.spec.reading import Rejection

RAW_BYTES = 256
"""What is kept of a frame: enough to see its shape, and an answer to whether it is text at all."""
ALIKE_A_MINUTE = 100
"""A sender that is wrong is wrong at every sample: what comes beyond is counted, and told in one line a minute."""
MOST_KINDS = 1000
"""Kinds told apart within a minute; a reason with ever new subjects is counted as one beyond it."""
BATCH_BYTES = 32_768
"""What waits in memory for a ``flush`` at most."""
_SHOWN = 300
_MINUTE_NS = 60_000_000_000


class DeadLetters:
    """JSON lines in a ring file of ``max_bytes`` at most.

    ``wall_ns`` (Unix) stamps the summaries, ``mono_ns`` measures the minute. A disk that takes nothing is counted in
    ``lost``, never raised; ``summarised`` counts those told only in sum. What a killed process had not flushed is gone.
    """

    def __init__(self, path: Path, *, max_bytes: int, wall_ns: Callable[[], int], mono_ns: Callable[[], int]) -> None:
        self.summarised = 0
        self._path = path
        self._ring = RingFile(path, max_bytes=max_bytes)
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._minute_ns: int | None = None
        self._alike: dict[tuple[str, str, str], int] = {}
        self._last: Rejection | None = None

    def add(self, rejection: Rejection, *, time_ns: int, line: str, stream: str, raw: bytes) -> None:
        """Note one refused sample or window; ``time_ns`` is the Unix time of its arrival."""
        self._turn_minute()
        self._last = rejection
        kind = (line, rejection.reason, rejection.subject)
        if kind not in self._alike and len(self._alike) >= MOST_KINDS:
            kind = (line, rejection.reason, "")
        count = self._alike[kind] = self._alike.get(kind, 0) + 1
        if count > ALIKE_A_MINUTE:
            self.summarised += 1
            return
        self._append(rejection, time_ns, line, stream, _escaped(raw))

    @property
    def written(self) -> int:
        """Lines on disk since this start."""
        return self._ring.written

    @property
    def lost(self) -> int:
        """Lines that the disk did not take."""
        return self._ring.lost

    def flush(self) -> None:
        """Write what waits, in one write."""
        self._turn_minute()
        self._write()

    def status(self) -> str:
        """How many, what the last one was about, and where they stand."""
        text = f"{self.written} refused samples written, {self.summarised} told in sum"
        text += f", {self.lost} lost: {self._ring.why}." if self.lost else "."
        if self._last is None:
            return f"{text} Those of earlier starts in {self._path}" if self._path.exists() else text
        one = self._last
        last = f"{one.reason}: {one.subject}: found {one.found}; expected {one.expected}; {one.todo}".removesuffix("; ")
        return f"{text} The last: {' '.join(last.split())[:_SHOWN].rstrip('.')}. All in {self._path}"

    def close(self) -> None:
        """Tell what was only counted, write it all and let the file go. Idempotent."""
        self._summarise()
        self._write()
        self._ring.close()

    def _turn_minute(self) -> None:
        now = self._mono_ns()
        if self._minute_ns is None:
            self._minute_ns = now
        elif now - self._minute_ns >= _MINUTE_NS:
            self._summarise()
            self._minute_ns = now

    def _summarise(self) -> None:
        alike, self._alike = self._alike, {}
        for (line, reason, subject), count in alike.items():
            if count > ALIKE_A_MINUTE:
                more = Rejection(
                    reason, subject, f"{count - ALIKE_A_MINUTE} more like the {ALIKE_A_MINUTE} before",
                    f"at most {ALIKE_A_MINUTE} a minute to be written out",
                )  # fmt: skip
                self._append(more, self._wall_ns(), line, "", "")

    def _append(self, rejection: Rejection, time_ns: int, line: str, stream: str, raw: str) -> None:
        head = {"time": utc_text(time_ns), "line": line, "stream": stream}
        data = to_json({**head, **rejection._asdict(), "raw": raw}) + b"\n"
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= BATCH_BYTES:
            self._write()

    def _write(self) -> None:
        letters, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._ring.write(letters)


def _escaped(raw: bytes) -> str:
    """Printable ASCII as it is, every other byte as its escape."""
    return raw[:RAW_BYTES].decode("latin-1").encode("unicode_escape").decode("ascii")
