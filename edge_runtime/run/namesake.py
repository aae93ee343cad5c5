"""Whether another process speaks on our status topic, by what stands there before we do; it publishes and keeps nothing."""

import hashlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json

from edge_runtime.flow.quoting import quote
from edge_runtime.run.broker import default_client_id, device_name, open_onlooker
from edge_runtime.run.config import LoadedConfig
from edge_runtime.run.link_turns import LinkTurns
from edge_runtime.run.waker import Waker
from edge_runtime.spec.broker import BrokerConfig
from edge_runtime.spec.topic import filled

if TYPE_CHECKING:
    from edge_runtime.links.broker_link import BrokerLink

STEP_NS: Final = 300_000_000
"""How long a look may wait for the broker's welcome, and again for its answer to the subscription."""
QUIET_NS: Final = 50_000_000
"""What is retained comes right behind that answer."""
TODO: Final = "give each a broker.device of its own, unless that one has ended while the broker was down"


def sender(broker: BrokerConfig, state: Path) -> dict[str, str]:
    """What a status says of its sender: ``instance`` is the same at every start, and no two live processes have one.

    It is made of the client id, of which a broker has one connection at a time, and does not tell it.
    """
    client_id = broker.client_id or default_client_id(state)
    return {"instance": hashlib.sha256(client_id.encode()).hexdigest()[:12], "host": socket.gethostname()}


def find_namesake(loaded: LoadedConfig, state: Path, step_ns: int = STEP_NS) -> str:
    """Who else says on the status topic that it is online, in a sentence; empty where nobody is seen. See ``TODO``.

    By a connection of its own, which ends at once: a subscription beside the others may be one that a broker ends a
    connection for. To be asked before our own status stands there. One that ended while its broker was down may be told
    once: from then on ours stands in its place.
    """
    broker = loaded.config.broker
    if broker is None:
        return ""
    payload = _standing(open_onlooker(loaded, broker), filled(broker.status_topic, device=device_name(broker)), step_ns)
    other = _other(payload, sender(broker, state)["instance"])
    if not other:
        return ""
    name = quote(device_name(broker))
    return f"{other} is online as device {name} too: whichever of the two ends first says offline for both"


def _standing(link: "BrokerLink", topic: str, step_ns: int) -> bytes:
    """What is retained there; nothing where that was not seen in time."""
    inbox = link.subscribe((topic,), qos=0, retained=True)
    with Waker() as wake:
        turns = LinkTurns(link, wake, [inbox])
        try:
            link.start(wake.set)
            turns.until(lambda: link.is_up or link.status().startswith("not connected"), step_ns)
            if link.is_up:
                turns.until(lambda: topic in link.answers, step_ns)
                turns.until(lambda: bool(turns.kept[0]), QUIET_NS)
        finally:
            link.close(None)
    return next((one.payload for one in turns.kept[0].values()), b"")


def _other(payload: bytes, own: str) -> str:
    try:
        told = from_json(payload)
    except ValueError:
        return ""
    if not isinstance(told, Mapping) or told.get("status") != "online" or told.get("instance") in {None, own}:
        return ""
    return f"process {quote(told.get('pid'))} on host {quote(told.get('host'))}"
