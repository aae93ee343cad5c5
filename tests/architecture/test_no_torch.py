"""torch is the author's business: not installed, not locked, not imported."""

import ast
import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for folder in ("edge_runtime", "scripts", "packaging", "tests") for path in (ROOT / folder).rglob("*.py")
)


def is_torch(name: str) -> bool:
    return re.match(r"torch|pytorch", name, re.IGNORECASE) is not None


def imports(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_not_installed() -> None:
    assert [name for found in distributions() if is_torch(name := found.metadata["Name"])] == []


def test_not_in_the_lock() -> None:
    locked = [package["name"] for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]]
    assert "numpy" in locked
    assert [name for name in locked if is_torch(name)] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_not_imported(path: Path) -> None:
    assert [name for name in imports(path.read_text()) if is_torch(name)] == []


def test_an_import_would_be_seen() -> None:
    assert imports("def f():\n    import torch.nn\n    from torchvision import io") == {"torch.nn", "torchvision"}
