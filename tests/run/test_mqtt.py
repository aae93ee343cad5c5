"""`run` between two topics of a real mosquitto: outages, retained and malformed messages, the status topic, the refusals."""

import json
import signal
import time
from pathlib import Path

import pytest

from edge_runtime.links.broker_link import READ_AHEAD_BYTES
from edge_runtime.run.lane import WAITING_ANSWERS
from tests.proof.mqtt_kills import BROKER
from tests.rig.broker import Broker, free_port
from tests.rig.bundles import DEWPOINT, FROST
from tests.rig.certificates import make_certificates
from tests.rig.mqtt_client import Client
from tests.rig.program import run_program, start_program

STATUS = "edge/pump-7/status"
OUT = "edge/pump-7/dew"
DEVICE = """schema = "edge-runtime/device/1"
state_dir = "state"
broker = {{ host = "127.0.0.1", port = {port}, device = "pump-7"{broker}{protocol} }}
[[line]]
name = "dew"
bundle = "{bundle}"
{line}
source = {{ kind = "mqtt", topics = ["in/+/reading"]{source} }}
framing = {{ max_bytes = 200 }}
decode = {{ format = "json", time = {{ field = "time", format = "unix_s" }} }}
sink = [{{ kind = "mqtt"{sink} }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""


def device(folder: Path, port: int, *, bundle=DEWPOINT, source="", sink="", broker="", protocol="", line="") -> None:
    protocol = f', protocol = "{protocol}"' if protocol else ""
    text = DEVICE.format(
        port=port, bundle=bundle, source=source, sink=sink, broker=broker, protocol=protocol, line=line
    )
    (folder / "device.toml").write_text(text)


def reading(second: int) -> bytes:
    return json.dumps({"time": 1_700_000_000 + second, "t": 20 + second % 7, "rh": 50, "p": 1000}).encode()


class Program:
    """The program serving ``folder``'s device file; leaving the block stops it in order."""

    def __init__(self, folder: Path) -> None:
        self.process = start_program("run", "--config", "device.toml", home=folder, cwd=folder)
        self.errors = b""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL if kind else signal.SIGTERM)
        _, self.errors = self.process.communicate(timeout=30)
        assert kind or self.process.returncode == 0, self.errors
        assert b"Traceback" not in self.errors


def online(client: Client):
    """The last status that somebody serves, or None."""
    told = [json.loads(one) for one in client.payloads(STATUS)]
    return told[-1] if told and told[-1]["status"] == "online" else None


def counts(folder: Path):
    (path,) = folder.glob("run/**/status.json")
    return json.loads(path.read_text())["lines"][0]["ledger"]


@pytest.fixture(params=["5", "3.1.1"])
def protocol(request):
    """Either version, named: each promise holds in both."""
    return request.param


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "mosquitto", BROKER) as made:
        yield made


def test_a_message_is_a_sample_and_an_answer_a_message(tmp_path, broker, protocol):
    device(
        tmp_path,
        broker.port,
        source=", stream_level = 2",
        sink=', retain = true, map = { dew = "/dew_point/value", stream = "/stream" }',
        protocol=protocol,
    )
    with Client(broker.port, OUT, STATUS) as client:
        with Program(tmp_path):
            client.until(lambda: online(client), "the first status")
            status = online(client)
            assert (status["state"], status["ready"], status["reason"]) == ("OPERATIONAL", True, "every check passed")
            assert status["selftest"] == [{"bundle": str(DEWPOINT), "passed": 21, "checks": 22, "failed": None}]
            client.publish("in/north/reading", reading(1) + b"\n")
            client.publish("in/south/reading", reading(0))
            client.until(lambda: len(client.payloads(OUT)) == 2, "the answers")
            assert [json.loads(one)["stream"] for one in client.payloads(OUT)] == ["north", "south"]
            assert not client.payloads(OUT)[0].endswith(b"\n")
        client.until(lambda: not online(client), "the farewell")
        assert json.loads(client.payloads(STATUS)[-1])["reason"] == "it was stopped"
    with Client(broker.port, OUT, STATUS, name="late") as late:
        late.until(lambda: len(late.messages) == 2, "what is retained")
        assert all(retained for *_, retained in late.messages)


