"""One connection to an MQTT broker, made again for ever, without a thread; it judges no payload and knows no packet."""

import random
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from edge_runtime.links.mqtt_dialect import (
    NOBODY_LISTENS,
    NORMAL,
    REFUSED,
    SHUTTING_DOWN,
    TAKEN_OVER,
    WRONG_VERSION,
    Caller,
    Dialect,
    Known,
    Refusal,
    ShuttingDown,
    Target,
    Unreadable,
    Welcome,
)
from edge_runtime.links.mqtt_port import Inbox, Message, Sent, TooLarge
from edge_runtime.links.mqtt_words import words_of
from edge_runtime.links.stream_socket import Address, Lookup, StreamLost, StreamSocket
from edge_runtime.spec.topic import matches

NS: Final = 1_000_000_000
FIRST_WAIT_NS: Final = 100_000_000
"""The first retry comes soon: most losses are a broker that restarts."""
REFUSED_WAIT_NS: Final = 15 * NS
"""The longest wait after a refusal: asking on and on with a wrong password gets a client banned."""
GREETING_NS: Final = 10 * NS
"""How long an attempt may take, from the lookup to the broker's welcome."""
SUBSCRIBE_AGAIN_NS: Final = 10 * NS
"""After this a filter that was refused, or never answered, is asked for again."""
SHORT_LIFE_NS: Final = 5 * NS
SHORT_LIVES: Final = 3
"""So many losses in a row within SHORT_LIFE_NS of the welcome: somebody else connects with our client id."""
RIVAL_WAIT_NS: Final = 30 * NS
MAX_NUMBER: Final = 268_435_455
"""Of a subscription (MQTT 5, 3.8.2.1.2)."""
CLOSED_AT_ONCE: Final = 3
"""So many connections in a row that end without an answer: perhaps the broker cannot read this version's CONNECT."""
READ_AHEAD_BYTES: Final = 8 << 20
"""What inboxes may hold; messages beyond it are left to the broker, which sends them again on the next connection."""
UNSENT_BYTES: Final = 1 << 20
"""What may wait for the system to take; beyond it nothing more is published."""
FAREWELL_NS: Final = NS
"""With what a stop waits for before it (`run.loop.SETTLE_NS`) this stays below 3 s, whatever the broker does."""
_FAREWELL_STEP_S: Final = 0.05
_OVERHEAD_BYTES: Final = 16  # of a PUBLISH beside topic and payload: header, length, id, properties


Speaks = Callable[[Target, Caller], Dialect]


class _Flight(NamedTuple):
    topic: str
    payload: bytes
    retain: bool
    sent: Sent


def _nothing() -> None:
    """Nobody has to be told."""


def _jitter() -> float:
    return random.uniform(0.5, 1.0)  # noqa: S311 (spreads retries; guards nothing)


