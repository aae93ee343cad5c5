"""The link against a broker that breaks the rules: refusals, half packets, silence, rivals; no time passes but by hand."""

import contextlib
import resource
import select
import socket
import threading

import mqtt5
import pytest
from mqtt5 import (
    ConnAckPacket,
    ConnAckReasonCode,
    ConnectPacket,
    DisconnectPacket,
    DisconnectReasonCode,
    PingReqPacket,
    PingRespPacket,
    PubAckPacket,
    PubAckReasonCode,
    PublishPacket,
    QoS,
    RetainHandling,
    SubAckPacket,
    SubAckReasonCode,
    SubscribePacket,
)

from edge_runtime.links import broker_link as module
from edge_runtime.links.broker_link import BrokerLink
from edge_runtime.links.mqtt5_link import Mqtt5
from edge_runtime.links.mqtt_dialect import LastWill, Target
from edge_runtime.links.mqtt_port import INBOX_BYTES, TooLarge
from edge_runtime.sources.mqtt_topic import MqttTopicSource
from edge_runtime.spec.source import MqttSource
from tests.rig.broker import free_port
from tests.rig.clock import HandClock
from tests.rig.fake_broker import FakeBroker

SECRET = b"correct horse battery"
GRANTED = SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE
TURNS = 2000


class Rig:
    """A link, the broker it talks to and the clock both live by."""

    def __init__(
        self,
        broker: FakeBroker,
        filters=("in/#",),
        *,
        qos=1,
        retained=False,
        port=None,
        host="127.0.0.1",
        speaks=(Mqtt5,),
        websocket_path=None,
    ):
        self.broker = broker
        self.clock = HandClock()
        target = Target(
            host=host, port=port or broker.port, client_id="tester", user="u", password=lambda: SECRET, tls=None,
            keepalive_s=10, session_expiry_s=3600, receive_maximum=20, max_packet_bytes=4096, reconnect_max_s=1.0,
            status_topic="edge/x/status", will=lambda: LastWill("edge/x/status", b"gone", retain=True),
            websocket_path=websocket_path,
        )  # fmt: skip
        self.link = BrokerLink(
            target, speaks, wall_ns=self.clock.wall_ns, mono_ns=self.clock.mono_ns, jitter=lambda: 1.0
        )
        self.inbox = self.link.subscribe(filters, qos=qos, retained=retained) if filters else None
        self.link.start(lambda: None)

    def turn(self) -> None:
        """One turn of the loop, after a short wait for what is on its way through the kernel."""
        if self.link.socket is not None:
            wanted = [self.link.socket] if self.link.wants_write else []
            select.select([self.link.socket], wanted, [], 0.002)
        self.link.receive()
        self.link.send()

    def until(self, happened, what):
        for _ in range(TURNS):
            if happened():
                return
            self.turn()
        pytest.fail(f"gave up waiting for {what}; the link says {self.link.status()!r}")

    def called(self) -> ConnectPacket:
        """Let it connect; gives its CONNECT."""
        self.until(lambda: self.broker.has_caller, "a caller")
        self.broker.accept()
        return self.heard(ConnectPacket)

    def heard(self, kind, count=1):
        """The next packet of ``kind``, or the next ``count`` of them; those of other kinds are passed over."""
        found = []

        def look():
            found.extend(one for one in self.broker.read() if isinstance(one, kind))
            return len(found) >= count

        self.until(look, f"{count} {kind.__name__}")
        return found[0] if count == 1 else found

    def welcomed(self, **terms) -> ConnectPacket:
        """Let it connect and say welcome."""
        connect = self.called()
        self.broker.send(ConnAckPacket(**terms))
        self.until(lambda: self.link.is_up, "the link")
        return connect

    def close(self):
        """Part from a broker that has gone: its confirmation would never come while the clock stands."""
        self.broker.hang_up()
        self.lost()
        self.link.close(b"")

    def lost(self):
        self.until(lambda: not self.link.is_up and self.link.socket is None, "a loss")


@pytest.fixture
def rig():
    with FakeBroker() as broker:
        made = Rig(broker)
        yield made
        made.close()


def sample(packet_id, payload=b"1", topic="in/a", **more):
    return PublishPacket(topic, payload, qos=QoS.AT_LEAST_ONCE, packet_id=packet_id, **more)


