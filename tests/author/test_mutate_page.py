"""docs/mutants.md is what the code says; `python -m tests.author.test_mutate_page` writes it anew."""

import re
from pathlib import Path

from edge_runtime.author.mutate_kinds import KINDS, page

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"


def test_the_page_is_the_codes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.author.test_mutate_page"


def test_names_are_kebab_case_and_stand_once() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(?:-[a-z0-9]+)*", name) for name in names)
    assert all(len(kind.what) >= 15 for kind in KINDS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