def test_ten_thousand_bad_ones_and_a_good_one(tmp_path, broker, protocol):
    """influxdata/telegraf#13476: payloads that cannot be parsed fill the window of what is not acknowledged."""
    device(tmp_path, broker.port, protocol=protocol)
    bad = [
        b"",
        b"online",
        b"{",
        b'{"time": 1}',
        b"\xff\xfe",
        b"x" * 201,
        b"[1, 2]",
        b'{"time": 1, "t": "a"}',
        b"\n",
        b"nan",
    ]
    with Client(broker.port, OUT, STATUS) as client:
        with Program(tmp_path):
            client.until(lambda: online(client), "the first status")
            for number in range(10_000):
                last = client.publish_later("in/a/reading", bad[number % len(bad)])
            last.wait_for_publish(20)
            client.publish("in/a/reading", reading(0))
            client.until(lambda: client.payloads(OUT), "the answer")
        book = counts(tmp_path)
    assert book["adds_up"]
    samples = book["counts"]["samples"]
    # An empty message, and one that is only a line end, is no frame.
    assert samples["received"] == 8001
    assert samples["accepted"] == 1
    assert samples["rejected"]["too_long"] == 1000


def test_filters_that_overlap_bring_a_message_once(tmp_path, broker, protocol):
    """Two filters of a line, those of two lines, and one that the session has of an earlier configuration."""
    device(tmp_path, broker.port, protocol=protocol)
    text = (tmp_path / "device.toml").read_text().replace(', time = { field = "time", format = "unix_s" }', "")
    wide = text.replace('["in/+/reading"]', '["in/#", "in/north/+"]')
    _, one_line = text.split("[[line]]")
    second = one_line.replace('"dew"', '"second"').replace('{ kind = "mqtt" }', '{ kind = "mqtt", topic = "out2" }')
    with Client(broker.port, OUT, STATUS) as client:
        for content in (wide, text, f"{wide}[[line]]{second}"):
            (tmp_path / "device.toml").write_text(content)
            client.messages.clear()
            with Program(tmp_path):
                client.until(lambda: online(client), "the status")
                client.publish("in/north/reading", reading(0))
                client.until(lambda: client.payloads(OUT), "the answer")
            assert len(client.payloads(OUT)) == 1
    (path,) = tmp_path.glob("run/**/status.json")
    books = [line["ledger"]["counts"]["samples"] for line in json.loads(path.read_text())["lines"]]
    assert [book["received"] for book in books] == [1, 1]


@pytest.mark.parametrize(("policy", "answers"), [("refuse", 0), ("accept", 1)])
def test_what_the_broker_kept(tmp_path, broker, policy, answers, protocol):
    """influxdata/telegraf#10824, mr-manuel/venus-os_dbus-mqtt-grid#48: an old value taken for a new one at each start."""
    age = "max_age_s = 1e9" if policy == "accept" else ""
    device(tmp_path, broker.port, source=f', retained = "{policy}"', protocol=protocol, line=age)
    with Client(broker.port, OUT, STATUS) as client:
        client.publish("in/a/reading", reading(0), retain=True)
        for start in range(2):
            with Program(tmp_path):
                client.until(lambda: online(client), "the status")
                client.publish("in/b/reading", reading(10 + start))
                client.until(lambda start=start: len(client.payloads(OUT)) == 1 + start + answers, "the answer")
            client.until(lambda: not online(client), "the farewell")
        assert len(client.payloads(OUT)) == 2 + answers


