"""docs/incidents.md lists each incident once, with a test that is there, and each test stands in it."""

import ast
import re
from pathlib import Path

from edge_runtime.author.lint import RULES
from edge_runtime.run.causes import STAGES
from edge_runtime.spec.reading import Rejection
from tests.rig.bundles import ROOT

_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_REASONS = set(re.findall(r"\w+", (Rejection.__doc__ or ""))) | {"not_finite_output", "unknown_label"}
_KEYS = {"when_missing"}


def _rows() -> list[tuple[str, ...]]:
    return _ROW.findall((ROOT / "docs/incidents.md").read_text(encoding="utf-8"))


def _tests() -> set[str]:
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and "incident_" in node.name}
    return {name for name in found if name.startswith("test_")}


def test_all_twenty_nine_are_there_in_order() -> None:
    assert [int(row[0]) for row in _rows()] == list(range(1, 30))
    assert all(re.search(r"[\w.-]+/[\w.-]+#\d+", row[2]) for row in _rows())


def test_each_has_its_tests_and_each_test_its_row() -> None:
    named = {name: int(row[0]) for row in _rows() for name in re.findall(r"`(test_\w+)`", row[5])}
    assert set(named) == _tests()
    assert all(name.startswith(f"test_incident_{number:02}_") for name, number in named.items())


def test_what_is_said_to_catch_it_is_a_check_a_rule_or_a_reason() -> None:
    for row in _rows():
        for word in re.findall(r"`([\w-]+)`", row[4]):
            assert word in set(STAGES) | set(RULES) | _REASONS | _KEYS, (row[0], word)
