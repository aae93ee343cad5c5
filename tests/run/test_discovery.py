"""What is told to Home Assistant when, and what is removed; the link is a stand-in, then a real mosquitto."""

import json

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import boot
from edge_runtime.run.broker import open_link
from edge_runtime.run.config import load_config
from edge_runtime.run.discovery import FILE_NAME, Discovery, is_wanted
from edge_runtime.run.setting import make_setting
from tests.rig.broker import Broker
from tests.rig.bundles import DEWPOINT
from tests.rig.fake_link import FakeLink
from tests.rig.mqtt_client import Client
from tests.run.test_mqtt import OUT, STATUS, Program, device, reading


@pytest.fixture(scope="module")
def manifest():
    return boot(DEWPOINT, make_setting()).ready.model.manifest


def lines(folder, sink=", home_assistant = true"):
    device(folder, 1, sink=sink)
    return load_config(folder / "device.toml").config.line


def discovery(folder, manifest, link, **more):
    found = [(line, manifest) for line in lines(folder, **more)]
    return Discovery(found, link, device="pump-7", status_topic=STATUS, state=folder)


def test_nothing_is_wanted_where_nothing_was(tmp_path):
    assert not is_wanted(lines(tmp_path, ""), tmp_path)
    assert is_wanted(lines(tmp_path), tmp_path)
    (tmp_path / FILE_NAME).write_text("[]")
    assert is_wanted(lines(tmp_path, ""), tmp_path)


@pytest.mark.parametrize("text", ['["a/+"]', '["#"]', '[""]', '["a\\u0085"]', "{}", "", "[1]", None])
def test_what_was_told_before_cannot_be_read(tmp_path, manifest, text):
    """A broker would hang up on such topics, at every connection."""
    place = tmp_path / FILE_NAME
    place.mkdir() if text is None else place.write_text(text)
    link = FakeLink()
    discovery(tmp_path, manifest, link, sink="")
    assert link.kept == [{}]


def test_it_is_told_and_told_again_when_home_assistant_starts(tmp_path, manifest):
    link = FakeLink()
    made = discovery(tmp_path, manifest, link)
    [first] = link.kept
    assert all(topic.startswith("homeassistant/sensor/edge_pump-7_dew_") for topic in first)
    assert [json.loads(one)["value_template"] for one in first.values()] == [
        f"{{{{ value_json['{output.name}']['value'] }}}}" for output in manifest.outputs
    ]
    link.bring("homeassistant/status", b"offline")
    made.tick()
    assert link.kept == [first]
    link.bring("homeassistant/status", b"online")
    made.tick()
    assert link.kept == [first, first]


def test_another_prefix(tmp_path, manifest):
    link = FakeLink()
    made = discovery(tmp_path, manifest, link, sink=', home_assistant = "hass/x"')
    assert all(topic.startswith("hass/x/sensor/") for topic in link.kept[0])
    link.bring("hass/x/status", b"online")
    made.tick()
    assert len(link.kept) == 2


def test_what_is_no_longer_wanted_is_removed_once(tmp_path, manifest):
    first = FakeLink()
    discovery(tmp_path, manifest, first).tick()
    told = first.kept[-1]
    assert json.loads((tmp_path / FILE_NAME).read_text()) == sorted(told)
    link = FakeLink()
    link.is_up = False
    made = discovery(tmp_path, manifest, link, sink="")
    made.tick()
    assert link.kept == [dict.fromkeys(told, b"")]
    assert (tmp_path / FILE_NAME).exists(), "until the broker has it, it is remembered"
    link.is_up = True
    made.tick()
    made.tick()
    assert link.kept[1:] == [{}]
    assert not (tmp_path / FILE_NAME).exists()


def test_a_file_that_cannot_be_read_is_none(tmp_path, manifest):
    (tmp_path / FILE_NAME).write_text("{")
    link = FakeLink()
    discovery(tmp_path, manifest, link)
    assert b"" not in link.kept[0].values()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sink": ', home_assistant = true, encoding = "influx"'}, "the default shape"),
        ({"sink": ', home_assistant = true, map = { a = "/dew_point" }'}, "the default shape"),
        ({"sink": ', home_assistant = "{device}"'}, "write the prefix"),
        ({"sink": ', home_assistant = "a/#"'}, "a topic to publish to"),
        ({"sink": ", home_assistant = true", "source": ", stream_level = 2"}, "home_assistant with streams"),
        (
            {"sink": ', home_assistant = true, name = "a" }, { kind = "mqtt", topic = "b", home_assistant = true'},
            "home_assistant of 2 sinks",
        ),
    ],
)
def test_what_home_assistant_could_not_show_is_refused(tmp_path, more, says):
    device(tmp_path, 1, **more)
    with pytest.raises(ConfigurationError, match=says):
        load_config(tmp_path / "device.toml")


def test_a_source_that_would_read_what_is_told_is_refused(tmp_path):
    device(tmp_path, 1, sink=", home_assistant = true")
    file = tmp_path / "device.toml"
    file.write_text(file.read_text().replace("in/+/reading", "homeassistant/#"))
    with pytest.raises(ConfigurationError, match=r"home_assistant: found topic 'homeassistant/sensor/dew/config'"):
        open_link(load_config(file), tmp_path, "r")


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_with_a_real_broker(tmp_path, protocol):
    """Retained, there again for a broker that has forgotten and for a Home Assistant that starts, and gone when not wanted."""
    with Broker(tmp_path / "mosquitto") as broker:
        device(tmp_path, broker.port, sink=", home_assistant = true", protocol=protocol)
        with Program(tmp_path), Client(broker.port, "homeassistant/#", STATUS, OUT) as client:
            client.until(lambda: any(topic.endswith("/config") for topic, *_ in client.messages), "an entity")
            [(topic, payload, _)] = [one for one in client.messages if one[0].endswith("/config")]
            client.publish("homeassistant/status", "online")
            client.until(lambda: len(client.payloads(topic)) == 2, "the entity again")
            client.publish("in/a/reading", reading(0))
            client.until(lambda: client.payloads(OUT), "an answer")
            entity, answer = json.loads(payload), json.loads(client.payloads(OUT)[0])
            assert entity["state_topic"] == OUT
            assert entity["availability_topic"] == STATUS
            name = entity["value_template"].split("'")[1]
            assert isinstance(answer[name]["value"], float)
            assert json.loads(client.payloads(STATUS)[-1])["ready"] is True
            broker.kill()
            broker.wipe()
            broker.start()
            client.until(lambda: len(client.payloads(topic)) == 3, "the entity at a broker that has forgotten")
        with Client(broker.port, "homeassistant/#", name="later") as later:
            later.until(lambda: later.payloads(topic) == [payload], "the retained entity")
        device(tmp_path, broker.port, protocol=protocol)
        with Client(broker.port, "homeassistant/#", name="last") as last, Program(tmp_path):
            last.until(lambda: last.payloads(topic)[-1:] == [b""], "its end")
            last.until(lambda: not (tmp_path / "state" / FILE_NAME).exists(), "it to be forgotten")