def test_it_asks_for_a_session_that_lasts_and_leaves_a_will(rig):
    connect = rig.called()
    assert (connect.client_id, connect.username, connect.password) == ("tester", "u", SECRET)
    assert (connect.clean_start, connect.session_expiry_interval, connect.keep_alive) == (False, 3600, 10)
    assert (connect.receive_max, connect.max_packet_size) == (20, 4096)
    will = connect.will
    assert (will.topic, will.payload, will.qos, will.retain) == ("edge/x/status", b"gone", QoS.AT_LEAST_ONCE, True)
    assert "not said welcome" in rig.link.status()


def test_no_word_of_it_holds_the_password(rig):
    rig.welcomed()
    told = f"{rig.link!r} {vars(rig.link)} {rig.link.status()} {rig.link.trouble}"
    assert SECRET.decode() not in told


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ConnAckReasonCode.BAD_USER_NAME_OR_PASSWORD, "wrong user name or password (0x86)"),
        (ConnAckReasonCode.NOT_AUTHORIZED, "not authorized (0x87)"),
        (ConnAckReasonCode.UNSUPPORTED_PROTOCOL_VERSION, "does not speak this version (0x84)"),
        (ConnAckReasonCode.CLIENT_ID_NOT_VALID, "does not take this client id (0x85)"),
        (ConnAckReasonCode.SERVER_UNAVAILABLE, "not available (0x88)"),
        (ConnAckReasonCode.BANNED, "banned (0x8A)"),
        (ConnAckReasonCode.QUOTA_EXCEEDED, "a quota is used up (0x97)"),
    ],
)
def test_a_refusal_is_said_and_tried_again(rig, code, words):
    """home-assistant/core#31057: refused while the broker starts, then for ever away."""
    for _ in range(5):
        rig.called()
        rig.broker.send(ConnAckPacket(reason_code=code, reason_str="go\naway"))
        rig.lost()
        assert words in rig.link.status()
        assert "'go away'" in rig.link.trouble
        rig.clock.advance(15.1)
    rig.welcomed()
    assert rig.link.trouble == ""


def test_a_refusal_is_not_asked_for_again_at_once(rig):
    waits = []
    for _ in range(9):
        rig.called()
        rig.broker.send(ConnAckPacket(reason_code=ConnAckReasonCode.NOT_AUTHORIZED))
        rig.lost()
        waits.append((rig.link.due_ns() - rig.clock.mono_ns()) / 1e9)
        rig.clock.advance(waits[-1])
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]


def test_a_broker_that_is_away_is_tried_within_a_second(rig):
    port = free_port()
    away = Rig(rig.broker, port=port)
    waits = []
    for _ in range(6):
        away.lost()
        away.until(lambda: "trying again" in away.link.status(), "a try")
        waits.append((away.link.due_ns() - away.clock.mono_ns()) / 1e9)
        away.clock.advance(waits[-1])
        away.turn()
        away.until(lambda: away.link.due_ns() > away.clock.mono_ns() and away.link.socket is None, "the next failure")
    assert max(waits) == 1.0
    assert away.link.status() == f"not connected: 127.0.0.1:{port}: Connection refused; trying again"
    away.link.close(b"")


def test_a_name_without_an_address_is_said(rig):
    lost = Rig(rig.broker, host="a" * 70 + ".invalid")
    lost.until(lambda: "no address for aaa" in lost.link.status(), "the name server's word")
    lost.link.close(b"")


def test_it_subscribes_at_every_welcome_to_every_filter():
    """home-assistant/core#7958: after a restart only some topics came back."""
    filters = [f"in/{number}/+" for number in range(120)]
    with FakeBroker() as broker:
        rig = Rig(broker, filters)
        numbers = []
        for session in (False, True):
            rig.welcomed(session_present=session)
            asked = rig.heard(SubscribePacket, 120)
            assert [each.pattern for one in asked for each in one.topic_filters] == filters
            numbers.append([one.subscription_id for one in asked])
            for one in asked:
                broker.send(SubAckPacket(one.packet_id, [GRANTED]))
            rig.until(lambda: rig.link._subscribe_ns is None, "the grants")
            rig.clock.advance(12)
            broker.send(PingRespPacket())
            rig.turn()
            assert not [one for one in broker.read() if isinstance(one, SubscribePacket)]
            broker.hang_up()
            rig.lost()
            rig.clock.advance(1)
        rig.close()
        assert numbers[0] == numbers[1]
        assert len(set(numbers[0])) == 120


def test_a_broker_without_numbers_of_subscriptions_is_given_none(rig):
    rig.welcomed(subscription_id_available=False)
    assert rig.heard(SubscribePacket).subscription_id is None
    rig.broker.send(sample(1))
    rig.until(lambda: len(rig.inbox) == 1, "a message")


