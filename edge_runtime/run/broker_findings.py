"""What `doctor` learns of the broker by connecting beside the serving client; it publishes nothing and takes over nothing."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.quoting import quote
from edge_runtime.links.mqtt_port import Inbox, Message
from edge_runtime.run.broker import open_onlooker, with_topics
from edge_runtime.run.config import LoadedConfig, state_folder
from edge_runtime.run.findings import Finding
from edge_runtime.run.link_turns import LinkTurns
from edge_runtime.run.namesake import TODO, find_namesake
from edge_runtime.run.waker import Waker
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.reading import Pack, Reading
from edge_runtime.spec.source import MqttSource

if TYPE_CHECKING:
    from edge_runtime.flow.decoder import Decoder
    from edge_runtime.links.broker_link import BrokerLink

CONNECT_NS: Final = 12_000_000_000
"""How long a broker may take to say welcome, every version of MQTT tried."""
GRANT_NS: Final = 5_000_000_000
QUIET_NS: Final = 500_000_000
"""What is retained comes at once; after so long without more of it the rest is live."""
LISTEN_NS: Final = 3_000_000_000
CERTIFICATE_DAYS: Final = 14
_NS_DAY: Final = 86_400_000_000_000
_UNITS: Final = ((_NS_DAY, "d"), (3_600_000_000_000, "h"), (60_000_000_000, "min"), (1_000_000_000, "s"))


class BrokerLook(NamedTuple):
    """What was found of the broker itself, and of each line's topics by the line's name."""

    findings: list[Finding]
    sources: dict[str, Finding]


class _Line(NamedTuple):
    config: LineConfig
    source: MqttSource
    inbox: Inbox


def look(loaded: LoadedConfig) -> BrokerLook:
    """Connect, subscribe to what the lines read, listen for a moment to what is retained, and part."""
    broker = loaded.config.broker
    if broker is None:
        return BrokerLook([], {})
    try:
        link = open_onlooker(loaded, broker)
    except EdgeRuntimeError as error:
        text = f"{error.subject}: found {error.found}; expected {error.expected}"
        return BrokerLook([Finding("broker", "fail", text, error.todo)], {})
    lines = []
    for line in loaded.config.line:
        source = with_topics(line, broker).source
        if isinstance(source, MqttSource):
            lines.append(_Line(line, source, link.subscribe(source.topics, qos=source.qos, retained=True)))
    with Waker() as wake:
        turning = LinkTurns(link, wake, [one.inbox for one in lines])
        try:
            found = _looked(link, turning, lines)
        finally:
            link.close(None)
    if found.findings[0].status == "ok":
        found.findings.extend(_namesake(loaded))
    return found


def _looked(link: "BrokerLink", turning: LinkTurns, lines: list[_Line]) -> BrokerLook:
    link.start(turning.wake.set)
    turning.until(lambda: link.is_up or turning.is_failing, CONNECT_NS)
    if not link.is_up:
        text = link.status().removesuffix("; trying again")
        unknown = Finding("", "skipped", "not checked: needs the broker")
        sources = {one.config.name: unknown._replace(subject=_subject(one)) for one in lines}
        return BrokerLook([Finding("broker", "fail", text, "see docs/mqtt.md, what the status says")], sources)
    found = [Finding("broker", "ok", link.status()), *_certificate(link)]
    wanted = {pattern for one in lines for pattern in one.source.topics}
    if wanted:
        begun_ns = time.monotonic_ns()
        turning.until(lambda: link.is_up and bool(link.answers), GRANT_NS)
        took_ms = (time.monotonic_ns() - begun_ns) / 1e6
        if link.answers:
            found[0] = found[0]._replace(text=f"{found[0].text}; it answered a subscription in {took_ms:.0f} ms")
        turning.until(lambda: link.is_up and wanted <= link.answers.keys(), GRANT_NS)
    answers = dict(link.answers)
    turning.until(lambda: turning.quiet_ns >= QUIET_NS, LISTEN_NS if lines else 0)
    now_ns = time.time_ns()
    return BrokerLook(
        found,
        {
            one.config.name: _source(one, answers, _kept_words(one, turning.kept[at], turning.more[at], now_ns))
            for at, one in enumerate(lines)
        },
    )


def _namesake(loaded: LoadedConfig) -> list[Finding]:
    """Another process of this device's name, which is told only if it is seen: an ACL may hide it."""
    try:
        found = find_namesake(loaded, state_folder(loaded), GRANT_NS)
    except EdgeRuntimeError:
        return []  # told where the state folder is
    return [Finding("device name", "warn", found, TODO)] if found else []


def _certificate(link: "BrokerLink") -> list[Finding]:
    """Until when the broker's certificate is good, where there is one."""
    told = getattr(link.socket, "getpeercert", None)
    if told is None:
        return []
    import ssl  # noqa: PLC0415 -- for those who encrypt

    ends = str(told()["notAfter"])
    left_s = ssl.cert_time_to_seconds(ends) - time.time()
    text = f"good until {ends}"
    if left_s < CERTIFICATE_DAYS * 86_400:
        text += f", {left_s / 86_400:.1f} days from now"
        return [Finding("broker's certificate", "warn", text, "have it renewed: with it ends every connection")]
    return [Finding("broker's certificate", "ok", text)]


def _subject(line: _Line) -> str:
    return f"source of line {line.config.name}"


def _source(line: _Line, answers: dict[str, str], kept: str) -> Finding:
    refused = [f"{pattern!r}: {answers[pattern]}" for pattern in line.source.topics if answers.get(pattern)]
    if refused:
        todo = "give this user the right to read it, at the broker"
        return Finding(_subject(line), "fail", f"the broker refuses topic filter {'; '.join(refused)}", todo)
    silent = [pattern for pattern in line.source.topics if pattern not in answers]
    if silent:
        text = f"the broker did not answer a subscription to {', '.join(map(repr, silent))}"
        return Finding(_subject(line), "warn", text, "run doctor again")
    topics = ", ".join(map(repr, line.source.topics))
    return Finding(_subject(line), "ok", f"topics {topics} granted; {kept}")


def _kept_words(line: _Line, kept: dict[str, Message], others: int, now_ns: int) -> str:
    if not kept:
        return "nothing retained waits there"
    age_ns = _ages(line.config, now_ns)
    told = [f"{quote(topic)} ({age_ns(one)})" for topic, one in kept.items()]
    more = f" and {others} more" if others else ""
    use = "taken once a session" if line.source.retained == "accept" else "which run does not take"
    return f"{len(kept) + others} retained: {', '.join(told)}{more}, {use}"


def _ages(line: LineConfig, now_ns: int) -> Callable[[Message], str]:
    """What tells of a message how old its own time is; MQTT itself has none."""
    decoder: Decoder | None = None
    with suppress(EdgeRuntimeError):  # told where the channels are
        decoder = make_decoder(
            line.decode, {name: one for name, one in line.channels.items() if one.folder is None}, {}
        )
    if decoder is None:
        return lambda _: "age unknown"
    return lambda message: _age(decoder, message, now_ns)


def _age(decoder: "Decoder", message: Message, now_ns: int) -> str:
    item = decoder.decode(message.payload.rstrip(b"\r\n"))
    if isinstance(item, Pack):
        item = next(iter(item.at(now_ns)), None)
    if not isinstance(item, Reading) or item.time_ns is None:
        return "without a time"
    age_ns = now_ns - item.time_ns
    if age_ns < 0:
        return "of a time to come"
    size, unit = next((one for one in _UNITS if age_ns >= one[0]), _UNITS[-1])
    return f"{age_ns // size} {unit} old"
