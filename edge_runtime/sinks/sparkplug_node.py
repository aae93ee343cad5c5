"""An edge node of Sparkplug B, which this process is: its births, its count, its death, one device a stream; it keeps no answer."""

from collections.abc import Callable, Collection, Sequence
from socket import socket
from typing import Any, Final

from pydantic_core import from_json

from edge_runtime.flow.encode_sparkplug import Shape, death, fits, metrics_of, node_metrics, stamped
from edge_runtime.flow.sparkplug import MAX_SEQ, NAMESPACE, asks_rebirth
from edge_runtime.links.mqtt_dialect import LastWill
from edge_runtime.links.mqtt_port import Inbox, MqttLink, TooLarge

REBIRTH_NS: Final = 1_000_000_000
"""Births are sent again on command, but not more often: each costs as much as all devices together."""
_FORBIDDEN: Final = frozenset("/+#")


class EdgeNode:
    """The node ``group``/``edge`` on a connection of its own, whose end its broker tells by NDEATH.

    The loop turns it as it does a link. Each connection has the next ``bdSeq``.
    """

    def __init__(
        self, group: str, edge: str, run_id: str, *, wall_ns: Callable[[], int], mono_ns: Callable[[], int]
    ) -> None:
        self.name = f"{group}/{edge}"
        self.born_ms = 0
        self._is_told, self._unborn = False, ""
        self._group, self._edge, self._run_id = group, edge, run_id
        self._wall_ns, self._mono_ns = wall_ns, mono_ns
        # Not 0 at each start: the death of the last run may still be on its way.
        self._bd_seq = wall_ns() // 1_000_000_000 % (MAX_SEQ + 1)
        self._seq = 0
        self._devices: dict[str, tuple[Shape, dict[str, Any], int]] = {}
        self._link: MqttLink | None = None
        self._commands: Inbox | None = None
        self._is_asked = False
        self._born_ns = 0

    def attach(self, link: MqttLink) -> None:
        """Live on ``link``, which was made with ``will``; to be called once, before it starts."""
        self._link = link
        self._commands = link.subscribe([self._topic("NCMD")], qos=1, retained=False)
        link.greet(self._connected)

    def will(self) -> LastWill:
        """What the broker is to say when the connection about to be made ends."""
        self._bd_seq = (self._bd_seq + 1) % (MAX_SEQ + 1)
        return LastWill(self._topic("NDEATH"), death(self._bd_seq, self._now_ms()), retain=False)

    def tell(self, device: str, shape: Shape, values: dict[str, Any], time_ms: int) -> bool:
        """Send one answer as DDATA, before the first of a device its DBIRTH; False where that has to wait. Raises TooLarge.

        One that is older than this connection's births is told as historical.
        """
        if not self.is_born:
            return False
        if device not in self._devices:
            if not self._say("DBIRTH", device, metrics_of(shape, {}, self._now_ms(), birth=True)):
                return False
            self._devices[device] = (shape, {}, time_ms)
        historical = time_ms < self.born_ms
        if not self._say("DDATA", device, metrics_of(shape, values, time_ms, birth=False, historical=historical)):
            return False
        if not historical:
            self._devices[device] = (shape, values, time_ms)
        return True

    @property
    def is_born(self) -> bool:
        """Whether a host knows what data would mean."""
        return self._is_told and self._link is not None and self._link.is_up

    def status(self) -> str:
        """One plain sentence."""
        return "not started" if self._link is None else self._unborn or self._link.status()

    # As the loop turns it.

    @property
    def socket(self) -> socket | None:
        """What to wait for."""
        return None if self._link is None else self._link.socket

    @property
    def wants_write(self) -> bool:
        """Whether to wait for room to write too."""
        return self._link is not None and self._link.wants_write

    @property
    def trouble(self) -> str:
        """What keeps it from its work, as a clause."""
        trouble = "" if self._link is None else self._link.trouble or self._unborn
        return trouble and f"Sparkplug node {self.name}: {trouble}"

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to connect."""
        if self._link is not None:
            self._link.start(wake)

    def receive(self) -> None:
        """Take all that waits, and be born again where that is asked."""
        if self._link is None or self._commands is None:
            return
        self._link.receive()
        while len(self._commands):
            message = self._commands.take()
            self._link.acknowledge(message)
            self._is_asked = self._is_asked or asks_rebirth(message.payload)
        is_due = self._is_asked and self._mono_ns() - self._born_ns >= REBIRTH_NS
        if self._link.is_up and (is_due or not self._is_told):
            self._birth()

    def send(self) -> None:
        """Hand what was gathered to the system."""
        if self._link is not None:
            self._link.send()

    def due_ns(self) -> int | None:
        """When ``receive`` must be called without new input."""
        due = None if self._link is None else self._link.due_ns()
        asked = self._born_ns + REBIRTH_NS if self._is_asked else None
        return min((one for one in (due, asked) if one is not None), default=None)

    def close(self) -> None:
        """Die in order. Idempotent, never raises."""
        self._is_told = False
        if self._link is not None:
            self._link.close(death(self._bd_seq, self._now_ms()))

    def _connected(self) -> None:
        self.born_ms = self._now_ms()
        self._birth()

    def _birth(self) -> None:
        """Tell the node and every device; what does not fit now goes with the next turn, all of it."""
        self._seq, self._is_asked, self._born_ns = 0, False, self._mono_ns()
        now = self._now_ms()
        self._unborn = ""
        try:
            is_told = self._say("NBIRTH", "", node_metrics(self._bd_seq, self._run_id, now))
        except TooLarge as error:
            is_told, self._unborn = False, f"it cannot be born: {error}"
        self._is_told = is_told and all(self._bear(device, now) for device in list(self._devices))

    def _bear(self, device: str, now_ms: int) -> bool:
        """Tell a device with its last values; one for which that is too much is born without them at its next answer."""
        shape, values, time_ms = self._devices[device]
        try:
            return self._say("DBIRTH", device, metrics_of(shape, values, time_ms if values else now_ms, birth=True))
        except TooLarge:
            del self._devices[device]
            return True

    def _say(self, kind: str, device: str, metrics: bytes) -> bool:
        if self._link is None:
            return False
        payload = stamped(metrics, self._now_ms(), self._seq)
        if self._link.publish(self._topic(kind, device), payload, qos=0, retain=False) is None:
            return False
        self._seq = (self._seq + 1) % (MAX_SEQ + 1)
        return True

    def _topic(self, kind: str, device: str = "") -> str:
        topic = f"{NAMESPACE}/{self._group}/{kind}/{self._edge}"
        return f"{topic}/{device}" if device else topic

    def _now_ms(self) -> int:
        return self._wall_ns() // 1_000_000


class SparkplugSink:
    """The answers of one line as data of ``node``: see the port. What was sent is gone, for Sparkplug confirms nothing."""

    in_flight = 0

    def __init__(self, name: str, node: EdgeNode, line: str, shape: Shape) -> None:
        self.name = name
        self._node, self._line, self._shape = node, line, shape
        self._trouble = ""
        self._passed_over = 0

    def deliver(self, answers: Sequence[tuple[str, bytes]]) -> int:
        """Send as many as the connection takes; one that is no data of these devices is passed over and counted."""
        taken = 0
        self._trouble = ""
        for _, line in answers:
            stream, time_ms, values = from_json(line)
            if not fits(self._shape, values):
                self._passed_over += 1
                taken += 1
                continue
            try:
                if not self._node.tell(self._device(stream), self._shape, values, time_ms):
                    break
            except TooLarge as error:
                self._trouble = f"It takes nothing: {error}."
                break
            taken += 1
        return taken

    def withdraw(self, identities: Collection[str]) -> None:
        """Nothing is on its way here."""

    def position(self) -> None:
        """What was sent has no position."""
        return

    def recover(self, position: int | None, pending: Sequence[str]) -> set[str]:  # noqa: ARG002 -- the port's words
        """Nobody can be asked what arrived: what is pending goes out as historical."""
        return set()

    def status(self) -> str:
        """One plain sentence."""
        told = self._trouble or ("It is taking answers." if self._node.is_born else f"{self._node.status()}.")
        if self._passed_over:
            told += f" {self._passed_over} answers of a bundle with other outputs were not told."
        return told

    def close(self) -> None:
        """The node belongs to the process."""

    def _device(self, stream: str) -> str:
        return self._line if stream == self._line else f"{self._line}:{_level(stream)}"


def _level(text: str) -> str:
    """``text`` as a level of a topic. A broker hangs up on one with characters that cannot be printed, at every birth."""
    return "".join("-" if one in _FORBIDDEN or not one.isprintable() else one for one in text)
