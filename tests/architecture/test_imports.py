"""The floors hold, and a command's help costs no heavy import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "onnxruntime", "pydantic", "paho", "asyncio", "serial", "onnx", "importlib.metadata"}


def imported_by(*words: str, **environment: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "edge_runtime", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | environment)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def heavy(modules: set[str]) -> set[str]:
    return {module for module in modules if any(module == name or module.startswith(f"{name}.") for name in HEAVY)}


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("run", "--help"), ("config", "show", "--help")])
def test_help_and_version_import_nothing_heavy(words: tuple[str, ...]) -> None:
    modules = imported_by(*words)
    assert "edge_runtime.cli" in modules
    assert heavy(modules) == set()


def test_the_import_list_would_show_a_heavy_one() -> None:
    command = [sys.executable, "-X", "importtime", "-c", "import serial"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert heavy({line.rpartition("|")[2].strip() for line in done.stderr.splitlines()})


def test_a_boot_loads_pydantics_plugins_only_where_the_user_wants_them() -> None:
    boot = ("selftest", "--bundle", "bundles/frost")
    modules = imported_by(*boot)
    assert "pydantic.types" in modules
    assert modules & {"importlib.metadata", "email.message", "pydantic.plugin._loader"} == set()
    assert "importlib.metadata" in imported_by(*boot, PYDANTIC_DISABLE_PLUGINS="one-of-them")


def test_what_stands_for_pydantics_plugins_makes_way_for_more_than_that() -> None:
    code = (
        "import sys; from edge_runtime import __main__ as entry;"
        "sys.modules[entry._PLUGINS] = entry._NoPlugins(entry._PLUGINS);"
        "from pydantic.plugin._loader import get_plugins; assert get_plugins() == ();"
        "from pydantic.plugin._loader import PYDANTIC_ENTRY_POINT_GROUP;"
        "from pydantic.plugin import _loader; assert _loader.__file__"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_floors_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
