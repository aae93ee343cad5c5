"""Samples and answers kept on disk for the author of the next model, bounded and never in the way; it sends nothing."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic_core import to_json

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.capture import Choose, make_choose
from edge_runtime.flow.encode import Encode, make_encoder
from edge_runtime.flow.line import Captured, Refused
from edge_runtime.flow.utc_time import utc_text
from edge_runtime.sinks.ring_file import RingFile
from edge_runtime.spec.capture import CaptureConfig
from edge_runtime.spec.capture_file import CaptureHead
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.result import Answer
from edge_runtime.spec.sink import StandardOutput

_MINUTE_NS = 60_000_000_000
# What a line has beside its frame and window: the keys, the answer and what it carries.
_BESIDE_BYTES = 4096


def open_capture(
    config: CaptureConfig,
    *,
    line: str,
    state: Path,
    manifest: Manifest,
    digest: str,
    run_id: str,
    mono_ns: Callable[[], int],
) -> "CaptureRing":
    """The ring of one line, ``LINE.capture.jsonl`` in the folder ``state``; ``digest`` is the bundle's.

    Raises:
        ConfigurationError: a margin for what has none, or a ring that could not hold one sample.

    """
    choose = make_choose(config, manifest.outputs)
    head = CaptureHead.of(line, manifest, digest).model_dump_json(by_alias=True).encode() + b"\n"
    window_bytes = manifest.length * manifest.width * 8
    least = 2 * (len(head) + _held(window_bytes))
    if config.max_bytes < least:
        raise ConfigurationError(
            subject=f"line {line}, capture.max_bytes", found=str(config.max_bytes), todo="raise it, or take [line.capture] out",
            expected=f"{least} at least: one window of {manifest.id} in each of two files",
        )  # fmt: skip
    return CaptureRing(
        state / f"{line}.capture.jsonl", config, head=head, reasons_of=choose, window_bytes=window_bytes, mono_ns=mono_ns,
        encode=make_encoder(StandardOutput(kind="stdout"), run_id, manifest.outputs),
    )  # fmt: skip


class CaptureRing:
    """Captured samples of one line in a ring file.

    ``choose`` goes to the line: the reasons of ``reasons_of``, as long as the minute and the memory have room; what
    has none is counted in ``passed_over``. ``window_bytes`` is the size of a window, ``encode`` writes an answer.
    """

    def __init__(
        self,
        path: Path,
        config: CaptureConfig,
        *,
        head: bytes,
        reasons_of: Choose,
        encode: Encode,
        window_bytes: int,
        mono_ns: Callable[[], int],
    ) -> None:
        self.passed_over = 0
        self._ring = RingFile(path, max_bytes=config.max_bytes, head=head)
        self._path = path
        self._reasons_of, self._encode = reasons_of, encode
        self._wants_refused, self._a_minute = config.refused, config.a_minute
        self._window_bytes = window_bytes
        self._mono_ns = mono_ns
        self._minute_ns: int | None = None
        self._taken = self._chosen_bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def choose(self, answer: Answer) -> tuple[str, ...]:
        """Why this answer is kept; no reason where it is not, or where there is no room."""
        why = self._reasons_of(answer)
        return why if why and self._has_room(self._window_bytes) else ()

    def take(self, captured: Sequence[Captured], refused: Sequence[Refused], wall_ns: int) -> None:
        """Note what a line has chosen, and what it refused, at ``wall_ns`` (Unix)."""
        self._chosen_bytes = 0
        for one in captured:
            text = to_json(
                {"why": one.why, "raw": _base64(one.raw), "window": _base64(one.window.astype("<f8").tobytes())}
            )
            # The encoder gives a whole object on a line of its own; it becomes one more key.
            self._add(text[:-1] + b',"answer":' + self._encode(one.answer)[:-1] + b"}\n")
        if not self._wants_refused:
            return
        for each in refused:
            if self._has_room(len(each.raw)):
                self._add(
                    to_json({
                        "why": ("refused",), "raw": _base64(each.raw), "time": utc_text(wall_ns), "stream": each.stream,
                        "reason": each.rejection.reason,
                    }) + b"\n"
                )  # fmt: skip
        self._chosen_bytes = 0

    def flush(self) -> None:
        """Write what waits, in one write."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._ring.write(waiting)

    def status(self) -> str:
        """How many are kept, how many had no room, and where they stand."""
        text = f"{self._ring.written} samples kept"
        text += f", {self.passed_over} passed over" if self.passed_over else ""
        text += f", {self._ring.lost} lost: {self._ring.why}" if self._ring.lost else ""
        return f"{text}. They hold measurements: {self._path}"

    def close(self) -> None:
        """Write what waits and let the file go. Idempotent."""
        self.flush()
        self._ring.close()

    def _has_room(self, size: int) -> bool:
        """Whether one more of ``size`` bytes may be held and written; it is counted either way."""
        now = self._mono_ns()
        if self._minute_ns is None or now - self._minute_ns >= _MINUTE_NS:
            self._minute_ns, self._taken = now, 0
        held = self._waiting_bytes + self._chosen_bytes + _held(size)
        if self._taken >= self._a_minute or held > self._ring.half_bytes:
            self.passed_over += 1
            return False
        self._taken += 1
        self._chosen_bytes += _held(size)
        return True

    def _add(self, line: bytes) -> None:
        if len(line) > self._ring.half_bytes:  # its frame, whose size nobody knew before
            self.passed_over += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)


def _held(size: int) -> int:
    """What ``size`` bytes take as a line."""
    return size * 4 // 3 + _BESIDE_BYTES


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
