"""The seeded trial: faults put into every stage of the shipped bundles, and what `explain` says of each."""

from pathlib import Path

import pytest

from tests.author.bisect_trial import Trial, trial

_SEED = 6


def _ran(each: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> Trial:
    found = trial(_SEED, each, folder, lambda: capsys.readouterr().out)
    capsys.readouterr()
    print(found)  # noqa: T201 -- the figures, for who runs it with -s
    return found


@pytest.mark.long
def test_sixty_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _ran(20, tmp_path, capsys)
    assert found.count == 60
    assert found.stages == 60, str(found)
    assert found.nodes >= 54, str(found)


def test_twelve_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _ran(4, tmp_path, capsys)
    assert (found.count, found.stages, found.nodes) == (12, 12, 12), str(found)
