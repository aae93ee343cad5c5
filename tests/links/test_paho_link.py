"""MQTT 3.1.1 against a broker that breaks the rules, and what is spoken with one that does not speak MQTT 5."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import paho.mqtt.client as paho
import pytest
from mqtt5 import ConnAckPacket, ConnAckReasonCode, ConnectPacket

from edge_runtime.links import broker_link as module
from edge_runtime.links import paho_link
from edge_runtime.links.mqtt5_link import Mqtt5
from edge_runtime.links.paho_link import Mqtt311, _Wire
from edge_runtime.sources.mqtt_topic import MqttTopicSource
from edge_runtime.spec.source import MqttSource
from tests.links.test_mqtt5_link import SECRET, Rig
from tests.rig.fake_broker import FakeBroker

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PINGREQ, DISCONNECT = 1, 3, 4, 8, 12, 14
WELCOME, WELCOME_BACK = b"\x20\x02\x00\x00", b"\x20\x02\x01\x00"
WRONG_VERSION = b"\x20\x02\x00\x01"
PINGRESP = b"\xd0\x00"


class OldRig(Rig):
    """A link of MQTT 3.1.1; what the broker hears are (type, flags, body)."""

    def __init__(self, broker, filters=("in/#",), *, speaks=(Mqtt311,), **terms):
        super().__init__(broker, filters, speaks=speaks, **terms)

    def packet(self, kind, count=1):
        """The next packet of this type, or the next ``count``; those of other types are passed over."""
        found = []

        def look():
            found.extend(one for one in self.broker.read_plain() if one[0] == kind)
            return len(found) >= count

        self.until(look, f"{count} of type {kind}")
        return found[0] if count == 1 else found

    def old_called(self):
        self.until(lambda: self.broker.has_caller, "a caller")
        self.broker.accept()
        return self.packet(CONNECT)

    def old_welcomed(self, answer=WELCOME):
        connect = self.old_called()
        self.broker.send(answer)
        self.until(lambda: self.link.is_up, "the link")
        return connect

    def heard_nothing(self, kind):
        self.turn()
        return not [one for one in self.broker.read_plain() if one[0] == kind]


@pytest.fixture
def rig():
    with FakeBroker() as broker:
        made = OldRig(broker)
        yield made
        made.close()


def text(words: bytes) -> bytes:
    return len(words).to_bytes(2, "big") + words


def sample(packet_id, payload=b"1", topic=b"in/a", *, again=False, retained=False):
    body = text(topic) + packet_id.to_bytes(2, "big") + payload
    size = len(body)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([0x32 | again << 3 | retained]) + length + body


def number(body: bytes) -> int:
    return int.from_bytes(body[:2], "big")


def test_the_one_private_method_of_paho_is_there():
    assert "self._create_socket_connection()" in inspect.getsource(paho.Client._create_socket)


def test_it_asks_for_a_session_that_lasts_and_leaves_a_will(rig):
    _, _, body = rig.old_called()
    # Version 4; user, password, will retained at QoS 1, and no clean session.
    head = text(b"MQTT") + bytes([4, 0b1110_1100]) + (10).to_bytes(2, "big")
    assert body == head + text(b"tester") + text(b"edge/x/status") + text(b"gone") + text(b"u") + text(SECRET)
    rig.broker.send(WELCOME)
    rig.until(lambda: rig.link.is_up, "the link")
    assert rig.link.status().endswith(f":{rig.broker.port}, MQTT 3.1.1")
    assert SECRET.decode() not in f"{rig.link!r} {vars(rig.link)} {rig.link.status()}"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "it refuses MQTT 3.1.1: it does not speak this version (0x84)"),
        (2, "it refuses us: it does not take this client id (0x85)"),
        (3, "it refuses us: it is not available (0x88)"),
        (4, "it refuses us: wrong user name or password (0x86)"),
        (5, "it refuses us: not authorized (0x87)"),
    ],
)
def test_a_refusal_is_said_and_tried_again(rig, code, words):
    for _ in range(3):
        rig.old_called()
        rig.broker.send(bytes([0x20, 2, 0, code]))
        rig.lost()
        assert words in rig.link.status()
        rig.clock.advance(15.1)
    rig.old_welcomed()
    assert rig.link.trouble == ""


def test_it_subscribes_at_every_welcome_to_every_filter_and_says_refusals():
    filters = [f"in/{one}" for one in range(120)]
    with FakeBroker() as broker:
        rig = OldRig(broker, filters)
        for answer in (WELCOME, WELCOME_BACK):
            rig.old_welcomed(answer)
            asked = rig.packet(SUBSCRIBE, 120)
            assert [body[2:] for _, _, body in asked] == [text(one.encode()) + b"\x01" for one in filters]
            for at, (_, _, body) in enumerate(asked, 1):
                broker.send(b"\x90\x03" + body[:2] + (b"\x01" if at % 50 else b"\x80"))
            rig.until(lambda: not rig.link._subscribing, "the answers")
            assert "it refuses topic filter 'in/49', and 1 more: it gives no reason (0x80)" in rig.link.trouble
            broker.hang_up()
            rig.lost()
            rig.clock.advance(1)
        rig.close()


MALFORMED = {
    "no type": b"\x00\x00",
    "a topic that is no UTF-8": b"\x30\x05\x00\x02\xff\xff\x00",
    "a quality of 3": b"\x36\x05\x00\x01a\x00\x00",
    "a length beyond its packet": b"\x30\x04\x00\x09a\x00",
    "a length of five bytes": b"\x30\xff\xff\xff\xff\x01",
    "a confirmation without a number": b"\x40\x00",
    "an answer to a subscription that is cut off": b"\x90\x01\x00",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_packet_ends_the_connection_and_not_the_link(rig, name):
    rig.old_welcomed()
    rig.broker.send(sample(1), MALFORMED[name])
    rig.lost()
    assert "it sent something that is no MQTT 3.1.1 packet" in rig.link.status()
    rig.clock.advance(1)
    rig.old_welcomed()


def test_a_packet_larger_than_agreed_is_not_gathered(rig):
    rig.old_welcomed()
    rig.broker.send(sample(1, b"x" * 5000)[:4500])
    rig.lost()
    assert "more than the 4096 bytes" in rig.link.status()


def test_packets_come_whole_however_they_are_cut(rig):
    rig.old_welcomed()
    stream = b"".join(sample(one, b"x" * one) for one in range(1, 6))
    for at in range(len(stream)):
        rig.broker.send(stream[at : at + 1])
        if at % 7 == 0:
            rig.turn()
    rig.until(lambda: len(rig.inbox) == 5, "five messages")
    assert [rig.inbox.take().payload for _ in range(5)] == [b"x" * one for one in range(1, 6)]


def test_a_message_is_known_again_and_one_from_before_told_as_that(rig):
    rig.old_welcomed()
    rig.broker.send(sample(7))
    rig.until(lambda: len(rig.inbox) == 1, "a message")
    old = rig.inbox.take()
    rig.broker.hang_up()
    rig.lost()
    rig.clock.advance(1)
    rig.old_welcomed(WELCOME_BACK)
    rig.broker.send(sample(7, again=True), sample(8, retained=True))
    rig.until(lambda: len(rig.inbox) == 2, "it again")
    rig.link.acknowledge(old)
    assert rig.heard_nothing(PUBACK)
    new, kept = rig.inbox.take(), rig.inbox.take()
    assert (new.mark, new.again, old.again) == (old.mark, True, False)
    assert (new.retained, kept.retained) == (False, True)
    rig.link.acknowledge(kept)
    assert rig.heard_nothing(PUBACK)  # in order
    rig.link.acknowledge(new)
    assert [number(body) for _, _, body in rig.packet(PUBACK, 2)] == [7, 8]


def test_each_line_takes_every_copy_that_its_filters_take():
    """Whether filters that overlap bring one copy or several is the broker's choice (3.1.1, 3.3.5), and none is told apart."""
    with FakeBroker() as broker:
        rig = OldRig(broker, ["in/#", "in/+"], qos=0)
        other = rig.link.subscribe(["in/+", "in/b"], qos=1, retained=False)
        rig.old_welcomed()
        asked = [body[2:] for _, _, body in rig.packet(SUBSCRIBE, 3)]
        assert asked == [text(b"in/#") + b"\x00", text(b"in/+") + b"\x01", text(b"in/b") + b"\x01"]
        broker.send(sample(1), sample(2, topic=b"in/a/b"), sample(3, topic=b"in/b"))
        rig.until(lambda: len(rig.inbox) == 3, "the last")
        assert [other.take().packet_id for _ in range(len(other))] == [1, 3]
        rig.close()


