"""`run` as a host of Sparkplug B at a real mosquitto: late, answered, with a loss and a death; the node is paho and protobuf."""

import json
import time
from pathlib import Path

import pytest

from tests.proof.mqtt_kills import BROKER
from tests.rig import sparkplug_pb as pb
from tests.rig.broker import Broker
from tests.rig.bundles import DEWPOINT
from tests.rig.mqtt_client import Client
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
        self.client, self.seq, self.commands = client, 0, 0

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
        self.commands += 1
        self.client.until(lambda: len(self.client.payloads(COMMAND)) == self.commands, "a command")
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
            node.data()
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
        assert samples["rejected"] == {"no_birth": 2, "seq_gap": 1}
        assert (samples["received"], samples["accepted"]) == (6, 3)
