"""Publishers and listeners of a test, made of paho: what our own link says is checked by a client that is not ours."""

import threading
import time
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PATIENCE_S = 20.0


class Client:
    """A client with a session of its own; what came is in ``messages`` as (topic, payload, retained), in order."""

    def __init__(self, port: int, *topics: str, name: str = "tester", qos: int = 1) -> None:
        self.messages: list[tuple[str, bytes, bool]] = []
        self._changed = threading.Event()
        self._topics = topics
        self._qos = qos
        self._is_subscribed = not topics
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
        self._client.on_message = self._on_message
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.max_inflight_messages_set(0)
        self._client.reconnect_delay_set(min_delay=1, max_delay=1)
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho's own
        lasting.SessionExpiryInterval = 3600
        self._client.connect("127.0.0.1", port, keepalive=60, clean_start=False, properties=lasting)
        self._client.loop_start()
        self.until(lambda: self._is_subscribed, "a subscription")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, topic: str, payload: bytes | str, *, qos: int = 1, retain: bool = False) -> Any:
        """Publish; with ``qos`` 1 return once the broker has taken it."""
        done = self._client.publish(topic, payload, qos=qos, retain=retain)
        if qos:
            done.wait_for_publish(PATIENCE_S)
        return done

    def publish_later(self, topic: str, payload: bytes | str) -> Any:
        """Publish with QoS 1 and do not wait."""
        return self._client.publish(topic, payload, qos=1)

    @property
    def is_connected(self) -> bool:
        """Whether the broker has said welcome and was not lost since, as far as paho knows."""
        return bool(self._client.is_connected())

    def until(self, happened: Any, what: str, patience_s: float = PATIENCE_S) -> None:
        """Return once ``happened()``, asked at each message. Raises TimeoutError."""
        deadline = time.monotonic() + patience_s
        while not happened():
            if time.monotonic() > deadline:
                msg = f"gave up waiting for {what}; {len(self.messages)} messages, last {self.messages[-1:]}"
                raise TimeoutError(msg)
            self._changed.wait(0.05)
            self._changed.clear()

    def payloads(self, topic: str) -> list[bytes]:
        """The payloads that came on one topic, in order."""
        return [payload for where, payload, _ in self.messages if where == topic]

    def _on_message(self, _client: object, _data: object, message: Any) -> None:
        self.messages.append((message.topic, message.payload, bool(message.retain)))
        self._changed.set()

    def _on_connect(self, client: Any, *_: object) -> None:
        if self._topics:
            client.subscribe([(topic, self._qos) for topic in self._topics])

    def _on_subscribe(self, *_: object) -> None:
        self._is_subscribed = True
        self._changed.set()
