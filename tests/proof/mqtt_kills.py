"""Lines between topics of a mosquitto, under load of QoS 1 and killed with -9 again and again; it knows no model."""

import itertools
import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.proof.station import environment, ledgers, program
from tests.rig.broker import Broker
from tests.rig.mqtt_client import Client

PATIENCE_S = 60.0
STATUS = "edge/killed/status"
BROKER = "max_queued_messages 0\n"
"""A queue without limit: what is looked for is a loss of ours, not the broker's."""

Payload = Callable[[int], bytes]


class Outcome(NamedTuple):
    """What came of a line: the payloads it was sent, every answer by id as often as it came, its ledger, the kills."""

    sent: list[bytes]
    answers: dict[str, list[bytes]]
    book: dict
    kills: int

    @property
    def doubles(self) -> int:
        """Answers that came more than once, each further time."""
        return sum(len(bodies) - 1 for bodies in self.answers.values())


class Load:
    """Publishes ``payload(0)``, ``payload(1)``... of each line to in/NAME, the lines in turns, ``rate_hz`` in all.

    From a thread of its own, until it is stopped; ``sent`` holds by line what it has published.
    """

    def __init__(self, client: Client, payloads: Mapping[str, Payload], rate_hz: float) -> None:
        self.sent: dict[str, list[bytes]] = {name: [] for name in payloads}
        self._client, self._payloads, self._period_s = client, payloads, 1 / rate_hz
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self, patience_s: float) -> None:
        """End, and return once the broker has taken the last one."""
        self._stopping.set()
        self._thread.join(patience_s)

    def _run(self) -> None:
        begun = time.monotonic()
        last = None
        for count, name in enumerate(itertools.cycle(self._payloads)):
            if self._stopping.wait(max(0.0, begun + count * self._period_s - time.monotonic())):
                break
            # What is published between two connections would overtake what has to be sent again.
            while not self._client.is_connected and not self._stopping.wait(0.01):
                pass
            payload = self._payloads[name](len(self.sent[name]))
            self.sent[name].append(payload)
            last = self._client.publish_later(f"in/{name}", payload)
        if last is not None:
            last.wait_for_publish(PATIENCE_S)


def killed(
    folder: Path,
    device: Callable[[Path, int], None],
    payloads: Mapping[str, Payload],
    *,
    kills: int,
    rate_hz: float,
    warm_up: int,
) -> dict[str, Outcome]:
    """Serve, kill ``kills`` times at random moments, serve the rest: what came of each line.

    Each sample but ``warm_up`` of all lines together has an answer. ``device`` writes device.toml for a broker's port:
    lines of the names in ``payloads``, topics in/NAME and out/NAME, the device's name ``killed``.
    """
    folder.mkdir()
    chance = random.Random(kills)
    command = program("run", "--exit-on-refusal", "--config", "device.toml")
    with (
        Broker(folder / "mosquitto", BROKER) as broker,
        (folder / "errors").open("ab") as errors,
        Client(broker.port, "out/+", name="listener") as listener,
        Client(broker.port, STATUS, name="watcher") as watcher,
        Client(broker.port, name="publisher") as publisher,
    ):
        device(folder, broker.port)

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, cwd=folder, env=environment(folder), stderr=errors)

        def welcomes() -> int:
            return sum(b'"online"' in one for one in watcher.payloads(STATUS))

        process = start()
        try:
            watcher.until(lambda: welcomes() > 0, "the first connection", PATIENCE_S)
            load = Load(publisher, payloads, rate_hz)
            for _ in range(kills):
                time.sleep(chance.uniform(0.0, 0.5))
                before = welcomes()
                process.kill()
                process.wait()
                process = start()
                # Mostly while serving, now and then while booting.
                if chance.random() < 0.9:
                    watcher.until(lambda before=before: welcomes() > before, "the next connection", PATIENCE_S)
            load.stop(PATIENCE_S + kills)
            due = sum(map(len, load.sent.values())) - warm_up
            seen = _Seen(listener)
            # What has queued up while the process was down: on a busy machine a thousand a second.
            listener.until(lambda: seen.look() >= due, f"{due} answers", PATIENCE_S + due / 1000)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0, (folder / "errors").read_text()
            seen.look()
        finally:
            process.kill()
            process.wait()
    assert "Traceback" not in (folder / "errors").read_text()
    books = ledgers(folder)
    return {
        name: Outcome(sent, seen.answers.get(f"out/{name}", {}), books[name], kills) for name, sent in load.sent.items()
    }


class _Seen:
    """The answers a listener has got, by topic and id; each message is looked at once."""

    def __init__(self, listener: Client) -> None:
        self.answers: dict[str, dict[str, list[bytes]]] = {}
        self._messages = listener.messages
        self._looked = 0

    def look(self) -> int:
        """How many different ones there are."""
        end = len(self._messages)
        for topic, body, _ in self._messages[self._looked : end]:
            self.answers.setdefault(topic, {}).setdefault(str(json.loads(body)["id"]), []).append(body)
        self._looked = end
        return sum(map(len, self.answers.values()))
