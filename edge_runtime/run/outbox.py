"""Answers on their way out, until every sink has taken them; it keeps order and bounds, and encodes nothing."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edge_runtime.sinks.port import Sink


class Entry(NamedTuple):
    """One answer: its id and its line for each sink, in the sinks' order."""

    id: str
    lines: tuple[bytes, ...]


class Outbox:
    """Entries in order, and how many of them each sink has taken; an entry goes once all sinks took it.

    ``bytes`` is what the waiting lines hold.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)
        self._entries: deque[Entry] = deque()
        self._taken = [0] * len(self._sinks)
        self._new: list[Entry] = []
        self._gone = 0
        self.bytes = 0

    def __len__(self) -> int:
        """How many answers at least one sink has not taken."""
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Put one answer behind the others."""
        self._entries.append(entry)
        self._new.append(entry)
        self.bytes += sum(map(len, entry.lines))

    def deliver(self) -> int:
        """Offer each sink what it has not taken yet; gives how many answers are now with all of them."""
        for index, sink in enumerate(self._sinks):
            taken = self._taken[index]
            waiting = [(entry.id, entry.lines[index]) for entry in list(self._entries)[taken:]]
            if waiting:
                self._taken[index] += sink.deliver(waiting)
        return self._release(min(self._taken))

    def drop_oldest(self, max_bytes: int) -> int:
        """Let the oldest go until ``max_bytes`` hold the rest; gives how many went."""
        dropped = 0
        while self.bytes > max_bytes and self._entries:
            self._taken = [max(taken, 1) for taken in self._taken]
            dropped += self._release(1)
        return dropped

    @property
    def is_blocked(self) -> bool:
        """Whether some sink has not taken all there is."""
        return bool(self._entries)

    def take_changes(self) -> dict[str, Any]:
        """What changed since the last call, as JSON can hold it: the new entries, and how many have gone in all."""
        new, self._new = self._new, []
        return {"out": [_saved(entry) for entry in new], "gone": self._gone}

    def saved(self) -> dict[str, Any]:
        """The whole content, as JSON can hold it."""
        self._new = []
        return {"out": [_saved(entry) for entry in self._entries], "gone": self._gone}

    def restore(self, changes: Sequence[Mapping[str, Any]], positions: Sequence[int | None]) -> None:
        """Take over what ``saved`` and then ``take_changes`` gave, in order.

        Its entries may have been delivered before the restart: each sink says which it already has. ``positions`` are
        the sinks' own, as recorded with the last change.
        """
        entries = [Entry(one[0], tuple(map(str.encode, one[1]))) for change in changes for one in change["out"]]
        first = changes[0]
        gone = changes[-1]["gone"] - first["gone"]
        self._gone = changes[-1]["gone"]
        for entry in entries[gone:]:
            self.add(entry)
        self._new = []
        ids = [entry.id for entry in self._entries]
        for index, sink in enumerate(self._sinks):
            there = sink.recover(positions[index], ids)
            # A sink takes in order, so what it has is the beginning; a hole would be another program's doing.
            self._taken[index] = next((at for at, one in enumerate(ids) if one not in there), len(ids))

    def _release(self, count: int) -> int:
        for _ in range(count):
            entry = self._entries.popleft()
            self.bytes -= sum(map(len, entry.lines))
        self._taken = [taken - count for taken in self._taken]
        self._gone += count
        return count


def _saved(entry: Entry) -> list[Any]:
    return [entry.id, [line.decode() for line in entry.lines]]
