"""A built wheel carries what it needs without its repository; a device's copy needs no author's or tester's package."""

import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from edge_runtime import __version__

INFO = f"edge_runtime-{__version__}.dist-info"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    return ZipFile(next(iter(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))))


def test_carries_code_and_data(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"edge_runtime/__main__.py", "edge_runtime/py.typed"} <= names
    assert {f"edge_runtime/_data/examples/frost/{name}" for name in ("station_us_units.csv", "device.toml")} <= names
    for folder in ("device_profiles", "bundles"):
        inside = {
            f"edge_runtime/_data/{path.relative_to(ROOT)}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file()
            and not path.name.endswith(".report.html")  # git ignores what scripts/build-bundles leaves
        }
        assert inside
        assert inside <= names
    assert {name.partition("/")[0] for name in names} == {"edge_runtime", INFO}


def test_asks_for_no_more_than_it_says(wheel: ZipFile) -> None:
    metadata = Parser().parsestr(wheel.read(f"{INFO}/METADATA").decode())
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(needed) == len(project["dependencies"])
    assert [name for name in needed if name.startswith(("onnx", "torch", "cryptography"))] == []
