"""A link to a broker turned by hand until something has happened, for a look at what is retained there; it answers nothing."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from edge_runtime.links.mqtt_port import Inbox, Message
from edge_runtime.run.waker import Waker

if TYPE_CHECKING:
    from edge_runtime.links.broker_link import BrokerLink

FAILING_NS: Final = 3_000_000_000
"""How long after a first failure it is tried on: a broker that speaks another version is found by then."""
SHOWN: Final = 3


class LinkTurns:
    """A link turned until something has happened; what comes is acknowledged at once, and what is retained is counted.

    ``kept`` holds the first few of each inbox by topic, ``more`` how many others came: a broker may retain any number.
    """

    def __init__(self, link: "BrokerLink", wake: Waker, inboxes: list[Inbox]) -> None:
        self.wake = wake
        self.kept: list[dict[str, Message]] = [{} for _ in inboxes]
        self.more = [0 for _ in inboxes]
        self._link = link
        self._inboxes = inboxes
        self._heard_ns = time.monotonic_ns()
        self._failed_ns: int | None = None

    @property
    def is_failing(self) -> bool:
        """Whether it has not come up for a while after it first failed."""
        if self._failed_ns is None and self._link.status().startswith("not connected"):
            self._failed_ns = time.monotonic_ns()
        return self._failed_ns is not None and time.monotonic_ns() - self._failed_ns >= FAILING_NS

    @property
    def quiet_ns(self) -> int:
        """Since when nothing retained has come."""
        return time.monotonic_ns() - self._heard_ns

    def until(self, happened: Callable[[], bool], limit_ns: int) -> None:
        """Turn until it has, ``limit_ns`` at most."""
        link, deadline_ns = self._link, time.monotonic_ns() + limit_ns
        while not happened() and (now_ns := time.monotonic_ns()) < deadline_ns:
            self.wake.clear()
            link.receive()
            self._take()
            link.send()
            due_ns = link.due_ns()
            wait_ns = min(50_000_000, deadline_ns - now_ns, max(0, (due_ns or deadline_ns) - now_ns))
            if not happened():
                self.wake.wait(wait_ns / 1e9, (link,))

    def _take(self) -> None:
        for at, (inbox, kept) in enumerate(zip(self._inboxes, self.kept, strict=True)):
            while len(inbox):
                message = inbox.take()
                self._link.acknowledge(message)
                if message.retained:
                    if len(kept) < SHOWN or message.topic in kept:
                        kept[message.topic] = message
                    else:
                        self.more[at] += 1
                    self._heard_ns = time.monotonic_ns()
