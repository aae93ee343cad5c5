"""Questions over an open port and their whole answers; one that comes late never counts as the answer to the next."""

import re
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from edge_runtime.flow.framing_block import block_end
from edge_runtime.flow.quoting import quote, quote_bytes
from edge_runtime.links.serial_port import SerialPort
from edge_runtime.spec.reading import Rejection
from edge_runtime.spec.source import Poll

MOST_STRAY_BYTES = 1 << 20
"""What is thrown away before a question at most: a port that brings more never falls silent."""
PATIENCE = 5
"""How many times the silence that is wanted may pass before a port counts as one that is never silent."""
_LINE_END = re.compile(rb"[\r\n]")
# As SCPI-1999 21.8 has it: a number, a comma and a text in quotes, which no measured value is.
_ERROR = re.compile(rb"(?:^|(?<=[\r\n]))([+-]?[0-9]+,[ \t]*\"[^\r\n]*)[\r\n]")

Found = TypeVar("Found")


class NoAnswer(NamedTuple):
    """Why a sample that was asked for did not come: the ledger's word, and a clause for a person."""

    reason: str
    words: str


class _Answer(NamedTuple):
    """What a question found: the bytes of its answer, or why they are none."""

    data: bytes
    refused: Rejection | None = None


class Wire:
    """An open port whose other end answers, with ``most_bytes`` at most.

    ``heard`` is what came since the last question, ``stray_bytes`` how many came unasked, ``unheard`` how many questions
    in a row nothing at all came after.
    """

    def __init__(
        self, link: SerialPort, mono_ns: Callable[[], int], stopping: threading.Event, most_bytes: int
    ) -> None:
        self.heard = b""
        self.stray_bytes = 0
        self.unheard = 0
        self._link = link
        self._mono_ns = mono_ns
        self._stopping = stopping
        self._most_bytes = most_bytes

    def ask(self, question: bytes, find: Callable[[bytes], Found | None], timeout_ns: int) -> Found | None:
        """Write ``question`` once all that waits is thrown away; give what ``find`` finds in what comes, or ``None``.

        Raises LinkLost.
        """
        self._throw_away()
        self.heard = b""
        until_ns = self._mono_ns() + timeout_ns
        self._link.write(question)
        while self._mono_ns() < until_ns and not self._stopping.is_set() and len(self.heard) <= self._most_bytes:
            data = self._link.read()
            if data:
                self.heard += data
                found = find(self.heard)
                if found is not None:
                    self.unheard = 0
                    return found
        self.unheard = 0 if self.heard else self.unheard + 1
        return None

    def fall_silent(self, quiet_ns: int) -> bool:
        """Throw away what comes until nothing has for so long; whether that came to pass. Raises LinkLost."""
        begun_ns = self._mono_ns()
        until_ns = begun_ns + quiet_ns
        while self._mono_ns() < until_ns and not self._stopping.is_set():
            data = self._link.read()
            if data:
                self.stray_bytes += len(data)
                until_ns = self._mono_ns() + quiet_ns
            if self._mono_ns() - begun_ns > PATIENCE * quiet_ns:
                return False
        return True

    def rest(self, quiet_s: float) -> None:
        """Leave the bus alone for so long."""
        self._stopping.wait(quiet_s)

    def _throw_away(self) -> None:
        thrown = 0
        while thrown < MOST_STRAY_BYTES and (data := self._link.read_waiting()):
            thrown += len(data)
            self.stray_bytes += len(data.strip(b"\r\n"))  # the rest of a line end is no news


class Asking(Protocol):
    """What is asked for one sample."""

    every_s: float

    def ask(self, wire: Wire) -> bytes | NoAnswer:
        """Ask all of it: the bytes of one sample, which the line's framing takes as one frame. Raises LinkLost."""


