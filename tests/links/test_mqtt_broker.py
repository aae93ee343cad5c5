"""The link against a real mosquitto: stopped, killed, frozen, wiped, restarted in a row, behind TLS and a password."""

import ssl
import subprocess
import time

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.links.broker_link import BrokerLink
from edge_runtime.links.mqtt5_link import Mqtt5
from edge_runtime.links.mqtt_dialect import LastWill, Target
from edge_runtime.links.paho_link import Mqtt311
from edge_runtime.links.tls import Tls
from edge_runtime.run.waker import Waker
from tests.rig.broker import Broker, free_port
from tests.rig.certificates import make_certificates
from tests.rig.mqtt_client import Client
from tests.rig.websocket_door import WebsocketDoor

PATIENCE_S = 20.0
BACK_S = 1.5
"""Within which the link is back once the broker is, and a second more for this machine, which others use too."""
SLACK_S = 1.0


class Turning:
    """A link turned by hand, in real time."""

    speaks = Mqtt5
    over_websockets = False

    def __init__(
        self, port, *, tls=None, user=None, password=None, keepalive_s=15, client_id="turning", path=None, lasts=True
    ):
        self._door = WebsocketDoor(port) if self.over_websockets else None
        port = port if self._door is None else self._door.port
        target = Target(
            host="127.0.0.1", port=port, client_id=client_id, user=user,
            password=lambda: password, tls=tls, keepalive_s=keepalive_s, session_expiry_s=3600, receive_maximum=20,
            max_packet_bytes=65_536, reconnect_max_s=1.0, status_topic="edge/t/status",
            will=lambda: LastWill("edge/t/status", b"lost", retain=True), lasts=lasts,
            websocket_path=path if self._door is None else "/mqtt",
        )  # fmt: skip
        self.link = BrokerLink(target, (self.speaks,), wall_ns=time.time_ns, mono_ns=time.monotonic_ns)
        self.inbox = self.link.subscribe(["in/#"], qos=1, retained=False)
        self.link.announce(lambda: b"here")
        self._waker = Waker()
        self.link.start(self._waker.set)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close(b"parted")
        self._waker.close()
        if self._door is not None:
            self._door.__exit__()

    def until(self, happened, what, patience_s=PATIENCE_S):
        """Turn until ``happened()``; gives the seconds it took."""
        begun = time.monotonic()
        while not happened():
            assert time.monotonic() - begun < patience_s, f"gave up waiting for {what}: {self.link.status()}"
            self._waker.clear()
            self.link.receive()
            self.link.send()
            due = self.link.due_ns()
            wait_s = 0.05 if due is None else max(0.0, min(0.05, (due - time.monotonic_ns()) / 1e9))
            self._waker.wait(wait_s, (self.link,))
        return time.monotonic() - begun

    @property
    def is_serving(self):
        return self.link.is_up and self.link._subscribe_ns is None

    def take(self, count):
        self.until(lambda: len(self.inbox) >= count, f"{count} messages")
        messages = [self.inbox.take() for _ in range(count)]
        for one in messages:
            self.link.acknowledge(one)
        return [one.payload for one in messages]


@pytest.fixture(params=["5", "3.1.1", "3.1.1 over websockets"], autouse=True)
def dialect(request, monkeypatch):
    """What the links of the test speak: each promise holds in all of them."""
    monkeypatch.setattr(Turning, "speaks", Mqtt5 if request.param == "5" else Mqtt311)
    monkeypatch.setattr(Turning, "over_websockets", "websockets" in request.param)
    return request.param


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "mosquitto") as made:
        yield made


@pytest.mark.parametrize("dialect", ["5"], indirect=True)
def test_the_rig_names_its_version(broker):
    assert "mosquitto version 2." in broker.log


