"""`run` on channels of several topics of a real mosquitto: killed between them, it goes on with what it holds."""

import json
import signal

import pytest

from tests.proof.mqtt_kills import BROKER
from tests.rig.broker import Broker
from tests.rig.bundles import DEWPOINT
from tests.rig.mqtt_client import Client
from tests.rig.program import run_program
from tests.run.test_mqtt import OUT, Program, counts, online

DEVICE = """schema = "edge-runtime/device/1"
state_dir = "state"
broker = {{ host = "127.0.0.1", port = {port}, device = "pump-7", protocol = "{protocol}" }}
[[line]]
name = "dew"
bundle = "{bundle}"
source = {{ kind = "mqtt", topics = ["attic/+/state"] }}
decode = {{ format = "pattern", pattern = "{{v:number}}" }}
sink = [{{ kind = "mqtt" }}]
[line.channels]
air_temperature = {{ topic = "attic/t/state", field = "v", unit = "Cel" }}
relative_humidity = {{ topic = "attic/rh/state", field = "v", unit = "%", when_absent = "last", max_age_s = 600 }}
station_pressure = {{ topic = "attic/p/state", field = "v", unit = "hPa", when_absent = "last", max_age_s = 600 }}
"""


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_what_is_held_outlives_a_kill_and_every_message_is_counted_once(tmp_path, protocol):
    with Broker(tmp_path / "mosquitto", BROKER) as broker:
        (tmp_path / "device.toml").write_text(DEVICE.format(port=broker.port, protocol=protocol, bundle=DEWPOINT))
        with Client(broker.port, OUT, "edge/pump-7/status") as client:
            program = Program(tmp_path)
            client.until(lambda: online(client), "the status")
            client.publish("attic/rh/state", "50")
            client.publish("attic/p/state", "1000")
            client.publish("attic/t/state", "20.5")
            client.until(lambda: client.payloads(OUT), "an answer")
            program.process.send_signal(signal.SIGKILL)
            program.process.communicate(timeout=30)
            client.publish("attic/rh/state", "60")
            client.publish("attic/t/state", "20.5")
            with Program(tmp_path):
                client.until(
                    lambda: len({json.loads(one)["id"] for one in client.payloads(OUT)}) == 2, "another answer"
                )
                client.until(lambda: counts(tmp_path)["counts"]["samples"]["received"] == 5, "all five")
                samples = counts(tmp_path)["counts"]["samples"]
                assert (samples["accepted"], samples["updates"], samples["rejected"]) == (2, 3, {})
                assert counts(tmp_path)["adds_up"]
                said = run_program("status", "--config", "device.toml", home=tmp_path, cwd=tmp_path).stdout
                assert "5 received = 2 accepted" in said
                assert "3 updates" in said
            first, *_, last = [json.loads(one) for one in client.payloads(OUT)]
            assert "held" in first["flags"]
            assert "held" in last["flags"]
            [name] = [key for key, value in last.items() if isinstance(value, dict) and "unit" in value]
            assert last[name]["value"] > first[name]["value"], "a more humid air has a higher dew point"
