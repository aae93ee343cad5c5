from pathlib import Path

import numpy as np
import pytest

from edge_runtime.author.arrays import _target, extent, longest_runs, read_npz, take_part, take_reference
from edge_runtime.author.contract import Split, load_contract
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.outputs import Output
from tests.author.conftest import Pack

FROST = Path(__file__).parents[2] / "examples" / "frost"


def test_axes_come_to_cases_time_channels(pack: Pack) -> None:
    contract = load_contract(pack.contract)
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    part = take_part({"v": values}, Split(values="v"), contract, "data.npz")
    assert part.raw.shape == (2, 3, 2)
    assert part.raw.dtype == np.float64
    assert part.raw[1, 2, 0] == values[1, 0, 2]


def _refusal(pack: Pack, **arrays: np.ndarray) -> str:
    with pytest.raises(ConfigurationError) as caught:
        take_part(arrays, Split(values="v", target="y"), load_contract(pack.contract), "data.npz")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_wrong_with_an_array_is_named(pack: Pack) -> None:
    good = np.ones((4, 2, 3), np.float32)
    assert "no array 'v'; expected one of w, y" in _refusal(pack, w=good, y=np.ones(4))
    assert "found shape (4, 3, 2); expected (cases, 2 channel, 3 time)" in _refusal(pack, v=good.transpose(0, 2, 1))
    bad = good.copy()
    bad[2, 1, 0] = np.nan
    assert "1 NaN or infinite values, the first at [2, 1, 0]" in _refusal(pack, v=bad, y=np.ones(4))
    assert "data.npz, y: found shape (3,); expected 4 values" in _refusal(pack, v=good, y=np.ones(3))
    assert "NaN or infinite" in _refusal(pack, v=good, y=np.array([1, 2, 3, np.inf]))
    assert "expected numbers" in _refusal(pack, v=np.array(["a"]), y=np.ones(1))
    assert "expected numbers" in _refusal(pack, v=good[:0], y=np.ones(0))


def test_reference_arrays_must_have_the_same_cases(pack: Pack) -> None:
    pack.arrays("reference.npz", lambda found: found.update(tensor=found["tensor"][:-1]))
    arrays = read_npz((pack.folder / "reference.npz").read_bytes(), pack.folder / "reference.npz")
    with pytest.raises(ConfigurationError, match="tensor: found 39 cases; expected 40, as raw has"):
        take_reference(arrays, load_contract(pack.contract), "reference.npz")


@pytest.mark.parametrize("data", [b"", b"PK nothing", b"\x80\x04pickle"])
def test_no_npz_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"data\.npz: found no readable \.npz"):
        read_npz(data, Path("data.npz"))


def test_a_pickled_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", v=np.array([{}], object))
    with pytest.raises(ConfigurationError, match=r"no readable \.npz"):
        read_npz((tmp_path / "data.npz").read_bytes(), tmp_path / "data.npz")


def test_a_run_longer_than_a_window_is_seen_where_windows_move_by_one() -> None:
    series = np.array([1, 2, 2, 2, 2, 2, 3, 3, 4.0])
    windows = np.lib.stride_tricks.sliding_window_view(series, 3)[:, :, np.newaxis]
    assert longest_runs(windows) == (5,)
    assert longest_runs(windows[::2]) == (3,)
    assert longest_runs(windows[:1]) == (2,)


def test_runs_of_the_frost_training_data() -> None:
    with np.load(FROST / "data.npz") as archive:
        train = archive["train_windows"].transpose(0, 2, 1).astype(np.float64)
    assert longest_runs(train) == (13, 41, 15, 21, 14)


def test_an_extent_holds_the_decimal_that_float32_had_rounded() -> None:
    low, high = extent(np.array([-16.7, 35.6], np.float32).astype(np.float64))
    assert low <= -16.7
    assert low <= float(np.float32(-16.7))
    assert high == 35.6
    assert extent(np.array([0.1 + 0.2, 1.0])) == (0.1 + 0.2, 1.0)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("d.npz", b"", "an empty file"), ("d.npz", b"\x80\x04pickle", "another kind of file"),
        ("d.npy", b"\x93NUMPY\x01\0", "a single array, as numpy.save writes it"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_told_without_a_word_of_pickles(name: str, data: bytes, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_npz(data, Path(name))
    assert f"found no readable .npz ({why}); expected plain arrays" in str(caught.value)
    assert "pickle" not in str(caught.value)


def test_an_array_of_objects_is_told_as_that(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", a=np.array([{}, None], dtype=object))
    with pytest.raises(ConfigurationError, match=r"no readable \.npz \(an array of Python objects\)"):
        read_npz((tmp_path / "d.npz").read_bytes(), tmp_path / "d.npz")


def test_a_table_is_told_how_it_becomes_arrays_and_that_way_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.csv").write_text("a,b,y\n1,2,3\n4,5,6\n")
    with pytest.raises(ConfigurationError) as caught:
        read_npz((tmp_path / "log.csv").read_bytes(), tmp_path / "log.csv")
    line = str(caught.value)
    assert "found a table as text; expected .npz: CSV is what `init` reads, a build takes arrays" in line
    told = line.partition("convert it once: ")[2].partition(", the channels in")[0]
    monkeypatch.chdir(tmp_path)
    exec(  # noqa: S102 - the line that an author is told to run
        told.replace('("CHANNEL", "CHANNEL")', '("a", "b")').replace("TARGET", "y"), {"numpy": np}
    )
    with np.load(tmp_path / "log.npz") as found:
        assert found["train"].tolist() == [[1, 2], [4, 5]]
        assert found["train_y"].tolist() == [3, 6]


def test_a_target_of_words_that_was_read_as_numbers_is_refused_plainly() -> None:
    """What numpy.genfromtxt makes of words without ``dtype=None``."""
    output = Output(tensor="y", name="kind", meaning="m", form="label", labels=("a", "b"))
    with pytest.raises(ConfigurationError, match=r"data.npz, train_kind: found 1 NaN or infinite values"):
        _target({"train_kind": np.array([np.nan, 1.0])}, "train_kind", output, 2, "data.npz")
