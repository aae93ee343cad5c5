"""What Home Assistant is told of a contract's answers."""

import json
import re
from typing import Any

from edge_runtime.flow.home_assistant import Place, entities
from tests.rig import kinds

PLACE = Place("homeassistant", "pump 7", "dew", "edge/pump 7/dew", 1, "edge/pump 7/status", "1.2.3", tells_all=True)
OUTPUTS = [
    kinds.giving(name="values", unit="Cel", flags=[{"name": "frost", "side": "below", "on": 0.0, "off": 1.0}]),
    kinds.giving(name="ratio", tensor="z", unit="1"),
    kinds.giving(name="flow", tensor="f", unit="kg/h"),
    kinds.giving("label", name="kind", tensor="k", labels=["a", "b"]),
    kinds.giving("vector", name="bands", tensor="v"),
]


def told(place: Place = PLACE, **changes: Any) -> dict[str, dict[str, Any]]:
    manifest = kinds.manifest([kinds.taking(kinds.number(), **changes.pop("taking", {}))], OUTPUTS, **changes)
    return {topic: json.loads(message) for topic, message in entities(place, manifest)}


def of(name: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    [one] = [message for message in found.values() if message["name"] == f"dew {name}"]
    return one


def test_every_number_and_label_has_an_entity_and_a_vector_none() -> None:
    found = told()
    assert sorted(one["name"] for one in found.values()) == [
        "dew flow", "dew kind", "dew ratio", "dew values", "dew values frost",
    ]  # fmt: skip
    for topic, message in found.items():
        match = re.fullmatch(r"homeassistant/(?:binary_)?sensor/([a-zA-Z0-9_-]+)/config", topic)
        assert match is not None
        assert match[1] == message["unique_id"]
        assert message["state_topic"] == "edge/pump 7/dew"
        assert message["availability_topic"] == "edge/pump 7/status"
        assert message["device"]["name"] == "pump 7"
        assert message["origin"] == {"name": "edge-runtime", "sw_version": "1.2.3"}
    assert len({json.dumps(one["device"]) for one in found.values()}) == 1


def test_units_are_spelled_as_home_assistant_does() -> None:
    found = told()
    assert of("values", found)["unit_of_measurement"] == "°C"
    assert of("flow", found)["unit_of_measurement"] == "kg/h"  # it has no spelling of its own for that
    assert "unit_of_measurement" not in of("ratio", found)


def test_a_label_is_one_of_a_list_and_a_number_a_measurement() -> None:
    found = told()
    label = of("kind", found)
    assert (label["device_class"], label["options"]) == ("enum", ["a", "b"])
    assert "state_class" not in label
    assert of("values", found)["state_class"] == "measurement"


def test_the_template_names_the_value_in_the_default_shape() -> None:
    assert of("values", told())["value_template"] == "{{ value_json['values']['value'] }}"


def test_a_flag_is_a_binary_sensor() -> None:
    found = told()
    flag = of("values frost", found)
    assert flag["value_template"] == "{{ 'ON' if value_json['values']['frost'] else 'OFF' }}"
    assert not {"unit_of_measurement", "state_class", "device_class"} & flag.keys()
    assert [topic.split("/")[1] for topic, one in found.items() if one == flag] == ["binary_sensor"]


def test_a_value_expires_after_three_answers_that_did_not_come() -> None:
    window = {"length": 4, "hop": 2, "period_s": 10.0, "rate_tolerance": 0.1}
    paced: dict[str, Any] = {"window": window, "taking": {"length": 4}}
    assert of("ratio", told(**paced))["expire_after"] == 60
    assert "expire_after" not in of("ratio", told(PLACE._replace(tells_all=False), **paced))
    assert "expire_after" not in of("ratio", told())


def test_names_that_look_alike_are_apart() -> None:
    topics = [topic for device in ("a b", "a-b", "a_b") for topic in told(PLACE._replace(device=device))]
    assert len(set(topics)) == len(topics)
