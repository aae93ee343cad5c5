"""Which answers are told: by change, by time, each stream for itself, and never a flag that changed unheard."""

from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.publish import make_suppress
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import EXTRAPOLATING, Answer, OutputValue
from edge_runtime.spec.sink import Publish
from tests.rig import kinds

NS = 1_000_000_000
LOW = [Output.model_validate(kinds.giving("number", "low"))]


def answer(
    t: float, value: Any, *, stream: str = "a", flags: int = 0, switches: tuple[tuple[str, bool], ...] = ()
) -> Answer:
    return Answer(stream, 0, round(t * NS), "id", (OutputValue("low", value, "Cel", switches),), flags)


def told(publish: dict[str, Any], answers: list[Answer], outputs: list[Output] = LOW) -> list[str | None]:
    suppress = make_suppress(Publish.model_validate(publish), outputs)
    assert suppress is not None
    return [suppress(one) for one in answers]


def test_all_needs_no_judge() -> None:
    assert make_suppress(Publish(), LOW) is None


def test_a_deadband_lies_around_the_last_one_told_not_the_last_one() -> None:
    values = [10.0, 10.4, 10.8, 10.3, 9.8, 9.9]
    found = told({"when": "on_change", "deadband": {"low": 0.5}}, [answer(t, value) for t, value in enumerate(values)])
    assert found == [None, "unchanged", None, "unchanged", None, "unchanged"]


def test_just_the_deadband_is_no_change_and_without_one_anything_is() -> None:
    assert told({"when": "on_change", "deadband": {"low": 0.5}}, [answer(0, 1.0), answer(1, 1.5)]) == [
        None,
        "unchanged",
    ]
    assert told({"when": "on_change"}, [answer(0, 1.0), answer(1, 1.0), answer(2, 1.0000001)]) == [
        None,
        "unchanged",
        None,
    ]


def test_flags_and_switches_are_changes() -> None:
    band = {"when": "on_change", "deadband": {"low": 5}}
    assert told(band, [answer(0, 1.0), answer(1, 1.0, flags=EXTRAPOLATING), answer(2, 1.0)]) == [None, None, None]
    on, off = (("frost", True),), (("frost", False),)
    found = told(band, [answer(0, 1.0, switches=off), answer(1, 1.0, switches=on), answer(2, 1.0, switches=on)])
    assert found == [None, None, "unchanged"]


def test_labels_and_vectors() -> None:
    label = [Output.model_validate(kinds.giving("label", "low", labels=["x", "y"]))]
    found = told({"when": "on_change"}, [answer(0, "x"), answer(1, "x"), answer(2, "y")], label)
    assert found == [None, "unchanged", None]
    vector = [Output.model_validate(kinds.giving("vector", "low"))]
    band = {"when": "on_change", "deadband": {"low": 0.5}}
    found = told(band, [answer(0, (1.0, 2.0)), answer(1, (1.5, 2.0)), answer(2, (1.0, 2.6))], vector)
    assert found == [None, "unchanged", None]


def test_after_so_long_an_unchanged_one_is_told_too() -> None:
    found = told({"when": "on_change", "every_s": 60}, [answer(t, 1.0) for t in (0, 30, 59.9, 60, 90)])
    assert found == [None, "unchanged", "unchanged", None, "unchanged"]


def test_every_counts_from_the_last_one_told_whatever_changes() -> None:
    found = told({"when": "every", "every_s": 60}, [answer(t, t) for t in (0, 30, 60, 119, 150)])
    assert found == [None, "every", None, "every", None]


def test_each_stream_for_itself() -> None:
    one = {"when": "every", "every_s": 60}
    assert told(one, [answer(0, 1.0), answer(1, 1.0, stream="b"), answer(2, 1.0)]) == [None, None, "every"]


def test_a_deadband_for_no_number_of_the_bundle_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'height'; expected 'low'"):
        make_suppress(Publish(when="on_change", deadband={"height": 1.0}), LOW)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"when": "every"}, "no every_s"), ({"every_s": 5}, "every_s with when = 'all'"),
        ({"deadband": {"low": 1}}, "belongs to 'on_change'"),
        ({"when": "every", "every_s": 5, "deadband": {"low": 1}}, "belongs to 'on_change'"),
        ({"when": "on_change", "deadband": {"low": -1}}, "greater than or equal to 0"),
        ({"when": "every", "every_s": 0}, "greater"),
    ],
)  # fmt: skip
def test_what_contradicts_itself(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Publish.model_validate(keys)
