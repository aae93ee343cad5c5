import dataclasses
import functools
import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_runtime.author.mutate import MutationScore, Scoring, score
from edge_runtime.author.mutate_command import main
from edge_runtime.author.mutate_equal import Kin
from edge_runtime.author.mutate_judge import Judge, picked
from edge_runtime.author.mutate_kinds import KINDS, mutants
from edge_runtime.author.mutate_line import cases_of, publish, walk
from edge_runtime.author.mutate_strengthen import strengthen, strengthen_variants
from edge_runtime.author.mutate_subject import Mutant, open_subject
from edge_runtime.bundle.golden import decode, encode
from edge_runtime.errors import BundleError, ConfigurationError
from edge_runtime.run.goldens import passage
from tests.author import mutate_bundles
from tests.rig.bundles import DEWPOINT, FROST, files_of

ALL = [*mutate_bundles.EVERY, "frost", "dewpoint"]

# What must be found equal to the right line on every input, by bundle; nothing else may be.
EQUIVALENT = {
    "window": {
        *(f"constant-{share}: x, clip 1, {end} {place} {sign}{share}%" for share in (1, 2, 5) for end in ("min", "max")
          for place in range(3) for sign in "+-"),
        "unit: damp as a difference", "unit: weight in mbar for hPa", "unit: weight as a difference",
        "step: x, clip 1 left out", "step: x, clip 1 twice", "step: x, clip 1 after standardize",
    },
    "picture": {"unit: picture as a difference"},
    "state": {},
    "eight_bits": {},
    "prepared": {},
}  # fmt: skip
BEYOND = {
    "window": {f"constant-{share}: out, cold 1, off {sign}{share}%" for share in (1, 2, 5) for sign in "+-"},
}


@functools.cache
def files(name: str) -> Mapping[str, bytes]:
    return files_of({"frost": FROST, "dewpoint": DEWPOINT}[name]) if name not in mutate_bundles.EVERY else (
        mutate_bundles.EVERY[name]()
    )  # fmt: skip


@functools.cache
def scored(name: str) -> MutationScore:
    return score(files(name))


def cut(name: str, rows: list[int]) -> dict[str, bytes]:
    subject = open_subject(files(name))
    return dict(files(name)) | {subject.variant.goldens: encode(picked(subject.goldens, rows))}


@pytest.mark.parametrize("name", ALL)
def test_the_unchanged_way_is_the_line_bit_for_bit(name: str) -> None:
    subject = open_subject(files(name))
    goldens, manifest = subject.goldens, subject.manifest
    seen = walk(subject.way, cases_of(goldens, manifest))
    published = publish(subject.way, seen)
    through = passage(subject.way.model, goldens, 1 if len(manifest.batch_sizes) == 1 else 2)
    count = len(goldens)
    for group, found in ((through.tensors, seen.tensors), (through.outputs, seen.outputs)):
        for key, values in group.items():
            np.testing.assert_array_equal(values[:count], found[key])
    for at in range(len(manifest.outputs)):
        expected = [one.outputs[at].value for one in through.answers[:count]]
        assert np.array_equal(np.array(expected), published.values[at])
    flags = [[on for value in one.outputs for _, on in value.flags] for one in through.answers[:count]]
    np.testing.assert_array_equal(np.array(flags, bool).reshape(count, -1), published.flags)
    assert published.answered.all()
    assert not Judge(subject, goldens).differing(subject.way).any()
    assert Kin(subject).kinship(subject.way) == "equivalent"


def test_every_class_is_at_home_in_some_bundle() -> None:
    at_home = {kind.kind for name in ALL for kind in scored(name).kinds}
    assert at_home == {kind.name for kind in KINDS}


@pytest.mark.parametrize("name", list(mutate_bundles.EVERY))
def test_every_mutant_differs_but_those_known_to_be_equal(name: str) -> None:
    subject = open_subject(files(name))
    kin = Kin(subject)
    found: dict[str, set[str]] = {"differs": set(), "beyond": set(), "equivalent": set()}
    for mutant in mutants(subject):
        found[kin.kinship(mutant.way())].add(str(mutant))
    assert found["equivalent"] == set(EQUIVALENT[name])
    assert found["beyond"] == set(BEYOND.get(name, ()))
    assert len(found["differs"]) > len(found["equivalent"])


