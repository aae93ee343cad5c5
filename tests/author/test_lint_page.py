"""docs/lint.md is what the code says; `python -m tests.author.test_lint_page` writes it anew."""

import re
from pathlib import Path

from edge_runtime.author.lint import RULES, page

PAGE = Path(__file__).parents[2] / "docs" / "lint.md"


def test_the_page_is_the_codes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.author.test_lint_page"


def test_ids_are_kebab_case_and_every_rule_says_all_three() -> None:
    for name, rule in RULES.items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+|opset|qoperator", name)
        assert rule.severity in ("error", "warning")
        for text in (rule.what, rule.why, rule.fix):
            assert len(text) > 20
            assert "\n" not in text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
