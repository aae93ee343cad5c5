import dataclasses
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.author.passes import answer_rows, batch_axes, filled, outputs_for, through
from edge_runtime.bundle.golden import Goldens, decode
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError
from edge_runtime.flow.model import Model
from edge_runtime.run.goldens import passage
from edge_runtime.spec.manifest import parse

BUNDLES = Path(__file__).parents[2] / "bundles"
NAMES = sorted(one.name for one in BUNDLES.iterdir() if one.is_dir())


def opened(name: str) -> tuple[Model, Goldens]:
    folder = BUNDLES / name
    manifest = parse((folder / "manifest.json").read_bytes())
    variant = manifest.variants[0]
    takes_nan = any(channel.when_missing == "pass" for channel in manifest.channels)
    session = open_session((folder / variant.model).read_bytes(), takes_nan=takes_nan)
    goldens = decode((folder / variant.goldens).read_bytes(), subject=name)
    return Model(manifest, variant, "", session), goldens


def in_contract_units(model: Model, goldens: Goldens) -> Goldens:
    """Only the cases whose units are the contract's, since `through` converts nothing."""
    own = tuple(channel.unit for channel in model.manifest.channels)
    rows = [at for at, units in enumerate(goldens.units) if units == own]
    assert rows
    cut = {
        group: {name: values[rows] for name, values in getattr(goldens, group).items()}
        for group in ("tensors", "outputs", "references", "answers", "flags")
    }
    return dataclasses.replace(goldens, raw=goldens.raw[rows], units=tuple(goldens.units[at] for at in rows), **cut)


@pytest.mark.parametrize("name", NAMES)
def test_many_cases_at_once_are_what_the_line_makes_of_each(name: str) -> None:
    """The build measures and chooses by `through`; what is stored and served goes through the line: they must agree."""
    model, goldens = opened(name)
    some = in_contract_units(model, goldens)
    found, line = through(model, some.raw), passage(model, some, 1)
    for group in ("tensors", "outputs"):
        ours, theirs = getattr(found, group), getattr(line, group)
        assert ours.keys() == theirs.keys()
        for key, values in ours.items():
            if values.dtype.kind in "fiu":
                assert np.allclose(values, theirs[key], rtol=1e-5, atol=1e-6, equal_nan=True), key
            else:
                assert (values == theirs[key]).all()
    answers, _ = answer_rows(model.manifest, some.outputs)
    for key, stored in some.answers.items():
        assert (answers[key] == stored).all()


def test_a_state_is_moved_where_the_model_has_its_batch() -> None:
    model, goldens = opened("tiny_gru")
    assert batch_axes(model.manifest) == {"h": 1, "h_next": 1}
    for size in (1, 4, 64):
        found = outputs_for(model, goldens.tensors, size)
        assert found["h_next"].shape == goldens.outputs["h_next"].shape
        assert np.allclose(found["loss"], goldens.outputs["loss"], atol=1e-5)


def test_what_is_missing_is_held_filled_in_or_passed_on() -> None:
    nan = np.nan
    pump, mill, trees = (opened(name)[0].manifest for name in ("tiny_pump", "tiny_mill", "tiny_trees"))
    held = filled(pump, np.array([[[60.0, 3.0], [nan, 3.1], [nan, 3.2], [61.0, 3.3]]]))
    assert held[0, :, 0].tolist() == [60.0, 60.0, 60.0, 61.0]
    assert filled(mill, np.array([[[0.0, 1.0, nan]]])).tolist() == [[[0.0, 1.0, 3000.0]]]
    assert np.isnan(filled(trees, np.array([[[nan, 50.0]]]))[0, 0, 0])


def test_an_answer_no_device_would_publish_is_one_line() -> None:
    model, goldens = opened("tiny_gru")
    spoilt = {**goldens.outputs, "loss": np.full_like(goldens.outputs["loss"], np.nan)}
    with pytest.raises(BundleError, match="answer to case 0: found NaN or infinity from the model"):
        answer_rows(model.manifest, spoilt)