def test_behind_a_line_that_waits_another_takes_no_more_than_is_known_again():
    """The version lets nobody limit what the broker sends ahead, so this is all there is."""
    with FakeBroker() as broker:
        rig = OldRig(broker, None)
        slow, quick = (MqttTopicSource(MqttSource(topics=(topic,)), rig.link) for topic in ("a", "b"))
        rig.old_welcomed()
        broker.send(sample(1, topic=b"a"), *(sample(one, topic=b"b") for one in range(2, 102)))
        rig.until(lambda: rig.link._delivered == 101, "all of them")
        (held,) = slow.take()
        taken = 0
        for _ in range(5):
            taken += len(quick.take())
            quick.acknowledge(taken)
        assert taken == 19
        slow.acknowledge(held.position)
        while chunks := quick.take():
            taken += len(chunks)
            quick.acknowledge(taken)
        assert taken == 100
        assert len(rig.packet(PUBACK, 101)) == 101
        rig.close()


def test_what_comes_again_on_the_same_connection_is_acknowledged_once(rig):
    rig.old_welcomed()
    rig.broker.send(sample(1), sample(2), sample(1, again=True), sample(3))
    rig.until(lambda: len(rig.inbox) >= 3, "messages")
    for _ in range(len(rig.inbox)):
        rig.link.acknowledge(rig.inbox.take())
    assert [number(body) for _, _, body in rig.packet(PUBACK, 3)] == [1, 2, 3]


