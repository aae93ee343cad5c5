"""What a variable may be, where it stands, and what is said of one that is not there."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.device_config import DeviceConfig
from edge_runtime.spec.variables import fill


def device(variables: dict[str, Any] | None = None, line: dict[str, Any] | None = None, **broker: Any) -> DeviceConfig:
    raw: dict[str, Any] = {
        "schema": "edge-runtime/device/1", "broker": {"host": "h"} | broker,
        "line": [{
            "name": "roof", "bundle": "b", "source": {"kind": "mqtt", "topics": ["a"]}, "decode": {"format": "json"},
            "channels": {"t": {"field": "t"}}, "sink": [{"kind": "mqtt"}],
        } | (line or {})],
    }  # fmt: skip
    return DeviceConfig.model_validate(fill(raw | ({} if variables is None else {"variables": variables}), "f"))


def test_names_topics_ids_and_paths() -> None:
    found = device(
        {"site": "north", "unit": "7"},
        {
            "name": "roof-{site}", "bundle": "bundles/{site}", "source": {"kind": "mqtt", "topics": ["{site}/{unit}/+"]},
            "sink": [{"kind": "mqtt", "topic": "{site}/{device}/{line}"},
                     {"kind": "jsonl", "path": "{site}.jsonl", "name": "{unit}"}],
            "channels": {"map": {"field": "{x}", "topic": "{site}/{unit}/t"}},
        },
        client_id="{site}-{unit}", device="pump-{unit}", host="{site}.example", tls={"ca": "/etc/{site}.pem"}, user="{unit}",
    )  # fmt: skip
    [line], broker = found.line, found.broker
    assert broker is not None
    assert (broker.client_id, broker.device, broker.host) == ("north-7", "pump-7", "north.example")
    assert broker.tls is not None
    assert (broker.tls.ca, broker.status_topic) == ("/etc/north.pem", "edge/{device}/status")
    assert (line.name, line.bundle) == ("roof-north", "bundles/north")
    assert line.source.model_dump()["topics"] == ("north/7/+",)
    assert line.sink[0].model_dump()["topic"] == "north/{device}/{line}"
    assert (line.sink[1].name, line.sink[1].model_dump()["path"]) == ("7", "north.jsonl")
    assert (line.channels["map"].field, line.channels["map"].topic) == ("{x}", "north/7/t")


def test_braces_of_a_pattern_are_its_own() -> None:
    pattern = {"format": "pattern", "pattern": "{site:number} {name}{{"}
    assert fill({"line": [{"decode": pattern}], "variables": {"site": "n"}}, "f")["line"][0]["decode"] == pattern


@pytest.mark.parametrize(
    ("variables", "line", "says"),
    [
        (
            {"site": "n"},
            {"bundle": "{sit}/b"},
            "f, bundle: found {sit} in '{sit}/b', and no such variable; expected {site}; see",
        ),
        ({"site": "n"}, {"bundle": "{zzz}/b"}, "no such variable; expected {site};"),
        (None, {"bundle": "{zzz}/b"}, "expected one of [variables], which has none"),
        (None, {"sink": [{"kind": "mqtt", "topic": "{divice}/b"}]}, "expected {device};"),
        (
            None,
            {"sink": [{"kind": "jsonl", "path": "{line}.jsonl"}]},
            "{line} in '{line}.jsonl', which stands in topics alone",
        ),
        ({"line": "n"}, {}, "variables.line: found {line}, which has a meaning of its own"),
    ],
)
def test_an_unknown_variable_is_told_with_the_nearest(
    variables: dict[str, Any] | None, line: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        device(variables, line)


@pytest.mark.parametrize("value", ["", "a+", "#", "a/b", "{b}", "$SYS", "a\0", "a\n", "x" * 129, 7, "a\\b"])
def test_what_a_variable_may_not_be(value: object) -> None:
    with pytest.raises(ValidationError, match="variables"):
        device({"site": value}, {"bundle": "{site}"})


@pytest.mark.parametrize("name", ["Site", "7", "a-b", "x" * 33, ""])
def test_what_it_may_not_be_called(name: str) -> None:
    with pytest.raises(ValidationError, match="variables"):
        device({name: "n"})


def test_their_number_is_bounded() -> None:
    device({f"v{number}": "n" for number in range(64)})
    with pytest.raises(ValidationError, match="variables"):
        device({f"v{number}": "n" for number in range(65)})
