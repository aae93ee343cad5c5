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
        self._named = False
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

    def withdraw(self, first: int) -> list[Entry]:
        """Take back, counted as ``added`` counts, the answers from ``first`` on that not every sink has taken for good.

        One that is on its way, or with one sink and not with another, may be out; but none of them is sent any more.
        """
        keep = max(first - self._gone, 0)
        withdrawn = [self._entries.pop() for _ in range(len(self._entries) - keep)][::-1]
        self._taken = [min(taken, keep) for taken in self._taken]
        identities = {entry.id for entry in withdrawn}
        for sink in self._sinks:
            sink.withdraw(identities)
        self._new = self._new[: max(0, len(self._new) - len(withdrawn))]
        self.bytes -= sum(len(line) for entry in withdrawn for line in entry.lines)
        return withdrawn

    @property
    def is_blocked(self) -> bool:
        """Whether some sink has not taken all there is."""
        return bool(self._entries)

    @property
    def in_flight(self) -> int:
        """How many answers sinks have sent on and not yet heard of."""
        return sum(sink.in_flight for sink in self._sinks)

    @property
    def is_held_up(self) -> bool:
        """Whether some sink has answers that it could not even send."""
        sinks = zip(self._sinks, self._taken, strict=True)
        return any(taken + sink.in_flight < len(self._entries) for sink, taken in sinks)

    @property
    def added(self) -> int:
        """How many answers came in since the start."""
        return self._gone + len(self._entries)

    @property
    def gone(self) -> int:
        """How many of those are with all sinks, or were given up."""
        return self._gone

    @property
    def waiting(self) -> str:
        """How many answers wait, for which sink and why, as a clause; empty where none do."""
        for sink, taken in zip(self._sinks, self._taken, strict=True):
            if taken + sink.in_flight < len(self._entries):
                return f"answers wait ({len(self._entries) - taken}): {sink.name}: {sink.status().removesuffix('.')}"
        return ""

    def take_changes(self) -> dict[str, Any]:
        """What changed since the last call, as JSON can hold it: the new entries that still wait, and how far all are.

        Entries are counted from 0 over the outbox's whole life: ``first`` is the number of the first in ``out``,
        ``gone`` that of the first that waits; ``taken`` is how many of the waiting ones each sink has.
        """
        new = self._new[max(0, len(self._new) - len(self._entries)) :]
        self._new = []
        first = self._gone + len(self._entries) - len(new)
        changes = {"out": [_saved(entry) for entry in new], "first": first, "gone": self._gone, "taken": [*self._taken]}
        if not self._named:
            self._named = True
            changes["names"] = [sink.name for sink in self._sinks]
        return changes

    def saved(self) -> dict[str, Any]:
        """The whole content, as JSON can hold it."""
        self._new, self._named = list(self._entries), False
        return self.take_changes()

    def restore(self, changes: Sequence[Mapping[str, Any]], positions: Sequence[int | None]) -> int:
        """Take over what ``saved`` and then ``take_changes`` gave, in order; gives how many answers have no sink now.

        Its entries may have been delivered before the restart: each sink says which it already has. ``positions`` are
        the sinks' own, as recorded with the last change. A sink that is new is owed nothing of what waits, and what
        waits for none but sinks that are no more has to go.
        """
        last = changes[-1]
        self._gone = last["gone"]
        names: Sequence[str] = next((one["names"] for one in reversed(changes) if "names" in one), [])
        kept = _matched([sink.name for sink in self._sinks], names)
        waiting = [
            one for change in changes for at, one in enumerate(change["out"], change["first"]) if at >= self._gone
        ]
        for identity, lines in waiting:
            self.add(Entry(identity, tuple(b"" if old is None else lines[old].encode() for old in kept)))
        self._new = []
        ids = [entry.id for entry in self._entries]
        for index, (sink, old) in enumerate(zip(self._sinks, kept, strict=True)):
            if old is None:
                self._taken[index] = len(ids)
                continue
            taken = last["taken"][old]
            there = sink.recover(positions[old], ids[taken:])
            # A sink takes in order, so what it has is the beginning; a hole would be another program's doing.
            self._taken[index] = next((at for at in range(taken, len(ids)) if ids[at] not in there), len(ids))
        return self._release(len(ids)) if all(old is None for old in kept) else 0

    def _release(self, count: int) -> int:
        for _ in range(count):
            entry = self._entries.popleft()
            self.bytes -= sum(map(len, entry.lines))
        self._taken = [taken - count for taken in self._taken]
        self._gone += count
        return count


def _matched(now: Sequence[str], before: Sequence[str]) -> list[int | None]:
    """For each sink of today, which of the former ones it is, by name; of equal names the first is the first."""
    free = list(enumerate(before))
    matched: list[int | None] = []
    for name in now:
        found = next((pair for pair in free if pair[1] == name), None)
        if found is not None:
            free.remove(found)
        matched.append(None if found is None else found[0])
    return matched


def _saved(entry: Entry) -> list[Any]:
    return [entry.id, [line.decode() for line in entry.lines]]
