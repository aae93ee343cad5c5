"""What doctor says of a broker: a real mosquitto, in every version of MQTT, reachable or not, locked or not."""

import json
import socket
import time

import pytest

from edge_runtime.links.broker_link import BrokerLink
from edge_runtime.run.broker_findings import look
from edge_runtime.run.config import load_config
from tests.rig.broker import Broker, free_port
from tests.rig.bundles import ROOT
from tests.rig.certificates import make_certificates
from tests.rig.mqtt_client import Client
from tests.rig.program import run_program
from tests.run.test_mqtt import OUT, STATUS, Program, device, online, reading

LINE = "source of line dew"


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "mosquitto") as made:
        yield made


def looked(folder):
    return look(load_config(folder / "device.toml"))


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_broker_in_order(tmp_path, broker, protocol):
    device(tmp_path, broker.port, protocol=protocol)
    found = looked(tmp_path)
    (one,) = found.findings
    assert (one.subject, one.status) == ("broker", "ok")
    assert one.text.startswith(f"connected to 127.0.0.1:{broker.port}, MQTT {protocol}; it answered a subscription in ")
    source = found.sources["dew"]
    assert (source.subject, source.status) == (LINE, "ok")
    assert source.text == "topics 'in/+/reading' granted; nothing retained waits there"


def test_a_file_without_a_broker_has_nothing_to_say(tmp_path):
    device(tmp_path, 1)
    text = (tmp_path / "device.toml").read_text()
    lines = [one for one in text.splitlines() if not one.startswith(("broker", "source", "sink"))]
    lines.insert(4, 'source = { kind = "stdin" }\nsink = [{ kind = "stdout" }]')
    (tmp_path / "device.toml").write_text("\n".join(lines))
    assert looked(tmp_path) == ([], {})


def test_what_is_retained_is_told_with_its_age(tmp_path, broker):
    device(tmp_path, broker.port)
    with Client(broker.port) as client:
        now = int(time.time())
        for name, age_s in (("a", 3 * 86_400), ("b", 7300), ("c", -100), ("d", 1)):
            client.publish(f"in/{name}/reading", json.dumps({"time": now - age_s}), retain=True)
        found = looked(tmp_path).sources["dew"]
        assert found.status == "ok"
        assert "4 retained: 'in/a/reading' (" in found.text
        client.publish("in/a/reading", reading(0), retain=True)
        for name in "bcd":
            client.publish(f"in/{name}/reading", b"", retain=True)
        client.publish("in/b/reading", json.dumps({"time": now + 3600, "t": 1, "rh": 5, "p": 900}), retain=True)
        client.publish("in/c/reading", b"no reading", retain=True)
        text = looked(tmp_path).sources["dew"].text
        days = (time.time() - 1_700_000_000) // 86_400
        assert text.endswith(
            f"3 retained: 'in/a/reading' ({days:.0f} d old), 'in/b/reading' (of a time to come), "
            "'in/c/reading' (without a time), which run does not take"
        )
        device(tmp_path, broker.port, source=', retained = "accept"', line="max_age_s = 60")
        assert looked(tmp_path).sources["dew"].text.endswith("taken once a session")


def test_the_example_of_the_documentation_is_how_it_prints(tmp_path, broker):
    page = (ROOT / "docs/doctor.md").read_text().partition("## The broker\n")[2]
    said = page.partition("Ok      source of line dewpoint: ")[2].partition("\n")[0]
    device(tmp_path, broker.port)
    text = (tmp_path / "device.toml").read_text().replace("in/+/reading", "plant/+/reading")
    (tmp_path / "device.toml").write_text(text)
    with Client(broker.port) as client:
        old = {"time": int(time.time()) - 3 * 86_400 - 60, "t": 1, "rh": 5, "p": 900}
        client.publish("plant/north/reading", json.dumps(old), retain=True)
        assert looked(tmp_path).sources["dew"].text == said


def test_one_that_is_not_there(tmp_path):
    device(tmp_path, 1)
    found = looked(tmp_path)
    assert found.findings == [
        ("broker", "fail", "not connected: 127.0.0.1:1: Connection refused", "see docs/mqtt.md, what the status says")
    ]
    assert found.sources["dew"] == (LINE, "skipped", "not checked: needs the broker", "")


def test_one_that_refuses_us(tmp_path):
    with Broker(tmp_path / "mosquitto", "allow_anonymous false") as broker:
        device(tmp_path, broker.port)
        (found,) = looked(tmp_path).findings
    assert found.status == "fail"
    assert "it refuses us: not authorized (0x87)" in found.text


