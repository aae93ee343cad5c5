"""The bell of the loop: rung from threads and by sockets, never missed, and silent where nobody sleeps."""

import os
import signal
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from edge_runtime.run.waker import Waker

LONG_S = 20.0


@pytest.fixture(params=[None, "win32"])
def waker(request, monkeypatch):
    if request.param:
        monkeypatch.setattr("edge_runtime.run.waker.sys", SimpleNamespace(platform=request.param))
    with Waker() as made:
        yield made


def took(wait):
    begun = time.monotonic()
    wait()
    return time.monotonic() - begun


def test_set_before_is_not_missed_and_set_again_neither(waker):
    for _ in range(3):
        waker.set()
        assert took(lambda: waker.wait(LONG_S)) < LONG_S / 2
        waker.clear()


def test_a_thread_rings_whoever_sleeps(waker):
    for _ in range(200):
        waker.clear()
        thread = threading.Thread(target=waker.set)
        thread.start()
        assert took(lambda: waker.wait(LONG_S)) < LONG_S / 2
        thread.join()


def test_a_signal_rings_too(waker):
    before = signal.signal(signal.SIGUSR1, lambda *_: waker.set())
    try:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        assert took(lambda: waker.wait(LONG_S)) < LONG_S / 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_nobody_asleep_costs_no_byte(waker):
    for _ in range(100_000):
        waker.set()
    with pytest.raises(BlockingIOError):
        waker._bell.hear()


def test_it_ends_after_its_time(waker):
    assert took(lambda: waker.wait(0.01)) < LONG_S / 2


def test_a_socket_wakes_and_its_successor_too(waker):
    """Also where the system gives the next socket the number of the last."""
    link = SimpleNamespace(socket=None, wants_write=False)
    waker.wait(0, (link,))
    for _ in range(3):
        ours, theirs = socket.socketpair()
        link.socket = ours
        waker.wait(0, (link,))
        theirs.send(b"x")
        assert took(lambda: waker.wait(LONG_S, (link,))) < LONG_S / 2
        assert ours.recv(1) == b"x"
        link.wants_write = True
        assert took(lambda: waker.wait(LONG_S, (link,))) < LONG_S / 2
        link.wants_write = False
        assert took(lambda: waker.wait(0.01, (link,))) >= 0.005
        ours.close()
        theirs.close()
    link.socket = None
    waker.wait(0, (link,))


def test_after_the_end_a_bell_is_harmless():
    waker = Waker()
    waker.close()
    waker._asleep = True
    waker.set()
