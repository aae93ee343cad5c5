"""Which messages a line has taken already, and how far its input is answered for; it acknowledges nothing itself."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

KNOWN_MARKS: Final = 1024
"""At most 64 messages are taken and not acknowledged (broker.receive_maximum); but a broker that is slow to read has not
heard of many more, and sends those again too."""


class KnownMessages:
    """The marks of the newest KNOWN_MARKS messages, and which of them the journal does not have yet."""

    def __init__(self) -> None:
        self._marks: OrderedDict[int, None] = OrderedDict()
        self._new: list[int] = []

    def take(self, mark: int, *, again: bool) -> bool:
        """Note a message; whether it comes ``again`` and was taken before. A mark alone may be another message's."""
        known = again and mark in self._marks
        self._marks[mark] = None
        self._marks.move_to_end(mark)
        self._new.append(mark)
        if len(self._marks) > KNOWN_MARKS:
            self._marks.popitem(last=False)
        return known

    def take_changes(self) -> dict[str, list[int]]:
        """The marks since the last call, as JSON can hold them; nothing where there are none."""
        new, self._new = self._new, []
        return {"marks": new[-KNOWN_MARKS:]} if new else {}

    def saved(self) -> dict[str, list[int]]:
        """All of them, as JSON can hold them."""
        self._new = list(self._marks)
        return self.take_changes()

    def restore(self, marks: Iterable[int]) -> None:
        """Take over what ``take_changes`` and ``saved`` gave, in order."""
        for mark in marks:
            self.take(mark, again=False)
        self._new = []


class Owed:
    """Up to which position every answer has gone, where answers go in the order of their samples."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()
        self._position = 0

    def note(self, position: int, added: int) -> None:
        """The source stands at ``position``, and ``added`` answers were made so far, of this start and before."""
        if position != self._position:
            self._position = position
            self._marks.append((position, added))

    def withdraw(self, added: int) -> None:
        """Answers beyond ``added`` have been taken back: their samples wait for none of them."""
        self._marks = deque((position, min(one, added)) for position, one in self._marks)

    def settled(self, gone: int) -> int | None:
        """The last position whose answers are among the ``gone`` ones; None where that is no news."""
        position = None
        while self._marks and self._marks[0][1] <= gone:
            position = self._marks.popleft()[0]
        return position
