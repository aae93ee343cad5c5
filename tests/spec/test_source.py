import pytest
from pydantic import TypeAdapter, ValidationError

from edge_runtime.spec.source import Poll, ReplaySource, SerialSource, Source, StandardInput

ANY = TypeAdapter(Source)


def test_kind_picks_the_variant():
    assert isinstance(ANY.validate_python({"kind": "serial", "port": "/dev/ttyUSB0"}), SerialSource)
    assert isinstance(ANY.validate_python({"kind": "stdin"}), StandardInput)
    replay = ANY.validate_python({"kind": "replay", "path": "a.rec", "speed": 2})
    assert isinstance(replay, ReplaySource)
    assert replay.speed == 2.0
    assert ANY.validate_python({"kind": "replay", "path": "a.rec"}).speed == "max"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"kind": "serial"}, "exactly one of port and match; found neither"),
        ({"kind": "serial", "port": "COM3", "match": {"vid": 1}}, "found both"),
        ({"kind": "serial", "match": {}}, "at least one of vid"),
        ({"kind": "serial", "port": "COM3", "parity": "E"}, "none"),
        ({"kind": "serial", "port": "COM3", "baudrate": 9600}, "baudrate"),
        ({"kind": "serial", "port": "COM3", "queue_bytes": 1}, "65536"),
        ({"kind": "serial", "port": "COM3", "reopen_max_s": float("inf")}, "finite"),
        (
            {"kind": "serial", "port": "COM3", "poll": {"send": "SI\r\n", "every_s": 0.01}},
            "greater than or equal to 0.1",
        ),
        ({"kind": "serial", "port": "COM3", "poll": {"send": "SI \u20ac", "every_s": 1}}, "pattern"),
        ({"kind": "serial", "port": "COM3", "poll": {"send": "", "every_s": 1}}, "at least 1 character"),
        ({"kind": "serial", "port": "COM3", "identify": {"send": "*IDN?"}}, "expect"),
        ({"kind": "replay", "path": "a", "speed": 0}, "greater than 0"),
        ({"kind": "replay", "path": "a", "speed": "fast"}, "max"),
        ({"kind": "tcp"}, "'serial', 'stdin', 'replay', 'mqtt'"),
        ({"port": "COM3"}, "kind"),
    ],
)
def test_refusals_name_what_is_wrong(bad, says):
    with pytest.raises(ValidationError, match=says):
        ANY.validate_python(bad)


@pytest.mark.parametrize("keys", [{"send": ["A?\n", "B?\n"]}, {"send": "A?\n", "ask_error": "SYST:ERR?\n"}])
def test_what_waits_for_answers_says_how_long(keys: dict) -> None:
    with pytest.raises(ValidationError, match="need timeout_s: how long an answer is waited for"):
        Poll.model_validate({"every_s": 1} | keys)
    assert Poll.model_validate({"every_s": 1, "timeout_s": 1} | keys).timeout_s == 1