def test_confirmations_are_heard_behind_more_than_the_inboxes_hold(rig, monkeypatch):
    monkeypatch.setattr(module, "READ_AHEAD_BYTES", 1000)
    rig.old_welcomed()
    sent = rig.link.publish("out", b"answer", qos=1, retain=False)
    _, _, body = rig.packet(PUBLISH)
    for at in range(1, 10):
        rig.broker.send(sample(at))
        rig.turn()
    rig.until(lambda: len(rig.inbox) >= 3, "as many as there is room for")
    rig.broker.send(b"\x40\x02" + body[5:7])
    rig.until(lambda: sent.done, "the confirmation")
    assert len(rig.inbox) == 3
    for _ in range(3):
        rig.link.acknowledge(rig.inbox.take())
    assert [number(body) for _, _, body in rig.packet(PUBACK, 3)] == [1, 2, 3]
    rig.old_welcomed()
    rig.broker.send(sample(4, again=True))
    rig.until(lambda: len(rig.inbox) == 1, "the rest")


def test_a_broker_that_cannot_be_understood_is_no_rival_and_not_stormed(rig):
    for turn in range(3):
        rig.old_welcomed()
        rig.broker.send(MALFORMED["a quality of 3"])
        rig.lost()
        assert "another client" not in rig.link.status()
        if turn < 2:
            rig.clock.advance(1.1)
    assert (rig.link.due_ns() - rig.clock.mono_ns()) / 1e9 == 5.0


def test_what_was_not_confirmed_goes_again_under_its_number_and_no_more_than_twenty(rig):
    rig.old_welcomed()
    sent = [rig.link.publish("out", b"%02d" % one, qos=1, retain=False) for one in range(20)]
    assert rig.link.publish("out", b"too many", qos=1, retain=False) is None
    assert rig.link.publish("out", b"x", qos=0, retain=False).done
    first = [one for one in rig.packet(PUBLISH, 21) if one[1] & 2]
    rig.broker.send(b"\x40\x02" + first[0][2][5:7])
    rig.until(lambda: sent[0].done, "the first")
    rig.broker.hang_up(hard=True)
    rig.lost()
    rig.clock.advance(1)
    rig.old_welcomed(WELCOME_BACK)
    again = rig.packet(PUBLISH, 19)
    assert [body for _, _, body in again] == [body for _, _, body in first[1:]]
    assert {flags for _, flags, _ in again} == {0b1010}
    assert not any(one.done for one in sent[1:])
    rig.broker.send(*(b"\x40\x02" + body[5:7] for _, _, body in again))
    rig.until(lambda: all(one.done for one in sent), "the others")