class TextQuestions:
    """Questions in text, as SCPI and balances take them; an answer is a line, or an IEEE 488.2 block.

    After one that did not come, the next question waits until ``ask_error`` has been answered, since answers come in the
    order of their questions; without it, until nothing has come for ``timeout_s``.
    """

    def __init__(self, poll: Poll, max_bytes: int) -> None:
        self.every_s = poll.every_s
        self._timeout_s = poll.timeout_s or 0.0
        self._timeout_ns = round(self._timeout_s * 1e9)
        self._questions = [question.encode("latin-1") for question in poll.questions]
        self._ask_error = None if poll.ask_error is None else poll.ask_error.encode("latin-1")
        self._max_bytes = max_bytes
        self._in_doubt = False

    def ask(self, wire: Wire) -> bytes | NoAnswer:
        """The answers with commas between, or the only one as it came, and a line end."""
        if self._in_doubt:
            said = self._settle(wire)
            if said is not None and self._in_doubt:
                return NoAnswer("no_answer", said)
        answers = []
        for question in self._questions:
            answer = wire.ask(question, self._find, self._timeout_ns)
            if answer is None or answer.refused is not None:
                return self._none(wire, question, answer and answer.refused)
            answers.append(answer.data)
        return b",".join(answers) + (b"\n" if answers[0].startswith(b"#") else b"\r\n")

    def _none(self, wire: Wire, question: bytes, refused: Rejection | None) -> NoAnswer:
        asked, heard = quote(question.strip().decode("latin-1")), wire.heard
        if refused is not None:
            reason, words = refused.reason, f"answer to {asked}: found {refused.found}; expected {refused.expected}"
        elif heard.strip():
            reason = "no_answer"
            words = f"only {quote_bytes(heard)} without its end in answer to {asked} within {self._timeout_s:g} s"
        else:
            reason, words = "no_answer", f"no answer to {asked} within {self._timeout_s:g} s"
        self._in_doubt = True
        said = self._settle(wire) if self._ask_error is not None else None
        return NoAnswer(reason, f"{words}; {said}" if said else words)

    def _settle(self, wire: Wire) -> str | None:
        """Get past what may still come in answer to an earlier question; what the instrument says is wrong, if asked."""
        if self._ask_error is None:
            if not wire.fall_silent(self._timeout_ns):
                return "it sends without being asked, so an answer could not be told from the rest"
            self._in_doubt = False
            return None
        said = wire.ask(self._ask_error, _find_error, self._timeout_ns)
        asked = quote(self._ask_error.strip().decode("latin-1"))
        if said is None:
            return f"none to {asked} either; is it on, and set to this port?"
        self._in_doubt = False
        return f"{asked} says {quote(said.decode('latin-1'))}"

    def _find(self, heard: bytes) -> _Answer | None:
        # A late answer to ask_error is none to this question.
        data = (_ERROR.sub(b"", heard) if self._ask_error is not None else heard).lstrip(b"\r\n")
        if data[:1] == b"#" and data[1:2].isdigit():
            return self._find_block(data)
        end = _LINE_END.search(data)
        if end is not None:
            return _Answer(data[: end.start()])
        if len(data) > self._max_bytes:
            found, expected = f"more than {self._max_bytes} bytes", "a shorter one, or twice as many queue_bytes"
            return _Answer(b"", Rejection("too_long", "answer", found, expected))
        return None

    def _find_block(self, data: bytes) -> _Answer | None:
        end = block_end(data, 0, self._max_bytes)
        if isinstance(end, Rejection):
            return _Answer(b"", end)
        if len(data) <= end:
            return None
        if data[end : end + 1] not in {b"\r", b"\n"}:
            found = f"{quote_bytes(data[end : end + 1])} behind its {end} bytes"
            return _Answer(b"", Rejection("bad_frame", "answer", found, "a line end: a byte of the block was lost"))
        return _Answer(data[:end])


def _find_error(heard: bytes) -> bytes | None:
    found = _ERROR.search(heard)
    return None if found is None else found[1]
