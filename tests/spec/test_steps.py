import json
from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from edge_runtime.spec.steps import ARITHMETIC, Step, tolerance

STEP = TypeAdapter(Step)
SECTION = [0.2, 0.4, 0.2, 1.0, -0.4, 0.2]
GOOD = [
    {"step": "standardize", "mean": [1, 2], "std": [3, 4]},
    {"step": "min_max", "min": [1, 2], "max": [3, 4]},
    {"step": "clip", "min": [1, 2], "max": [1, 4]},
    {"step": "scale", "a": 0.5, "b": 2},
    {"step": "log", "base": "10", "offset": 1, "floor": 1e-6},
    {"step": "lookup", "channel": 0, "keys": [1, 2], "values": [5, 5], "otherwise": 0},
    {"step": "one_hot", "channel": 1, "count": 3},
    {"step": "lag", "lags": [0, 3]},
    {"step": "difference", "order": 2},
    {"step": "filter", "sections": [SECTION], "initial": "steady"},
    {"step": "spectrum", "hann": "periodic", "output": "db", "floor": 1e-6},
    {"step": "snv", "ddof": 1},
    {"step": "savitzky_golay", "window": 5, "polyorder": 2, "derivative": 1, "delta": 2, "along": "sample"},
    {"step": "resample", "source": [3, 2, 1], "target": [1.5, 2.5]},
    {"step": "resize", "height": 4, "width": 5, "method": "area"},
    {"step": "colours", "to": "gray", "weights": [0.299, 0.587, 0.114]},
]
BY_NAME = {raw["step"]: raw for raw in GOOD}


def name(raw):
    return raw["step"]


def refused(raw):
    with pytest.raises(ValidationError) as caught:
        STEP.validate_json(json.dumps(raw))
    return str(caught.value)


def changed(step, **keys):
    return {key: value for key, value in (BY_NAME[step] | keys).items() if value is not ...}


def test_the_list_above_has_every_step_there_is():
    models = get_args(get_args(Step)[0])
    assert [get_args(model.model_fields["step"].annotation)[0] for model in models] == list(BY_NAME)


@pytest.mark.parametrize("raw", GOOD, ids=name)
def test_each_survives_its_own_json(raw):
    step = STEP.validate_json(json.dumps(raw))
    assert STEP.validate_json(STEP.dump_json(step)) == step
    assert STEP.dump_json(STEP.validate_json(STEP.dump_json(step))) == STEP.dump_json(step)


@pytest.mark.parametrize("raw", GOOD, ids=name)
def test_each_is_frozen_and_refuses_an_unknown_key(raw):
    step = STEP.validate_python(raw)
    with pytest.raises(ValidationError, match="frozen"):
        step.step = "clip"
    assert "Extra inputs are not permitted" in refused(raw | {"strength": 1})


def numbers():
    for raw in GOOD:
        for key, value in raw.items():
            if isinstance(value, int | float):
                yield pytest.param(raw | {key: ...}, id=f"{raw['step']} {key}")
            elif isinstance(value, list):
                yield pytest.param(raw | {key: [..., *value[1:]]}, id=f"{raw['step']} {key}")


@pytest.mark.parametrize("raw", list(numbers()))
@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_of_any_step_may_be_other_than_finite(raw, bad):
    with pytest.raises(ValidationError):
        STEP.validate_json(json.dumps(raw, default=lambda _: "BAD").replace('"BAD"', bad))


def test_a_step_that_is_none():
    assert "does not match any of the expected tags" in refused({"step": "normalise"})


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (changed("standardize", std=[1]), "2 mean, but 1 std"),
        (changed("standardize", std=[1, 0]), "greater than 0"),
        (changed("min_max", min=[1]), "1 min, but 2 max"),
        (changed("min_max", min=[3, 2]), "each min must be below its max"),
        (changed("clip", max=[1]), "2 min, but 1 max"),
        (changed("clip", max=[0.5, 4]), "no min may be above its max"),
        (changed("log", base="3"), "'e', '2' or '10'"),
        (changed("log", floor=0), "greater than 0"),
        (changed("log", floor=...), "Field required"),
        (changed("lookup", values=[5]), "2 keys, but 1 values"),
        (changed("lookup", keys=[0.0, -0.0]), "a key stands twice"),
        (changed("lookup", keys=[], values=[]), "at least 1 item"),
        (changed("lookup", channel=-1), "greater than or equal to 0"),
        (changed("one_hot", count=0), "greater than or equal to 1"),
        (changed("one_hot", count=4097), "less than or equal to 4096"),
        (changed("lag", lags=[]), "at least 1 item"),
        (changed("lag", lags=[1, 1]), "a lag stands twice"),
        (changed("lag", lags=[-1]), "greater than or equal to 0"),
        (changed("difference", order=0), "greater than or equal to 1"),
        (changed("difference", order=4), "less than or equal to 3"),
        (changed("filter", sections=[]), "at least 1 item"),
        (changed("filter", sections=[SECTION[:5]]), "Field required"),
        (changed("filter", sections=[[1, 0, 0, 2, 0, 0]]), "section 0 has a0 2; divide the section by it"),
        (changed("filter", sections=[SECTION, [1, 0, 0, 1, -1, 0]]), "section 1 is not stable"),
        (changed("filter", sections=[[1, 0, 0, 1, 1, 0]]), "section 0 is not stable"),
        (changed("filter", sections=[[1, 0, 0, 1, 0, 1]]), "section 0 is not stable"),
        (changed("filter", initial=...), "Field required"),
        (changed("spectrum", floor=...), "db needs a floor"),
        (changed("spectrum", output="power"), "magnitude and power take none"),
        (changed("snv", ddof=2), "0 or 1"),
        (changed("savitzky_golay", window=4), "window 4 must be odd"),
        (changed("savitzky_golay", polyorder=5), "polyorder must be below window"),
        (changed("savitzky_golay", derivative=3), "derivative may not exceed polyorder"),
        (changed("savitzky_golay", delta=0), "greater than or equal to"),
        (changed("resample", source=[1, 3, 2]), "source must rise or fall strictly"),
        (changed("resample", target=[2, 2]), "target must rise or fall strictly"),
        (changed("resample", target=[0.5, 2]), "target 0.5 .. 2 leaves source 1 .. 3"),
        (changed("resample", target=[3.5, 2]), "target 2 .. 3.5 leaves source 1 .. 3"),
        (changed("resize", height=0), "greater than or equal to 1"),
        (changed("resize", method="nearest"), "'area' or 'bilinear'"),
        (changed("colours", weights=...), "gray needs weights"),
        (changed("colours", to="bgr"), "bgr takes none"),
    ],
)
def test_a_refusal_says_why(raw, says):
    assert says in refused(raw)


def test_all_but_the_logarithm_and_the_spectrum_are_arithmetic():
    assert set(BY_NAME) - ARITHMETIC == {"log", "spectrum"}


def test_the_tolerance_is_the_widest_that_any_step_needs():
    assert tolerance([]) == (1e-6, 1e-6)
    assert tolerance(STEP.validate_python(raw) for raw in GOOD if raw["step"] in ARITHMETIC) == (1e-6, 1e-6)
    log, spectrum = STEP.validate_python(BY_NAME["log"]), STEP.validate_python(BY_NAME["spectrum"])
    power = STEP.validate_python(changed("spectrum", output="power", floor=...))
    assert tolerance([log]) == (1e-6, 2e-6)
    assert tolerance([power, log]) == (1e-6, 1e-5)
    assert tolerance([log, spectrum, power]) == (1e-6, 2e-4)