def test_of_the_copies_that_filters_bring_each_line_takes_one():
    with FakeBroker() as broker:
        rig = Rig(broker, ["in/#", "in/+"])
        other = rig.link.subscribe(["in/a"], qos=1, retained=False)
        rig.welcomed()
        asked = rig.heard(SubscribePacket, 3)
        broker.send(*(SubAckPacket(one.packet_id, [GRANTED]) for one in asked))
        numbers = [one.subscription_id for one in asked]
        broker.send(*(sample(at, subscription_ids=[one]) for at, one in enumerate(numbers, 1)))
        broker.send(sample(4, b"one copy", subscription_ids=numbers))
        rig.until(lambda: len(other) == 2, "the last")
        assert [rig.inbox.take().packet_id for _ in range(len(rig.inbox))] == [1, 4]
        assert [other.take().packet_id for _ in range(2)] == [3, 4]
        rig.close()


def test_a_copy_by_a_filter_of_an_earlier_configuration_is_none_of_ours(rig):
    rig.welcomed()
    mine = rig.heard(SubscribePacket).subscription_id
    rig.broker.send(sample(5, subscription_ids=[mine % 1000 + 1]))
    assert rig.heard(PubAckPacket).packet_id == 5
    assert len(rig.inbox) == 0


def test_a_filter_that_is_refused_leaves_its_messages_to_another():
    with FakeBroker() as broker:
        rig = Rig(broker, ["in/#", "in/+"])
        rig.welcomed()
        wide, close = rig.heard(SubscribePacket, 2)
        broker.send(SubAckPacket(wide.packet_id, [SubAckReasonCode.NOT_AUTHORIZED]))
        broker.send(SubAckPacket(close.packet_id, [GRANTED]))
        broker.send(sample(1, subscription_ids=[close.subscription_id]))
        rig.until(lambda: len(rig.inbox) == 1, "the message")
        rig.close()


def test_the_terms_of_one_filter_of_two_lines_are_the_most_of_both():
    with FakeBroker() as broker:
        rig = Rig(broker, qos=0, retained=True)
        rig.link.subscribe(["in/#"], qos=1, retained=False)
        rig.welcomed()
        (one,) = rig.heard(SubscribePacket).topic_filters
        assert one.max_qos == QoS.AT_LEAST_ONCE
        assert one.retain_handling == RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS
        rig.close()


@pytest.mark.parametrize("retained", [False, True])
def test_the_terms_of_a_subscription(retained):
    with FakeBroker() as broker:
        rig = Rig(broker, retained=retained)
        rig.welcomed()
        (one,) = rig.heard(SubscribePacket).topic_filters
        expected = RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS if retained else RetainHandling.SEND_NEVER
        assert (one.max_qos, one.no_local, one.retain_as_published) == (QoS.AT_LEAST_ONCE, True, False)
        assert one.retain_handling == expected
        rig.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [(SubAckReasonCode.UNSPECIFIED_ERROR, "gives no reason (0x80)"), (SubAckReasonCode.NOT_AUTHORIZED, "authorized")],
)
def test_a_filter_that_is_refused_is_said_and_asked_for_again(rig, code, words):
    """influxdata/telegraf#16038: connected every 80 s, and no data."""
    rig.welcomed()
    rig.broker.send(SubAckPacket(rig.heard(SubscribePacket).packet_id, [code]))
    rig.until(lambda: rig.link.trouble, "trouble")
    assert "it refuses topic filter 'in/#'" in rig.link.trouble
    assert words in rig.link.trouble
    rig.clock.advance(9)
    rig.broker.send(PingRespPacket())
    rig.turn()
    rig.clock.advance(1.1)
    rig.broker.send(SubAckPacket(rig.heard(SubscribePacket).packet_id, [GRANTED]))
    rig.until(lambda: not rig.link.trouble, "no trouble")


def test_a_subscription_that_is_never_answered_is_asked_for_again(rig):
    """eclipse-mosquitto/mosquitto#3542: a SUBACK is dropped when a queue is full."""
    rig.welcomed()
    first = rig.heard(SubscribePacket)
    rig.clock.advance(9.9)
    rig.broker.send(PingRespPacket())
    rig.turn()
    rig.clock.advance(0.2)
    assert rig.heard(SubscribePacket).packet_id != first.packet_id