@pytest.mark.parametrize("how", ["term", "kill"])
def test_an_outage_loses_nothing_that_was_taken(tmp_path, how, protocol):
    """The broker is stopped, or killed, with samples and answers on their way; ours all come, and the ledger is exact."""
    with Broker(tmp_path / "mosquitto", BROKER + "autosave_interval 1\nautosave_on_changes true\n") as broker:
        device(tmp_path, broker.port, protocol=protocol)
        with Client(broker.port, OUT, STATUS) as client:

            def seen():
                return {json.loads(one)["id"] for one in client.payloads(OUT)}

            with Program(tmp_path) as program:
                client.until(lambda: online(client), "the first status")
                for turn in range(5):
                    # All at once, so that the end of the broker comes in the middle of it.
                    program.process.send_signal(signal.SIGSTOP)
                    for number in range(40):
                        client.publish("in/a/reading", reading(turn * 40 + number))
                    program.process.send_signal(signal.SIGCONT)
                    time.sleep(turn * 0.002)
                    getattr(broker, how)()
                    time.sleep(0.3)
                    assert program.process.poll() is None
                    told = len(client.payloads(STATUS))
                    broker.start()
                    client.until(lambda told=told: len(client.payloads(STATUS)) > told, f"status {turn}", 5)
                client.publish("in/a/reading", reading(1000))
                client.until(lambda: b"22:30:00" in client.payloads(OUT)[-1], "the last answer")
                if how == "term":
                    client.until(lambda: len(seen()) == 201, "every answer")
            book = counts(tmp_path)
            assert book["adds_up"]
            given = book["counts"]["answers"]
            assert given["published"] == given["due"] == book["counts"]["samples"]["accepted"]
            # What a broker had not saved when it was killed is lost by it, whatever it had confirmed.
            assert given["due"] == 201 if how == "term" else 150 < given["due"] <= 201


TLS = """listener {{port}} 127.0.0.1
listener {secure} 127.0.0.1
cafile {keys}/ca.pem
certfile {keys}/used.pem
keyfile {keys}/server.key
"""


def test_a_certificate_that_runs_out_costs_nothing_once_it_is_renewed(tmp_path, protocol):
    """Meanwhile the status says what is wrong, samples wait at the broker, and the line goes on serving."""
    keys, secure = make_certificates(tmp_path / "keys"), free_port()

    def use(name):
        (keys / "used.pem").write_bytes((keys / f"{name}.pem").read_bytes())

    def told():
        return next(tmp_path.glob("run/**/status.json")).read_text()

    use("server")
    tls = f', tls = {{ ca = "{keys}/ca.pem", server_name = "localhost" }}'
    with Broker(tmp_path / "mosquitto", BROKER + TLS.format(secure=secure, keys=keys)) as broker:
        device(tmp_path, secure, broker=tls, protocol=protocol)
        with Client(broker.port, OUT, STATUS) as client:
            with Program(tmp_path):
                client.until(lambda: online(client), "the first status")
                client.publish("in/a/reading", reading(0))
                client.until(lambda: client.payloads(OUT), "the first answer")
                broker.term()
                use("old")
                broker.start()
                client.until(lambda: "is the clock of this machine right?" in told(), "a word about it")
                client.until(lambda: client.is_connected, "the client's own connection")
                for second in range(1, 101):
                    client.publish("in/a/reading", reading(second))
                assert len(client.payloads(OUT)) == 1
                broker.term()
                use("server")
                broker.start()
                client.until(lambda: len(client.payloads(OUT)) >= 101, "the other answers", 40)
            book = counts(tmp_path)
    assert book["adds_up"]
    assert book["counts"]["answers"]["published"] == book["counts"]["samples"]["accepted"] == 101
    assert len({json.loads(one)["id"] for one in client.payloads(OUT)}) == 101


@pytest.mark.long
def test_a_queue_longer_than_there_is_room_for_is_answered_to_its_end(tmp_path, broker, protocol):
    """mosquitto sends all of it at once, and what confirms our answers behind it."""
    device(tmp_path, broker.port, protocol=protocol)
    text = (tmp_path / "device.toml").read_text().replace("max_bytes = 200", "max_bytes = 4096")
    (tmp_path / "device.toml").write_text(text)
    count = WAITING_ANSWERS + READ_AHEAD_BYTES // 3000 + 1000
    padding = b', "more": "%b"}' % (b"x" * 3000)
    with Client(broker.port, OUT, STATUS) as client:
        with Program(tmp_path):
            client.until(lambda: online(client), "the first status")
        for second in range(count):
            last = client.publish_later("in/a/reading", reading(second)[:-1] + padding)
        last.wait_for_publish(60)
        with Program(tmp_path):
            client.until(lambda: len(client.payloads(OUT)) >= count, "all answers", 60)
        book = counts(tmp_path)
    assert book["adds_up"]
    assert book["counts"]["answers"]["published"] == book["counts"]["samples"]["accepted"] == count
    assert len({json.loads(one)["id"] for one in client.payloads(OUT)}) == count


