"""Two processes of one device name: the second says so, and so does doctor; an earlier start of our own is no other."""

import json

import pytest

from edge_runtime.run.broker_findings import look
from edge_runtime.run.config import load_config
from edge_runtime.run.namesake import TODO, find_namesake, sender
from tests.rig.broker import Broker, free_port
from tests.rig.mqtt_client import Client
from tests.run.test_mqtt import STATUS, Program, device, online

ONLINE = {"status": "online", "instance": "0123456789ab", "host": "plant-2", "pid": 4242}
SAID = "process 4242 on host 'plant-2' is online as device 'pump-7' too: whichever of the two ends first says offline for both"


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "mosquitto") as made:
        yield made


def found(folder):
    loaded = load_config(folder / "device.toml")
    return find_namesake(loaded, folder / "state", 5_000_000_000)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_another_that_is_online_is_told_with_its_place(tmp_path, broker, protocol):
    device(tmp_path, broker.port, protocol=protocol)
    assert found(tmp_path) == ""
    with Client(broker.port) as client:
        client.publish(STATUS, json.dumps(ONLINE), retain=True)
        assert found(tmp_path) == SAID


def test_one_that_is_offline_or_no_status_of_ours_is_no_namesake(tmp_path, broker):
    device(tmp_path, broker.port)
    loaded = load_config(tmp_path / "device.toml")
    own = sender(loaded.config.broker, tmp_path / "state")["instance"]
    assert own == sender(loaded.config.broker, tmp_path / "state")["instance"]
    assert own != sender(loaded.config.broker, tmp_path / "elsewhere")["instance"]
    with Client(broker.port) as client:
        for change in ({"status": "offline"}, {"instance": own}, {"instance": None}):
            client.publish(STATUS, json.dumps(ONLINE | change), retain=True)
            assert found(tmp_path) == ""
        for payload in ("online", "[1]", '{"status": "online"}'):
            client.publish(STATUS, payload, retain=True)
            assert found(tmp_path) == ""
        client.publish(STATUS, json.dumps(ONLINE | {"pid": [1], "host": "a\x1b[31m"}), retain=True)
        assert found(tmp_path).startswith("process an array on host 'a\\x1b[31m' is online")


def test_a_broker_that_is_not_there_holds_nothing_up(tmp_path):
    device(tmp_path, free_port())
    assert found(tmp_path) == ""


def test_doctor_tells_it_too(tmp_path, broker):
    device(tmp_path, broker.port)
    loaded = load_config(tmp_path / "device.toml")
    assert [one.subject for one in look(loaded).findings] == ["broker"]
    with Client(broker.port) as client:
        client.publish(STATUS, json.dumps(ONLINE), retain=True)
        assert look(loaded).findings[1:] == [("device name", "warn", SAID, TODO)]


def test_the_second_run_says_so_and_a_start_after_a_crash_does_not(tmp_path, broker):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        device(folder, broker.port)
    with Client(broker.port, STATUS) as client:
        with Program(first) as one:
            client.until(lambda: online(client), "the first status")
            status = online(client)
            with Program(second) as other:
                client.until(lambda: online(client)["pid"] != status["pid"], "the second status")
            said = f"edge-runtime: WARNING: process {status['pid']} on host '{status['host']}' is online as device 'pump-7' too"
            assert other.errors.decode().count(said) == 1
        assert b"WARNING" not in one.errors
        client.publish(STATUS, json.dumps(status), retain=True)  # as if the broker had gone with it, and came back
        seen = len(client.payloads(STATUS))
        with Program(first) as again:
            client.until(lambda: len(client.payloads(STATUS)) > seen, "the next status")
        assert b"WARNING" not in again.errors
