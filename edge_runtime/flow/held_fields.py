"""The last value of each field of each stream, for senders that tell changes only; it reads no clock and judges no value."""

from typing import Any


class HeldFields:
    """Values with the times they are of, in Unix ns.

    ``most`` streams are remembered: of more, the one that has been silent the longest is forgotten.
    """

    def __init__(self, *, most: int = 1024) -> None:
        self._most = most
        self._streams: dict[str, dict[str, tuple[int, Any]]] = {}

    def put(self, stream: str, field: str, time_ns: int, value: Any) -> None:
        """Remember ``value``, unless a later one is known already."""
        fields = self._streams.pop(stream, None)
        if fields is None:
            fields = {}
            if len(self._streams) >= self._most:
                del self._streams[next(iter(self._streams))]
        self._streams[stream] = fields  # behind the others: it was heard last
        known = fields.get(field)
        if known is None or known[0] <= time_ns:
            fields[field] = (time_ns, value)

    def at(self, stream: str, field: str, time_ns: int, max_age_ns: int) -> Any:
        """The value at ``time_ns``; None where there is none, it is older than ``max_age_ns``, or of a later time."""
        known = self._streams.get(stream, {}).get(field)
        return known[1] if known is not None and 0 <= time_ns - known[0] <= max_age_ns else None

    def forget(self, stream: str, field: str | None = None) -> None:
        """Forget one field of a stream, or all of it."""
        if field is None:
            self._streams.pop(stream, None)
        elif stream in self._streams:
            self._streams[stream].pop(field, None)
