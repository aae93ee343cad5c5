"""Answers as messages of one topic, taken once the broker has confirmed them; it connects nothing and keeps no answer."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from edge_runtime.links.mqtt_port import MqttLink, Sent, TooLarge

REFUSED_PAUSE_NS: Final = 5_000_000_000
"""After the broker has refused an answer: somebody has to change something before it takes one."""
_TAKING: Final = "It is taking answers."


class MqttTopicSink:
    """One topic. The link sends again what it has not heard of; after a restart of the process the journal's answers go.

    ``topic`` has no variable left. With ``qos`` 0 an answer counts as taken once it is on its way.
    """

    def __init__(
        self, name: str, link: MqttLink, topic: str, *, qos: int, retain: bool, mono_ns: Callable[[], int]
    ) -> None:
        self._name = name
        self._link = link
        self._topic = topic
        self._qos = qos
        self._retain = retain
        self._mono_ns = mono_ns
        self._flying: deque[tuple[str, Sent]] = deque()
        self._paused_until_ns: int | None = None
        self._status = _TAKING

    @property
    def name(self) -> str:
        """Where it publishes."""
        return self._name

    @property
    def in_flight(self) -> int:
        """How many answers the broker has not confirmed; none while there is no connection to hear it by."""
        return len(self._flying) if self._link.is_up else 0

    def deliver(self, answers: Sequence[tuple[str, bytes]]) -> int:
        """Publish what is not on its way, as far as the broker lets us; how many it has confirmed. See the port."""
        flying = self._flying
        # An answer that the outbox gave up for want of room is none of ours any more.
        while flying and flying[0][0] != answers[0][0]:
            flying.popleft()
        taken = 0
        while flying and flying[0][1].done:
            _, sent = flying.popleft()
            self._status = "It is taking answers; nobody subscribes to them." if sent.unheard else _TAKING
            taken += 1
        if flying and flying[0][1].refusal:
            self._status = f"The broker refuses an answer: {flying[0][1].refusal}; trying again."
            self._paused_until_ns = self._mono_ns() + REFUSED_PAUSE_NS
            flying.clear()
        if self._paused_until_ns is not None:
            if self._mono_ns() < self._paused_until_ns:
                return taken
            self._paused_until_ns = None
        for identity, line in answers[taken + len(flying) :]:
            under_way = self._publish(line)
            if under_way is None:
                break
            if under_way.done and not flying:
                taken += 1
            else:
                flying.append((identity, under_way))
        return taken

    def withdraw(self, identities: Collection[str]) -> None:
        """Have the link send none of these again; see the port."""
        self._link.withdraw(sent for identity, sent in self._flying if identity in identities)
        self._flying = deque(one for one in self._flying if one[0] not in identities)

    def position(self) -> None:
        """What was published has no position."""
        return

    def recover(self, position: int | None, pending: Sequence[str]) -> set[str]:  # noqa: ARG002 -- the port's words
        """Nobody can be asked what arrived: what is pending goes out again, under the same ids."""
        return set()

    def status(self) -> str:
        """One plain sentence."""
        return self._status if self._link.is_up else f"{self._link.status()}."

    def close(self) -> None:
        """The link belongs to the process."""

    def _publish(self, line: bytes) -> Sent | None:
        try:
            return self._link.publish(self._topic, line.removesuffix(b"\n"), qos=self._qos, retain=self._retain)
        except TooLarge as error:
            self._status = f"It takes nothing: {error}."
            return None
