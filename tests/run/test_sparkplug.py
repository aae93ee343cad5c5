"""`run` as a host of Sparkplug B at a real mosquitto: late, answered, with a loss and a death; the node is paho and protobuf."""

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.sparkplug import framed
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import SparkplugDecode
from edge_runtime.spec.reading import Reading, Rejection
from tests.proof.mqtt_kills import BROKER
from tests.rig import sparkplug_pb as pb
from tests.rig.broker import Broker
from tests.rig.bundles import DEWPOINT
from tests.rig.mqtt_client import PATIENCE_S, Client
from tests.rig.sparkplug_pb import metric, payload
from tests.run.test_mqtt import Program, counts, online

DEVICE = """schema = "edge-runtime/device/1"
state_dir = "state"
broker = {{ host = "127.0.0.1", port = {port}, device = "pump-7", protocol = "{protocol}" }}
[[line]]
name = "dew"
bundle = "{bundle}"
source = {{ kind = "mqtt", topics = ["spBv1.0/plant/+/press/#"] }}
decode = {{ format = "sparkplug" }}
sink = [{{ kind = "mqtt" }}]
[line.channels]
air_temperature = {{ field = "Air/T", unit = "Cel" }}
relative_humidity = {{ field = "Air/H", unit = "%" }}
station_pressure = {{ field = "Air/P", unit = "hPa" }}
"""
OUT, STATUS, COMMAND = "edge/pump-7/dew", "edge/pump-7/status", "spBv1.0/plant/NCMD/press"
VALUES = {"Air/T": 21.5, "Air/H": 48.0, "Air/P": 1009.5}


class Node:
    """An edge node with one device, that is born again when it is asked."""

    def __init__(self, client: Client) -> None:
        self.client, self.seq = client, 0

    def say(self, kind: str, *metrics: dict[str, object]) -> None:
        self.seq = 0 if kind == "NBIRTH" else self.seq
        topic = f"spBv1.0/plant/{kind}/press" + ("/roof" if kind.startswith("D") else "")
        data = payload(metrics, seq=None if kind == "NDEATH" else self.seq, at=now())
        self.client.publish(topic, data, qos=0)
        self.seq = (self.seq + (kind != "NDEATH")) % 256

    def birth(self) -> None:
        self.say("NBIRTH", metric(0, pb.UINT64, name="bdSeq", at=now()))
        self.say("DBIRTH", *(metric(value, name=name, alias=alias, at=now(), unit="°C" if alias == 0 else None)
                             for alias, (name, value) in enumerate(VALUES.items())))  # fmt: skip

    def data(self) -> None:
        self.say("DDATA", *(metric(value, alias=alias, at=now(), tell_type=False)
                            for alias, value in enumerate(VALUES.values())))  # fmt: skip

    def until_asked(self) -> None:
        """Send data until it is heard: a subscription may come a moment after the status."""
        while not self.client.payloads(COMMAND):
            self.data()
            with contextlib.suppress(TimeoutError):
                self.client.until(lambda: bool(self.client.payloads(COMMAND)), "a command", 2)
        [asked] = pb.parsed(self.client.payloads(COMMAND)[-1]).metrics
        assert (asked.name, asked.boolean_value) == ("Node Control/Rebirth", True)


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_late_joiner_asks_answers_and_notices_a_loss(tmp_path: Path, protocol: str) -> None:
    with Broker(tmp_path / "mosquitto", BROKER) as broker, Client(broker.port, OUT, STATUS, COMMAND) as client:
        text = DEVICE.format(port=broker.port, bundle=DEWPOINT, protocol=protocol)
        (tmp_path / "device.toml").write_text(text)
        node = Node(client)
        node.birth()  # before anybody listens
        with Program(tmp_path):
            client.until(lambda: online(client), "the first status")
            node.until_asked()
            node.birth()
            node.data()
            client.until(lambda: len(client.payloads(OUT)) == 1, "an answer")
            node.seq += 1  # a message is lost
            node.data()
            node.birth()
            node.data()
            client.until(lambda: len(client.payloads(OUT)) == 2, "another answer")
            assert len(client.payloads(COMMAND)) == 1  # not twice in 30 s
            node.say("NDEATH", metric(0, pb.UINT64, name="bdSeq"))
            node.data()
            node.birth()
            node.data()
            client.until(lambda: len(client.payloads(OUT)) == 3, "a third answer")
        assert {json.loads(one)["stream"] for one in client.payloads(OUT)} == {"plant/press/roof"}
        samples = counts(tmp_path)["counts"]["samples"]
        assert samples["rejected"]["seq_gap"] == 1
        assert samples["rejected"]["no_birth"] >= 2
        assert samples["accepted"] == 3
        assert samples["received"] == 3 + sum(samples["rejected"].values())


