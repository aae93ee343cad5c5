"""What [line.framing] accepts, and each thing it refuses."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from edge_runtime.spec.crc import Crc
from edge_runtime.spec.framing import (
    CobsFraming,
    Framing,
    LengthField,
    LinesFraming,
    NmeaFraming,
    PacketFraming,
    SlipFraming,
)

CRC = {"name": "crc-16/modbus", "byte_order": "little"}
PACKET: dict[str, Any] = {
    "kind": "packet", "sync": "AA 55", "length": {"type": "uint8"}, "crc": CRC, "crc_covers": "payload",
}  # fmt: skip


def test_framing_is_chosen_by_its_kind() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Framing)
    assert isinstance(adapter.validate_python({"kind": "nmea"}), NmeaFraming)
    assert isinstance(adapter.validate_python({"kind": "cobs", "crc": CRC}), CobsFraming)
    assert isinstance(adapter.validate_python({"kind": "slip"}), SlipFraming)
    assert isinstance(adapter.validate_python(PACKET), PacketFraming)


def test_every_key_is_explained() -> None:
    for model in (LinesFraming, NmeaFraming, CobsFraming, SlipFraming, PacketFraming, LengthField, Crc):
        for name, field in model.model_fields.items():
            assert name == "kind" or field.description, f"{model.__name__}.{name}"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sync": "AA5"}, "two digits each"),
        ({"sync": "0xAA"}, "two digits each"),
        ({"length": None}, "exactly one of length and payload_bytes"),
        ({"payload_bytes": 3}, "exactly one of length and payload_bytes"),
        ({"length": None, "payload_bytes": 30, "max_bytes": 20}, "more than max_bytes"),
        ({"length": {"type": "uint16"}}, "never guessed"),
        ({"length": {"type": "int16", "byte_order": "big"}}, "'uint8', 'uint16' or 'uint32'"),
        ({"crc": None}, "Crc"),
        ({"crc_covers": "all"}, "'payload', 'after_sync' or 'packet'"),
    ],
)
def test_refusals_of_a_packet(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        PacketFraming.model_validate(PACKET | changes)
