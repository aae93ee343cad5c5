"""The loop with a link: it reads before the lanes and sends behind them, and leaves only once it has heard, or waited."""

import time
from types import SimpleNamespace

from edge_runtime.links.broker_link import FAREWELL_NS
from edge_runtime.run import loop as module
from edge_runtime.run.loop import SETTLE_NS, Loop


class Lane:
    """A lane of one answer, which is on its way for ``turns`` turns after the stop."""

    done = False

    def __init__(self, log, turns):
        self.log, self._turns = log, turns

    @property
    def in_flight(self):
        return int(self._turns > 0)

    def start(self, _wake):
        self.log.append("start")

    def turn(self):
        self.log.append("turn")
        if "no more" in self.log:
            self._turns -= 1
        return False

    def tick(self):
        self.log.append("tick")

    def due_ns(self):
        return None

    def stop_taking(self):
        self.log.append("no more")

    def stop(self):
        self.log.append("stop")


def made(log, turns):
    """A loop that is told to stop at its first tick."""
    link = SimpleNamespace(
        socket=None, wants_write=False, due_ns=time.monotonic_ns,
        start=lambda _wake: log.append("link"), receive=lambda: log.append("receive"), send=lambda: log.append("send"),
    )  # fmt: skip

    def every_tick():
        loop.stop()

    loop = Loop((Lane(log, turns),), every_tick, time.monotonic_ns, link)
    return loop


def test_it_hears_what_becomes_of_its_answers_before_it_leaves():
    log = []
    loop = made(log, 3)
    loop.run()
    turn = ["receive", "turn", "send"]
    assert log == ["link", "start", *turn, "tick", "no more", *turn * 3, "stop", "send"]


def test_it_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(module, "SETTLE_NS", 50_000_000)
    log = []
    loop = made(log, 10**9)
    loop.run()
    assert log[-2:] == ["stop", "send"]


def test_without_lanes_it_turns_the_link_until_told():
    log = []
    link = SimpleNamespace(
        socket=None, wants_write=False, due_ns=lambda: None,
        start=lambda _wake: None, receive=lambda: log.append("receive"), send=lambda: None,
    )  # fmt: skip

    def every_tick():
        loop.stop()

    loop = Loop((), every_tick, time.monotonic_ns, link)
    loop.run()
    assert log


def test_a_stop_before_the_start_is_kept():
    log = []
    loop = made(log, 0)
    loop.stop()
    loop.run()
    assert "tick" not in log


def test_a_stop_takes_less_than_three_seconds_whatever_the_broker_does():
    """A broker that hangs is waited for twice: for the answers on their way, and for the farewell."""
    assert SETTLE_NS + FAREWELL_NS <= 2_500_000_000


def test_each_line_comes_first_in_its_turn():
    """Where a broker takes 20 answers at a time, whoever comes first takes the 20 places as they get free."""
    order = []

    class Named(Lane):
        def __init__(self, name):
            super().__init__([], 0)
            self.name = name

        def turn(self):
            order.append(self.name)
            if len(order) == 9:
                loop.stop()
            return True

    link = SimpleNamespace(
        socket=None, wants_write=False, due_ns=lambda: None,
        start=lambda _wake: None, receive=lambda: None, send=lambda: None,
    )  # fmt: skip
    loop = Loop([Named(name) for name in "abc"], lambda: None, time.monotonic_ns, link)
    loop.run()
    assert sorted(order[0:9:3]) == ["a", "b", "c"]
