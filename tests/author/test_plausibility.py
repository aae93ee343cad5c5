"""`[plausibility]` of a contract: what the training data make of it, how often it flags them, and what is refused."""

import re
import tomllib
from collections.abc import Callable

import numpy as np
import pytest

from edge_runtime.author.build import Build, build
from edge_runtime.author.build_report import report_of
from edge_runtime.author.false_alarms import FalseAlarms, warnings_of
from edge_runtime.author.plausibility_asked import AskedPlausibility
from edge_runtime.author.record import encode_record
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.result import CONSTANT, DRIFTED, FLAG_NAMES, SHIFTED, STEP
from tests.author.conftest import Pack
from tests.rig.bundles import ROOT


def _build(pack: Pack) -> Build:
    return build(pack.contract, None, lambda _: None, strengthens=False)


def _manifest(made: Build) -> Manifest:
    return parse(made.files["manifest.json"])


def _ask(pack: Pack, table: str) -> None:
    pack.edit("[needs]", f"[plausibility]\n{table}\n\n[needs]")


def _joined(pack: Pack, part: str, change: Callable[[np.ndarray], np.ndarray] = lambda values: values) -> np.ndarray:
    """Make the cases of a part the windows of one series, and give that series, (samples, 2)."""
    kept = {}

    def windows(arrays: dict[str, np.ndarray]) -> None:
        series = change(arrays[part][:, :, -1].astype(np.float64))
        cases = np.stack([series[at : at + 3].T for at in range(len(series) - 2)])
        arrays[part] = np.concatenate([cases, cases[:2] + 0.25]).astype(np.float32)  # as many cases as targets
        kept["series"] = series.astype(np.float32).astype(np.float64)

    pack.arrays("data.npz", windows)
    return kept["series"]


def test_without_the_table_nothing_is_there(pack: Pack) -> None:
    made = _build(pack)
    assert b"plausibility" not in made.files["manifest.json"]
    assert b"plausibility" not in encode_record(made.record)
    assert b"against training" not in report_of(made)


def test_the_limits_are_those_of_the_training_data(pack: Pack) -> None:
    series = _joined(pack, "train")
    _ask(pack, "step = { factor = 2.0 }\nshifted = { k = 1.0, h = 5.0 }\ndrifted = { samples = 60, bins = 4 }")
    made = _build(pack)
    assert made.failures == ()
    manifest = _manifest(made)
    assert manifest.must_understand == ("plausibility",)
    asked = manifest.plausibility
    assert asked is not None
    assert asked.step is not None
    assert asked.shifted is not None
    assert asked.drifted is not None
    fastest = np.abs(np.diff(series, axis=0)).max(axis=0) * 2.0 / 60
    extra = 1 + 1e-12  # the two cases beside the series are no faster
    assert asked.step.limits["air_temperature"] == pytest.approx(fastest[0], rel=1e-6)
    assert asked.step.limits["relative_humidity"] <= fastest[1] * extra
    blocks = np.array([series[at : at + 3].mean(axis=0) for at in range(0, len(series) - 2, 3)])
    level = asked.shifted.means["air_temperature"]
    assert (asked.shifted.samples, asked.shifted.k, asked.shifted.h) == (3, 1.0, 5.0)
    assert level.mean == pytest.approx(blocks[:, 0].mean(), rel=0.02)
    assert level.std == pytest.approx(blocks[:, 0].std(ddof=1), rel=0.05)
    bins = asked.drifted.bins["relative_humidity"]
    assert len(bins.shares) == 4
    assert bins.shares == pytest.approx([0.25] * 4, abs=0.02)
    assert set(bins.edges) <= {float(value) for value in np.concatenate([series[:, 1], series[:4, 1] + 0.25])}