def test_without_a_session_what_is_on_its_way_goes_again(broker):
    with Turning(broker.port, lasts=False) as turning:
        turning.until(lambda: turning.is_serving, "the first connection")
        broker.freeze()
        sent = [turning.link.publish("out/a", b"%d" % number, qos=1, retain=False) for number in range(5)]
        turning.link.send()
        broker.kill()
        turning.until(lambda: not turning.link.is_up, "the loss")
        broker.start()
        turning.until(lambda: all(one.done for one in sent), "the confirmations")
        turning.until(lambda: turning.is_serving, "the filters")
        turning.link.publish("in/a", b"x", qos=1, retain=False)


@pytest.mark.parametrize("how", ["term", "kill"])
def test_it_is_back_soon_after_the_broker(broker, how):
    with Turning(broker.port) as turning:
        turning.until(lambda: turning.is_serving, "the first connection")
        for _ in range(5):
            getattr(broker, how)()
            turning.until(lambda: not turning.link.is_up, "the loss")
            away = time.monotonic() + 0.7
            turning.until(lambda away=away: time.monotonic() > away, "some time away")
            broker.start()
            took = turning.until(lambda: turning.is_serving, "the connection")
            assert took < BACK_S + SLACK_S
        assert turning.link.reopened == 5


@pytest.mark.parametrize("dialect", ["5", "3.1.1"], indirect=True)
def test_a_broker_that_is_not_there_yet_is_waited_for(tmp_path):
    port = free_port()
    with Turning(port) as turning:
        turning.until(lambda: "Connection refused" in turning.link.status(), "a refusal")
        with Broker(tmp_path / "mosquitto", port=port):
            assert turning.until(lambda: turning.is_serving, "the connection") < BACK_S + SLACK_S


def test_what_came_meanwhile_is_in_the_session(broker):
    with Turning(broker.port) as turning, Client(broker.port) as client:
        turning.until(lambda: turning.is_serving, "the connection")
        turning.link.close(b"away")
        for number in range(3):
            client.publish("in/a", b"%d" % number)
    with Turning(broker.port) as turning:
        assert turning.take(3) == [b"0", b"1", b"2"]


def test_what_was_not_acknowledged_comes_again(broker):
    with Client(broker.port) as client:
        with Turning(broker.port) as turning:
            turning.until(lambda: turning.is_serving, "the connection")
            for number in range(3):
                client.publish("in/a", b"%d" % number)
            turning.until(lambda: len(turning.inbox) == 3, "the messages")
            first = [turning.inbox.take() for _ in range(3)]
            turning.link.acknowledge(first[0])
            turning.until(lambda: not turning.link._out, "the acknowledgement's leaving")
        with Turning(broker.port) as turning:
            turning.until(lambda: len(turning.inbox) == 2, "the rest")
            again = [turning.inbox.take() for _ in range(2)]
            assert [(one.mark, one.again) for one in again] == [(one.mark, True) for one in first[1:]]


def test_a_wiped_broker_is_subscribed_to_anew(broker):
    """influxdata/telegraf#6232: a session that the broker has forgotten, and data never again."""
    with Turning(broker.port) as turning:
        turning.until(lambda: turning.is_serving, "the connection")
        broker.kill()
        broker.wipe()
        broker.start()
        turning.until(lambda: turning.link.reopened and turning.is_serving, "the connection")
        with Client(broker.port) as client:
            client.publish("in/a", b"x")
            assert turning.take(1) == [b"x"]
            with Client(broker.port, "edge/t/status", name="late") as late:
                late.until(lambda: late.messages, "the status, told anew")
                assert late.messages[0][1:] == (b"here", True)


def test_a_frozen_broker_is_given_up_and_found_again(broker):
    """influxdata/telegraf#16293: the answer to a ping is missing, and no way back."""
    with Turning(broker.port, keepalive_s=2) as turning:
        turning.until(lambda: turning.is_serving, "the connection")
        broker.freeze()
        assert 1.9 < turning.until(lambda: not turning.link.is_up, "the loss") < 3 + SLACK_S
        assert "nothing was heard of it" in turning.link.status()
        broker.thaw()
        turning.until(lambda: turning.is_serving, "the connection")


