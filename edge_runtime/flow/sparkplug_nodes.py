"""What is known of the edge nodes of Sparkplug B: their births, their count of messages, their deaths; it reads no value."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from edge_runtime.flow.sparkplug import BD_SEQ, MAX_SEQ, Metric, Payload, Topic
from edge_runtime.spec.reading import Rejection

MAX_NODES: Final = 256
MAX_BIRTHS: Final = 1024
MAX_ALIASES: Final = 65_536
"""Of all births together, of which each alias costs a hundred bytes."""


class Birth(NamedTuple):
    """What one birth told: each alias with its name, None where nobody asks for it; types and units by name.

    Units change with the properties of data; ``refusals`` has those that are not what the binding says.
    """

    names: Mapping[int, str | None]
    types: Mapping[str, int]
    units: dict[str, str]
    refusals: dict[str, Rejection]


class _Node:
    __slots__ = ("bd_seq", "births", "checksum", "seq")

    def __init__(self, seq: int, checksum: int, bd_seq: object) -> None:
        self.seq, self.checksum, self.bd_seq = seq, checksum, bd_seq
        self.births: dict[str, Birth | None] = {}


class Nodes:
    """Edge nodes by name, and what is to be asked of them.

    ``is_dark`` is whether the last that was heard of the last one alive was its death.
    """

    def __init__(self, *, asks: bool) -> None:
        self._todo = (
            "it is asked to send its births again"
            if asks
            else 'let it send its births again, or set decode.rebirth = "ask"'
        )
        self._asks: set[str] = set()
        self._nodes: dict[str, _Node] = {}
        self.is_dark = False

    def take_asks(self) -> set[str]:
        """The nodes that are to be asked for their births since the last call."""
        asks, self._asks = self._asks, set()
        return asks

    def bury(self, topic: Topic, payload: Payload) -> None:
        """Forget a node that its broker declares dead; not so for the death of an earlier connection of the same node."""
        node, told = self._nodes.get(topic.node), _bd_seq(payload.metrics)
        if node is not None and (told is None or node.bd_seq in (None, told)):
            del self._nodes[topic.node]
            self._look()

    def follow(self, topic: Topic, payload: Payload, checksum: int) -> Rejection | None:
        """Take a message's place in the order of its node's: why what it says does not count, if it does not.

        A message that comes twice is let through: its samples are known again as such.
        """
        seq = payload.seq
        if topic.kind == "NBIRTH":
            if topic.node not in self._nodes and len(self._nodes) >= MAX_NODES:
                return _too_many(f"edge node {topic.node!r}, one more than {MAX_NODES}")
            # Version 3.0 says 0 in one place and 0 to 255 in another; some count on. We count from what it says.
            self._nodes[topic.node] = _Node(seq or 0, checksum, _bd_seq(payload.metrics))
            return None
        node = self._nodes.get(topic.node)
        if node is None:
            return self.lose(topic, f"a {topic.kind} before any NBIRTH of its node")
        if seq is None:
            raise ValueError(f"a {topic.kind} without seq")
        wanted = (node.seq + 1) % (MAX_SEQ + 1)
        if seq == wanted:
            node.seq, node.checksum = seq, checksum
        elif seq != node.seq or checksum != node.checksum:
            self.lose(topic, "")
            return Rejection(
                "seq_gap", f"Sparkplug {topic.source}", f"seq {seq}", f"seq {wanted}, the one after {node.seq}",
                f"a message was lost, and nothing counts until the node is born again; {self._todo}",
            )  # fmt: skip
        if topic.kind == "DDEATH":
            node.births.pop(topic.device, None)
            self._look()
        elif topic.kind == "DDATA" and topic.device not in node.births:
            return self.lose(topic, "a DDATA before any DBIRTH of its device")
        return None

    def keep(self, topic: Topic, birth: Birth | None) -> Rejection | None:
        """Remember a birth, or only that there was one; why not, where there are too many."""
        node = self._nodes[topic.node]
        node.births.pop(topic.device, None)
        births = [one for each in self._nodes.values() for one in each.births.values()]
        aliases = sum(len(one.names) for one in births if one is not None) + (len(birth.names) if birth else 0)
        if len(births) >= MAX_BIRTHS or aliases > MAX_ALIASES:
            return _too_many(f"{len(births) + 1} births with {aliases} aliases")
        node.births[topic.device] = birth
        self.is_dark = self.is_dark and birth is None
        return None

    def birth(self, topic: Topic) -> Birth | None:
        """What is known of who sent this."""
        node = self._nodes.get(topic.node)
        return None if node is None else node.births.get(topic.device)

    def lose(self, topic: Topic, found: str) -> Rejection:
        """Forget all of a node, whose births are no longer what it goes by, and have it asked for them."""
        self._nodes.pop(topic.node, None)
        if len(self._asks) < MAX_NODES:
            self._asks.add(topic.node)
        return Rejection("no_birth", f"Sparkplug {topic.source}", found, "births before data", self._todo)

    def _look(self) -> None:
        births = (one for node in self._nodes.values() for one in node.births.values())
        self.is_dark = all(one is None for one in births)


def _bd_seq(metrics: tuple[Metric, ...]) -> object:
    return next((one.raw for one in metrics if one.name == BD_SEQ), None)


def _too_many(found: str) -> Rejection:
    expected = f"at most {MAX_NODES} edge nodes, {MAX_BIRTHS} births and {MAX_ALIASES} aliases"
    return Rejection("too_many_streams", "Sparkplug", found, expected, "name fewer nodes in source.topics")