def test_a_filter_that_is_refused_fails_the_line(tmp_path, broker, monkeypatch):
    """mosquitto itself grants every filter: its ACL then delivers nothing, and no client can tell."""
    device(tmp_path, broker.port)
    real = BrokerLink.granted
    monkeypatch.setattr(BrokerLink, "granted", lambda self, packet_id, _, told: real(self, packet_id, 0x87, told))
    found = looked(tmp_path).sources["dew"]
    assert (found.status, found.text) == (
        "fail",
        "the broker refuses topic filter 'in/+/reading': not authorized (0x87)",
    )
    monkeypatch.setattr(BrokerLink, "granted", lambda *_: None)
    monkeypatch.setattr("edge_runtime.run.broker_findings.GRANT_NS", 100_000_000)
    found = looked(tmp_path).sources["dew"]
    assert (found.status, found.text) == ("warn", "the broker did not answer a subscription to 'in/+/reading'")


def test_the_certificate_is_told(tmp_path):
    folder = make_certificates(tmp_path / "keys")
    conf = (
        "listener {port} 127.0.0.1\n"
        f"cafile {folder}/ca.pem\ncertfile {folder}/server.pem\nkeyfile {folder}/server.key"
    )
    with Broker(tmp_path / "mosquitto", conf) as broker:
        tls = f', tls = {{ ca = "{folder}/ca.pem", server_name = "localhost" }}'
        device(tmp_path, broker.port, broker=tls)
        first, certificate = looked(tmp_path).findings
        assert first.status == "ok"
        assert (certificate.subject, certificate.status) == ("broker's certificate", "ok")
        assert certificate.text.startswith("good until ")
        assert certificate.text.endswith(" GMT")
        device(tmp_path, broker.port, broker=tls.replace("localhost", "elsewhere"))
        (found,) = looked(tmp_path).findings
        assert "the broker's certificate is not trusted: Hostname mismatch" in found.text


def test_one_that_ends_soon_is_a_warning(tmp_path, monkeypatch):
    folder = make_certificates(tmp_path / "keys")
    conf = (
        "listener {port} 127.0.0.1\n"
        f"cafile {folder}/ca.pem\ncertfile {folder}/server.pem\nkeyfile {folder}/server.key"
    )
    monkeypatch.setattr("edge_runtime.run.broker_findings.CERTIFICATE_DAYS", 31)
    with Broker(tmp_path / "mosquitto", conf) as broker:
        device(tmp_path, broker.port, broker=f', tls = {{ ca = "{folder}/ca.pem", server_name = "localhost" }}')
        certificate = looked(tmp_path).findings[1]
    assert (certificate.status, certificate.todo) == ("warn", "have it renewed: with it ends every connection")
    assert certificate.text.endswith("30.0 days from now") or certificate.text.endswith("29.9 days from now")


def test_a_password_that_is_not_there(tmp_path):
    device(tmp_path, 1, broker=', user = "u", password_file = "none"')
    (found,) = looked(tmp_path).findings
    assert (found.subject, found.status) == ("broker", "fail")
    assert "broker.password_file: found" in found.text


def test_the_serving_client_is_not_disturbed(tmp_path, broker):
    port = broker.port
    device(tmp_path, port, broker=', client_id = "pump-7"')
    with Client(port, OUT, STATUS) as client:
        with Program(tmp_path):
            client.until(lambda: online(client), "the first status")
            ran = run_program("doctor", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
            assert f"Ok      broker: connected to 127.0.0.1:{port}, MQTT 5; it answered" in ran.stdout
            assert "Ok      source of line dew: topics 'in/+/reading' granted" in ran.stdout
            client.publish("in/a/reading", reading(0))
            client.until(lambda: client.payloads(OUT), "the answer")
        told = [json.loads(one)["status"] for one in client.payloads(STATUS)]
    assert set(told[:-1]) == {"online"}
    assert "already connected" not in broker.log


def test_nobody_answers(tmp_path, monkeypatch):
    """A host that takes the connection and says nothing."""
    monkeypatch.setattr("edge_runtime.run.broker_findings.CONNECT_NS", 300_000_000)
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        device(tmp_path, silent.getsockname()[1])
        (found,) = looked(tmp_path).findings
    assert found.status == "fail"
    assert "which has not said welcome yet" in found.text


def test_mosquitto_grants_what_its_acl_then_withholds(tmp_path):
    """Why docs/doctor.md says that a granted filter is no promise."""
    (tmp_path / "acl").write_text("topic read other/#\n")
    (tmp_path / "acl").chmod(0o644)
    with Broker(tmp_path / "mosquitto", f"acl_file {tmp_path}/acl") as broker:
        device(tmp_path, broker.port)
        found = looked(tmp_path).sources["dew"]
    assert (found.status, "granted" in found.text) == ("ok", True)
