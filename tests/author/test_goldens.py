from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.author.cases import choose_cases, corners, negative_goldens
from edge_runtime.author.goldens import default_units, make_goldens
from edge_runtime.bundle.golden import Goldens, decode, encode
from edge_runtime.flow.model import Model
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel, Window
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.units import conversion, resolve

BUNDLES = Path(__file__).parents[2] / "bundles"


def _channel(name: str = "t", unit: str = "Cel", **more: object) -> Channel:
    bands = {"tolerated": Band(min=-30, max=45), "trained": Band(min=-10, max=30), "physical": Band(min=-60, max=60)}
    return Channel(name=name, unit=unit, **(bands | more))


def _bundle(name: str) -> tuple[Manifest, Goldens]:
    folder = BUNDLES / name
    manifest = parse((folder / "manifest.json").read_bytes())
    return manifest, decode((folder / "golden.npz").read_bytes(), subject=name)


@given(count=st.integers(1, 9), length=st.integers(1, 30))
def test_corners_reach_every_end_and_never_stand_still(count: int, length: int) -> None:
    channels = [_channel(f"c{at}") for at in range(count)]
    found = corners(channels, length)
    assert found.shape[1:] == (length, count)
    assert (found >= -30).all()
    assert (found <= 45).all()
    first = found[:, 0]
    assert (first.min(axis=0) == -30).all()
    assert (first.max(axis=0) == 45).all()
    for one in range(count):
        for other in range(one):
            pairs = set(zip(first[:, one], first[:, other], strict=True))
            assert pairs == {(-30, -30), (45, 45), (-30, 45), (45, -30)}
    assert (found[:, 1:] != found[:, :-1]).all()


@pytest.mark.parametrize("name", ["frost", "dewpoint"])
def test_every_value_comes_back_from_its_own_unit(name: str) -> None:
    manifest, goldens = _bundle(name)
    channels = manifest.channels
    for case, units in enumerate(goldens.units):
        for at, (channel, code) in enumerate(zip(channels, units, strict=True)):
            have, want = resolve(code), resolve(channel.unit)
            there = conversion(have, want)
            back = conversion(want, have)
            values = goldens.raw[case, :, at]
            contract = there.a * values + there.b
            assert (contract >= channel.physical.min).all()
            assert (contract <= channel.physical.max).all()
            again = back.a * contract + back.b
            assert np.allclose(again, values, rtol=1e-12, atol=1e-12 * abs(channel.physical.max))


@pytest.mark.parametrize("name", ["frost", "dewpoint"])
def test_tensors_come_from_the_values_in_their_own_units_to_the_last_bit(name: str) -> None:
    manifest, goldens = _bundle(name)
    model_input = manifest.inputs[0]
    contract = goldens.raw.copy()
    for case, units in enumerate(goldens.units):
        for at, (channel, code) in enumerate(zip(model_input.channels, units, strict=True)):
            a, b = conversion(resolve(code), resolve(channel.unit))
            contract[case, :, at] = a * goldens.raw[case, :, at] + b
    (step,) = manifest.inputs[0].steps
    tensor = (contract - np.array(step.mean)) / np.array(step.std)
    tensor = tensor.transpose(0, 2, 1) if manifest.window else tensor[:, 0]
    assert np.array_equal(goldens.tensors[model_input.tensor], tensor.astype(np.float32))


def test_frost_goldens_hold_what_they_must() -> None:
    manifest, goldens = _bundle("frost")
    assert len(goldens) == 33
    chosen = goldens.units[:32]  # the last one was added for the mutants, in units of its own
    assert chosen[0] == ("Cel", "%", "hPa", "m/s", "W/m2")
    assert {row[0] for row in chosen} == {"Cel", "[degF]", "K"}
    assert {row[2] for row in chosen} == {"hPa", "[in_i'Hg]", "mbar", "kPa"}
    assert {row[3] for row in chosen} == {"m/s", "[mi_i]/h", "km/h", "[kn_i]"}
    framework = goldens.references["low"][:, 0]
    assert np.isnan(framework).sum() == 9
    assert np.isnan(framework[-9:]).all()
    assert goldens.flags["low.frost"].any()
    assert not goldens.flags["low.frost"].all()
    with np.load(BUNDLES.parent / "examples" / "frost" / "reference.npz") as archive:
        answered = archive["torch_output"]
        tensor = archive["tensor"]
    assert np.isin(framework[:-9], answered).all()
    for row, value in enumerate(framework[:-9]):
        recorded = tensor[np.flatnonzero(answered[:, 0] == value)[0]]
        assert np.abs(goldens.tensors["window"][row] - recorded).max() < 1e-5
    assert abs(goldens.answers["low"] - 2.0).min() < 1.0
    low = manifest.outputs[0].postprocess[0]
    assert np.array_equal(goldens.answers["low"], goldens.outputs["low"][:, 0].astype(float) * low.std + low.mean)


