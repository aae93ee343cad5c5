"""From [broker] to a link: names, secrets, and what is not loaded where nobody asks for it."""

import json
import os
import subprocess
import sys

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.broker import default_client_id, device_name, open_link, open_node, with_topics
from edge_runtime.run.config import load_config
from edge_runtime.spec.broker import BrokerConfig
from tests.run.test_mqtt import device

MODULES = ("mqtt5", "ssl", "socket", "paho", "onnxruntime", "serial")


def loaded(folder, **change):
    device(folder, 1, **change)
    return load_config(folder / "device.toml")


def test_the_client_id_is_the_machine_s_and_the_state_folder_s(tmp_path):
    machine = tmp_path / "machine-id"
    machine.write_text("0123456789abcdef0123456789abcdef\n")
    first = default_client_id(tmp_path / "a", machine)
    assert first == default_client_id(tmp_path / "b" / ".." / "a", machine)
    assert (len(first), first.isalnum()) == (20, True)
    assert "0123456789" not in first
    assert default_client_id(tmp_path / "b", machine) != first
    machine.write_text("f123456789abcdef0123456789abcdef\n")
    assert default_client_id(tmp_path / "a", machine) != first
    assert default_client_id(tmp_path / "a", tmp_path / "none").startswith("edge")


def test_the_device_s_name_is_the_host_s_unless_given(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "pump/7+{x}")
    assert device_name(BrokerConfig(host="b")) == "pump-7--x-"
    assert device_name(BrokerConfig(host="b", device="d")) == "d"


@pytest.mark.parametrize("name", ["$SYS", "a/b", "a+", "#", "", "{x}", "a\\u007f"])
def test_a_device_name_is_one_level_of_a_topic(tmp_path, name):
    device(tmp_path, 1)
    file = tmp_path / "device.toml"
    file.write_text(file.read_text().replace('device = "pump-7"', f'device = "{name}"'))
    with pytest.raises(ConfigurationError, match=r"broker.device|no such variable"):
        load_config(file)


def test_a_host_s_name_is_made_one_level_of_a_topic(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "$SYS")
    assert device_name(BrokerConfig(host="b")) == "-SYS"


def test_two_sinks_of_one_topic_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="topic 'out', where line dew, sink one writes too"):
        open_link(
            loaded(tmp_path, sink=', name = "one", topic = "out" }, { kind = "mqtt", name = "two", topic = "out"'),
            tmp_path,
            "r",
        )


def test_topics_are_filled_in(tmp_path):
    found = loaded(tmp_path, source="", sink=', topic = "{device}/{line}/out"')
    line = with_topics(found.config.line[0], found.config.broker)
    assert (line.sink[0].topic, line.sink[0].full_name) == ("pump-7/dew/out", "mqtt pump-7/dew/out")
    assert line.source.topics == ("in/+/reading",)


def test_a_password_file_is_read_at_each_connection_and_never_shown(tmp_path):
    file = tmp_path / "password"
    file.write_text("first\nsecond line\n")
    link = open_link(loaded(tmp_path, broker=', user = "u", password_file = "password"'), tmp_path, "r")
    assert link._target.password() == b"first"
    file.write_text("later\r\n")
    assert link._target.password() == b"later"
    file.unlink()
    assert link._target.password() is None
    assert "later" not in repr(vars(link)) + repr(link._target)


def test_an_empty_password_file_is_refused(tmp_path):
    (tmp_path / "password").write_text("\n")
    with pytest.raises(ConfigurationError, match="whose first line is empty"):
        open_link(loaded(tmp_path, broker=', user = "u", password_file = "password"'), tmp_path, "r")


def test_a_password_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PUMP_PASSWORD", "hidden")
    link = open_link(loaded(tmp_path, broker=', user = "u", password_env = "PUMP_PASSWORD"'), tmp_path, "r")
    assert link._target.password() == b"hidden"
    assert "hidden" not in repr(link._target)
    monkeypatch.setitem(os.environb, b"PUMP_PASSWORD", b"gr\xfc\xdf")  # Latin-1: what the user typed is sent
    assert link._target.password() == b"gr\xfc\xdf"


@pytest.mark.parametrize(
    ("broker", "words"),
    [
        (', user = "u", password_file = "a", password_env = "B"', "both say the password"),
        (', password_env = "B"', "a password belongs to a user"),
        (', tls = { certificate = "a" }', "certificate and key belong together"),
        (", receive_maximum = 65", "less than or equal to 64"),
        (', transport = "websockets", protocol = "5"', "over websockets only 3.1.1 is spoken"),
        (', path = "/mqtt"', 'path belongs to transport "websockets"'),
        (', transport = "websockets", path = "mqtt"', "broker.path"),
        (', protocol = "3.1"', "broker.protocol"),
    ],
)
def test_a_broker_that_contradicts_itself(tmp_path, broker, words):
    with pytest.raises(ConfigurationError, match=words):
        loaded(tmp_path, broker=broker)