@pytest.mark.parametrize("is_up", [True, False])
def test_what_was_withdrawn_does_not_go_again(rig, is_up):
    """paho says again at the welcome whatever it has: a public way to take one of it back it does not offer."""
    rig.old_welcomed()
    sent = [rig.link.publish("out", b"%02d" % one, qos=1, retain=False) for one in range(3)]
    rig.packet(PUBLISH, 3)
    if is_up:
        rig.link.withdraw(sent[1:])
    rig.broker.hang_up(hard=True)
    rig.lost()
    if not is_up:
        rig.link.withdraw(sent[1:])
    rig.clock.advance(1)
    rig.old_welcomed(WELCOME_BACK)
    assert rig.link.publish("out", b"new", qos=1, retain=False) is not None
    assert [body[7:] for _, _, body in rig.packet(PUBLISH, 2)] == [b"00", b"new"]


def test_numbers_that_come_round_are_not_mistaken(rig):
    """paho numbers messages of QoS 0 too, and after 65,535 begins again, whatever is still on its way."""
    rig.old_welcomed()
    sent = [rig.link.publish("out", b"1", qos=1, retain=False)]
    client = rig.link._dialect._client
    client._last_mid -= 1
    rig.link.publish("out", b"2", qos=0, retain=False)
    client._last_mid -= 1
    sent.append(rig.link.publish("out", b"3", qos=1, retain=False))
    first, second, third = (body for _, _, body in rig.packet(PUBLISH, 3))
    assert (second, first[5:7] != third[5:7]) == (text(b"out") + b"2", True)
    rig.broker.send(PINGRESP)
    for _ in range(5):
        rig.turn()
    assert not any(one.done for one in sent)
    rig.broker.send(b"\x40\x02" + first[5:7], b"\x40\x02" + third[5:7])
    rig.until(lambda: all(one.done for one in sent), "the confirmations")


def test_what_paho_has_not_taken_yet_comes_before_what_is_new():
    wire = _Wire(None, None)
    wire.feed(b"ab")
    assert wire.recv(1) == b"a"
    wire.feed(b"c")
    assert wire.recv(5) == b"bc"
    with pytest.raises(BlockingIOError):
        wire.recv(1)


def test_silence_is_asked_about_and_then_given_up(rig):
    rig.old_welcomed()
    rig.packet(SUBSCRIBE)
    rig.clock.advance(10)
    assert rig.packet(PINGREQ)
    rig.broker.send(PINGRESP)
    rig.turn()
    rig.clock.advance(10)
    assert rig.packet(PINGREQ)
    rig.clock.advance(4.9)
    rig.turn()
    assert rig.link.is_up
    rig.clock.advance(0.1)
    rig.lost()
    assert "nothing was heard of it for 15.0 s" in rig.link.status()


def test_a_callback_of_paho_that_fails_is_a_loss_and_no_end(rig, monkeypatch):
    """eclipse-paho/paho.mqtt.python#704, #365: an exception in a callback ends the client for good."""
    rig.old_welcomed()

    def fail(*_):
        raise KeyError("nobody expects this")

    with monkeypatch.context() as broken:
        broken.setattr(rig.link._dialect._client, "on_message", fail)
        rig.broker.send(sample(1))
        rig.lost()
    rig.clock.advance(1)
    rig.old_welcomed()
    rig.broker.send(sample(1))
    rig.until(lambda: len(rig.inbox) == 1, "a message")


def test_three_short_lives_mean_a_rival(rig):
    for turn in range(3):
        rig.old_welcomed()
        rig.broker.hang_up()
        rig.lost()
        rig.clock.advance(1.1 if turn < 2 else 0)
    assert "another client uses this client id, 'tester'" in rig.link.status()


