"""Where the files that come with the program lie: checkout, installed copy or frozen folder; it reads none of them."""

import sys
from pathlib import Path
from typing import Literal

from edge_runtime.errors import DeviceError

_PACKAGE = Path(__file__).parents[1]


def data_folder(name: Literal["bundles", "device_profiles", "examples"]) -> Path:
    """Return the folder ``name`` as it came with this program.

    A frozen program has it beside its modules, an installed copy in ``edge_runtime/_data``, a checkout beside the
    package. Raises DeviceError where it is missing.
    """
    places = [place / name for place in _places(_PACKAGE, getattr(sys, "_MEIPASS", None))]
    for place in places:
        if place.is_dir():
            return place
    raise DeviceError(
        subject=f"the program's folder {name}",
        found="none",
        expected=" or ".join(str(place) for place in places),
        todo="install edge-runtime again",
    )


def _places(package: Path, frozen: str | None) -> list[Path]:
    if frozen is not None:
        return [Path(frozen) / "edge_runtime" / "_data", Path(frozen)]
    # Beside an installed package lie other packages, and one of them may be called `examples`.
    checkout = [package.parent] if (package.parent / "pyproject.toml").is_file() else []
    return [*checkout, package / "_data"]