def test_a_queue_of_five_loses_the_broker_s_part_only(tmp_path):
    """What the broker dropped is nobody's to bring back; what it sent is all taken, in order."""
    with Broker(tmp_path / "mosquitto", "max_queued_messages 5\n") as broker, Client(broker.port) as client:
        with Turning(broker.port) as turning:
            turning.until(lambda: turning.is_serving, "the connection")
        for number in range(50):
            client.publish("in/a", b"%02d" % number)
        with Turning(broker.port) as turning:
            turning.until(lambda: turning.is_serving, "the connection")
            client.publish("in/a", b"last")
            taken = []
            while not taken or taken[-1] != b"last":
                taken += turning.take(1)
        assert taken == sorted(taken)
        assert len(taken) < 50


def test_two_of_one_client_id_are_told_and_do_not_fight(broker):
    """home-assistant/core#51205, cdnninja/yoto_ha#38."""
    with Turning(broker.port) as one:
        one.until(lambda: one.is_serving, "the first")
        with Turning(broker.port) as other:
            other.until(lambda: other.is_serving, "the second")
            told = "another client uses this client id, 'turning'"

            def both():
                other.link.receive()
                other.link.send()
                return told in one.link.status() + other.link.status()

            one.until(both, "a word about it")
            rival = one if told in one.link.status() else other
            assert rival.link.due_ns() - time.monotonic_ns() > 2e9


def test_the_will_speaks_for_a_process_that_died(broker):
    with Client(broker.port, "edge/t/status") as client:
        turning = Turning(broker.port)
        turning.until(lambda: turning.is_serving, "the connection")
        client.until(lambda: client.payloads("edge/t/status") == [b"here"], "the birth")
        turning.link._drop_stream()  # as the kernel does for a process that was killed
        client.until(lambda: client.payloads("edge/t/status")[-1] == b"lost", "the will")
        turning.link._closed = True
        turning.__exit__()
    with Client(broker.port, "edge/t/status", name="clean") as client, Turning(broker.port) as turning:
        turning.until(lambda: turning.is_serving, "the connection")
        turning.link.close(b"parted")
        client.until(lambda: client.payloads("edge/t/status")[-1:] == [b"parted"], "the farewell")


def test_a_password_is_asked_for(tmp_path):
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    words = folder / "words"
    words.write_text("anna:secret\n")
    words.chmod(0o600)
    subprocess.run(["mosquitto_passwd", "-U", str(words)], check=True)
    with Broker(folder, f"allow_anonymous false\npassword_file {words}\n") as broker:
        with Turning(broker.port, user="anna", password=b"wrong") as turning:
            turning.until(lambda: "it refuses us: not authorized (0x87)" in turning.link.status(), "a refusal")
        with Turning(broker.port, user="anna", password=b"secret") as turning:
            turning.until(lambda: turning.is_serving, "the connection")


TLS = "listener {{port}} 127.0.0.1\ncafile {0}/ca.pem\ncertfile {0}/{1}.pem\nkeyfile {0}/server.key\nallow_anonymous true\n"