@pytest.mark.parametrize("name", ALL)
def test_no_two_mutants_share_a_name(name: str) -> None:
    names = [str(mutant) for mutant in mutants(open_subject(files(name)))]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["window", "eight_bits"])
def test_a_score_is_the_same_each_time(name: str) -> None:
    assert score(files(name)) == scored(name)


def test_stages_are_told_apart() -> None:
    by_kind = {kind.kind: set(kind.by_stage) for kind in scored("frost").kinds}
    assert by_kind["swap"] == {"tensor"}
    assert by_kind["sign"] == {"output"}
    assert by_kind["answer-step"] == {"answer"}
    assert {stage for kind in scored("state").kinds if kind.kind == "state" for stage in kind.by_stage} == {"tensor"}


def test_frost_cut_to_one_typical_case_scores_20_points_lower() -> None:
    answers = open_subject(files("frost")).goldens.answers["low"]
    typical = int(np.argsort(answers)[len(answers) // 2])
    alone = score(cut("frost", [typical]))
    assert alone.by_answer <= scored("frost").by_answer - 0.20
    assert alone.failures()


def test_mbar_for_hpa_is_equivalent_and_kelvin_for_celsius_is_not() -> None:
    assert "unit: station_pressure in mbar for hPa" in scored("frost").equivalent
    assert not any("in K for Cel" in name for name in scored("frost").equivalent)


def test_units_the_goldens_never_use_survive_and_are_named() -> None:
    subject = open_subject(files("window"))
    plain = [row for row, units in enumerate(subject.goldens.units) if units[0] == "Cel"]
    found = score(cut("window", plain))
    assert {"unit-step: warmth twice", "unit-step: warmth never"} <= set(found.survivors)
    assert "unit-step: warmth twice" in found.failures()[0]


def test_a_wide_tolerance_shows_and_excuses_only_what_a_stage_notices() -> None:
    manifest = json.loads(files("prepared")["manifest.json"])
    manifest["variants"][0]["tolerances"]["CPUExecutionProvider"] |= {"atol": 1e6, "rtol": 0.0}
    found = score(dict(files("prepared")) | {"manifest.json": json.dumps(manifest).encode()})
    assert found.by_answer < 0.5
    assert "swap: warmth and other" in found.tolerated
    assert found.survivors == found.unseen == ("sign: MatMul w",)
    assert found.failures()


def test_a_golden_from_another_model_is_noticed_even_unchanged() -> None:
    subject = open_subject(files("window"))
    moved = {name: values + 1e-3 for name, values in subject.goldens.answers.items()}
    judge = Judge(subject, dataclasses.replace(subject.goldens, answers=moved))
    assert judge.differing(subject.way).all()


def test_the_float32_model_is_one_mutant_more_of_an_int8_bundle() -> None:
    example = FROST.parents[1] / "examples" / "frost" / "model_fp32.onnx"
    subject = open_subject(files("frost"), float_model=example.read_bytes())
    names = [mutant.name for mutant in mutants(subject) if mutant.kind == "variant"]
    assert names == ["the float32 model"]
    [mutant] = [mutant for mutant in mutants(subject) if mutant.kind == "variant"]
    assert Judge(subject, subject.goldens).verdict(mutant).by_answer


def test_what_there_is_no_time_for_is_named_and_fails() -> None:
    subject = open_subject(files("eight_bits"))
    ticks = iter(range(1000))
    found = Scoring(subject, 5.0, clock=lambda: float(next(ticks))).score(subject.goldens).score
    assert found.total == 4
    assert len(found.unjudged) == len(list(mutants(subject))) - 4
    assert "no time for" in found.failures()[-1]


def test_a_missing_file_and_an_unknown_variant_are_refused() -> None:
    with pytest.raises(BundleError, match=r"no golden\.npz"):
        open_subject({name: data for name, data in files("window").items() if name != "golden.npz"})
    with pytest.raises(BundleError, match="no variant 'tpu'"):
        open_subject(files("window"), "tpu")


@pytest.mark.parametrize("name", ["frost", "dewpoint", "window", "picture", "state"])
def test_one_case_is_strengthened_to_the_bar(name: str) -> None:
    subject = open_subject(files(name))
    first = cut(name, [0])
    nothing = np.empty((0, subject.goldens.raw.shape[1], subject.manifest.width))
    made = strengthen(first, nothing)
    assert made.score.failures() == ()
    assert made.from_data == 0
    assert made.from_drawn > 0
    goldens = decode(made.files["golden.npz"], subject="golden.npz")
    assert len(goldens) == 1 + made.from_drawn
    assert made.files["manifest.json"] == first["manifest.json"]
    for values in goldens.references.values():
        assert np.isnan(values[1:]).all()


def test_the_same_cases_are_added_each_time() -> None:
    subject = open_subject(files("picture"))
    nothing = np.empty((0, 1, subject.manifest.width))
    assert strengthen(cut("picture", [0]), nothing) == strengthen(cut("picture", [0]), nothing)


def test_the_authors_data_comes_before_what_is_drawn() -> None:
    data = np.random.default_rng(1).uniform([0, 20, 960], [25, 90, 1030], (200, 4, 3))
    data[0] = np.nan
    data[1] = 5000.0
    made = strengthen(cut("window", [0]), data)
    assert made.from_data > 0
    assert made.score.failures() == ()


def test_without_cases_to_add_the_bar_is_not_met() -> None:
    made = strengthen(cut("window", [0]), np.empty((0, 4, 3)), max_added=1)
    assert made.from_drawn == 1
    assert any("must be noticed" in line for line in made.score.failures())


def test_every_variant_is_strengthened_by_itself() -> None:
    units = open_subject(files("prepared")).goldens.units
    first = cut("prepared", [next(row for row, pair in enumerate(units) if "Cel" in pair)])
    manifest = json.loads(first["manifest.json"])
    [variant] = manifest["variants"]
    manifest["variants"].append(variant | {"name": "second", "model": "second.onnx", "goldens": "second.npz"})
    manifest["must_understand"] = sorted({*manifest["must_understand"], "variants"})
    twice = first | {
        "manifest.json": json.dumps(manifest).encode(), "second.onnx": first["model.onnx"],
        "second.npz": first["golden.npz"],
    }  # fmt: skip
    made = strengthen_variants(twice, np.empty((0, 2, 2)))
    assert list(made.scores) == ["cpu_float32", "second"]
    assert made.failures() == ()
    assert made.files["golden.npz"] == made.files["second.npz"] != first["golden.npz"]
    weak = strengthen_variants(twice, np.empty((0, 2, 2)), budget_s=1e-9)
    assert [line.split(",")[0] for line in weak.failures()] == ["cpu_float32", "second"]


def test_a_model_that_cannot_run_gives_no_answer() -> None:
    subject = open_subject(files("prepared"))
    other = mutate_bundles.window()["model.onnx"]
    judge = Judge(subject, subject.goldens)
    assert judge.verdict(Mutant("variant", "other", lambda: subject.with_model(other))) == ("boot", True)
    assert judge.verdict(Mutant("variant", "no model", lambda: subject.with_model(b"no"))) == ("boot", True)


def test_a_case_without_an_answer_differs() -> None:
    subject = open_subject(files("picture"))
    blind = dataclasses.replace(subject.way, tensors=lambda fed: {n: _holed(v) for n, v in fed.items()})
    differing = Judge(subject, subject.goldens).differing(blind)
    assert differing[1]
    assert not np.delete(differing, 1).any()


def _holed(values: NDArray[np.float32]) -> NDArray[np.float32]:
    holed = values.copy()
    holed[1] = np.nan
    return holed


def test_candidates_of_another_length_are_refused() -> None:
    with pytest.raises(BundleError, match="candidates for goldens"):
        strengthen(files("window"), np.zeros((5, 3, 3)))


def _arguments(bundle: Path, **changes: object) -> Namespace:
    return Namespace(**({"bundle": str(bundle), "json": False, "float": None, "seconds": 120.0} | changes))


def test_the_command_prints_a_table_and_says_whether_the_bar_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(_arguments(DEWPOINT))
    said = capsys.readouterr()
    assert code == (1 if scored("dewpoint").failures() else 0)
    assert "goldens notice" in said.out
    assert "station_pressure in mbar for hPa" in said.out
    assert ("bar met" in said.out) == (code == 0)
    assert "trying the mutants of" in said.err


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(_arguments(DEWPOINT, json=True))
    [found] = json.loads(capsys.readouterr().out).values()
    assert found == json.loads(json.dumps(scored("dewpoint").as_json()))


def test_the_command_refuses_a_float_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--float"):
        main(_arguments(DEWPOINT, float=str(tmp_path / "none.onnx")))