MALFORMED = {
    "no type": b"\x00\x00",
    "a topic that is no UTF-8": b"\x30\x05\x00\x02\xff\xff\x00",
    "a quality of 3": b"\x36\x05\x00\x01a\x00\x00",
    "a property nobody knows": b"\x30\x06\x00\x01a\x01\xee\x00",
    "a length beyond its packet": b"\x30\x04\x00\x09a\x00",
    "a length of five bytes": b"\x30\xff\xff\xff\xff\x01",
    "a reason nobody knows": b"\xe0\x01\x77",
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # mqtt5's panic leaves one
@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_packet_ends_the_connection_and_not_the_link(rig, name, capfd):
    rig.welcomed()
    rig.broker.send(sample(1), MALFORMED[name])
    rig.lost()
    assert "127.0.0.1" in rig.link.status()
    assert "it sen" in rig.link.status()
    rig.clock.advance(1)
    rig.welcomed()
    capfd.readouterr()  # mqtt5 writes its panic there


def test_a_packet_larger_than_agreed_is_not_gathered(rig):
    rig.welcomed()
    rig.broker.send(sample(1, b"x" * 5000).write()[:4500])
    rig.lost()
    assert "more than the 4096 bytes" in rig.link.status()


def test_packets_come_whole_however_they_are_cut(rig):
    rig.welcomed()
    stream = b"".join(sample(one, b"x" * one).write() for one in range(1, 6))
    for at in range(len(stream)):
        rig.broker.send(stream[at : at + 1])
        if at % 7 == 0:
            rig.turn()
    rig.until(lambda: len(rig.inbox) == 5, "five messages")
    assert [rig.inbox.take().payload for _ in range(5)] == [b"x" * one for one in range(1, 6)]


def test_what_was_not_confirmed_goes_again_under_its_number(rig):
    rig.welcomed(receive_max=3)
    sent = [rig.link.publish("out", b"%d" % one, qos=1, retain=False) for one in range(3)]
    assert rig.link.publish("out", b"too many", qos=1, retain=False) is None
    first = rig.heard(PublishPacket, 3)
    rig.broker.send(PubAckPacket(first[0].packet_id))
    rig.until(lambda: sent[0].done, "the first")
    rig.broker.hang_up(hard=True)
    rig.lost()
    assert rig.link.publish("out", b"no", qos=1, retain=False) is None
    rig.clock.advance(1)
    rig.welcomed(receive_max=1, session_present=True)
    again = rig.heard(PublishPacket)
    assert (again.packet_id, again.payload, again.duplicate) == (first[1].packet_id, b"1", True)
    rig.turn()
    assert not [one for one in rig.broker.read() if isinstance(one, PublishPacket)]
    rig.broker.send(PubAckPacket(again.packet_id, reason_code=PubAckReasonCode.NO_MATCHING_SUBSCRIBERS))
    last = rig.heard(PublishPacket)
    assert (sent[1].done, sent[1].unheard, last.payload) == (True, True, b"2")
    rig.broker.hang_up()
    rig.lost()
    rig.clock.advance(1)
    rig.welcomed(session_present=False)
    fresh = rig.heard(PublishPacket)
    assert (fresh.packet_id, fresh.duplicate) == (last.packet_id, False)


@pytest.mark.parametrize("is_up", [True, False])
def test_what_was_withdrawn_does_not_go_again(rig, is_up):
    rig.welcomed()
    sent = [rig.link.publish("out", b"%d" % one, qos=1, retain=False) for one in range(3)]
    rig.heard(PublishPacket, 3)
    if is_up:
        rig.link.withdraw(sent[1:])
    rig.broker.hang_up(hard=True)
    rig.lost()
    if not is_up:
        rig.link.withdraw(sent[1:])
    rig.clock.advance(1)
    rig.welcomed(session_present=True)
    rig.link.publish("out", b"new", qos=1, retain=False)
    assert [one.payload for one in rig.heard(PublishPacket, 2)] == [b"0", b"new"]
    rig.turn()
    assert not [one for one in rig.broker.read() if isinstance(one, PublishPacket)]


def test_what_was_withdrawn_while_it_waits_for_room_makes_room(rig):
    rig.welcomed()
    sent = [rig.link.publish("out", b"%d" % one, qos=1, retain=False) for one in range(3)]
    rig.heard(PublishPacket, 3)
    rig.broker.hang_up(hard=True)
    rig.lost()
    rig.clock.advance(1)
    rig.welcomed(session_present=True, receive_max=1)
    again = rig.heard(PublishPacket)
    rig.link.withdraw(sent[1:])
    rig.broker.send(PubAckPacket(again.packet_id))
    rig.until(lambda: sent[0].done, "the first")
    assert rig.link.publish("out", b"new", qos=1, retain=False) is not None
    assert rig.heard(PublishPacket).payload == b"new"


def test_what_was_withdrawn_and_the_system_has_not_taken_goes_with_its_connection(rig):
    """A broker that does not read: what waits for it would be published long after it was withdrawn."""
    rig.welcomed()
    sent = []
    while not rig.link.wants_write:
        sent.append(rig.link.publish("out", bytes(1 << 20), qos=1, retain=False))
        rig.link.send()
    rig.link.withdraw(sent)
    assert not rig.link.is_up
    assert "slow to take answers that were withdrawn" in rig.link.status()


def test_a_message_the_broker_refuses_is_told_so(rig):
    rig.welcomed()
    sent = rig.link.publish("out", b"1", qos=1, retain=False)
    packet = rig.heard(PublishPacket)
    rig.broker.send(PubAckPacket(packet.packet_id, reason_code=PubAckReasonCode.NOT_AUTHORIZED))
    rig.until(lambda: sent.refusal, "a refusal")
    assert (sent.done, sent.refusal) == (False, "not authorized (0x87)")


def test_the_broker_s_limits_are_kept(rig):
    rig.welcomed(max_packet_size=100)
    with pytest.raises(TooLarge, match="a message of 119 bytes, and the broker takes 100 at most"):
        rig.link.publish("out", b"x" * 100, qos=1, retain=False)
    for _ in range(Mqtt5.max_in_flight):
        assert rig.link.publish("out", b"x", qos=1, retain=False) is not None
    assert rig.link.publish("out", b"x", qos=1, retain=False) is None
    assert rig.link.publish("out", b"x", qos=0, retain=False).done


def test_acknowledgements_leave_in_the_order_of_the_messages(rig):
    rig.welcomed()
    rig.broker.send(*(sample(one) for one in (7, 3, 9)))
    rig.until(lambda: len(rig.inbox) == 3, "messages")
    messages = [rig.inbox.take() for _ in range(3)]
    rig.link.acknowledge(messages[1])
    rig.turn()
    assert not [one for one in rig.broker.read() if isinstance(one, PubAckPacket)]
    rig.link.acknowledge(messages[0])
    rig.link.acknowledge(messages[2])
    assert [one.packet_id for one in rig.heard(PubAckPacket, 3)] == [7, 3, 9]


def test_an_acknowledgement_belongs_to_the_connection_the_message_came_by(rig):
    rig.welcomed()
    rig.broker.send(sample(7))
    rig.until(lambda: len(rig.inbox) == 1, "a message")
    old = rig.inbox.take()
    rig.broker.hang_up()
    rig.lost()
    rig.clock.advance(1)
    rig.welcomed(session_present=True)
    rig.broker.send(sample(7, duplicate=True))
    rig.until(lambda: len(rig.inbox) == 1, "it again")
    rig.link.acknowledge(old)
    rig.turn()
    assert not [one for one in rig.broker.read() if isinstance(one, PubAckPacket)]
    new = rig.inbox.take()
    assert (new.mark, new.again, old.again) == (old.mark, True, False)
    rig.link.acknowledge(new)
    assert rig.heard(PubAckPacket).packet_id == 7


def test_one_message_for_two_lines_is_acknowledged_by_both():
    with FakeBroker() as broker:
        rig = Rig(broker)
        other = rig.link.subscribe(["in/+"], qos=1, retained=False)
        rig.welcomed()
        broker.send(sample(5))
        rig.until(lambda: len(other) == 1, "a message")
        rig.link.acknowledge(rig.inbox.take())
        rig.turn()
        assert not [one for one in broker.read() if isinstance(one, PubAckPacket)]
        rig.link.acknowledge(other.take())
        assert rig.heard(PubAckPacket).packet_id == 5
        rig.close()


def test_what_nobody_asked_for_any_more_is_acknowledged(rig):
    """A session keeps the subscriptions of an earlier configuration."""
    rig.welcomed()
    rig.broker.send(sample(5, topic="other"))
    assert rig.heard(PubAckPacket).packet_id == 5
    assert len(rig.inbox) == 0


def test_messages_nobody_takes_are_bounded():
    with FakeBroker() as broker:
        rig = Rig(broker, qos=0)
        rig.welcomed()
        size, count = 3000, INBOX_BYTES // 3000 + 100
        packet = PublishPacket("in/a", b"x" * size).write()
        for _ in range(count):
            broker.send(packet)
            rig.turn()
        rig.until(lambda: len(rig.inbox) + rig.inbox.lost == count, "all")
        assert rig.inbox.lost > 100
        assert len(rig.inbox) * size <= INBOX_BYTES
        rig.close()


def test_silence_is_asked_about_and_then_given_up(rig):
    """Half as long again as the keepalive without a byte: eclipse-paho/paho.mqtt.python#840."""
    rig.welcomed()
    rig.heard(SubscribePacket)
    rig.clock.advance(9.9)
    rig.turn()
    assert not rig.broker.read()
    rig.clock.advance(0.1)
    assert rig.heard(PingReqPacket) is not None
    rig.broker.send(PingRespPacket())
    rig.turn()
    rig.clock.advance(10)
    rig.turn()
    assert rig.heard(PingReqPacket) is not None
    assert (rig.link.due_ns() - rig.clock.mono_ns()) / 1e9 == 5.0
    rig.clock.advance(4.9)
    rig.turn()
    assert rig.link.is_up
    rig.clock.advance(0.1)
    rig.lost()
    assert "nothing was heard of it for 15.0 s" in rig.link.status()


def test_the_broker_s_own_keepalive_counts(rig):
    rig.welcomed(server_keep_alive=4)
    rig.clock.advance(4)
    assert rig.heard(PingReqPacket) is not None


def test_a_broker_that_never_says_welcome_is_given_up(rig):
    rig.called()
    rig.clock.advance(9.9)
    rig.turn()
    assert rig.link.socket is not None
    rig.clock.advance(0.2)
    rig.lost()
    assert "no welcome within 10 s" in rig.link.status()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (DisconnectReasonCode.SERVER_SHUTTING_DOWN, "it is shutting down (0x8B)"),
        (DisconnectReasonCode.RECEIVE_MAX_EXCEEDED, "we sent more than it takes at once (0x93)"),
    ],
)
def test_a_goodbye_of_the_broker_is_said(rig, code, words):
    rig.welcomed()
    rig.broker.send(DisconnectPacket(reason_code=code))
    rig.lost()
    assert f"it ended the connection: {words}" in rig.link.status()
    assert "another client" not in rig.link.status()