def test_without_a_broker_it_boots_and_connects_when_one_comes(tmp_path, protocol):
    port = free_port()
    device(tmp_path, port, protocol=protocol)
    with Program(tmp_path):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and "Connection refused" not in "".join(
            one.read_text() for one in tmp_path.glob("run/**/status.json")
        ):
            time.sleep(0.05)
        (path,) = tmp_path.glob("run/**/status.json")
        told = json.loads(path.read_text())
        assert (told["ready"], told["fresh"]) == (True, False)
        assert told["reason"].startswith(f"broker 127.0.0.1:{port}: not connected: ")
        with Broker(tmp_path / "mosquitto", BROKER, port=port) as broker, Client(broker.port, OUT, STATUS) as client:
            client.until(lambda: online(client), "the status", 5)
            client.publish("in/a/reading", reading(0))
            client.until(lambda: client.payloads(OUT), "the answer")


def test_a_refused_bundle_is_told_to_the_broker(tmp_path, broker, protocol):
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for file in FROST.iterdir():
        (bundle / file.name).write_bytes(file.read_bytes())
    (bundle / "golden.npz").write_bytes(b"another file")
    device(tmp_path, broker.port, bundle=bundle, protocol=protocol)
    with Client(broker.port, STATUS) as client:
        with Program(tmp_path):
            client.until(lambda: online(client), "the status")
            told = online(client)
            assert (told["state"], told["ready"], told["lines"]) == ("ERROR", False, [])
            assert "golden.npz" in told["reason"]
            assert told["selftest"][0]["failed"]
        client.until(lambda: not online(client), "the farewell")


def test_a_killed_process_is_told_by_the_will(tmp_path, broker, protocol):
    """blakeblackshear/frigate#7833: can `available` be trusted after a crash?"""
    device(tmp_path, broker.port, protocol=protocol)
    with Client(broker.port, STATUS) as client, Program(tmp_path) as program:
        client.until(lambda: online(client), "the status")
        program.process.kill()
        client.until(lambda: not online(client), "the will", 3)
        assert json.loads(client.payloads(STATUS)[-1])["reason"] == "the connection was lost"
        program.process.wait()
        program.process.returncode = 0


REFUSALS = {
    "no password": (
        {"broker": ', user = "u", password_env = "NOT_SET_ANYWHERE"'},
        "broker.password_env: found no environment variable NOT_SET_ANYWHERE; expected the password in it",
    ),
    "no such file": (
        {"broker": ', user = "u", password_file = "none"'},
        "broker.password_file: found {folder}/none: No such file or directory; expected a file this user can read",
    ),
    "a password in the file": (
        {"broker": ', user = "u", password = "hunter2"'},
        "broker.password: found an unknown key; expected password_env",
    ),
    "a circle": (
        {"sink": ', topic = "in/x/reading"'},
        "line dew, sink mqtt in/x/reading: found topic 'in/x/reading', which source topic 'in/+/reading' of line dew takes",
    ),
    "a circle of the status": (
        {"broker": ', status_topic = "in/x/reading"'},
        "broker.status_topic: found topic 'in/x/reading', which source topic 'in/+/reading' of line dew takes; expected",
    ),
    "answers over the status": (
        {"sink": ', topic = "edge/pump-7/status"'},
        "line dew, sink mqtt edge/pump-7/status: found topic 'edge/pump-7/status', where the status stands; expected",
    ),
    "a name that no certificate has": (
        {"broker": ', tls = { server_name = ".example" }'},
        "broker.tls.server_name, or broker.host: found '.example': ",
    ),
    "no certificate": (
        {"broker": ', tls = { ca = "none.pem" }'},
        "broker.tls.ca: found {folder}/none.pem: No such file or directory; expected a PEM file of certificates",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_before_anything_is_opened(tmp_path, name):
    change, words = REFUSALS[name]
    device(tmp_path, 1, **change)
    done = run_program("run", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert done.returncode == 78
    assert words.format(folder=tmp_path) in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr


def test_doctor_tells_the_streams_where_the_broker_is_away_too(tmp_path):
    device(tmp_path, 1, source=", stream_level = 2")
    done = run_program("doctor", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert "source of line dew: not checked: needs the broker" in done.stdout
    assert "streams of line dew: at most 1024" in done.stdout
