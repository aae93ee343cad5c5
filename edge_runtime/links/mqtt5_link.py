"""The one door to mqtt5: MQTT 5 as a dialect of `links.broker_link`, packets in and out; it judges no payload."""

from collections.abc import Iterator
from typing import Any, Final

import mqtt5
from mqtt5 import (
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    DisconnectReasonCode,
    PingReqPacket,
    PubAckPacket,
    PublishPacket,
    QoS,
    RetainHandling,
    SubAckPacket,
    SubscribePacket,
    TopicFilter,
    Will,
)

from edge_runtime.links.mqtt_dialect import TOO_LARGE, WRONG_VERSION, Caller, Target, Unreadable, Welcome
from edge_runtime.links.stream_socket import StreamSocket

_OLD_WELCOME: Final = b"\x20\x02"
"""How the answer of a broker before MQTT 5 begins; MQTT 5's is never so short."""
_OLD_WELCOME_BYTES: Final = 4


class Mqtt5:
    """MQTT 5 towards ``target``; see `links.mqtt_dialect.Dialect` for the methods."""

    name = "MQTT 5"
    max_in_flight = 64

    def __init__(self, target: Target, caller: Caller) -> None:
        self._target, self._caller = target, caller
        self._rest = b""
        self._is_welcome = False

    def connect(self, stream: StreamSocket) -> None:  # noqa: ARG002 -- the dialect's
        """Say CONNECT."""
        target = self._target
        last = target.will()
        self._rest = b""
        self._is_welcome = False
        will = None
        if last is not None:
            will = Will(last.topic, payload=last.payload, qos=QoS.AT_LEAST_ONCE, retain=last.retain)
        packet = ConnectPacket(
            target.client_id,
            username=target.user,
            password=target.password(),
            clean_start=not target.lasts,
            will=will,
            keep_alive=target.keepalive_s,
            session_expiry_interval=target.session_expiry_s if target.lasts else 0,
            receive_max=target.receive_maximum,
            max_packet_size=target.max_packet_bytes,
        )
        self._put(packet)

    def read(self, data: bytes) -> None:
        """Tell of every packet."""
        caller = self._caller
        for packet in self._packets(data):
            if type(packet) is PublishPacket:
                caller.delivered(
                    packet.topic,
                    packet.payload,
                    packet.packet_id or 0,
                    again=packet.duplicate,
                    retained=packet.retain,
                    by=packet.subscription_ids,
                )
            elif type(packet) is PubAckPacket:
                caller.confirmed(packet.packet_id, int(packet.reason_code), packet.reason_str)
            else:
                self._tell_rare(packet)

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> int:
        """Say one."""
        if qos == 0:
            self._put(PublishPacket(topic, payload, retain=retain))
            return 0
        packet_id = self._caller.free_id()
        self.publish_again(packet_id, topic, payload, retain=retain, again=False)
        return packet_id

    def publish_again(self, packet_id: int, topic: str, payload: bytes, *, retain: bool, again: bool) -> None:
        """Say one under its number."""
        packet = PublishPacket(
            topic, payload, qos=QoS.AT_LEAST_ONCE, retain=retain, packet_id=packet_id, duplicate=again
        )
        self._put(packet)

    def forget(self, packet_id: int) -> None:
        """Nothing to do: what goes again is the caller's alone."""

    def acknowledge(self, packet_id: int) -> None:
        """Say PUBACK."""
        self._put(PubAckPacket(packet_id))

    def subscribe(self, pattern: str, *, qos: int, retained: bool, number: int | None) -> int:
        """Say SUBSCRIBE."""
        packet_id = self._caller.free_id()
        terms = TopicFilter(
            pattern,
            max_qos=QoS.AT_LEAST_ONCE if qos else QoS.AT_MOST_ONCE,
            no_local=True,
            retain_as_published=False,
            # What the broker kept comes once a session where it is wanted, and never where it is not.
            retain_handling=RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS if retained else RetainHandling.SEND_NEVER,
        )
        # One each: a number is that of all the filters in a packet.
        self._put(SubscribePacket(packet_id, [terms], subscription_id=number))
        return packet_id

    def ping(self) -> None:
        """Say PINGREQ."""
        self._put(PingReqPacket())

    def part(self, code: int) -> None:
        """Say DISCONNECT."""
        self._put(DisconnectPacket(reason_code=DisconnectReasonCode(code)))

    def _packets(self, data: bytes) -> Iterator[Any]:
        """The packets that ``data`` completes; what is left waits. Raises Unreadable where it is none."""
        buffer = memoryview(self._rest + data if self._rest else data)
        if not self._is_welcome and bytes(buffer[:2]) == _OLD_WELCOME and len(buffer) >= _OLD_WELCOME_BYTES:
            self._caller.welcomed(Welcome(WRONG_VERSION, None, False, None, 0, None))  # noqa: FBT003 -- no session
        at, end = 0, len(buffer)
        while at < end:
            try:
                packet, size = mqtt5.read(buffer[at:])
            except IndexError:
                break
            except ValueError as error:
                raise Unreadable(f"it sent something that is no MQTT 5 packet: {error}") from error
            except BaseException as error:
                # mqtt5 0.8 panics on text that is no UTF-8; the exception of a panic is no Exception.
                if type(error).__name__ != "PanicException":
                    raise
                raise Unreadable("it sent a packet whose text is no UTF-8") from error
            at += size
            yield packet
        self._rest = bytes(buffer[at:])
        if len(self._rest) > self._target.max_packet_bytes:
            raise Unreadable(
                f"it sends a packet of more than the {self._target.max_packet_bytes} bytes we take", TOO_LARGE
            )

    def _tell_rare(self, packet: Any) -> None:
        match packet:
            case ConnAckPacket():
                self._is_welcome = True
                self._caller.welcomed(
                    Welcome(
                        int(packet.reason_code),
                        packet.reason_str,
                        packet.session_present,
                        packet.server_keep_alive,
                        packet.receive_max,
                        packet.max_packet_size,
                        packet.subscription_id_available,
                    )
                )
            case SubAckPacket() if packet.reason_codes:
                self._caller.granted(packet.packet_id, int(packet.reason_codes[0]), packet.reason_str)
            case DisconnectPacket():
                self._caller.dismissed(int(packet.reason_code), packet.reason_str)
            case _:  # PINGRESP has been noted as a sign of life; QoS 2 was not asked for
                pass

    def _put(self, packet: Any) -> None:
        self._caller.put(packet.write())