def test_a_taken_over_session_is_told_and_not_fought_for(rig):
    """home-assistant/core#51205: two clients of one id throw each other out for ever."""
    rig.welcomed()
    rig.broker.send(DisconnectPacket(reason_code=DisconnectReasonCode.SESSION_TAKEN_OVER))
    rig.lost()
    assert "another client uses this client id, 'tester'" in rig.link.trouble
    assert (rig.link.due_ns() - rig.clock.mono_ns()) / 1e9 == 5.0


def test_three_short_lives_mean_a_rival(rig):
    for turn in range(3):
        assert "another client" not in rig.link.status()
        rig.welcomed()
        rig.clock.advance(4.9)
        rig.broker.hang_up()
        rig.lost()
        rig.clock.advance(1.1 if turn < 2 else 0)
    assert "another client uses this client id" in rig.link.status()
    rig.clock.advance(5.1)
    rig.welcomed()
    rig.clock.advance(5.1)
    rig.broker.send(PingRespPacket())
    rig.turn()
    rig.broker.hang_up()
    rig.lost()
    assert "another client" not in rig.link.status()


def test_the_status_is_told_at_every_connection_and_the_end(rig):
    told = []

    def make():
        told.append(len(told))
        return b"%d" % told[-1]

    rig.link.announce(make)
    for turn in range(2):
        rig.welcomed()
        packet = rig.heard(PublishPacket)
        assert (packet.topic, packet.payload, packet.retain) == ("edge/x/status", b"%d" % turn, True)
        if turn == 0:  # never confirmed: it is made anew, not sent again
            rig.broker.hang_up()
            rig.lost()
            rig.clock.advance(1)
    rig.broker.send(PubAckPacket(packet.packet_id))
    rig.turn()
    answered = []
    turn = rig.link.receive

    def answer():
        for one in rig.broker.read():
            answered.append(one)
            if isinstance(one, PublishPacket):
                rig.broker.send(PubAckPacket(one.packet_id))
        turn()

    rig.link.receive = answer
    rig.link.close(b"farewell")
    answered += rig.broker.read()
    assert [type(one) for one in answered] == [PublishPacket, DisconnectPacket]
    assert (answered[0].payload, answered[0].retain) == (b"farewell", True)
    assert answered[1].reason_code == DisconnectReasonCode.NORMAL_DISCONNECTION
    assert rig.link.socket is None


