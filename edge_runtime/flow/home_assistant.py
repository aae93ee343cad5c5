"""What Home Assistant must be told to show a line's answers by itself: names, units, where they come; it publishes nothing.

The keys are those of Home Assistant's MQTT discovery and MQTT sensor: https://www.home-assistant.io/integrations/mqtt/.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic_core import to_json

from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.units import spelled

# How many answers may be missing before a value that is shown counts as unknown.
_MISSED = 3
_READY = "{{ 'online' if value_json['status'] == 'online' and value_json['ready'] else 'offline' }}"
_NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9_-]")


class Place(NamedTuple):
    """Where the answers of one line stand, and who says so; no variable is left in a topic."""

    prefix: str
    device: str
    line: str
    topic: str
    qos: int
    status_topic: str
    release: str
    tells_all: bool


def entities(place: Place, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """For each number and label of a line's answers, and each flag of a number, the topic and message that make it known."""
    shared = _shared(place, manifest)
    for output in manifest.outputs:
        if output.form == "vector":
            continue
        # By subscript: an output may be called as a method of a mapping is.
        value = f"value_json['{output.name}']"
        yield _told(place, "sensor", (output.name,), f"{{{{ {value}['value'] }}}}", shared | _form(output))
        for flag in output.flags:
            template = f"{{{{ 'ON' if {value}['{flag.name}'] else 'OFF' }}}}"
            yield _told(place, "binary_sensor", (output.name, flag.name), template, shared)


def _told(
    place: Place, platform: str, names: tuple[str, ...], template: str, more: dict[str, Any]
) -> tuple[str, bytes]:
    identity = _identity(place.device, place.line, *names)
    told = {"name": " ".join((place.line, *names)), "unique_id": identity, "value_template": template} | more
    return f"{place.prefix}/{platform}/{identity}/config", to_json(told)


def _shared(place: Place, manifest: Manifest) -> dict[str, Any]:
    origin = {"name": "edge-runtime", "sw_version": place.release}
    device = {"identifiers": [_identity(place.device)], "name": place.device, "manufacturer": "edge-runtime"}
    shared: dict[str, Any] = {
        "state_topic": place.topic,
        "qos": place.qos,
        "availability_topic": place.status_topic,
        "availability_template": _READY,
        "device": device | {"sw_version": place.release},
        "origin": origin,
    }
    window = manifest.window
    if window is not None and window.period_s and place.tells_all:
        shared["expire_after"] = max(1, round(_MISSED * window.period_s * window.hop))
    return shared


def _form(output: Output) -> dict[str, Any]:
    if output.form == "label":
        return {"device_class": "enum", "options": list(output.labels)}
    if output.unit == "1":
        return {"state_class": "measurement"}
    return {"state_class": "measurement", "unit_of_measurement": spelled(output.unit, "home-assistant") or output.unit}


def _identity(*names: str) -> str:
    """A name of letters, digits, _ and - that no other names have: what was lost to that is in the digest."""
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
    return _NOT_OF_AN_ID.sub("-", "_".join(("edge", *names)))[:128] + f"_{digest}"
