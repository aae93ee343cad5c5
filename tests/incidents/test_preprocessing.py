"""Incidents 1 to 6: what was done to the numbers, or was not, before the model saw them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.incidents import made
from tests.incidents.made import Raw

SHAPE = ["batch", 3, 4, 4]
MODEL = made.dense(48, 3, SHAPE)
# Colours of quite other brightness each, and no picture is its own mirror image.
PICTURES = np.floor(made.CHANCE.uniform(0, 255, (6, 1, 10, 10, 3)) * [1.0, 0.6, 0.3]).reshape(6, 1, -1)
STEPS = [{"step": "resize", "height": 4, "width": 4, "method": "area"}, {"step": "scale", "a": 1 / 255}]
PICTURE = made.manifest(
    [made.number("picture", "1", 0, 255, shape=[10, 10, 3])], SHAPE, ["batch", "colour", "row", "column"], steps=STEPS,
    outputs=[{"tensor": "y", "name": "kind", "meaning": "a class", "form": "label", "labels": ["cat", "dog", "owl"]}],
)  # fmt: skip

READINGS = made.CHANCE.uniform([0, 900], [40, 1000], (8, 1, 2))
NORMALISE = {"step": "standardize", "mean": [14.0, 950.0], "std": [9.0, 25.0]}
STATION = made.manifest(
    [made.number("temperature", "Cel", 0, 40), made.number("pressure", "hPa", 900, 1000)], ["batch", 2],
    ["batch", "channel"], steps=[NORMALISE],
)  # fmt: skip


def _steps(*steps: Any) -> Callable[[Raw], object]:
    return lambda raw: raw["inputs"][0].update(steps=list(steps))


def _first(raw: Raw, onnx: Any, values: Any, change: Callable[[Raw], object], to: Path) -> str:
    """Boot the right bundle, then the one with the mistake in its manifest; the check that refuses it."""
    stored = made.goldens(raw, onnx, values)
    right = made.booted(made.write(to, raw, onnx, stored))
    assert right.state == "OPERATIONAL", made.words(right)
    report = made.booted(made.write(to, made.changed(raw, change), onnx, stored))
    first = made.refused_by(report)
    if first == "golden_tensor":
        assert "off at most; beyond in" in made.words(report) or "expected float32" in made.words(report)
    return first


def test_incident_01_input_not_normalised(tmp_path: Path) -> None:
    model = made.dense(2, 1, ["batch", 2])
    assert _first(STATION, model, READINGS, _steps(), tmp_path) == "golden_tensor"


@pytest.mark.parametrize("steps", [STEPS[:1], [*STEPS, STEPS[1]]], ids=["left out", "twice"])
def test_incident_02_division_by_255(steps: list[Any], tmp_path: Path) -> None:
    assert _first(PICTURE, MODEL, PICTURES, _steps(*steps), tmp_path) == "golden_tensor"


def test_incident_03_colours_and_scale_nobody_could_find(tmp_path: Path) -> None:
    def silent(raw: Raw) -> None:
        del raw["inputs"][0]["axes"]

    assert _first(PICTURE, MODEL, PICTURES, silent, tmp_path) == "manifest"
    others = [
        [STEPS[0], {"step": "colours", "to": "bgr"}, STEPS[1]],
        [STEPS[0], {"step": "scale", "a": 1 / 127.5, "b": -1}],
    ]
    for steps in others:
        assert _first(PICTURE, MODEL, PICTURES, _steps(*steps), tmp_path) == "golden_tensor"


@pytest.mark.parametrize(
    "step", [{"step": "resize", "height": 4, "width": 4, "method": "bilinear"}, {"step": "scale", "a": 1 / 256}],
    ids=["another resize", "another constant"],
)  # fmt: skip
def test_incident_04_preprocessing_written_anew(step: Raw, tmp_path: Path) -> None:
    steps = [step if step["step"] == one["step"] else one for one in STEPS]
    assert _first(PICTURE, MODEL, PICTURES, _steps(*steps), tmp_path) == "golden_tensor"


@pytest.mark.parametrize(
    ("axes", "shape", "check"),
    [
        (["batch", "row", "column", "colour"], SHAPE, "manifest"),
        (["batch", "row", "column", "colour"], ["batch", 4, 4, 3], "provider"),
        (["batch", "colour", "column", "row"], SHAPE, "golden_tensor"),
    ],
    ids=["named only", "shape too", "turned"],
)
def test_incident_05_layout_left_to_the_user(axes: list[str], shape: list[Any], check: str, tmp_path: Path) -> None:
    def change(raw: Raw) -> None:
        raw["inputs"][0] |= {"axes": axes, "shape": shape}

    assert _first(PICTURE, MODEL, PICTURES, change, tmp_path) == check


def test_incident_06_colours_turned_round_once_more(tmp_path: Path) -> None:
    again = _steps(STEPS[0], {"step": "colours", "to": "bgr"}, STEPS[1])
    assert _first(PICTURE, MODEL, PICTURES, again, tmp_path) == "golden_tensor"
    # A grey picture is the same either way round: goldens that could not see it are why ours differ by colour.
    grey = np.repeat(PICTURES.reshape(6, 1, 100, 3)[..., :1], 3, axis=3).reshape(6, 1, -1)
    stored = made.goldens(PICTURE, MODEL, grey)
    report = made.booted(made.write(tmp_path, made.changed(PICTURE, again), MODEL, stored))
    assert report.state == "OPERATIONAL"
