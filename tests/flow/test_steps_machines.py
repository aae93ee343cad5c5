"""The same bits on other machines, as far as one machine can show it: numpy with and without its vector instructions.

`python tests/flow/test_steps_machines.py FILE` writes what each step gives to FILE.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from edge_runtime.spec.steps import ARITHMETIC, tolerance
from tests.rig.steps import SECTIONS, made, run

ROOT = Path(__file__).parents[2]
CASES = (
    ((200, 3), {"step": "standardize", "mean": [0.1, 0.2, 0.3], "std": [1.1, 2.2, 3.3]}),
    ((200, 3), {"step": "min_max", "min": [0.1, 0.2, 0.3], "max": [1.1, 2.2, 3.3]}),
    ((200, 3), {"step": "clip", "min": [-9.1, 0.2, 0.3], "max": [1.1, 2.2, 3.3]}),
    ((200, 3), {"step": "scale", "a": 0.37, "b": 0.11}),
    ((200, 3), {"step": "log", "base": "e", "offset": 200, "floor": 1}),
    ((200, 3), {"step": "log", "base": "2", "offset": 200, "floor": 1}),
    ((200, 3), {"step": "log", "base": "10", "offset": 200, "floor": 1}),
    ((200, 3), {"step": "lookup", "channel": 1, "keys": [1, 2], "values": [0.1, 0.2], "otherwise": 0.3}),
    ((200, 3), {"step": "one_hot", "channel": 1, "count": 3}),
    ((200, 3), {"step": "lag", "lags": [5, 0]}),
    ((200, 3), {"step": "difference", "order": 3}),
    ((200, 3), {"step": "filter", "sections": SECTIONS, "initial": "steady"}),
    ((200, 3), {"step": "spectrum", "hann": "periodic", "output": "magnitude"}),
    ((200, 3), {"step": "spectrum", "hann": "symmetric", "output": "power"}),
    ((200, 3), {"step": "spectrum", "hann": "periodic", "output": "db", "floor": 1e-6}),
    ((3, 200), {"step": "snv", "ddof": 1}),
    ((3, 200), {"step": "savitzky_golay", "window": 11, "polyorder": 3, "derivative": 1, "along": "sample"}),
    ((3, 200), {"step": "resample", "source": list(range(200)), "target": [0.37 * x for x in range(500)]}),
    ((1, 47, 33, 3), {"step": "resize", "height": 12, "width": 17, "method": "area"}),
    ((1, 47, 33, 3), {"step": "resize", "height": 62, "width": 17, "method": "bilinear"}),
    ((1, 47, 33, 3), {"step": "colours", "to": "bgr"}),
    ((1, 47, 33, 3), {"step": "colours", "to": "gray", "weights": [0.299, 0.587, 0.114]}),
)


def results():
    chance = np.random.default_rng(17)
    return [run(chance.uniform(-100, 100, (8, *shape)), raw) for shape, raw in CASES]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """What each case gives where numpy may use nothing beyond its baseline."""
    found = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    if not found:
        return None
    target = tmp_path_factory.mktemp("plain") / "results.npz"
    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(found), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, __file__, str(target)], env=os.environ | plain, check=True, timeout=120)
    with np.load(target) as stored:
        return [stored[f"arr_{index}"] for index in range(len(CASES))]


def test_the_cases_have_every_step():
    assert {raw["step"] for _, raw in CASES} == ARITHMETIC | {"log", "spectrum"}


def test_arithmetic_steps_are_equal_bit_for_bit_and_the_others_within_their_tolerance(elsewhere, need):
    need(elsewhere, "a CPU for which numpy has more than its baseline")
    for (_, raw), here, there in zip(CASES, results(), elsewhere, strict=True):
        if raw["step"] in ARITHMETIC:
            assert here.tobytes() == there.tobytes(), raw
        else:
            rtol, atol = tolerance(made(raw))
            assert np.allclose(here, there, rtol=rtol / 1000, atol=atol / 1000), raw


if __name__ == "__main__":
    np.savez(sys.argv[1], *results())
