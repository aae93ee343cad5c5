"""What every sink of answers promises to the loop that feeds it; what a line says is none of its business."""

from collections.abc import Collection, Sequence
from typing import Protocol

from edge_runtime.errors import TemporaryError


class SinkClosed(TemporaryError):
    """Whoever read the answers has gone for good: nothing more can be delivered there."""


class Sink(Protocol):
    """Encoded answers to somewhere, in order; all calls from one thread."""

    @property
    def name(self) -> str:
        """Where it writes, for a person."""

    @property
    def in_flight(self) -> int:
        """How many answers are on their way: sent, and not yet taken for good."""

    def deliver(self, answers: Sequence[tuple[str, bytes]]) -> int:
        """Take (id, line with its newline) pairs in order; how many were taken for good.

        Fewer than were given: some are on their way, or it is blocked or full, and ``status`` says why; the rest, the
        first of them first, is to be given again later. Raises SinkClosed.
        """

    def withdraw(self, identities: Collection[str]) -> None:
        """Let go of those on their way: neither send them again nor count them as taken."""

    def position(self) -> int | None:
        """Bytes of the file after the last whole line; None where there is no such thing."""

    def recover(self, position: int | None, pending: Sequence[str]) -> set[str]:
        """After a restart: those of the ``pending`` ids, oldest first, that had been taken already.

        ``position`` is the last one that was recorded; only what stands behind it is read. A torn last line is cut off.
        """

    def status(self) -> str:
        """One plain sentence."""

    def close(self) -> None:
        """Bring everything out and let go. Idempotent, never raises."""