BOTH = (Mqtt5, Mqtt311)


@pytest.mark.parametrize(
    "answer", [WRONG_VERSION, ConnAckPacket(reason_code=ConnAckReasonCode.UNSUPPORTED_PROTOCOL_VERSION)]
)
def test_a_broker_that_refuses_mqtt_5_is_spoken_to_in_3_1_1(answer):
    with FakeBroker() as broker:
        rig = OldRig(broker, speaks=BOTH)
        assert isinstance(rig.called(), ConnectPacket)
        broker.send(answer)
        rig.lost()
        rig.clock.advance(0.2)
        assert rig.old_welcomed()[2][6] == 4
        told = "MQTT 3.1.1 (not MQTT 5: it refuses MQTT 5: it does not speak this version (0x84))"
        assert rig.link.status().endswith(told)
        for _ in range(4):  # it is kept to, whatever happens to the connection
            broker.hang_up()
            rig.lost()
            rig.clock.advance(31)
            assert rig.old_called()[2][6] == 4
        broker.send(WELCOME)
        rig.until(lambda: rig.link.is_up, "the link")
        rig.close()


def test_a_broker_that_hangs_up_on_mqtt_5_is_spoken_to_in_3_1_1():
    with FakeBroker() as broker:
        rig = OldRig(broker, speaks=BOTH)
        for _ in range(3):
            rig.called()
            broker.hang_up()
            rig.lost()
            rig.clock.advance(1)
        rig.old_welcomed()
        assert "MQTT 3.1.1 (not MQTT 5: the other side closed the connection)" in rig.link.status()
        rig.close()


def test_a_broker_that_once_spoke_mqtt_5_is_not_given_up_for_hanging_up():
    with FakeBroker() as broker:
        rig = OldRig(broker, speaks=BOTH)
        rig.welcomed()
        assert rig.link.status().endswith(", MQTT 5")
        for _ in range(5):
            broker.hang_up()
            rig.lost()
            rig.clock.advance(31)
            rig.called()
        broker.send(ConnAckPacket())
        rig.until(lambda: rig.link.is_up, "the link")
        rig.close()


def test_answers_on_their_way_are_asked_for_again_in_the_other_version():
    with FakeBroker() as broker:
        rig = OldRig(broker, speaks=BOTH)
        rig.welcomed()
        sent = rig.link.publish("out", b"1", qos=1, retain=False)
        broker.hang_up()
        rig.lost()
        rig.clock.advance(1)
        rig.called()
        broker.send(WRONG_VERSION)
        rig.lost()
        assert sent.refusal == "it no longer speaks MQTT 5"
        rig.clock.advance(1)
        rig.old_welcomed()
        assert rig.heard_nothing(PUBLISH)
        assert not rig.link._flights
        rig.close()


def test_an_upgrade_that_is_not_answered_is_given_up_and_not_asked_for_again_soon(monkeypatch):
    monkeypatch.setattr(paho_link, "UPGRADE_S", 0.05)
    with FakeBroker() as broker:
        rig = OldRig(broker, websocket_path="/mqtt")
        waits = []
        for _ in range(9):
            rig.until(lambda: broker.has_caller, "a caller")
            broker.accept()
            rig.lost()
            waits.append((rig.link.due_ns() - rig.clock.mono_ns()) / 1e9)
            rig.clock.advance(waits[-1])
        assert "no answer to the websocket's upgrade within 0.05 s" in rig.link.status()
        assert waits[-1] == 15.0
        rig.close()


def test_an_answer_to_the_upgrade_that_is_none_is_a_loss_and_no_end():
    with FakeBroker() as broker:
        rig = OldRig(broker, websocket_path="/mqtt")

        def answer():
            broker.accept()
            broker.send(b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nSec-WebSocket-Accept\r\n\r\n")

        with ThreadPoolExecutor() as other:
            answered = other.submit(answer)
            rig.until(lambda: "trying again" in rig.link.status(), "a loss")
            answered.result()
        assert "websocket: it answered with something that is no upgrade; trying again" in rig.link.status()
        rig.close()
