"""The documents keep their word: commands run and exit as they say, TOML loads, JSON parses, links lead somewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from edge_runtime.run.config import load_config

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATIENCE_S = 120
_BLOCK = re.compile(r"^```(?P<kind>\w*)(?P<note>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXITS = re.compile(r"#\s*exits (\d+)\s*$")


class Block(NamedTuple):
    """A fenced block: where it stands, its kind, what follows the kind, its text."""

    place: str
    kind: str
    note: str
    text: str


def _blocks() -> list[Block]:
    found = []
    for path in DOCUMENTS:
        if path.name == "bindings.md":
            continue  # tests/run/test_bindings_document.py runs each block of it, under the one before
        text = path.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(f"{path.relative_to(ROOT)}:{line}", match["kind"], match["note"].strip(), match["text"]))
    return found


def _of_kind(kind: str) -> list[pytest.param]:
    # Blocks that build on each other are run in their order, by test_tutorial and test_mqtt_page.
    return [
        pytest.param(block, id=block.place)
        for block in _blocks()
        if block.kind == kind and not block.note and not block.place.startswith(("docs/tutorial.md", "docs/mqtt.md"))
    ]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a checkout has; its setup finds everything done, since the tests' own environment is there."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("edge_runtime", "bundles", "examples", "device_profiles", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "state"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "scripts/setup").write_text("#!/bin/sh\n")
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


def _environment(checkout: Path) -> dict[str, str]:
    return os.environ | {
        "HOME": str(checkout / "home"),
        "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(checkout),
        "PYTHONWARNINGS": "error",
    }


@pytest.mark.parametrize("block", _of_kind("sh"))
def test_commands_exit_as_the_text_says(block: Block, checkout: Path) -> None:
    for line in filter(None, block.text.splitlines()):
        stated = _EXITS.search(line)
        command = line.replace("/tmp/", f"{checkout}/tmp/")  # noqa: S108 -- the reader's, not the test's
        ran = subprocess.run(
            ["sh", "-c", command],
            cwd=checkout,
            env=_environment(checkout),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == (int(stated[1]) if stated else 0), f"{line}\n{ran.stderr}"
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("block", _of_kind("python"))
def test_programs_run(block: Block, checkout: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=checkout,
        env=_environment(checkout),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr
    if block.place.startswith("README"):
        assert f"# {float(ran.stdout.split()[0]):.2f} Cel" in block.text


@pytest.mark.parametrize("block", _of_kind("toml"))
def test_toml_loads(block: Block, tmp_path: Path) -> None:
    read = tomllib.loads(block.text)
    if read.get("schema") == "edge-runtime/device/1":
        (tmp_path / "device.toml").write_text(block.text)
        load_config(tmp_path / "device.toml")


@pytest.mark.parametrize("block", _of_kind("json"))
def test_json_parses(block: Block) -> None:
    for line in block.text.splitlines():
        json.loads(line)


def test_no_block_stands_aside_unnoticed() -> None:
    aside = [(block.place.partition(":")[0], block.kind, block.note) for block in _blocks() if block.note]
    assert aside == [
        ("README.md", "sh", "not run by the tests: it needs the network"),
        ("docs/contract.md", "python", "not run by the tests: the network is yours"),
        ("docs/contract.md", "python", "not run by the tests: skl2onnx is yours"),
        ("docs/device_toml.md", "toml", "drop-in"),  # tests/spec/test_device_config.py lays it over another
    ]
    assert {block.kind for block in _blocks()} <= {"", "sh", "python", "toml", "json"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    text = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_answer_shown_is_the_one_the_demonstration_gives(checkout: Path) -> None:
    shown = next(json.loads(block.text) for block in _blocks() if block.kind == "json" and "README" in block.place)
    ran = subprocess.run(
        ["edge-runtime", "demo"],
        cwd=checkout,
        env=_environment(checkout),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    first = json.loads(ran.stdout.splitlines()[0])
    # The id hangs on the bundle's digest, the run on chance.
    anew = {"id": "", "run": ""}
    assert first | anew == shown | anew
    told = ran.stderr.splitlines()
    for line in (ROOT / "README.md").read_text().splitlines():
        if line.startswith(("temperature in ", "done: 169", "  air_temperature: [degF]", "  station_pressure: [in")):
            assert any(one.startswith(line.removesuffix("...").rstrip()) for one in told), line


def test_the_errors_shown_are_those_the_build_measured() -> None:
    metrics = json.loads((ROOT / "bundles/frost.build.json").read_text())["metrics"]["cpu_int8"]["low"]
    bundle, float32 = f"{metrics['mae_bundle']:.2f}", f"{metrics['mae_float32']:.2f}"
    shown = f"the frost bundle (int8) is {bundle} °C off on average, the float32 model {float32};"
    assert shown in (ROOT / "README.md").read_text(encoding="utf-8")
