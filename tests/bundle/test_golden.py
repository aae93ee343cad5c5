from dataclasses import replace

import numpy as np
import pytest

from edge_runtime.bundle.arrays import read_arrays, write_arrays
from edge_runtime.bundle.golden import Goldens, decode, encode
from edge_runtime.errors import BundleError


def goldens(cases=3):
    return Goldens(
        channels=("a", "b"),
        raw=np.arange(cases * 4, dtype=np.float64).reshape(cases, 2, 2),
        units=(("Cel", "%"),) * cases,
        tensors={"x": np.zeros((cases, 2, 2), dtype=np.float32)},
        outputs={"y": np.ones((cases, 1), dtype=np.float32)},
        references={"y": np.full((cases, 1), np.nan)},
        answers={"mean": np.ones(cases)},
        answer_units={"mean": "Cel"},
        flags={"mean.cold": np.zeros(cases, dtype=np.bool_)},
    )


def arrays():
    one = goldens()
    return {
        "channels": np.array(one.channels), "raw": one.raw, "units": np.array(one.units), "tensors/x": one.tensors["x"],
        "outputs/y": one.outputs["y"], "answers/mean": one.answers["mean"], "flags/mean.cold": one.flags["mean.cold"],
    }  # fmt: skip


def test_goldens_survive_their_own_bytes_and_equal_ones_give_equal_bytes():
    back = decode(encode(goldens()), subject="golden.npz")
    assert encode(back) == encode(goldens())
    assert back.channels == ("a", "b")
    assert back.units == goldens().units
    assert len(back) == 3
    assert np.isnan(back.references["y"]).all()


def test_each_value_keeps_a_unit_of_its_own():
    one = replace(goldens(), units=(("Cel", "%"), ("K", "%"), ("[degF]", "%")))
    assert decode(encode(one), subject="g").units == one.units


@pytest.mark.parametrize(("key", "value"), [
    ("raw", None), ("channels", None), ("units", None),
    ("raw", np.zeros((3, 2))), ("raw", np.zeros((3, 2, 2), dtype=np.float32)), ("channels", np.array(["a", "b", "c"])),
    ("channels", np.array([["a", "b"]])),
    ("channels", np.zeros(2)), ("units", np.array(["Cel", "%"])), ("units", np.zeros((3, 2))),
    ("tensors/x", np.zeros((2, 2, 2), dtype=np.float32)), ("answers/mean", np.zeros(3, dtype=np.float32)),
    ("answers/mean", np.zeros((3, 1, 1))), ("answers/mean", np.array([["x"]] * 3)),
    ("flags/mean.cold", np.zeros(3)), ("secrets/x", np.zeros(3)), ("tensors/", np.zeros(3)),
    ("tensors/x", np.array(1.0)), ("answer_units/mean", np.array(["Cel", "K"])), ("answer_units/", np.array(["Cel"])),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(key, value):
    changed = arrays()
    changed.pop(key, None)
    if value is not None:
        changed[key] = value
    with pytest.raises(BundleError, match=r"golden\.npz"):
        decode(write_arrays(changed), subject="golden.npz")


def test_an_array_channel_a_label_and_a_vector_survive():
    one = replace(
        goldens(), channels=("picture",), raw=np.arange(24.0).reshape(3, 2, 4), units=(("1",),) * 3,
        answers={"mean": np.array(["yes", "no", "yes"]), "scores": np.arange(6.0).reshape(3, 2)},
    )  # fmt: skip
    back = decode(encode(one), subject="g")
    assert back.raw.shape == (3, 2, 4)
    assert back.answers["mean"].tolist() == ["yes", "no", "yes"]
    assert back.answers["scores"].shape == (3, 2)


@pytest.mark.parametrize(
    ("group", "change"),
    [
        ("tensors", lambda values: values.astype("<U5")),
        ("tensors", lambda values: values + np.inf),
        ("outputs", lambda values: values * np.inf),
        ("outputs", lambda values: values * np.nan),
        ("references", lambda values: np.zeros((len(values), 7, 3))),
    ],
)
def test_what_no_comparison_could_be_made_with_is_refused(group, change):
    parts = dict(read_arrays(encode(goldens()), subject="golden.npz", max_bytes=1 << 20))
    key = next(name for name in parts if name.startswith(f"{group}/"))
    parts[key] = change(parts[key])
    with pytest.raises(BundleError, match=group):
        decode(write_arrays(parts), subject="golden.npz")