class BrokerLink:
    """A connection to ``target``; see `links.mqtt_port.MqttLink` for the methods, `mqtt_dialect.Caller` for some more.

    The dialects it ``speaks`` are tried in their order: the next one where the broker says that it does not speak one,
    or ends CLOSED_AT_ONCE connections in a row without an answer, before there was any.
    """

    def __init__(
        self,
        target: Target,
        speaks: Sequence[Speaks],
        *,
        wall_ns: Callable[[], int],
        mono_ns: Callable[[], int],
        jitter: Callable[[], float] = _jitter,
    ) -> None:
        self.reopened = 0
        self._target = target
        self._place = f"{target.host}:{target.port}"
        self._wall_ns, self._mono_ns, self._jitter = wall_ns, mono_ns, jitter
        self._wake: Callable[[], None] = _nothing
        self._begun = False
        self._greet_with, self._out = _nothing, list[bytes]()
        self._speaks = deque(speaks)
        self._dialect = self._speaks[0](target, self)
        self._instead = ""
        self._was_up = False
        self._unanswered = 0
        self._inboxes: list[Inbox] = []
        self._wanted_by: dict[str, tuple[tuple[Inbox, int], ...]] = {}
        self._lookup: Lookup | None = None
        self._addresses: list[Address] = []
        self._stream: StreamSocket | None = None
        self._is_greeted = False
        self.is_up = False
        self._retry_ns: int | None = None
        self._deadline_ns = 0
        self._failures = 0
        self._short_lives = 0
        self._rival = False
        self._connection = 0
        self._up_since_ns = self._heard_ns = self._said_ns = 0
        self._keepalive_ns = target.keepalive_s * NS
        self._pinged = self._leaves = False
        self._stamp = (0, 0)
        # [packet id, how many inboxes have not said that it is done, which message of QoS 1 it is on this connection]
        self._unacked: deque[list[int]] = deque()
        self._delivered = 0
        self._by_id: dict[int, list[int]] = {}
        self._flights: dict[int, _Flight] = {}
        self._unsent: deque[int] = deque()
        self._next_id = 0
        self._broker_receives = self._dialect.max_in_flight
        self._broker_bytes: int | None = None
        self._has_session = False
        self._subscribing: dict[int, str] = {}
        self._says_filters = False
        self._refused_filters: dict[str, str] = {}
        self._granted: set[str] = set()
        self._subscribe_ns: int | None = None
        self._announcement: Callable[[], bytes] | None = None
        self._announced: Sent | None = None
        self._kept: dict[str, bytes] = {}
        self._unkept: deque[str] = deque()
        self._keeping: dict[str, Sent] = {}
        self._closed = False
        self._status = "not started"

    # What the loop asks.

    @property
    def receive_maximum(self) -> int:
        """How many messages may be taken and not acknowledged."""
        return self._target.receive_maximum

    @property
    def socket(self) -> socket.socket | None:
        """What to wait for."""
        return None if self._stream is None else self._stream.socket

    @property
    def wants_write(self) -> bool:
        """Whether to wait for room to write too."""
        return self._stream is not None and self._stream.wants_write

    @property
    def trouble(self) -> str:
        """What keeps it from its work, as a clause."""
        if self.is_up and not self._refused_filters and not self._untold and not self._not_kept:
            return ""
        return f"broker {self._place}: {self.status().removesuffix('.')}"

    def due_ns(self) -> int | None:
        """When ``receive`` must be called without new input."""
        if self._stream is not None and self._stream.has_more:
            return self._mono_ns()
        if not self.is_up:
            return self._retry_ns if self._retry_ns is not None else self._deadline_ns
        silence = self._heard_ns + (self._keepalive_ns * 3 // 2 if self._pinged else self._keepalive_ns)
        due = [silence, self._said_ns + self._keepalive_ns]
        return min(due if self._subscribe_ns is None else [*due, self._subscribe_ns])

    def status(self) -> str:
        """One plain sentence."""
        if self.is_up and self._refused_filters:
            pattern, why = next(iter(self._refused_filters.items()))
            more = f", and {len(self._refused_filters) - 1} more" if len(self._refused_filters) > 1 else ""
            return f"connected, but it refuses topic filter {pattern!r}{more}: {why}"
        if self.is_up and self._untold:
            return f"connected, but it does not take our status on {self._target.status_topic!r}: {self._untold}"
        if self.is_up and self._not_kept:
            topic, why = self._not_kept
            return f"connected, but it does not take what is to be kept on {topic!r}: {why}"
        return self._status

    @property
    def answers(self) -> dict[str, str]:
        """For each topic filter that the broker has answered on this connection why it refuses it; empty where it does not."""
        return dict.fromkeys(self._granted, "") | self._refused_filters

    @property
    def _untold(self) -> str:
        """Why the status does not stand on its topic, where that is known."""
        return "" if self._announced is None else self._announced.refusal

    @property
    def _not_kept(self) -> tuple[str, str] | None:
        """One of the messages to be kept that is not, and why."""
        return next(((topic, sent.refusal) for topic, sent in self._keeping.items() if sent.refusal), None)

    # What sources, sinks and the process ask.

    def subscribe(self, filters: Sequence[str], *, qos: int, retained: bool) -> Inbox:
        """Where messages of these filters will arrive."""
        inbox = Inbox(filters, qos=qos, retained=retained)
        self._inboxes.append(inbox)
        return inbox

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to connect; a link that was begun before goes on, and wakes another from now on."""
        self._wake = wake
        if self._begun:
            return
        self._begun = True
        self._retry_ns = self._mono_ns()
        self._status = f"connecting to {self._place}"

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> Sent | None:
        """Send one; see the port."""
        size = len(topic.encode()) + len(payload) + _OVERHEAD_BYTES
        if self._broker_bytes is not None and size > self._broker_bytes:
            raise TooLarge(f"a message of {size} bytes, and the broker takes {self._broker_bytes} at most")
        if not self.is_up or self._stream is None or self._stream.unsent_bytes > UNSENT_BYTES:
            return None
        if qos == 0:
            self._dialect.publish(topic, payload, qos=0, retain=retain)
            return Sent(done=True)
        if len(self._flights) >= self._broker_receives:
            return None
        packet_id = self._dialect.publish(topic, payload, qos=1, retain=retain)
        flight = self._flights[packet_id] = _Flight(topic, payload, retain, Sent())
        return flight.sent

    def withdraw(self, messages: Iterable[Sent]) -> None:
        """Never send these again; see the port. What the system has not taken yet goes with its connection."""
        for one in messages:
            one.withdrawn = not one.done
        if any(flight.sent.withdrawn for flight in self._flights.values()):
            if self._stream is not None and self._stream.unsent_bytes:
                self._lose(StreamLost("it was slow to take answers that were withdrawn since"))
            self._forget_withdrawn()

    def _forget_withdrawn(self) -> None:
        """Let go what the broker may not be sent again; what it was sent on this connection keeps its id until it answers."""
        for packet_id, flight in list(self._flights.items()):
            is_waiting = packet_id in self._unsent
            if flight.sent.withdrawn and (is_waiting or not self.is_up):
                del self._flights[packet_id]
                self._dialect.forget(packet_id)
                if is_waiting:
                    self._unsent.remove(packet_id)

    def may_take(self, message: Message) -> bool:
        """Whether it is among the oldest ``receive_maximum`` that are not acknowledged; see the port.

        Acknowledgements go in order: behind a line that waits for its sink another would take a whole queue, which after
        a loss came again, and was more than a line knows again. The oldest may always be taken, so nobody waits for ever.
        """
        delivery = self._by_id.get(message.packet_id) if message.connection == self._connection else None
        return delivery is None or delivery[2] - self._unacked[0][2] < self._target.receive_maximum

    def acknowledge(self, message: Message) -> None:
        """Say that a message's effect is durable."""
        delivery = self._by_id.get(message.packet_id) if message.connection == self._connection else None
        if delivery is None or not message.mark:
            return
        delivery[1] -= 1
        # In the order they came (MQTT 5 and 3.1.1, 4.6).
        while self._unacked and self._unacked[0][1] <= 0:
            done = self._unacked.popleft()
            del self._by_id[done[0]]
            self._dialect.acknowledge(done[0])

    def greet(self, say: Callable[[], None]) -> None:
        """Call ``say`` at every welcome, before anybody else can publish."""
        self._greet_with = say

    def announce(self, make: Callable[[], bytes]) -> None:
        """Keep what ``make`` gives retained on the status topic."""
        self._announcement, self._announced = make, None
        self._publish_announcement()

    def keep(self, messages: Mapping[str, bytes]) -> None:
        """Keep each payload retained on its topic."""
        self._kept = dict(messages)
        self._keep_all()

    @property
    def has_kept(self) -> bool:
        """Whether the broker has taken all of it."""
        return self.is_up and not self._unkept and all(sent.done for sent in self._keeping.values())

    def close(self, farewell: bytes | None) -> None:
        """Leave ``farewell``, see that the broker has it, and part."""
        if self._closed:
            return
        self._closed = True
        if self.is_up:
            if farewell is not None:
                self._say_farewell(farewell)
            self._part(NORMAL)
        self._drop_stream()
        self._status = "closed"

    def _say_farewell(self, farewell: bytes) -> None:
        self.announce(lambda: farewell)
        deadline = self._mono_ns() + FAREWELL_NS
        self.send()
        while self.is_up and not (self._announced is not None and (self._announced.done or self._untold)):
            if self._mono_ns() >= deadline or self._stream is None:
                break
            self._stream.wait(_FAREWELL_STEP_S)
            self.receive()
            self.send()

    # Turning.

    def receive(self) -> None:
        """Take all that waits and do what is due."""
        try:
            if self._stream is None:
                self._begin()
            if self._stream is not None and not self._is_greeted:
                self._greet(self._stream)
            if self._stream is not None and self._is_greeted:
                self._read(self._stream)
                self._keep_alive()
                self._ask_for_filters()
                self._fetch()
        except Unreadable as error:
            self._part(error.code)
            self._lose(error)
        except StreamLost as error:
            self._lose(error)

    def send(self) -> None:
        """Hand what was gathered to the system."""
        if self._stream is None or not (self._out or self._stream.unsent_bytes):
            return
        if not self._is_greeted:
            return
        data = b"".join(self._out)
        self._out.clear()
        if data:
            self._said_ns = self._mono_ns()
        try:
            self._stream.send(data)
        except StreamLost as error:
            self._lose(error)

    def _begin(self) -> None:
        """Look up and connect, one address after the other."""
        now = self._mono_ns()
        if self._closed or (self._retry_ns is not None and now < self._retry_ns):
            return
        if self._lookup is None and not self._addresses:
            self._retry_ns, self._deadline_ns = None, now + GREETING_NS
            self._lookup = Lookup(self._target.host, self._target.port, self._wake)
        if self._lookup is not None:
            if self._lookup.failure:
                failure, self._lookup = self._lookup.failure, None
                raise StreamLost(failure)
            if self._lookup.addresses is None:
                if now >= self._deadline_ns:
                    raise StreamLost(f"no answer about {self._target.host} from the name server")
                return
            self._addresses, self._lookup = list(self._lookup.addresses), None
        address = self._addresses.pop(0)
        self._retry_ns, self._deadline_ns = None, now + GREETING_NS
        self._stream = StreamSocket(address, self._target.tls, self._target.keepalive_s * 1500)

    def _greet(self, stream: StreamSocket) -> None:
        """Go on connecting, and say CONNECT once there is a connection."""
        if stream.open():
            self._is_greeted = True
            self._out.clear()
            self._dialect.connect(stream)
            self._status = f"connected to {self._place}, which has not said welcome yet"
        self._check_deadline()

    def _check_deadline(self) -> None:
        if not self.is_up and self._mono_ns() >= self._deadline_ns:
            raise StreamLost(f"no welcome within {GREETING_NS // NS} s")

    def _read(self, stream: StreamSocket) -> None:
        data = stream.receive()
        if not data:
            self._check_deadline()
            return
        now = self._heard_ns = self._mono_ns()
        self._pinged = False
        self._stamp = (self._wall_ns(), now)
        # It should not come to this, but mosquitto 2.0.11 forgets the receive maximum when it resumes a session. To stop
        # reading would not do: what confirms our answers comes behind it, and without that no line takes more.
        self._leaves = self._leaves or sum(inbox.bytes for inbox in self._inboxes) > READ_AHEAD_BYTES
        self._dialect.read(data)

    def _fetch(self) -> None:
        """Once the lines have taken all that there was room for, have the broker send the rest: on a new connection."""
        if self._leaves and self.is_up and not any(map(len, self._inboxes)):
            self._part(NORMAL)
            self._drop_stream()
            self._retry_ns = self._mono_ns()
            self._status = f"connecting to {self._place} for the rest of what it keeps for us"

    # What the dialect tells.

    def put(self, data: bytes) -> None:
        """Gather bytes that leave with the next turn."""
        self._out.append(data)

    def free_id(self) -> int:
        """A packet id that nothing of ours bears now."""
        while True:
            self._next_id = self._next_id % 65_535 + 1
            if self._next_id not in self._flights and self._next_id not in self._subscribing:
                return self._next_id

    def delivered(
        self, topic: str, payload: bytes, packet_id: int, *, again: bool, retained: bool, by: Sequence[int] = ()
    ) -> None:
        """Put a message into the inboxes that want it."""
        if packet_id and self._leaves:
            return
        if packet_id in self._by_id:
            return  # EMQX sends what is not acknowledged again on the same connection; we have it
        mark = 0
        if packet_id:
            mark = packet_id << 32 | crc32(payload, crc32(topic.encode()))
        message = Message(topic, payload, packet_id, mark, again, retained, self._connection, *self._stamp)
        wanted = self._wanted_by.get(topic)
        if wanted is None:
            wanted = self._wanted(topic)
        inboxes = [inbox for inbox, number in wanted if not by or number in by]
        if packet_id:
            self._delivered += 1
            delivery = [packet_id, max(1, len(inboxes)), self._delivered]
            self._unacked.append(delivery)
            self._by_id[packet_id] = delivery
        for inbox in inboxes:
            inbox.put(message)
        if not inboxes:  # the copy of another filter, or one of an earlier configuration that the session still has
            self.acknowledge(message)

    def _wanted(self, topic: str) -> tuple[tuple[Inbox, int], ...]:
        """Who takes this topic, and by the number of which filter: of those that overlap each brings a copy."""
        if len(self._wanted_by) >= 4096:  # noqa: PLR2004 -- topics may be invented without end
            self._wanted_by.clear()
        ways = [(inbox, [one for one in inbox.filters if matches(one, topic)]) for inbox in self._inboxes]
        found = self._wanted_by[topic] = tuple(
            # A filter that is refused brings nothing while another does; what a session had kept of it still comes.
            (inbox, _number(min(filters, key=self._refused_filters.__contains__)))
            for inbox, filters in ways
            if filters
        )
        return found

    def confirmed(self, packet_id: int, code: int, told: str | None) -> None:
        """Note what has become of a message, and send what waited for that."""
        flight = self._flights.pop(packet_id, None)
        if flight is None:
            return
        if code >= REFUSED:
            flight.sent.refusal = words_of(code, told)
        else:
            flight.sent.done, flight.sent.unheard = True, code == NOBODY_LISTENS
        while self._unsent and len(self._flights) - len(self._unsent) < self._broker_receives:
            self._resend(self._unsent.popleft())

    def dismissed(self, code: int, told: str | None) -> None:
        """Give up a connection that the broker ends. Raises StreamLost."""
        self._rival = self._rival or code == TAKEN_OVER
        ended = ShuttingDown if code == SHUTTING_DOWN else Known
        raise ended(f"it ended the connection: {words_of(code, told)}")

    def welcomed(self, welcome: Welcome) -> None:
        """Begin to work, or give up for now. Raises StreamLost for a refusal."""
        self._unanswered = 0
        if welcome.code == WRONG_VERSION:
            raise _WrongVersion(f"it refuses {self._dialect.name}: {words_of(welcome.code, welcome.told)}")
        if welcome.code >= REFUSED:
            raise Refusal(f"it refuses us: {words_of(welcome.code, welcome.told)}")
        now = self._mono_ns()
        self.reopened += self._connection > 0
        self._connection += 1
        self.is_up, self._up_since_ns, self._said_ns = True, now, now
        self._failures = 0
        self._addresses.clear()
        self._was_up = True
        self._keepalive_ns = (welcome.keepalive_s or self._target.keepalive_s) * NS
        self._broker_receives = min(welcome.receive_maximum, self._dialect.max_in_flight)
        self._broker_bytes = welcome.max_packet_bytes
        self._status = self._connected
        # A status that was on its way goes anew below, as it is now, and so does what is to be kept.
        anew = {id(sent) for sent in (self._announced, *self._keeping.values())}
        self._flights = {one: flight for one, flight in self._flights.items() if id(flight.sent) not in anew}
        self._unsent.extend(self._flights)
        self._has_session = welcome.has_session
        if welcome.has_session:
            for inbox in self._inboxes:
                inbox.shorten(self._target.receive_maximum)
        self._says_filters = welcome.says_filters
        for _ in range(min(len(self._unsent), self._broker_receives)):
            self._resend(self._unsent.popleft())
        self._granted.clear()
        self._refused_filters.clear()
        self._subscribe_ns = now
        self._announced = None
        self._greet_with()
        self._publish_announcement()
        self._keep_all()

    @property
    def _connected(self) -> str:
        return f"connected to {self._place}, {self._dialect.name}{self._instead}"

    def _resend(self, packet_id: int) -> None:
        topic, payload, retain, _ = self._flights[packet_id]
        self._dialect.publish_again(packet_id, topic, payload, retain=retain, again=self._has_session)

    def _publish_announcement(self) -> None:
        if self._announcement is not None and self._announced is None and self.is_up:
            try:
                payload = self._announcement()
                topic, retain = self._target.status_topic, self._target.keeps_status
                self._announced = self.publish(topic, payload, qos=1, retain=retain)
            except TooLarge as error:
                self._announced = Sent()
                self._announced.refusal = str(error)

    def _keep_all(self) -> None:
        self._unkept, self._keeping = deque(self._kept), {}
        self._keep_more()

    def _keep_more(self) -> None:
        """Publish what is to be kept, as far as the broker lets us."""
        while self._unkept and self.is_up:
            topic = self._unkept[0]
            try:
                sent = self.publish(topic, self._kept[topic], qos=1, retain=True)
            except TooLarge as error:
                sent = Sent()
                sent.refusal = str(error)
            if sent is None:
                return
            self._keeping[self._unkept.popleft()] = sent

    def _ask_for_filters(self) -> None:
        """Subscribe to what is not granted, when it is time; a broker may have forgotten us, or lost the answer."""
        if self._announced is None:
            self._publish_announcement()
        self._keep_more()
        if self._subscribe_ns is None or self._mono_ns() < self._subscribe_ns:
            return
        open_ = [one for inbox in self._inboxes for one in inbox.filters if one not in self._granted]
        self._subscribe_ns = self._mono_ns() + SUBSCRIBE_AGAIN_NS if open_ else None
        self._subscribing.clear()
        for one in dict.fromkeys(open_):
            # The most that any line wants of it; sources leave what they do not.
            lines = [inbox for inbox in self._inboxes if one in inbox.filters]
            qos, retained = max(inbox.qos for inbox in lines), any(inbox.retained for inbox in lines)
            number = _number(one) if self._says_filters else None
            self._subscribing[self._dialect.subscribe(one, qos=qos, retained=retained, number=number)] = one

    def granted(self, packet_id: int, code: int, told: str | None) -> None:
        """Note whether the broker has taken a filter."""
        pattern = self._subscribing.pop(packet_id, None)
        if pattern is None:
            return
        if code >= REFUSED:
            self._refused_filters[pattern] = words_of(code, told)
        else:
            self._granted.add(pattern)
            self._refused_filters.pop(pattern, None)
        self._wanted_by.clear()
        if not self._subscribing and not self._refused_filters:
            self._subscribe_ns = None

    def _keep_alive(self) -> None:
        if not self.is_up:
            return
        now = self._mono_ns()
        if now - self._up_since_ns >= SHORT_LIFE_NS:
            self._short_lives, self._rival = 0, False
        if now - self._heard_ns >= self._keepalive_ns * 3 // 2:
            raise StreamLost(f"nothing was heard of it for {(now - self._heard_ns) / NS:.1f} s")
        if not self._pinged and now - min(self._heard_ns, self._said_ns) >= self._keepalive_ns:
            self._pinged = True
            self._dialect.ping()

    def _part(self, code: int) -> None:
        """Say why we leave, if the system takes it."""
        if self._stream is not None and self._is_greeted:
            self._dialect.part(code)
            data = b"".join(self._out)
            self._out.clear()
            try:
                self._stream.send(data)
            except StreamLost:
                return

    def _lose(self, why: StreamLost) -> None:
        """Give the connection up and say when the next attempt is due."""
        now = self._mono_ns()
        refused = isinstance(why, Refusal)
        if self._is_greeted and not self.is_up and not refused:
            self._unanswered += 1
        # A broker that restarts again and again says so, or cannot be reached in between; a rival's always can.
        if isinstance(why, ShuttingDown):
            self._short_lives = 0
        elif self.is_up:
            self._short_lives = self._short_lives + 1 if now - self._up_since_ns < SHORT_LIFE_NS else 0
        elif not self._addresses:
            self._short_lives = 0
        is_hasty = self._short_lives >= SHORT_LIVES
        self._rival = self._rival or (is_hasty and not isinstance(why, Known))
        self._drop_stream()
        # A lookup without an answer goes on: a new one each time would heap up threads behind a name server that hangs.
        if self._addresses and not refused:
            self._retry_ns = now  # another address of the same host
        else:
            self._addresses.clear()
            longest = round(self._target.reconnect_max_s * NS)
            is_vain = self._rival or is_hasty
            longest = max(longest, RIVAL_WAIT_NS if is_vain else REFUSED_WAIT_NS if refused else 0)
            first = longest // 6 if is_vain else FIRST_WAIT_NS
            wait = min(first << min(self._failures, 16), longest)
            self._failures += 1
            self._retry_ns = now + round(wait * self._jitter())
        if isinstance(why, _WrongVersion) or (self._unanswered >= CLOSED_AT_ONCE and not self._was_up):
            self._speak_another(why)
        rival = f"another client uses this client id, {self._target.client_id!r}; " if self._rival else ""
        self._status = f"not connected: {rival}{self._place}: {why}; trying again"

    def _speak_another(self, why: StreamLost) -> None:
        """Go over to the next dialect, where there is one; whoever published in the old one has to do so again."""
        self._unanswered = 0
        if len(self._speaks) > 1:
            before = self._dialect.name
            self._speaks.rotate(-1)
            self._dialect = self._speaks[0](self._target, self)
            for flight in self._flights.values():
                flight.sent.refusal = f"it no longer speaks {before}"
            self._flights.clear()
            self._instead = f" (not {before}: {why})"

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self.is_up = self._is_greeted = self._pinged = self._leaves = False
        self._out.clear()
        self._unacked.clear()
        self._by_id.clear()
        self._unsent.clear()
        self._subscribing.clear()
        self._subscribe_ns = None
        self._forget_withdrawn()


class _WrongVersion(Refusal):
    """The broker does not speak this dialect."""


def _number(pattern: str) -> int:
    """By what a message says that it came of this filter: the same after a restart, and not that of another filter."""
    return crc32(pattern.encode()) % MAX_NUMBER + 1
