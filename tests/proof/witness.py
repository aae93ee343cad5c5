"""What went between the runtime and its broker, seen on the wire: told apart what a broker lost from what we lost."""

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from tests.rig.mqtt_proxy import CONNACK, PUBACK, PUBLISH, Packet

REFUSED = 0x80


@dataclass
class LineSeen:
    """Of one line: samples by the time in them, in seconds, and answers by id.

    ``given`` came to the runtime, ``taken`` it acknowledged; ``heard`` holds the times of the answers that the broker
    confirmed, ``said`` how often each went out by its content.
    """

    given: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    heard: dict[str, int] = field(default_factory=dict)
    said: dict[str, Counter[bytes]] = field(default_factory=dict)
    newest: int = 0
    """The latest time of an answer that the broker confirmed."""

    @property
    def doubles(self) -> int:
        """How many answers went out again."""
        return sum(content.total() - 1 for content in self.said.values())

    @property
    def altered(self) -> list[str]:
        """The answers that went out again with other bytes."""
        return [identity for identity, content in self.said.items() if len(content) > 1]

    @property
    def unanswered(self) -> set[int]:
        """The samples that the runtime acknowledged and the broker has no answer to."""
        return self.taken - set(self.heard.values())


class Witness:
    """Listens to an MqttProxy: ``lines`` by name, and when, on the monotonic clock, the broker said welcome."""

    def __init__(self, names: list[str]) -> None:
        self.lines = {name: LineSeen() for name in names}
        self.welcomes: list[float] = []
        self._lock = threading.Lock()
        self._samples: dict[tuple[int, int], tuple[str, int]] = {}
        self._answers: dict[tuple[int, int], tuple[str, str, int]] = {}

    def tell(self, packet: Packet) -> None:
        with self._lock:
            self._note(packet)

    def _note(self, packet: Packet) -> None:
        place = (packet.connection, packet.packet_id)
        way, _, name = packet.topic.partition("/")
        if packet.kind == CONNACK and packet.code == 0:
            self.welcomes.append(time.monotonic())
        elif packet.kind == PUBLISH and name in self.lines:
            told = json.loads(packet.payload)
            if packet.from_broker and way == "in":
                self.lines[name].given.add(told["time"])
                self._samples[place] = (name, told["time"])
            elif not packet.from_broker and way == "out":
                content = self.lines[name].said.setdefault(told["id"], Counter())
                content[sha256(packet.payload).digest()] += 1
                self._answers[place] = (name, told["id"], int(datetime.fromisoformat(told["time"]).timestamp()))
        elif packet.kind == PUBACK and packet.from_broker and place in self._answers and packet.code < REFUSED:
            name, identity, second = self._answers.pop(place)
            self.lines[name].heard[identity] = second
            self.lines[name].newest = max(self.lines[name].newest, second)
        elif packet.kind == PUBACK and not packet.from_broker and place in self._samples:
            name, second = self._samples.pop(place)
            self.lines[name].taken.add(second)