OUTGOING = """schema = "edge-runtime/device/1"
state_dir = "state"
[broker]
host = "127.0.0.1"
port = {port}
device = "pump-7"
protocol = "{protocol}"
sparkplug = {{ group = "plant" }}
[[line]]
name = "dew"
bundle = "{bundle}"
source = {{ kind = "mqtt", topics = ["in/+/reading"], stream_level = 2 }}
decode = {{ format = "json" }}
sink = [{{ kind = "sparkplug" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""
READING = b'{"t": 21.5, "rh": 48, "p": 1009.5}'


class Host(Client):
    """A host application: what it has heard of the node, taken apart by protobuf."""

    def heard(self, kind: str = "") -> list[Any]:
        """(type, device, payload) of each message that the process or its broker sent, in order."""
        found = []
        for topic, data, retained in self.messages:
            _, _, what, _, *device = topic.split("/")
            assert not retained
            if what != "NCMD" and kind in ("", what):
                found.append((what, "".join(device), pb.parsed(data)))
        return found

    def until_heard(self, kind: str, count: int, patience_s: float = PATIENCE_S) -> Any:
        self.until(lambda: len(self.heard(kind)) >= count, f"{kind} {count}", patience_s)
        return self.heard(kind)[count - 1][2]

    def ask(self) -> None:
        rebirth = metric(value=True, datatype=pb.BOOLEAN, name="Node Control/Rebirth", at=now())
        self.publish_later("spBv1.0/plant/NCMD/pump-7", payload([rebirth], at=now()))


def bd_seq(told: Any) -> int:
    [found] = [one.long_value for one in told.metrics if one.name == "bdSeq"]
    return int(found)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_node_is_born_answers_is_born_again_and_dies(tmp_path: Path, protocol: str) -> None:
    with Broker(tmp_path / "mosquitto", BROKER) as broker, Host(broker.port, "spBv1.0/plant/#") as host:
        text = OUTGOING.format(port=broker.port, bundle=DEWPOINT, protocol=protocol)
        (tmp_path / "device.toml").write_text(text)
        with Program(tmp_path) as program:
            first = host.until_heard("NBIRTH", 1)
            assert first.seq == 0
            while len(host.heard("DDATA")) < 3:  # the line's own connection may be there a moment later
                host.publish("in/roof/reading", READING)
                with contextlib.suppress(TimeoutError):
                    host.until_heard("DDATA", len(host.heard("DDATA")) + 1, 2)
            kinds = [kind for kind, _, _ in host.heard()]
            assert kinds[:2] == ["NBIRTH", "DBIRTH"]
            assert set(kinds[2:]) == {"DDATA"}
            assert [told.seq for _, _, told in host.heard()] == list(range(len(kinds)))
            assert {device for _, device, _ in host.heard()} == {"", "dew:roof"}
            assert host.heard("DBIRTH")[0][2].metrics[0].properties.values[0].string_value == "Cel"
            assert not host.heard("DDATA")[0][2].metrics[0].is_historical
            host.ask()
            assert bd_seq(host.until_heard("NBIRTH", 2)) == bd_seq(first)
            host.until_heard("DBIRTH", 2)
            assert _read_back(host) == len(host.heard("DDATA"))
            broker.kill()
            broker.start()
            # The birth of its next connection came perhaps before this host was there: then it has to ask, as hosts do.
            while len(host.heard("NBIRTH")) == 2:
                host.ask()
                with contextlib.suppress(TimeoutError):
                    host.until(lambda: len(host.heard("NBIRTH")) > 2, "a birth on the next connection", 1)
            third = host.heard("NBIRTH")[-1][2]
            assert bd_seq(third) != bd_seq(first)
            program.process.kill()
            program.process.communicate()
            dead = host.until_heard("NDEATH", 1)
            assert bd_seq(dead) == bd_seq(third)
            assert not dead.HasField("seq")
            program.process.returncode = 0
        deaths, births = len(host.heard("NDEATH")), len(host.heard("NBIRTH"))
        with Program(tmp_path):
            host.until(lambda: len(host.heard("NBIRTH")) > births, "a birth")
        assert bd_seq(host.until_heard("NDEATH", deaths + 1)) == bd_seq(host.heard("NBIRTH")[-1][2])
        assert re.search(r"Client edge\w{16}sp disconnected", broker.log)  # it said so itself, its will was not needed


def _read_back(host: Host) -> int:
    """How many readings our own decoder makes of what the host has heard."""
    channels = {"dew_point": ChannelBinding(field="dew_point", unit="Cel")}
    decoder = make_decoder(SparkplugDecode(format="sparkplug"), channels)
    found = [decoder.decode(framed(topic, data)) for topic, data, _ in host.messages]
    assert not any(isinstance(one, Rejection) for one in found), found
    return sum(isinstance(one, Reading) for one in found)
