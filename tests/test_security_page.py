"""SECURITY.md against the tests: each that it names is there, and each parser it lists is fuzzed."""

import ast
import re
from pathlib import Path

import pytest

from tests.proof.test_fuzz_inputs import COUNT, COUNT_LONG, PARSERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    part = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")][1:]


def _tests(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def test_it_names_many() -> None:
    assert len(NAMED) > 50


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_every_test_it_names_is_there(path: str) -> None:
    assert {name for one, name in NAMED if one == path} <= _tests(path)


def test_every_line_has_a_test_behind_it() -> None:
    rows = _rows("What is bounded, and by which test")
    assert len(rows) > 25
    assert [row[0] for row in rows if "::" not in row[-1]] == []


def test_the_table_of_parsers_is_what_is_fuzzed() -> None:
    rows = _rows("Where each parser is fuzzed")
    listed = [name for row in rows for name in re.findall(r"`(.+?)`", row[-1])]
    assert listed == [one.name for one in PARSERS]
    assert f"{COUNT:,} a parser in every run and {3 * COUNT_LONG:,} under" in PAGE