@pytest.mark.parametrize("host", ["mqtt://plant.example", "plant.example:1883", " plant.example", "[::1]"])
def test_a_host_with_more_than_its_name_is_refused(tmp_path, host):
    device(tmp_path, 1)
    file = tmp_path / "device.toml"
    file.write_text(file.read_text().replace("127.0.0.1", host))
    with pytest.raises(
        ConfigurationError, match=r"broker.host: found '.*'; expected a name or address alone; the port is"
    ):
        load_config(file)


def test_an_address_of_version_six_is_a_host():
    assert BrokerConfig(host="fe80::1%eth0").host == "fe80::1%eth0"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("\nbroker =", "\n#"), r'no \[broker\] with host = "\.\.\.", which the topics of line dew need'),
        (("max_bytes = 200", "max_bytes = 300000"), "framing.max_bytes of line dew above broker.max_packet_bytes"),
        (("max_bytes = 200", 'line_end = "lf"'), "framing with line_end; an MQTT message is one frame, so leave"),
        (("\nsource = {", '\nsource = { retained = "accept",'), 'retained = "accept" without max_age_s; write it'),
        (
            ('decode = { format = "json"', 'decode = { stream = "s", format = "json"'),
            "source.stream_level and decode.stream both name the stream",
        ),
    ],
)
def test_a_line_that_does_not_fit_its_broker(tmp_path, change, words):
    device(tmp_path, 1, source=", stream_level = 1")
    file = tmp_path / "device.toml"
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ConfigurationError, match=words):
        load_config(file)


def test_without_a_broker_nothing_of_it_is_loaded():
    code = (
        "import sys, json, edge_runtime.run.serve\n"
        f"print(json.dumps([name for name in {MODULES!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"mqtt5", "ssl", "paho", "serial"} & set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("broker", "place", "loaded_for_it"),
    [
        ("", "127.0.0.1:1883", {"mqtt5"}),
        (', protocol = "5"', "127.0.0.1:1883", {"mqtt5"}),
        (', protocol = "3.1.1", tls = {}', "127.0.0.1:8883", {"paho", "ssl"}),
        (', transport = "websockets"', "127.0.0.1:80", {"paho", "ssl"}),
        (', transport = "websockets", tls = {}', "127.0.0.1:443", {"paho", "ssl"}),
    ],
)
def test_what_is_loaded_and_which_port(tmp_path, broker, place, loaded_for_it):
    device(tmp_path, 1, broker=broker)
    file = tmp_path / "device.toml"
    file.write_text(file.read_text().replace("port = 1, ", ""))
    code = (
        "import sys, json, pathlib\n"
        "from edge_runtime.run.broker import open_link\n"
        "from edge_runtime.run.config import load_config\n"
        f"link = open_link(load_config(pathlib.Path({str(file)!r})), pathlib.Path({str(tmp_path)!r}), 'r')\n"
        "print(json.dumps([link.trouble, [one for one in ('mqtt5', 'paho', 'ssl') if one in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told, modules = json.loads(done.stdout)
    assert f"broker {place}: " in told
    assert set(modules) == loaded_for_it


def test_the_edge_node_is_another_client_with_a_session_and_a_will_of_its_own(tmp_path):
    found = loaded(tmp_path, broker=', sparkplug = { group = "plant" }, session_expiry_s = 900')
    node = open_node(found, tmp_path, "r")
    target, link = node._link._target, open_link(found, tmp_path, "r")._target
    assert (target.lasts, target.keeps_status, link.lasts, link.keeps_status) == (False, False, True, True)
    assert target.client_id == f"{link.client_id}sp"
    assert len(target.client_id) <= 23  # what every broker of 3.1.1 takes
    assert (node.name, target.status_topic) == ("plant/pump-7", "spBv1.0/plant/NDEATH/pump-7")
    assert (target.will().topic, target.will().retain) == ("spBv1.0/plant/NDEATH/pump-7", False)
    assert (link.will().topic, link.will().retain) == ("edge/pump-7/status", True)
    assert open_node(loaded(tmp_path), tmp_path, "r") is None


def test_a_node_whose_data_would_come_back_is_refused(tmp_path):
    found = loaded(tmp_path, broker=', sparkplug = { group = "in", edge = "reading" }')
    assert open_link(found, tmp_path, "r") is not None
    text = (tmp_path / "device.toml").read_text().replace("in/+/reading", "spBv1.0/#")
    (tmp_path / "device.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"spBv1\.0/in/DDATA/reading/device"):
        open_link(load_config(tmp_path / "device.toml"), tmp_path, "r")
