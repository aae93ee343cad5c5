"""Where the third-party models and recordings lie, if they are here; it reads none of them."""

import os
from pathlib import Path

import pytest

from tests.rig.bundles import ROOT

VARIABLE = "EDGE_RUNTIME_SHARED"


def third_party(*parts: str) -> Path:
    """The path of one of them. Without the folder: a skip with the reason; a folder that cannot be read fails CI."""
    named = os.environ.get(VARIABLE)
    shared = Path(named) if named else ROOT.parent / "shared"
    if not shared.exists():
        pytest.skip(f"no third-party models or recordings: {shared} is not there (or set {VARIABLE})")
    path = shared.joinpath("third_party", *parts)
    try:
        with path.open("rb") as stream:
            stream.read(1)
    except IsADirectoryError:
        pass
    except OSError as error:
        words = f"{path} cannot be read: {error.strerror}"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(words)
    return path
