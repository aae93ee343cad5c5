"""Shipped files are found in a checkout and in an installed copy."""

from pathlib import Path

import pytest

from edge_runtime.run import shipped as module
from edge_runtime.run.shipped import shipped

ROOT = Path(__file__).parents[2]


def test_checkout() -> None:
    assert shipped("examples/frost/station_us_units.csv") == ROOT / "examples/frost/station_us_units.csv"
    assert shipped("device_profiles").is_dir()


def test_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_data").mkdir()
    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    assert shipped("bundles/frost") == tmp_path / "_data/bundles/frost"
