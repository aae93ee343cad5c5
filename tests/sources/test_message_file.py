"""Captured messages as a source: topics, times, pace, and what is dropped."""

import json
import threading

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.sources.message_file import MessageFile
from edge_runtime.spec.source import MqttSource
from tests.rig.clock import HandClock

SECOND = 1_000_000_000


def message(second, topic="a/x/t", payload="1", **more):
    tst = f"2026-11-30T20:36:{second:02d}.000000Z+0000"
    return json.dumps({"tst": tst, "topic": topic, "qos": 0, "retain": 0, "payload": payload} | more) + "\n"


@pytest.fixture
def clock():
    return HandClock()


def started(tmp_path, clock, *lines, speed="max", position=0, **spec):
    path = tmp_path / "captured.jsonl"
    path.write_text("".join(lines))
    source = MessageFile(path, speed, MqttSource(topics=("a/#",), **spec), wall_ns=clock.wall_ns, mono_ns=clock.mono_ns)
    wake = threading.Event()
    source.start(wake, position)
    assert wake.is_set()
    return source


def test_topic_stream_and_time(tmp_path, clock):
    source = started(tmp_path, clock, message(1), "\n", message(3, "a/y/t", "2\n"), stream_level=2)
    first, second = source.take()
    assert (first.data, first.topic, first.stream, second.data, second.stream) == (b"1", "a/x/t", "x", b"2", "y")
    assert second.time_ns - first.time_ns == 2 * SECOND
    assert source.ended
    assert source.due_ns() is None
    assert source.status() == "ended"


def test_what_the_source_would_not_have_had(tmp_path, clock):
    source = started(tmp_path, clock, message(1, retain=1), message(1, "b/t"), "{}\n", message(2, payload=None))
    assert [(one.dropped, one.lost_before) for one in source.take()] == [
        ("retained", 1), ("other_topic", 1), ("bad_capture", 1), ("", 0),
    ]  # fmt: skip
    assert [one.dropped for one in started(tmp_path, clock, message(1, retain=1), retained="accept").take()] == [""]


def test_a_position_is_behind_a_line(tmp_path, clock):
    source = started(tmp_path, clock, message(1), message(2))
    [first] = source.take(1)
    source.stop()
    [second] = started(tmp_path, clock, message(1), message(2), position=first.position).take()
    assert second.time_ns - first.time_ns == SECOND


def test_its_own_pace(tmp_path, clock):
    source = started(tmp_path, clock, message(1), message(5), message(4), speed=2.0)
    assert len(source.take()) == 1
    assert not source.waiting
    assert source.take() == []
    assert source.due_ns() == clock.mono_ns() + 2 * SECOND
    clock.advance(2)
    assert len(source.take()) == 2
    assert source.ended


def test_a_file_that_is_not_there(tmp_path, clock):
    source = MessageFile(
        tmp_path / "none", "max", MqttSource(topics=("a",)), wall_ns=clock.wall_ns, mono_ns=clock.mono_ns
    )
    with pytest.raises(ConfigurationError, match="No such file"):
        source.start(threading.Event())
    source.stop()
    assert source.ended
