"""What every source of bytes promises to the loop that drains it; how bytes are got is none of its business."""

from typing import NamedTuple, Protocol

MAX_CHUNK_BYTES = 65_536
"""No chunk is larger: it bounds what one turn of the loop takes on."""


class Chunk(NamedTuple):
    """Bytes that arrived together.

    ``time_ns`` is wall-clock Unix nanoseconds of arrival (of the recording, when replayed), ``mono_ns`` the monotonic
    clock's. ``position`` is the offset, in bytes the source has given, just after this chunk. ``lost_before`` counts
    the bytes a full queue dropped just before it. ``fresh``: a connection began here, so the first frame may be cut.

    Of a source of whole messages a chunk is one message: ``topic`` is what it came by; ``stream`` is the stream that names,
    if any; ``mark`` is the same when it comes ``again`` (0: it never does). With ``dropped``, the ledger's word, a chunk has
    no bytes: it stands for ``lost_before`` messages, or samples that were asked for, that the source gave up.
    """

    data: bytes
    time_ns: int
    mono_ns: int
    position: int
    lost_before: int = 0
    fresh: bool = False
    stream: str = ""
    mark: int = 0
    again: bool = False
    dropped: str = ""
    topic: str = ""


class Wake(Protocol):
    """What a source rings: a ``threading.Event`` is one."""

    def set(self) -> None:
        """Something waits, ended or changed; from any thread."""


class Source(Protocol):
    """Bytes from somewhere; everything but ``stop`` is called from one thread.

    ``resumable``: ``start`` may be given any earlier position and the same bytes follow. ``live``: it happens now;
    if not, event time rules. ``redelivers``: what was not acknowledged comes again, also after a restart.
    """

    @property
    def name(self) -> str:
        """What it reads, for a person."""

    @property
    def resumable(self) -> bool:
        """Whether positions mean something after a restart."""

    @property
    def live(self) -> bool:
        """Whether arrival times are now."""

    @property
    def can_wait(self) -> bool:
        """Whether what is not taken waits at the sender, without loss and without limit."""

    @property
    def redelivers(self) -> bool:
        """Whether what was not acknowledged comes again."""

    @property
    def ended(self) -> bool:
        """Nothing will come any more and everything was taken."""

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would give something at once."""

    @property
    def reopened(self) -> int:
        """How often the connection was opened again after the first time."""

    def start(self, wake: Wake, position: int = 0) -> None:
        """Begin; ``wake`` is set whenever something waits, ended or changed. Raises ConfigurationError."""

    def take(self, max_bytes: int = MAX_CHUNK_BYTES) -> list[Chunk]:
        """Everything that waits, up to ``max_bytes`` (one chunk at least); never blocks. Raises InternalError."""

    def acknowledge(self, position: int) -> None:
        """What was given up to ``position`` is durable: it need not be kept for us any longer."""

    def due_ns(self) -> int | None:
        """When, on the monotonic clock, a paced source has its next chunk; None if only ``wake`` will tell."""

    def status(self) -> str:
        """One plain sentence."""

    def stop(self) -> None:
        """Cancel, close, and wait for its thread, 2 s at most; what waits may still be taken. Idempotent."""