def test_the_most_extreme_answers_and_those_at_a_threshold_are_chosen() -> None:
    manifest, _ = _bundle("frost")
    answers = np.random.default_rng(5).uniform(-5, 30, 64)
    cases = choose_cases(manifest, np.zeros((64, 24, 5)), {"low": answers}, 32, corners(manifest.channels, 24))
    assert len(cases.raw) == len(cases.origin) == 32
    picked = cases.origin[:24]
    assert cases.origin[24:] == (-1,) * 8
    assert len(set(picked)) == 24
    assert {int(answers.argmin()), int(answers.argmax())} <= set(picked)
    assert int(np.abs(answers - 2.0).argmin()) in picked
    assert int(np.abs(answers - 2.5).argmin()) in picked


def test_few_reference_cases_are_all_taken() -> None:
    manifest, _ = _bundle("frost")
    ends = corners(manifest.channels, 24)
    found = choose_cases(manifest, np.zeros((5, 24, 5)), {"low": np.arange(5.0)}, 32, ends)
    assert found.origin == (0, 1, 2, 3, 4, *[-1] * 8)


def test_a_corner_that_would_round_out_of_the_physical_band_stays_in_the_contracts_unit() -> None:
    manifest, _ = _bundle("dewpoint")
    # 0.1 Cel is no float, and neither is what it is in degF: some such end comes back a rounding lower.
    bands = [Band(min=-60 + at / 7, max=60) for at in range(60)]
    moved = 0
    for narrow in bands:
        channels = tuple(
            channel.model_copy(update={"physical": narrow, "tolerated": narrow} if channel.unit == "Cel" else {})
            for channel in manifest.channels
        )
        model_input = manifest.inputs[0].model_copy(update={"channels": channels})
        narrowed = manifest.model_copy(update={"inputs": (model_input,)})
        ends = corners(channels, 1)
        cases = choose_cases(narrowed, np.array([[[0.0, 50.0, 1000.0]]]), {"dew_point": np.zeros(1)}, 7, ends)
        model = Model(narrowed, narrowed.variants[0], "", lambda feeds: {"dew_point": feeds["reading"][:, :1]})
        made = make_goldens(model, cases, {"dew_point": np.zeros((1, 1), np.float32)}, {})
        to = [conversion(resolve(row[0]), resolve("Cel")) for row in made.units]
        values = [one.a * raw + one.b for one, raw in zip(to, made.raw[:, 0, 0], strict=True)]
        assert min(values) >= narrow.min
        turns = default_units(channels[0])
        moved += sum(row[0] != turns[case % len(turns)] for case, row in enumerate(made.units))
    assert moved > 0


def test_default_units_begin_with_the_contracts() -> None:
    assert default_units(_channel()) == ("Cel", "K", "[degF]", "[degR]")
    assert default_units(_channel(unit="[pH]")) == ("[pH]",)


def test_negative_goldens_cover_each_fault_that_applies() -> None:
    window = Window(length=3, period_s=60)
    found = negative_goldens([_channel("a"), _channel("b")], window)
    assert {(one.fault, one.expect) for one in found} == {
        ("not_a_number", "not_finite"), ("infinite", "not_finite"), ("missing", "missing"),
        ("dimension", "wrong_dimension"), ("unknown_unit", "unknown_unit"), ("beyond", "beyond_physical"),
        ("undeclared", "undeclared_unit"), ("gap", "gap"), ("back", "time_back"),
    }  # fmt: skip
    assert {one.channel for one in found} == {"a", "b", None}
    faults = {one.fault for one in negative_goldens([_channel(when_undeclared="assume")], None)}
    assert not faults & {"undeclared", "gap", "back"}
    assert "gap" not in {one.fault for one in negative_goldens([_channel()], Window(length=3))}


def test_goldens_survive_their_container() -> None:
    _, goldens = _bundle("frost")
    assert encode(goldens) == (BUNDLES / "frost" / "golden.npz").read_bytes()
