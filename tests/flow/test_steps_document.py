"""docs/steps.md: each step has a section that names every key, and every example in it is run."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from edge_runtime.spec.steps import ARITHMETIC, Step, tolerance
from tests.rig.steps import made, run

TEXT = (Path(__file__).parents[2] / "docs/steps.md").read_text()
MODELS = {get_args(model.model_fields["step"].annotation)[0]: model for model in get_args(get_args(Step)[0])}
SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]}


def blocks(text):
    return [tomllib.loads(block) for block in re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


@pytest.mark.parametrize("name", MODELS)
def test_the_example_gives_what_it_says(name):
    examples = blocks(SECTIONS[name])
    assert examples
    for example in examples:
        assert name in [raw["step"] for raw in example["preprocess"]]
        result = run(np.array([example["given"]], dtype=np.float64), *example["preprocess"])
        expected = np.array([example["becomes"]])
        assert result.shape == expected.shape
        assert np.allclose(result, expected, rtol=0, atol=1e-12, equal_nan=True)


def test_no_example_stands_outside_the_steps():
    assert len(blocks(TEXT)) == sum(len(blocks(SECTIONS[name])) for name in MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_every_key_is_in_the_table_and_no_other(name):
    rows = re.findall(r"^\| (`.*?) \|", SECTIONS[name], re.MULTILINE)
    keys = [key for row in rows for key in re.findall(r"`(\w+)`", row)]
    assert sorted(keys) == sorted(set(MODELS[name].model_fields) - {"step"})


def test_the_arithmetic_steps_are_those_of_the_table():
    row = next(line for line in TEXT.splitlines() if line.startswith("| `standardize`"))
    assert set(re.findall(r"`(\w+)`", row.split("|")[1])) == ARITHMETIC


def test_the_tolerances_are_those_of_the_table():
    log = {"step": "log", "base": "e", "floor": 1}
    power = {"step": "spectrum", "hann": "periodic", "output": "power"}
    decibel = power | {"output": "db", "floor": 1}
    for start, raw in (
        ("`standardize`", []),
        ("`log`", [log]),
        ("`spectrum`, m", [power]),
        ("`spectrum`, d", [decibel]),
    ):
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| {start}"))
        rtol, atol = tolerance(made(*raw))
        assert re.search(rf"\| {atol:.0e} \+ {rtol:.0e} of".replace("e-0", "e-"), row), (row, rtol, atol)
