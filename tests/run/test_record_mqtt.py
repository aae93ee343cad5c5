"""`record` beside `run` at a real mosquitto, and `replay` of what it wrote: the same answers, message for message."""

import json
import signal
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge_runtime.flow.recording import MESSAGES_MAGIC, Record, RecordingReader, encode_message
from tests.rig.broker import Broker
from tests.rig.bundles import FROST
from tests.rig.mqtt_client import Client
from tests.rig.program import run_program, start_program
from tests.run.test_mqtt import OUT, STATUS, Program, counts, device, online, reading

PATIENCE_S = 30
HOUR = 3600


@pytest.fixture(params=["5", "3.1.1"])
def protocol(request):
    return request.param


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "mosquitto") as made:
        yield made


def recorded(path: Path) -> list[Record]:
    return RecordingReader().feed(path.read_bytes())


class Recording:
    """`record` of ``folder``'s device file into a.rec; leaving the block stops it in order."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.file = folder / "a.rec"
        self.process = start_program(
            "record", "--config", "device.toml", "--out", "a.rec", *words, home=folder, cwd=folder
        )

    def __enter__(self):
        assert self.process.stderr is not None
        while b": connected to " not in (line := self.process.stderr.readline()):
            assert line, "it ended without a connection"
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGKILL if kind else signal.SIGTERM)
        _, self.errors = self.process.communicate(timeout=PATIENCE_S)
        assert kind or self.process.returncode == 0, self.errors


def told(answers: list[bytes]) -> list[dict[str, object]]:
    """What does not belong to one run alone, or to the clock of this machine."""
    parts = [{key: value for key, value in json.loads(one).items() if key not in {"run", "age_s"}} for one in answers]
    return [one | {"flags": [flag for flag in one["flags"] if flag != "clock_unsynced"]} for one in parts]


def test_a_replay_answers_as_the_live_run_did(tmp_path, broker, protocol):
    device(tmp_path, broker.port, source=", stream_level = 2", protocol=protocol)
    payloads = [
        ("in/north/reading", reading(1)),
        ("in/south/reading", reading(0) + b"\r\n"),
        ("in/north/reading", reading(1)),
        ("in/north/reading", b""),
        ("in/north/reading", b"\xff\x00no reading\n7 1\n"),
        ("in/s\u00fcd/reading", reading(3)),
        ("in/north/reading", reading(2)),
    ]
    with Client(broker.port, OUT, STATUS) as client, Program(tmp_path), Recording(tmp_path) as recording:
        client.until(lambda: online(client), "the first status")
        client.until(lambda: _listens(client, recording.file), "the recorder's subscription")
        for topic, payload in payloads:
            client.publish(topic, payload)
        client.publish("in/north/reading", reading(4), qos=0)
        client.until(lambda: len(client.payloads(OUT)) == 5, "the answers")
        client.until(lambda: len(_real(recorded(recording.file))) == 8, "the recording")
    live = counts(tmp_path)["counts"]
    assert recording.file.read_bytes()[: len(MESSAGES_MAGIC)] == MESSAGES_MAGIC
    messages = _real(recorded(recording.file))
    sent = [(topic, payload, 1) for topic, payload in payloads] + [("in/north/reading", reading(4), 0)]
    assert [(one.topic, one.data, one.qos) for one in messages] == sent
    assert not any(one.retained or one.again for one in messages)
    ran = run_program("replay", "a.rec", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert told(ran.stdout.encode().splitlines()) == told(client.payloads(OUT))
    assert {json.loads(one)["stream"] for one in ran.stdout.splitlines()} == {"north", "south", "s\u00fcd"}
    assert live["samples"]["duplicate"] == 1
    summary = ran.stderr.splitlines()
    assert any("7 received = 5 accepted + 1 duplicate + 1 rejected (1 bad_encoding)" in one for one in summary), summary


def has_session(port: int, client_id: str) -> bool:
    """Whether the broker keeps anything for a client, by its word to one of that name."""
    said: list[bool] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.on_connect = lambda _client, _data, flags, *_: said.append(flags.session_present)
    client.connect("127.0.0.1", port, clean_start=False)
    while not said:
        client.loop(0.1)
    client.disconnect()
    return said[0]


def _real(records: list[Record]) -> list[Record]:
    return [one for one in records if one.topic != "in/probe/reading"]


def _listens(client: Client, file: Path) -> bool:
    """Whether the recorder is subscribed: it has a message sent for that alone, which no line takes for a sample."""
    client.publish("in/probe/reading", b"\n")
    return bool(recorded(file))


def test_it_takes_nothing_from_the_line_that_serves_and_leaves_nothing_behind(tmp_path, broker, protocol):
    """The serving device is away: its session keeps what comes, whatever a recorder has seen and acknowledged."""
    device(tmp_path, broker.port, broker=', client_id = "pump-7"', protocol=protocol)
    with Client(broker.port, OUT, STATUS) as client:
        with Program(tmp_path):
            client.until(lambda: online(client), "the first status")
        client.until(lambda: not online(client), "the farewell")
        before = len(client.payloads(STATUS))
        with Recording(tmp_path) as recording:
            client.until(lambda: _listens(client, recording.file), "the recorder's subscription")
            client.publish("in/a/reading", reading(0))
            client.until(lambda: _real(recorded(recording.file)), "the recording")
        assert len(client.payloads(STATUS)) == before, "no word of it on the status topic"
        with Program(tmp_path):
            client.until(lambda: client.payloads(OUT), "the answer to what waited")
    assert b"pump-7" in broker.log.encode()
    names = {line.split(" as ")[1].split(" ")[0] for line in broker.log.splitlines() if " as pump-7" in line}
    others = names - {"pump-7"}
    assert len(others) == 3, (
        "its name begins as the configured one, for brokers that go by that; so do two starts' looks"
    )
    assert not any(has_session(broker.port, one) for one in others)
    assert has_session(broker.port, "pump-7")


def test_what_the_broker_had_kept_is_recorded_and_refused_again(tmp_path, broker):
    """MQTT 3.1.1 cannot ask for it not to be sent."""
    device(tmp_path, broker.port, protocol="3.1.1")
    with Client(broker.port) as client:
        client.publish("in/a/reading", reading(0), retain=True)
        with Recording(tmp_path) as recording:
            client.until(lambda: recorded(recording.file), "the recording")
    (message,) = recorded(recording.file)
    assert (message.data, message.retained) == (reading(0), True)
    ran = run_program("replay", "a.rec", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 0
    assert "1 received = 1 dropped (1 retained)" in ran.stderr
    judged = run_program("bind", "--dry-run", "a.rec", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert judged.returncode == 0, judged.stderr
    assert "payload 1 (in/a/reading): accepted" in judged.stderr
    assert "the broker had kept it" in judged.stderr


def test_a_windowed_line_over_a_real_station(tmp_path):
    """No broker: a recording is a file like another, whoever wrote it."""
    device(tmp_path, 1883, bundle=FROST)
    text = (tmp_path / "device.toml").read_text().replace('name = "dew"', 'name = "frost"')
    text += 'wind_speed = { field = "w", unit = "m/s" }\nsolar_irradiance = { field = "s", unit = "W/m2" }\n'
    (tmp_path / "device.toml").write_text(text)
    (tmp_path / "a.rec").write_bytes(
        MESSAGES_MAGIC
        + b"".join(
            encode_message(
                Record(
                    1,
                    json.dumps(
                        {"time": 1_700_000_000 + HOUR * hour, "t": 5, "rh": 50, "p": 1000, "w": 2, "s": 0}
                    ).encode(),
                    topic="in/a/reading",
                    qos=1,
                )
            )
            for hour in range(30)
        )
    )
    ran = run_program("replay", "a.rec", "--config", "device.toml", "--speed", "1000", home=tmp_path, cwd=tmp_path)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 7), ran.stderr


def test_a_line_that_reads_no_messages_refuses_a_recording_of_them(tmp_path):
    device(tmp_path, 1883)
    (tmp_path / "a.rec").write_bytes(MESSAGES_MAGIC)
    text = (tmp_path / "device.toml").read_text()
    begin = text.index("source = ")
    changed = text[:begin] + 'source = { kind = "stdin" }' + text[text.index("\n", begin) :]
    (tmp_path / "device.toml").write_text(changed)
    ran = run_program("replay", "a.rec", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 2
    assert "found a recording of messages, and line dew reads none; expected a line whose source is mqtt" in ran.stderr


def test_it_says_why_no_message_comes(tmp_path):
    device(tmp_path, 1)
    words = ["record", "--config", "device.toml", "--out", "a.rec", "--seconds", "1"]
    ran = run_program(*words, home=tmp_path, cwd=tmp_path)
    assert ran.returncode == 0
    assert "mqtt in/+/reading: not connected: 127.0.0.1:1: Connection refused; trying again" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "recorded 0 bytes in 0 messages to a.rec"


def test_bind_has_the_stream_of_a_topic_too(tmp_path):
    device(tmp_path, 1, source=", stream_level = 2")
    messages = [Record(1, reading(0), topic=f"in/{name}/reading", qos=1) for name in ("a", "b", "a")]
    (tmp_path / "a.rec").write_bytes(MESSAGES_MAGIC + b"".join(map(encode_message, messages)))
    ran = run_program("bind", "--dry-run", "a.rec", "--config", "device.toml", home=tmp_path, cwd=tmp_path)
    told = [json.loads(one) for one in ran.stdout.splitlines()]
    assert [(one["outcome"], one["stream"]) for one in told] == [
        ("accepted", "a"),
        ("accepted", "b"),
        ("duplicate", "a"),
    ]
