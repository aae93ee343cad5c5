"""What every decoder answers for; it reads nothing itself."""

from typing import Protocol

from edge_runtime.spec.reading import Pack, Reading, Rejection


class Decoder(Protocol):
    """Reads frames of one format; only a CSV header, and births of Sparkplug, are remembered from one frame to the next."""

    def decode(self, frame: bytes) -> Reading | Rejection | Pack | None:
        """Read one frame without its end; ``None`` is no sample (header, comment, blank). It never raises."""

    def explain_missing(self, frame: bytes, refused: Rejection) -> Rejection:  # noqa: ARG002 -- a frame of most has all
        """Say of a channel that was refused as missing where this frame does not even have its field, and what it has."""
        return refused

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The CSV columns in force, for the journal; ``None`` before a header and for the other formats."""
        return None

    def restore_columns(self, columns: tuple[str, ...] | None) -> None:  # noqa: ARG002 -- CSV alone has any
        """Take up the columns of a former run, or with ``None`` wait for a header; ignored where they are fixed."""
        return  # a body, so that it counts as a default