def test_a_pile_of_equal_values_is_one_bin_and_one_that_never_moves_is_left_out(pack: Pack) -> None:
    def night(series: np.ndarray) -> np.ndarray:
        series[: len(series) // 2, 0] = 0.0
        series[:, 1] = 50.0
        return series

    _joined(pack, "train", night)
    _ask(pack, "step = {}\ndrifted = { samples = 60 }")
    asked = _manifest(_build(pack)).plausibility
    assert asked is not None
    assert asked.drifted is not None
    assert asked.drifted.bins["air_temperature"].shares[0] < 0.35  # what is below zero
    assert max(asked.drifted.bins["air_temperature"].shares) > 0.45


def test_only_the_channels_named_are_watched(pack: Pack) -> None:
    _ask(pack, 'channels = ["relative_humidity"]\nstep = {}\nconstant = { after = 9 }')
    asked = _manifest(_build(pack)).plausibility
    assert asked is not None
    assert asked.step is not None
    assert list(asked.step.limits) == ["relative_humidity"]
    assert asked.constant is not None
    assert asked.constant.after == 9


def test_two_builds_are_equal_and_the_record_and_the_page_tell_how_often_it_flags(pack: Pack) -> None:
    _ask(pack, "step = {}\nshifted = {}\ndrifted = { samples = 60 }\nconstant = { after = 5 }")
    first, second = _build(pack), _build(pack)
    assert first.files == second.files
    alarms = first.record.plausibility
    assert alarms is not None
    assert list(alarms) == ["step", "shifted", "drifted", "constant"]
    assert alarms["step"] == FalseAlarms(train=0.0, test=0.0)
    assert alarms["constant"] == FalseAlarms(train=0.0, test=0.0)
    page = report_of(first).decode()
    assert "What is flagged against training" in page
    assert page.count("0.00%") >= 4


def test_a_flag_that_test_data_set_off_is_warned_of(pack: Pack) -> None:
    _joined(pack, "train")

    def moved(series: np.ndarray) -> np.ndarray:
        series[:, 0] += 60.0 * (np.arange(len(series)) % 10 == 5)
        return series.clip(-59, 59)

    _joined(pack, "test", moved)
    _ask(pack, 'channels = ["air_temperature"]\nstep = { factor = 1.0 }')
    (warning,) = [line for line in _build(pack).record.warnings if line.startswith("plausibility")]
    assert warning.startswith("plausibility.step: flags 0.0% of the answers to the training data and ")
    assert "expected 1% at most" in warning


def test_the_page_shows_a_table_that_can_be_written() -> None:
    page = (ROOT / "docs/plausibility.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    asked = AskedPlausibility.model_validate(tomllib.loads(block)["plausibility"])
    defaults = AskedPlausibility.model_validate({"step": {}, "shifted": {}, "drifted": {}})
    assert (asked.step, asked.drifted) == (defaults.step, defaults.drifted)
    for name in AskedPlausibility.model_fields.keys() - {"channels"}:
        assert f"| `{name}` |" in page
    flags = {STEP, SHIFTED, DRIFTED, CONSTANT}
    assert {FLAG_NAMES[bit] for bit in flags} == AskedPlausibility.model_fields.keys() - {"channels"}


def test_where_the_data_cannot_tell_it_is_said() -> None:
    assert list(warnings_of({"drifted": FalseAlarms(), "step": FalseAlarms(train=0.01, test=0.0)})) == []
    (line,) = warnings_of({"shifted": FalseAlarms(train=0.5)})
    assert "flags 50.0% of the answers to the training data; expected" in line


@pytest.mark.parametrize(("table", "words"), [
    ("", "nothing to watch: name step, shifted, drifted or constant"),
    ("stepp = {}", "unknown key 'stepp'; expected 'step' perhaps"),
    ("step = { factor = 0.5 }", "plausibility.step.factor: found 0.5; expected greater"),
    ("constant = {}", "plausibility.constant.after: found nothing"),
    ('channels = ["wind"]\nstep = {}', "plausibility.channels: found 'wind'; expected air_temperature or relative"),
    ("shifted = { samples = 90 }", "plausibility.shifted: found 0 blocks of 90 samples of air_temperature; expected 8"),
])  # fmt: skip
def test_what_cannot_be_watched_is_refused_in_one_line(pack: Pack, table: str, words: str) -> None:
    _ask(pack, table)
    with pytest.raises(ConfigurationError) as refused:
        _build(pack)
    assert words in str(refused.value)


def test_a_rate_needs_a_pace(pack: Pack) -> None:
    pack.edit("period_s = 60", "")
    _ask(pack, "step = {}")
    with pytest.raises(ConfigurationError, match=r"plausibility\.step: found no window\.period_s"):
        _build(pack)


def test_data_that_never_move_are_refused(pack: Pack) -> None:
    def still(arrays: dict[str, np.ndarray]) -> None:
        arrays["train"][:] = arrays["train"][:, :, :1]  # it differs from case to case, never within one

    pack.arrays("data.npz", still)
    _ask(pack, "step = {}")
    with pytest.raises(ConfigurationError, match=r"plausibility\.step: found training data in which no channel does"):
        _build(pack)