@pytest.mark.parametrize("dialect", ["5", "3.1.1"], indirect=True)
def test_tls(tmp_path):
    folder = make_certificates(tmp_path / "keys")
    asked = TLS.format(folder, "server") + "require_certificate true\n"
    with Broker(tmp_path / "mosquitto", asked) as broker, pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        mine = {"certificate": folder / "device.pem", "key": folder / "device.key"}
        with Turning(broker.port, tls=Tls("localhost", ca=folder / "ca.pem", **mine)) as turning:
            turning.until(lambda: turning.is_serving, "the connection")
            sent = turning.link.publish("in/a", b"x" * 60_000, qos=1, retain=False)
            turning.until(lambda: sent.done, "a confirmation")
        nobody = Tls("localhost", ca=folder / "ca.pem", certificate=None, key=None)
        with Turning(broker.port, tls=nobody) as turning:
            turning.until(lambda: "trying again" in turning.link.status(), "a refusal")
        stranger = Tls("localhost", ca=None, **mine)
        with Turning(broker.port, tls=stranger) as turning:
            turning.until(lambda: "certificate is not trusted" in turning.link.status(), "mistrust")
        other = Tls("broker.example", ca=folder / "ca.pem", **mine)
        with Turning(broker.port, tls=other) as turning:
            turning.until(lambda: "Hostname mismatch" in turning.link.status(), "mistrust")


@pytest.mark.parametrize("dialect", ["5", "3.1.1"], indirect=True)
def test_an_expired_certificate_asks_for_the_clock(tmp_path):
    folder = make_certificates(tmp_path / "keys")
    with Broker(tmp_path / "mosquitto", TLS.format(folder, "old")) as broker:
        tls = Tls("localhost", ca=folder / "ca.pem", certificate=None, key=None)
        with Turning(broker.port, tls=tls) as turning:
            turning.until(lambda: "is the clock of this machine right?" in turning.link.status(), "mistrust")
            assert "expired" in turning.link.status()


@pytest.mark.parametrize("dialect", ["5"], indirect=True)
def test_a_file_that_is_no_certificate_is_refused(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"broker.tls.ca: found .*ca.pem: .*; expected a PEM file"):
        Tls("localhost", ca=tmp_path / "ca.pem", certificate=None, key=None)
    with pytest.raises(ConfigurationError, match=r"broker.tls.certificate and key: found .*none.pem"):
        Tls("localhost", ca=None, certificate=tmp_path / "none.pem", key=tmp_path / "none.pem")


@pytest.mark.parametrize("dialect", ["3.1.1"], indirect=True)
def test_websockets_behind_tls(tmp_path, broker):
    folder = make_certificates(tmp_path / "keys")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    with (
        WebsocketDoor(broker.port, path="/some/where", tls=server) as door,
        Turning(
            door.port, tls=Tls("localhost", ca=folder / "ca.pem", certificate=None, key=None), path="/some/where"
        ) as turning,
    ):
        turning.until(lambda: turning.is_serving, "the connection")
        sent = turning.link.publish("in/a", b"x" * 60_000, qos=1, retain=False)
        turning.until(lambda: sent.done, "a confirmation")
        assert turning.take(1) == [b"x" * 60_000]
        assert f"Origin: https://127.0.0.1:{door.port}" in door.requests[0]


@pytest.mark.parametrize("dialect", ["3.1.1"], indirect=True)
def test_a_path_nobody_answers_at_is_said(broker):
    with WebsocketDoor(broker.port) as door, Turning(door.port, path="/none") as turning:
        turning.until(
            lambda: "websocket: WebSocket handshake error; trying again" in turning.link.status(), "a refusal"
        )


@pytest.mark.parametrize("dialect", ["3.1.1"], indirect=True)
def test_the_websockets_of_mosquitto_itself(tmp_path):
    try:
        broker = Broker(tmp_path / "mosquitto", "listener {port} 127.0.0.1\nprotocol websockets\n")
    except RuntimeError as error:
        refused = ("Websockets support not available", "Unable to start any listening sockets")
        if not any(words in str(error) for words in refused):
            raise
        pytest.skip(
            "this mosquitto opens no websockets; tests/rig/websocket_door.py stands in for it in the other tests"
        )
    with broker, Turning(broker.port, path="/mqtt") as turning:
        turning.until(lambda: turning.is_serving, "the connection")
        sent = turning.link.publish("in/a", b"x", qos=1, retain=False)
        turning.until(lambda: sent.done, "a confirmation")
        assert turning.take(1) == [b"x"]
