import socket

import pytest

from edge_runtime.status.notify import ServiceNotice


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    """A socket as systemd holds it, and the address it puts into the environment."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@edge-runtime-{tmp_path.name}-{id(tmp_path)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0", 1) if request.param == "abstract" else address)
        listening.settimeout(5)
        yield listening, address


def test_says_what_systemd_expects(systemd):
    listening, address = systemd
    notice = ServiceNotice({"NOTIFY_SOCKET": address}, 1)
    notice.ready("OPERATIONAL: all\nchecks passed")
    notice.status("quiet")
    notice.watchdog()
    notice.stopping()
    assert [listening.recv(1000) for _ in range(4)] == [
        b"READY=1\nSTATUS=OPERATIONAL: all checks passed",
        b"STATUS=quiet",
        b"WATCHDOG=1",
        b"STOPPING=1",
    ]
    notice.close()
    notice.close()
    notice.watchdog()


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:1", "/no/such/socket"])
def test_nobody_listening_is_no_failure(address):
    notice = ServiceNotice({"NOTIFY_SOCKET": address} if address else {}, 1)
    notice.ready("x")
    notice.watchdog()
    notice.close()


def test_a_listener_that_does_not_read_never_blocks_the_loop(systemd):
    _, address = systemd
    notice = ServiceNotice({"NOTIFY_SOCKET": address}, 1)
    for _ in range(5000):
        notice.watchdog()
    notice.close()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "42"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_at_half_its_time(environment, expected):
    assert ServiceNotice(environment, 42).watchdog_s == expected


def test_takes_its_own_environment(systemd, monkeypatch):
    listening, address = systemd
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notice = ServiceNotice.of_this_process()
    notice.status("here")
    assert listening.recv(1000) == b"STATUS=here"
    notice.close()
