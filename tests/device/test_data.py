"""Where the program's own files are looked for, in each of its three forms."""

import sys
from pathlib import Path

import pytest

from edge_runtime.device import data
from edge_runtime.device.data import data_folder
from edge_runtime.errors import DeviceError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "site" / "edge_runtime"
    (place / "_data" / "examples").mkdir(parents=True)
    monkeypatch.setattr(data, "_PACKAGE", place)
    return place


def test_a_checkout_has_them_beside_the_package(package: Path) -> None:
    (package.parent / "pyproject.toml").touch()
    (package.parent / "examples").mkdir()
    assert data_folder("examples") == package.parent / "examples"


def test_an_installed_copy_never_takes_another_packages_folder(package: Path) -> None:
    (package.parent / "examples").mkdir()
    assert data_folder("examples") == package / "_data" / "examples"


@pytest.mark.parametrize("place", ["edge_runtime/_data/examples", "examples"])
def test_a_frozen_program_has_its_own(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    assert package
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path / "frozen"), raising=False)
    (tmp_path / "frozen" / place).mkdir(parents=True)
    assert data_folder("examples") == tmp_path / "frozen" / place


def test_a_missing_folder_is_a_device_error(package: Path) -> None:
    with pytest.raises(DeviceError) as caught:
        data_folder("bundles")
    assert str(caught.value) == (
        f"the program's folder bundles: found none; expected {package}/_data/bundles; install edge-runtime again"
    )
