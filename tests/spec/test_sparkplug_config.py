"""A line of Sparkplug in device.toml: what is refused, and what it comes to."""

from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_config import BIRTH_BYTES, DeviceConfig, LineConfig


def line(topic: str = "spBv1.0/plant/#", **more: Any) -> LineConfig:
    keys: dict[str, Any] = {
        "name": "line", "bundle": "b", "source": {"kind": "mqtt", "topics": (topic,)},
        "decode": {"format": "sparkplug"}, "channels": {"t": {"field": "t"}}, "sink": ({"kind": "stdout"},),
    }  # fmt: skip
    return LineConfig.model_validate(keys | more)


@pytest.mark.parametrize(
    "topic",
    [
        "spBv1.0/#",
        "spBv1.0/plant/#",
        "spBv1.0/+/#",
        "spBv1.0/plant/+/#",
        "spBv1.0/plant/+/press/#",
        "spBv1.0/+/+/{device}/#",
    ],
)
def test_topics_that_take_all_of_a_node(topic: str) -> None:
    assert line(topic).takes_bytes


@pytest.mark.parametrize(
    "topic", ["#", "spBv1.0/plant/DDATA/#", "spBv1.0/plant/+/press", "spBv1.0/plant/+/press/oven", "plant/#"]
)
def test_topics_that_would_lose_births_or_the_count_are_refused(topic: str) -> None:
    with pytest.raises(ValidationError, match=r"write spBv1.0/GROUP/\+/NODE/#"):
        line(topic)


def test_what_has_no_topics_has_no_sparkplug() -> None:
    with pytest.raises(ValidationError, match="a source that has no topics"):
        line(source={"kind": "stdin"}, framing={"kind": "slip"})


def test_the_stream_is_the_topic_s_affair() -> None:
    with pytest.raises(ValidationError, match="each node, or device, is a stream by itself"):
        line(source={"kind": "mqtt", "topics": ("spBv1.0/#",), "stream_level": 4})


def test_a_birth_has_room_unless_less_is_said() -> None:
    assert line().framing.max_bytes == BIRTH_BYTES
    assert line(framing={"max_bytes": 900}).framing.max_bytes == 900
    assert line(decode={"format": "json"}).framing.max_bytes == 4096


def test_an_age_may_be_judged_for_there_are_times() -> None:
    assert line(max_age_s=60).max_age_s == 60


def test_carried_fields_are_those_a_sample_is_taken_in_spite_of() -> None:
    assert line().decode.carry == ()
    both = line(decode={"format": "sparkplug", "historical": "carry", "quality": "carry"})
    assert both.decode.carry == ("historical", "quality")


def test_last_values_have_an_age_and_are_the_decoder_s_own() -> None:
    last = {"field": "t", "when_absent": "last", "max_age_s": 5}
    assert line(channels={"t": last}).channels["t"].max_age_s == 5
    assert not line(channels={"t": last}).joins
    with pytest.raises(ValidationError, match="a channel with a topic"):
        line(channels={"t": {"field": "t", "topic": "spBv1.0/plant/DDATA/a/b"}})
    for alone in ({"when_absent": "last"}, {"max_age_s": 5.0}):
        with pytest.raises(ValidationError, match="belong together"):
            ChannelBinding.model_validate({"field": "t"} | alone)


def test_devices_are_named_or_all() -> None:
    with pytest.raises(ValidationError):
        line(decode={"format": "sparkplug", "of": []})
    assert line(decode={"format": "sparkplug", "of": ("a",)}).decode.of == ("a",)  # type: ignore[union-attr]


def device(sink: dict[str, Any], **broker: Any) -> DeviceConfig:
    one = line().model_dump(mode="json") | {
        "source": {"kind": "stdin"}, "decode": {"format": "json"}, "framing": {"kind": "lines"}, "sink": [sink],
    }  # fmt: skip
    keys = {"schema": "edge-runtime/device/1", "broker": {"host": "b"} | broker, "line": [one]}
    return DeviceConfig.model_validate(keys)


def test_a_device_belongs_to_a_node() -> None:
    made = device({"kind": "sparkplug"}, sparkplug={"group": "plant"})
    assert made.line[0].uses_broker
    assert made.line[0].sink[0].full_name == "sparkplug"
    with pytest.raises(ValidationError, match=r'no sparkplug = \{ group = "..." \} in \[broker\]'):
        device({"kind": "sparkplug"})
    with pytest.raises(ValidationError, match="Extra inputs"):
        device({"kind": "sparkplug", "qos": 1}, sparkplug={"group": "plant"})


@pytest.mark.parametrize("name", ["", "a/b", "+", "a#", "x" * 101, "a\0"])
def test_a_node_s_name_is_one_level_of_a_topic(name: str) -> None:
    with pytest.raises(ValidationError):
        device({"kind": "sparkplug"}, sparkplug={"group": name})
    with pytest.raises(ValidationError):
        device({"kind": "sparkplug"}, sparkplug={"group": "g", "edge": name})


def shown(topic: str, of: object) -> LineConfig:
    sink = ({"kind": "mqtt", "home_assistant": True},)
    return line(topic, decode={"format": "sparkplug", "of": of}, sink=sink)


@pytest.mark.parametrize(
    ("topic", "of"),
    [
        ("spBv1.0/plant/+/press/#", "devices"),
        ("spBv1.0/plant/+/press/#", ("oven", "roof")),
        ("spBv1.0/plant/+/+/#", ("oven",)),
        ("spBv1.0/+/+/press/#", ("oven",)),
        ("spBv1.0/plant/#", "node"),
    ],
)
def test_home_assistant_of_several_devices_is_refused(topic: str, of: object) -> None:
    with pytest.raises(ValidationError, match="home_assistant with Sparkplug of several devices"):
        shown(topic, of)


@pytest.mark.parametrize("of", ["node", ("oven",)])
def test_home_assistant_of_one_device_is_taken(of: object) -> None:
    assert shown("spBv1.0/plant/+/press/#", of).sink
    with pytest.raises(ValidationError, match="home_assistant with Sparkplug of several devices"):
        line(decode={"format": "sparkplug", "of": of}, sink=({"kind": "mqtt", "home_assistant": True},),
             source={"kind": "mqtt", "topics": ("spBv1.0/plant/+/press/#", "spBv1.0/plant/+/saw/#")})  # fmt: skip