def test_the_socket_is_told_to_hurry_and_not_to_wait_for_ever(rig):
    rig.welcomed()
    assert rig.link.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert rig.link.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


def test_a_turn_leaves_in_one_piece(rig, monkeypatch):
    rig.welcomed()
    rig.heard(SubscribePacket)
    rig.broker.send(*(sample(one) for one in range(1, 4)))
    rig.until(lambda: len(rig.inbox) == 3, "messages")
    pieces = []
    monkeypatch.setattr(rig.link._stream, "send", pieces.append)
    for _ in range(3):
        rig.link.publish("out", b"x", qos=1, retain=False)
        rig.link.acknowledge(rig.inbox.take())
    rig.link.send()
    (piece,) = pieces
    kinds = []
    while piece:
        packet, size = mqtt5.read(memoryview(piece))
        kinds.append(type(packet))
        piece = piece[size:]
    assert kinds == [PublishPacket, PubAckPacket] * 3


def test_without_a_file_number_left_it_tries_again(rig):
    """eclipse-paho/paho.mqtt.python#183: too many open files end the client and not the attempt."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        with contextlib.suppress(OSError):
            while True:
                held.append(socket.socket())
        rig.link.receive()
        assert "Too many open files; trying again" in rig.link.trouble
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in held:
            one.close()
    rig.clock.advance(1)
    rig.welcomed()


def test_a_name_server_that_hangs_holds_one_thread(monkeypatch):
    answer = threading.Event()

    def hang(*_, **asked):
        if "flags" in asked:
            raise socket.gaierror("no address")
        answer.wait(20)
        raise socket.gaierror(0, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with FakeBroker() as broker:
        rig = Rig(broker, host="broker.example")
        for _ in range(30):
            rig.turn()
            rig.clock.advance(11)
        (thread,) = [one for one in threading.enumerate() if one.name == "look up broker.example"]
        assert "no answer about broker.example from the name server" in rig.link.trouble
        answer.set()
        thread.join()
        rig.clock.advance(1)
        rig.turn()
        assert "Temporary failure" in rig.link.trouble
        rig.link.close(b"")


def test_what_comes_again_on_the_same_connection_is_acknowledged_once(rig):
    """EMQX sends anew after retry_interval what is not acknowledged, the connection being whole."""
    rig.welcomed()
    rig.broker.send(sample(1), sample(2), sample(1, duplicate=True))
    rig.broker.send(sample(3))
    rig.until(lambda: len(rig.inbox) >= 3, "messages")
    for _ in range(len(rig.inbox)):
        rig.link.acknowledge(rig.inbox.take())
    assert [one.packet_id for one in rig.heard(PubAckPacket, 3)] == [1, 2, 3]


def test_confirmations_are_heard_behind_more_than_the_inboxes_hold(rig, monkeypatch):
    """mosquitto 2.0.11 sends a whole queue at once; what there is no room for is left to it, and fetched later."""
    monkeypatch.setattr(module, "READ_AHEAD_BYTES", 1000)
    rig.welcomed()
    sent = rig.link.publish("out", b"answer", qos=1, retain=False)
    packet_id = rig.heard(PublishPacket).packet_id
    for number in range(1, 10):
        rig.broker.send(sample(number, b"%d" % number))
        rig.turn()
    rig.until(lambda: len(rig.inbox) >= 3, "as many as there is room for")
    rig.broker.send(PubAckPacket(packet_id))
    rig.until(lambda: sent.done, "the confirmation")
    assert len(rig.inbox) == 3
    assert rig.link.is_up
    for number in range(1, 4):
        message = rig.inbox.take()
        assert message.payload == b"%d" % number
        rig.link.acknowledge(message)
    assert [one.packet_id for one in rig.heard(PubAckPacket, 3)] == [1, 2, 3]
    rig.welcomed(session_present=True)
    assert "another client" not in rig.link.status()
    rig.broker.send(sample(4, b"4", duplicate=True))
    rig.until(lambda: len(rig.inbox) == 1, "the rest")
    assert rig.inbox.take().payload == b"4"


def test_what_waits_and_comes_again_is_forgotten_beyond_what_is_known_again(rig):
    """Else thousands were taken twice: a line knows the last 1,024 messages again."""
    rig.welcomed()
    for number in range(1, 51):
        rig.broker.send(sample(number, b"%d" % number))
    rig.until(lambda: len(rig.inbox) == 50, "the messages")
    rig.broker.hang_up()
    rig.lost()
    rig.clock.advance(1)
    rig.welcomed(session_present=True)
    assert len(rig.inbox) == 20
    assert [rig.inbox.take().payload for _ in range(20)] == [b"%d" % number for number in range(1, 21)]
    assert rig.inbox.bytes == 0


def test_what_waits_is_kept_where_the_broker_has_forgotten_us(rig):
    rig.welcomed()
    for number in range(1, 51):
        rig.broker.send(sample(number, b"%d" % number))
    rig.until(lambda: len(rig.inbox) == 50, "the messages")
    rig.broker.hang_up()
    rig.lost()
    rig.clock.advance(1)
    rig.welcomed(session_present=False)
    assert len(rig.inbox) == 50


def test_a_status_the_broker_does_not_take_is_told_and_not_waited_for(rig):
    rig.link.announce(lambda: b"online")
    rig.welcomed()
    packet = rig.heard(PublishPacket)
    rig.broker.send(PubAckPacket(packet.packet_id, reason_code=PubAckReasonCode.NOT_AUTHORIZED))
    rig.until(lambda: rig.link.trouble, "trouble")
    assert "it does not take our status on 'edge/x/status': not authorized (0x87)" in rig.link.trouble
    turn = rig.link.receive

    def refuse():
        for one in rig.broker.read():
            if isinstance(one, PublishPacket):
                rig.broker.send(PubAckPacket(one.packet_id, reason_code=PubAckReasonCode.NOT_AUTHORIZED))
        turn()
        rig.clock.advance(0.01)

    rig.link.receive = refuse
    begun = rig.clock.mono_ns()
    rig.link.close(b"farewell")
    assert rig.clock.mono_ns() - begun < 1e9


def test_a_status_too_large_is_told_and_made_once(rig):
    made = []
    rig.link.announce(lambda: (made.append(1), b"x" * 2000)[1])
    rig.welcomed(max_packet_size=1000)
    for _ in range(5):
        rig.turn()
    assert len(made) == 1
    assert "does not take our status on 'edge/x/status': a message of 20" in rig.link.trouble


def test_a_broker_that_says_why_it_parts_is_no_rival_and_not_stormed(rig):
    """AWS IoT ends the connection of a client that publishes where its policy has no word of it."""
    for turn in range(3):
        rig.welcomed()
        rig.broker.send(DisconnectPacket(reason_code=DisconnectReasonCode.NOT_AUTHORIZED))
        rig.lost()
        assert "another client" not in rig.link.status()
        assert "not authorized (0x87)" in rig.link.status()
        if turn < 2:
            rig.clock.advance(1.1)
    assert (rig.link.due_ns() - rig.clock.mono_ns()) / 1e9 == 5.0


def test_a_broker_that_restarts_again_and_again_is_come_back_to_at_once(rig):
    """A restart in less than our first wait: as soon as it is asked, it is there again."""
    for _ in range(5):
        rig.welcomed()
        rig.broker.send(DisconnectPacket(reason_code=DisconnectReasonCode.SERVER_SHUTTING_DOWN))
        rig.lost()
        assert "another client" not in rig.link.status()
        assert (rig.link.due_ns() - rig.clock.mono_ns()) / 1e9 <= 1.0
        rig.clock.advance(1.0)


def test_behind_a_line_that_waits_another_takes_no_more_than_is_known_again():
    """Acknowledgements leave in order; mosquitto 2.0.11 sends a whole queue whatever receive maximum it was told."""
    with FakeBroker() as broker:
        rig = Rig(broker, None)
        slow, quick = (MqttTopicSource(MqttSource(topics=(topic,)), rig.link) for topic in ("a", "b"))
        rig.welcomed()
        broker.send(sample(1, topic="a"), *(sample(number, topic="b") for number in range(2, 102)))
        rig.until(lambda: rig.link._delivered == 101, "all of them")
        (held,) = slow.take()
        taken = 0
        for _ in range(5):
            chunks = quick.take()
            taken += len(chunks)
            quick.acknowledge(taken)
        assert taken == 19
        assert quick.due_ns() is None
        slow.acknowledge(held.position)
        while chunks := quick.take():
            taken += len(chunks)
            quick.acknowledge(taken)
        assert taken == 100
        assert len(rig.heard(PubAckPacket, 101)) == 101
        rig.close()
