"""Asks edge nodes of Sparkplug B for their births, not too often; it never asks where it was given no link."""

from collections.abc import Callable
from typing import Final

from edge_runtime.flow.decode_sparkplug import SparkplugDecoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.sparkplug import command_topic, framed, rebirth_command
from edge_runtime.links.mqtt_port import MqttLink, TooLarge

AGAIN_NS: Final = 30_000_000_000
"""A node whose births do not come is asked again after so long."""
MOST_NODES: Final = 64
"""Asked within AGAIN_NS: who may publish may invent nodes, and each would be answered by a message."""


class Rebirths:
    """The requests of one line; ``decoder`` says which nodes it needs them of."""

    def __init__(
        self,
        decoder: Decoder,
        link: MqttLink | None,
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
    ) -> None:
        """Raises TypeError for a decoder of another format."""
        if not isinstance(decoder, SparkplugDecoder):
            raise TypeError("only Sparkplug has births")
        self._decoder = decoder
        self._link = link
        self._wall_ns, self._mono_ns = wall_ns, mono_ns
        self._asked_ns: dict[str, int] = {}

    @property
    def is_dark(self) -> bool:
        """Whether every node and device that brought samples has died."""
        return self._decoder.is_dark

    def framed(self, topic: str, payload: bytes) -> bytes:
        """The frame that the decoder takes for a message."""
        return framed(topic, payload)

    def ask(self) -> None:
        """Send what has to be asked, as QoS 0 and unretained as the specification wants; its next data asks again."""
        nodes = self._decoder.take_asks()
        if not nodes or self._link is None:
            return
        now = self._mono_ns()
        self._asked_ns = {node: then for node, then in self._asked_ns.items() if now - then < AGAIN_NS}
        for node in sorted(nodes - self._asked_ns.keys())[: MOST_NODES - len(self._asked_ns)]:
            payload = rebirth_command(self._wall_ns() // 1_000_000)
            try:
                sent = self._link.publish(command_topic(node), payload, qos=0, retain=False)
            except TooLarge:
                continue
            if sent is not None:
                self._asked_ns[node] = now
