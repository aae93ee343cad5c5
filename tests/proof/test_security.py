"""What a device leaves to other users and to the network: who may write its files, where a password shows, who is listened to."""

import ast
import re
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import mqtt5
import pytest

from edge_runtime.commands import COMMANDS
from tests.proof.station import FROST, ROOT, STATION, device_file, environment, program
from tests.rig.fake_broker import FakeBroker

SECRET = "correct-horse-battery-staple"  # noqa: S105 -- to be looked for
SINKS = ('{ kind = "jsonl", path = "out/answers.jsonl" }',)
_LISTENING = {"bind", "listen", "create_server", "serve_forever", "start_server", "HTTPServer", "ThreadingHTTPServer"}
EXTRA = "capture = { every = 1, max_bytes = 1000000 }"


def _call(folder: Path, *words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        program(*words), cwd=folder, env=environment(folder), input=stdin, capture_output=True, check=False,
        timeout=120, umask=0,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stderr.decode())
    return done


def _modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in sorted(folder.rglob("*"))}


@pytest.fixture(scope="module")
def at_work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a device has served, and its tools have written, all with a umask of 0."""
    tmp_path = tmp_path_factory.mktemp("work")
    config = device_file(tmp_path, source='{ kind = "stdin" }', sinks=SINKS, journal='enabled = "on"', extra=EXTRA)
    _call(tmp_path, "run", "--config", config, stdin=STATION.read_bytes() + b"2026-01-01T00:00:00Z,x,x,x,x,x\n")
    _call(tmp_path, "selftest", "--config", config, "--json", "r.json", "--junit", "r.xml", "--textfile", "r.prom")
    _call(tmp_path, "record", "--config", config, "--out", "frost.rec", stdin=STATION.read_bytes())
    _call(tmp_path, "replay", "frost.rec", "--config", config, "--out", "replayed.jsonl")
    _call(tmp_path, "keygen", "--out", "mine")
    shutil.copytree(FROST, tmp_path / "bundle")
    _call(tmp_path, "sign", "bundle", "--key", "mine.key")
    return tmp_path


def test_nobody_else_may_write_what_was_written_with_a_umask_of_0(at_work: Path) -> None:
    modes = _modes(at_work)
    written = {
        "out", "out/answers.jsonl", "state", "state/boot.json", "state/frost.journal", "state/frost.refused.jsonl",
        "state/frost.capture.jsonl", "r.json", "r.xml", "r.prom", "frost.rec", "replayed.jsonl", "mine.pub",
        "bundle/model.sig", "bundle/SHA256SUMS",
    }  # fmt: skip
    assert written <= set(modes)
    others = (name for name in modes if not name.startswith(("home", "runtime")))
    assert [name for name in others if modes[name] & stat.S_IWOTH] == []


def test_who_may_read_what_holds_measurements_or_keys(at_work: Path) -> None:
    modes = _modes(at_work)
    assert modes["mine.key"] == 0o600
    assert modes["state"] == 0o750
    assert modes["state/frost.refused.jsonl"] == modes["state/frost.capture.jsonl"] == 0o640


class Serving:
    """`run` of one line between topics, with a password for its broker; in a ``with`` block, which ends it."""

    def __init__(self, folder: Path, port: int, password: str, **more: str) -> None:
        self.folder = folder
        self.config = device_file(
            folder, source='{ kind = "mqtt", topics = ["in"] }', sinks=('{ kind = "mqtt", topic = "out" }',),
        )  # fmt: skip
        text = self.config.read_text().replace('format = "csv", columns = "header", ', 'format = "json", ')
        broker = f'[broker]\nhost = "127.0.0.1"\nport = {port}\nuser = "anna"\n{password}\n'
        self.config.write_text(text.replace("[[line]]", f"{broker}[[line]]", 1))
        with (folder / "said").open("wb") as said, (folder / "told").open("wb") as told:
            self.process = subprocess.Popen(
                program("run", "--config", self.config), cwd=folder, env=environment(folder) | more,
                stdout=said, stderr=told,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def _connect_packet(broker: FakeBroker) -> mqtt5.ConnectPacket:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for packet in broker.read():
            if isinstance(packet, mqtt5.ConnectPacket):
                return packet
        select.select([], [], [], 0.01)
    pytest.fail("no CONNECT came")


def _told(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All that the program wrote or said, but what the test itself made."""
    own = {"device.toml", "password"}
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in own:
            yield str(path), path.read_bytes()


@pytest.mark.parametrize("way", ["file", "environment"])
def test_a_password_stands_in_no_output_file_or_command_line(way: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET)
    line, more = {"file": ('password_file = "password"', {}), "environment": ('password_env = "PW"', {"PW": SECRET})}[
        way
    ]
    with FakeBroker() as broker, Serving(tmp_path, broker.port, line, **more) as serving:
        broker.accept()
        assert _connect_packet(broker).password == SECRET.encode()
        listed = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(serving.process.pid)], capture_output=True, check=True
        )
        broker.send(mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode.NOT_AUTHORIZED, reason_str="not you"))
        broker.hang_up()
        asked = [
            subprocess.run(program(*words, "--config", serving.config), cwd=tmp_path, env=environment(tmp_path) | more,
                           capture_output=True, check=False)
            for words in (["status"], ["config", "show"], ["config", "show", "--resolved"], ["doctor"], ["selftest"])
        ]  # fmt: skip
    assert b"edge_runtime run" in listed.stdout
    said = dict(_told(tmp_path)) | {"ps": listed.stdout}
    said |= {str(one.args): one.stdout + one.stderr for one in asked}
    assert any(name.endswith("status.json") for name in said)
    assert [name for name, data in said.items() if SECRET.encode() in data] == []


def test_no_flag_takes_a_secret_itself() -> None:
    """A command line is for every user to see, so each names a file, or nothing."""
    about = [flag for one in COMMANDS for flag in one.flags if re.search("key|password|secret|token", flag.name)]
    assert {flag.name: flag.metavar for flag in about} == {
        "--password-file": "FILE", "--key": "FILE", "--keys": "DIR",
    }  # fmt: skip


def test_nothing_listens_but_the_demonstration_on_this_machine_alone() -> None:
    """What makes a listening socket, in all of the program; mqtt5 has none, and paho's client opens none itself."""
    found = {}
    for path in sorted((ROOT / "edge_runtime").rglob("*.py")):
        calls = [one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.Call)]
        names = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr in _LISTENING]
        if names:
            found[path.relative_to(ROOT).as_posix()] = [ast.unparse(one) for one in names]
    assert found == {"edge_runtime/run/station.py": ["socket.create_server(('127.0.0.1', 0))"]}


def test_a_device_on_a_broker_listens_to_nobody(tmp_path: Path) -> None:
    """The kernel's own list of listening sockets holds none of the process, which has a connection."""
    (tmp_path / "password").write_text(SECRET)
    with FakeBroker() as broker, Serving(tmp_path, broker.port, 'password_file = "password"') as serving:
        broker.accept()
        _connect_packet(broker)
        mine = {str(one.readlink()) for one in Path(f"/proc/{serving.process.pid}/fd").iterdir()}
        assert any(one.startswith("socket:[") for one in mine)
        listening = [
            f"socket:[{words[9]}]"
            for kind in ("tcp", "tcp6", "udp", "udp6")
            for words in map(str.split, Path(f"/proc/{serving.process.pid}/net/{kind}").read_text().splitlines()[1:])
            if words[3] in ("0A", "07")  # LISTEN, and a UDP socket that is bound
        ]
        assert mine.isdisjoint(listening)
