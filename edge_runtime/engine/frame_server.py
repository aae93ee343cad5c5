"""Answers frames with a session: the first brings the model, the others its inputs; it opens one and no second."""

import json
import os
from pathlib import Path
from typing import Any, Final

from edge_runtime.engine.session import Session, open_session
from edge_runtime.engine.tensor_frames import (
    CALL,
    DONE,
    OPEN,
    OUT_OF_MEMORY,
    REFUSED,
    BadFrame,
    Frame,
    Inbox,
    Outbox,
    as_text,
    rest_of,
    text_of,
)
from edge_runtime.errors import EdgeRuntimeError

_MIB: Final = 1 << 20
_RESERVE_BYTES: Final = 2 * _MIB
_FULL: Final = 0.9
"""From which share of the limit on a failure is one for want of memory, whatever its own words are."""


def serve(asked: int, answers: int, limit_mb: int) -> None:
    """Answer what comes from the pipe ``asked``; ``limit_mb`` is what this process may have, for its own words.

    Raises:
        EOFError, BrokenPipeError: the other side has gone.
        BadFrame: it is none of ours.

    """
    inbox, door = Inbox(), _Door(limit_mb)
    while True:
        while not inbox.take(asked):
            pass
        is_first = door.session is None
        total, buffers = door.answer(inbox.frame())
        if is_first:
            inbox.empty()
        while total:
            written = os.writev(answers, buffers)
            total -= written
            buffers = rest_of(buffers, written) if total else []


class _Door:
    """One session, and the answers to what is asked of it."""

    def __init__(self, limit_mb: int) -> None:
        self.session: Session | None = None
        self._limit_mb = limit_mb
        self._outbox = Outbox()
        self._reserve = [bytearray(_RESERVE_BYTES)]  # to tell of it when memory has run out

    def answer(self, frame: Frame) -> tuple[int, list[Any]]:
        """The frame that answers this one: its length and buffers. Raises BadFrame where this one is none of ours."""
        try:
            if self.session is None:
                self.session = _open(frame)
                return self._outbox.pack(DONE, frame.number, as_text(_described(self.session)))
            return self._outbox.pack(DONE, frame.number, _run(self.session, frame))
        except (EdgeRuntimeError, ValueError, MemoryError) as error:
            self._reserve.clear()
            return self._outbox.pack(REFUSED, frame.number, as_text(json.dumps(_told(error, self._limit_mb))))


def _open(frame: Frame) -> Session:
    if frame.kind != OPEN or len(frame.tensors) != 2:  # noqa: PLR2004 -- the settings and the model
        raise BadFrame("no model")
    return open_session(frame.tensors[1][1].tobytes(), **json.loads(text_of(frame)))


def _described(session: Session) -> str:
    return json.dumps({"inputs": session.inputs, "outputs": session.outputs, "placement": session.placement})


def _run(session: Session, frame: Frame) -> list[tuple[int, Any]]:
    if frame.kind != CALL:
        raise BadFrame("another model")
    names = session.inputs
    return list(enumerate(session({names[place][0]: tensor for place, tensor in frame.tensors}).values()))


def _told(error: Exception, limit_mb: int) -> dict[str, str]:
    """An error as plain texts, and whether it was for want of memory."""
    used_mb = _taken_mb()
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, MemoryError):
        cause = cause.__cause__
    if cause is not None or used_mb > _FULL * limit_mb:
        found = error.found if isinstance(error, EdgeRuntimeError) else type(error).__name__
        return {"kind": OUT_OF_MEMORY, "found": f"{found}, with {used_mb:.0f} of {limit_mb} MiB taken"}
    if isinstance(error, EdgeRuntimeError):
        parts = {part: str(getattr(error, part)) for part in ("subject", "found", "expected", "todo")}
        return {"kind": type(error).__name__, **parts}
    return {"kind": "ValueError", "found": str(error)}


def _taken_mb() -> float:
    """What this process has taken of its limit, MiB."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB
